//! One ledger over all nodes: its laws close in every history of deaths, returns and doubles, each
//! loss has a name, and a changed block is found.

use crate::support::cluster::{CALM, Chaos, Cluster, STORM};
use crate::support::world::{Weather, packets};
use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_daq::builder::Expectation;
use fluxline_daq::experiment::check_accept;
use fluxline_kafka::build::Commit;
use fluxline_kafka::cluster::block::BLOCK_BYTES_MAX;
use fluxline_kafka::cluster::{ClusterLedger, ClusterVerdict, Edge, Fate, NodeBlock, ReadoutBlock};
use serde_json::Value;

/// Runs a world, and checks the laws at many moments.
fn run(seed: u64, round: u64, chaos: Chaos) -> Cluster {
    let mut draw = Draw::new(seed + round);
    let boards = 4 + draw.below(4) as u16;
    let weather = Weather { boards, keys: 150, loss: 0.02, lives: draw.chance(0.5) };
    let packets = packets(&mut draw, weather).packets;
    let mut cluster = Cluster::new(1 + draw.below(4) as u32, chaos, seed ^ (round << 20));
    cluster.run(&packets, |cluster, _| {
        if draw.chance(0.2) {
            let ledger = cluster.ledger();
            assert!(ledger.closes(), "round {round}: {}", ledger.table());
            assert!(matches!(ledger.verdict(), ClusterVerdict::Running(_)));
        }
    });
    let ledger = cluster.ledger();
    assert!(ledger.closes(), "round {round}: {}", ledger.table());
    assert!(ledger.is_over(), "round {round}: {}", ledger.table());
    assert_eq!(ledger.sum_of(Fate::InFlight), 0, "round {round}: {}", ledger.table());
    cluster
}

#[test]
fn laws_close_at_every_moment_when_builders_die_and_come_back() {
    let seed = test_seed!(61);
    for round in 0..test_count!(40) {
        let sim = run(seed, round, STORM);
        let ledger = sim.ledger();
        assert_eq!(ledger.verdict(), ClusterVerdict::Complete, "{}", ledger.table());
        assert_eq!(ledger.received(), sim.truth.sent, "{}", ledger.table());
        let duplicates = ledger.sum_of(Fate::Duplicate);
        assert!(duplicates > 0, "no packet came twice: not a test");
        assert_eq!(ledger.committed.packets + duplicates, sim.truth.sent, "{}", ledger.table());
    }
}

/// Returns the verdict after a change of all blocks.
fn verdict_of(sim: &Cluster, change: impl Fn(&mut NodeBlock)) -> ClusterVerdict {
    let mut observed = sim.observed();
    observed.blocks.iter_mut().for_each(|seen| change(&mut seen.block));
    ClusterLedger::of(&observed).verdict()
}

/// Returns the verdict after a change of the readouts' counts.
fn verdict_with(sim: &Cluster, change: impl Fn(&mut ReadoutBlock)) -> ClusterVerdict {
    verdict_of(sim, |block| block.readout.iter_mut().for_each(&change))
}

fn assert_look(verdict: &ClusterVerdict, words: &str) {
    let ClusterVerdict::LookNeeded(sentence) = verdict else { panic!("{words}: {verdict:?}") };
    assert!(sentence.contains(words), "{words}: {sentence}");
}

