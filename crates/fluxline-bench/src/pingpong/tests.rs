//! The schedule held against NetPIPE's golden vector, and trials on plain memory.

use super::*;
use crate::environment::{Environment, Plan, Simulated};
use crate::result::Experiment;
use crate::{Error, registry};

/// Two nodes of plain memory; every turn takes 400 us, so that few repeats fill a trial.
fn simulated(half_bytes: u64) -> Simulated {
    Simulated::in_memory(half_bytes, || 400_000)
}

fn plan() -> Plan {
    Plan { rounds: 2, sizes: [1, 1024], perturbation: 3, ..Plan::quick() }
}

fn run(name: &str, simulated: &mut Simulated, plan: &Plan) -> (Experiment, Result<(), Error>) {
    let entry = registry::experiments().find(|entry| entry.name == name).expect("an experiment");
    let mut into = Experiment::new(entry.name, entry.about);
    let ended = (entry.run)(simulated, plan, &mut into);
    (into, ended)
}

#[test]
fn every_mode_goes_over_the_whole_schedule_in_virtual_time() {
    for name in ["pingpong", "messages", "stream", "bidirectional"] {
        let (result, ended) = run(name, &mut simulated(1 << 20), &plan());
        ended.unwrap_or_else(|error| panic!("{name}: {error}"));
        let mean = |one: &&crate::result::Series| one.label == sweep::BEST_MEAN;
        let least = result.series.iter().find(mean).expect("the mean");
        let sizes: Vec<u64> = least.points.iter().map(|point| point.x as u64).collect();
        assert_eq!(sizes[..9], [1, 2, 3, 4, 6, 8, 12, 13, 16], "{name}");
        assert_eq!(sizes.last(), Some(&1027), "{name}");
        for series in &result.series {
            for point in &series.points {
                assert_eq!(point.samples.len(), 2, "{name}, {}", series.label);
                assert!(point.samples.iter().all(|sample| *sample > 0.0), "{name}: {point:?}");
            }
        }
        assert!(!result.limit.is_empty() && !result.facts.is_empty(), "{name}");
        let times: Vec<&str> = result.series.iter().map(|one| one.label.as_str()).collect();
        match name {
            "pingpong" | "messages" => {
                assert_eq!(times[..4], ["p50", "p99", "p99.9", sweep::BEST_MEAN], "{name}");
                assert!(result.facts[0].label.ends_with("p50"), "{:?}", result.facts[0]);
            }
            // Several messages arrive in one poll: the time between two of them says nothing.
            _ => assert_eq!(times, [sweep::BEST_MEAN, "throughput"], "{name}"),
        }
    }
}

#[test]
fn equal_runs_in_virtual_time_are_equal_to_the_bit() {
    let [one, other] = [(), ()].map(|()| run("pingpong", &mut simulated(1 << 20), &plan()).0);
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
}

#[test]
fn a_cold_cache_takes_other_memory_for_each_message() {
    let (result, ended) = run("cold", &mut simulated(12 << 20), &Plan { rounds: 1, ..plan() });
    ended.expect("it runs");
    assert!(result.series[0].points.len() > 20);
}

#[test]
fn integrity_compares_every_byte_at_both_ends() {
    let (result, ended) = run("integrity", &mut simulated(1 << 20), &plan());
    ended.expect("nothing differs");
    let megabytes = result.facts[0].samples[0];
    assert!(megabytes > 5.0, "{megabytes}");
}

#[test]
fn a_changed_byte_is_found_and_named() {
    // What is sent is changed between posting and carrying: so a link's defect would look.
    let mut simulated = simulated(1 << 20);
    let memory = simulated.memory(0);
    simulated.between_turns(Box::new(move |turn| {
        if turn % 7 == 0 {
            memory.write((1 << 20) + 33, &[0xEE]).expect("inside");
        }
    }));
    let (_, ended) = run("integrity", &mut simulated, &plan());
    let error = ended.expect_err("it differs").to_string();
    assert!(error.contains("byte 33 of message"), "{error}");
}

#[test]
fn sizes_that_do_not_fit_and_tasks_that_make_no_sense_are_refused_in_a_sentence() {
    let huge = Plan { sizes: [4 << 20, 8 << 20], ..plan() };
    let (_, ended) = run("pingpong", &mut simulated(1 << 20), &huge);
    assert!(ended.expect_err("too long").to_string().contains("--sizes"));
    for parameters in [
        serde_json::json!({}),
        serde_json::json!({ "bytes": -1 }),
        task_with("bytes", 0),
        task_with("repeats", 0),
        task_with("trials", 0),
    ] {
        let error = simulated(1 << 20).trial(&exchange::TRIAL, &parameters);
        assert!(error.is_err(), "{parameters}");
    }
}

#[test]
fn a_trial_that_lasts_too_long_is_cut_short_and_the_next_one_is_whole() {
    for mode in [Mode::PingPong, Mode::Stream, Mode::Bidirectional] {
        let mut simulated = simulated(1 << 20);
        let mut task = task_with("repeats", 1_000_000);
        task["mode"] = serde_json::to_value(mode).expect("JSON");
        task["limit_ms"] = 20.into();
        let ends = simulated.trial(&exchange::TRIAL, &task).expect("it is cut");
        let counts = usize::from(mode == Mode::Stream);
        let cut: Measured = serde_json::from_value(ends[counts].clone()).expect("a result");
        assert_eq!(cut.seconds.len(), 1, "{mode:?}");
        assert!(cut.least() > 0.0 && cut.least() < 0.02, "{mode:?}: {cut:?}");
        task["repeats"] = 10.into();
        task["limit_ms"] = 0.into();
        simulated.trial(&exchange::TRIAL, &task).expect("nothing was left behind");
    }
}

/// A task as JSON, with one part changed.
fn task_with(key: &str, value: u64) -> serde_json::Value {
    let (mode, way) = (Mode::PingPong, Way::Put);
    let task = Task {
        mode,
        way,
        bytes: 8,
        repeats: 1,
        trials: 1,
        cold: false,
        checked: false,
        limit_ms: 0,
    };
    let mut task = serde_json::to_value(task).expect("JSON");
    task[key] = value.into();
    task
}
