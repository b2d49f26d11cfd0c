//! The schedule compared with NetPIPE's golden vector, and trials on plain memory.

use std::net::{IpAddr, Ipv4Addr};

use fluxline_core::fabric::Capabilities;
use serde_json::Value;

use super::*;
use crate::Stop;
use crate::environment::NearEnd;
use crate::environment::{Environment, Plan, Simulated};
use crate::result::Experiment;
use crate::role::TrialKind;
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
    let points = result.series[0].points.iter();
    let sent: f64 = points.map(|point| 2.0 * point.x * point.samples[0]).sum();
    assert!(sent > 0.0 && (megabytes - sent / 1e6).abs() < 1e-9, "{megabytes} MB, {sent} B");
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

/// A link whose messages take 5 us and 1 s for each 200 MB, and the tasks that it was given.
#[derive(Default)]
struct Model {
    tasks: Vec<Task>,
    stop: Stop,
}

impl Environment for Model {
    fn link(&self) -> &'static str {
        "model"
    }

    fn is_real(&self) -> bool {
        true
    }

    fn capabilities(&mut self) -> Result<Option<Capabilities>, Error> {
        let mut link = Capabilities::new("model");
        link.message_bytes_max = 4096;
        Ok(Some(link))
    }

    fn half_bytes(&self) -> u64 {
        10 << 20
    }

    fn trial(&mut self, _: &TrialKind, parameters: &Value) -> Result<[Value; 2], Error> {
        let task = Task::read(parameters)?;
        self.tasks.push(task);
        let one_way_s = 5e-6 + task.bytes as f64 / 200e6;
        let repeat_s = one_way_s * if task.mode == Mode::PingPong { 2.0 } else { 1.0 };
        let measured = Measured { seconds: vec![repeat_s; 3], ..Measured::default() };
        let measured = serde_json::to_value(measured).expect("JSON");
        Ok([measured.clone(), measured])
    }

    fn call(&mut self, service: &Service, _: &Value, _: NearEnd<'_>) -> Result<[Value; 2], Error> {
        Err(Error::Unsuitable { what: service.name.to_owned(), link: "model".to_owned() })
    }

    fn addresses(&self) -> Option<[IpAddr; 2]> {
        Some([IpAddr::V4(Ipv4Addr::LOCALHOST); 2])
    }

    fn progress(&mut self, _: usize, _: usize, _: &str) {}

    fn stop(&self) -> &Stop {
        &self.stop
    }
}

/// The tasks of one round of an experiment on the model link, without the first look.
fn tasks_on_the_model(name: &str, plan: &Plan) -> Vec<Task> {
    let entry = registry::experiments().find(|entry| entry.name == name).expect("an experiment");
    let mut model = Model::default();
    let mut into = Experiment::new(entry.name, entry.about);
    (entry.run)(&mut model, plan, &mut into).expect("it runs");
    assert_eq!((model.tasks[0].mode, model.tasks[0].repeats), (Mode::PingPong, 100), "{name}");
    model.tasks.split_off(1)
}

#[test]
fn every_mode_has_netpipes_sizes_and_repeats_on_a_link_of_5_us_and_200_megabytes_per_second() {
    let plan = Plan { rounds: 1, ..Plan::new(false) };
    for name in ["pingpong", "stream", "bidirectional", "cold"] {
        let tasks = tasks_on_the_model(name, &plan);
        assert_eq!(tasks.len(), 124, "{name}");
        assert!(tasks.iter().all(|task| task.trials == 3), "{name}");
        let all: Vec<(u64, u64)> = tasks.iter().map(|task| (task.bytes, task.repeats)).collect();
        assert_eq!(all[..5], [(1, 19980), (2, 19980), (3, 19960), (4, 13293), (6, 14940)]);
        assert_eq!(all[5..9], [(8, 9940), (12, 12400), (13, 8234), (16, 9112)], "{name}");
        assert_eq!(all[9..14], [(19, 11072), (21, 12396), (24, 13059), (27, 13834), (29, 8655)]);
        for one in [(1021, 3808), (1024, 4943), (1027, 4950), (65_533, 132), (1_048_576, 9)] {
            assert!(all.contains(&one), "{name}: {one:?} in {all:?}");
        }
        assert_eq!(all[123], (8_388_611, 3), "{name}");
    }
    let tasks = tasks_on_the_model("integrity", &plan);
    let sizes: Vec<u64> = tasks.iter().map(|task| task.bytes).collect();
    assert_eq!(sizes[..9], [5, 7, 9, 13, 17, 25, 33, 49, 65]);
    assert_eq!(sizes.last(), Some(&8_388_609));
    assert!(tasks.iter().all(|task| task.trials == 1 && task.checked && task.limit_ms == 0));
    // netpipe.c: 0.1 s / (5 / (5 - 2 + 1) * 5.025 us), and so on with the size before.
    assert_eq!(tasks[0].repeats, 15_920);
}

#[test]
fn constant_repeats_hold_for_every_size_and_messages_end_at_the_links_longest() {
    let plan = Plan { rounds: 1, repeats: Some(7), ..Plan::new(false) };
    for name in ["pingpong", "integrity"] {
        assert!(tasks_on_the_model(name, &plan).iter().all(|task| task.repeats == 7), "{name}");
    }
    let longest = tasks_on_the_model("messages", &plan).iter().map(|task| task.bytes).max();
    assert_eq!(longest, Some(3075), "the next size has a neighbour of 4099 B");
}

#[test]
fn netpipes_files_have_the_columns_of_each_mode() {
    let text = |name| {
        let (experiment, ended) = run(name, &mut simulated(1 << 20), &plan());
        ended.unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut report = crate::run::begin("memory", &plan(), serde_json::json!({}));
        report.experiments.push(experiment);
        let text = netpipe::text(&report).expect("on the schedule");
        report.experiments.push(report.experiments[0].clone());
        assert_eq!(netpipe::text(&report), None, "of two, neither is printed");
        text
    };
    let columns = |text: &str, line: usize| -> Vec<f64> {
        let line = text.lines().nth(line).expect("a line");
        line.split_whitespace().map(|word| word.parse().expect("a number")).collect()
    };
    for (name, ways) in [("pingpong", 1.0), ("stream", 1.0), ("bidirectional", 2.0)] {
        let text = text(name);
        for (line, bytes) in [(0, 1.0), (5, 8.0), (8, 16.0)] {
            let [first, megabits, seconds] = columns(&text, line)[..] else { panic!("{text}") };
            assert_eq!(first, ways * bytes, "{name}: {text}");
            let expected = first * 8.0 / (seconds * 1_048_576.0);
            assert!((megabits / expected - 1.0).abs() < 1e-2, "{name}: {text}");
        }
    }
    let integrity = text("integrity");
    assert_eq!(columns(&integrity, 0)[0], 5.0, "{integrity}");
    assert!(integrity.starts_with("       5 "), "{integrity}");
    assert!(columns(&integrity, 0)[1] >= 3.0 && columns(&integrity, 0).len() == 2);
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
