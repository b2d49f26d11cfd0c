//! The log on Apache Kafka: a topic of records, and topics of commits and of checkpoints with as
//! many partitions.
//!
//! Records are written by an idempotent producer that never gives up: a record that was taken is
//! there once, or the node is dead. Commits and checkpoints are written in transactions, one
//! transactional name for each partition: a builder that claims a partition ends the transactions
//! of the one before, which can commit nothing any more.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::checkpoint::Checkpoint;
use super::checkpoint_records::{Found, Joiner, PIECE_BYTES, PieceHead};
use super::commits::{CommitList, record_of};
use super::deliveries::{Deliveries, Windowed};
use super::log::{Claim, Commit, EventRecord, Log, LogError, Ready, RecordTopic, Stored};
use crate::client::{
    ANSWER_WITHIN, TopicError, check_topic, config, consumer_config, headers, is_fenced,
    producer_config, record_bytes_of, watermarks, wrong_settings,
};
use crate::cut::ContentType;
use crate::lasting::Lasting;
use crate::reading::{PartitionReader, read_to_end};
use crate::settings::Settings;

/// Time for a claim or a commit, during which the broker may be away.
const COMMIT_WITHIN: Duration = Duration::from_secs(30);
/// Records at the end of a partition among which checkpoints are looked for first.
const CHECKPOINT_RECORDS: u64 = 32;
/// Most records that a reader passes over on the way to one that was read before.
const SKIP_MAX: u64 = 1000;
/// Most memory of records that were passed over \[byte\].
const PASSED_BYTES_MAX: usize = 16 << 20;
/// Wait for a record that is not there yet.
const RECORD_WITHIN: Duration = Duration::from_millis(20);

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
    readers: BTreeMap<u32, Reader>,
    /// Readers of records that were read before.
    again: BTreeMap<u32, Reader>,
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

impl Owner {
    /// Commits the open transaction. The client library would look for the answers of the brokers
    /// every 100 ms only.
    fn commit(&self) -> Result<(), KafkaError> {
        let began = Instant::now();
        while self.producer.in_flight_count() > 0 && began.elapsed() < COMMIT_WITHIN {
            self.producer.poll(Duration::from_millis(1));
        }
        self.producer.commit_transaction(COMMIT_WITHIN)
    }

    /// Sends a record; waits while the client's memory is full.
    fn send(&self, mut record: BaseRecord<'_, String, Vec<u8>>) -> Result<(), KafkaError> {
        let began = Instant::now();
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back))
                    if began.elapsed() < COMMIT_WITHIN =>
                {
                    record = back;
                    self.producer.poll(Duration::from_millis(10));
                }
                Err((error, _)) => return Err(error),
            }
        }
    }
}

/// The offsets at which a run begins, for each partition; 0 where there are none.
#[derive(Clone, Debug, Default)]
struct Begins {
    fragments: Vec<u64>,
    commits: Vec<u64>,
}

/// A reader of one partition.
struct Reader {
    consumer: BaseConsumer,
    /// Offset of the record that it gives next.
    next: u64,
    /// Records that were passed over on the way to another one, up to [`PASSED_BYTES_MAX`].
    passed: VecDeque<Stored>,
}

impl Reader {
    /// Returns the next record; `None`: it has not come within this time.
    fn poll(&mut self, within: Duration) -> Result<Option<Stored>, KafkaError> {
        let Some(message) = self.consumer.poll(within).transpose()? else { return Ok(None) };
        let offset = message.offset() as u64;
        self.next = offset + 1;
        Ok(Some(Stored { offset, bytes: message.payload().unwrap_or_default().into() }))
    }

    /// Keeps a record that was passed over.
    fn pass(&mut self, record: Stored) {
        self.passed.push_back(record);
        let mut bytes: usize = self.passed.iter().map(|record| record.bytes.len()).sum();
        while bytes > PASSED_BYTES_MAX {
            bytes -= self.passed.pop_front().map_or(bytes, |record| record.bytes.len());
        }
    }

    /// Returns the record at `offset` or the first one behind; `None`: it has not come yet.
    fn seek(&mut self, offset: u64) -> Result<Option<Stored>, KafkaError> {
        if let Some(at) = self.passed.iter().position(|record| record.offset == offset) {
            return Ok(self.passed.remove(at));
        }
        while let Some(record) = self.poll(RECORD_WITHIN)? {
            if record.offset >= offset {
                return Ok(Some(record));
            }
            self.pass(record);
        }
        Ok(None)
    }
}

/// The right to commit in one partition.
struct Owner {
    producer: BaseProducer,
    epoch: u64,
    /// Number of the next checkpoint.
    next: u64,
    /// Pieces of the last checkpoint with an even number, and with an odd one.
    pieces: [u64; 2],
}

