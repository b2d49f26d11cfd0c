//! Emulated packets against the description's own program, and faults against a recount.

use std::collections::BTreeMap;

use fluxline_core::{Datagram, Moment, SenderAddress, Span};
use fluxline_packet::{Description, Part, shipped};

use super::{Emulator, EmulatorConfig, Faults, Pattern};

fn config() -> EmulatorConfig {
    EmulatorConfig {
        sources: 3,
        packet: None,
        payload_bytes: None,
        pattern: Pattern::Counter,
        rate: 1000.0,
        jitter: 0.0,
        packets: 200,
        seed: 5,
        epoch_start: Moment::from_ns(1_700_000_000_000_000_000),
        faults: Faults::default(),
    }
}

fn load(name: &str) -> Description {
    let text = shipped::shipped(name).expect("shipped");
    Description::load(name, text, &BTreeMap::new()).expect("it loads")
}

fn datagram(bytes: &[u8]) -> Datagram<'_> {
    Datagram { bytes, sender: SenderAddress::NONE, port: 0, time: Moment::default() }
}

#[test]
fn every_shipped_format_yields_packets_that_it_reads_back() {
    for name in shipped::names() {
        let description = load(name);
        let mut emulator = Emulator::new(&description, config()).unwrap_or_else(|error| {
            panic!("{name}: {error}");
        });
        let mut seen = 0;
        while let Some(emission) = emulator.next() {
            let parsed = description.program().parse(&datagram(emission.bytes));
            let parsed = parsed.unwrap_or_else(|reject| {
                panic!("{name}: {reject:?}: {}", description.rule_name(reject));
            });
            if let Part::Index { index, count } = parsed.part {
                assert!(index < count, "{name}");
            }
            seen += 1;
        }
        assert_eq!(seen, 600, "{name}");
    }
}

#[test]
fn truth_equals_a_recount_of_what_was_sent() {
    let description = load("counter");
    let faults = Faults {
        drop: 0.02,
        duplicate: 0.03,
        reorder: 0.05,
        reorder_distance: 6,
        ..Faults::default()
    };
    for seed in 1..30 {
        println!("seed {seed}");
        let mut emulator =
            Emulator::new(&description, EmulatorConfig { seed, faults, ..config() }).expect("made");
        let mut seen = vec![Vec::new(); 3];
        while let Some(emission) = emulator.next() {
            let parsed = description.program().parse(&datagram(emission.bytes)).expect("read");
            seen[emission.source as usize].push(parsed.sequence.expect("numbered"));
        }
        for (truth, seen) in emulator.truth().iter().zip(&seen) {
            assert_eq!(truth.made, 200);
            assert_eq!(truth.sent as usize, seen.len());
            assert_eq!(*seen.last().expect("not empty"), 199, "the last packet is always sent");
            let mut unique = std::collections::BTreeSet::new();
            let (mut copies, mut reordered, mut highest) = (0, 0, None);
            for &number in seen {
                if !unique.insert(number) {
                    copies += 1;
                } else if Some(number) < highest {
                    reordered += 1;
                }
                highest = highest.max(Some(number));
            }
            assert_eq!(truth.duplicated, copies);
            assert_eq!(truth.reordered, reordered);
            let missing: Vec<u64> = (0..200).filter(|number| !unique.contains(number)).collect();
            assert_eq!(truth.dropped_sequences, missing);
            assert_eq!(truth.dropped as usize, missing.len());
        }
    }
}

#[test]
fn one_seed_makes_the_same_bytes_and_another_does_not() {
    let description = load("counter");
    let faults = Faults { drop: 0.1, corrupt: 0.1, restart: 0.01, ..Faults::default() };
    let play = |seed| {
        let config = EmulatorConfig { seed, faults, pattern: Pattern::Noise, ..config() };
        let mut emulator = Emulator::new(&description, config).expect("made");
        let mut all = Vec::new();
        while let Some(emission) = emulator.next() {
            all.push((emission.at, emission.source, emission.bytes.to_vec()));
        }
        all
    };
    assert_eq!(play(1), play(1));
    assert_ne!(play(1), play(2));
}

#[test]
fn packets_come_in_the_order_of_time_at_the_given_rate() {
    let description = load("counter");
    let mut emulator = Emulator::new(&description, config()).expect("made");
    let (mut last, mut count) = (Span::ZERO, 0);
    while let Some(emission) = emulator.next() {
        assert!(emission.at >= last);
        last = emission.at;
        count += 1;
    }
    assert_eq!((last, count), (Span::from_ms(199), 600));
}

