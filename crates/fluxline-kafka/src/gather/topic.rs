//! Batches in the topic of events.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use fluxline_core::Moment;
use fluxline_daq::event::EventBatch;
use fluxline_daq::record::{RecordedBatch, SourceLine};
use rdkafka::error::KafkaError;

use super::committed::{Committed, broker, partitions_of, unreadable};
use super::target::Target;
use super::{About, Feed, GatherError, Gathered, Progress, into_target};
use crate::build::Commit;
use crate::build::topic::{Description, EventKey, EventPart};
use crate::client::TopicError;
use crate::reading::{PartitionReader, Record};
use crate::settings::Settings;

/// Time between a batch's first record and its commit at most: that of a transaction, twice.
const BEFORE_COMMIT_MS: i64 = 60_000;

/// Gathers the committed batches in `CLUSTER.events` into the new run `into`.
///
/// Errors: [`GatherError`]; there is no run then. Memory: 3 MB for each partition, and one batch.
pub fn gather_topic(
    settings: &Settings,
    cluster: &str,
    committed: &Committed,
    into: &Path,
    progress: Progress<'_>,
) -> Result<Gathered, GatherError> {
    let topic = format!("{cluster}.events");
    let commits = &committed.commits;
    let count = partitions_of(settings, &topic)
        .map_err(|error| no_events(settings, cluster, commits.run, &error))?
        .max(1);
    let mut feeds = BTreeMap::new();
    for (partition, list) in &commits.partitions {
        let began = committed.began_ms.get(partition).copied().unwrap_or(0);
        let reader = open(settings, &topic, partition % count, began)
            .map_err(|error| unreadable(&topic, *partition, &error))?;
        let feed = TopicFeed::new(reader, topic.clone(), commits.run, list.clone());
        feeds.insert(*partition, feed);
    }
    let mut about = About::default();
    for feed in feeds.values_mut() {
        feed.next_closed()?;
        feed.add_about(&mut about);
    }
    let left_out = |feeds: &BTreeMap<u32, TopicFeed>| feeds.values().map(|of| of.left_out).sum();
    into_target(Target::begin(into, about)?, commits, feeds, left_out, &topic, progress)
}

/// Returns the error of a topic of events that cannot be read. Builders that write folders alone
/// make none.
fn no_events(settings: &Settings, cluster: &str, run: u64, error: &TopicError) -> GatherError {
    if !matches!(error, TopicError::Missing { .. }) {
        return broker(error);
    }
    let brokers = &settings.brokers;
    GatherError::Files(format!(
        "cluster `{cluster}` has no topic `{cluster}.events`: its builders write folders alone, \
         or somebody deleted it; in the first case, copy the folders to this machine, and write \
         `fluxline gather runs/{cluster}-{run:04}-* --from kafka://{brokers}/{cluster} --run {run} \
         --into …`"
    ))
}

/// Opens a reader that begins a minute before the first commit of the run.
fn open(
    settings: &Settings,
    topic: &str,
    partition: u32,
    began_ms: i64,
) -> Result<PartitionReader, KafkaError> {
    let mut reader = PartitionReader::open(settings, topic, partition)?;
    let from = reader.first_since(began_ms.saturating_sub(BEFORE_COMMIT_MS).max(0))?;
    reader.begin_at(from)?;
    Ok(reader)
}

/// The batches of one partition.
struct TopicFeed {
    reader: PartitionReader,
    topic: String,
    run: u64,
    partition: u32,
    commits: Vec<Commit>,
    /// Index of the next batch.
    next: usize,
    sources: HashMap<u32, SourceLine>,
    about: About,
    /// The first piece of the next batch.
    first: Option<(u32, RecordedBatch)>,
    /// A record behind the last batch.
    behind: Option<(EventKey, Vec<u8>)>,
    /// Records that are not events of this run and partition.
    left_out: u64,
}

impl TopicFeed {
    fn new(reader: PartitionReader, topic: String, run: u64, commits: Vec<Commit>) -> TopicFeed {
        TopicFeed {
            reader,
            topic,
            run,
            partition: commits.first().map_or(0, |commit| commit.partition),
            commits,
            next: 0,
            sources: HashMap::new(),
            about: About::default(),
            first: None,
            behind: None,
            left_out: 0,
        }
    }

