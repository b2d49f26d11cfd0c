//! Readout: the source of each parsed packet, and the order that its packet counter shows.
//!
//! The table of sources is bounded, because sender addresses can be forged; packets of sources
//! beyond it are refused and counted. Each source has one [`SequenceTracker`] per class of packet
//! types that share a counter. Accepted packets are passed to a closure. It runs once per packet,
//! twice when the packet confirms one that was kept aside, or not at all.

mod board;
#[cfg(test)]
mod board_tests;
mod content;
mod missing;
mod rejects;
pub mod sequence;
#[cfg(test)]
mod sequence_model;
#[cfg(test)]
mod tests;
pub mod units;

use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_packet::{Parsed, Reject, SourceKey};
use hashbrown::HashMap;

use crate::counters::SourceCounters;

use board::BoardLedger;
use content::content_of;
pub(crate) use content::digest_of;
use rejects::Rejects;
pub use rejects::{FIRST_BYTES_MAX, RejectRow};
use sequence::{
    Evidence, HeldFate, Observed, Order, POSITION_START, SequenceLimits, SequenceRule,
    SequenceTracker,
};
use units::{UnitCounter, Units};

/// The rules of one packet type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketRule {
    /// The rule of its packet counter; `None`: it has none.
    pub sequence: Option<SequenceRule>,
    /// Packet types of one class share one counter per source (the first type's rule holds).
    pub sequence_class: u8,
    /// Width of the event key \[bit\], after which it wraps; 0 or more than 63: it does not wrap.
    pub event_bits: u8,
    /// Width of the spill number \[bit\], after which it wraps; 0 or more than 31: it does not
    /// wrap.
    pub spill_bits: u8,
    /// Width of the board's own counts \[bit\], after which they begin anew; 0: it has none.
    pub count_bits: u8,
}

impl PacketRule {
    /// Returns the width of a key that wraps; 64 when it does not.
    fn event_bits(&self) -> u8 {
        if (1..64).contains(&self.event_bits) { self.event_bits } else { 64 }
    }

    /// Returns the width of a spill number that wraps; 64 when it does not.
    fn spill_bits(&self) -> u8 {
        if (1..32).contains(&self.spill_bits) { self.spill_bits } else { 64 }
    }
}

/// The rules of one format: one per packet type, in the description's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormatRules {
    /// One rule per packet type; types beyond the list have neither counter nor wrapping key.
    pub packets: Vec<PacketRule>,
}

/// Bounds of the readout's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadoutLimits {
    /// Most sources.
    pub sources_max: usize,
    /// Most kinds of rejects that are counted separately.
    pub reject_kinds_max: usize,
    /// The limits of the sequence trackers.
    pub sequence: SequenceLimits,
}

impl Default for ReadoutLimits {
    fn default() -> ReadoutLimits {
        ReadoutLimits {
            sources_max: 4096,
            reject_kinds_max: 256,
            sequence: SequenceLimits::default(),
        }
    }
}

/// The readout's findings about an accepted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The source's number in the run's table of sources.
    pub source: u32,
    /// Number of the input that it came by.
    pub input: u16,
    /// Number of restarts of the source before.
    pub epoch: u32,
    /// The packet counter, unwrapped to 64 bits.
    pub sequence: Option<u64>,
    /// The order that the packet counter shows; `None`: it has none.
    pub counted: Option<Counted>,
    /// Width of the event key \[bit\]; 64: it does not wrap.
    pub event_bits: u8,
    /// Width of the spill number \[bit\]; 64: it does not wrap.
    pub spill_bits: u8,
}

/// The order of a packet, as its packet counter shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The class of packet types that share the counter.
    pub class: u8,
    /// Its place in the count of packets since the counter last began anew.
    pub count: u64,
    /// Number of packets before it that had not come yet.
    pub missing: u64,
    /// A later packet came before it.
    pub reordered: bool,
    /// Number of times that the counter began anew before.
    pub restarts: u32,
}

/// The fate of one packet at the readout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is passed on.
    Accepted(Accepted),
    /// Its number had come already.
    Duplicate,
    /// It is kept aside until the next packet of its source, or the end.
    Held,
    /// Its source is beyond the allowed number of sources.
    Refused,
}

