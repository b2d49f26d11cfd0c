//! Puts, gets, stores, incast and soak on real links, both sides in two threads: they run, and
//! their numbers are numbers.

use fluxline_bench::environment::Plan;
use fluxline_bench::result::{Experiment, Report};

use crate::support::measured;

fn check(report: &Report) {
    for experiment in &report.experiments {
        let name = &experiment.name;
        assert!(!experiment.limit.is_empty(), "{}, {name}", report.link);
    }
}

fn fact(experiment: &Experiment, label: &str) -> f64 {
    let fact = experiment.facts.iter().find(|fact| fact.label.contains(label));
    fact.unwrap_or_else(|| panic!("{label} in {:?}", experiment.facts)).samples[0]
}

const EXPERIMENTS: &[&str] = &["put-get", "rate", "stores", "incast"];

/// Few and small: these are tests of what happens, not measurements.
fn plan() -> Plan {
    Plan { rounds: 1, sizes: [8, 4096], ..Plan::quick() }
}

#[test]
fn all_of_them_run_on_shared_memory() {
    check(&measured("shm://", EXPERIMENTS, &plan()));
}

#[test]
fn all_of_them_run_on_udp() {
    check(&measured("udp://127.0.0.1", EXPERIMENTS, &plan()));
}

#[test]
fn random_operations_close_their_ledgers_and_leave_memory_flat() {
    for url in ["shm://", "udp://127.0.0.1"] {
        let plan = Plan { soak_seconds: 0.5, seed: 4791, ..plan() };
        println!("{url}, seed {}", plan.seed);
        let report = measured(url, &["soak"], &plan);
        check(&report);
        let soak = &report.experiments[0];
        let slices = fact(soak, "slices whose ledgers agree");
        assert!(slices >= 1.0 && fact(soak, "operations") == slices * 2000.0, "{soak:?}");
        for kind in ["puts", "messages", "connections", "bytes got"] {
            assert!(fact(soak, kind) > 0.0, "{url}: {kind}");
        }
    }
}
