//! The packet taker of one machine: builds events, and passes batches to the recorder.

use fluxline_core::{Datagram, Moment};
use fluxline_daq::builder::Position;
use fluxline_daq::ledger::Ledger;
use fluxline_daq::merge::Times;
use fluxline_daq::pipeline::Pipeline;
use fluxline_daq::record::SourceLine;

use crate::built::{Built, name_rules, taken_of};
use crate::control::Control;
use crate::monitor::{Monitor, Stats};
use crate::output::Output;
use crate::periods::Counts;
use crate::record::RecordQueue;
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

impl LocalBuild {
    /// Passes new sources and closed events to the recorder.
    fn hand_on(&mut self) {
        let LocalBuild { pipeline, output, .. } = self;
        pipeline.new_sources().for_each(|source| output.name(source));
        let batch = pipeline.take_batch(output.spare());
        output.put(batch);
    }

    /// Follows the run's state. Events that closed before a change have the purpose of that time.
    fn follow_control(&mut self) {
        if self.output.has_changed() {
            self.hand_on();
            self.output.change(Counts::of(&self.pipeline));
        }
    }

    /// Makes the taker; `source_lines` has for each input the part of its sources' lines that is
    /// the same.
    pub fn new(
        pipeline: Pipeline,
        queue: RecordQueue,
        source_lines: Vec<SourceLine>,
        control: Control,
        monitor: Monitor,
    ) -> LocalBuild {
        let output = Output::new(queue, source_lines, control);
        LocalBuild { pipeline, output, monitor, ticks: 0, ring_most: 0 }
    }

    /// Measures the delays of all events.
    pub fn measure_delays(&mut self) {
        self.output.measure_delays();
    }

    fn publish(&mut self) {
        let pipeline = &self.pipeline;
        let sources = pipeline.readout().sources();
        let stats = Stats {
            bytes: sources.iter().map(|source| source.counters().bytes_parsed).sum(),
            rejected: pipeline.readout().rejected(),
            ring_percent: std::mem::take(&mut self.ring_most) as u64,
            sources: sources.len() as u64,
            ..Stats::default()
        };
        self.output.publish(Counts::of(pipeline), stats, &self.monitor);
    }

    /// Publishes the ledger so far, if somebody wants it or the run ends.
    fn publish_parts(&mut self, now: Moment, is_end: bool) {
        if !is_end && !self.monitor.is_counted() {
            return self.output.end_parts();
        }
        let pipeline = &self.pipeline;
        let mut ledger = Ledger::default().with_counts(pipeline.readout(), pipeline.builder());
        ledger.inputs = (0..self.output.inputs())
            .map(|number| taken_of(pipeline.taken(number as u16)))
            .collect();
        self.output.publish_parts(ledger, Counts::of(pipeline), now, &self.monitor);
    }
}

impl PacketTaker for LocalBuild {
    type Outcome = Built;

    /// Packets that were sent after a command belong to the state that it made.
    fn begin_turn(&mut self) {
        self.follow_control();
    }

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
            self.hand_on(); // open events leave room by themselves
        }
    }

    fn is_due(&self, now: Moment) -> bool {
        self.pipeline.batch_is_due(now)
    }

    /// Closes events by time-out, passes a batch on when it is due, publishes numbers.
    fn check_time(&mut self, now: Moment, ring_percent: usize) {
        self.ring_most = self.ring_most.max(ring_percent);
        self.ticks += 1;
        self.follow_control();
        self.pipeline.poll(now);
        self.pipeline.reports(now).for_each(|said| self.monitor.note(Some(said)));
        if self.pipeline.batch_is_due(now) {
            self.hand_on();
        }
        if self.ticks.is_multiple_of(PUBLISH_TICKS) {
            self.publish();
            self.publish_parts(now, false);
        }
    }

    /// Closes all events and passes the last batch on. The recorder's queue ends here.
    fn finish(mut self, now: Moment) -> Built {
        self.follow_control();
        self.pipeline.finish(now);
        self.pipeline.last_reports().for_each(|said| self.monitor.note(Some(said)));
        self.hand_on();
        self.publish();
        self.publish_parts(now, true);
        let source_lines = self.output.inputs();
        let delays = self.output.delays();
        let (periods, paused) = self.output.end(Counts::of(&self.pipeline));
        let pipeline = &self.pipeline;
        let mut counts = Ledger::default().with(pipeline.readout(), pipeline.builder());
        name_rules(&mut counts.rejects, pipeline.readout(), |input| pipeline.description(input));
        let inputs = 0..source_lines;
        let taken = inputs.map(|number| pipeline.taken(number as u16)).collect();
        Built { counts, taken, paused, periods, delays, graph: None }
    }
}
