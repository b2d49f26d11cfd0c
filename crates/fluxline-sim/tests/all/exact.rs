//! Counts of the measured time: nothing of the warm-up, and no link busy for longer than it is.

use super::support::flows::Flows;
use fluxline_sim::scenario::{Measured, Scenario};

fn measure(network: &str, rest: &str, run: &str) -> Measured {
    let text = format!("[network]\n{network}\n{rest}\n[run]\n{run}\n");
    let scenario = Scenario::parse("exact", &text).expect("a scenario");
    let nodes = scenario.network.node_count() as u32;
    let flows = Flows::new(nodes, 64, 640, &[[0, 1]]);
    scenario.measure_workload(flows).expect("it runs")
}

#[test]
fn losses_of_the_warm_up_do_not_count() {
    let mesh = "kind = \"mesh\"\nsides = [2]";
    let run = "warm-up-us = 20.0\nwarm-up-max-us = 20.0\nduration-us = 20.0";
    for (faults, is_before) in [
        ("\"cut:0-1@5us\", \"mend:0-1@8us\"", true),
        ("\"cut:0-1@25us\", \"mend:0-1@28us\"", false),
    ] {
        let Measured { outcome, in_flight } =
            measure(mesh, &format!("[faults]\nat = [{faults}]"), run);
        assert_eq!(
            (outcome.lost == 0, outcome.losses.is_empty()),
            (is_before, is_before),
            "{faults}"
        );
        assert!(outcome.messages > 100 && in_flight <= 64, "{faults}: it goes on");
    }
}

#[test]
fn a_link_that_never_rests_is_busy_for_the_measured_time_and_no_longer() {
    for network in [
        "kind = \"mesh\"\nsides = [2]",
        "kind = \"atoll-ring\"\nnodes = 2",
        "kind = \"ethernet\"\nnodes = 2",
        "kind = \"sci-ring\"\nnodes = 2\nflow-control = false",
    ] {
        // An odd time: a frame is always on the link at its end.
        for us in ["100.0", "33.337", "7.0013"] {
            let run = format!("warm-up-us = 51.0\nwarm-up-max-us = 51.0\nduration-us = {us}");
            let rest = if network.contains("sci") { "[traffic]\ncommand = \"move\"" } else { "" };
            let (_, busiest) = measure(network, rest, &run).outcome.link_utilisation();
            println!("{network}, {us} us: {busiest:.6}");
            assert!(busiest <= 1.0, "{network}, {us} us: {busiest}");
            assert!(busiest > 0.95 || network.contains("sci"), "{network}, {us} us: {busiest}");
        }
    }
}
