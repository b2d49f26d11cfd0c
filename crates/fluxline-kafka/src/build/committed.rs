//! Reads a partition of a topic that is written in transactions: all committed records, up to the
//! end that the partition has when the reader is made.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::client::{ANSWER_WITHIN, config};
use crate::settings::Settings;

/// Time without an answer after which reading fails; longer than a transaction may stay open.
const READ_WITHIN: Duration = Duration::from_secs(35);
/// Wait for a record.
const POLL: Duration = Duration::from_millis(200);

/// A reader of one partition.
pub(super) struct CommittedReader {
    consumer: BaseConsumer,
    topic: String,
    partition: i32,
    /// The first offset that is there.
    pub(super) first: u64,
    /// The offset behind the last record.
    pub(super) end: u64,
}

impl CommittedReader {
    /// Makes a reader, and waits until every transaction before the end has been decided: one that
    /// is open hides all records behind it, those of other producers too.
    pub(super) fn open(
        settings: &Settings,
        topic: &str,
        partition: u32,
    ) -> Result<CommittedReader, KafkaError> {
        let client = |isolation: &str| -> Result<BaseConsumer, KafkaError> {
            config(settings)
                .set("group.id", "fluxline-committed")
                .set("enable.auto.commit", "false")
                .set("isolation.level", isolation)
                .set("enable.partition.eof", "true")
                .set("auto.offset.reset", "earliest")
                .create()
        };
        let (consumer, partition) = (client("read_committed")?, partition as i32);
        let (first, end) =
            client("read_uncommitted")?.fetch_watermarks(topic, partition, ANSWER_WITHIN)?;
        let limit = Instant::now() + READ_WITHIN;
        while consumer.fetch_watermarks(topic, partition, ANSWER_WITHIN)?.1 < end {
            if Instant::now() > limit {
                return Err(timed_out());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let (first, end) = (first.max(0) as u64, end.max(0) as u64);
        Ok(CommittedReader { consumer, topic: topic.to_owned(), partition, first, end })
    }

    /// Calls `each` for every committed record from offset `from` on.
    pub(super) fn read(
        &self,
        from: u64,
        mut each: impl FnMut(&BorrowedMessage<'_>),
    ) -> Result<(), KafkaError> {
        let from = from.max(self.first);
        if from >= self.end {
            return Ok(());
        }
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topic, self.partition, Offset::Offset(from as i64))?;
        self.consumer.assign(&list)?;
        let mut limit = Instant::now() + READ_WITHIN;
        loop {
            match self.consumer.poll(POLL) {
                Some(Ok(message)) => {
                    each(&message);
                    limit = Instant::now() + READ_WITHIN;
                }
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok(()),
                Some(Err(error)) => return Err(error),
                None if Instant::now() > limit => return Err(timed_out()),
                None => {}
            }
        }
    }
}

fn timed_out() -> KafkaError {
    KafkaError::MessageConsumption(RDKafkaErrorCode::OperationTimedOut)
}
