//! Batches of events, column by column: the event builder fills them and the recorder writes them.
//!
//! One batch is one unit of safety on disk. Rows lie in plain vectors that are reused, so that a
//! run in steady state allocates nothing per event.

use fluxline_core::Moment;
use serde::{Deserialize, Serialize};

/// Events that are recorded together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventBatch {
    /// One row per event.
    pub events: Vec<EventRow>,
    /// One row per packet; the packets of an event are neighbours, events in the order of `events`.
    pub packets: Vec<PacketRow>,
    /// The packets' bytes (whole UDP payloads), in the order of `packets`.
    #[serde(with = "crate::byte_strings")]
    pub bytes: Vec<u8>,
    /// The missing parts of incomplete events, in words; `EventRow::missing_bytes` is the length of
    /// each event's text, in order.
    pub missing: String,
}

/// The item in the text about an event's missing parts when the filter failed on it.
pub const UNDECIDED: &str = "filter: no decision";
/// The item in that text when `[filter] mark` is true for the event.
pub const MARKED: &str = "filter: marked";

/// One event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRow {
    /// The key that joined its packets, unwrapped to 64 bits; `None`: a packet on its own.
    pub key: Option<u64>,
    /// Number of times that keys began anew before; keys are unique within a generation.
    pub generation: u32,
    /// The only source whose packets it may hold; `None`: all sources share its key.
    pub source: Option<u32>,
    /// Its status: complete, or the reason why not.
    pub status: EventStatus,
    /// Time of arrival of its first packet.
    pub first: Moment,
    /// Time of arrival of its last packet.
    pub last: Moment,
    /// Time at which it was closed.
    pub built: Moment,
    /// Number of rows of `packets` that belong to it.
    pub packets: u32,
    /// Number of bytes of `missing` that belong to it.
    pub missing_bytes: u32,
}

/// The status of an event: complete, or the reason why not.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum EventStatus {
    /// Nothing that was sent for it is known to be missing.
    #[default]
    Complete,
    /// It was closed although something is missing; `missing` names it.
    Incomplete,
    /// The run was stopped first.
    Stopped,
    /// No event: packets that came after their event was closed. They have the event's key and
    /// generation.
    Late,
}

impl EventStatus {
    /// All statuses.
    pub const ALL: [EventStatus; 4] =
        [EventStatus::Complete, EventStatus::Incomplete, EventStatus::Stopped, EventStatus::Late];

    /// Returns the word in files and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            EventStatus::Complete => "complete",
            EventStatus::Incomplete => "incomplete",
            EventStatus::Stopped => "stopped",
            EventStatus::Late => "late",
        }
    }
}

/// One packet of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketRow {
    /// The source's number in the run's table of sources.
    pub source: u32,
    /// The packet type's number in the source's description.
    pub packet_type: u8,
    /// The packet counter, unwrapped to 64 bits.
    pub sequence: Option<u64>,
    /// Time of arrival.
    pub time: Moment,
    /// The sensor's time \[ns since its epoch\].
    pub sensor_time_ns: Option<u64>,
    /// Packet index or byte offset within its source's fragment of the event; 0 for a whole one.
    pub part: u64,
    /// Start of the payload in the packet \[byte\].
    pub payload_start: u32,
    /// Length of the payload \[byte\].
    pub payload_bytes: u32,
    /// Number of bytes of `EventBatch::bytes` that are the packet's.
    pub bytes: u32,
}

