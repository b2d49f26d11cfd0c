//! A short run: packets with times pass readout and builder, and the output is gathered as sets.

use std::collections::{BTreeMap, BTreeSet};

use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_packet::{Parsed, Part, SourceKey};

use super::super::*;
use crate::event::EventStatus;
use crate::ledger::{BatchFate, InputEntry, Ledger};
use crate::readout::sequence::SequenceRule;
use crate::readout::{FormatRules, PacketRule, Readout, ReadoutLimits};

pub const US: u64 = 1000;
pub const MS: u64 = 1_000_000;

/// One packet, with its time of arrival \[ns\].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    pub at: u64,
    pub source: u32,
    pub count: Option<u64>,
    pub key: u64,
    /// Its number within the fragment, and how many there are.
    pub part: (u32, u32),
    pub spill: Option<u64>,
    /// The input that it comes by.
    pub input: u16,
    /// Distinguishes its bytes from those of other packets.
    pub mark: u64,
}

/// A packet that is a whole fragment, of a source with a counter.
pub fn sent(at: u64, source: u32, count: u64, key: u64) -> Sent {
    Sent { at, source, count: Some(count), key, part: (0, 1), spill: None, input: 0, mark: 0 }
}

/// A board that sends a packet for each of some triggers.
#[derive(Clone, Copy, Debug)]
pub struct Board {
    pub source: u32,
    /// Between triggers \[ns\].
    pub period: u64,
    /// From trigger to arrival \[ns\].
    pub latency: u64,
}

impl Board {
    pub fn send(self, keys: impl IntoIterator<Item = u64>) -> Vec<Sent> {
        let Board { source, period, latency } = self;
        let keys = keys.into_iter().enumerate();
        keys.map(|(n, key)| sent(key * period + latency, source, n as u64, key)).collect()
    }
}

/// Widths of what packets carry.
#[derive(Clone, Copy, Debug)]
pub struct Widths {
    pub counter: u8,
    pub key: u8,
    pub spill: u8,
}

pub const WIDE: Widths = Widths { counter: 32, key: 64, spill: 32 };

/// An event that came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub generation: u32,
    pub key: u64,
    pub status: EventStatus,
    pub sources: BTreeSet<u32>,
    /// Sources and parts, in order of arrival.
    pub parts: Vec<(u32, u64)>,
    pub missing: String,
    /// The marks of its packets.
    pub marks: Vec<u64>,
}

/// Everything that came out of a run.
pub struct Outcome {
    pub rows: Vec<Row>,
    /// The same as recorded.
    pub batches: Vec<EventBatch>,
    pub ledger: Ledger,
    pub reports: Vec<String>,
    pub summary: Vec<SourceSummary>,
    pub amendments: Vec<Amendment>,
    pub open_most: u64,
    pub pushed: u64,
}

impl Outcome {
    /// Returns the number of events with a status.
    pub fn count(&self, status: EventStatus) -> usize {
        self.rows.iter().filter(|row| row.status == status).count()
    }

    /// Sources by generation and key, late fragments joined.
    pub fn joined(&self) -> BTreeMap<(u32, u64), BTreeSet<u32>> {
        let mut joined: BTreeMap<_, BTreeSet<u32>> = BTreeMap::new();
        for row in &self.rows {
            joined.entry((row.generation, row.key)).or_default().extend(&row.sources);
        }
        joined
    }

    /// Returns the number of events for each number of sources, late fragments joined.
    pub fn sizes(&self) -> BTreeMap<usize, usize> {
        let mut sizes = BTreeMap::new();
        self.joined().values().for_each(|sources| *sizes.entry(sources.len()).or_default() += 1);
        sizes
    }

    /// The total of a counter of all sources.
    pub fn total(&self, counter: &str) -> u64 {
        self.ledger.total(&format!("source.{counter}")).expect("a counter")
    }

    pub fn complete(&self) -> usize {
        self.count(EventStatus::Complete)
    }

    pub fn late(&self) -> usize {
        self.count(EventStatus::Late)
    }
}

/// A run that goes on.
pub struct World {
    readout: Readout,
    pub builder: Builder,
    ledger: Ledger,
    rows: Vec<Row>,
    batches: Vec<EventBatch>,
    reports: Vec<String>,
    known: u32,
    pushed: u64,
}

impl World {
    pub fn new(config: BuilderConfig, widths: Widths) -> World {
        let sequence = Some(SequenceRule::of_bits(widths.counter));
        let (event_bits, spill_bits) = (widths.key, widths.spill);
        let rule =
            PacketRule { sequence, sequence_class: 0, event_bits, spill_bits, count_bits: 0 };
        let formats = vec![FormatRules { packets: vec![rule] }; 4];
        let mut limits = ReadoutLimits::default();
        limits.sequence.window_packets = 1 << 16;
        World {
            readout: Readout::new(formats, limits),
            builder: Builder::new(config),
            ledger: Ledger::default(),
            rows: Vec::new(),
            batches: Vec::new(),
            reports: Vec::new(),
            known: 0,
            pushed: 0,
        }
    }