    /// Adds the name, the experiment and the formats of its descriptions.
    fn add_about(&self, about: &mut About) {
        if about.name.is_empty() {
            about.name.clone_from(&self.about.name);
        }
        if about.experiment.is_null() {
            about.experiment.clone_from(&self.about.experiment);
        }
        about.formats.extend(self.about.formats.clone());
    }

    /// Returns the next record of this run and partition from `batch` on, and descriptions.
    fn next_record(&mut self, batch: u64) -> Result<Option<(EventKey, Vec<u8>)>, GatherError> {
        if self.behind.is_some() {
            return Ok(self.behind.take());
        }
        let wrong = |error| unreadable(&self.topic, self.partition, &error);
        while let Some(Record { key, value, .. }) = self.reader.next().map_err(wrong)? {
            let key = EventKey::parse(&key)
                .filter(|key| (key.run, key.partition) == (self.run, self.partition));
            let Some(key) = key else { continue };
            if key.batch >= batch || matches!(key.part, EventPart::Description(_)) {
                return Ok(Some((key, value)));
            }
            self.left_out += 1;
        }
        Ok(None)
    }

    /// Returns the next piece of a batch from `piece` on, with its number; takes descriptions
    /// before it. Records that builders do not write are left out.
    fn piece(&mut self, commit: &Commit, piece: u32) -> Result<(u32, RecordedBatch), GatherError> {
        while let Some((key, value)) = self.next_record(commit.batch)? {
            let is_later = key.batch > commit.batch;
            if is_later && self.commits.last().is_some_and(|last| key.batch <= last.batch) {
                self.behind = Some((key, value));
                break;
            }
            match key.part {
                EventPart::Description(_) => self.describe(&value),
                EventPart::Piece(number) if number >= piece && !is_later => {
                    if let Ok(read) = RecordedBatch::of_stream(&value) {
                        return Ok((number, read));
                    }
                    self.left_out += 1;
                }
                EventPart::Piece(_) => self.left_out += 1,
            }
        }
        Err(self.missing(commit))
    }

    fn describe(&mut self, value: &[u8]) {
        let Ok(description) = serde_json::from_slice::<Description>(value) else {
            self.left_out += 1;
            return;
        };
        self.about.name = description.name;
        if !description.experiment.is_null() {
            self.about.experiment = description.experiment;
        }
        self.about.formats.extend(description.formats);
        self.sources.extend(description.sources.into_iter().map(|line| (line.source, line)));
    }

    fn differs(&self, commit: &Commit, reason: String) -> GatherError {
        let (batch, partition, place) = (commit.batch, self.partition, self.place());
        GatherError::Differs { batch, partition, place, reason }
    }

    fn missing(&self, commit: &Commit) -> GatherError {
        GatherError::Missing {
            more: 0,
            place: self.place(),
            batch: commit.batch,
            partition: self.partition,
            builder: commit.builder.clone(),
            remedy: "raise retention.ms of the topic for later runs, and gather the builders' \
                     folders if they wrote any",
        }
    }
}

impl Feed for TopicFeed {
    fn next_closed(&mut self) -> Result<Option<Moment>, GatherError> {
        let Some(commit) = self.commits.get(self.next).cloned() else { return Ok(None) };
        if commit.events == commit.refused {
            return Ok(Some(Moment::default()));
        }
        if self.first.is_none() {
            self.first = Some(self.piece(&commit, 0)?);
        }
        Ok(self.first.as_ref().and_then(|(_, read)| read.first_closed()))
    }

    fn take(&mut self, rows: &mut EventBatch) -> Result<(), GatherError> {
        self.next_closed()?;
        let Some(commit) = self.commits.get(self.next).cloned() else { return Ok(()) };
        let expected = (commit.events - commit.refused) as usize;
        let mut piece = 0;
        while rows.events.len() < expected {
            let (number, read) = match self.first.take() {
                Some(first) => first,
                None => self.piece(&commit, piece)?,
            };
            piece = number + 1;
            read.append_to(rows).map_err(|error| self.differs(&commit, error.to_string()))?;
        }
        self.next += 1;
        Ok(())
    }

    fn source(&self, number: u32) -> Option<&SourceLine> {
        self.sources.get(&number)
    }

    fn place(&self) -> String {
        format!("topic `{}`", self.topic)
    }

    fn lacks_refused(&self) -> bool {
        true
    }
}