impl EventBatch {
    /// Removes all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.events.clear();
        self.packets.clear();
        self.bytes.clear();
        self.missing.clear();
    }

    /// Returns the memory of its rows, bytes and texts \[byte\].
    #[must_use]
    pub fn cost(&self) -> u64 {
        let rows =
            self.packets.len() * size_of::<PacketRow>() + self.events.len() * size_of::<EventRow>();
        (self.bytes.len() + self.missing.len() + rows) as u64
    }

    /// Removes all rows, and keeps the memory unless that is more than `bytes`.
    pub fn clear_to(&mut self, bytes: u64) {
        self.clear();
        let rows = self.packets.capacity() * size_of::<PacketRow>()
            + self.events.capacity() * size_of::<EventRow>();
        if (self.bytes.capacity() + self.missing.capacity() + rows) as u64 > bytes {
            *self = EventBatch::default();
        }
    }

    /// Returns the rows one by one, late fragments too, each with its packets and their bytes.
    pub fn views(&self) -> impl Iterator<Item = EventView<'_>> {
        let (mut packet, mut byte) = (0, 0);
        self.events.iter().map(move |row| {
            let packets = part(&self.packets, packet, row.packets as usize);
            packet += packets.len();
            let bytes = packets.iter().map(|packet| packet.bytes as usize).sum();
            let bytes = part(&self.bytes, byte, bytes);
            byte += bytes.len();
            EventView { row, packets, bytes }
        })
    }

    /// Returns the row at `place` with its packets, and moves the place behind it; `None`: the
    /// batch has no more rows.
    pub fn view_at(&self, place: &mut BatchPlace) -> Option<EventView<'_>> {
        let Lengths { events, packets, bytes, .. } = place.0;
        let row = self.events.get(events)?;
        let packets = part(&self.packets, packets, row.packets as usize);
        let length = packets.iter().map(|packet| packet.bytes as usize).sum();
        let bytes = part(&self.bytes, bytes, length);
        let size =
            Lengths { events: 1, packets: packets.len(), bytes: bytes.len(), ..Lengths::default() };
        place.0.add(size);
        Some(EventView { row, packets, bytes })
    }

    /// Removes the events whose entry in `keep` is false, with their packets; an event without an
    /// entry stays. Cost: one move of the bytes behind the first removed event.
    pub fn retain(&mut self, keep: &[bool]) {
        if keep.iter().all(|keep| *keep) {
            return;
        }
        let mut missing = std::mem::take(&mut self.missing).into_bytes();
        let (mut from, mut to) = (Lengths::default(), Lengths::default());
        for number in 0..self.events.len() {
            let row = self.events[number];
            let packets = part(&self.packets, from.packets, row.packets as usize);
            let bytes = packets.iter().map(|packet| packet.bytes as usize).sum();
            let missing_bytes = row.missing_bytes as usize;
            let size = Lengths { events: 1, packets: packets.len(), bytes, missing: missing_bytes };
            if keep.get(number).copied().unwrap_or(true) {
                self.events[to.events] = row;
                move_down(&mut self.packets, from.packets, to.packets, size.packets);
                move_down(&mut self.bytes, from.bytes, to.bytes, size.bytes);
                move_down(&mut missing, from.missing, to.missing, size.missing);
                to.add(size);
            }
            from.add(size);
        }
        self.events.truncate(to.events);
        self.packets.truncate(to.packets);
        self.bytes.truncate(to.bytes);
        missing.truncate(to.missing);
        // Texts end with their events, so they stay texts.
        self.missing = String::from_utf8(missing).unwrap_or_default();
    }

    /// Adds `item` to the text about missing parts of each event whose entry in `which` is true.
    pub fn add_to_missing(&mut self, which: &[bool], item: &str) {
        let old = std::mem::take(&mut self.missing);
        let mut at = 0;
        for (number, row) in self.events.iter_mut().enumerate() {
            let text = old.get(at..at + row.missing_bytes as usize).unwrap_or_default();
            at += row.missing_bytes as usize;
            self.missing.push_str(text);
            if which.get(number).copied().unwrap_or(false) {
                let between = if text.is_empty() { "" } else { "; " };
                self.missing.push_str(between);
                self.missing.push_str(item);
                row.missing_bytes += (between.len() + item.len()) as u32;
            }
        }
    }

    /// Returns true when it has no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}

/// An event with its packets and their bytes.
#[derive(Clone, Copy, Debug)]
pub struct EventView<'a> {
    /// The event.
    pub row: &'a EventRow,
    /// Its packets.
    pub packets: &'a [PacketRow],
    /// The bytes of its packets, one after the other.
    pub bytes: &'a [u8],
}

