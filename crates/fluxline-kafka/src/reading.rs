//! Reads a partition of a topic from its beginning to its present end.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::client::config;
use crate::settings::Settings;

/// Time without any record after which reading gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A record of a topic.
pub struct Record<'a> {
    /// Its key; empty where it has none.
    pub key: &'a [u8],
    /// Its value; empty where it has none.
    pub value: &'a [u8],
    /// Its time by its producer \[ms since 1970\].
    pub time_ms: i64,
}

/// The place that reading begins at.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The partition.
    pub partition: u32,
    /// The offset; the first record behind it, where it was removed.
    pub offset: u64,
}

/// Calls `take` for each visible record of a partition: records of open or aborted transactions are
/// not visible.
pub fn read_to_end(
    settings: &Settings,
    topic: &str,
    start: Start,
    mut take: impl FnMut(Record<'_>),
) -> Result<(), KafkaError> {
    let consumer: BaseConsumer = config(settings)
        .set("group.id", "fluxline-reader")
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "true")
        .set("auto.offset.reset", "earliest")
        .set("queued.max.messages.kbytes", "16384")
        .create()?;
    let mut list = TopicPartitionList::new();
    let offset = Offset::Offset(start.offset as i64);
    list.add_partition_offset(topic, start.partition as i32, offset)?;
    consumer.assign(&list)?;
    let mut progress = Instant::now();
    loop {
        match consumer.poll(Duration::from_millis(200)) {
            Some(Ok(message)) => {
                progress = Instant::now();
                take(Record {
                    key: message.key().unwrap_or_default(),
                    value: message.payload().unwrap_or_default(),
                    time_ms: message.timestamp().to_millis().unwrap_or(0),
                });
            }
            Some(Err(KafkaError::PartitionEOF(_))) => return Ok(()),
            // The client connects again by itself.
            Some(Err(error)) if is_passing(&error) && progress.elapsed() < PATIENCE => {}
            Some(Err(error)) => return Err(error),
            None if progress.elapsed() > PATIENCE => {
                return Err(KafkaError::MessageConsumption(RDKafkaErrorCode::OperationTimedOut));
            }
            None => {}
        }
    }
}

/// Returns true for an error that ends when the broker is back.
pub fn is_passing(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::AllBrokersDown
                | RDKafkaErrorCode::BrokerTransportFailure
                | RDKafkaErrorCode::OperationTimedOut
        )
    )
}
