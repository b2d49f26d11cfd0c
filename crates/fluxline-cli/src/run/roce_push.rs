//! A push ring that producers on Ethernet fill, one at a time: see [`RingServer`].

use std::time::Duration;

use fluxline::clock;
use fluxline::landing::{ReadUp, RingEvent, RingExport, RingServer, Turn, landing_ring};
use fluxline::roce::{RoceNode, random_key};
use fluxline_core::endpoint::EndpointConfig;
use fluxline_core::fabric::{Key, Name};
use fluxline_core::port::Port;
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
/// Connections at a time: one producer, and some that have not shown the key yet.
const CONNECTIONS_MAX: u32 = 32;
/// Of these, from one address.
const PER_ADDRESS_MAX: u32 = 8;
/// Producers that run.json has one by one; a producer that comes and goes makes no long list.
const PRODUCERS_LISTED: usize = 64;

/// A ring that is exported, and whoever fills it.
pub struct PushInput {
    name: String,
    node: RoceNode,
    server: RingServer,
    producers: Vec<Value>,
    end: Stop,
    address: String,
    warning: Option<String>,
    drawn_key: Option<u64>,
}

impl PushInput {
    /// Binds the port and exports the ring; the readout gets the records.
    pub fn open(name: &str, roce: &Roce, push: &PushRing) -> Result<(PushInput, Records), Failure> {
        let wrong = |error: &dyn std::fmt::Display| {
            Failure::link(format_args!("source `{name}`: {error}."))
        };
        let region = Name::parse(&push.region).map_err(|error| wrong(&error))?;
        let (key, drawn_key) = key_of(name, push)?;
        let port = bind(name, roce)?;
        let (address, warning) = (port.local_address().to_string(), port.buffer().warning());
        let allowed = roce
            .allowed()
            .map_err(|text| Failure::input(format_args!("source `{name}`: {text}")))?;
        let mut node = RoceNode::on(
            port,
            EndpointConfig {
                allowed,
                endpoints_max: CONNECTIONS_MAX,
                endpoints_per_address_max: PER_ADDRESS_MAX,
                ..config_of(name)?
            },
        );
        let (keeper, records) = landing_ring(roce.ring_bytes).map_err(|error| wrong(&error))?;
        let export = RingExport { name: region, key, size: roce.ring_bytes };
        let server = RingServer::new(node.node(), keeper, export).map_err(|error| wrong(&error))?;
        let end = Stop::never();
        let ring = RecordRing::Remote(records);
        let records = Records::new(ring, end.clone(), roce.ring_bytes);
        let (name, producers) = (name.to_owned(), Vec::new());
        let input = PushInput { name, node, server, producers, end, address, warning, drawn_key };
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

    /// The ring's key, where the experiment has none: its producer must be told.
    pub fn drawn_key(&self) -> Option<u64> {
        self.drawn_key
    }

    /// Takes puts and gives room back until the run is over.
    pub fn serve(mut self, stop: &Stop, live: &Live) -> InputEnd {
        while !stop.is_over() {
            let turn = self.server.turn(self.node.node(), clock::monotonic());
            self.note_events(live);
            let rest = match turn {
                Turn::Again => continue, // the next poll sends it
                Turn::Soon => NAP,
                Turn::Idle => LOOK,
            };
            if let Err(error) = self.node.wait(rest) {
                live.note(Some(format!("source `{}`: {error}", self.name)));
                break;
            }
        }
        self.server.stop(self.node.node());
        self.note_events(live);
        self.end.now();
        let (server, node) = (self.server.counters(), self.node.node());
        let mut end = InputEnd::default();
        end.remote.puts_refused = self.server.keeper().overrun();
        end.remote.producers_gone = server.producers_gone;
        end.remote.rings_renewed = server.rings_renewed;
        end.remote.keys_refused = node.counters().keys_wrong;
        end.remote.connections_refused =
            server.strangers + node.counters().refused + node.counters().not_allowed;
        end.counters.socket_dropped = node.port().counters().frames_dropped;
        end.connections = Some(self.producers.into());
        end.keeper = Some(self.server.into_keeper());
        end
    }

    fn note_events(&mut self, live: &Live) {
        while let Some(event) = self.server.event() {
            let source = &self.name;
            match event {
                RingEvent::Joined { .. } => {}
                RingEvent::Left { how, .. } if how.is_orderly() => {}
                RingEvent::Left { producer, how } => {
                    live.note(Some(format!("source `{source}`: producer `{producer}` {how}")));
                }
                RingEvent::Read(producer) => self.list(*producer),
                RingEvent::Stranger { address } => {
                    let from = address.map_or(String::new(), |of| format!(" from {}", of.ip()));
                    live.note(Some(format!(
                        "source `{source}`: a connection{from} did not show the ring's key in \
                         time and was ended"
                    )));
                }
            }
        }
    }

    /// Keeps what is known of a producer for run.json.
    fn list(&mut self, producer: ReadUp) {
        if self.producers.len() >= PRODUCERS_LISTED {
            return;
        }
        let ReadUp { producer, how, records, counters } = producer;
        let rows = counters.map(|counters| {
            let rows = counters.rows().map(|(row, value)| (row.name.to_string(), value.into()));
            Value::Object(Map::from_iter(rows))
        });
        let how = how.to_string();
        self.producers.push(json!({
            "producer": producer, "ended": how, "records": records, "counters": rows,
        }));
    }
}

/// The ring's key, and once more if it was drawn because the experiment has none.
fn key_of(name: &str, push: &PushRing) -> Result<(Key, Option<u64>), Failure> {
    if let Some(key) = push.key {
        return Ok((Key(key), None));
    }
    let key =
        random_key().map_err(|error| Failure::failed(format_args!("source `{name}`: {error}.")))?;
    Ok((key, Some(key.0)))
}
