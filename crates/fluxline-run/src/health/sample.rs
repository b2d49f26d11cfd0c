//! The counts of an acquisition at a moment, as the rules of health compare them.

use std::collections::VecDeque;

use fluxline_core::{Moment, Span};
use fluxline_daq::experiment::{Alarm, Experiment, accepts};
use fluxline_daq::ledger::{Counted, Fate, Ledger, OUTCOMES, OutcomeRow, SourceEntry};

use crate::control::RunState;
use crate::live::Live;
use crate::sample::Delays;
use crate::slow::SlowValues;

/// Samples that are kept: more than a minute of one a second.
const SAMPLES_MAX: usize = 64;

/// The counts of an acquisition at a moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The time at which the readout published them.
    pub at: Moment,
    /// The run's state.
    pub state: RunState,
    /// Packets that match their description.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Closed events of all time, those of pauses included.
    pub events: u64,
    /// Those of them that lack a packet.
    pub incomplete: u64,
    /// Packets that are missing according to the sources' counters.
    pub lost: u64,
    /// Bytes of packets in the files.
    pub recorded_bytes: u64,
    /// Packets that the recorder's thread has dealt with: recorded, filtered, failed or not wanted.
    pub dealt_with: u64,
    /// The ends of received data that are not in the files, in the order of [`dropped_rows`].
    pub dropped: Vec<u64>,
    /// Fill level of the fullest ring \[%\].
    pub ring_percent: u64,
    /// Free space of the run folder's disk \[byte\]; `None`: nothing is recorded.
    pub free_bytes: Option<u64>,
    /// Delays of the events of the last second.
    pub delays: Delays,
    /// Largest error of the clock \[µs\]; `None`: it is not kept in time, or nobody asks.
    pub clock_error_us: Option<f64>,
    /// The sources.
    pub sources: Vec<SourceSample>,
    /// The values of the experiment's own rules, in its order.
    pub own: Vec<f64>,
}

/// A source at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceSample {
    /// Its label in reports.
    pub label: String,
    /// Its packets arrive at the time of this host's clock: it does not read a file.
    pub is_live: bool,
    /// Number of its valid packets.
    pub packets: u64,
    /// Those that are missing according to its counter.
    pub lost: u64,
    /// Time of its first packet \[ns since 1970\].
    pub first_ns: u64,
    /// Time of its last packet \[ns since 1970\].
    pub last_ns: u64,
}

/// Returns the ends of received datagrams that are not in the files.
pub fn dropped_rows() -> impl Iterator<Item = &'static OutcomeRow> {
    OUTCOMES.iter().filter(|row| row.fate == Fate::Dropped && row.of == Counted::Datagrams)
}

impl Sample {
    /// Takes a sample of a live view.
    pub fn of(live: &Live, experiment: &Experiment, slow: Option<&SlowValues>) -> Sample {
        let (ledger, totals) = (&live.ledger, live.ledger.source_totals());
        let is_live = |input: u16| {
            let source = experiment.sources.get(usize::from(input));
            source.is_none_or(|source| source.pcap.is_none() && source.raw.is_none())
        };
        let source = |entry: &SourceEntry| SourceSample {
            label: entry.label.clone(),
            is_live: is_live(entry.format),
            packets: entry.counters.parsed,
            lost: entry.counters.lost,
            first_ns: entry.first_time_ns,
            last_ns: entry.last_time_ns,
        };
        let accepted = |row: &OutcomeRow| accepts(&experiment.accept, row.name());
        let clock = experiment.health.clock_us.and_then(|_| fluxline::host::clock_state());
        let mut sample = Sample {
            at: live.counted_at,
            state: live.state,
            packets: totals.parsed,
            bytes: totals.bytes_parsed,
            events: ledger.events() + ledger.events_paused(),
            incomplete: ledger.events_incomplete() + ledger.paused.events_incomplete,
            lost: totals.lost,
            recorded_bytes: totals.bytes_recorded,
            dealt_with: totals.recorded
                + totals.not_recorded
                + totals.filtered
                + totals.write_failed,
            dropped: dropped_rows()
                .map(|row| if accepted(row) { 0 } else { ledger.total(row.counter).unwrap_or(0) })
                .collect(),
            ring_percent: live.stats.ring_percent,
            free_bytes: live.free_bytes,
            delays: live.delays,
            clock_error_us: clock
                .filter(|clock| clock.is_synchronized)
                .map(|clock| clock.error_us_max as f64),
            sources: ledger.sources.iter().map(source).collect(),
            own: Vec::new(),
        };
        let own = |alarm: &Alarm| match (alarm.subject().slow(), alarm.stale_s) {
            (Some(name), Some(_)) => slow.map(|slow| slow.silence_s(name)),
            (Some(name), None) => slow.and_then(|slow| slow.number(name)),
            (None, _) => Some(sample.value(alarm, ledger)),
        };
        let own = experiment.alarms.iter().map(own);
        sample.own = own.map(|value| value.unwrap_or(f64::NAN)).collect();
        sample
    }

    /// Returns the value that a rule of the experiment looks at.
    fn value(&self, alarm: &Alarm, ledger: &Ledger) -> f64 {
        match alarm.subject().name {
            "packets" => self.packets as f64,
            "bytes" => self.bytes as f64,
            "events" => self.events as f64,
            "incomplete" => self.incomplete as f64,
            "lost" => self.lost as f64,
            "recorded_bytes" => self.recorded_bytes as f64,
            "sources" => self.sources.len() as f64,
            "ring_percent" => self.ring_percent as f64,
            "free_bytes" => self.free_bytes.map_or(f64::NAN, |free| free as f64),
            "delay_p99_us" => self.delays.p99_ns as f64 * 1e-3,
            counter => ledger.total(counter).map_or(f64::NAN, |count| count as f64),
        }
    }
}

/// The newest samples.
#[derive(Debug, Default)]
pub struct Window {
    samples: VecDeque<Sample>,
    began: Option<Moment>,
}

impl Window {
    /// Adds the newest sample.
    pub fn push(&mut self, sample: Sample) {
        self.began.get_or_insert(sample.at);
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Returns the newest sample; `None` before the first.
    pub fn now(&self) -> Option<&Sample> {
        self.samples.back()
    }

    /// Returns the time of the first sample.
    pub fn began(&self) -> Moment {
        self.began.unwrap_or_default()
    }

    /// Returns the oldest sample of the last `span`.
    pub fn before(&self, span: Span) -> Option<&Sample> {
        let now = self.now()?.at;
        self.samples.iter().find(|sample| now.since(sample.at) <= span)
    }

    /// Returns the samples of the last `span`.
    pub fn last(&self, span: Span) -> impl Iterator<Item = &Sample> {
        let now = self.now().map(|sample| sample.at).unwrap_or_default();
        self.samples.iter().filter(move |sample| now.since(sample.at) <= span)
    }
}
