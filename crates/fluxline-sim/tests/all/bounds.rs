//! No link carries more than its rate, nor more than its sender may have under way in a round trip:
//! buffers behind credits, and windows of packets without an answer. Long cables make the latter
//! the lower one.

use super::support::flows::Flows;
use fluxline_sim::scenario::Scenario;

/// Returns the rate of one flow from node 0 to node 1 \[MB/s\].
fn rate(network: &str, nodes: u32, bytes: u32) -> f64 {
    let text = format!(
        "[network]\n{network}[run]\nwarm-up-us = 50.0\nwarm-up-max-us = 50.0\n\
         duration-us = 1000.0\n[confidence]\nlongest = 1\n"
    );
    let scenario = Scenario::parse("bounds", &text).expect("a scenario");
    let flows = Flows::new(nodes, 64, bytes, &[[0, 1]]);
    let measured = scenario.measure_workload(flows).expect("it runs");
    measured.outcome.sources[0].delivered / 1e6
}

/// Compares a rate with the lower one of two bounds \[MB/s\].
fn check(name: &str, rate: f64, link: f64, window_bytes: f64, round_trip_ns: f64) {
    let window = window_bytes / round_trip_ns * 1e3;
    let bound = link.min(window);
    println!("{name}: {rate:.0} of {bound:.0} MB/s (link {link:.0}, window {window:.0})");
    assert!(rate <= bound * 1.003, "{name}: {rate} MB/s are above the bound of {bound}");
    assert!(rate >= bound * 0.97, "{name}: {rate} MB/s are far below the bound of {bound}");
}

#[test]
fn credits_of_routers_travel_the_cable_back() {
    // A head waits in the router, its tail follows, and the credit takes the cable back.
    for (kind, nodes) in [("mesh\"\nsides = [2]", 2), ("ring\"\nnodes = 4", 4)] {
        for (wire, credit, buffer) in
            [(1, 0, 1024), (20, 0, 1024), (100, 0, 1024), (200, 0, 1024), (100, 50, 512)]
        {
            // Packets in a ring may use half of two channels.
            let channels = if nodes == 2 { 1 } else { 2 };
            let network = format!(
                "kind = \"{kind}\nvirtual-channels = {channels}\nbuffer-bytes = {buffer}\n\
                 wire-ns = {wire}\ncredit-ns = {credit}\n"
            );
            let round_trip = 2 * wire + 5 + 64 / 16 + credit;
            let name = format!("{kind}, wire {wire} ns, {buffer} B");
            let rate = rate(&network, nodes, 640);
            check(&name, rate, 16_000.0, f64::from(buffer), f64::from(round_trip));
        }
    }
}

#[test]
fn the_retransmission_window_of_atoll_travels_the_cable_twice() {
    for (metres, window) in [(5, 4), (20, 1), (100, 2), (200, 4)] {
        let network = format!(
            "kind = \"atoll-ring\"\nnodes = 2\n[atoll]\nclock = 250\ncable = {metres}\n\
             retransmission = {window}\n"
        );
        let cable = (metres * 5 + 3) / 4;
        let round_trip_ns = f64::from((72 + 2 * cable + 20) * 4);
        // Messages of 8 packets, with 8 bytes of header and one route symbol.
        let rate = rate(&network, 2, 504) * 512.0 / 504.0;
        let name = format!("ATOLL, {metres} m, window {window}");
        check(&name, rate, 250.0 * 64.0 / 72.0, f64::from(64 * window), round_trip_ns);
    }
}

#[test]
fn stop_and_go_of_atoll_fills_a_link_of_any_length() {
    for metres in [5, 50, 200] {
        let network = format!(
            "kind = \"atoll-ring\"\nnodes = 2\n[atoll]\nclock = 250\ncable = {metres}\n\
             retransmission = 8\n"
        );
        let rate = rate(&network, 2, 504) * 512.0 / 504.0;
        let cable = (metres * 5 + 3) / 4;
        let round_trip_ns = f64::from((72 + 2 * cable + 20) * 4);
        let name = format!("stop and go, {metres} m");
        check(&name, rate, 250.0 * 64.0 / 72.0, 512.0, round_trip_ns);
    }
}

#[test]
fn sends_of_sci_without_an_echo_travel_the_whole_ring() {
    for (cable, unacknowledged) in [(4, 1), (100, 1), (400, 2), (400, 4)] {
        let network = format!(
            "kind = \"sci-ring\"\nnodes = 2\nlink-mb-s = 500\npass-symbols = 10\n\
             cable-symbols = {cable}\nunacknowledged = {unacknowledged}\nsend-queue = 16\n\
             flow-control = false\n[traffic]\ncommand = \"move\"\n"
        );
        let rate = rate(&network, 2, 64);
        // A symbol takes 4 ns. The target strips the 40 symbols of a send, then its echo goes on.
        let hop = f64::from(10 + cable);
        let round_trip_ns = (2.0 * hop + 40.0) * 4.0;
        let name = format!("SCI, cable of {cable} symbols, {unacknowledged} sends");
        let link = 500.0 * 64.0 / 82.0;
        check(&name, rate, link, f64::from(64 * unacknowledged), round_trip_ns);
    }
}
