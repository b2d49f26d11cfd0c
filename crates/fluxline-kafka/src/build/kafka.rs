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
use rdkafka::producer::{
    BaseProducer, BaseRecord, DefaultProducerContext, Producer, ThreadedProducer,
};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde::{Deserialize, Serialize};

use super::log::{Claim, Commit, Log, LogError, Stored};
use crate::client::{
    ANSWER_WITHIN, TopicError, check_topic, config, consumer_config, producer_config,
    wrong_settings,
};
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
    producer: ThreadedProducer<DefaultProducerContext>,
    readers: BTreeMap<u32, Reader>,
    owners: BTreeMap<u32, Owner>,
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

/// A commit as its topic keeps it.
#[derive(Debug, Serialize, Deserialize)]
struct CommitRecord {
    run: u64,
    batch: u64,
    covers: u64,
    crc: u32,
    events: u64,
    packets: u64,
    builder: String,
}

impl KafkaLog {
    /// Opens the log of a run on the topics `NAME.fragments` and `NAME.commits`.
    ///
    /// Errors: [`TopicError`]; the two topics must exist, with the same number of partitions.
    pub fn open(settings: &Settings, name: &str, run: u64) -> Result<KafkaLog, TopicError> {
        let (records, commits) = (format!("{name}.fragments"), format!("{name}.commits"));
        let producer: ThreadedProducer<DefaultProducerContext> = producer_config(settings)
            .set("queue.buffering.max.kbytes", "65536")
            .set("message.max.bytes", "8000000")
            .set("message.timeout.ms", "0") // none: a record that was taken is not given up
            .create()
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
            producer,
            readers: BTreeMap::new(),
            owners: BTreeMap::new(),
        })
    }

    /// Waits until the broker has all appended records.
    pub fn flush(&self, within: Duration) -> Result<(), LogError> {
        self.producer.flush(within).map_err(|error| LogError::Away(error.to_string()))
    }

    /// Returns the reader of a partition, placed at `offset`.
    fn reader(&mut self, partition: u32, offset: u64) -> Result<&mut Reader, KafkaError> {
        if self.readers.get(&partition).is_none_or(|reader| reader.next != offset) {
            let consumer: BaseConsumer = consumer_config(&self.settings)
                .set("group.id", "fluxline-builder")
                .set("auto.offset.reset", "error")
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
    fn committed(&self, partition: u32) -> Result<Vec<Commit>, KafkaError> {
        let consumer: BaseConsumer = consumer_config(&self.settings)
            .set("group.id", "fluxline-commits")
            .set("isolation.level", "read_committed")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "earliest")
            .create()?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.commits, partition as i32, Offset::Beginning)?;
        consumer.assign(&list)?;
        let began = Instant::now();
        let mut commits: Vec<Commit> = Vec::new();
        loop {
            match consumer.poll(Duration::from_millis(200)) {
                Some(Ok(message)) => {
                    let bytes = message.payload().unwrap_or_default();
                    let record = serde_json::from_slice(bytes).ok();
                    let of_run = |record: &CommitRecord| {
                        record.run == self.run && record.batch == commits.len() as u64
                    };
                    if let Some(record) = record.filter(of_run) {
                        commits.push(record.into_commit(partition));
                    }
                }
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok(commits),
                Some(Err(error)) => return Err(error),
                None if began.elapsed() > COMMIT_WITHIN => {
                    let code = RDKafkaErrorCode::OperationTimedOut;
                    return Err(KafkaError::MessageConsumption(code));
                }
                None => {}
            }
        }
    }
}

impl CommitRecord {
    fn into_commit(self, partition: u32) -> Commit {
        let CommitRecord { batch, covers, crc, events, packets, builder, .. } = self;
        Commit { partition, batch, covers, crc, events, packets, builder }
    }
}

fn away(error: &KafkaError) -> LogError {
    LogError::Away(error.to_string())
}

/// Returns the meaning of an error of a transaction.
fn of_transaction(partition: u32, error: &KafkaError) -> LogError {
    match error.rdkafka_error_code() {
        Some(
            RDKafkaErrorCode::Fenced
            | RDKafkaErrorCode::ProducerFenced
            | RDKafkaErrorCode::InvalidProducerEpoch,
        ) => LogError::Fenced { partition },
        _ => match error {
            KafkaError::Transaction(error) if error.is_fatal() => LogError::Fenced { partition },
            _ => away(error),
        },
    }
}

impl Log for KafkaLog {
    fn partitions(&self) -> u32 {
        self.partitions
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
            .set("transaction.timeout.ms", COMMIT_WITHIN.as_millis().to_string())
            .create()
            .map_err(|error| away(&error))?;
        producer
            .init_transactions(COMMIT_WITHIN)
            .map_err(|error| of_transaction(partition, &error))?;
        // The builder before is fenced now: the list of commits is complete.
        let committed = self.committed(partition).map_err(|error| away(&error))?;
        let epoch = self.owners.get(&partition).map_or(1, |owner| owner.epoch + 1);
        self.owners.insert(partition, Owner { producer, epoch });
        self.readers.remove(&partition);
        Ok(Claim { partition, epoch, committed })
    }

    fn commit(&mut self, claim: &Claim, commit: Commit) -> Result<(), LogError> {
        let partition = claim.partition;
        let owner = self.owners.get(&partition).filter(|owner| owner.epoch == claim.epoch);
        let Some(owner) = owner else { return Err(LogError::Fenced { partition }) };
        let record = CommitRecord {
            run: self.run,
            batch: commit.batch,
            covers: commit.covers,
            crc: commit.crc,
            events: commit.events,
            packets: commit.packets,
            builder: commit.builder,
        };
        let payload = serde_json::to_vec(&record).unwrap_or_default();
        let key = format!("{}/{partition}/{}", self.run, commit.batch);
        let meaning = |error: KafkaError| of_transaction(partition, &error);
        owner.producer.begin_transaction().map_err(meaning)?;
        let record =
            BaseRecord::to(&self.commits).partition(partition as i32).key(&key).payload(&payload);
        owner.producer.send(record).map_err(|(error, _)| meaning(error))?;
        owner.producer.commit_transaction(COMMIT_WITHIN).map_err(meaning)
    }
}
