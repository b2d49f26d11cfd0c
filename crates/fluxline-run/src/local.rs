//! The packet taker of one machine: builds events, and passes batches to the recorder.

use fluxline::clock;
use fluxline_core::{Datagram, Moment};
use fluxline_daq::builder::Position;
use fluxline_daq::event::EventBatch;
use fluxline_daq::ledger::{InputCounters, InputEntry, Ledger};
use fluxline_daq::merge::Times;
use fluxline_daq::pipeline::{NewSource, Pipeline};
use fluxline_daq::record::SourceLine;

use crate::control::Control;
use crate::monitor::{LiveParts, Monitor, Stats};
use crate::record::{RecordQueue, Wanted};
use crate::sample::Sampler;
use crate::taker::PacketTaker;

/// Checks of the time between two publications of counters.
const PUBLISH_TICKS: u64 = 50;

/// Builds events on this machine.
pub(crate) struct LocalBuild {
    pipeline: Pipeline,
    output: Output,
    monitor: Monitor,
    ticks: u64,
    /// Fill level of the fullest ring since the last publication \[%\].
    ring_most: usize,
}

/// The way to the recorder.
struct Output {
    queue: RecordQueue,
    source_lines: Vec<SourceLine>,
    /// Memory for the next batch.
    spare: EventBatch,
    control: Control,
    /// The purpose of the events that close now.
    wanted: Wanted,
    /// Samples closed events while somebody watches.
    sampler: Option<Sampler>,
}

impl Output {
    /// Passes new sources and closed events to the recorder.
    fn hand_on(&mut self, pipeline: &mut Pipeline) {
        for NewSource { number, input, label } in pipeline.new_sources() {
            tracing::info!(source = label, number, input, "new source");
            let template = self.source_lines[usize::from(input)].clone();
            self.queue.source(SourceLine { source: number, name: label, ..template }, input);
        }
        let batch = pipeline.take_batch(std::mem::take(&mut self.spare));
        if !batch.is_empty() {
            if let Some(sampler) = &mut self.sampler {
                sampler.take(&batch);
            }
            self.spare = self.queue.exchange(batch, self.wanted);
        }
    }

    /// Follows the run's state. Events that closed before a change have the purpose of that time.
    fn follow_control(&mut self, pipeline: &mut Pipeline) {
        let wanted = wanted_by(&self.control);
        if wanted != self.wanted {
            self.hand_on(pipeline);
            self.wanted = wanted;
        }
    }
}

fn wanted_by(control: &Control) -> Wanted {
    match control.records() {
        true => Wanted::Recorded,
        false => Wanted::Counted,
    }
}

impl LocalBuild {
    /// Makes the taker; `source_lines` has for each input the part of its sources' lines that is
    /// the same.
    pub fn new(
        pipeline: Pipeline,
        queue: RecordQueue,
        source_lines: Vec<SourceLine>,
        control: Control,
        monitor: Monitor,
    ) -> LocalBuild {
        let output = Output {
            queue,
            source_lines,
            spare: EventBatch::default(),
            wanted: wanted_by(&control),
            control,
            sampler: None,
        };
        LocalBuild { pipeline, output, monitor, ticks: 0, ring_most: 0 }
    }

    fn publish(&mut self) {
        let pipeline = &self.pipeline;
        let mut stats = Stats { ring_percent: self.ring_most as u64, ..Stats::default() };
        self.ring_most = 0;
        for source in pipeline.readout().sources() {
            let counters = source.counters();
            stats.packets += counters.parsed;
            stats.bytes += counters.bytes_parsed;
            stats.lost += counters.lost;
            stats.sources += 1;
        }
        stats.rejected = pipeline.readout().rejected();
        let events = pipeline.builder().counters();
        stats.incomplete = events.events_incomplete + events.events_stopped;
        stats.events = events.events_complete + stats.incomplete;
        self.monitor.publish(stats);
    }

    /// Publishes the ledger so far for a live view, if there is one.
    fn publish_parts(&mut self, now: Moment) {
        if !self.monitor.is_watched() {
            self.output.sampler = None;
            return;
        }
        let pipeline = &self.pipeline;
        let mut ledger = Ledger::default().with_counts(pipeline.readout(), pipeline.builder());
        ledger.inputs = (0..self.output.source_lines.len())
            .map(|number| taken_of(pipeline, number as u16))
            .collect();
        let sampler = self.output.sampler.get_or_insert_with(Sampler::new);
        let (delays, packets) = (sampler.delays(now), sampler.packets());
        let delay_counts = sampler.delay_counts();
        let at = clock::now();
        self.monitor.publish_parts(LiveParts { ledger, delays, delay_counts, packets, at });
    }
}

impl PacketTaker for LocalBuild {
    type Outcome = Pipeline;

    #[inline]
    fn take(&mut self, input: u16, now: Moment, datagram: &Datagram<'_>) {
        self.pipeline.take(input, now, datagram);
    }

    fn take_truncated(&mut self, input: u16, bytes: usize) {
        self.pipeline.take_truncated(input, bytes);
    }

    fn end_input(&mut self, input: u16) {
        self.pipeline.end_input(input);
    }

    fn note_backlog(&mut self, input: u16, has_unread: bool) {
        self.pipeline.note_backlog(input, has_unread);
    }

    fn position(&self, input: u16) -> Option<Position> {
        self.pipeline.position(input)
    }

    fn has_positions(&self, input: u16) -> bool {
        self.pipeline.has_positions(input)
    }

    fn read_on_demand(&mut self, input: u16, times: Times) {
        self.pipeline.read_on_demand(input, times);
    }

    fn make_room(&mut self, bytes: usize) {
        if !self.pipeline.has_room(bytes) {
            self.output.hand_on(&mut self.pipeline); // open events leave room by themselves
        }
    }

    fn is_due(&self, now: Moment) -> bool {
        self.pipeline.batch_is_due(now)
    }

    /// Closes events by time-out, passes a batch on when it is due, publishes numbers.
    fn check_time(&mut self, now: Moment, ring_percent: usize) {
        self.ring_most = self.ring_most.max(ring_percent);
        self.ticks += 1;
        self.output.follow_control(&mut self.pipeline);
        self.pipeline.poll(now);
        self.pipeline.reports(now).for_each(|said| self.monitor.note(Some(said)));
        if self.pipeline.batch_is_due(now) {
            self.output.hand_on(&mut self.pipeline);
        }
        if self.ticks.is_multiple_of(PUBLISH_TICKS) {
            self.publish();
            self.publish_parts(now);
        }
    }

    /// Closes all events and passes the last batch on. The recorder's queue ends here.
    fn finish(mut self, now: Moment) -> Pipeline {
        self.output.follow_control(&mut self.pipeline);
        self.pipeline.finish(now);
        self.pipeline.last_reports().for_each(|said| self.monitor.note(Some(said)));
        self.output.hand_on(&mut self.pipeline);
        self.publish();
        self.publish_parts(now);
        self.pipeline
    }
}

/// Returns what the readout took of an input.
fn taken_of(pipeline: &Pipeline, number: u16) -> InputEntry {
    let taken = pipeline.taken(number);
    let counters = InputCounters {
        datagrams: taken.datagrams,
        bytes: taken.bytes,
        rejected: taken.rejected,
        sources_refused: taken.refused,
        truncated: taken.truncated,
        ..InputCounters::default()
    };
    InputEntry { counters, ..InputEntry::default() }
}
