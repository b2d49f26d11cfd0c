//! Gathers the events of all builders into one ordinary run folder.
//!
//! The events are in run folders of builders ([`folders`]) or in the topic of events (`topic`).
//! Commits decide: each committed batch is taken once, and compared with its commit. Batches of all
//! partitions are merged by the time at which their first event was closed, which is nearly the
//! order of one process. Nothing partial is left: the run gets its name when it is complete.

#[cfg(feature = "client")]
pub mod committed;
pub mod folders;
mod target;
#[cfg(feature = "client")]
pub mod topic;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::PathBuf;

use fluxline_core::Moment;
use fluxline_daq::event::EventBatch;
use fluxline_daq::record::{BatchDigest, SourceLine};
use serde_json::Value;

use crate::build::Commit;
use fluxline_cluster::AmendedSource;
use target::Target;

pub use folders::gather;

/// The reason why events could not be gathered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatherError {
    /// Committed batches are not there.
    #[error("batch {batch} of partition {partition}, which {builder} committed, is missing in \
        {place}{}; {remedy}", and_more(*.more))]
    Missing {
        /// Number of other missing batches, as far as they were searched.
        more: u64,
        /// The searched place.
        place: String,
        /// The first missing batch.
        batch: u64,
        /// Its partition.
        partition: u32,
        /// The builder that wrote it.
        builder: String,
        /// The user's next step.
        remedy: &'static str,
    },
    /// A batch differs from its commit.
    #[error(
        "batch {batch} of partition {partition} in {place} differs from its commit ({reason}): \
        it was damaged, or another program wrote it; restore it from a copy"
    )]
    Differs {
        /// The batch.
        batch: u64,
        /// Its partition.
        partition: u32,
        /// The place that has it.
        place: String,
        /// The difference.
        reason: String,
    },
    /// The disk of the new run failed.
    #[error("{} cannot be written ({reason}); the files written so far were removed; free some \
        space and run the same command again", .into.display())]
    Disk {
        /// The new run.
        into: PathBuf,
        /// The system's message.
        reason: String,
    },
    /// A folder cannot be used.
    #[error("{0}")]
    Files(String),
    /// The broker cannot be used.
    #[error("{0}")]
    Broker(String),
}

fn and_more(more: u64) -> String {
    match more {
        0 => String::new(),
        more => format!(", and {more} more"),
    }
}

/// The committed batches of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunCommits {
    /// The run.
    pub run: u64,
    /// Its name in topics; empty: not known.
    pub run_id: String,
    /// Its commits by partition, in order.
    pub partitions: BTreeMap<u32, Vec<Commit>>,
    /// Ranges of events that lack nothing, although they closed without a silent source.
    pub amended: Vec<AmendedSource>,
    /// The decisions of the filter and the operators' requests, for run.json; null: not known.
    pub about: Value,
    /// An operator abandoned the run: events of it are missing.
    pub abandoned: bool,
    /// Status and sentence of the run by the ledger of all nodes, where something needs a look.
    pub look: Option<(u8, String)>,
    /// The same for the builders' folders, which have the events that are larger than a record.
    pub look_of_folders: Option<(u8, String)>,
}

impl RunCommits {
    /// Returns the number of batches.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.partitions.values().map(|list| list.len() as u64).sum()
    }
}

/// The result of gathering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Number of batches.
    pub batches: u64,
    /// Events in them.
    pub events: u64,
    /// Packets in them.
    pub packets: u64,
    /// Batches or records that were left out: not committed, or there already.
    pub left_out: u64,
    /// Events that are larger than a record may be: the topic lacks them, and so does a run that
    /// was gathered from it.
    pub refused: u64,
}

/// The name, the experiment and the packet descriptions of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct About {
    /// The run's name in event files; empty: not known.
    pub name: String,
    pub experiment: Value,
    pub formats: BTreeMap<String, String>,
}

