//! What managers find, compared with the true wiring.

use super::*;
use crate::net::atoll::wiring::{LINKS, NONE};

/// Compares the map of a node's manager with the living part of the wiring.
fn compare(trial: &Trial, node: u32) {
    let groups = trial.groups();
    let map = manager_of(trial, node).map();
    let wiring = &trial.network.network().config().wiring;
    let mut found = 0;
    for (id, of) in (0..).zip(map.nodes()) {
        let at = trial.network.node_of(of.serial).expect("a chip of this network");
        let is_near = groups[at as usize] == groups[node as usize];
        assert_eq!(of.state == NodeState::Present, is_near, "node {at}");
        if !is_near {
            continue;
        }
        found += 1;
        for port in 0..LINKS {
            let end = wiring.end_of(at, port);
            let is_up = end != NONE
                && trial.network.network().is_link_up(at, port)
                && groups[(end / LINKS) as usize] == groups[node as usize];
            let known = of.ends[port as usize].map(|end| {
                let serial = map.nodes()[end.node as usize].serial;
                trial.network.node_of(serial).expect("a chip") * LINKS + u32::from(end.port)
            });
            assert_eq!(known, is_up.then_some(end), "node {at} port {port}, id {id}");
        }
    }
    let near = groups.iter().filter(|&&group| group == groups[node as usize]).count();
    assert_eq!(found, near, "all nodes that can be reached are on the map");
}

#[test]
fn a_manager_finds_the_true_wiring_by_probes_alone() {
    let seed = test_seed!(21);
    let mut draw = Draw::new(seed);
    for round in 0..fluxline_core::random::test_count!(25) {
        let nodes = 2 + draw.below(63) as u32;
        let wiring = random_wiring(&mut draw, nodes);
        let manager = draw.below(nodes.into()) as u32;
        let settings = Settings { manager, ..Settings::default() };
        let mut trial = trial(wiring, settings);
        // Dead cables and nodes from the start.
        for _ in 0..draw.below(4) {
            let (node, port) = (draw.below(nodes.into()) as u32, draw.below(4) as u32);
            trial.strike(Blow::Cut { node, port });
        }
        for _ in 0..draw.below(3) {
            let node = draw.below(nodes.into()) as u32;
            if node != manager {
                trial.strike(if draw.chance(0.5) { Blow::Power(node) } else { Blow::Host(node) });
            }
        }
        println!("round {round}: {nodes} nodes, manager at {manager}");
        trial.run_for(us(60_000));
        assert!(trial.network.is_settled(), "{:?}", trial.network.log().last());
        compare(&trial, manager);
        trial.network.conserve().expect("laws hold");
    }
}

#[test]
fn a_torus_is_explored_with_a_probe_for_each_link() {
    let mut trial = trial(torus(4, 4), Settings::default());
    assert!(trial.settle(us(20_000)));
    compare(&trial, 0);
    let explored = trial.network.log().find_map(|record| match record.event {
        Event::Explored { nodes, links, probes } => Some(([nodes, links, probes], record.at)),
        _ => None,
    });
    let ([nodes, links, probes], at) = explored.expect("explored");
    println!("{probes} probes, explored at {at}, settled at {}", trial.now());
    assert_eq!([nodes, links], [16, 32]);
    assert!((32..=48).contains(&probes), "{probes}");
    println!("{:?}", trial.network.management());
    for record in trial.network.log() {
        println!("{record:?}");
    }
}