impl KafkaLog {
    /// Opens the log of a run on the topics `NAME.fragments`, `NAME.commits` and
    /// `NAME.checkpoints`.
    ///
    /// Errors: [`TopicError`]; the topics must exist, with the same number of partitions.
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
                return Err(TopicError::Settings(format!(
                    "topic `{records}` has {partitions} partitions and topic `{topic}` has \
                     {found}; both need the same number"
                )));
            }
        }
        Ok(KafkaLog {
            settings: settings.clone(),
            records,
            commits,
            checkpoints,
            run,
            partitions: partitions as u32,
            begins: Begins::default(),
            producer,
            readers: BTreeMap::new(),
            again: BTreeMap::new(),
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
        owner.producer.begin_transaction().map_err(meaning)?;
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

    /// Waits until the broker has all appended records.
    pub fn flush(&self, within: Duration) -> Result<(), LogError> {
        self.producer.flush(within).map_err(|error| LogError::Away(error.to_string()))
    }

    /// Returns the reader of a partition, placed at `offset`.
    fn reader(&mut self, partition: u32, offset: u64) -> Result<&mut Reader, KafkaError> {
        if self.readers.get(&partition).is_none_or(|reader| reader.next != offset) {
            let reader = self.open_reader(partition, offset)?;
            self.readers.insert(partition, reader);
        }
        self.readers.get_mut(&partition).ok_or(KafkaError::Canceled)
    }

    /// Returns the reader of records that were read before, placed at `offset` or a little before.
    fn reader_again(&mut self, partition: u32, offset: u64) -> Result<&mut Reader, KafkaError> {
        let can_reach = |reader: &Reader| {
            let has = |record: &Stored| record.offset == offset;
            (reader.next..reader.next + SKIP_MAX).contains(&offset) || reader.passed.iter().any(has)
        };
        if !self.again.get(&partition).is_some_and(can_reach) {
            let reader = self.open_reader(partition, offset)?;
            self.again.insert(partition, reader);
        }
        self.again.get_mut(&partition).ok_or(KafkaError::Canceled)
    }

    fn open_reader(&self, partition: u32, offset: u64) -> Result<Reader, KafkaError> {
        let consumer: BaseConsumer = consumer_config(&self.settings)
            .set("group.id", "fluxline-builder")
            .set("auto.offset.reset", "error")
            .create()?;
        let mut list = TopicPartitionList::new();
        let start = Offset::Offset(offset as i64);
        list.add_partition_offset(&self.records, partition as i32, start)?;
        consumer.assign(&list)?;
        Ok(Reader { consumer, next: offset, passed: VecDeque::new() })
    }

    /// Returns the next record of a partition, which may take this long to come.
    fn read_within(
        &mut self,
        partition: u32,
        offset: u64,
        within: Duration,
    ) -> Result<Option<Stored>, LogError> {
        let reader = self.reader(partition, offset).map_err(|error| away(&error))?;
        reader.poll(within).map_err(|error| {
            let hole = self.hole(self.readers.get(&partition), partition, offset);
            self.readers.remove(&partition);
            hole.unwrap_or_else(|| away(&error))
        })
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

    /// Returns the hole when the record at `offset` was removed.
    fn hole(&self, reader: Option<&Reader>, partition: u32, offset: u64) -> Option<LogError> {
        let marks =
            reader?.consumer.fetch_watermarks(&self.records, partition as i32, ANSWER_WITHIN);
        let first = u64::try_from(marks.ok()?.0).ok()?;
        let missing = first.checked_sub(offset).filter(|missing| *missing > 0)?;
        Some(LogError::Hole { partition, first, missing })
    }

    /// Reads the committed batches of this run in a partition, from batch `first` on. Their records
    /// are at offset `from` or behind it.
    fn committed(&self, partition: u32, first: u64, from: u64) -> Result<Vec<Commit>, LogError> {
        let mut list = CommitList::new(self.run, partition).begin_at(first);
        let mut wrong = Ok(());
        let begin = self.begins.commits.get(partition as usize).copied().unwrap_or(0);
        read_to_end(&self.settings, &self.commits, partition, from.max(begin), |record| {
            if wrong.is_ok() {
                wrong = list.take(record.key, record.value);
            }
        })
        .map_err(|error| away(&error))?;
        wrong.map(|()| list.into_commits())
    }

    /// Reads the newest two checkpoints of this run in a partition, the newest first. It reads the
    /// topic from its end backwards, in steps that grow: old checkpoints stay there until the
    /// broker compacts them.
    fn checkpoints(&self, partition: u32) -> Result<Vec<Found>, KafkaError> {
        let reader = PartitionReader::open(&self.settings, &self.checkpoints, partition)?;
        let mut window = CHECKPOINT_RECORDS;
        loop {
            let from = reader.end.saturating_sub(window);
            let mut joiner = Joiner::new(self.run, partition);
            reader.read(from, |record| joiner.take(record.key, record.value))?;
            if joiner.is_enough() || from <= reader.first {
                return Ok(joiner.finish());
            }
            window *= 8;
        }
    }
}

impl Owner {
    /// Sends the pieces of a checkpoint, then its head. Pieces of the one before it under the same
    /// keys that are left over are deleted.
    fn send_checkpoint(
        &mut self,
        topic: &str,
        head: &PieceHead,
        bytes: &[u8],
    ) -> Result<(), KafkaError> {
        let to = |key: String, value: Option<Vec<u8>>| {
            let record = BaseRecord::to(topic).partition(head.partition as i32).key(&key);
            match &value {
                Some(value) => self.send(record.payload(value)),
                None => self.send(record),
            }
        };
        for (piece, bytes) in (0..).zip(bytes.chunks(PIECE_BYTES)) {
            to(head.key(Some(piece)), Some(bytes.to_vec()))?;
        }
        let before = self.pieces[head.number as usize % 2];
        for piece in head.pieces()..before {
            to(head.key(Some(piece)), None)?;
        }
        // Numbers are always JSON.
        to(head.key(None), Some(serde_json::to_vec(head).unwrap_or_default()))?;
        self.pieces[head.number as usize % 2] = head.pieces();
        self.next = head.number + 1;
        Ok(())
    }
}

fn away(error: &KafkaError) -> LogError {
    LogError::Away(error.to_string())
}

/// Returns the meaning of an error of a transaction.
fn of_transaction(partition: u32, error: &KafkaError) -> LogError {
    match is_fenced(error) {
        true => LogError::Fenced { partition },
        false => away(error),
    }
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
        self.read_within(partition, offset, RECORD_WITHIN)
    }

    fn read_at_once(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        self.read_within(partition, offset, Duration::ZERO)
    }

    fn read_again(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        let reader = self.reader_again(partition, offset).map_err(|error| away(&error))?;
        reader.seek(offset).map_err(|error| {
            let hole = self.hole(self.again.get(&partition), partition, offset);
            self.again.remove(&partition);
            hole.unwrap_or_else(|| away(&error))
        })
    }

    fn claim(&mut self, partition: u32, _builder: &str) -> Result<Claim, LogError> {
        let name = format!("fluxline-{}-{}-{partition}", self.commits, self.run);
        let producer: BaseProducer = config(&self.settings)
            .set("transactional.id", &name)
            .set("linger.ms", "0") // a commit waits for its records
            .set("queue.buffering.max.kbytes", "65536")
            .set("message.max.bytes", "8000000")
            .set("transaction.timeout.ms", COMMIT_WITHIN.as_millis().to_string())
            .create()
            .map_err(|error| away(&error))?;
        producer
            .init_transactions(COMMIT_WITHIN)
            .map_err(|error| of_transaction(partition, &error))?;
        // The builder before is fenced now: the lists of checkpoints and commits are complete.
        let found = self.checkpoints(partition).map_err(|error| away(&error))?;
        let oldest = found.iter().map(|its| &its.head).min_by_key(|head| head.number);
        let (first, from) = oldest.map_or((0, 0), |head| (head.batch, head.commits_from));
        let committed = self.committed(partition, first, from)?;
        let epoch = self.owners.get(&partition).map_or(1, |owner| owner.epoch + 1);
        let mut owner = Owner { producer, epoch, next: 0, pieces: [0; 2] };
        for Found { head, .. } in &found {
            owner.next = owner.next.max(head.number + 1);
            owner.pieces[head.number as usize % 2] = head.pieces();
        }
        self.owners.insert(partition, owner);
        self.readers.remove(&partition);
        self.again.remove(&partition);
        let checkpoints = found.into_iter().map(|its| its.checkpoint).collect();
        Ok(Claim { partition, epoch, checkpoints, committed })
    }

    fn commit(&mut self, claim: &Claim, commit: Commit) -> Result<(), LogError> {
        self.commit_all(claim, &[Ready { commit, records: Vec::new() }])
    }

    /// All of them are one transaction: readers see them together, or none.
    fn commit_all(&mut self, claim: &Claim, batches: &[Ready]) -> Result<(), LogError> {
        let partition = claim.partition;
        let owner = self.owners.get(&partition).filter(|owner| owner.epoch == claim.epoch);
        let Some(owner) = owner else { return Err(LogError::Fenced { partition }) };
        let meaning = |error: KafkaError| of_transaction(partition, &error);
        owner.producer.begin_transaction().map_err(meaning)?;
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
        let owner = self.owners.get_mut(&partition).filter(|owner| owner.epoch == claim.epoch);
        let Some(owner) = owner else { return Err(LogError::Fenced { partition }) };
        let meaning = |error: KafkaError| of_transaction(partition, &error);
        // No transaction of this owner is open: its commits so far are before this offset.
        let marks = watermarks(owner.producer.client(), &self.commits, partition as i32);
        let commits_from = marks.map_err(|error| away(&error))?.1.max(0) as u64;
        let head = PieceHead {
            run: self.run,
            partition,
            number: owner.next,
            batch: checkpoint.batch,
            offset: checkpoint.offset,
            bytes: checkpoint.bytes.len() as u64,
            crc: crc_fast::crc32_iscsi(&checkpoint.bytes),
            commits_from,
        };
        owner.producer.begin_transaction().map_err(meaning)?;
        owner.send_checkpoint(&self.checkpoints, &head, &checkpoint.bytes).map_err(meaning)?;
        owner.commit().map_err(meaning)
    }

    fn commits(&mut self, partition: u32) -> Result<Vec<Commit>, LogError> {
        self.committed(partition, 0, 0)
    }
}
