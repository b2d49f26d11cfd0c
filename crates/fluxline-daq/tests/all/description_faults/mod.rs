//! Random descriptions and random faults: what the emulator did is what the ledger finds.
//!
//! A description that contradicts itself must not load, or its packets must not be emulated; any
//! that passes both must lead to a ledger that is right to the packet.

mod generator;

use std::collections::{BTreeMap, BTreeSet};

use fluxline_core::{Datagram, Moment, SenderAddress, Span};
use fluxline_daq::builder::{BuilderConfig, Mode, Scope};
use fluxline_daq::emulator::{
    Emulator, EmulatorConfig, EmulatorError, Faults, Pattern, SourceTruth, sender_address,
};
use fluxline_daq::event::EventBatch;
use fluxline_daq::ledger::{Ledger, SourceCounters};
use fluxline_daq::pipeline::Pipeline;
use fluxline_daq::readout::ReadoutLimits;
use fluxline_packet::Description;
use fluxline_packet::layout::{Fragment, PacketType};

use generator::{Dice, description};

/// Descriptions per test run; `CASES` in the environment sets another number, `SEED` one of them.
const CASES: u64 = 500;
/// Counters with fewer values show no loss together with reordering.
const MIXED_VALUES_MIN: u64 = 256;
/// Counters up to this many values are brought to wrap in each case, larger ones in few.
const OFTEN_WRAPPED_VALUES_MAX: u64 = 4096;
/// Counters with more values are never made to wrap.
const WRAPPED_VALUES_MAX: u64 = 1 << 16;

/// Returns how many different numbers a packet type's counter has.
fn values_of(packet: &PacketType) -> u64 {
    packet.sequence.as_ref().map_or(u64::MAX, |s| (s.last / s.step).saturating_add(1))
}

fn is_timed(packet: &PacketType) -> bool {
    packet.sequence.as_ref().is_some_and(|sequence| sequence.timestamp_step_ns.is_some())
        && values_of(packet) <= 1 << 20
}

/// Returns true if the time stamp wraps later than the longest loss.
fn has_long_time(packet: &PacketType) -> bool {
    let step_ns = packet.sequence.as_ref().and_then(|sequence| sequence.timestamp_step_ns);
    let wrap_ns = packet.timestamp.as_ref().and_then(|stamp| stamp.wrap_ns);
    wrap_ns.is_none_or(|wrap| wrap / 1000 > step_ns.unwrap_or(0))
}

/// Faults that a counter with this number of values can show.
fn faults(dice: &mut Dice, packet: &PacketType) -> Faults {
    let values = values_of(packet);
    let none = Faults::default();
    // No time stamp helps a key whose whole round was lost.
    let wide_key = packet.event.as_ref().is_none_or(|event| event.bits >= 16);
    let long = is_timed(packet) && wide_key && has_long_time(packet) && dice.one_in(2);
    let drop = if long { 0.93 } else { dice.share() * 0.08 };
    let mixed = Faults {
        drop: dice.share() * 0.05,
        duplicate: dice.share() * 0.1,
        reorder: dice.share() * 0.1,
        reorder_distance: 1 + dice.below(8) as u32,
        ..none
    };
    match dice.below(4) {
        0 => none,
        1 if values >= MIXED_VALUES_MIN => mixed,
        // A packet may be overtaken by a quarter of the numbers that are compared with repeats:
        // others that wait with it add to that.
        2 if values >= 64 => {
            let reorder_distance = (values / 16).clamp(1, 100) as u32;
            Faults { duplicate: dice.share() * 0.2, reorder: 0.05, reorder_distance, ..none }
        }
        _ => Faults { drop, duplicate: dice.share() * 0.1, ..none },
    }
}

fn config(dice: &mut Dice, packet: &PacketType, period_ns: u64) -> EmulatorConfig {
    let values = values_of(packet);
    let wraps =
        values <= OFTEN_WRAPPED_VALUES_MAX || (values <= WRAPPED_VALUES_MAX && dice.one_in(12));
    EmulatorConfig {
        sources: 1 + dice.below(6) as u32,
        packet: None,
        payload_bytes: None,
        pattern: Pattern::Counter,
        rate: 1e9 / period_ns as f64,
        jitter: 0.0,
        packets: if wraps { values * 2 + dice.below(values) + 200 } else { 1500 },
        seed: dice.below(u64::MAX),
        epoch_start: Moment::from_ns(1_700_000_000_000_000_000 + dice.below(1 << 40)),
        faults: faults(dice, packet),
    }
}

/// The expected result.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    sources: usize,
    parsed: u64,
    lost: u64,
    duplicate: u64,
    reordered: u64,
    to_builder: u64,
    restarts: u64,
    late: u64,
    held: u64,
    rejected: u64,
    /// Events of which all packets were sent.
    events_complete: u64,
}

