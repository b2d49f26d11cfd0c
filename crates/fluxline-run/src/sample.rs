//! Samples of closed events for a live view: their delays, and the newest packet of each source.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxline_core::Moment;
use fluxline_daq::event::{EventBatch, EventStatus, PacketRow};
use fluxline_daq::experiment::QUANTILES;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Most sources whose newest packet is kept.
const PACKETS_MAX: usize = 256;
/// Most bytes kept of a packet.
const PACKET_BYTES_MAX: usize = 9216;
/// The longest delay that is distinguished \[ns\].
const DELAY_MAX_NS: u64 = 3_600_000_000_000;

/// The delays of closed events, from the arrival of the last packet to the end of building.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Delays {
    /// Number of events.
    pub events: u64,
    /// Half of the events took at most this \[ns\].
    pub p50_ns: u64,
    /// 90 % of the events took at most this \[ns\].
    pub p90_ns: u64,
    /// 99 % of the events took at most this \[ns\].
    pub p99_ns: u64,
    /// 99.9 % of the events took at most this \[ns\].
    pub p999_ns: u64,
    /// The longest \[ns\].
    pub max_ns: u64,
}

impl Delays {
    /// Makes an empty histogram of two digits, which takes 60 KB.
    pub(crate) fn histogram() -> Histogram<u64> {
        let made = Histogram::new_with_bounds(1, DELAY_MAX_NS, 2);
        made.unwrap_or_else(|error| unreachable!("bounds that are constants: {error}"))
    }

    /// Adds the events of a batch to a histogram. A late fragment is not the end of an event.
    pub(crate) fn add(histogram: &mut Histogram<u64>, batch: &EventBatch) {
        for event in batch.events.iter().filter(|event| event.status != EventStatus::Late) {
            histogram.saturating_record(event.built.since(event.last).as_ns().max(1));
        }
    }

    /// Returns the delays of a histogram.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Delays {
        if histogram.is_empty() {
            return Delays::default();
        }
        Delays {
            events: histogram.len(),
            p50_ns: histogram.value_at_quantile(0.5),
            p90_ns: histogram.value_at_quantile(0.9),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
        }
    }

    /// Returns the delay that a share of the events kept: 50, 90, 99 or 99.9 %; the longest for
    /// other shares.
    #[must_use]
    pub fn at_percent(&self, percent: f64) -> u64 {
        let known = [self.p50_ns, self.p90_ns, self.p99_ns, self.p999_ns];
        let at = QUANTILES.iter().position(|of| *of == percent);
        at.map_or(self.max_ns, |at| known[at])
    }

    /// Returns a line for people; `None` without events.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let Delays { events, p50_ns, p99_ns, p999_ns, .. } = *self;
        let [p50, p99, p999] = [p50_ns, p99_ns, p999_ns].map(short);
        (events > 0).then(|| {
            format!(
                "delay from an event's last packet to its end: {p50} (median), {p99} (99 %), \
                 {p999} (99.9 %)"
            )
        })
    }
}

/// Returns a time in its largest unit, to the tenth.
pub(crate) fn short(ns: u64) -> String {
    match ns as f64 {
        ns if ns < 1e3 => format!("{ns} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.1} s", ns / 1e9),
    }
}

/// Events whose delay is in a class of delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayCount {
    /// The longest delay of the class \[ns\]; twice that of the class before.
    pub up_to_ns: u64,
    /// Number of events.
    pub events: u64,
}

/// A packet of an event that closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// Its row; `bytes` is its whole length.
    pub row: PacketRow,
    /// Its bytes, the first 9216 of them.
    pub bytes: Vec<u8>,
}

/// Collects delays of closed events, and their packets while somebody watches these.
pub(crate) struct Sampler {
    delays: Histogram<u64>,
    shown: Delays,
    shown_counts: Arc<[DelayCount]>,
    shown_at: Moment,
    /// The newest packets; `None`: nobody watches.
    packets: Option<BTreeMap<u32, Newest>>,
}

/// The longest delay of the first class \[ns\].
const DELAY_CLASS_NS: u64 = 1_000;
/// The period over which delays are summed \[ns\].
const DELAYS_PERIOD_NS: u64 = 1_000_000_000;

impl Sampler {
    pub fn new() -> Sampler {
        Sampler {
            delays: Delays::histogram(),
            shown: Delays::default(),
            shown_counts: Arc::default(),
            shown_at: Moment::default(),
            packets: None,
        }
    }

    /// Takes the events of a batch.
    pub fn take(&mut self, batch: &EventBatch) {
        Delays::add(&mut self.delays, batch);
        if let Some(mut packets) = self.packets.take() {
            Sampler::take_packets(&mut packets, batch);
            self.packets = Some(packets);
        }
    }

    /// Keeps packets from now on, or no longer.
    pub fn keep_packets(&mut self, is_watched: bool) {
        match is_watched {
            true => _ = self.packets.get_or_insert_default(),
            false => self.packets = None,
        }
    }

    fn take_packets(packets: &mut BTreeMap<u32, Newest>, batch: &EventBatch) {
        let mut end = batch.bytes.len();
        for row in batch.packets.iter().rev() {
            let start = end - row.bytes as usize;
            let bytes = &batch.bytes[start..end];
            end = start;
            Sampler::keep(packets, row, bytes);
        }
    }

    /// Keeps a packet if it is newer than the one of its source.
    fn keep(packets: &mut BTreeMap<u32, Newest>, row: &PacketRow, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(PACKET_BYTES_MAX)];
        let full = packets.len() >= PACKETS_MAX;
        match packets.get_mut(&row.source) {
            Some(newest) if newest.row.time < row.time => {
                newest.row = *row;
                newest.bytes.clear();
                newest.bytes.extend_from_slice(bytes);
            }
            None if !full => {
                let newest = Newest { row: *row, bytes: bytes.to_vec() };
                packets.insert(row.source, newest);
            }
            _ => {}
        }
    }

    /// Returns the newest packets.
    pub fn packets(&self) -> Arc<BTreeMap<u32, Newest>> {
        Arc::new(self.packets.clone().unwrap_or_default())
    }

    /// Returns the delays of the last full second, or of the longer time since the last call.
    pub fn delays(&mut self, now: Moment) -> Delays {
        if now.since(self.shown_at).as_ns() >= DELAYS_PERIOD_NS {
            self.shown = Delays::of(&self.delays);
            self.shown_counts = self.counts();
            self.shown_at = now;
            self.delays.reset();
        }
        self.shown
    }

    /// Returns the delays of that second by class, without empty classes.
    pub fn delay_counts(&self) -> Arc<[DelayCount]> {
        self.shown_counts.clone()
    }

    fn counts(&self) -> Arc<[DelayCount]> {
        let classes = self.delays.iter_log(DELAY_CLASS_NS, 2.0);
        let classes = classes.map(|class| DelayCount {
            up_to_ns: class.value_iterated_to(),
            events: class.count_since_last_iteration(),
        });
        classes.filter(|class| class.events > 0).collect()
    }
}