#[test]
fn run_without_a_required_source_counts_as_complete() {
    let sim = run(test_seed!(65), 0, CALM);
    let ledger = sim.ledger();
    let labels: Vec<String> =
        ledger.sources.rows.iter().map(|row| row.times.label.clone()).collect();
    assert!(labels.len() >= 4, "{labels:?}");
    assert!(ledger.table().contains(&labels[0]), "{}", ledger.table());
    let require = |labels: &[&str], accept: &[&str]| {
        let labels = labels.iter().map(ToString::to_string).collect();
        let require = Some(Expectation::Sources(labels));
        verdict_of(&sim, |block| {
            block.require.clone_from(&require);
            block.accept = accept.iter().map(ToString::to_string).collect();
        })
    };
    assert_eq!(require(&[&labels[0], &labels[1]], &[]), ClusterVerdict::Complete);
    assert_look(&require(&[&labels[0], "nobody"], &[]), "required source nobody sent nothing");
    assert_eq!(require(&[&labels[0], "nobody"], &["silent"]), ClusterVerdict::Complete);
    let count = verdict_of(&sim, |block| block.require = Some(Expectation::Count(99)));
    assert_look(&count, &format!("{} of 99 required sources", labels.len()));
    let early = verdict_of(&sim, |block| {
        block.require = Some(Expectation::Sources(vec![labels[0].clone()]));
        let Some(readout) = &mut block.readout else { return };
        readout.read_until_ns = u64::MAX;
        let first = readout.listed.iter_mut().filter(|its| its.label == labels[0]);
        first.for_each(|its| its.last_ns -= 5_000_000_000);
    });
    assert_look(&early, &format!("required source {} silent for the last", labels[0]));
}

#[test]
fn frames_without_a_datagram_and_inputs_that_ended_early_count_as_complete() {
    let sim = run(test_seed!(66), 0, CALM);
    let unusable = verdict_with(&sim, |readout| readout.counters.frames_unusable = 3);
    assert_look(&unusable, "6 frames gave no datagram (frames unusable 6)");
    let overrun = verdict_with(&sim, |readout| readout.remote.frames_overrun = 2);
    assert_look(&overrun, "4 frames gave no datagram (frames overrun 4)");
    let gone = verdict_with(&sim, |readout| readout.remote.producers_gone = 1);
    assert_look(&gone, "senders or producers that vanished during the run: 2");
    let faults = ["source `a`: the capture ends in the middle of a packet.".to_owned()];
    let ended = verdict_with(&sim, |readout| readout.add_faults(&faults));
    assert_look(&ended, "the capture ends in the middle of a packet");
    let accepted = verdict_of(&sim, |block| {
        block.readout.iter_mut().for_each(|readout| readout.add_faults(&faults));
        block.accept = vec!["input_faults".to_owned()];
    });
    assert_eq!(accepted, ClusterVerdict::Complete);
}

#[test]
fn run_with_wrong_times_of_packets_counts_as_complete() {
    let sim = run(test_seed!(64), 0, CALM);
    let with_clock = |ahead_ms, accept: &[&str]| {
        let mut observed = sim.observed();
        for seen in &mut observed.blocks {
            seen.block.accept = accept.iter().map(ToString::to_string).collect();
            seen.block.readout.iter_mut().for_each(|of| of.clock_ahead_ms = ahead_ms);
        }
        ClusterLedger::of(&observed)
    };
    assert_eq!(with_clock(1000, &[]).verdict(), ClusterVerdict::Complete);
    assert_eq!(with_clock(-2500, &["clock_apart"]).verdict(), ClusterVerdict::Complete);
    let ledger = with_clock(-2500, &[]);
    let ClusterVerdict::LookNeeded(sentence) = ledger.verdict() else {
        panic!("{:?}", ledger.verdict());
    };
    assert!(sentence.contains("were 2.5 s behind the brokers' clock"), "{sentence}");
    assert!(ledger.table().contains("were 2.5 s behind"), "{}", ledger.table());
}

#[test]
fn packets_of_lost_records_are_missing_by_their_number() {
    let seed = test_seed!(62);
    let mut lost = 0;
    for round in 0..test_count!(20) {
        let sim = run(seed, round, Chaos { losses: 0.02, outages: 0.0, ..STORM });
        let ledger = sim.ledger();
        assert_eq!(ledger.over_edges(|edge| edge.taken.missing), sim.log.lost, "round {round}");
        let is_told = matches!(ledger.verdict(), ClusterVerdict::LookNeeded(_));
        assert_eq!(is_told, sim.log.lost > 0, "{:?}", ledger.verdict());
        lost += sim.log.lost;
    }
    assert!(lost > 0, "no record was lost: not a test");
}

