//! The records of a run that its topic has already: their keys state run, batch and piece.

use std::collections::HashSet;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;

use super::ShipError;
use super::destination::Destination;
use crate::client::{check_topic, consumer_config, text_of, wrong_settings};
use crate::identity::{RecordId, RunMark};
use crate::reading::PartitionReader;

/// Time before the run's beginning from which on its topic is searched: clocks may differ.
const SEARCH_BEFORE: Duration = Duration::from_secs(24 * 3600);

/// The records of a run that its topic has.
pub struct Present {
    /// Batch and piece of each record.
    pub records: HashSet<(u64, u32)>,
    /// The messages of start and stop.
    pub marks: HashSet<RunMark>,
    /// Records of other programs.
    pub foreign: u64,
}

impl Present {
    /// Reads the keys in the topic, from a day before the run to the present end.
    pub fn find(to: &Destination, topic: &str) -> Result<Present, ShipError> {
        let consumer: BaseConsumer = consumer_config(&to.settings)
            .set("group.id", "fluxline-ship")
            .create()
            .map_err(|error| wrong_settings(&error))?;
        let partitions = check_topic(consumer.client(), &to.settings, topic)?;
        let mut present = Present { records: HashSet::new(), marks: HashSet::new(), foreign: 0 };
        for partition in 0..partitions as u32 {
            present.read(to, topic, partition).map_err(|error| {
                let (topic, reason) = (topic.to_owned(), text_of(&error));
                ShipError::Unread { topic, partition, reason }
            })?;
        }
        Ok(present)
    }

    fn read(&mut self, to: &Destination, topic: &str, partition: u32) -> Result<(), KafkaError> {
        let reader = PartitionReader::open(&to.settings, topic, partition)?;
        let before_ms = (to.began_ns / 1_000_000).saturating_sub(SEARCH_BEFORE.as_millis() as u64);
        let from = reader.first_since(before_ms as i64)?;
        reader.read(from, |record| self.note(to, &record.key))
    }

    fn note(&mut self, to: &Destination, key: &[u8]) {
        match RecordId::parse(key) {
            Some(id) if id.run == to.run_id => drop(self.records.insert((id.batch, id.piece))),
            Some(_) => {}
            None => match RunMark::parse(key) {
                Some((run, mark)) if run == to.run_id => drop(self.marks.insert(mark)),
                Some(_) => {}
                None => self.foreign += 1,
            },
        }
    }
}
