//! Commits as their topic keeps them, and the list of committed batches that its records give.
//!
//! Anybody with the right to write may put a record into the topic. Builders write each batch once
//! and in order, so a record that does not fit is not theirs: it is left alone and counted. Two
//! different commits of one batch are an error, since a reader cannot decide between them.

use serde::{Deserialize, Serialize};

use super::log::{Commit, LogError};
use super::sink_sums::SinkSums;

/// Longest record that can be a commit \[byte\].
const COMMIT_BYTES_MAX: usize = 4096;

/// A commit as its topic keeps it.
#[derive(Debug, Serialize, Deserialize)]
struct CommitRecord {
    run: u64,
    batch: u64,
    covers: u64,
    crc: u32,
    events: u64,
    packets: u64,
    #[serde(default)]
    refused: u64,
    #[serde(default)]
    sink: SinkSums,
    builder: String,
}

/// Returns the key and the value of a commit's record.
#[must_use]
pub fn record_of(run: u64, commit: &Commit) -> (String, Vec<u8>) {
    let record = CommitRecord {
        run,
        batch: commit.batch,
        covers: commit.covers,
        crc: commit.crc,
        events: commit.events,
        packets: commit.packets,
        refused: commit.refused,
        sink: commit.sink,
        builder: commit.builder.clone(),
    };
    let key = key_of(run, commit.partition, commit.batch);
    (key, serde_json::to_vec(&record).expect("numbers and a text are always JSON"))
}

fn key_of(run: u64, partition: u32, batch: u64) -> String {
    format!("{run}/{partition}/{batch}")
}

/// Returns the run and the commit in a record of a partition; `None` for a foreign record.
#[must_use]
pub fn read_commit(partition: u32, key: &[u8], value: &[u8]) -> Option<(u64, Commit)> {
    if value.len() > COMMIT_BYTES_MAX {
        return None;
    }
    let record: CommitRecord = serde_json::from_slice(value).ok()?;
    let CommitRecord { run, batch, covers, crc, events, packets, refused, sink, builder } = record;
    let is_ours = key == key_of(run, partition, batch).as_bytes() && refused <= events;
    let commit = Commit { partition, batch, covers, crc, events, packets, refused, sink, builder };
    is_ours.then_some((run, commit))
}

/// The committed batches of one run in one partition, in order.
#[derive(Debug)]
pub struct CommitList {
    run: u64,
    partition: u32,
    /// Number of the first batch in the list.
    first: u64,
    commits: Vec<Commit>,
    foreign: u64,
}

impl CommitList {
    /// Makes the empty list of a run and partition.
    #[must_use]
    pub fn new(run: u64, partition: u32) -> CommitList {
        CommitList { run, partition, first: 0, commits: Vec::new(), foreign: 0 }
    }

    /// Begins the list with this batch; commits of earlier ones are left out.
    #[must_use]
    pub fn begin_at(self, first: u64) -> CommitList {
        CommitList { first, ..self }
    }

    /// Takes the next record of the partition.
    ///
    /// Errors: [`LogError::Contradicts`].
    pub fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), LogError> {
        let Some((run, commit)) = read_commit(self.partition, key, value) else {
            self.foreign += 1;
            return Ok(());
        };
        let Some(place) = commit.batch.checked_sub(self.first).filter(|_| run == self.run) else {
            return Ok(());
        };
        if let Some(known) = self.commits.get(place as usize) {
            let is_same = known.crc == commit.crc && known.covers == commit.covers;
            let (partition, batch) = (self.partition, commit.batch);
            return if is_same { Ok(()) } else { Err(LogError::Contradicts { partition, batch }) };
        }
        let follows = self.commits.last().is_none_or(|last| last.covers <= commit.covers);
        match place == self.commits.len() as u64 && follows {
            true => self.commits.push(commit),
            false => self.foreign += 1,
        }
        Ok(())
    }

    /// Returns the number of records that are not commits of a builder.
    #[must_use]
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// Returns the commits.
    #[must_use]
    pub fn into_commits(self) -> Vec<Commit> {
        self.commits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(batch: u64, crc: u32) -> Commit {
        let (covers, events, packets) = (10 * (batch + 1), 3, 6);
        let builder = "builder-1".to_owned();
        Commit {
            partition: 2,
            batch,
            covers,
            crc,
            events,
            packets,
            refused: 1,
            sink: SinkSums::default(),
            builder,
        }
    }

    fn put(list: &mut CommitList, run: u64, commit: &Commit) -> Result<(), LogError> {
        let (key, value) = record_of(run, commit);
        list.take(key.as_bytes(), &value)
    }

    #[test]
    fn records_that_do_not_fit_are_left_alone() {
        let mut list = CommitList::new(7, 2);
        put(&mut list, 7, &commit(0, 5)).expect("the first");
        put(&mut list, 8, &commit(0, 6)).expect("of another run");
        put(&mut list, 7, &commit(1_000_000, 6)).expect("in the future");
        put(&mut list, 7, &Commit { covers: 4, ..commit(1, 6) }).expect("goes back");
        put(&mut list, 7, &Commit { partition: 3, ..commit(1, 6) }).expect("of another partition");
        put(&mut list, 7, &Commit { refused: 9, ..commit(1, 6) }).expect("refuses too much");
        put(&mut list, 7, &Commit { builder: "x".repeat(9000), ..commit(1, 6) }).expect("huge");
        list.take(b"7/2/1", b"{\"run\":7").expect("torn");
        list.take(b"", &[0xff; 100]).expect("bytes");
        let (_, value) = record_of(7, &commit(1, 6));
        list.take(b"another key", &value).expect("another key");
        put(&mut list, 7, &commit(0, 5)).expect("the same again");
        put(&mut list, 7, &commit(1, 6)).expect("the second");
        assert_eq!(list.foreign(), 8);
        assert_eq!(list.into_commits(), [commit(0, 5), commit(1, 6)]);
    }

    #[test]
    fn two_different_commits_of_one_batch_are_an_error() {
        let mut list = CommitList::new(7, 2);
        put(&mut list, 7, &commit(0, 5)).expect("the first");
        let said = put(&mut list, 7, &commit(0, 6)).expect_err("another one").to_string();
        let expected = "partition 2: the log has two different commits of batch 0: another \
                        program writes to the topic of commits; let only builders write to it, \
                        and start a new run";
        assert_eq!(said, expected);
    }
}
