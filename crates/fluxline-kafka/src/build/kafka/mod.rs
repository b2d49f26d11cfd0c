//! The log on Apache Kafka: a topic of records, and topics of commits and of checkpoints with as
//! many partitions.
//!
//! Records are written by an idempotent producer that never gives up: a record that was taken is
//! there once, or the node is dead. Commits and checkpoints are written in transactions, one
//! transactional name for each partition: a builder that claims a partition ends the transactions
//! of the one before, which can commit nothing any more.

mod owner;
mod reader;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use owner::{COMMIT_WITHIN, Owner, of_transaction};
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use reader::Readers;

use super::checkpoint::Checkpoint;
use super::checkpoint_records::{Found, Joiner, PieceHead};
use super::commits::{CommitList, record_of};
use super::deliveries::{Deliveries, Windowed};
use super::log::{Claim, Commit, EventRecord, Log, LogError, Ready, RecordTopic, Stored};
use crate::changed::PartitionsChanged;
use crate::client::{
    TopicError, check_topic, headers, producer_config, record_bytes_of, text_of, watermarks,
    wrong_settings,
};
use crate::cut::ContentType;
use crate::lasting::Lasting;
use crate::reading::PartitionReader;
use crate::settings::Settings;

/// Records at the end of a partition among which checkpoints are looked for first.
const CHECKPOINT_RECORDS: u64 = 32;
/// A log on Kafka.
pub struct KafkaLog {
    settings: Settings,
    records: String,
    commits: String,
    checkpoints: String,
    run: u64,
    partitions: u32,
    begins: Begins,
    producer: Lasting<ThreadedProducer<Windowed>>,
    readers: Readers,
    owners: BTreeMap<u32, Owner>,
    /// The topic of events and its number of partitions, where it was opened.
    events: Option<(String, u32)>,
    /// The topic of `[sink.kafka]`, where it was opened.
    sink: Option<String>,
}

/// A record of a transaction beside those of events.
pub struct Marked<'a> {
    /// Its topic.
    pub topic: &'a str,
    /// Its key.
    pub key: String,
    /// The form of its value; `None`: that of the topic.
    pub content: Option<ContentType>,
    /// Its value.
    pub value: Vec<u8>,
}

/// The offsets at which a run begins, for each partition; 0 where there are none.
#[derive(Clone, Debug, Default)]
struct Begins {
    fragments: Vec<u64>,
    commits: Vec<u64>,
}

impl KafkaLog {
    /// Opens the log of a run on the topics `NAME.fragments`, `NAME.commits` and
    /// `NAME.checkpoints`.
    ///
    /// Errors: [`TopicError`]; the topics must exist, with the same number of partitions
    /// ([`TopicError::PartitionsChanged`]).
    pub fn open(settings: &Settings, name: &str, run: u64) -> Result<KafkaLog, TopicError> {
        let (records, commits) = (format!("{name}.fragments"), format!("{name}.commits"));
        let checkpoints = format!("{name}.checkpoints");
        let producer: ThreadedProducer<Windowed> = producer_config(settings)
            .set("queue.buffering.max.kbytes", "65536")
            .set("message.max.bytes", "8000000")
            .set("message.timeout.ms", "0") // none: a record that was taken is not given up
            .create_with_context(Windowed::new())
            .map_err(|error| wrong_settings(&error))?;
        let producer = Lasting::new(producer, settings, &records);
        let partitions = check_topic(producer.client(), settings, &records)?;
        producer.context().window.set_partitions(partitions);
        for topic in [&commits, &checkpoints] {
            let found = check_topic(producer.client(), settings, topic)?;
            if found != partitions {
                // The run began with the same number everywhere, and none is ever taken away.
                let (expected, found) = (partitions.min(found), partitions.max(found));
                let (expected, found) = (expected as u32, found as u32);
                return Err(PartitionsChanged { run, expected, found }.into());
            }
        }
        Ok(KafkaLog {
            settings: settings.clone(),
            readers: Readers::new(settings, &records),
            records,
            commits,
            checkpoints,
            run,
            partitions: partitions as u32,
            begins: Begins::default(),
            producer,
            owners: BTreeMap::new(),
            events: None,
            sink: None,
        })
    }

    /// Opens the topic `NAME.events` for records with commits. Returns the largest record that its
    /// brokers take \[byte\], at most `record_bytes`.
    ///
    /// Errors: [`TopicError`]; the topic must exist.
    pub fn open_events(&mut self, name: &str, record_bytes: usize) -> Result<usize, TopicError> {
        let topic = format!("{name}.events");
        let partitions = check_topic(self.producer.client(), &self.settings, &topic)? as u32;
        let most = record_bytes_of(&self.settings, &topic);
        self.events = Some((topic, partitions.max(1)));
        Ok(most.map_or(record_bytes, |most| record_bytes.min(most)))
    }

    /// Opens the topic of `[sink.kafka]` for records with commits. Returns the largest record that
    /// its brokers take \[byte\], at most `record_bytes`.
    ///
    /// Errors: [`TopicError`]; the topic must exist.
    pub fn open_sink(&mut self, topic: &str, record_bytes: usize) -> Result<usize, TopicError> {
        check_topic(self.producer.client(), &self.settings, topic)?;
        self.sink = Some(topic.to_owned());
        let most = record_bytes_of(&self.settings, topic);
        Ok(most.map_or(record_bytes, |most| record_bytes.min(most)))
    }

