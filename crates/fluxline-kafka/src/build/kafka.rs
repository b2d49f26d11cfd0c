//! The log on Apache Kafka: a topic of records, and a topic of commits with as many partitions.
//!
//! Records are written by an idempotent producer that never gives up: a record that was taken is
//! there once, or the node is dead. Commits are written in transactions, one transactional name for
//! each partition: a builder that claims a partition ends the transactions of the one before, which
//! can commit nothing any more.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::commits::{CommitList, record_of};
use super::deliveries::Deliveries;
use super::log::{Claim, Commit, EventRecord, Log, LogError, Stored};
use crate::client::{
    ANSWER_WITHIN, TopicError, check_topic, config, headers, is_fenced, record_bytes_of,
    wrong_settings,
};
use crate::reading::{Start, read_to_end};
use crate::settings::Settings;

/// Time for a claim or a commit, during which the broker may be away.
const COMMIT_WITHIN: Duration = Duration::from_secs(30);
/// Wait for a record that is not there yet.
const RECORD_WITHIN: Duration = Duration::from_millis(20);

/// A log on Kafka.
pub struct KafkaLog {
    settings: Settings,
    records: String,
    commits: String,
    run: u64,
    partitions: u32,
    begins: Begins,
    producer: ThreadedProducer<Deliveries>,
    readers: BTreeMap<u32, Reader>,
    owners: BTreeMap<u32, Owner>,
    /// The topic of events and its number of partitions, where it was opened.
    events: Option<(String, u32)>,
}

impl Owner {
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
}

/// The right to commit in one partition.
struct Owner {
    producer: BaseProducer,
    epoch: u64,
}

