//! The way from closed events to the recorder, with the periods of the run's state.

use fluxline::clock;
use fluxline_core::Moment;
use fluxline_daq::event::EventBatch;
use fluxline_daq::ledger::{Ledger, PausedCounters};
use fluxline_daq::pipeline::NewSource;
use fluxline_daq::record::SourceLine;
use hdrhistogram::Histogram;

use crate::control::Control;
use crate::monitor::{LiveParts, Monitor, Stats};
use crate::periods::{Counts, Periods};
use crate::record::{Mark, RecordQueue, Wanted};
use crate::sample::{Delays, Sampler};

/// The way to the recorder.
pub(crate) struct Output {
    queue: RecordQueue,
    source_lines: Vec<SourceLine>,
    /// Memory for the next batch.
    spare: EventBatch,
    control: Control,
    /// The purpose of the events that close now, and the counters of each such time.
    periods: Periods,
    /// Samples closed events for live views.
    sampler: Sampler,
    /// The delays of all events; `None` where packets have times of another day.
    delays: Option<Histogram<u64>>,
}

impl Output {
    /// Makes the way; `source_lines` has for each input the part of its sources' lines that is the
    /// same.
    pub fn new(queue: RecordQueue, source_lines: Vec<SourceLine>, control: Control) -> Output {
        Output {
            queue,
            source_lines,
            spare: EventBatch::default(),
            periods: Periods::begin(control.records(), clock::now()),
            control,
            sampler: Sampler::new(),
            delays: None,
        }
    }

    /// Measures the delays of all events, from the arrival of the last packet to the end.
    pub fn measure_delays(&mut self) {
        self.delays = Some(Delays::histogram());
    }

    /// Returns the delays of all events so far; `None` where they are not measured.
    pub fn delays(&self) -> Option<Delays> {
        self.delays.as_ref().map(Delays::of)
    }

    /// Returns the number of inputs.
    pub fn inputs(&self) -> usize {
        self.source_lines.len()
    }

    /// Returns memory for the next batch.
    pub fn spare(&mut self) -> EventBatch {
        std::mem::take(&mut self.spare)
    }

    /// Returns true when the run's state has changed since the last period began.
    pub fn has_changed(&self) -> bool {
        self.control.records() != self.periods.records()
    }

    /// Names a source to the recorder, before the first batch with its packets.
    pub fn name(&mut self, source: NewSource) {
        let NewSource { number, input, label } = source;
        tracing::info!(source = label, number, input, "new source");
        let template = self.source_lines[usize::from(input)].clone();
        self.queue.source(SourceLine { source: number, name: label, ..template }, input);
    }

    /// Passes closed events to the recorder; waits while it is behind.
    pub fn put(&mut self, batch: EventBatch) {
        if !batch.is_empty() {
            self.sampler.take(&batch);
            if let Some(delays) = &mut self.delays {
                Delays::add(delays, &batch);
            }
            let wanted = if self.periods.records() { Wanted::Recorded } else { Wanted::Counted };
            self.spare = self.queue.exchange(batch, wanted);
        }
    }

    /// Puts a mark behind the events so far.
    pub fn mark(&self, mark: Mark) {
        self.queue.mark(mark);
    }

    /// Begins a period of the run's present state, at these counts.
    pub fn change(&mut self, counts: Counts) {
        self.periods.change(self.control.records(), counts, clock::now());
    }

    /// Ends the periods; returns them, and the counters of the armed and paused time.
    pub fn end(mut self, counts: Counts) -> (Periods, PausedCounters) {
        let paused = self.periods.paused(counts);
        self.periods.change(self.periods.records(), counts, clock::now());
        (self.periods, paused)
    }

    /// Publishes counters; `stats` has what else there is.
    pub fn publish(&self, counts: Counts, stats: Stats, monitor: &Monitor) {
        let paused = self.periods.paused(counts);
        let incomplete = counts.incomplete - paused.events_incomplete;
        monitor.publish(Stats {
            packets: counts.packets,
            lost: counts.lost.saturating_sub(paused.lost),
            events: counts.complete - paused.events_complete + incomplete,
            incomplete,
            paused: paused.events_complete + paused.events_incomplete,
            ..stats
        });
    }

    /// Publishes a ledger for a live view, which has everything but the paused time.
    pub fn publish_parts(&mut self, mut ledger: Ledger, counts: Counts, now: Moment, to: &Monitor) {
        ledger.paused = self.periods.paused(counts);
        let sampler = &mut self.sampler;
        sampler.keep_packets(to.is_watched());
        let (delays, packets) = (sampler.delays(now), sampler.packets());
        let delay_counts = sampler.delay_counts();
        let at = clock::now();
        to.publish_parts(LiveParts { ledger, delays, delay_counts, packets, at });
    }

    /// Ends a live view that nobody watches any more.
    pub fn end_parts(&mut self) {
        self.sampler.keep_packets(false);
    }
}
