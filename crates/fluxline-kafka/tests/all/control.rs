//! The state of a cluster from the records of its control topic: histories from a seed, with
//! records that come twice, foreign bytes and records that no longer fit.

use std::collections::BTreeMap;

use fluxline_core::random::{Draw, test_seed};
use fluxline_kafka::cluster::Role;
use fluxline_kafka::cluster::control::{CLOCK_MS_MAX, ControlState, JoinRefusal};
use fluxline_kafka::cluster::record::{Begin, ControlRecord, Join};

const PARTITIONS: u32 = 3;

fn join(node: &str, incarnation: u64) -> Join {
    let role = if node == "builder" { Role::Builder } else { Role::Readout };
    Join {
        node: node.to_owned(),
        id: format!("{node}-{}", incarnation % 3),
        role,
        host: "lab7".to_owned(),
        pid: 7,
        incarnation,
        digest: "d".to_owned(),
        readouts: vec!["r1".to_owned(), "r2".to_owned()],
        reads_files: false,
        at_ns: 5_000_000_000,
    }
}

fn built(run: u64, partition: u32) -> ControlRecord {
    ControlRecord::Built { run, partition, amended: Vec::new() }
}

fn apply(state: &mut ControlState, record: &ControlRecord) -> bool {
    state.apply(&record.to_bytes(), 5_000)
}

fn apply_begin(state: &mut ControlState) -> bool {
    let record = begin(state);
    apply(state, &record)
}

fn begin(state: &ControlState) -> ControlRecord {
    let count = PARTITIONS as usize;
    let begin = state.next_run().unwrap_or(Begin {
        run: 1,
        digest: "d".to_owned(),
        readouts: vec!["r1".to_owned(), "r2".to_owned()],
        ..Begin::default()
    });
    ControlRecord::Begin(Begin { fragments: vec![10; count], commits: vec![2; count], ..begin })
}

fn record(draw: &mut Draw, state: &ControlState, incarnation: &mut u64) -> ControlRecord {
    let run = state.runs().last().map_or(1, |run| run.number()) - u64::from(draw.chance(0.1));
    let node = ["r1", "r2", "r3"][draw.below(3) as usize].to_owned();
    let its =
        state.open_run().and_then(|run| run.readouts.get(&node)).map_or(0, |of| of.incarnation);
    match draw.below(12) {
        0..=2 => {
            *incarnation += 1;
            let node = ["r1", "r2", "builder"][draw.below(3) as usize];
            let mut join = join(node, *incarnation);
            if draw.chance(0.1) {
                join.digest = "other".to_owned();
            }
            join.reads_files = draw.chance(0.1);
            ControlRecord::Join(join)
        }
        3 | 4 => begin(state),
        5 => ControlRecord::Stop { run },
        6 => ControlRecord::Shot { run, shot: draw.below(100) },
        7 => ControlRecord::Note { run, text: "x".to_owned(), at_ns: draw.below(1000) },
        8 => ControlRecord::Finished { run, node, incarnation: its },
        9 => {
            let run_node = state.open_run().and_then(|run| run.readouts.get(&node));
            let next = run_node.map(|its| its.start + 1);
            ControlRecord::EndNode { run, node, start: next.filter(|_| draw.chance(0.8)) }
        }
        10 => ControlRecord::Leave { incarnation: draw.below(*incarnation + 1) },
        _ => built(run, draw.below(4) as u32),
    }
}

fn noise(draw: &mut Draw) -> Vec<u8> {
    (0..draw.below(40)).map(|_| draw.below(256) as u8).collect()
}

/// Returns the records of a history, foreign bytes and copies included.
fn history(draw: &mut Draw, length: u64) -> Vec<Vec<u8>> {
    let (mut state, mut incarnation) = (ControlState::default(), 0);
    let mut log: Vec<Vec<u8>> = Vec::new();
    for _ in 0..length {
        let bytes = match draw.below(10) {
            0 => noise(draw),
            1 if !log.is_empty() => log[draw.below(log.len() as u64) as usize].clone(),
            _ => record(draw, &state, &mut incarnation).to_bytes(),
        };
        state.apply(&bytes, 5_000);
        log.push(bytes);
    }
    log
}

