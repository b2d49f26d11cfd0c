//! The event builder's rate in fragments per second, and a check that its memory stays
//! flat.
//!
//! Eight sources send one 64-byte packet each per event; events are interleaved over a distance,
//! so that many are open at a time. The floor is a copy of the same bytes and rows into vectors,
//! twice, which no builder that owns its packets can go below. Prints machine, kernel, medians and
//! the resident memory along the way. Arguments: seconds for the endurance part (default 10).

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[path = "../../fluxline-bench/src/statistics/median.rs"]
mod median;

use std::hint::black_box;
use std::time::{Duration, Instant};

use fluxline_core::{Datagram, Moment, SenderAddress, Span};
use fluxline_daq::builder::{Builder, BuilderConfig, Expectation, Mode, Scope};
use fluxline_daq::event::EventBatch;
use fluxline_daq::readout::sequence::SequenceRule;
use fluxline_daq::readout::{Accepted, Counted, FormatRules, PacketRule, Readout, ReadoutLimits};
use fluxline_packet::{Parsed, Part, SourceKey};
use median::median;

const SOURCES: u64 = 8;
const PAYLOAD: [u8; 64] = [7; 64];
/// Number of events that are open at a time.
const OPEN: u64 = 64;
const TRIALS: usize = 7;
const EVENTS: u64 = 250_000;
/// Packets until the first time-outs are over and the table of closed keys is full.
const STEADY_FROM: u64 = 8_000_000;

fn main() {
    // `cargo bench` says so; `cargo test --all-targets` only checks that it runs.
    let quick = !std::env::args().any(|argument| argument == "--bench");
    let seconds = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(10);
    let events = if quick { 1000 } else { EVENTS };
    println!("machine: {}", machine());
    // First, so that no memory of another part hides its growth.
    if !quick {
        endure(Duration::from_secs(seconds));
    }
    let (mut builds, mut runs, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TRIALS {
        builds.push(rate(events, || build(events, Part::Whole)));
        runs.push(rate(events, || read_and_build(events)));
        floors.push(rate(events, || copy_twice(events)));
    }
    let (build_rate, run_rate, floor) =
        (median(&mut builds), median(&mut runs), median(&mut floors));
    println!("builder:           {:6.2} M fragments/s (wanted: 3.00)", build_rate / 1e6);
    println!("readout + builder: {:6.2} M fragments/s", run_rate / 1e6);
    println!(
        "floor, two copies: {:6.2} M fragments/s ({:.2} of it)",
        floor / 1e6,
        build_rate / floor
    );
}

fn builder() -> Builder {
    Builder::new(BuilderConfig {
        mode: Mode::Key(Scope::Global),
        expectation: Expectation::Count(SOURCES as u32),
        // As a run is two seconds after its last source joined.
        settling: Span::ZERO,
        ..BuilderConfig::default()
    })
}

fn datagram(step: u64) -> Datagram<'static> {
    let time = Moment::from_ns(step * 300);
    Datagram { bytes: &PAYLOAD, sender: SenderAddress::NONE, port: 6006, time }
}

fn parsed(source: u64, event: u64, part: Part) -> Parsed {
    Parsed {
        step: None,
        counts: None,
        packet: 0,
        source: SourceKey { sender: SenderAddress::NONE, terms: source },
        sequence: Some(event),
        event: Some(event),
        spill: None,
        part,
        sensor_time_ns: None,
        payload_start: 16,
        payload_bytes: 48,
    }
}

/// Source `source` lags by its share of the events that are open.
fn event_of(step: u64) -> (u64, Option<u64>) {
    let source = step % SOURCES;
    (source, (step / SOURCES).checked_sub(source * OPEN / SOURCES))
}

fn build(events: u64, part: Part) -> u64 {
    let mut builder = builder();
    let mut spare = EventBatch::default();
    let mut built = 0;
    for step in 0..(events + OPEN) * SOURCES {
        let (source, Some(event)) = event_of(step) else { continue };
        if event >= events {
            continue;
        }
        let counted = Counted { class: 0, count: event, missing: 0, reordered: false, restarts: 0 };
        let accepted = Accepted {
            source: source as u32,
            input: 0,
            epoch: 0,
            sequence: Some(event),
            counted: Some(counted),
            event_bits: 64,
            spill_bits: 32,
        };
        let datagram = datagram(step);
        builder.push(datagram.time, &accepted, &datagram, &parsed(source, event, part));
        built += drain(&mut builder, &mut spare, datagram.time, step);
    }
    builder.finish(Moment::default());
    built += builder.take_batch(EventBatch::default()).packets.len() as u64;
    assert_eq!(built, events * SOURCES);
    built
}

