//! The management of ATOLL networks: exploration, faults under load, deadlocks, nodes with a
//! `Fabric`.

use std::collections::BTreeSet;

use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_sim::core::interconnect::Interconnect;
use fluxline_sim::net::atoll::manager::{Algorithm, Event, NodeState, Settings, Switch};
use fluxline_sim::net::atoll::{Cable, Config, Grid, Wiring};
use fluxline_sim::{Duration, Instant};
use trial::{Blow, Delivery, SendEnd, Traffic, Trial};

mod deadlocks;
mod explore;
mod fabric;
mod faults;
mod trial;

fn us(us: u64) -> Duration {
    Duration::from_us(us)
}

fn torus(columns: u32, rows: u32) -> Wiring {
    Wiring::grid(Grid { columns, rows, is_torus: true }).expect("a torus")
}

fn grid(columns: u32, rows: u32) -> Wiring {
    Wiring::grid(Grid { columns, rows, is_torus: false }).expect("a grid")
}

fn trial(wiring: Wiring, settings: Settings) -> Trial {
    let traffic = Traffic { bytes: 256, every: us(50), seed: 1 };
    Trial::new(Config::new(wiring), settings, traffic).expect("a network")
}

/// A network whose nodes have routes and send.
fn running(wiring: Wiring, settings: Settings) -> Trial {
    let mut trial = trial(wiring, settings);
    assert!(trial.settle(us(60_000)), "no routes");
    trial.begin_sending();
    trial.run_for(us(2_000));
    trial
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

/// Lets all messages end, and returns them. Each has arrived at most once.
fn finish(trial: &mut Trial) -> Vec<Delivery> {
    trial.end_sending();
    assert!(trial.finish(us(4_000_000)), "messages without an end");
    trial.network.conserve().expect("laws hold");
    let all = trial.deliveries().to_vec();
    assert!(all.iter().all(|of| of.arrivals <= 1), "a message arrived twice");
    let done = all.iter().filter(|of| of.end == Some(SendEnd::Done));
    assert!(done.clone().all(|of| of.arrivals == 1), "done, but not there");
    all
}

/// The switches of routes so far.
fn switches(trial: &Trial) -> Vec<Switch> {
    let of = |event: &Event| match event {
        Event::Installed { switch, .. } => Some(*switch),
        _ => None,
    };
    trial.network.log().filter_map(|record| of(&record.event)).collect()
}
