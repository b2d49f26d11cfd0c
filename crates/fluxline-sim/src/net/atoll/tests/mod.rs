//! Closed forms, a brute-force model, errors, faults and deadlocks.

mod closed;
mod faults;
mod obvious;
mod wirings;

use fluxline_core::random::{Draw, test_count, test_seed};

use super::*;
use crate::core::interconnect::{Class, Interconnect};
use crate::{Agenda, Entry as _, Fingerprint, Instant};

/// An entry of the agenda: of the network, or the end of a run.
#[derive(Clone, Copy, Debug)]
enum Due {
    Network(Entry),
    Pause,
}

impl From<Entry> for Due {
    fn from(entry: Entry) -> Due {
        Due::Network(entry)
    }
}

/// A network with its agenda, and what has come out of it.
struct Bench {
    network: Network<Parcel>,
    agenda: Agenda<Due>,
    fingerprint: Fingerprint,
    /// The number, target and time of each message that arrived.
    arrived: Vec<Arrival>,
    done: Vec<u64>,
    lost: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    number: u64,
    node: u32,
    at: Instant,
}

impl Bench {
    fn new(config: Config) -> Bench {
        Bench {
            network: Network::new(config).expect("a network"),
            agenda: Agenda::default(),
            fingerprint: Fingerprint::default(),
            arrived: Vec::new(),
            done: Vec::new(),
            lost: Vec::new(),
        }
    }

    fn send(&mut self, node: u32, parcel: Parcel) -> u64 {
        self.network.send(node, parcel, &mut self.agenda).expect("room").0
    }

    /// Handles the entries that are due by `until`, which is then the time.
    fn run(&mut self, until: Instant) {
        if until < Instant::NEVER {
            self.agenda.schedule(until, Due::Pause);
        }
        while let Some(due) = self.agenda.take(until) {
            let Due::Network(entry) = due else { continue };
            self.fingerprint.add(self.agenda.now(), entry.component(), entry.kind());
            self.network.handle(entry, &mut self.agenda);
            self.follow();
        }
    }

    fn follow(&mut self) {
        while let Some(report) = self.network.next_report() {
            match report {
                Report::Received { node, class: _ } => {
                    let parcel = self.network.take(node, Class::Request, &mut self.agenda);
                    let number = parcel.expect("a parcel").number;
                    let at = self.agenda.now();
                    self.arrived.push(Arrival { number, node, at });
                }
                Report::Done { send, .. } => self.done.push(send.0),
                Report::Lost { send, .. } => self.lost.push(send.0),
                Report::Dropped { .. } | Report::Space { .. } => {}
            }
        }
    }

    fn check(&self) {
        self.network.audit().expect("each packet is in one place");
    }
}

fn line(nodes: u32) -> Wiring {
    Wiring::grid(Grid { columns: nodes, rows: 1, is_torus: false }).expect("a line")
}

fn torus(columns: u32, rows: u32) -> Wiring {
    Wiring::grid(Grid { columns, rows, is_torus: true }).expect("a torus")
}

fn parcel(target: u32, bytes: u32, number: u64) -> Parcel {
    Parcel { target, port: 0, bytes, number }
}

/// Random nodes and cables: at first a line, so that all nodes are joined.
fn random_wiring(draw: &mut Draw) -> Wiring {
    let side = |draw: &mut Draw| 2 + draw.below(3) as u32;
    let grid = |draw: &mut Draw, is_torus| Grid { columns: side(draw), rows: side(draw), is_torus };
    match draw.below(5) {
        0 => Wiring::grid(grid(draw, false)),
        1 => Wiring::grid(grid(draw, true)),
        2 => Wiring::ring(side(draw) + 1),
        3 => Wiring::full(side(draw) + 1),
        _ => {
            let nodes = 4 + draw.below(8) as u32;
            let mut cables: Vec<Cable> = (1..nodes).map(|to| Cable { from: to - 1, to }).collect();
            for _ in 0..nodes {
                let cable = Cable { from: draw.below(nodes.into()) as u32, to: 0 };
                let cable = Cable { to: draw.below(nodes.into()) as u32, ..cable };
                cables.push(cable);
                if Wiring::of(nodes, &cables).is_err() {
                    cables.pop();
                }
            }
            Wiring::of(nodes, &cables)
        }
    }
    .expect("a wiring")
}