#[test]
fn builder_that_waits_with_another_experiment_takes_part_in_a_run() {
    let mut state = ControlState::default();
    let other = Join { digest: "other".to_owned(), ..join("builder", 3) };
    let before = [other, join("builder", 4), join("r1", 1), join("r2", 2)];
    before.into_iter().for_each(|join| assert!(apply(&mut state, &ControlRecord::Join(join))));
    assert!(apply_begin(&mut state));
    assert!(matches!(state.refusal(3), Some(JoinRefusal::Digest { run: 1, .. })));
    assert_eq!([3, 4].map(|incarnation| state.has_joined(incarnation)), [false, true]);
}

#[test]
fn nodes_that_read_the_same_records_have_the_same_state_and_runs_follow_each_other() {
    let seed = test_seed!(41);
    let (mut ended, mut restarts) = (0, 0);
    for case in 0..150 {
        let mut draw = Draw::new(seed + case);
        let log = history(&mut draw, 200);
        let (mut one, mut other) = (ControlState::default(), ControlState::default());
        let mut joins: BTreeMap<(u64, String), u32> = BTreeMap::new();
        for bytes in &log {
            let open = one.open_run().map(|run| run.number());
            let is_valid = one.apply(bytes, 5_000);
            let counts = match ControlRecord::read(bytes).filter(|_| is_valid) {
                Some(ControlRecord::Join(join)) if join.role == Role::Readout => Some(join.node),
                Some(ControlRecord::EndNode { node, .. }) => Some(node),
                _ => None,
            };
            if let (Some(run), Some(node)) = (open, counts) {
                *joins.entry((run, node)).or_default() += 1;
            }
            let numbers: Vec<u64> = one.runs().iter().map(|run| run.number()).collect();
            let begun: Vec<u64> = (1..=numbers.len() as u64).collect();
            assert_eq!(numbers, begun, "seed {seed} case {case}");
            let before_last = one.runs().iter().rev().skip(1);
            assert!(before_last.clone().all(|run| run.is_over()), "two runs are open");
        }
        for run in one.runs() {
            ended += u32::from(run.is_over());
            for (node, readout) in &run.readouts {
                let starts = joins.get(&(run.number(), node.clone())).copied().unwrap_or(0);
                assert_eq!(readout.start, starts, "seed {seed} case {case}: starts of {node}");
                restarts += starts;
            }
        }
        for bytes in &log {
            other.apply(bytes, 5_000);
        }
        assert_eq!(one, other, "seed {seed} case {case}");
        // A record that comes twice changes nothing but the count of ignored records.
        let mut twice = ControlState::default();
        let mut changed = Vec::new();
        for bytes in &log {
            twice.apply(bytes, 5_000);
            let before = format!("{:?}", (twice.runs(), twice.members().collect::<Vec<_>>()));
            twice.apply(bytes, 5_000);
            if before != format!("{:?}", (twice.runs(), twice.members().collect::<Vec<_>>())) {
                changed.push(String::from_utf8_lossy(bytes).into_owned());
            }
        }
        assert_eq!(changed, Vec::<String>::new(), "seed {seed} case {case}");
    }
    assert!(ended > 5 && restarts > 20, "the histories have {ended} ends, {restarts} restarts");
}

#[test]
fn a_second_process_of_one_name_replaces_the_first_and_no_copy_brings_it_back() {
    let mut state = ControlState::default();
    let (first, second) = (join("r1", 1), join("r1", 2));
    assert!(apply(&mut state, &ControlRecord::Join(first.clone())));
    assert!(apply(&mut state, &ControlRecord::Join(second.clone())));
    assert!(!apply(&mut state, &ControlRecord::Join(first)));
    assert_eq!(state.replaced_by(1), Some(&second));
    assert!(state.has_joined(2) && !state.has_joined(1));
}

#[test]
fn a_run_begins_when_all_have_joined_and_ends_with_its_last_partition() {
    let mut state = ControlState::default();
    assert!(!apply_begin(&mut state), "nobody has joined");
    apply(&mut state, &ControlRecord::Join(join("r1", 1)));
    assert_eq!(state.next_run(), Err(vec!["r2".to_owned()]));
    apply(&mut state, &ControlRecord::Join(join("r2", 2)));
    assert!(apply_begin(&mut state));
    assert!(!apply_begin(&mut state), "a run is open");
    assert!(apply(&mut state, &ControlRecord::Join(join("r2", 3))));
    let run = state.open_run().expect("a run");
    assert_eq!((run.readouts["r1"].start, run.readouts["r2"].start), (0, 1));
    assert_eq!((run.number_of("r2"), run.begin.fragments[0]), (Some(1), 10));
    for partition in 0..PARTITIONS {
        assert!(state.open_run().is_some());
        assert!(apply(&mut state, &built(1, partition)));
    }
    assert!(state.open_run().is_none() && state.members().next().is_none());
}