impl Findings {
    fn meant(truth: &[SourceTruth], sent: &Sent) -> Findings {
        let sum = |of: fn(&SourceTruth) -> u64| truth.iter().map(of).sum::<u64>();
        Findings {
            sources: truth.len(),
            parsed: sum(|source| source.sent),
            lost: sum(|source| source.dropped),
            duplicate: sum(|source| source.duplicated),
            reordered: sum(|source| source.reordered),
            to_builder: sum(|source| source.sent - source.duplicated),
            events_complete: sent.complete(),
            ..Findings::default()
        }
    }

    fn found(pipeline: &Pipeline) -> Findings {
        let ledger = Ledger::default().with(pipeline.readout(), pipeline.builder());
        let SourceCounters {
            parsed,
            lost,
            duplicate,
            reordered,
            to_builder,
            restarts,
            late,
            held,
            ..
        } = ledger.source_totals();
        Findings {
            sources: ledger.sources.len(),
            parsed,
            lost,
            duplicate,
            reordered,
            to_builder,
            restarts,
            late,
            held,
            rejected: pipeline.taken(0).rejected,
            events_complete: ledger.builder.events_complete,
        }
    }
}

/// The packets that were sent, by event.
struct Sent {
    packets_per_event: u64,
    seen: BTreeMap<(u32, u64), BTreeSet<u64>>,
}

impl Sent {
    fn note(&mut self, source: u32, number: u64) {
        let event = (source, number / self.packets_per_event);
        self.seen.entry(event).or_default().insert(number % self.packets_per_event);
    }

    fn complete(&self) -> u64 {
        self.seen.values().filter(|parts| parts.len() as u64 == self.packets_per_event).count()
            as u64
    }
}

fn packets_per_event(packet: &PacketType) -> u64 {
    match &packet.fragment {
        Fragment::Index { count, .. } => count.constant().unwrap_or(1),
        Fragment::Whole | Fragment::Bytes { .. } => 1,
    }
}

/// Runs one case; `None` where the description or its emulation is refused.
fn run(seed: u64) -> Option<String> {
    let mut dice = Dice::new(seed);
    let period_ns = dice.pick(&[1_000, 10_000, 100_000, 1_000_000]);
    let text = description(&mut dice, period_ns);
    let description = Description::load("random.toml", &text, &BTreeMap::new()).ok()?;
    let packet = description.packet_types()[0].clone();
    let config = config(&mut dice, &packet, period_ns);
    let (found, meant) = play(description, &config, period_ns).ok()?;
    assert_eq!(found, meant, "seed {seed}, {config:?}\n{text}");
    Some(text)
}

/// Emulates packets every `period_ns` and reads them: what was found, and what was meant.
pub fn play(
    description: Description,
    config: &EmulatorConfig,
    period_ns: u64,
) -> Result<(Findings, Findings), EmulatorError> {
    let packet = description.packet_types()[0].clone();
    let mut emulator = Emulator::new(&description, config.clone())?;
    let mode = match packet.event {
        Some(_) => Mode::Key(Scope::PerSource),
        None => Mode::Packet,
    };
    let builder = BuilderConfig {
        mode,
        time_out: Span::from_ns(period_ns * 200 * packets_per_event(&packet)),
        // Packets come out of order by 100 at most.
        lateness: Span::from_ns(period_ns * 200),
        ..BuilderConfig::default()
    };
    let inputs = vec![("random".to_string(), description)];
    let mut pipeline = Pipeline::new(inputs, ReadoutLimits::default(), builder);
    let mut sent = Sent { packets_per_event: packets_per_event(&packet), seen: BTreeMap::new() };
    let (mut now, mut spare) = (config.epoch_start, EventBatch::default());
    while let Some(emission) = emulator.next() {
        now = config.epoch_start + emission.at;
        sent.note(emission.source, emission.number);
        let sender = sender_address([10, 0, 0, 1].into(), emission.sender);
        let sender = SenderAddress::from(sender);
        let datagram = Datagram { bytes: emission.bytes, sender, port: 6006, time: now };
        pipeline.take(0, now, &datagram);
        pipeline.poll(now);
        if pipeline.batch_is_due(now) {
            spare = pipeline.take_batch(spare);
            spare.clear();
        }
    }
    pipeline.finish(now);
    let meant = Findings::meant(&emulator.truth(), &sent);
    Ok((Findings::found(&pipeline), meant))
}

#[test]
fn what_the_emulator_did_is_what_the_ledger_finds_for_any_description_that_loads() {
    let (mut passed, mut timed) = (0, 0);
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (one, cases) = (number("SEED"), number("CASES").unwrap_or(CASES));
    for seed in one.map_or(0..cases, |seed| seed..seed + 1) {
        if let Some(text) = run(seed) {
            passed += 1;
            timed += u64::from(text.contains("timestamp-step-ns"));
        }
    }
    if one.is_some() {
        return;
    }
    println!("{passed} of {cases} descriptions were run, {timed} of them timed");
    assert!(passed > cases / 4 && timed > cases / 50, "{passed} passed, {timed} timed");
}
