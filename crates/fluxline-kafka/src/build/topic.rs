//! Records of built events for the topic `NAME.events`.
//!
//! Each batch becomes records with its events, cut as the sink cuts them, under the keys
//! `RUN/PARTITION-BATCH/PIECE`. Packets name their source by a number, so records with the labels
//! and packet descriptions come before the first batch that needs them. A builder that takes a
//! partition over writes those again. All records of a batch become visible with its commit.

use std::collections::BTreeMap;
use std::fmt;

use fluxline_daq::record::SourceLine;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::files::RunFolders;
use super::log::{EventRecord, RecordTopic};
use super::sink::{SinkOutput, line_of};
use super::worker::{Output, Published};
use crate::cut::ContentType;
use crate::identity::number;
use crate::pieces::Pieces;
use fluxline_cluster::{BuiltSource, OutputBatch};

/// The identity of a record in the topic of events; it is the record's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventKey {
    /// The run.
    pub run: u64,
    /// The partition of the fragments.
    pub partition: u32,
    /// Number of the batch in the partition, from 0.
    pub batch: u64,
    /// The part of the batch.
    pub part: EventPart,
}

/// The part of a batch that a record has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventPart {
    /// Sources and packet descriptions; several records, from 0.
    Description(u32),
    /// Events; several records, from 0.
    Piece(u32),
}

impl fmt::Display for EventKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}-{}/", self.run, self.partition, self.batch)?;
        match self.part {
            EventPart::Piece(piece) => write!(out, "{piece}"),
            EventPart::Description(piece) => write!(out, "description-{piece}"),
        }
    }
}

impl EventKey {
    /// Returns the identity that a key states; `None` for a record of another program.
    #[must_use]
    pub fn parse(key: &[u8]) -> Option<EventKey> {
        let mut parts = std::str::from_utf8(key).ok()?.splitn(3, '/');
        let run = number(parts.next()?)?;
        let (partition, batch) = parts.next()?.split_once('-')?;
        let last = parts.next()?;
        let small = |text: &str| u32::try_from(number(text)?).ok();
        let part = match last.strip_prefix("description-") {
            Some(piece) => EventPart::Description(small(piece)?),
            None => EventPart::Piece(small(last)?),
        };
        Some(EventKey { run, partition: small(partition)?, batch: number(batch)?, part })
    }
}

/// Sources and packet descriptions that the batches behind it need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Description {
    /// The run's name in event files.
    pub name: String,
    /// Sources that were not described before.
    pub sources: Vec<SourceLine>,
    /// Names and texts of packet descriptions.
    pub formats: BTreeMap<String, String>,
    /// The experiment, without secrets; null except in the first record.
    pub experiment: Value,
}

/// Configuration of the records of a run.
#[derive(Clone, Debug, Default)]
pub struct TopicConfig {
    /// The run.
    pub run: u64,
    /// The run's name in event files.
    pub name: String,
    /// Names and texts of the packet descriptions.
    pub formats: Vec<(String, String)>,
    /// For each input of the experiment, the part of its sources' lines that is the same.
    pub inputs: Vec<SourceLine>,
    /// The experiment, without secrets.
    pub experiment: Value,
    /// Largest record \[byte\].
    pub record_bytes: usize,
}

/// Makes the records of a builder's batches.
pub struct TopicOutput {
    config: TopicConfig,
    pieces: Pieces,
    described: BTreeMap<u32, Described>,
}

/// The state of a partition.
#[derive(Clone, Copy, Debug, Default)]
struct Described {
    next_batch: u64,
    sources: usize,
}

impl TopicOutput {
    /// Makes the output of a run.
    #[must_use]
    pub fn new(config: TopicConfig) -> TopicOutput {
        let names: Vec<String> = config.formats.iter().map(|format| format.0.clone()).collect();
        let pieces = Pieces::new(&config.name, &names, config.record_bytes);
        TopicOutput { config, pieces, described: BTreeMap::new() }
    }

    fn describe(
        &mut self,
        key: EventKey,
        sources: &[BuiltSource],
        records: &mut Vec<EventRecord>,
    ) -> Result<(), String> {
        let before = self.described.get(&key.partition).copied().unwrap_or_default();
        // Another builder had the partition, or the last transaction failed: all of it again.
        let goes_on = before.next_batch == key.batch && key.batch > 0;
        let known = if goes_on { before.sources.min(sources.len()) } else { 0 };
        let mut list = Vec::new();
        if !goes_on {
            list.push(Description {
                experiment: self.config.experiment.clone(),
                ..Description::default()
            });
            list.extend(self.config.formats.iter().map(|format| Description {
                formats: BTreeMap::from([format.clone()]),
                ..Description::default()
            }));
        }
        // A line of a source has some 200 bytes.
        let lines_max = (self.config.record_bytes / 1024).max(1);
        list.extend(sources[known..].chunks(lines_max).map(|chunk| Description {
            sources: chunk.iter().map(|of| line_of(of, &self.config.inputs)).collect(),
            ..Description::default()
        }));
        for (number, description) in (0..).zip(list) {
            let description = Description { name: self.config.name.clone(), ..description };
            let value = serde_json::to_vec(&description).map_err(|error| error.to_string())?;
            let limit = self.config.record_bytes;
            if value.len() > limit {
                return Err(format!(
                    "the description of the run has {} bytes, and a record may have {limit}; raise \
                     max.message.bytes of the topic",
                    value.len()
                ));
            }
            let part = EventPart::Description(number);
            let key = EventKey { part, ..key }.to_string();
            let content = ContentType::Description;
            let topic = RecordTopic::Events;
            records.push(EventRecord { topic, key, content, events: 0, value });
        }
        let next_batch = key.batch + 1;
        self.described.insert(key.partition, Described { next_batch, sources: sources.len() });
        Ok(())
    }
}