    /// Sends these records in one transaction of the partition's owner: key and value for each
    /// topic.
    ///
    /// Errors: [`LogError::Fenced`] when another builder has the partition; nothing is sent then.
    pub fn send_together(
        &mut self,
        partition: u32,
        records: &[Marked<'_>],
    ) -> Result<(), LogError> {
        let owner = self.owners.get(&partition).ok_or(LogError::Fenced { partition })?;
        let meaning = |error: KafkaError| of_transaction(partition, &error);
        owner.begin().map_err(meaning)?;
        for Marked { topic, key, content, value } in records {
            let record = BaseRecord::to(topic).key(key).payload(value);
            let record = match content {
                Some(content) => record.headers(headers(*content, 0)),
                None => record,
            };
            owner.send(record).map_err(meaning)?;
        }
        owner.commit().map_err(meaning)
    }

    /// Returns the topic of a record with events, and its partition where the key does not choose
    /// it.
    fn target(
        &self,
        record: &EventRecord,
        partition: u32,
    ) -> Result<(&str, Option<i32>), LogError> {
        let none = || LogError::Away("its topic of events was not opened".to_owned());
        match record.topic {
            RecordTopic::Sink => Ok((self.sink.as_ref().ok_or_else(none)?, None)),
            RecordTopic::Events => {
                let (topic, partitions) = self.events.as_ref().ok_or_else(none)?;
                Ok((topic, Some((partition % partitions) as i32)))
            }
        }
    }

    /// Reads the run from these offsets on, one for each partition of either topic: earlier records
    /// belong to earlier runs.
    #[must_use]
    pub fn begin_at(mut self, fragments: Vec<u64>, commits: Vec<u64>) -> KafkaLog {
        self.begins = Begins { fragments, commits };
        self
    }

    /// Returns the records that the brokers have acknowledged and refused since the log was opened.
    #[must_use]
    pub fn deliveries(&self) -> Deliveries {
        self.producer.context().deliveries.clone()
    }

    /// Returns the error after which the client sends nothing any more, if there was one.
    #[must_use]
    pub fn fatal_error(&self) -> Option<String> {
        self.producer.client().fatal_error().map(|(_, reason)| reason)
    }

    /// Waits until the broker has all appended records.
    pub fn flush(&self, within: Duration) -> Result<(), LogError> {
        self.producer.flush(within).map_err(|error| LogError::Away(error.to_string()))
    }

    /// Sends the records of a batch to the topics of events.
    fn send_events(
        &self,
        owner: &Owner,
        partition: u32,
        records: &[EventRecord],
    ) -> Result<(), LogError> {
        for record in records {
            let (topic, to) = self.target(record, partition)?;
            let headers = headers(record.content, record.events);
            let record =
                BaseRecord::to(topic).key(&record.key).payload(&record.value).headers(headers);
            let record = to.into_iter().fold(record, BaseRecord::partition);
            owner.send(record).map_err(|error| of_transaction(partition, &error))?;
        }
        Ok(())
    }

    /// Reads the committed batches of this run in a partition, from batch `first` on. Their records
    /// are at offset `from` or behind it.
    ///
    /// Errors: [`LogError::CommitsGone`], [`LogError::Contradicts`], [`LogError::Away`].
    fn committed(&self, partition: u32, first: u64, from: u64) -> Result<Vec<Commit>, LogError> {
        let mut list = CommitList::new(self.run, partition).begin_at(first);
        let mut wrong = Ok(());
        let from = from.max(self.commits_begin(partition));
        let reader = PartitionReader::open(&self.settings, &self.commits, partition);
        let reader = reader.map_err(|error| away(&error))?;
        if reader.first > from {
            let (topic, first) = (self.commits.clone(), reader.first);
            return Err(LogError::CommitsGone { topic, partition, first });
        }
        let read = reader.read(from, |record| {
            if wrong.is_ok() {
                wrong = list.take(&record.key, &record.value);
            }
        });
        read.map_err(|error| away(&error))?;
        wrong.map(|()| list.into_commits())
    }

    /// Returns the offset at which the run begins in a partition of commits.
    fn commits_begin(&self, partition: u32) -> u64 {
        self.begins.commits.get(partition as usize).copied().unwrap_or(0)
    }

    /// Returns true for a checkpoint of this run, and not of an earlier one with the same number.
    fn is_of_run(&self, head: &PieceHead) -> bool {
        let PieceHead { partition, began, commits_from, .. } = *head;
        began == self.beginning(partition) && commits_from >= self.commits_begin(partition)
    }

    /// Reads the newest two checkpoints of this run in a partition, the newest first. It reads the
    /// topic from its end backwards, in steps that grow: old checkpoints stay there until the
    /// broker compacts them.
    fn checkpoints(&self, partition: u32) -> Result<Vec<Found>, KafkaError> {
        let mut reader = PartitionReader::open(&self.settings, &self.checkpoints, partition)?;
        let mut window = CHECKPOINT_RECORDS;
        loop {
            let from = reader.end.saturating_sub(window);
            let mut joiner = Joiner::new(self.run, partition);
            reader.begin_at(from)?;
            while let Some(record) = reader.next()? {
                joiner.take(&record.key, &record.value);
            }
            if joiner.is_enough() || from <= reader.first {
                return Ok(joiner.finish());
            }
            window *= 8;
        }
    }
}

fn away(error: &KafkaError) -> LogError {
    LogError::Away(text_of(error))
}

impl Log for KafkaLog {
    fn partitions(&self) -> u32 {
        self.partitions
    }