impl<'a> EventView<'a> {
    /// Returns each packet with its bytes.
    pub fn each_packet(&self) -> impl Iterator<Item = (&'a PacketRow, &'a [u8])> + use<'a> {
        let (packets, bytes) = (self.packets, self.bytes);
        let mut at = 0;
        packets.iter().map(move |packet| {
            let its = part(bytes, at, packet.bytes as usize);
            at += its.len();
            (packet, its)
        })
    }

    /// Returns true for a late fragment, which is not an event.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.row.status == EventStatus::Late
    }
}

/// A place in a batch that grows: between two of its rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchPlace(Lengths);

/// Lengths of a batch's lists.
#[derive(Clone, Copy, Debug, Default)]
struct Lengths {
    events: usize,
    packets: usize,
    bytes: usize,
    missing: usize,
}

impl Lengths {
    fn add(&mut self, other: Lengths) {
        self.events += other.events;
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.missing += other.missing;
    }
}

/// Returns `count` items from `start` on, or as many as there are.
fn part<T>(items: &[T], start: usize, count: usize) -> &[T] {
    let items = items.get(start..).unwrap_or_default();
    items.get(..count).unwrap_or(items)
}

/// Copies `count` items from `from` down to `to`, as far as they exist.
fn move_down<T: Copy>(items: &mut [T], from: usize, to: usize, count: usize) {
    let end = items.len().min(from + count);
    if from != to && from < end {
        items.copy_within(from..end, to);
    }
}

#[cfg(test)]
mod tests {
    use fluxline_core::random::{Draw, test_seed};

    use super::*;

    /// An event apart from its batch.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Apart {
        row: EventRow,
        packets: Vec<(PacketRow, Vec<u8>)>,
        missing: String,
    }

    fn apart(batch: &EventBatch) -> Vec<Apart> {
        let mut text = 0;
        let views = batch.views().map(|view| {
            let missing = &batch.missing[text..text + view.row.missing_bytes as usize];
            text += missing.len();
            let packets = view.each_packet().map(|(row, bytes)| (*row, bytes.to_vec()));
            Apart { row: *view.row, packets: packets.collect(), missing: missing.to_owned() }
        });
        views.collect()
    }

    fn random_batch(random: &mut Draw) -> EventBatch {
        let mut batch = EventBatch::default();
        for number in 0..random.below(20) {
            let texts = ["", "é", "board=1: lost"];
            let missing = texts[random.below(3) as usize];
            let packets = random.below(4);
            for _ in 0..packets {
                let bytes = random.below(40) as u32;
                batch.bytes.extend((0..bytes).map(|at| number as u8 ^ at as u8));
                batch.packets.push(PacketRow {
                    source: number as u32,
                    packet_type: 0,
                    sequence: None,
                    time: Moment::default(),
                    sensor_time_ns: None,
                    part: 0,
                    payload_start: 0,
                    payload_bytes: bytes,
                    bytes,
                });
            }
            batch.missing.push_str(missing);
            batch.events.push(EventRow {
                key: Some(number),
                packets: packets as u32,
                missing_bytes: missing.len() as u32,
                ..EventRow::default()
            });
        }
        batch
    }

    #[test]
    fn events_that_are_retained_or_marked_keep_their_packets_and_texts() {
        let seed = test_seed!(7);
        let mut random = Draw::new(seed);
        for _ in 0..300 {
            let mut batch = random_batch(&mut random);
            let mut expected = apart(&batch);
            let draw = |random: &mut Draw| -> Vec<bool> {
                (0..batch.events.len()).map(|_| random.below(2) == 0).collect()
            };
            let (marks, keep) = (draw(&mut random), draw(&mut random));
            for (event, _) in expected.iter_mut().zip(&marks).filter(|(_, mark)| **mark) {
                let between = if event.missing.is_empty() { "" } else { "; " };
                event.missing = format!("{}{between}ö: x", event.missing);
                event.row.missing_bytes = event.missing.len() as u32;
            }
            batch.add_to_missing(&marks, "ö: x");
            assert_eq!(apart(&batch), expected);
            let mut number = 0;
            expected.retain(|_| {
                number += 1;
                keep[number - 1]
            });
            batch.retain(&keep);
            assert_eq!(apart(&batch), expected);
            let bytes: usize = batch.packets.iter().map(|packet| packet.bytes as usize).sum();
            assert_eq!(batch.bytes.len(), bytes);
        }
    }
}