/// One source.
#[derive(Clone, Debug)]
pub struct Source {
    /// The key that identifies it.
    pub key: SourceKey,
    /// Number of its format.
    pub format: u16,
    /// Its label in reports. The program may change it by [`Readout::set_label`].
    pub label: String,
    /// Time of arrival of its first packet.
    pub first_time: Moment,
    /// Time of arrival of its last packet.
    pub last_time: Moment,
    /// The first number that came, unwrapped.
    pub first_sequence: Option<u64>,
    /// The number that came last, unwrapped.
    pub last_sequence: Option<u64>,
    /// Number of restarts of any of its counters.
    pub epoch: u32,
    counters: SourceCounters,
    lines: Vec<Line>,
}

/// One packet counter of a source, and the packet kept aside.
#[derive(Clone, Debug)]
struct Line {
    class: u8,
    tracker: SequenceTracker,
    /// The translation of a counter whose packets say how much it grows.
    units: Option<UnitCounter>,
    held: Option<Held>,
    /// The memory of `Held::bytes`, between two uses.
    spare: Vec<u8>,
    /// The board's own counts, where packets have them.
    board: BoardLedger,
}

#[derive(Clone, Debug)]
struct Held {
    bytes: Vec<u8>,
    sender: SenderAddress,
    port: u16,
    time: Moment,
    parsed: Parsed,
    rule: PacketRule,
}

/// The readout. Memory: bounded by [`ReadoutLimits`], about 1 KiB per source and counter and one
/// packet kept aside for each. Cost: one look-up and one bitmap update per packet.
#[derive(Clone, Debug)]
pub struct Readout {
    limits: ReadoutLimits,
    formats: Vec<FormatRules>,
    sources: Vec<Source>,
    by_key: HashMap<(u16, SourceKey), u32>,
    last: Option<(u16, SourceKey, u32)>,
    refused: u64,
    rejects: Rejects,
}

impl Readout {
    /// Makes a readout for these formats, numbered in this order.
    #[must_use]
    pub fn new(formats: Vec<FormatRules>, limits: ReadoutLimits) -> Readout {
        Readout {
            limits,
            formats,
            sources: Vec::new(),
            by_key: HashMap::new(),
            last: None,
            refused: 0,
            rejects: Rejects::new(limits.reject_kinds_max),
        }
    }

