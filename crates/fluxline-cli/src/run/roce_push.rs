//! A push ring that a producer on Ethernet fills: it connects, imports the ring and a word goes
//! back that says how much was read.

use std::time::Duration;

use fluxline::landing::{RingKeeper, landing_ring};
use fluxline::roce::RoceNode;
use fluxline_proto::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Local, Name, Reliability, RemoteId, Rights, Status,
    Target, Work,
};
use fluxline_proto::port::Port;
use serde_json::{Map, Value, json};

use super::end::InputEnd;
use super::live::Live;
use super::ring::{RecordRing, Records};
use super::roce::{bind, config_of};
use super::stop::Stop;
use crate::experiment::{PushRing, Roce};
use crate::failure::Failure;

/// How long an idle connection is left alone.
const LOOK: Duration = Duration::from_millis(20);
/// And one whose records are being read: its producer may wait for room.
const NAP: Duration = Duration::from_micros(100);
/// The producer's region for what was read; its key is the ring's.
const CREDIT: &str = "credit";

/// A ring that is exported, and whoever fills it.
pub struct PushInput {
    name: String,
    node: RoceNode,
    keeper: RingKeeper,
    size: u64,
    credit: (Name, Key),
    producer: Option<Producer>,
    gone: u64,
    connections: Vec<Value>,
    end: Stop,
    address: String,
    warning: Option<String>,
}

/// The producer that is connected.
struct Producer {
    name: String,
    endpoint: EndpointId,
    /// Where the word is that says how much was read.
    credit: Option<RemoteId>,
    given: u64,
    records_before: u64,
}

impl PushInput {
    /// Binds the port and exports the ring; the readout gets the records.
    pub fn open(name: &str, roce: &Roce, push: &PushRing) -> Result<(PushInput, Records), Failure> {
        let wrong = |error: &dyn std::fmt::Display| {
            Failure::link(format_args!("source `{name}`: {error}."))
        };
        let region_name = Name::parse(&push.region).map_err(|error| wrong(&error))?;
        let credit = (Name::parse(CREDIT).map_err(|error| wrong(&error))?, Key(push.key));
        let port = bind(name, roce)?;
        let (address, warning) = (port.local_address().to_string(), port.buffer().warning());
        let mut node = RoceNode::on(port, config_of(name)?);
        let (keeper, records) = landing_ring(roce.ring_bytes).map_err(|error| wrong(&error))?;
        let region = node.node().adopt(keeper.memory()).map_err(|error| wrong(&error))?;
        let grant = Grant { rights: Rights::PUT, key: Key(push.key) };
        node.export(region, region_name, grant).map_err(|error| wrong(&error))?;
        let end = Stop::never();
        let ring = RecordRing::Remote(records);
        let records = Records::new(ring, end.clone(), roce.ring_bytes);
        let (name, size) = (name.to_owned(), roce.ring_bytes);
        let (producer, gone, connections) = (None, 0, Vec::new());
        let input = PushInput {
            name,
            node,
            keeper,
            size,
            credit,
            producer,
            gone,
            connections,
            end,
            address,
            warning,
        };
        Ok((input, records))
    }

    /// Address and port that it listens on.
    pub fn address(&self) -> String {
        self.address.clone()
    }

    /// A buffer that is smaller than asked.
    pub fn warning(&self) -> Option<String> {
        self.warning.clone()
    }

    /// Takes puts and gives room back until the run is over.
    pub fn serve(mut self, stop: &Stop, live: &Live) -> InputEnd {
        while !stop.is_over() {
            while let Some(what) = self.node.told() {
                self.hear(what, live);
            }
            self.look_at_ring(live);
            if self.give_back() {
                continue; // the next poll sends it
            }
            let _ = self.node.wait(if self.is_waited_for() { NAP } else { LOOK });
        }
        self.end.now();
        self.note_connection();
        let mut end = InputEnd::default();
        end.remote.puts_refused = self.keeper.overrun();
        end.remote.producers_gone = self.gone;
        end.counters.socket_dropped = self.node.node().port().counters().frames_dropped;
        end.connections = Some(std::mem::take(&mut self.connections).into());
        end.keeper = Some(self.keeper);
        end
    }

    fn note(&self, live: &Live, text: std::fmt::Arguments<'_>) {
        live.note(Some(format!("source `{}`: {text}", self.name)));
    }

    fn is_of_producer(&self, endpoint: EndpointId) -> bool {
        self.producer.as_ref().is_some_and(|producer| producer.endpoint == endpoint)
    }

