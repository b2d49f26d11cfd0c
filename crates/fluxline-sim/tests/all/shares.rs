//! Shares of two and three flows on one link, by hand: an arbiter serves its input ports in turn.

use super::support::flows::Flows;
use fluxline_sim::scenario::Scenario;

/// Returns the share of each flow in what all of them deliver \[%\].
fn shares(network: &str, nodes: u32, flows: &[[u32; 2]]) -> Vec<f64> {
    let text = format!(
        "[network]\n{network}\n[run]\nwarm-up-us = 100.0\nwarm-up-max-us = 100.0\n\
         duration-us = 4000.0\n[confidence]\nlongest = 1\n"
    );
    let scenario = Scenario::parse("shares", &text).expect("a scenario");
    let flows_of = Flows::new(nodes, 64, 640, flows);
    let measured = scenario.measure_workload(flows_of).expect("it runs");
    let rates: Vec<f64> =
        flows.iter().map(|&[from, _]| measured.outcome.sources[from as usize].delivered).collect();
    let sum: f64 = rates.iter().sum();
    let shares = rates.into_iter().map(|rate| rate / sum * 100.0).collect();
    println!("{network}, {flows:?}: {shares:.1?} %");
    shares
}

fn check(network: &str, nodes: u32, flows: &[[u32; 2]], expected: &[f64]) {
    let found = shares(network, nodes, flows);
    let is_near =
        found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1.0);
    assert!(is_near, "{network}, {flows:?}: {found:.1?} %, not {expected:.1?}");
}

/// Two flows that meet at the router of the second, and three in a row: each router halves the link
/// between its node and all that comes from further away.
#[test]
fn routers_share_a_link_by_input_ports_however_many_channels_a_port_has() {
    for channels in [1, 2, 4] {
        let line = format!("kind = \"mesh\"\nsides = [4]\nvirtual-channels = {channels}");
        check(&line, 4, &[[0, 3], [1, 3]], &[50.0, 50.0]);
        check(&line, 4, &[[0, 3], [1, 3], [2, 3]], &[25.0, 25.0, 50.0]);
    }
    for channels in [2, 4] {
        let ring = format!("kind = \"ring\"\nnodes = 8\nvirtual-channels = {channels}");
        check(&ring, 8, &[[0, 3], [1, 3]], &[50.0, 50.0]);
        check(&ring, 8, &[[0, 3], [1, 3], [2, 3]], &[25.0, 25.0, 50.0]);
        // Two directions of a plane meet at the target: no link is shared but the last.
        let torus = format!("kind = \"torus\"\nside = 4\nvirtual-channels = {channels}");
        check(&torus, 16, &[[1, 5], [4, 5]], &[50.0, 50.0]);
    }
}

#[test]
fn crossbars_of_atoll_share_a_link_by_input_ports_message_by_message() {
    let line = "kind = \"atoll-grid\"\nsides = [4, 1]";
    check(line, 4, &[[0, 3], [1, 3]], &[50.0, 50.0]);
    check(line, 4, &[[0, 3], [1, 3], [2, 3]], &[25.0, 25.0, 50.0]);
}

#[test]
fn an_ethernet_switch_with_pause_frames_shares_a_port_by_senders() {
    let switch = "kind = \"ethernet\"\nnodes = 4\n[ethernet]\npause = \"on\"\nxoff = 262144";
    check(switch, 4, &[[0, 3], [1, 3]], &[50.0, 50.0]);
    check(switch, 4, &[[0, 3], [1, 3], [2, 3]], &[33.3, 33.3, 33.3]);
}

#[test]
fn nodes_of_an_sci_ring_share_a_link_by_go_bits() {
    let ring = "kind = \"sci-ring\"\nnodes = 4\n[traffic]\ncommand = \"write\"";
    check(ring, 4, &[[0, 3], [1, 3]], &[50.0, 50.0]);
    check(ring, 4, &[[0, 3], [1, 3], [2, 3]], &[33.3, 33.3, 33.3]);
}
