//! Reads a partition of a topic: the records of ended transactions, up to the partition's present
//! end. Other producers may go on writing: what they put behind that end is not read.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::client::{consumer_config, watermarks};
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
pub struct Record<'a> {
    /// Its key; empty where it has none.
    pub key: &'a [u8],
    /// Its value; empty where it has none.
    pub value: &'a [u8],
    /// Its time by its producer \[ms since 1970\].
    pub time_ms: i64,
}

/// A reader of one partition, up to the end that it had when the reader was made.
pub struct PartitionReader {
    consumer: BaseConsumer,
    topic: String,
    partition: i32,
    /// The first offset that is there.
    pub first: u64,
    /// The offset behind the last record.
    pub end: u64,
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
                .create()
        };
        let (consumer, partition) = (client("read_committed")?, partition as i32);
        let all = client("read_uncommitted")?;
        let (first, end) = watermarks(all.client(), topic, partition)?;
        let limit = Instant::now() + PATIENCE;
        while watermarks(consumer.client(), topic, partition)?.1 < end {
            if Instant::now() > limit {
                return Err(timed_out());
            }
            std::thread::sleep(PAUSE);
        }
        let (first, end) = (first.max(0) as u64, end.max(0) as u64);
        Ok(PartitionReader { consumer, topic: topic.to_owned(), partition, first, end })
    }

    /// Calls `take` for each record from offset `from` on, or from the first record behind, up to
    /// the end that the partition had.
    ///
    /// Errors: those of the connection. A broker that shows an earlier end, as after a change of
    /// the leader, is asked again.
    pub fn read(&self, from: u64, mut take: impl FnMut(Record<'_>)) -> Result<(), KafkaError> {
        let from = from.max(self.first);
        if from >= self.end {
            return Ok(());
        }
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topic, self.partition, Offset::Offset(from as i64))?;
        self.consumer.assign(&list)?;
        let mut progress = Instant::now();
        loop {
            match self.consumer.poll(POLL) {
                Some(Ok(message)) => {
                    progress = Instant::now();
                    let offset = message.offset().max(0) as u64;
                    if offset >= self.end {
                        return Ok(());
                    }
                    take(Record {
                        key: message.key().unwrap_or_default(),
                        value: message.payload().unwrap_or_default(),
                        time_ms: message.timestamp().to_millis().unwrap_or(0),
                    });
                    if offset + 1 == self.end {
                        return Ok(());
                    }
                }
                Some(Err(KafkaError::PartitionEOF(_))) => {
                    let place = position(&self.consumer, &self.topic, self.partition)?;
                    if place.unwrap_or(from) >= self.end {
                        return Ok(());
                    }
                }
                // The client connects again by itself.
                Some(Err(error)) if is_passing(&error) && progress.elapsed() < PATIENCE => {}
                Some(Err(error)) => return Err(error),
                None if progress.elapsed() > PATIENCE => return Err(timed_out()),
                None => {}
            }
        }
    }
}

/// Calls `take` for each record of a partition from offset `from` on, or from the first record
/// behind; records of aborted transactions are left out.
pub fn read_to_end(
    settings: &Settings,
    topic: &str,
    partition: u32,
    from: u64,
    take: impl FnMut(Record<'_>),
) -> Result<(), KafkaError> {
    PartitionReader::open(settings, topic, partition)?.read(from, take)
}

/// Returns the offset behind the last record that a consumer has taken, those of transactions
/// included; `None`: it has taken none yet.
pub fn position(
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
pub fn is_passing(error: &KafkaError) -> bool {
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
