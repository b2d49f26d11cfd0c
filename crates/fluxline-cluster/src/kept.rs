//! Records that a readout keeps until their builder has saved what it made of them.
//!
//! Memory is bounded: when it is full, the oldest record of the partition that has most is dropped.
//! The newest record of each partition stays, since it may be the last one of the node.

use std::collections::VecDeque;

/// The records of all partitions.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    bytes_max: usize,
    bytes: usize,
    lanes: Vec<Lane>,
}

/// The records of one partition, in their order.
#[derive(Debug, Default)]
struct Lane {
    records: VecDeque<Record>,
    bytes: usize,
    /// The number behind the last record that was dropped and names sources.
    names_dropped: u64,
}

#[derive(Debug)]
struct Record {
    sequence: u64,
    bytes: Vec<u8>,
    has_names: bool,
}

impl Kept {
    /// Makes the store of this many partitions; with 0 bytes it keeps nothing.
    pub fn new(bytes_max: usize, partitions: usize) -> Kept {
        let lanes = (0..partitions).map(|_| Lane::default()).collect();
        Kept { bytes_max, bytes: 0, lanes }
    }

    pub fn is_on(&self) -> bool {
        self.bytes_max > 0
    }

    /// Returns the memory of all records \[byte\].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a record; a full memory drops the oldest records of the largest partition.
    pub fn push(&mut self, partition: usize, sequence: u64, mut bytes: Vec<u8>, has_names: bool) {
        if bytes.capacity() > 2 * bytes.len() {
            bytes.shrink_to_fit();
        }
        self.bytes += bytes.capacity();
        self.lanes[partition].bytes += bytes.capacity();
        self.lanes[partition].records.push_back(Record { sequence, bytes, has_names });
        while self.bytes > self.bytes_max {
            let lanes = self.lanes.iter_mut().filter(|lane| lane.records.len() > 1);
            let Some(largest) = lanes.max_by_key(|lane| lane.bytes) else { break };
            let Some(record) = largest.records.pop_front() else { break };
            if record.has_names {
                largest.names_dropped = record.sequence + 1;
            }
            let dropped = record.bytes.capacity();
            largest.bytes -= dropped;
            self.bytes -= dropped;
        }
    }

    /// Frees the records of a partition before `reached`; `take` gets their memory.
    pub fn free(&mut self, partition: usize, reached: u64, mut take: impl FnMut(Vec<u8>)) {
        let Some(lane) = self.lanes.get_mut(partition) else { return };
        while lane.records.front().is_some_and(|record| record.sequence < reached) {
            let Some(record) = lane.records.pop_front() else { return };
            lane.bytes -= record.bytes.capacity();
            self.bytes -= record.bytes.capacity();
            take(record.bytes);
        }
    }

    /// Returns true when no record from `reached` on that names sources was dropped.
    pub fn can_go_on(&self, partition: usize, reached: u64) -> bool {
        self.lanes.get(partition).is_some_and(|lane| lane.names_dropped <= reached)
    }

    /// Returns the oldest record of a partition from this number on, and its number.
    pub fn from(&self, partition: usize, sequence: u64) -> Option<(u64, &[u8])> {
        let records = &self.lanes.get(partition)?.records;
        let place = records.partition_point(|record| record.sequence < sequence);
        records.get(place).map(|record| (record.sequence, &record.bytes[..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_store_drops_the_newest_or_more_than_it_must() {
        let mut kept = Kept::new(100, 2);
        for sequence in 0..12 {
            kept.push(0, sequence, vec![0; 10], sequence == 1);
        }
        assert_eq!(kept.from(0, 0).map(|of| of.0), Some(2));
        assert!(kept.can_go_on(0, 2) && !kept.can_go_on(0, 1), "sources are not known");
        kept.push(1, 0, vec![1; 300], false);
        assert_eq!(kept.from(0, 0).map(|of| of.0), Some(11), "the newest stays");
        assert_eq!(kept.from(1, 0), Some((0, &[1; 300][..])));
        let mut freed = 0;
        kept.free(1, 1, |_| freed += 1);
        kept.free(0, 11, |_| freed += 1);
        assert_eq!((freed, kept.bytes()), (1, 10));
        assert_eq!(kept.from(0, 12), None);
    }
}