impl Output for TopicOutput {
    /// Writes nothing: the records become visible with the commit.
    fn write(&mut self, _: u32, _: &[BuiltSource], _: &OutputBatch) -> Result<(), String> {
        Ok(())
    }

    fn publish(
        &mut self,
        partition: u32,
        sources: &[BuiltSource],
        batch: &OutputBatch,
    ) -> Result<Published, String> {
        let (run, part) = (self.config.run, EventPart::Piece(0));
        let key = EventKey { run, partition, batch: batch.number, part };
        let mut published = Published::default();
        self.describe(key, sources, &mut published.records)?;
        let Published { records, refused, .. } = &mut published;
        self.pieces.for_each(batch.number, &batch.events, |piece| match piece.stream {
            None => *refused += piece.events,
            Some(stream) => records.push(EventRecord {
                topic: RecordTopic::Events,
                key: EventKey { part: EventPart::Piece(piece.number), ..key }.to_string(),
                content: ContentType::Arrow,
                events: piece.events,
                value: stream.to_vec(),
            }),
        });
        Ok(published)
    }
}

/// The outputs of a builder: run folders, the topic of events, the topic of `[sink.kafka]`.
pub struct Outputs {
    /// Run folders.
    pub files: Option<RunFolders>,
    /// The topic.
    pub topic: Option<TopicOutput>,
    /// The topic of `[sink.kafka]`.
    pub sink: Option<SinkOutput>,
}

impl Output for Outputs {
    fn write(
        &mut self,
        partition: u32,
        sources: &[BuiltSource],
        batch: &OutputBatch,
    ) -> Result<(), String> {
        match &mut self.files {
            Some(files) => files.write(partition, sources, batch),
            None => Ok(()),
        }
    }

    fn make_durable(&mut self, partition: u32) -> Result<(), String> {
        self.files.as_mut().map_or(Ok(()), |files| files.make_durable(partition))
    }

    fn publish(
        &mut self,
        partition: u32,
        sources: &[BuiltSource],
        batch: &OutputBatch,
    ) -> Result<Published, String> {
        let mut published = match &mut self.topic {
            Some(topic) => topic.publish(partition, sources, batch)?,
            None => Published::default(),
        };
        if let Some(sink) = &mut self.sink {
            published.sink = sink.publish(partition, sources, batch, &mut published.records);
        }
        Ok(published)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluxline_daq::event::{EventBatch, EventRow};

    #[test]
    fn a_key_states_the_identity_and_nothing_else_does() {
        for part in [EventPart::Piece(4), EventPart::Description(0)] {
            let key = EventKey { run: 3, partition: 17, batch: 5_000_000_000, part };
            assert_eq!(EventKey::parse(key.to_string().as_bytes()), Some(key));
        }
        for foreign in [
            "",
            "3",
            "3/1",
            "3/1-2",
            "3/1-2/",
            "3/1/2",
            "x/1-2/3",
            "3/01-2/3",
            "3/1-2/3/4",
            "3/1-2/description-",
            "3/1-2/description-x",
            "3/1-2/4294967296",
        ] {
            assert_eq!(EventKey::parse(foreign.as_bytes()), None, "{foreign}");
        }
    }

    fn source(number: u32) -> BuiltSource {
        let label = format!("board {number}");
        BuiltSource { number, node: 0, input: 0, label, format: "counter".to_owned() }
    }

    fn batch(number: u64) -> OutputBatch {
        let events = EventBatch { events: vec![EventRow::default()], ..EventBatch::default() };
        OutputBatch { number, covers: number + 1, events }
    }

    /// Labels in the descriptions of a batch.
    fn described(output: &mut TopicOutput, sources: &[BuiltSource], number: u64) -> Vec<String> {
        let published = output.publish(0, sources, &batch(number)).expect("records");
        let of_type = |record: &&EventRecord| record.content == ContentType::Description;
        let descriptions = published.records.iter().filter(of_type).map(|record| {
            serde_json::from_slice::<Description>(&record.value).expect("a description")
        });
        descriptions.flat_map(|of| of.sources).map(|line| line.name).collect()
    }

    #[test]
    fn a_source_is_described_before_its_first_batch_and_again_after_a_failure() {
        let config = TopicConfig { record_bytes: 4096, ..TopicConfig::default() };
        let mut output = TopicOutput::new(config);
        let sources = [source(0), source(1)];
        assert_eq!(described(&mut output, &sources[..1], 0), ["board 0"]);
        assert_eq!(described(&mut output, &sources, 1), ["board 1"]);
        assert!(described(&mut output, &sources, 2).is_empty());
        // The transaction of batch 2 failed: batch 3 would follow it, batch 2 comes again.
        assert_eq!(described(&mut output, &sources, 2), ["board 0", "board 1"]);
        // Another builder had batches 3 to 7.
        assert_eq!(described(&mut output, &sources, 8), ["board 0", "board 1"]);
    }
}