    fn beginning(&self, partition: u32) -> u64 {
        self.begins.fragments.get(partition as usize).copied().unwrap_or(0)
    }

    fn append(&mut self, partition: u32, bytes: &[u8]) -> Result<(), LogError> {
        let window = &self.producer.context().window;
        if !window.has_room(bytes.len()) {
            return Err(LogError::Away("the client has all records that it can send".to_owned()));
        }
        let record =
            BaseRecord::<(), [u8]>::to(&self.records).partition(partition as i32).payload(bytes);
        window.enter(bytes.len());
        self.producer.send(record).map_err(|(error, _)| {
            window.leave(bytes.len());
            away(&error)
        })
    }

    fn read(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        self.readers.read(partition, offset)
    }

    fn read_at_once(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        self.readers.read_at_once(partition, offset)
    }

    fn read_again(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        self.readers.read_again(partition, offset)
    }

    fn claim(&mut self, partition: u32, _builder: &str) -> Result<Claim, LogError> {
        let name = format!("fluxline-{}-{}-{partition}", self.commits, self.run);
        let mut owner = Owner::claim(&self.settings, &name)
            .map_err(|error| of_transaction(partition, &error))?;
        // The builder before is fenced now: the lists of checkpoints and commits are complete.
        let found = self.checkpoints(partition).map_err(|error| away(&error))?;
        let heads = found.iter().map(|its| &its.head).filter(|head| self.is_of_run(head));
        let oldest = heads.min_by_key(|head| head.number);
        let (first, from) = oldest.map_or((0, 0), |head| (head.batch, head.commits_from));
        let committed = self.committed(partition, first, from)?;
        let epoch = self.owners.get(&partition).map_or(1, |owner| owner.epoch + 1);
        owner.epoch = epoch;
        found.iter().for_each(|Found { head, .. }| owner.go_on_behind(head));
        self.owners.insert(partition, owner);
        self.readers.close(partition);
        let checkpoints = found.into_iter().map(|its| its.checkpoint).collect();
        Ok(Claim { partition, epoch, checkpoints, committed })
    }

    /// All of them are one transaction: readers see them together, or none.
    fn commit_all(&mut self, claim: &Claim, batches: &[Ready]) -> Result<(), LogError> {
        let partition = claim.partition;
        let owner = self.owners.get(&partition).filter(|owner| owner.epoch == claim.epoch);
        let Some(owner) = owner else { return Err(LogError::Fenced { partition }) };
        let meaning = |error: KafkaError| of_transaction(partition, &error);
        owner.begin().map_err(meaning)?;
        for Ready { commit, records } in batches {
            self.send_events(owner, partition, records)?;
            let (key, payload) = record_of(self.run, commit);
            let record = BaseRecord::to(&self.commits)
                .partition(partition as i32)
                .key(&key)
                .payload(&payload);
            owner.send(record).map_err(meaning)?;
        }
        owner.commit().map_err(meaning)
    }

    fn save(&mut self, claim: &Claim, checkpoint: &Checkpoint) -> Result<(), LogError> {
        let partition = claim.partition;
        let began = self.beginning(partition);
        let owner = self.owners.get_mut(&partition).filter(|owner| owner.epoch == claim.epoch);
        let Some(owner) = owner else { return Err(LogError::Fenced { partition }) };
        // No transaction of this owner is open: its commits so far are before this offset.
        let marks = watermarks(owner.client(), &self.commits, partition as i32);
        let commits_from = marks.map_err(|error| away(&error))?.1.max(0) as u64;
        let head = PieceHead {
            run: self.run,
            partition,
            began,
            number: owner.next_checkpoint(),
            batch: checkpoint.batch,
            offset: checkpoint.offset,
            bytes: checkpoint.bytes.len() as u64,
            crc: crc_fast::crc32_iscsi(&checkpoint.bytes),
            commits_from,
        };
        let saving = Instant::now();
        owner.save(&self.checkpoints, &head, &checkpoint.bytes).map_err(|error| {
            // The brokers end a transaction that takes too long as they end that of a builder which
            // was replaced.
            match saving.elapsed() < COMMIT_WITHIN {
                true => of_transaction(partition, &error),
                false => LogError::Away(format!(
                    "not sent within {} s: {error}",
                    COMMIT_WITHIN.as_secs()
                )),
            }
        })
    }

    fn commits(&mut self, partition: u32) -> Result<Vec<Commit>, LogError> {
        self.committed(partition, 0, 0)
    }
}