    /// Takes a packet, at `now` by the clock of the run.
    pub fn push(&mut self, now: u64, packet: Sent) {
        let parsed = Parsed {
            step: None,
            counts: None,
            packet: 0,
            source: SourceKey { sender: SenderAddress::NONE, terms: u64::from(packet.source) },
            sequence: packet.count,
            event: Some(packet.key),
            spill: packet.spill,
            part: match packet.part {
                (_, 1) => Part::Whole,
                (index, count) => Part::Index { index, count },
            },
            sensor_time_ns: None,
            payload_start: 0,
            payload_bytes: 16,
        };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&u64::from(packet.source).to_le_bytes());
        bytes[8..].copy_from_slice(&packet.mark.to_le_bytes());
        let time = Moment::from_ns(packet.at);
        let datagram = Datagram { bytes: &bytes, sender: SenderAddress::NONE, port: 1, time };
        let (builder, known) = (&mut self.builder, &mut self.known);
        self.pushed += 1;
        self.readout.accept(packet.input, &datagram, &parsed, |accepted, datagram, parsed| {
            if accepted.source >= *known {
                *known = accepted.source + 1;
                builder.name_source(accepted.source, &format!("board={}", parsed.source.terms));
            }
            builder.push(Moment::from_ns(now), accepted, datagram, parsed);
        });
        if self.builder.batch_is_due(Moment::from_ns(now)) {
            self.take();
        }
    }

    /// The time is `now`; takes what was built.
    pub fn poll(&mut self, now: u64) {
        let now = Moment::from_ns(now);
        self.builder.poll(now);
        self.reports.extend(self.builder.reports(now).map(|said| said.to_string()));
        self.take();
    }

    fn take(&mut self) {
        let batch = self.builder.take_batch(EventBatch::default());
        let (mut packet, mut byte, mut missing) = (0, 0, 0);
        for event in &batch.events {
            let packets = &batch.packets[packet..packet + event.packets as usize];
            let mut sources = BTreeSet::new();
            let (mut parts, mut marks) = (Vec::new(), Vec::new());
            for row in packets {
                // The payload names the sender, independent of the number that the readout gave.
                let bytes: [u8; 8] = batch.bytes[byte..byte + 8].try_into().expect("eight bytes");
                let mark = batch.bytes[byte + 8..byte + 16].try_into().expect("eight bytes");
                marks.push(u64::from_le_bytes(mark));
                byte += row.bytes as usize;
                sources.insert(u64::from_le_bytes(bytes) as u32);
                parts.push((u64::from_le_bytes(bytes) as u32, row.part));
            }
            packet += packets.len();
            let text = &batch.missing[missing..missing + event.missing_bytes as usize];
            missing += text.len();
            self.rows.push(Row {
                generation: event.generation,
                key: event.key.expect("a key"),
                status: event.status,
                sources,
                parts,
                missing: text.to_owned(),
                marks,
            });
        }
        self.ledger.note_batch(&batch, BatchFate::Recorded);
        self.batches.push(batch);
    }

    /// The run ends.
    pub fn finish(mut self, now: u64) -> Outcome {
        let World { readout, builder, .. } = &mut self;
        let now = Moment::from_ns(now);
        readout.finish(|accepted, datagram, parsed| {
            builder.push(now, accepted, datagram, parsed);
        });
        builder.poll(now);
        let summary = builder.summary();
        builder.finish(now);
        self.reports.extend(self.builder.last_reports().map(|said| said.to_string()));
        self.take();
        assert_eq!((self.builder.events_open(), self.builder.bytes_open()), (0, 0));
        let mut ledger = self.ledger.with(&self.readout, &self.builder);
        ledger.inputs.push(InputEntry::default());
        ledger.inputs[0].counters.datagrams = self.pushed;
        assert!(ledger.closes(), "{}", ledger.table());
        Outcome {
            rows: self.rows,
            batches: self.batches,
            open_most: self.builder.counters().events_open_most,
            amendments: self.builder.amendments(),
            ledger,
            reports: self.reports,
            summary,
            pushed: self.pushed,
        }
    }
}

/// Events of all sources, with the defaults.
pub fn shared() -> BuilderConfig {
    BuilderConfig { mode: Mode::Key(Scope::Global), ..BuilderConfig::default() }
}

/// Runs packets in the order of their arrival, and polls every 5 ms.
pub fn run_with(config: BuilderConfig, widths: Widths, mut packets: Vec<Sent>) -> Outcome {
    packets.sort_by_key(|packet| packet.at);
    let mut world = World::new(config, widths);
    let mut tick = packets.first().map_or(0, |packet| packet.at);
    for &packet in &packets {
        while tick < packet.at {
            world.poll(tick);
            tick += 5 * MS;
        }
        world.push(packet.at, packet);
    }
    world.finish(packets.last().map_or(0, |packet| packet.at))
}

pub fn run(packets: Vec<Sent>) -> Outcome {
    run_with(shared(), WIDE, packets)
}
