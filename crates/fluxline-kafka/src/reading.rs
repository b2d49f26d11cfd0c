//! Reads a partition of a topic: the records of ended transactions, up to the partition's present
//! end. Other producers may go on writing: what they put behind that end is not read.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::client::{ANSWER_WITHIN, consumer_config, watermarks};
use crate::settings::Settings;
use crate::transaction::TRANSACTION_WITHIN;

/// Time without any record after which reading gives up. A transaction of a killed program stays
/// open for [`TRANSACTION_WITHIN`], and until the brokers look for it, which they do every 10 s by
/// default.
const PATIENCE: Duration = TRANSACTION_WITHIN.saturating_add(Duration::from_secs(15));
/// Wait for a record.
const POLL: Duration = Duration::from_millis(200);
/// Pause between two looks at the end of the decided records.
const PAUSE: Duration = Duration::from_millis(10);

/// A record of a topic.
pub struct Record {
    /// Its key; empty where it has none.
    pub key: Vec<u8>,
    /// Its value; empty where it has none.
    pub value: Vec<u8>,
    /// Its time by its producer \[ms since 1970\].
    pub time_ms: i64,
}

/// A reader of one partition, up to the end that it had when the reader was made.
pub struct PartitionReader {
    consumer: BaseConsumer,
    /// A client that open transactions hide nothing from.
    all: BaseConsumer,
    topic: String,
    partition: i32,
    /// The first offset that is there.
    pub first: u64,
    /// The offset behind the last record.
    pub end: u64,
    /// The offset behind the last record that was read.
    next: u64,
}

impl PartitionReader {
    /// Makes a reader, and waits until every transaction before the end has been decided: one that
    /// is open hides all records behind it, those of other producers too.
    pub fn open(
        settings: &Settings,
        topic: &str,
        partition: u32,
    ) -> Result<PartitionReader, KafkaError> {
        let client = |isolation: &str| -> Result<BaseConsumer, KafkaError> {
            consumer_config(settings)
                .set("group.id", "fluxline-reader")
                .set("isolation.level", isolation)
                .set("enable.partition.eof", "true")
                .set("auto.offset.reset", "earliest")
                .set("queued.max.messages.kbytes", "2048")
                .set("fetch.message.max.bytes", "1048576")
                .create()
        };
        let (consumer, all) = (client("read_committed")?, client("read_uncommitted")?);
        let (topic, partition) = (topic.to_owned(), partition as i32);
        let (first, end) = watermarks(all.client(), &topic, partition)?;
        let limit = Instant::now() + PATIENCE;
        while watermarks(consumer.client(), &topic, partition)?.1 < end {
            if Instant::now() > limit {
                return Err(timed_out());
            }
            std::thread::sleep(PAUSE);
        }
        let (first, end) = (first.max(0) as u64, end.max(0) as u64);
        Ok(PartitionReader { consumer, all, topic, partition, first, end, next: end })
    }

    /// Returns the offset of the first record that was written at this time or later \[ms since
    /// 1970\]; the end where there is none.
    pub fn first_since(&self, time_ms: i64) -> Result<u64, KafkaError> {
        let mut times = TopicPartitionList::new();
        times.add_partition_offset(&self.topic, self.partition, Offset::Offset(time_ms))?;
        let found = self.all.offsets_for_times(times, ANSWER_WITHIN)?;
        let found = found.find_partition(&self.topic, self.partition).map(|its| its.offset());
        Ok(match found {
            Some(Offset::Offset(offset)) => u64::try_from(offset).unwrap_or(self.first),
            _ => self.end,
        })
    }

    /// Begins with the record at offset `from`, or with the first one behind.
    pub fn begin_at(&mut self, from: u64) -> Result<(), KafkaError> {
        self.next = from.max(self.first);
        if self.next >= self.end {
            return Ok(());
        }
        let mut list = TopicPartitionList::new();
        let next = Offset::Offset(self.next as i64);
        list.add_partition_offset(&self.topic, self.partition, next)?;
        self.consumer.assign(&list)
    }

    /// Returns the next record; `None` at the end that the partition had.
    ///
    /// Errors: those of the connection. A broker that shows an earlier end, as after a change of
    /// the leader, is asked again.
    pub fn next(&mut self) -> Result<Option<Record>, KafkaError> {
        let began = Instant::now();
        while self.next < self.end {
            match self.consumer.poll(POLL) {
                Some(Ok(message)) => {
                    let offset = message.offset().max(0) as u64;
                    self.next = offset + 1;
                    if offset < self.end {
                        return Ok(Some(Record {
                            key: message.key().unwrap_or_default().to_vec(),
                            value: message.payload().unwrap_or_default().to_vec(),
                            time_ms: message.timestamp().to_millis().unwrap_or(0),
                        }));
                    }
                }
                Some(Err(KafkaError::PartitionEOF(_))) => {
                    let place = position(&self.consumer, &self.topic, self.partition)?;
                    self.next = place.unwrap_or(0).max(self.next);
                }
                // The client connects again by itself.
                Some(Err(error)) if is_passing(&error) && began.elapsed() < PATIENCE => {}
                Some(Err(error)) => return Err(error),
                None if began.elapsed() > PATIENCE => return Err(timed_out()),
                None => {}
            }
        }
        Ok(None)
    }

    /// Calls `take` for each record from offset `from` on, up to the end.
    ///
    /// Errors: as [`PartitionReader::next`].
    pub fn read(mut self, from: u64, mut take: impl FnMut(&Record)) -> Result<(), KafkaError> {
        self.begin_at(from)?;
        while let Some(record) = self.next()? {
            take(&record);
        }
        Ok(())
    }
}

/// Returns the offset behind the last record that a consumer has taken, those of transactions
/// included; `None`: it has taken none yet.
fn position(
    consumer: &BaseConsumer,
    topic: &str,
    partition: i32,
) -> Result<Option<u64>, KafkaError> {
    let places = consumer.position()?;
    let place = places.find_partition(topic, partition).map(|its| its.offset());
    Ok(match place {
        Some(Offset::Offset(offset)) => u64::try_from(offset).ok(),
        _ => None,
    })
}

fn timed_out() -> KafkaError {
    KafkaError::MessageConsumption(RDKafkaErrorCode::OperationTimedOut)
}

/// Returns true for an error that ends when the broker is back.
fn is_passing(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::AllBrokersDown
                | RDKafkaErrorCode::BrokerTransportFailure
                | RDKafkaErrorCode::DestroyBroker
                | RDKafkaErrorCode::OperationTimedOut
        )
    )
}