#[test]
fn packets_of_a_dead_readout_are_counted_as_far_as_anybody_can() {
    let seed = test_seed!(63);
    let (mut deaths, mut lost, mut unknown, mut since) = (0, 0, 0, 0);
    for round in 0..test_count!(40) {
        let sim = run(seed, round, Chaos { readout_death: 0.01, ..STORM });
        let ledger = sim.ledger();
        let truth = &sim.truth;
        assert_eq!(ledger.over_edges(Edge::lost), truth.lost_by_death, "{}", ledger.table());
        assert_eq!(ledger.received() + truth.unknown, truth.sent, "{}", ledger.table());
        if truth.deaths > 0 {
            let verdict = ledger.verdict();
            let sentence = verdict.sentence().expect("a death is a reason to look");
            assert!(sentence.contains("died"), "{sentence}");
        }
        deaths += truth.deaths;
        lost += truth.lost_by_death;
        unknown += truth.unknown;
        since += ledger.over_edges(Edge::since_block);
    }
    assert!(
        deaths > 5 && lost > 0 && unknown > 0 && since > 0,
        "{deaths} {lost} {unknown} {since}"
    );
}

/// Numbers of a block that no law covers.
const INFORMATIVE: &[&str] = &[
    "/run",
    "/pid",
    "/sequence",
    "/sent_at_ns",
    "/incarnation",
    "/start",
    "/version",
    "/readout/number",
    "/readout/sources",
    "/bytes",
    "/frames_unusable",
    "/check_sum_wrong",
    "/read_until_ns",
    "/first_ns",
    "/last_ns",
    "/input",
    "/records",
    "/record_bytes",
    "/socket_dropped",
    "/partition",
    "/next_offset",
    "/covers",
    "/followed",
    "/records_",
    "/events_",
    "/late_filtered",
    "/batches",
    "/node",
    "/left_out",
    "/clock_set_ms",
    "/clock_ahead_ms",
];

/// Returns the paths of all numbers in a document.
fn numbers(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(path.to_owned()),
        Value::Array(list) => {
            let each = list.iter().enumerate();
            each.for_each(|(at, value)| numbers(value, &format!("{path}/{at}"), found));
        }
        Value::Object(map) => {
            map.iter().for_each(|(name, value)| numbers(value, &format!("{path}/{name}"), found));
        }
        _ => {}
    }
}

#[test]
fn a_changed_number_in_any_block_of_the_end_is_found() {
    let seed = test_seed!(64);
    let mut draw = Draw::new(seed);
    let sim = run(seed, 0, Chaos { doubles: 0.05, copies: 0.05, ..CALM });
    let observed = sim.observed();
    let mut changed = 0;
    for place in 0..observed.blocks.len() {
        let document = serde_json::to_value(&observed.blocks[place].block).expect("JSON");
        let mut paths = Vec::new();
        numbers(&document, "", &mut paths);
        for path in paths {
            let last = &path[path.rfind('/').unwrap_or(0)..];
            let is_informative = |known: &&str| path == **known || last.starts_with(known);
            if INFORMATIVE.iter().any(is_informative) || path.contains("/remote/") {
                continue;
            }
            let mut document = document.clone();
            let number = document.pointer_mut(&path).expect("the path");
            let value = number.as_u64().expect("a count");
            *number = (value + 1 + draw.below(1000)).into();
            let block = NodeBlock::read(document.to_string().as_bytes()).expect("a block");
            let mut observed = observed.clone();
            observed.blocks[place].block = block;
            let ledger = ClusterLedger::of(&observed);
            assert!(
                !ledger.closes(),
                "{path} of {} is not found",
                observed.blocks[place].block.key()
            );
            changed += 1;
        }
    }
    assert!(changed > 60, "{changed}");
}

