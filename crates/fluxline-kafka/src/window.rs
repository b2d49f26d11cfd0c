//! A limit for the records that the client library has at a time.
//!
//! An idempotent producer of librdkafka keeps requests of five records or more one by one under way
//! for each partition (`rd_kafka_toppar_producer_serve`). While further records are older than
//! `linger.ms`, its thread polls without a pause until the answer comes, which costs several times
//! the work itself. So the client gets only as many records as it can send at once; the rest waits
//! in a queue of ours.

use std::sync::atomic::{AtomicU64, Ordering};

/// Largest batch of records that a producer sends at a time \[byte\].
pub const BATCH_BYTES: usize = 1_000_000;
/// Key, headers and framing of a record \[byte\].
pub const AROUND_BYTES: usize = 512;
/// Partitions that are counted: the memory of more of them is not needed to keep a link busy.
const PARTITIONS_MAX: usize = 16;

/// Records of a partition under way with which the client begins no further request.
const UNDER_WAY_MAX: usize = 5;

/// Returns the number of records of this size that fit into a batch, at least 1.
pub fn records_of_batch(batch_bytes: usize, record_bytes: usize) -> usize {
    (batch_bytes / record_bytes.saturating_add(AROUND_BYTES)).max(1)
}

/// The limits of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of records.
    pub bytes: usize,
    /// Number of records.
    pub records: usize,
}

impl Limits {
    /// Returns the limits for requests of `batch_bytes` bytes and `records` records: as many
    /// requests as the client keeps under way.
    pub fn of_requests(batch_bytes: usize, records: usize) -> Limits {
        let requests = UNDER_WAY_MAX.div_ceil(records.max(1));
        Limits { bytes: requests.saturating_mul(batch_bytes), records: requests * records.max(1) }
    }

    /// Returns the limits where the number of records of a request is not known.
    pub fn of_bytes(bytes: usize) -> Limits {
        Limits { bytes, records: usize::MAX }
    }
}

/// The records that the client has, and their limits.
#[derive(Debug)]
pub struct Window {
    limits: Limits,
    partitions: AtomicU64,
    bytes: AtomicU64,
    records: AtomicU64,
}

impl Window {
    /// Makes the window of a topic with one partition.
    pub fn new(limits: Limits) -> Window {
        let (partitions, bytes, records) = (1.into(), 0.into(), 0.into());
        Window { limits, partitions, bytes, records }
    }

    /// Sets the number of partitions that the records go to.
    pub fn set_partitions(&self, partitions: usize) {
        self.partitions.store(partitions.clamp(1, PARTITIONS_MAX) as u64, Ordering::Relaxed);
    }

    fn limit(&self, of_partition: usize) -> u64 {
        self.partitions.load(Ordering::Relaxed).saturating_mul(of_partition as u64)
    }

    /// Returns true when the client may have another record of this size. It may always have one.
    pub fn has_room(&self, bytes: usize) -> bool {
        let (held, records) = (self.bytes(), self.records.load(Ordering::Relaxed));
        let fits = held + bytes as u64 <= self.limit(self.limits.bytes);
        records == 0 || (fits && records < self.limit(self.limits.records))
    }

    /// Returns the bytes of the client's records.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts a record that the client gets. Call it before the client may report the record.
    pub fn enter(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.records.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a record that the client has no more. Returns true when it was the last one, or when
    /// half of the window becomes free: time for more records.
    pub fn leave(&self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        let records = self.records.fetch_sub(1, Ordering::Relaxed);
        let half = |limit: usize| self.limit(limit) / 2;
        let crosses = |before: u64, after: u64, half: u64| before > half && after <= half;
        records == 1
            || crosses(before, before.saturating_sub(bytes), half(self.limits.bytes))
            || crosses(records, records - 1, half(self.limits.records))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_window_always_wakes_the_queue() {
        for record in [1, 1000, 65_536, 999_999, 5_000_000] {
            for limit in [1, 15, usize::MAX] {
                let window = Window::new(Limits { bytes: BATCH_BYTES, records: limit });
                let mut records = 0;
                while window.has_room(record) {
                    window.enter(record);
                    records += 1;
                }
                assert!(records == 1 || records * record <= BATCH_BYTES, "{record}");
                assert!((1..=limit).contains(&records), "{record}");
                let wakes: Vec<bool> = (0..records).map(|_| window.leave(record)).collect();
                assert_eq!((wakes.last(), window.bytes()), (Some(&true), 0), "{record}");
            }
        }
    }

    #[test]
    fn more_partitions_have_more_room() {
        let window = Window::new(Limits { bytes: 100, records: 2 });
        window.set_partitions(3);
        let taken = (0..10).take_while(|_| window.has_room(50)).inspect(|_| window.enter(50));
        assert_eq!(taken.count(), 6);
        window.set_partitions(0);
        assert!(!window.has_room(50));
    }

    #[test]
    fn a_batch_of_few_records_has_others_under_way() {
        let of = |record_bytes| {
            let records = records_of_batch(BATCH_BYTES, record_bytes);
            let Limits { bytes, records: all } = Limits::of_requests(BATCH_BYTES, records);
            (records, all, bytes / BATCH_BYTES)
        };
        let sizes = [0, 65_536, 200_000, 262_144, 400_000, 2_000_000];
        let expected = [(1953, 1953, 1), (15, 15, 1), (4, 8, 2), (3, 6, 2), (2, 6, 3), (1, 5, 5)];
        assert_eq!(sizes.map(of), expected);
    }
}
