//! Random runs compared with an offline join of all arrivals.
//!
//! The oracle is simple: all arrivals by trigger. Properties: with late fragments joined, the
//! events equal the oracle's; each packet is in one place, and each event has one row that is not
//! late; within the lateness, and with a constant set of sources, nothing is late; a dead source
//! does not affect live ones; a stalled reader makes no source silent; limits hold.
//! `FLUXLINE_RANDOM_RUNS` asks for more runs than these; each prints its seed.

use std::collections::{BTreeMap, BTreeSet};

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256StarStar;

use super::super::*;
use super::world::*;
use crate::event::EventStatus;

/// Random numbers from a seed.
pub(super) struct Random(Xoshiro256StarStar);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(Xoshiro256StarStar::seed_from_u64(seed))
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    pub(super) fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    /// True with a chance of `per_mille`.
    pub(super) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }
}

pub(super) fn runs(usual: u64) -> std::ops::Range<u64> {
    let asked = std::env::var("FLUXLINE_RANDOM_RUNS").ok().and_then(|text| text.parse().ok());
    0..asked.unwrap_or(usual)
}

/// The faults that a random run may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    latencies: &'static [u64],
    jitters: &'static [u64],
    spills: &'static [u64],
    /// Sources come late, die, are off for a while, are prescaled, lose packets.
    constant: bool,
    counters: bool,
    parts: &'static [u32],
    key_bits: &'static [u8],
}

pub(super) const ANYTHING: Limits = Limits {
    latencies: &[0, US, 200 * US, 30 * MS, 200 * MS],
    jitters: &[0, 0, US, 5 * MS, 30 * MS],
    spills: &[1, 1, 1, 3],
    constant: false,
    counters: true,
    parts: &[1, 1, 1, 3],
    key_bits: &[64, 64, 16],
};

/// A run and its truth.
pub(super) struct Made {
    pub(super) packets: Vec<Sent>,
    /// Parts that arrived, by the number of the trigger.
    arrived: BTreeMap<usize, BTreeSet<(u32, u64)>>,
    /// Sources that lost a packet, by the number of the trigger.
    lost: BTreeSet<(usize, u32)>,
    /// The key of each trigger.
    keys: Vec<u64>,
    spills: u64,
    pub(super) key_bits: u8,
    /// Returns the times of triggers.
    pub(super) times: Vec<u64>,
}

/// Returns the times at which a source sends.
struct Habit {
    latency: u64,
    jitter: u64,
    share: u64,
    loss: u64,
    twice: u64,
    from: u64,
    to: u64,
    off: (u64, u64),
    parts: u32,
}

fn habit(random: &mut Random, limits: Limits, end: u64) -> Habit {
    let constant = limits.constant;
    let spread =
        |random: &mut Random, list: &[u64]| if constant { list[0] } else { random.of(list) };
    Habit {
        latency: random.of(limits.latencies),
        jitter: random.of(limits.jitters),
        share: spread(random, &[1000, 1000, 1000, 500, 100]),
        loss: spread(random, &[0, 0, 10, 100]),
        twice: random.of(&[0, 0, 20]),
        from: spread(random, &[0, 0, 0, end * 3 / 10]),
        to: spread(random, &[end + 1, end + 1, end + 1, end * 6 / 10]),
        off: if !constant && random.chance(200) { (end * 4 / 10, end / 2) } else { (1, 0) },
        parts: random.of(limits.parts),
    }
}

pub(super) fn make(seed: u64, limits: Limits) -> Made {
    let mut random = Random::new(seed);
    let sources = 1 + random.below(6) as u32;
    let period = random.of(&[20 * US, 100 * US, MS, 20 * MS]);
    let count = 50 + random.below(1450);
    let spills = random.of(limits.spills);
    let key_bits = random.of(limits.key_bits);
    let base = if spills > 1 { 0 } else { random.of(&[0, 12_345, 65_500]) };
    let (mut times, mut keys, mut time) = (Vec::new(), Vec::new(), 0);
    for _ in 0..spills {
        for key in 0..count {
            time += if random.chance(500) { random.below(2 * period) } else { period };
            times.push(time);
            keys.push(base + key);
        }
        time += 3000 * MS;
    }
    let (packets, arrived, lost) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
    let mut made = Made { packets, arrived, lost, keys, spills, key_bits, times };
    for source in 0..sources {
        let habit = habit(&mut random, limits, made.times[made.times.len() - 1]);
        send(&mut random, &mut made, source, &habit, limits);
    }
    made.packets.sort_by_key(|packet| packet.at);
    made
}