    /// Takes a packet of format number `format` that was parsed. Calls `deliver` for every packet
    /// that is accepted now, oldest first: at most the one kept aside and this one.
    ///
    /// New sources appear at the end of [`Self::sources`] before `deliver` runs for them.
    pub fn accept(
        &mut self,
        format: u16,
        datagram: &Datagram<'_>,
        parsed: &Parsed,
        mut deliver: impl FnMut(&Accepted, &Datagram<'_>, &Parsed),
    ) -> Verdict {
        let Some(number) = self.source_number(format, datagram, parsed) else {
            self.refused += 1;
            return Verdict::Refused;
        };
        let rule = self.formats.get(usize::from(format));
        let rule = rule.and_then(|rules| rules.packets.get(usize::from(parsed.packet)));
        let rule = rule.copied().unwrap_or_default();
        let limits = self.limits.sequence;
        let source = &mut self.sources[number as usize];
        source.last_time = source.last_time.max(datagram.time);
        source.counters.parsed += 1;
        source.counters.bytes_parsed += datagram.bytes.len() as u64;

        let (Some(value), Some(counts)) = (parsed.sequence, rule.sequence) else {
            source.counters.unsequenced += 1;
            source.counters.to_builder += 1;
            let accepted = source.accepted(number, rule);
            deliver(&accepted, datagram, parsed);
            return Verdict::Accepted(accepted);
        };
        // Numbers of packets have all bits.
        let followed = if parsed.step.is_some() { SequenceRule::of_bits(64) } else { counts };
        let line = source.line(rule.sequence_class, || SequenceTracker::new(followed, limits));
        let evidence = evidence_of(datagram, parsed, rule);
        let observed = source.lines[line].observe(value, parsed.step, counts, evidence);
        if let Some(fate) = observed.held {
            source.settle_held(number, line, fate, &mut deliver);
        }
        match observed.order {
            Order::Duplicate => {
                source.counters.duplicate += 1;
                return Verdict::Duplicate;
            }
            Order::Doubtful => {
                source.hold(line, datagram, parsed, rule);
                return Verdict::Held;
            }
            Order::Reordered => source.counters.reordered += 1,
            Order::InOrder | Order::Gap { .. } => source.counters.in_order += 1,
        }
        source.counters.to_builder += 1;
        source.note_sequence(observed.sequence);
        let accepted = Accepted {
            sequence: Some(observed.sequence),
            counted: Some(Counted {
                class: rule.sequence_class,
                count: observed.count,
                missing: if let Order::Gap { missing } = observed.order { missing } else { 0 },
                reordered: observed.order == Order::Reordered,
                restarts: source.lines[line].tracker.restarts(),
            }),
            ..source.accepted(number, rule)
        };
        source.lines[line].note_counts(&accepted, parsed, rule);
        deliver(&accepted, datagram, parsed);
        Verdict::Accepted(accepted)
    }

    /// Counts a packet of format number `format` that was rejected.
    pub fn reject(&mut self, format: u16, reject: Reject, datagram: &Datagram<'_>) {
        self.rejects.count(format, reject, datagram);
    }

    /// Ends the run: packets still kept aside are delivered, as the first of a new numbering.
    pub fn finish(&mut self, mut deliver: impl FnMut(&Accepted, &Datagram<'_>, &Parsed)) {
        for (number, source) in self.sources.iter_mut().enumerate() {
            for line in 0..source.lines.len() {
                if let Some(fate) = source.lines[line].tracker.finish() {
                    source.settle_held(number as u32, line, fate, &mut deliver);
                }
            }
        }
    }

    /// Gives source `number` its label in reports; does nothing for an unknown number.
    pub fn set_label(&mut self, number: u32, label: String) {
        if let Some(source) = self.sources.get_mut(number as usize) {
            source.label = label;
        }
    }

    /// Returns the table of sources; a source's number is its index.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Returns the number of packets of sources beyond the limit.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the kinds of rejected packets, in the order of their first appearance.
    #[must_use]
    pub fn rejects(&self) -> &[RejectRow] {
        self.rejects.rows()
    }

    /// Returns the number of rejected packets of kinds beyond [`ReadoutLimits::reject_kinds_max`].
    #[must_use]
    pub fn rejects_other(&self) -> u64 {
        self.rejects.other()
    }

    /// Returns the number of all rejected packets.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.rejects.total()
    }

    fn source_number(
        &mut self,
        format: u16,
        datagram: &Datagram<'_>,
        parsed: &Parsed,
    ) -> Option<u32> {
        if let Some((last_format, key, number)) = self.last
            && last_format == format
            && key == parsed.source
        {
            return Some(number);
        }
        let number = match self.by_key.get(&(format, parsed.source)) {
            Some(&number) => number,
            None if self.sources.len() >= self.limits.sources_max => return None,
            None => self.add_source(format, datagram, parsed),
        };
        self.last = Some((format, parsed.source, number));
        Some(number)
    }

    fn add_source(&mut self, format: u16, datagram: &Datagram<'_>, parsed: &Parsed) -> u32 {
        let number = self.sources.len() as u32;
        self.by_key.insert((format, parsed.source), number);
        self.sources.push(Source {
            key: parsed.source,
            format,
            label: default_label(parsed.source),
            first_time: datagram.time,
            last_time: datagram.time,
            first_sequence: None,
            last_sequence: None,
            epoch: 0,
            counters: SourceCounters::default(),
            lines: Vec::new(),
        });
        number
    }
}

impl Line {
    /// Shows the tracker a packet's counter; `step` is its growth, where the packet says it.
    fn observe(
        &mut self,
        value: u64,
        step: Option<u64>,
        rule: SequenceRule,
        evidence: Evidence,
    ) -> Observed {
        let Some(step) = step else { return self.tracker.observe(value, evidence) };
        let counter = self.units.get_or_insert_with(|| UnitCounter::new(rule.last));
        let units = Units { value, step };
        let number = counter.number_of(units);
        let observed = self.tracker.observe(number, evidence);
        if let Some(HeldFate::Restart { .. }) = observed.held {
            counter.began_anew();
        }
        match observed.order {
            Order::Doubtful => counter.holds(units, number),
            Order::Duplicate => {}
            Order::InOrder | Order::Gap { .. } | Order::Reordered => counter.took(units, number),
        }
        observed
    }

