//! A reader of all partitions of a topic that others write to: up to the present end, and on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::build::LogError;
use crate::client::{
    ANSWER_WITHIN, TopicError, check_topic, control_config, watermarks, wrong_settings,
};
use crate::lasting::Lasting;
use crate::settings::Settings;

/// Time without a record after which the place of an end is asked for again. It doubles each time,
/// so that a slow broker can answer.
const QUIET_FIRST: Duration = Duration::from_secs(1);
/// Wait for a record.
const RECORD_WITHIN: Duration = Duration::from_millis(50);
/// The first record. Where it was deleted, `auto.offset.reset` gives the first one that is there. A
/// question for it from the beginning would wait 500 ms when it comes before the topic's partitions
/// are known.
const FIRST: Offset = Offset::Offset(0);

/// A reader of all partitions of a topic.
pub(super) struct Tail {
    consumer: Lasting<BaseConsumer>,
    /// The client that is asked for ends. A broker answers the requests of a connection one by one,
    /// so on the reader's own they would wait for records that do not come.
    ends: Lasting<BaseConsumer>,
    topic: String,
    pub(super) partitions: u32,
    /// Offset behind the last record that was read, by partition.
    next: BTreeMap<i32, i64>,
}

impl Tail {
    /// Makes the client that all readers of one observer ask for ends.
    ///
    /// Errors: [`TopicError`]: the settings are wrong.
    pub(super) fn client_of_ends(
        settings: &Settings,
        topic: &str,
    ) -> Result<Lasting<BaseConsumer>, TopicError> {
        let ends = reader_config(settings).create().map_err(|error| wrong_settings(&error))?;
        Ok(Lasting::new(ends, settings, topic))
    }

    /// Opens a topic, to be read from its first record.
    ///
    /// Errors: [`TopicError`]; the topic must exist.
    pub(super) fn open(
        settings: &Settings,
        topic: &str,
        ends: &Lasting<BaseConsumer>,
    ) -> Result<Tail, TopicError> {
        let consumer: BaseConsumer =
            reader_config(settings).create().map_err(|error| wrong_settings(&error))?;
        let partitions = check_topic(ends.client(), settings, topic)? as u32;
        let consumer = Lasting::new(consumer, settings, topic);
        let (ends, topic) = (ends.clone(), topic.to_owned());
        let tail = Tail { consumer, ends, topic, partitions, next: BTreeMap::new() };
        tail.assign().map_err(|error| wrong_settings(&error))?;
        Ok(tail)
    }

    /// Begins again with the first record.
    pub(super) fn rewind(&mut self) -> Result<(), LogError> {
        self.next.clear();
        self.assign().map_err(|error| away(&error))
    }

    /// Begins with these offsets, one for each partition; 0 where there are none.
    pub(super) fn begin_at(&mut self, offsets: &[u64]) -> Result<(), LogError> {
        let offsets = offsets.iter().map(|offset| *offset as i64);
        self.next = (0..self.partitions as i32).zip(offsets).collect();
        self.assign().map_err(|error| away(&error))
    }

    /// Begins with the first record that the brokers took at this time or later \[ms since 1970\].
    pub(super) fn begin_at_time(&mut self, ms: i64) -> Result<(), LogError> {
        let found = (0..self.partitions as i32).map(|partition| self.first_since(partition, ms));
        let found = found.collect::<Result<_, _>>().map_err(|error| away(&error))?;
        self.next = found;
        self.assign().map_err(|error| away(&error))
    }

    /// Returns a partition, and the offset of its first record since a time; its end where there is
    /// none.
    fn first_since(&self, partition: i32, ms: i64) -> Result<(i32, i64), KafkaError> {
        let mut asked = TopicPartitionList::new();
        asked.add_partition_offset(&self.topic, partition, Offset::Offset(ms))?;
        let found = self.ends.offsets_for_times(asked, ANSWER_WITHIN)?;
        let offset = found.elements().first().map(|its| its.offset());
        Ok(match offset {
            Some(Offset::Offset(offset)) => (partition, offset),
            _ => (partition, watermarks(self.ends.client(), &self.topic, partition)?.1),
        })
    }