fn send(random: &mut Random, made: &mut Made, source: u32, habit: &Habit, limits: Limits) {
    let mut count = random.of(&[0, 7777]);
    for (trigger, &time) in made.times.iter().enumerate() {
        let off = (habit.off.0..=habit.off.1).contains(&time);
        if time < habit.from || time > habit.to || off || !random.chance(habit.share) {
            continue;
        }
        for part in 0..habit.parts {
            let number = count;
            count += 1;
            if random.chance(habit.loss) {
                made.lost.insert((trigger, source));
                continue;
            }
            let jitter = random.chance(50) && habit.jitter > 0;
            let delay = if jitter { random.below(habit.jitter) } else { 0 };
            let packet = Sent {
                at: time + habit.latency + delay + u64::from(part) * 100,
                source,
                count: limits.counters.then_some(number),
                key: made.keys[trigger] & (u64::MAX >> (64 - made.key_bits)),
                part: (part, habit.parts),
                spill: None,
                input: 0,
                mark: 0,
            };
            made.packets.push(packet);
            made.arrived.entry(trigger).or_default().insert((source, u64::from(part)));
            if limits.counters && random.chance(habit.twice) {
                made.packets.push(Sent { at: packet.at + US, ..packet });
            }
        }
    }
}

pub(super) fn quick() -> BuilderConfig {
    BuilderConfig { settling: Span::from_ms(200), ..shared() }
}

fn widths_of(made: &Made) -> Widths {
    Widths { key: made.key_bits, ..WIDE }
}

/// Parts by generation and key, late fragments joined.
fn parts_of(out: &Outcome) -> BTreeMap<(u32, u64), BTreeSet<(u32, u64)>> {
    let mut joined: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for row in &out.rows {
        joined.entry((row.generation, row.key)).or_default().extend(row.parts.iter().copied());
    }
    joined
}

/// The events, late fragments joined, are those of the offline join.
fn check_join(made: &Made, out: &Outcome) {
    let mask = u64::MAX >> (64 - made.key_bits);
    // The wrap in which the run began, and the numbering of spills, cannot be known.
    let found = parts_of(out).into_iter().map(|((_, key), parts)| (key & mask, parts));
    let wanted =
        made.arrived.iter().map(|(&trigger, parts)| (made.keys[trigger] & mask, parts.clone()));
    let (mut found, mut wanted): (Vec<_>, Vec<_>) = (found.collect(), wanted.collect());
    found.sort();
    wanted.sort();
    let differs = found.iter().zip(&wanted).find(|(found, wanted)| found != wanted);
    assert!(differs.is_none(), "found and wanted: {differs:?}");
    assert_eq!(found.len(), wanted.len());
    let generations: BTreeSet<u32> = out.rows.iter().map(|row| row.generation).collect();
    assert!(generations.len() as u64 <= made.spills, "{generations:?}");
}

/// Each packet is in one place; each event has one row that is not late.
fn check_places(made: &Made, out: &Outcome) {
    let places = ["recorded", "duplicate", "event_duplicate", "late", "builder_full"];
    let placed: u64 = places.iter().map(|place| out.total(place)).sum();
    assert_eq!(placed, made.packets.len() as u64);
    assert_eq!((out.total("inconsistent"), out.total("builder_full")), (0, 0));
    assert_eq!(out.total("event_duplicate"), 0, "nothing but true duplicates is dropped");
    let mut seen = BTreeSet::new();
    for row in out.rows.iter().filter(|row| row.status != EventStatus::Late) {
        assert!(seen.insert((row.generation, row.key)), "two rows of {row:?}");
    }
}

/// No event is complete, with what became known later, that lacks a source whose packets for it
/// were lost between others, as its counter shows. For runs with one generation of keys.
fn check_losses(made: &Made, out: &Outcome) {
    let came = |source: u32| {
        let of = made.arrived.iter().filter(move |its| its.1.iter().any(|part| part.0 == source));
        let triggers: Vec<usize> = of.map(|its| *its.0).collect();
        (triggers.first().copied(), triggers.last().copied())
    };
    let complete: BTreeSet<u64> = out
        .rows
        .iter()
        .filter(|row| row.status == EventStatus::Complete)
        .map(|row| row.key)
        .collect();
    for &(trigger, source) in &made.lost {
        let (first, last) = came(source);
        let is_between = first < Some(trigger) && Some(trigger) < last;
        let came = made.arrived.get(&trigger);
        let is_part = came.is_some_and(|parts| parts.iter().any(|part| part.0 == source));
        let key = made.keys[trigger];
        if !is_between || is_part || !complete.contains(&key) {
            continue;
        }
        let label = format!("board={source}");
        let number = out.summary.iter().position(|its| its.label == label);
        let is_told = out.amendments.iter().any(|its| {
            its.lost
                && Some(its.source as usize) == number
                && its.after.key < key
                && key < its.before.key
        });
        assert!(is_told, "event {key} is complete without its packet of {label}");
    }
}

#[test]
fn an_event_that_lacks_a_lost_packet_is_complete() {
    let limits = Limits { spills: &[1], key_bits: &[64], ..ANYTHING };
    for (seed, events_open_max) in runs(300).flat_map(|seed| [(seed, 0), (seed, 64), (seed, 16)]) {
        println!("seed {seed}, room for {events_open_max} events");
        let made = make(seed, limits);
        if made.packets.is_empty() {
            continue;
        }
        let config = BuilderConfig { events_open_max, ..quick() };
        let out = run_with(config, widths_of(&made), made.packets.clone());
        check_losses(&made, &out);
    }
}

