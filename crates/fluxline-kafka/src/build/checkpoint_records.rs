//! Checkpoints as records of a topic: pieces, and a head behind them.
//!
//! The keys repeat: each checkpoint of a run and partition takes the place of the one before the
//! last, so that a compacted topic keeps two. A checkpoint is there when its head and all pieces
//! before it are.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::checkpoint::{CHECKPOINT_BYTES_MAX, Checkpoint};

/// Longest piece \[byte\]: a record below the usual limit of brokers, 1 MB.
pub(super) const PIECE_BYTES: usize = 900_000;

/// The head of a checkpoint in the topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PieceHead {
    pub(super) run: u64,
    pub(super) partition: u32,
    /// Offset at which the run begins in the partition.
    #[serde(default)]
    pub(super) began: u64,
    /// Number of the checkpoint in the run and partition, from 0.
    pub(super) number: u64,
    pub(super) batch: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) crc: u32,
    /// Commits of later batches are at this offset of the commits' topic or behind it.
    pub(super) commits_from: u64,
}

impl PieceHead {
    /// Returns the number of pieces.
    pub(super) fn pieces(&self) -> u64 {
        self.bytes.div_ceil(PIECE_BYTES as u64)
    }

    /// Returns the key of a piece; `None`: of the head.
    pub(super) fn key(&self, piece: Option<u64>) -> String {
        let PieceHead { run, partition, number, .. } = self;
        let slot = number % 2;
        match piece {
            Some(piece) => format!("{run}/{partition}/{slot}/{piece}"),
            None => format!("{run}/{partition}/{slot}/head"),
        }
    }
}

/// A checkpoint as the topic has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) head: PieceHead,
    pub(super) checkpoint: Checkpoint,
}

/// Joins records of one partition, in their order, into checkpoints of a run.
pub(super) struct Joiner {
    run: u64,
    partition: u32,
    /// The pieces since the last head.
    bytes: Vec<u8>,
    /// The newest two checkpoints, the newest first.
    found: VecDeque<Found>,
}

impl Joiner {
    pub(super) fn new(run: u64, partition: u32) -> Joiner {
        Joiner { run, partition, bytes: Vec::new(), found: VecDeque::new() }
    }

    /// Takes a record; records of others are left out.
    pub(super) fn take(&mut self, key: &[u8], value: &[u8]) {
        let Some((slot, part)) = self.place(key) else { return };
        if part != "head" {
            // The pieces come in order, and the first one begins a checkpoint.
            if part == "0" {
                self.bytes.clear();
            }
            if self.bytes.len() + value.len() <= CHECKPOINT_BYTES_MAX {
                self.bytes.extend_from_slice(value);
            }
            return;
        }
        let bytes = std::mem::take(&mut self.bytes);
        let Ok(head) = serde_json::from_slice::<PieceHead>(value) else { return };
        let is_its =
            (head.run, head.partition, head.number % 2) == (self.run, self.partition, slot);
        let is_whole =
            head.bytes == bytes.len() as u64 && head.crc == crc_fast::crc32_iscsi(&bytes);
        if !is_its || !is_whole {
            return;
        }
        let bytes: Arc<[u8]> = bytes.into();
        let checkpoint = Checkpoint { batch: head.batch, offset: head.offset, bytes };
        self.found.push_front(Found { head, checkpoint });
        self.found.truncate(2);
    }

    /// Returns slot and part of a key of this run and partition.
    fn place<'a>(&self, key: &'a [u8]) -> Option<(u64, &'a str)> {
        let mut words = std::str::from_utf8(key).ok()?.split('/');
        let mut number = || words.next()?.parse::<u64>().ok();
        let is_its = (number()?, number()?) == (self.run, u64::from(self.partition));
        let slot = number()?;
        let part = words.next()?;
        (is_its && words.next().is_none()).then_some((slot, part))
    }

    /// Returns true when there can be no older checkpoint that is of use.
    pub(super) fn is_enough(&self) -> bool {
        self.found.len() == 2 || self.found.front().is_some_and(|found| found.head.number == 0)
    }

    /// Returns the newest two checkpoints, the newest first.
    pub(super) fn finish(self) -> Vec<Found> {
        self.found.into()
    }
}

#[cfg(test)]
mod tests {
    use fluxline_core::random::{Draw, test_seed};

    use super::*;

    fn records(number: u64, bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
        let crc = crc_fast::crc32_iscsi(bytes);
        let head = PieceHead {
            run: 7,
            partition: 1,
            began: 0,
            number,
            batch: number * 10,
            offset: number * 100,
            bytes: bytes.len() as u64,
            crc,
            commits_from: 0,
        };
        let pieces = (0..).zip(bytes.chunks(PIECE_BYTES));
        let mut list: Vec<_> =
            pieces.map(|(at, piece)| (head.key(Some(at)), piece.to_vec())).collect();
        assert_eq!(list.len() as u64, head.pieces());
        list.push((head.key(None), serde_json::to_vec(&head).expect("plain data")));
        list
    }

    fn joined(records: &[(String, Vec<u8>)]) -> Vec<Found> {
        let mut joiner = Joiner::new(7, 1);
        records.iter().for_each(|(key, value)| joiner.take(key.as_bytes(), value));
        joiner.finish()
    }

    #[test]
    fn a_checkpoint_that_lacks_a_piece_is_taken_for_whole() {
        let mut draw = Draw::new(test_seed!(3));
        let states: Vec<Vec<u8>> = (0..3)
            .map(|number| (0..PIECE_BYTES * number + 5).map(|_| draw.bits() as u8).collect())
            .collect();
        let all: Vec<_> = (0..).zip(&states).flat_map(|its| records(its.0, its.1)).collect();
        let found = joined(&all);
        let numbers: Vec<u64> = found.iter().map(|its| its.head.number).collect();
        assert_eq!(numbers, [2, 1]);
        assert!(found.iter().all(|its| *its.checkpoint.bytes == states[its.head.number as usize]));
        // Without a record of the newest one, or with a changed one, the older two are left.
        for lost in all.len() - 4..all.len() {
            let mut rest = all.clone();
            rest.remove(lost);
            assert_eq!(joined(&rest)[0].head.number, 1, "record {lost}");
            let mut changed = all.clone();
            changed[lost].1[3] ^= 1;
            assert_eq!(joined(&changed)[0].head.number, 1, "record {lost}");
        }
        // Records of other runs, other partitions and other programs among the pieces.
        let mut mixed = Vec::new();
        for record in all {
            mixed.push(("8/1/0/0".to_owned(), b"another run".to_vec()));
            mixed.push(("7/2/0/head".to_owned(), b"another partition".to_vec()));
            mixed.push((String::from("7/1"), b"another program".to_vec()));
            mixed.push(record);
        }
        assert_eq!(joined(&mixed), found);
    }
}
