//! The intervals of 95 % confidence hold the true mean about as often as they say: many seeds,
//! compared with one long run. `COUNT=200` measures more seeds, `SEED=n` begins with another one.

use fluxline_core::random::{test_count, test_seed};
use fluxline_sim::load::sweep::Goal;
use fluxline_sim::scenario::Scenario;

/// A network, and a load at which its latencies are correlated.
struct Case {
    name: &'static str,
    text: &'static str,
    load: f64,
    /// The length of the run that gives the true mean, as a multiple of a short one.
    long: f64,
}

const CASES: [Case; 3] = [
    Case {
        name: "SCI ring near the knee",
        text: "[network]\nnodes = 8\n[run]\nwarm-up-us = 50.0\nwarm-up-max-us = 800.0\n\
               duration-us = 1000.0\n[confidence]\nlongest = 32.0\n",
        load: 0.1,
        long: 200.0,
    },
    Case {
        name: "torus at 0.3",
        text: "[network]\nkind = \"torus\"\nside = 4\n[run]\nwarm-up-us = 2.0\n\
               warm-up-max-us = 16.0\nduration-us = 4.0\n",
        load: 0.3,
        long: 300.0,
    },
    Case {
        name: "mesh at a light load",
        text: "[network]\nkind = \"mesh\"\nside = 3\n[run]\nwarm-up-us = 2.0\n\
               warm-up-max-us = 16.0\nduration-us = 4.0\n",
        load: 0.1,
        long: 300.0,
    },
];

/// The least share of intervals that hold the true mean, of those that reached the goal. 0.95 would
/// be ideal: runs that end at a lucky moment cost the rest.
const COVERED_MIN: f64 = 0.85;

/// Returns the share of intervals that hold the true mean.
fn covered(case: &Case, first_seed: u64, seeds: u64) -> f64 {
    let mut scenario = Scenario::parse("confidence", case.text).expect("a scenario");
    let mut long = scenario.clone();
    (long.seed, long.confidence.longest) = (first_seed + 1_000_000, 1.0);
    long.run.duration_us *= case.long;
    let truth = long.measure(case.load).expect("it runs").outcome.latency_ns;
    let (mut reached, mut held, mut us) = (0, 0, 0.0);
    for seed in first_seed..first_seed + seeds {
        scenario.seed = seed;
        let outcome = scenario.measure(case.load).expect("it runs").outcome;
        us += outcome.measured.as_us() / seeds as f64;
        let found = outcome.latency_ns;
        if outcome.goal == Goal::Reached {
            reached += 1;
            held += u64::from((found.mean - truth.mean).abs() <= found.half_width);
        }
    }
    println!(
        "{}: {held} of {reached} intervals hold {:.2} ns +- {:.2} ({seeds} seeds from \
         {first_seed}, {us:.0} us each)",
        case.name, truth.mean, truth.half_width
    );
    assert!(reached * 2 > seeds, "{}: the goal is reached too rarely", case.name);
    held as f64 / reached as f64
}

#[test]
fn intervals_hold_the_true_mean() {
    let (seed, seeds) = (test_seed!(1), test_count!(20));
    for case in &CASES {
        let covered = covered(case, seed, seeds);
        assert!(covered >= COVERED_MIN, "{}: {covered:.2} of the intervals", case.name);
    }
}