    /// Follows the board's own counts in an accepted packet.
    fn note_counts(&mut self, accepted: &Accepted, parsed: &Parsed, rule: PacketRule) {
        if let (Some(counts), Some(counted)) = (parsed.counts, &accepted.counted) {
            self.board.take(counts, counted, rule.count_bits);
        }
    }
}

impl Source {
    /// Returns the readout's share of this source's counters.
    #[must_use]
    pub fn counters(&self) -> SourceCounters {
        let mut counters = self.counters.clone();
        for line in &self.lines {
            counters.expected += line.tracker.expected();
            counters.lost += line.tracker.lost();
            counters.restarts += u64::from(line.tracker.restarts());
            counters.held += u64::from(line.held.is_some());
            line.board.add_to(&mut counters);
        }
        counters
    }

    /// Returns its trackers, with the class of packet types that each one tracks.
    pub fn trackers(&self) -> impl Iterator<Item = (u8, &SequenceTracker)> {
        self.lines.iter().map(|line| (line.class, &line.tracker))
    }

    fn line(&mut self, class: u8, tracker: impl FnOnce() -> SequenceTracker) -> usize {
        match self.lines.iter().position(|line| line.class == class) {
            Some(place) => place,
            None => {
                let (tracker, spare) = (tracker(), Vec::new());
                let board = BoardLedger::default();
                self.lines.push(Line { class, tracker, units: None, held: None, spare, board });
                self.lines.len() - 1
            }
        }
    }

    fn hold(&mut self, line: usize, datagram: &Datagram<'_>, parsed: &Parsed, rule: PacketRule) {
        let line = &mut self.lines[line];
        let mut bytes = core::mem::take(&mut line.spare);
        bytes.clear();
        bytes.extend_from_slice(datagram.bytes);
        line.held = Some(Held {
            bytes,
            sender: datagram.sender,
            port: datagram.port,
            time: datagram.time,
            parsed: *parsed,
            rule,
        });
    }

    /// Returns the findings about a packet without a counter.
    fn accepted(&self, number: u32, rule: PacketRule) -> Accepted {
        Accepted {
            source: number,
            input: self.format,
            epoch: self.epoch,
            sequence: None,
            counted: None,
            event_bits: rule.event_bits(),
            spill_bits: rule.spill_bits(),
        }
    }

    fn settle_held(
        &mut self,
        number: u32,
        line: usize,
        fate: HeldFate,
        deliver: &mut impl FnMut(&Accepted, &Datagram<'_>, &Parsed),
    ) {
        let held = self.lines[line].held.take();
        let held = held.expect("the tracker decides about a packet that is held");
        match fate {
            HeldFate::Late => self.counters.late += 1,
            HeldFate::Restart { sequence } => {
                self.epoch = self.epoch.saturating_add(1);
                self.counters.in_order += 1;
                self.counters.to_builder += 1;
                self.note_sequence(sequence);
                let accepted = Accepted {
                    counted: Some(Counted {
                        class: self.lines[line].class,
                        count: POSITION_START,
                        missing: 0,
                        reordered: false,
                        restarts: self.lines[line].tracker.restarts(),
                    }),
                    sequence: Some(sequence),
                    ..self.accepted(number, held.rule)
                };
                self.lines[line].note_counts(&accepted, &held.parsed, held.rule);
                let Held { ref bytes, sender, port, time, ref parsed, .. } = held;
                deliver(&accepted, &Datagram { bytes, sender, port, time }, parsed);
            }
        }
        self.lines[line].spare = held.bytes;
    }

    fn note_sequence(&mut self, sequence: u64) {
        self.first_sequence.get_or_insert(sequence);
        self.last_sequence = Some(sequence);
    }
}

/// Returns everything in a packet besides its number.
fn evidence_of(datagram: &Datagram<'_>, parsed: &Parsed, rule: PacketRule) -> Evidence {
    Evidence {
        time_ns: parsed.sensor_time_ns,
        key: parsed.event.map(|key| key << (64 - rule.event_bits())),
        arrival: Some(datagram.time),
        content: Some(content_of(datagram.bytes)),
    }
}

fn default_label(key: SourceKey) -> String {
    match (key.sender == SenderAddress::NONE, key.sender.port(), key.terms) {
        (true, _, terms) => format!("{terms:#x}"),
        (false, 0, 0) => key.sender.ip().to_string(),
        (false, 0, terms) => format!("{} {terms:#x}", key.sender.ip()),
        (false, _, 0) => key.sender.to_string(),
        (false, _, terms) => format!("{} {terms:#x}", key.sender),
    }
}