    fn assign(&self) -> Result<(), KafkaError> {
        let mut list = TopicPartitionList::new();
        for partition in 0..self.partitions as i32 {
            let next = self.next.get(&partition).map_or(FIRST, |at| Offset::Offset(*at));
            list.add_partition_offset(&self.topic, partition, next)?;
        }
        self.consumer.assign(&list)
    }

    /// Makes the client state the ends of partitions again. It states each end once, and the mark
    /// of a transaction may have moved the end between the question for it and that statement.
    fn ask_for_ends(&self, open: &BTreeMap<i32, i64>) {
        for partition in open.keys() {
            let next = self.next.get(partition).map_or(FIRST, |at| Offset::Offset(*at));
            // A failure shows itself at the limit of the look.
            let _ = self.consumer.seek(&self.topic, *partition, next, RECORD_WITHIN);
        }
    }

    /// Reads the records up to the end that every partition has now.
    ///
    /// A topic that somebody writes all the time never shows its end, so the ends are asked first.
    ///
    /// Errors: the broker does not answer, or an end was not reached before `limit`.
    pub(super) fn read(
        &mut self,
        limit: Instant,
        mut each: impl FnMut(&BorrowedMessage<'_>),
    ) -> Result<(), LogError> {
        let mut open = BTreeMap::new();
        for partition in 0..self.partitions as i32 {
            let marks = watermarks(self.ends.client(), &self.topic, partition);
            let (low, high) = marks.map_err(|error| {
                LogError::Away(format!("topic `{}`, partition {partition}: {error}", self.topic))
            })?;
            if high > low.max(self.next.get(&partition).copied().unwrap_or(0)) {
                open.insert(partition, high);
            }
        }
        let mut failed = None;
        // One more poll than the ends ask for: an old mark of an end may hide a record behind it.
        let mut wait = Duration::ZERO;
        let (mut heard, mut quiet_max) = (Instant::now(), QUIET_FIRST);
        loop {
            let polled = self.consumer.poll(wait);
            if polled.is_none() && open.is_empty() {
                return Ok(());
            }
            if polled.is_some() {
                heard = Instant::now();
            } else if heard.elapsed() >= quiet_max {
                (heard, quiet_max) = (Instant::now(), 2 * quiet_max);
                self.ask_for_ends(&open);
            }
            wait = if open.is_empty() { Duration::ZERO } else { RECORD_WITHIN };
            match polled {
                Some(Ok(message)) => {
                    let (partition, next) = (message.partition(), message.offset() + 1);
                    self.next.insert(partition, next);
                    open.retain(|of, high| *of != partition || *high > next);
                    each(&message);
                }
                // Marks of transactions may follow the last record; they are not records.
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    if let Some(high) = open.remove(&partition) {
                        self.next.insert(partition, high);
                    }
                }
                Some(Err(error)) => failed = Some(error),
                None => {}
            }
            if Instant::now() >= limit {
                if open.is_empty() {
                    return Ok(());
                }
                let reason = failed.map_or("no answer".to_owned(), |error| error.to_string());
                return Err(LogError::Away(format!("topic `{}`: {reason}", self.topic)));
            }
        }
    }
}

/// Returns the configuration of a reader. An end is stated after a wait for further records, which
/// is 500 ms by default.
fn reader_config(settings: &Settings) -> ClientConfig {
    let mut config = control_config(settings, &[("fetch.wait.max.ms", "100")]);
    config
        .set("group.id", "fluxline-inspect")
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "true")
        .set("auto.offset.reset", "earliest")
        .set("queued.max.messages.kbytes", "16384");
    config
}

fn away(error: &KafkaError) -> LogError {
    LogError::Away(error.to_string())
}