/// The committed batches of one partition, in order.
pub(crate) trait Feed {
    /// Returns the time at which the first event of the next batch was closed; `None` at the end.
    fn next_closed(&mut self) -> Result<Option<Moment>, GatherError>;

    /// Appends the rows of the next batch.
    fn take(&mut self, rows: &mut EventBatch) -> Result<(), GatherError>;

    /// Returns a source by its number in this partition's batches.
    fn source(&self, number: u32) -> Option<&SourceLine>;

    /// Returns the name of the place that has the batches.
    fn place(&self) -> String;

    /// Returns true when the place lacks the events that are larger than a record.
    fn lacks_refused(&self) -> bool;
}

/// Reports batches done and all batches.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Writes the batches of all partitions into the target, and completes or removes it. `left_out`
/// returns the number of batches or records that do not count; `from` names their place.
fn into_target<F: Feed>(
    mut target: Target,
    commits: &RunCommits,
    mut feeds: BTreeMap<u32, F>,
    left_out: impl FnOnce(&BTreeMap<u32, F>) -> u64,
    from: &str,
    progress: Progress<'_>,
) -> Result<Gathered, GatherError> {
    let merged = merge(&mut target, commits, &mut feeds, progress);
    let mut gathered = merged.inspect_err(|_| target.abandon())?;
    gathered.left_out = left_out(&feeds);
    target.finish(commits, &gathered, from)?;
    Ok(gathered)
}

/// Writes the batches of all partitions into the target, merged by time.
fn merge<F: Feed>(
    target: &mut Target,
    commits: &RunCommits,
    feeds: &mut BTreeMap<u32, F>,
    progress: Progress<'_>,
) -> Result<Gathered, GatherError> {
    let mut verifier = Verifier::default();
    let mut next = BinaryHeap::new();
    for (partition, feed) in feeds.iter_mut() {
        next.extend(feed.next_closed()?.map(|closed| Reverse((closed, *partition, 0usize))));
    }
    let mut gathered = Gathered::default();
    let (mut rows, all) = (EventBatch::default(), commits.batches());
    while let Some(Reverse((_, partition, number))) = next.pop() {
        let feed = feeds.get_mut(&partition).expect("it has given this batch");
        let commit = commits.partitions.get(&partition).and_then(|list| list.get(number));
        let commit = commit.expect("a feed has committed batches alone");
        rows.clear();
        feed.take(&mut rows)?;
        let refused = if feed.lacks_refused() { commit.refused } else { 0 };
        verifier.check(commit, refused, &rows).map_err(|reason| GatherError::Differs {
            batch: commit.batch,
            partition,
            place: feed.place(),
            reason,
        })?;
        target.write(&mut rows, |source| feed.source(source))?;
        gathered.batches += 1;
        gathered.events += rows.events.len() as u64;
        gathered.packets += rows.packets.len() as u64;
        gathered.refused += refused;
        progress(gathered.batches, all);
        next.extend(feed.next_closed()?.map(|closed| Reverse((closed, partition, number + 1))));
    }
    Ok(gathered)
}

/// Compares batches with their commits.
#[derive(Default)]
struct Verifier {
    digest: BatchDigest,
}

impl Verifier {
    /// Compares a batch of a place that lacks `refused` events of it.
    ///
    /// Errors: the difference, a clause.
    fn check(&mut self, commit: &Commit, refused: u64, rows: &EventBatch) -> Result<(), String> {
        let (events, packets) = (rows.events.len() as u64, rows.packets.len() as u64);
        let expected = commit.events.saturating_sub(refused);
        if events != expected {
            return Err(format!("it has {events} events, and its commit {expected}"));
        }
        if refused > 0 {
            return Ok(()); // the check sum is that of all its events
        }
        if packets != commit.packets {
            return Err(format!("it has {packets} packets, and its commit {}", commit.packets));
        }
        let crc = self.digest.of(rows, commit.batch).map_err(|fault| fault.to_string())?;
        match crc == commit.crc {
            true => Ok(()),
            false => Err("its check sum is another one".to_owned()),
        }
    }
}
