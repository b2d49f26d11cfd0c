//! Drafts a packet description from datagrams: constants, counters, time stamps.
//!
//! A board's manual is often out of date or wrong; a capture is neither. The draft shows the
//! evidence for each part, so that a person can correct it. It describes the capture that it was
//! made from: every packet of that fits. Three analyses cover the first bytes of each packet: bytes
//! that never change (`columns`), bits that count (`counters`), words that grow (`words`).

mod columns;
mod counters;
#[cfg(test)]
mod tests;
mod text;
mod words;

use std::collections::BTreeMap;

use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_packet::model::ByteOrder;

use columns::Columns;

/// Bytes at the start of each packet that are analysed.
pub const HEADER_BYTES_MAX: usize = 64;
/// Senders whose packets are followed one by one.
const SENDERS_MAX: usize = 16;
/// Packets that are followed, of each sender.
const SAMPLES_MAX: usize = 8192;
/// Different sizes that are counted.
const SIZES_MAX: usize = 1024;

/// Most values of a byte that may identify sources.
const IDS_MAX: usize = 16;

/// A byte that identifies sources, their packets, and the counters in them.
type Split = (Option<usize>, Vec<Vec<Sample>>, Vec<Counter>);

/// The start of one packet.
#[derive(Clone, Debug)]
struct Sample {
    bytes: [u8; HEADER_BYTES_MAX],
    size: usize,
    time: Moment,
}

/// Packets that a description is drafted from. Memory: at most about 12 MiB.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    packets: u64,
    /// Number of packets of each size, and packets of further sizes.
    sizes: BTreeMap<usize, u64>,
    size_limits: Option<(usize, usize)>,
    columns: Columns,
    senders: BTreeMap<SenderAddress, Vec<Sample>>,
    /// Packets of senders that are not followed.
    others: u64,
}

/// A word of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    at: usize,
    bytes: usize,
    order: ByteOrder,
}

/// A counter with the evidence for it.
#[derive(Clone, Debug, PartialEq)]
struct Counter {
    word: Word,
    /// Its lowest and highest bit in the word.
    low: u32,
    high: u32,
    /// Number of its bits that were seen to change.
    moved: u32,
    /// It was seen to begin anew after its highest bit.
    wrapped: bool,
    /// Share of the packets that followed their predecessor.
    share: f64,
}

/// A word that grows, by the kind of growth.
#[derive(Clone, Debug, PartialEq)]
enum Growth {
    /// It grows by one now and then: packets of one event have it in common.
    Key { packets_each: f64 },
    /// It grows with the time of arrival, and mostly in equal steps where there is a step.
    Time { ns_per_tick: f64, step: Option<u64> },
    /// It grows in equal steps.
    Steps { step: u64, share: f64 },
}

impl Draft {
    /// Takes one packet's payload.
    pub fn add(&mut self, datagram: &Datagram<'_>) {
        let bytes = datagram.bytes;
        self.packets += 1;
        if self.sizes.len() < SIZES_MAX || self.sizes.contains_key(&bytes.len()) {
            *self.sizes.entry(bytes.len()).or_default() += 1;
        }
        let (low, high) = self.size_limits.unwrap_or((bytes.len(), bytes.len()));
        self.size_limits = Some((low.min(bytes.len()), high.max(bytes.len())));
        self.columns.add(bytes);
        let known = self.senders.contains_key(&datagram.sender);
        if !known && self.senders.len() >= SENDERS_MAX {
            self.others += 1;
            return;
        }
        let samples = self.senders.entry(datagram.sender).or_default();
        if samples.len() < SAMPLES_MAX {
            let mut start = [0; HEADER_BYTES_MAX];
            let kept = bytes.len().min(HEADER_BYTES_MAX);
            start[..kept].copy_from_slice(&bytes[..kept]);
            samples.push(Sample { bytes: start, size: bytes.len(), time: datagram.time });
        }
    }

    /// Returns the number of packets that were taken.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the description of these packets as TOML, with their `origin`. `None` without
    /// packets, or where one of them is empty.
    #[must_use]
    pub fn describe(&self, origin: &str) -> Option<String> {
        let (smallest, _) = self.size_limits.filter(|limits| limits.0 > 0)?;
        let header = smallest.min(HEADER_BYTES_MAX);
        let senders: Vec<Vec<Sample>> = self.senders.values().cloned().collect();
        let found = counters::find(&senders, header);
        let split = if found.is_empty() { self.split_by_id(header) } else { None };
        let (id, streams, found) = split.unwrap_or((None, senders, found));
        let counters = text::choose(found);
        let taken = |word: &Word| {
            let of_id = id.is_some_and(|at| (word.at..word.at + word.bytes).contains(&at));
            of_id || counters.iter().any(|found| overlap(&found.word, word))
        };
        let growing = words::find(&streams, header, &taken);
        Some(text::write(self, &text::Findings { origin, header, id, counters, growing }))
    }

    /// Returns the byte that splits packets of one sender into streams that count, with the streams
    /// and their counters: several boards behind one address, or a file without addresses.
    fn split_by_id(&self, header: usize) -> Option<Split> {
        let ids = (0..header).filter(|&at| (2..=IDS_MAX).contains(&self.columns.values(at)));
        let splits = ids.map(|at| {
            let mut streams = BTreeMap::<(SenderAddress, u8), Vec<Sample>>::new();
            for (sender, samples) in &self.senders {
                for sample in samples {
                    let stream = streams.entry((*sender, sample.bytes[at])).or_default();
                    stream.push(sample.clone());
                }
            }
            let streams: Vec<Vec<Sample>> = streams.into_values().collect();
            let found = counters::find(&streams, header);
            (Some(at), streams, found)
        });
        let apart = |found: &[Counter], at: Option<usize>| {
            let holds =
                |word: &Word| at.is_some_and(|at| (word.at..word.at + word.bytes).contains(&at));
            found.first().is_some_and(|best| best.low == 0 && !holds(&best.word))
        };
        let good = splits.filter(|(at, _, found)| apart(found, *at));
        good.max_by(|a, b| a.2[0].share.total_cmp(&b.2[0].share))
    }
}

fn overlap(a: &Word, b: &Word) -> bool {
    a.at < b.at + b.bytes && b.at < a.at + a.bytes
}

impl Sample {
    fn word(&self, word: Word) -> u64 {
        let bytes = self.bytes.get(word.at..word.at + word.bytes).unwrap_or_default();
        fluxline_packet::word::read_word(bytes, word.order)
    }
}