#[test]
fn joined_events_are_those_of_an_offline_join() {
    for seed in runs(300) {
        println!("seed {seed}");
        let made = make(seed, ANYTHING);
        if made.packets.is_empty() {
            continue;
        }
        let out = run_with(quick(), widths_of(&made), made.packets.clone());
        check_places(&made, &out);
        check_join(&made, &out);
    }
}

#[test]
fn within_the_lateness_and_with_a_constant_set_nothing_is_late() {
    for seed in runs(100) {
        println!("seed {seed}");
        let made = make(seed, STEADY);
        let out = run_with(quick(), widths_of(&made), made.packets.clone());
        check_places(&made, &out);
        check_join(&made, &out);
        assert_eq!(out.late(), 0);
        assert_eq!(out.complete(), made.arrived.len());
    }
}

#[test]
fn without_packet_counters_events_are_joined_all_the_same() {
    let limits = Limits {
        latencies: &[0, US, 200 * US, 30 * MS],
        jitters: &[0, US, 3 * MS],
        counters: false,
        ..ANYTHING
    };
    for seed in runs(100) {
        println!("seed {seed}");
        let made = make(seed, limits);
        if made.packets.is_empty() {
            continue;
        }
        let out = run_with(quick(), widths_of(&made), made.packets.clone());
        check_places(&made, &out);
        check_join(&made, &out);
    }
}

/// Sources within the lateness that send all the time.
const STEADY: Limits = Limits {
    latencies: &[0, US, 200 * US, 4 * MS],
    jitters: &[0, US, 3 * MS],
    constant: true,
    ..ANYTHING
};

#[test]
fn a_source_that_dies_makes_nothing_of_the_living_late() {
    for seed in runs(60) {
        println!("seed {seed}");
        let mut made = make(seed, STEADY);
        let end = made.packets.last().map_or(0, |its| its.at);
        let dies = made.packets[0].source;
        let goes = |its: &Sent| its.source == dies && its.at > end / 2;
        made.packets.retain(|its| !goes(its));
        let out = run_with(quick(), widths_of(&made), made.packets.clone());
        check_places(&made, &out);
        assert_eq!(out.late(), 0);
        let alive = |label: &str| out.summary.iter().find(|its| its.label == label);
        for its in made.packets.iter().filter(|its| its.source != dies) {
            let label = format!("board={}", its.source);
            assert!(alive(&label).is_some_and(|its| its.state == SourceState::Live));
        }
    }
}

#[test]
fn a_reader_that_stalls_for_ten_seconds_makes_nobody_silent() {
    for seed in runs(40) {
        println!("seed {seed}");
        let mut made = make(seed, Limits { spills: &[1], ..STEADY });
        made.packets.iter_mut().for_each(|its| its.input = (its.source % 2) as u16);
        let begin = made.packets[0].at;
        let end = made.packets.last().map_or(0, |its| its.at);
        let (from, to) = (begin + (end - begin) / 3, begin + (end - begin) / 3 + 10_000 * MS);
        if from < begin + 50 * MS {
            continue; // not all have joined
        }
        let mut world = World::new(quick(), widths_of(&made));
        let (mut tick, mut now) = (begin, begin);
        // Packets that arrived in the stall are taken in turns of 64 from each input, as from two
        // rings.
        let (stalled, rest): (Vec<Sent>, Vec<Sent>) =
            made.packets.iter().partition(|its| (from..to).contains(&its.at));
        let mut rings: [Vec<Sent>; 2] = Default::default();
        stalled.iter().for_each(|its| rings[usize::from(its.input)].push(*its));
        for its in rest.iter().filter(|its| its.at < from) {
            while tick < its.at {
                world.poll(tick);
                tick += 5 * MS;
            }
            now = its.at;
            world.push(now, *its);
        }
        if !stalled.is_empty() {
            now = to;
        }
        while rings.iter().any(|ring| !ring.is_empty()) {
            for (input, ring) in rings.iter_mut().enumerate() {
                for its in ring.drain(..ring.len().min(64)) {
                    world.push(now, its);
                }
                world.builder.note_backlog(input as u16, !ring.is_empty());
            }
            world.poll(now);
        }
        for its in rest.iter().filter(|its| its.at >= to) {
            now = now.max(its.at);
            world.push(now, *its);
        }
        let out = world.finish(now);
        check_places(&made, &out);
        assert!(!out.reports.iter().any(|text| text.contains("silent")), "{:?}", out.reports);
        assert!(out.summary.iter().all(|its| its.state == SourceState::Live));
        assert_eq!(out.late(), 0);
    }
}

#[test]
fn with_little_memory_nothing_is_refused_and_late_is_recorded() {
    let limits = Limits { latencies: &[0, 30 * MS, 200 * MS], ..ANYTHING };
    for seed in runs(60) {
        println!("seed {seed}");
        let made = make(seed, limits);
        if made.packets.is_empty() {
            continue;
        }
        let config = BuilderConfig {
            bytes_open_max: 256 << 10,
            events_open_max: 64,
            batch_bytes: 32 << 10,
            ..quick()
        };
        let out = run_with(config, widths_of(&made), made.packets.clone());
        assert!(out.open_most <= 64, "{}", out.open_most);
        check_places(&made, &out);
        check_join(&made, &out);
    }
}
