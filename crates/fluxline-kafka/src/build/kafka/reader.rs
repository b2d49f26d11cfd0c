//! Readers of the topic of records: one for each partition, and one for records that are read
//! again.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::super::log::{LogError, Stored};
use super::away;
use crate::client::{ANSWER_WITHIN, consumer_config};
use crate::settings::Settings;

/// Most records that a reader passes over on the way to one that was read before.
const SKIP_MAX: u64 = 1000;
/// Most memory of records that were passed over \[byte\].
const PASSED_BYTES_MAX: usize = 16 << 20;
/// Wait for a record that is not there yet.
const RECORD_WITHIN: Duration = Duration::from_millis(20);

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

/// The readers of a topic.
pub(super) struct Readers {
    settings: Settings,
    topic: String,
    forward: BTreeMap<u32, Reader>,
    /// Readers of records that were read before.
    again: BTreeMap<u32, Reader>,
}

impl Readers {
    /// Makes the readers of a topic; each is opened at its first use.
    pub fn new(settings: &Settings, topic: &str) -> Readers {
        let (settings, topic) = (settings.clone(), topic.to_owned());
        Readers { settings, topic, forward: BTreeMap::new(), again: BTreeMap::new() }
    }

    /// Closes the readers of a partition.
    pub fn close(&mut self, partition: u32) {
        self.forward.remove(&partition);
        self.again.remove(&partition);
    }

    /// Returns the record at `offset`, or the first one behind it; waits a moment for it.
    ///
    /// Errors: [`LogError::Hole`], [`LogError::Away`].
    pub fn read(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        self.read_within(partition, offset, RECORD_WITHIN)
    }

    /// Returns the record if it is here already.
    ///
    /// Errors: as [`read`](Readers::read).
    pub fn read_at_once(
        &mut self,
        partition: u32,
        offset: u64,
    ) -> Result<Option<Stored>, LogError> {
        self.read_within(partition, offset, Duration::ZERO)
    }

    /// Returns a record that was read before.
    ///
    /// Errors: as [`read`](Readers::read).
    pub fn read_again(&mut self, partition: u32, offset: u64) -> Result<Option<Stored>, LogError> {
        let reader = self.reader_again(partition, offset).map_err(|error| away(&error))?;
        reader.seek(offset).map_err(|error| {
            let hole = self.hole(self.again.get(&partition), partition, offset);
            self.again.remove(&partition);
            hole.unwrap_or_else(|| away(&error))
        })
    }

    /// Returns the reader of a partition, placed at `offset`.
    fn reader(&mut self, partition: u32, offset: u64) -> Result<&mut Reader, KafkaError> {
        if self.forward.get(&partition).is_none_or(|reader| reader.next != offset) {
            let reader = self.open_reader(partition, offset)?;
            self.forward.insert(partition, reader);
        }
        self.forward.get_mut(&partition).ok_or(KafkaError::Canceled)
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
        list.add_partition_offset(&self.topic, partition as i32, start)?;
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
            let hole = self.hole(self.forward.get(&partition), partition, offset);
            self.forward.remove(&partition);
            hole.unwrap_or_else(|| away(&error))
        })
    }

    /// Returns the hole when the record at `offset` was removed.
    fn hole(&self, reader: Option<&Reader>, partition: u32, offset: u64) -> Option<LogError> {
        let marks = reader?.consumer.fetch_watermarks(&self.topic, partition as i32, ANSWER_WITHIN);
        let first = u64::try_from(marks.ok()?.0).ok()?;
        let missing = first.checked_sub(offset).filter(|missing| *missing > 0)?;
        Some(LogError::Hole { partition, first, missing })
    }
}
