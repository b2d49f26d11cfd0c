//! Exploration, routes, faults, deadlocks and delivery.

mod explore;

use fluxline_core::random::{Draw, test_seed};

use super::trial::{Blow, Traffic, Trial};
use super::*;
use crate::Duration;
use crate::net::atoll::{Cable, Grid, Wiring};

fn us(us: u64) -> Duration {
    Duration::from_us(us)
}

fn traffic(seed: u64) -> Traffic {
    Traffic { bytes: 256, every: us(50), seed }
}

fn torus(columns: u32, rows: u32) -> Wiring {
    Wiring::grid(Grid { columns, rows, is_torus: true }).expect("a torus")
}

fn grid(columns: u32, rows: u32) -> Wiring {
    Wiring::grid(Grid { columns, rows, is_torus: false }).expect("a grid")
}

fn trial(wiring: Wiring, settings: Settings) -> Trial {
    Trial::new(Config::new(wiring), settings, traffic(1)).expect("a network")
}

/// Random nodes and cables.
fn random_wiring(draw: &mut Draw, nodes: u32) -> Wiring {
    let mut cables: Vec<Cable> = Vec::new();
    for _ in 0..draw.below(2 * u64::from(nodes)) + u64::from(nodes) {
        let (from, to) = (draw.below(nodes.into()) as u32, draw.below(nodes.into()) as u32);
        cables.push(Cable { from, to });
        if Wiring::of(nodes, &cables).is_err() {
            cables.pop();
        }
    }
    Wiring::of(nodes, &cables).expect("checked")
}

/// Returns the manager of the part of the network with a node.
fn manager_of(trial: &Trial, node: u32) -> &Manager {
    let groups = trial.groups();
    let mut all = trial.network.managers();
    let found = all.find(|&(at, _)| groups[at as usize] == groups[node as usize]);
    found.expect("a manager").1
}