#[test]
fn stopping_still_sends_what_was_held_back_and_a_last_packet() {
    let description = load("counter");
    let faults = Faults { reorder: 0.5, reorder_distance: 50, drop: 0.3, ..Faults::default() };
    let config = EmulatorConfig { packets: 0, faults, ..config() };
    let mut emulator = Emulator::new(&description, config).expect("made");
    let mut sent = 0;
    for _ in 0..100 {
        sent += u64::from(emulator.next().is_some());
    }
    emulator.stop();
    while emulator.next().is_some() {
        sent += 1;
    }
    for truth in emulator.truth() {
        assert_eq!(truth.made, truth.sent + truth.dropped);
    }
    assert_eq!(sent, emulator.truth().iter().map(|truth| truth.sent).sum::<u64>());
}

#[test]
fn an_unknown_packet_type_is_answered_with_those_that_exist() {
    let config = EmulatorConfig { packet: Some("imaeg".into()), ..config() };
    let error = Emulator::new(&load("counter"), config).err().expect("refused").to_string();
    assert!(error.contains("imaeg") && error.contains("it has"), "{error}");
}

/// Dropped by the emulator, lost by the readout's own tracker, restarts of both, and the fewest
/// packets before a restart.
fn judged(faults: Faults, packets: u64, seed: u64) -> (u64, u64, u64, u32, u64) {
    use crate::readout::sequence::{SequenceLimits, SequenceRule, SequenceTracker};
    let description = load("counter");
    let config = EmulatorConfig { seed, faults, sources: 1, packets, ..config() };
    let mut emulator = Emulator::new(&description, config).expect("made");
    let rule = SequenceRule::of_bits(64);
    let mut tracker = SequenceTracker::new(rule, SequenceLimits::default());
    let (mut newest, mut fewest, mut restarts) = (0, u64::MAX, 0);
    while let Some(emission) = emulator.next() {
        let parsed = description.program().parse(&datagram(emission.bytes)).expect("read");
        let sequence = parsed.sequence.expect("numbered");
        tracker.observe(sequence, None);
        let restarts_now = emulator.truth()[0].restarts;
        if restarts_now > restarts {
            (fewest, restarts, newest) = (fewest.min(newest), restarts_now, 0);
        }
        newest = newest.max(sequence);
    }
    tracker.finish();
    let truth = &emulator.truth()[0];
    (truth.dropped, tracker.lost(), truth.restarts, tracker.restarts(), fewest)
}

#[test]
fn a_receiver_can_see_every_dropped_packet() {
    let drop = Faults { drop: 0.05, ..Faults::default() };
    let mixed = Faults { reorder: 0.05, reorder_distance: 5, duplicate: 0.05, ..drop };
    for seed in 1..201 {
        for faults in [drop, mixed] {
            let (dropped, lost, ..) = judged(faults, 200, seed);
            assert_eq!(dropped, lost, "seed {seed}");
        }
    }
}

#[test]
fn a_packet_dropped_before_a_restart_is_seen_too() {
    let faults = Faults { drop: 0.2, restart: 5e-5, ..Faults::default() };
    let (mut judged_restarts, mut wrong) = (0, 0);
    for seed in 1..61 {
        let (dropped, lost, restarts, seen, fewest) = judged(faults, 40_000, seed);
        // The tracker cannot see a restart after fewer packets than its window.
        if fewest > 2 * 4096 && restarts > 0 {
            println!("seed {seed}: dropped {dropped} lost {lost} restarts {restarts} seen {seen}");
            judged_restarts += restarts;
            wrong += u64::from((dropped, restarts) != (lost, u64::from(seen)));
        }
    }
    assert!(judged_restarts > 10);
    assert_eq!(wrong, 0);
}

#[test]
fn copies_and_losses_do_not_make_the_memory_grow() {
    let description = load("counter");
    let faults = Faults { duplicate: 0.1, drop: 0.05, ..Faults::default() };
    let config = EmulatorConfig { packets: 0, faults, ..config() };
    let mut emulator = Emulator::new(&description, config).expect("made");
    for _ in 0..50_000 {
        assert!(emulator.next().is_some());
    }
    assert!(emulator.spare.len() < 50, "{} spare packets", emulator.spare.len());
}
