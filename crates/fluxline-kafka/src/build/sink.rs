//! Records of built events for the topic of `[sink.kafka]`.
//!
//! They are those of a sink on one machine, under the keys `RUN/NUMBER/PIECE`. All records of a
//! batch become visible with its commit. Partitions number their batches on their own, so NUMBER is
//! made of both: no other batch of the run has it, and it grows in each partition.

use fluxline_daq::experiment::{KafkaSink, SinkSchema};
use fluxline_daq::record::SourceLine;

use super::log::{EventRecord, RecordTopic};
use super::sink_sums::SinkSums;
use crate::cut::{Cut, Cutter};
use crate::ess::Formats;
use crate::identity::RecordId;
use crate::pieces::Pieces;
use fluxline_cluster::{BuiltSource, OutputBatch};

/// The run whose events are sent.
#[derive(Clone, Debug, Default)]
pub struct SinkPlan {
    /// The run's name in the topic.
    pub run: String,
    /// The experiment's name.
    pub name: String,
    /// Number of partitions of the run.
    pub partitions: u32,
    /// For each input of the experiment, the part of its sources' lines that is the same.
    pub inputs: Vec<SourceLine>,
}

/// Makes the records of a partition's batches.
pub struct SinkOutput {
    plan: SinkPlan,
    cutter: Cutter,
    /// Number of sources that the cutter knows.
    known: usize,
}

impl SinkOutput {
    /// Makes the output of one partition. `formats` are the descriptions of the inputs;
    /// `bytes_max` is the size of the largest record.
    #[must_use]
    pub fn new(
        kafka: &KafkaSink,
        plan: SinkPlan,
        formats: Formats,
        bytes_max: usize,
    ) -> SinkOutput {
        let cutter = match kafka.schema {
            SinkSchema::Arrow => {
                let mut names: Vec<String> =
                    formats.descriptions().iter().map(|of| of.name().to_owned()).collect();
                names.sort();
                names.dedup();
                Cutter::Arrow(Box::new(Pieces::new(&plan.name, &names, bytes_max)))
            }
            SinkSchema::Ess => Cutter::ess(formats, bytes_max),
        };
        SinkOutput { plan, cutter, known: 0 }
    }

    /// Appends the records of a batch of a partition; returns the places of its events.
    pub fn publish(
        &mut self,
        partition: u32,
        sources: &[BuiltSource],
        batch: &OutputBatch,
        records: &mut Vec<EventRecord>,
    ) -> SinkSums {
        for source in &sources[self.known.min(sources.len())..] {
            self.cutter.add_source(&line_of(source, &self.plan.inputs));
        }
        self.known = sources.len();
        let number = batch.number * u64::from(self.plan.partitions) + u64::from(partition);
        let mut sums = SinkSums::default();
        let run = &self.plan.run;
        self.cutter.for_each(number, &batch.events, |cut| {
            let Cut { events, too_large, unmapped, .. } = cut;
            sums.add(&SinkSums { sent: events, refused: too_large, unmapped, misfits: 0 });
            records.extend(cut.records.iter().map(|record| EventRecord {
                topic: RecordTopic::Sink,
                key: RecordId { run: run.clone(), batch: number, piece: record.piece }.to_string(),
                content: record.content,
                events,
                value: record.bytes.to_vec(),
            }));
        });
        sums.misfits = self.cutter.take_misfits().iter().map(|misfit| misfit.1).sum();
        sums
    }
}

/// Returns the line of a source in files and descriptions. `inputs` has the part that all sources
/// of an input share; it may be empty where nobody needs it.
pub(super) fn line_of(source: &BuiltSource, inputs: &[SourceLine]) -> SourceLine {
    let input = inputs.get(usize::from(source.input));
    let mut details = input.map_or_else(serde_json::Map::new, |input| input.details.clone());
    details.insert("node".into(), source.node.into());
    SourceLine {
        source: source.number,
        name: source.label.clone(),
        format: source.format.clone(),
        parameters: input.map(|input| input.parameters.clone()).unwrap_or_default(),
        port: None,
        details,
    }
}