impl KafkaLog {
    /// Opens the log of a run on the topics `NAME.fragments` and `NAME.commits`.
    ///
    /// Errors: [`TopicError`]; the two topics must exist, with the same number of partitions.
    pub fn open(settings: &Settings, name: &str, run: u64) -> Result<KafkaLog, TopicError> {
        let (records, commits) = (format!("{name}.fragments"), format!("{name}.commits"));
        let producer: ThreadedProducer<Deliveries> = config(settings)
            .set("enable.idempotence", "true")
            .set("linger.ms", "5")
            .set("batch.size", "1000000")
            .set("queue.buffering.max.kbytes", "65536")
            .set("message.max.bytes", "8000000")
            .set("message.timeout.ms", "0") // none: a record that was taken is not given up
            .create_with_context(Deliveries::default())
            .map_err(|error| wrong_settings(&error))?;
        let partitions = check_topic(producer.client(), settings, &records)?;
        let found = check_topic(producer.client(), settings, &commits)?;
        if found != partitions {
            return Err(TopicError::Settings(format!(
                "topic `{records}` has {partitions} partitions and topic `{commits}` has {found}; \
                 both need the same number"
            )));
        }
        Ok(KafkaLog {
            settings: settings.clone(),
            records,
            commits,
            run,
            partitions: partitions as u32,
            begins: Begins::default(),
            producer,
            readers: BTreeMap::new(),
            owners: BTreeMap::new(),
            events: None,
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
        Deliveries::clone(self.producer.context())
    }

    /// Waits until the broker has all appended records.
    pub fn flush(&self, within: Duration) -> Result<(), LogError> {
        self.producer.flush(within).map_err(|error| LogError::Away(error.to_string()))
    }

    /// Returns the reader of a partition, placed at `offset`.
    fn reader(&mut self, partition: u32, offset: u64) -> Result<&mut Reader, KafkaError> {
        if self.readers.get(&partition).is_none_or(|reader| reader.next != offset) {
            let consumer: BaseConsumer = config(&self.settings)
                .set("group.id", "fluxline-builder")
                .set("enable.auto.commit", "false")
                .set("auto.offset.reset", "error")
                .set("queued.max.messages.kbytes", "16384")
                .create()?;
            let mut list = TopicPartitionList::new();
            let start = Offset::Offset(offset as i64);
            list.add_partition_offset(&self.records, partition as i32, start)?;
            consumer.assign(&list)?;
            self.readers.insert(partition, Reader { consumer, next: offset });
        }
        self.readers.get_mut(&partition).ok_or(KafkaError::Canceled)
    }

    /// Returns the hole when the record at `offset` was removed.
    fn hole(&self, partition: u32, offset: u64) -> Option<LogError> {
        let reader = self.readers.get(&partition)?;
        let marks =
            reader.consumer.fetch_watermarks(&self.records, partition as i32, ANSWER_WITHIN);
        let first = u64::try_from(marks.ok()?.0).ok()?;
        let missing = first.checked_sub(offset).filter(|missing| *missing > 0)?;
        Some(LogError::Hole { partition, first, missing })
    }

    /// Reads the committed batches of this run in a partition.
    fn committed(&self, partition: u32) -> Result<Vec<Commit>, LogError> {
        let mut list = CommitList::new(self.run, partition);
        let mut wrong = Ok(());
        let offset = self.begins.commits.get(partition as usize).copied().unwrap_or(0);
        let start = Start { partition, offset };
        read_to_end(&self.settings, &self.commits, start, |record| {
            if wrong.is_ok() {
                wrong = list.take(record.key, record.value);
            }
        })
        .map_err(|error| away(&error))?;
        wrong.map(|()| list.into_commits())
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
        let record =
            BaseRecord::<(), [u8]>::to(&self.records).partition(partition as i32).payload(bytes);
        self.producer.send(record).map_err(|(error, _)| away(&error))
    }

    fn read(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        let reader = self.reader(partition, offset).map_err(|error| away(&error))?;
        let failed = match reader.consumer.poll(RECORD_WITHIN) {
            None => return Ok(None),
            Some(Ok(message)) => {
                let offset = message.offset() as u64;
                let bytes = message.payload().unwrap_or_default().into();
                reader.next = offset + 1;
                return Ok(Some(Stored { offset, bytes }));
            }
            Some(Err(error)) => error,
        };
        let hole = self.hole(partition, offset);
        self.readers.remove(&partition);
        Err(hole.unwrap_or_else(|| away(&failed)))
    }

    fn claim(&mut self, partition: u32, _builder: &str) -> Result<Claim, LogError> {
        let name = format!("fluxline-{}-{}-{partition}", self.commits, self.run);
        let producer: BaseProducer = config(&self.settings)
            .set("transactional.id", &name)
            .set("queue.buffering.max.kbytes", "65536")
            .set("message.max.bytes", "8000000")
            .set("transaction.timeout.ms", COMMIT_WITHIN.as_millis().to_string())
            .create()
            .map_err(|error| away(&error))?;
        producer
            .init_transactions(COMMIT_WITHIN)
            .map_err(|error| of_transaction(partition, &error))?;
        // The builder before is fenced now: the list of commits is complete.
        let committed = self.committed(partition)?;
        let epoch = self.owners.get(&partition).map_or(1, |owner| owner.epoch + 1);
        self.owners.insert(partition, Owner { producer, epoch });
        self.readers.remove(&partition);
        Ok(Claim { partition, epoch, committed })
    }

    fn commit(&mut self, claim: &Claim, commit: Commit) -> Result<(), LogError> {
        self.commit_with(claim, commit, &[])
    }

    fn commit_with(
        &mut self,
        claim: &Claim,
        commit: Commit,
        records: &[EventRecord],
    ) -> Result<(), LogError> {
        let partition = claim.partition;
        let owner = self.owners.get(&partition).filter(|owner| owner.epoch == claim.epoch);
        let Some(owner) = owner else { return Err(LogError::Fenced { partition }) };
        let meaning = |error: KafkaError| of_transaction(partition, &error);
        owner.producer.begin_transaction().map_err(meaning)?;
        if !records.is_empty() {
            let events = self.events.as_ref();
            let none = || LogError::Away("its topic of events was not opened".to_owned());
            let (topic, partitions) = events.ok_or_else(none)?;
            for record in records {
                let headers = headers(record.content_type, record.events);
                let record = BaseRecord::to(topic)
                    .partition((partition % partitions) as i32)
                    .key(&record.key)
                    .payload(&record.value)
                    .headers(headers);
                owner.send(record).map_err(meaning)?;
            }
        }
        let (key, payload) = record_of(self.run, &commit);
        let record =
            BaseRecord::to(&self.commits).partition(partition as i32).key(&key).payload(&payload);
        owner.send(record).map_err(meaning)?;
        owner.producer.commit_transaction(COMMIT_WITHIN).map_err(meaning)
    }
}