#[test]
fn a_node_whose_end_records_were_lost_cannot_be_ended_again() {
    let mut state = ControlState::default();
    apply(&mut state, &ControlRecord::Join(join("r1", 1)));
    apply(&mut state, &ControlRecord::Join(join("r2", 2)));
    assert!(apply_begin(&mut state));
    let node = || "r2".to_owned();
    let finished = ControlRecord::Finished { run: 1, node: node(), incarnation: 2 };
    assert!(apply(&mut state, &finished));
    let end = |start: Option<u32>| ControlRecord::EndNode { run: 1, node: node(), start };
    let start = |state: &ControlState| state.open_run().expect("a run").readouts["r2"].start;
    assert!(!apply(&mut state, &end(None)) && start(&state) == 0, "an earlier version");
    assert!(apply(&mut state, &end(Some(1))) && start(&state) == 1);
    assert!(!apply(&mut state, &end(Some(1))) && start(&state) == 1, "a copy ends it once more");
    assert!(apply(&mut state, &end(Some(2))) && start(&state) == 2);
    // A node that reads out ends with any number: it may have been started again meanwhile.
    let other = ControlRecord::EndNode { run: 1, node: "r1".to_owned(), start: Some(7) };
    assert!(apply(&mut state, &other));
    let run = state.open_run().expect("a run");
    assert_eq!((run.readouts["r1"].start, run.readouts["r1"].ended), (1, true));
}

#[test]
fn a_run_that_cannot_be_built_stays_open() {
    let mut state = ControlState::default();
    apply(&mut state, &ControlRecord::Join(join("r1", 1)));
    apply(&mut state, &ControlRecord::Join(join("r2", 2)));
    assert!(!apply(&mut state, &ControlRecord::Abandon { run: 1 }), "no run goes on");
    assert!(apply_begin(&mut state));
    assert!(apply(&mut state, &built(1, 0)));
    assert!(!apply(&mut state, &ControlRecord::Abandon { run: 2 }), "another run");
    assert!(apply(&mut state, &ControlRecord::Abandon { run: 1 }));
    assert!(state.open_run().is_none() && state.members().next().is_none());
    let run = state.run(1).expect("a run");
    assert!(run.abandoned && run.is_over() && run.built.len() == 1);
    for late in [ControlRecord::Abandon { run: 1 }, built(1, 1)] {
        assert!(!apply(&mut state, &late), "the run has ended");
    }
    assert!(!apply_begin(&mut state), "the nodes of an abandoned run end with it");
}

#[test]
fn a_process_that_may_not_take_part_is_refused_with_the_reason() {
    let mut state = ControlState::default();
    let fast = Join { at_ns: 5_000_000_000 + 3_600_000_000_000, ..join("r1", 1) };
    assert!(!apply(&mut state, &ControlRecord::Join(fast.clone())));
    let sentence = state.refusal(1).expect("refused").to_string();
    assert!(sentence.contains("lab7 is 3600.0 s ahead of"), "{sentence}");
    let near = Join { at_ns: 5_000_000_000 + (CLOCK_MS_MAX as u64) * 1_000_000, ..fast };
    assert!(apply(&mut state, &ControlRecord::Join(near)), "a second try with a corrected clock");
    apply(&mut state, &ControlRecord::Join(join("r2", 2)));
    apply_begin(&mut state);
    let other = Join { digest: "other".to_owned(), ..join("builder", 3) };
    apply(&mut state, &ControlRecord::Join(other));
    assert!(matches!(state.refusal(3), Some(JoinRefusal::Digest { run: 1, .. })));
    apply(&mut state, &ControlRecord::Join(join("r9", 4)));
    assert!(matches!(state.refusal(4), Some(JoinRefusal::NotInRun { .. })));
    let files = Join { reads_files: true, ..join("r1", 5) };
    apply(&mut state, &ControlRecord::Join(files));
    assert!(matches!(state.refusal(5), Some(JoinRefusal::Files { .. })));
    let (run, node) = (1, "r2".to_owned());
    apply(&mut state, &ControlRecord::Finished { run, node, incarnation: 2 });
    apply(&mut state, &ControlRecord::Join(join("r2", 6)));
    assert!(matches!(state.refusal(6), Some(JoinRefusal::Ended { .. })));
}