#[test]
fn an_abandoned_run_counts_as_complete() {
    let seed = test_seed!(66);
    let weather = Weather { boards: 4, keys: 60, loss: 0.0, lives: false };
    let mut sim = Cluster::new(2, CALM, seed);
    for packet in packets(&mut Draw::new(seed), weather).packets {
        sim.take(&packet);
        sim.pass_time(packet.at);
    }
    let mut observed = sim.observed();
    observed.abandoned = true;
    let ledger = ClusterLedger::of(&observed);
    let ClusterVerdict::LookNeeded(sentence) = ledger.verdict() else { panic!("complete") };
    assert!(sentence.contains("was abandoned before partitions 0, 1 were built"), "{sentence}");
    assert!(!sentence.contains(": 0 packets"), "{sentence}");
    assert!(ledger.table().contains(": abandoned;"), "{}", ledger.table());
    // A request that comes after the last batch changes nothing.
    let mut observed = run(seed, 0, CALM).observed();
    observed.abandoned = true;
    assert_eq!(ClusterLedger::of(&observed).verdict(), ClusterVerdict::Complete);
}

#[test]
fn a_forged_commit_is_found() {
    let sim = run(test_seed!(65), 0, CALM);
    let mut observed = sim.observed();
    let of = observed.commits[&0].total();
    let forged = Commit {
        partition: 0,
        batch: of.batches,
        covers: of.covers + 1,
        crc: 0,
        events: 3,
        packets: 17,
        refused: 0,
        sink: fluxline_kafka::build::SinkSums::default(),
        builder: "b1".to_owned(),
    };
    assert!(observed.commits.entry(0).or_default().add(&forged));
    let last = ClusterLedger::of(&observed);
    assert_eq!(last.committed.batches, sim.ledger().committed.batches + 1);
    assert!(!last.closes(), "{of:?}: {}", last.table());
}

#[test]
fn every_loss_has_a_name_that_an_experiment_can_accept() {
    let ledger = run(test_seed!(67), 0, CALM).ledger();
    let lost: Vec<_> = ledger.places().into_iter().filter(|of| of.fate == Fate::Lost).collect();
    assert!(lost.len() > 10);
    for place in lost {
        check_accept(&[place.name.to_owned()]).expect(place.name);
    }
}

/// Reading a block neither panics nor grows, whatever its bytes are.
#[test]
fn spoilt_blocks_are_refused_or_harmless() {
    let seed = test_seed!(66);
    let mut draw = Draw::new(seed);
    let sim = run(seed, 0, CALM);
    let observed = sim.observed();
    for _ in 0..300 {
        let mut spoilt = observed.clone();
        let place = draw.below(spoilt.blocks.len() as u64) as usize;
        let mut document = serde_json::to_value(&spoilt.blocks[place].block).expect("JSON");
        let mut paths = Vec::new();
        numbers(&document, "", &mut paths);
        let path = &paths[draw.below(paths.len() as u64) as usize];
        *document.pointer_mut(path).expect("the path") = u64::MAX.into();
        if let Ok(block) = NodeBlock::read(document.to_string().as_bytes()) {
            spoilt.blocks[place].block = block;
            let ledger = ClusterLedger::of(&spoilt);
            let _ = (ledger.table(), ledger.verdict());
        }
        let mut bytes = observed.blocks[place].block.to_bytes();
        let at = draw.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << draw.below(8);
        let _ = NodeBlock::read(&bytes);
    }
    let huge = vec![b'['; BLOCK_BYTES_MAX + 1];
    assert!(NodeBlock::read(&huge).expect_err("huge").to_string().contains("more than"));
    assert!(NodeBlock::read(&huge[..100_000]).is_err(), "deep nesting");
    let mut steering = observed.clone();
    steering.blocks[0].block.host = "\u{1b}[2Jgone".to_owned();
    assert!(!ClusterLedger::of(&steering).table().contains('\u{1b}'));
}
