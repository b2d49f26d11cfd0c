//! Shares of the sources on SCI rings and switches, in the cases that have starved some.

use fluxline_sim::scenario::Scenario;

/// Returns the delivered payload of each source that sends \[MB/s\].
fn delivered(text: &str) -> Vec<f64> {
    let scenario = Scenario::parse("fairness", text).expect("a scenario");
    let measured = scenario.measure(0.5).expect("it runs");
    let rates = measured.outcome.sources.iter().map(|source| source.delivered / 1e6);
    rates.filter(|rate| *rate > 0.0).collect()
}

fn ratio(rates: &[f64]) -> f64 {
    let most = rates.iter().copied().fold(0.0, f64::max);
    most / rates.iter().copied().fold(f64::INFINITY, f64::min)
}

/// All sources into the last node of a ring.
fn ring(preset: &str, nodes: u32, command: &str) -> Vec<f64> {
    delivered(&format!(
        "[network]\nkind = \"sci-ring\"\nnodes = {nodes}\npreset = \"{preset}\"\n\
         [traffic]\npattern = \"event-building\"\nbuilders = 1\ncommand = \"{command}\"\n\
         window = 8\nbytes = 64\n[run]\nduration-us = 2000.0\n"
    ))
}

/// Six ringlets of four nodes behind a switch; the last ringlet builds.
fn switch(command: &str) -> Vec<f64> {
    let rates = delivered(&format!(
        "[network]\nkind = \"sci-switch\"\nports = 6\nnodes = 4\npreset = \"lc2\"\n\
         [traffic]\npattern = \"event-building\"\nbuilders = 4\ncommand = \"{command}\"\n\
         window = 8\nbytes = 64\n[run]\nduration-us = 2000.0\nwarm-up-us = 200.0\n"
    ));
    assert_eq!(rates.len(), 20, "a source is starved: {rates:.1?}");
    rates.chunks(4).map(|ringlet| ringlet.iter().sum()).collect()
}

#[test]
fn no_ringlet_of_a_switch_is_starved_by_the_answers_to_another() {
    for command in ["write", "move"] {
        let ringlets = switch(command);
        println!("{command}: MB/s by ringlet {ringlets:.1?}");
        assert!(ratio(&ringlets) < 1.1, "{command}: {ringlets:.1?}");
    }
}

#[test]
fn writes_into_one_node_of_a_ring_are_shared_within_a_tenth() {
    for preset in ["standard", "lc2", "lc3"] {
        for nodes in [3, 5, 8] {
            let rates = ring(preset, nodes, "write");
            println!("{preset}, {nodes} nodes: {rates:.0?} MB/s");
            assert!(ratio(&rates) < 1.1, "{preset}, {nodes} nodes: {rates:.1?}");
        }
    }
}

/// The go bits let each node send whole packets in each of their rounds, and the nodes do not get
/// equal numbers: docs/simulation/sci.md has the table.
#[test]
fn moves_into_one_node_of_a_ring_are_shared_in_ratios_of_small_numbers() {
    for preset in ["standard", "lc2", "lc3"] {
        for nodes in [3, 5, 8] {
            let rates = ring(preset, nodes, "move");
            println!("{preset}, {nodes} nodes: {rates:.0?} MB/s");
            assert!(rates.len() as u32 == nodes - 1 && ratio(&rates) < 3.1, "{rates:.1?}");
        }
    }
}
