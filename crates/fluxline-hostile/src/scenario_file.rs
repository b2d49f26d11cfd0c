//! Scenario files from strangers: a scenario that can be simulated, or one sentence.

use fluxline_sim::scenario::{Refused, Scenario};

/// The time of an accepted scenario that is simulated \[us\]; more takes the fuzzer's time.
const TIME_US: f64 = 2.0;
/// The largest network that is simulated \[node\].
const NODES_MAX: u64 = 64;
/// The longest message that is simulated \[byte\].
const BYTES_MAX: u32 = 4096;

/// Any text as a scenario file.
///
/// # Panics
/// When the error is not a sentence.
pub fn scenario_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Scenario::parse("fuzz.toml", text) {
        Ok(scenario) => simulate(scenario),
        Err(Refused(message)) => {
            assert!(message.contains("fuzz.toml:"), "it names the file and the line: {message}");
            assert!(message.ends_with(['.', '?']), "it is a sentence: {message}");
        }
    }
}

/// The first moments of it, at its first load.
fn simulate(mut scenario: Scenario) {
    let large = scenario.traffic.sizes.iter().any(|size| size.bytes > BYTES_MAX);
    if large || scenario.traffic.bytes > BYTES_MAX || scenario.network.node_count() > NODES_MAX {
        return;
    }
    let run = &mut scenario.run;
    run.warm_up_us = run.warm_up_us.min(TIME_US);
    run.warm_up_max_us = run.warm_up_max_us.min(2.0 * TIME_US);
    run.duration_us = run.duration_us.min(TIME_US);
    scenario.confidence.longest = 1.0;
    let load = scenario.run.loads.first().copied().unwrap_or(0.1);
    if let Err(Refused(message)) = scenario.measure(load) {
        assert!(!message.is_empty(), "it says why");
    }
}