fn read_and_build(events: u64) -> u64 {
    let mut builder = builder();
    let mut readout = readout();
    let mut spare = EventBatch::default();
    let mut built = 0;
    for step in 0..(events + OPEN) * SOURCES {
        let (source, Some(event)) = event_of(step) else { continue };
        if event >= events {
            continue;
        }
        let datagram = datagram(step);
        let parsed = parsed(source, event, Part::Whole);
        readout.accept(0, &datagram, &parsed, |accepted, datagram, parsed| {
            builder.push(datagram.time, accepted, datagram, parsed);
        });
        built += drain(&mut builder, &mut spare, datagram.time, step);
    }
    builder.finish(Moment::default());
    built += builder.take_batch(EventBatch::default()).packets.len() as u64;
    assert_eq!(built, events * SOURCES);
    built
}

fn readout() -> Readout {
    let sequence = Some(SequenceRule::of_bits(32));
    let rule = PacketRule { sequence, event_bits: 64, ..PacketRule::default() };
    Readout::new(vec![FormatRules { packets: vec![rule] }], ReadoutLimits::default())
}

/// As the program does: looks at the clock now and then, takes batches that are due.
fn drain(builder: &mut Builder, spare: &mut EventBatch, now: Moment, step: u64) -> u64 {
    if !step.is_multiple_of(64) {
        return 0;
    }
    builder.poll(now);
    if !builder.batch_is_due(now) {
        return 0;
    }
    *spare = builder.take_batch(core::mem::take(spare));
    black_box(spare).packets.len() as u64
}

/// The same bytes and as large rows into vectors and on into others.
fn copy_twice(events: u64) -> u64 {
    const ROW_BYTES: usize = size_of::<fluxline_daq::event::PacketRow>();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let (mut first_rows, mut second_rows) = (Vec::new(), Vec::new());
    let mut copied = 0;
    for _ in 0..events {
        first.clear();
        first_rows.clear();
        for _ in 0..SOURCES {
            first.extend_from_slice(black_box(&PAYLOAD));
            first_rows.extend_from_slice(black_box(&[0_u8; ROW_BYTES]));
            copied += 1;
        }
        if second.len() > 4 << 20 {
            second.clear();
            second_rows.clear();
        }
        second.extend_from_slice(black_box(&first));
        second_rows.extend_from_slice(black_box(&first_rows));
    }
    copied
}

/// Events without end: the resident memory at the start, in the middle and at the end.
fn endure(duration: Duration) {
    let (mut builder, mut readout, mut spare) = (builder(), readout(), EventBatch::default());
    let begun = Instant::now();
    let mut memory = Vec::new();
    let mut step = 0_u64;
    let mut built = 0_u64;
    for part in 0..=4_u32 {
        while part > 0 && begun.elapsed() < duration * part / 4 || step < STEADY_FROM {
            for _ in 0..100_000 {
                let (source, event) = event_of(step);
                // Every 1000th packet is lost, so that time-outs are part of it.
                if let Some(event) = event
                    && step % 1000 != 999
                {
                    let datagram = datagram(step);
                    let parsed = parsed(source, event, Part::Whole);
                    readout.accept(0, &datagram, &parsed, |accepted, datagram, parsed| {
                        builder.push(datagram.time, accepted, datagram, parsed);
                    });
                }
                built += drain(&mut builder, &mut spare, Moment::from_ns(step * 300), step);
                step += 1;
            }
        }
        memory.push(resident_kib());
    }
    println!(
        "endurance: {:.1} M fragments in {:.1} s, 1 in 1000 lost, {} events incomplete, {} open at \
         most",
        built as f64 / 1e6,
        begun.elapsed().as_secs_f64(),
        builder.counters().events_incomplete,
        builder.counters().events_open_most
    );
    println!("resident memory at start, quarters and end [KiB]: {memory:?}");
}

fn rate(events: u64, run: impl FnOnce() -> u64) -> f64 {
    let begun = Instant::now();
    black_box(run());
    (events * SOURCES) as f64 / begun.elapsed().as_secs_f64()
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{}, Linux {}", model.trim_start_matches([' ', '\t', ':']), kernel.trim())
}