    fn hear(&mut self, what: Completion, live: &Live) {
        match what {
            Completion::Connected { endpoint, peer, reliability } => {
                self.connected(endpoint, peer, reliability, live);
            }
            Completion::Imported { remote, status: Status::Done, .. } => {
                if let Some(producer) = &mut self.producer {
                    producer.credit = Some(remote);
                }
            }
            Completion::Imported { status, .. } => {
                if let Some(producer) = self.producer.take() {
                    self.note(
                        live,
                        format_args!(
                            "producer `{}` was refused, for its region `{CREDIT}` could not be \
                         imported: {status}",
                            producer.name
                        ),
                    );
                    let _ = self.node.disconnect(producer.endpoint);
                }
            }
            Completion::Broken { endpoint, status } if self.is_of_producer(endpoint) => {
                self.lost(status, live);
            }
            _ => {}
        }
    }

    fn connected(&mut self, id: EndpointId, peer: String, kind: Reliability, live: &Live) {
        let problem = if self.producer.is_some() {
            Some("another one is connected")
        } else if kind != Reliability::Reliable {
            Some("it asked for an unreliable connection")
        } else if !self.keeper.restart() {
            Some("the ring still holds records of the one before, or is broken")
        } else {
            None
        };
        let (name, key) = self.credit.clone();
        if problem.is_none() && self.node.import(id, name, key).is_ok() {
            let records_before = self.keeper.records();
            let (endpoint, credit, given) = (id, None, 0);
            let name = peer;
            self.producer = Some(Producer { name, endpoint, credit, given, records_before });
            return;
        }
        // Before it can import anything: its next frame is not read yet.
        let _ = self.node.disconnect(id);
        let why = problem.unwrap_or("its connection broke");
        self.note(live, format_args!("producer `{peer}` was refused: {why}"));
    }

    /// The producer's connection is over.
    fn lost(&mut self, status: Status, live: &Live) {
        self.note_connection();
        let Some(producer) = self.producer.take() else { return };
        if status != Status::Disconnected {
            self.gone += 1;
            self.note(
                live,
                format_args!(
                    "producer `{}` vanished ({status}); all that it had published is kept",
                    producer.name
                ),
            );
        }
    }

    /// A ring that holds what cannot be ends its producer.
    fn look_at_ring(&mut self, live: &Live) {
        if !self.keeper.is_broken() {
            return;
        }
        if let Some(producer) = self.producer.take() {
            let _ = self.node.disconnect(producer.endpoint);
            self.gone += 1;
            self.note(
                live,
                format_args!(
                    "producer `{}` wrote what no ring can hold, and was disconnected",
                    producer.name
                ),
            );
        }
    }

    /// Tells the producer what was read, once per quarter of the ring or when all is read; whether
    /// there was something to tell.
    fn give_back(&mut self) -> bool {
        let Some(producer) = &mut self.producer else { return false };
        let Some(remote) = producer.credit else { return false };
        let head = self.keeper.head();
        let behind = head.saturating_sub(producer.given);
        if behind == 0 || (behind < self.size / 4 && self.keeper.unread_bytes() > 0) {
            return false;
        }
        let word = head.to_le_bytes();
        let (from, to) = (Local::Bytes(&word), Target { remote, offset: 0 });
        let put = Work::Put { from, to, notify: None, complete_at: None };
        // A full queue only delays it.
        let posted = self.node.post(producer.endpoint, 0, put).is_ok();
        if posted {
            producer.given = head;
        }
        posted
    }

    /// Whether the producer may wait for room that the readout makes without a frame arriving.
    fn is_waited_for(&self) -> bool {
        self.producer.as_ref().is_some_and(|producer| {
            self.keeper.unread_bytes() > 0 || self.keeper.head() != producer.given
        })
    }

    /// Keeps what is known of the producer for run.json.
    fn note_connection(&mut self) {
        let Some(producer) = &self.producer else { return };
        let counters = self.node.node().connection_counters(producer.endpoint);
        let rows = counters.map(|counters| {
            let rows = counters.rows().map(|(row, value)| (row.name.to_string(), value.into()));
            Value::Object(Map::from_iter(rows))
        });
        // A producer that comes and goes does not make the list long.
        if self.connections.len() < 64 {
            let records = self.keeper.records() - producer.records_before;
            self.connections.push(json!({
                "producer": producer.name, "records": records, "counters": rows,
            }));
        }
    }
}
