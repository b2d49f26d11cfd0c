//! A push ring that producers on Ethernet fill, one at a time: see [`RingServer`].

use std::time::Duration;

use fluxline::clock;
use fluxline::landing::{ReadUp, RingEvent, RingExport, RingServer, Turn, landing_ring};
use fluxline::roce::{RoceNode, random_key};
use fluxline_core::endpoint::EndpointConfig;
use fluxline_core::fabric::{Key, Name};
use fluxline_core::port::Port;
use fluxline_daq::experiment::{PushRing, Roce, Source};
use serde_json::{Map, Value, json};

use super::roce::{bind, config_of};
use super::{Feed, InputEnd, OpenInput};
use crate::error::Error;
use crate::monitor::Monitor;
use crate::ring::{InputRing, Records};
use crate::stop::Stop;

/// Pause at an idle connection.
const LOOK: Duration = Duration::from_millis(20);
/// Pause at a connection whose records are being read: its producer may wait for room.
const NAP: Duration = Duration::from_micros(100);
/// Connections at a time: one producer, and some that have not shown the key yet.
const CONNECTIONS_MAX: u32 = 32;
/// Of these, from one address.
const PER_ADDRESS_MAX: u32 = 8;
/// Producers that are listed in run.json one by one; a producer that comes and goes makes no long
/// list.
const PRODUCERS_LISTED: usize = 64;

/// A ring that is exported, and its producer.
struct PushFeed {
    name: String,
    node: RoceNode,
    server: RingServer,
    producers: Vec<Value>,
    /// Ends the reading of the ring.
    end: Stop,
}

/// Binds the port and exports the ring.
pub(super) fn open(source: &Source, roce: &Roce, push: &PushRing) -> Result<OpenInput, Error> {
    let name = source.name.clone();
    let wrong =
        |error: &dyn std::fmt::Display| Error::link(format_args!("source `{name}`: {error}."));
    let region = Name::parse(&push.region).map_err(|error| wrong(&error))?;
    let (key, drawn_key) = key_of(&name, push)?;
    let port = bind(&name, roce)?;
    let (address, warning) = (port.local_address(), port.buffer().warning());
    let allowed =
        roce.allowed().map_err(|text| Error::input(format_args!("source `{name}`: {text}")))?;
    let config = EndpointConfig {
        allowed,
        endpoints_max: CONNECTIONS_MAX,
        endpoints_per_address_max: PER_ADDRESS_MAX,
        ..config_of(&name)?
    };
    let mut node = RoceNode::on(port, config);
    let (keeper, records) = landing_ring(roce.ring_bytes).map_err(|error| wrong(&error))?;
    let export = RingExport { name: region, key, size: roce.ring_bytes };
    let server = RingServer::new(node.node(), keeper, export).map_err(|error| wrong(&error))?;
    let end = Stop::default();
    let records = Records::new(records, end.clone(), roce.ring_bytes);
    let ring = InputRing::Remote(Box::new(records));
    let feed = PushFeed { name, node, server, producers: Vec::new(), end };
    let input = OpenInput::new(source, ring, roce.ring_bytes, feed);
    let warnings = warning.into_iter().collect();
    Ok(OpenInput { listens: vec![format!("roce://{address}")], warnings, drawn_key, ..input })
}

impl Feed for PushFeed {
    /// Takes puts and gives room back until the run is over.
    fn run(mut self: Box<Self>, stop: &Stop, monitor: &Monitor) -> InputEnd {
        while !stop.is_over() {
            let turn = self.server.turn(self.node.node(), clock::monotonic());
            self.note_events(monitor);
            let rest = match turn {
                Turn::Again => continue, // the next poll sends it
                Turn::Soon => NAP,
                Turn::Idle => LOOK,
            };
            if let Err(error) = self.node.wait(rest) {
                monitor.note(Some(format!("source `{}`: {error}", self.name)));
                break;
            }
        }
        self.server.stop(self.node.node());
        self.note_events(monitor);
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
}

impl PushFeed {
    fn note_events(&mut self, monitor: &Monitor) {
        while let Some(event) = self.server.event() {
            let source = &self.name;
            match event {
                RingEvent::Joined { .. } => {}
                RingEvent::Left { how, .. } if how.is_orderly() => {}
                RingEvent::Left { producer, how } => {
                    monitor.note(Some(format!("source `{source}`: producer `{producer}` {how}")));
                }
                RingEvent::Read(producer) => self.list(*producer),
                RingEvent::Stranger { address } => {
                    let from = address.map_or(String::new(), |of| format!(" from {}", of.ip()));
                    monitor.note(Some(format!(
                        "source `{source}`: a connection{from} did not show the ring's key in \
                         time and was ended"
                    )));
                }
            }
        }
    }

    /// Keeps the findings about a producer for run.json.
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

/// Returns the ring's key, and once more if it was drawn because the experiment has none.
fn key_of(name: &str, push: &PushRing) -> Result<(Key, Option<u64>), Error> {
    if let Some(key) = push.key {
        return Ok((Key(key), None));
    }
    let key =
        random_key().map_err(|error| Error::failed(format_args!("source `{name}`: {error}.")))?;
    Ok((key, Some(key.0)))
}
