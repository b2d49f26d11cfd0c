//! Counters and notes of the threads of an acquisition, for other threads while it runs.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxline::clock;
use fluxline_core::{Moment, Span};
use fluxline_daq::event::EventBatch;
use fluxline_daq::ledger::{
    BatchFate, FilterCounters, InputCounters, Ledger, RemoteWriteCounters, SinkCounters,
};
use fluxline_daq::record::RecorderCounts;

use crate::filter::FilterLog;
use crate::sample::{DelayCount, Delays, Newest};

/// Distinct notes kept; further ones are dropped.
const NOTES_MAX: usize = 100;
/// Time for which the readout publishes its ledger after somebody asked for it.
const WATCHED: Span = Span::from_ms(2_000);
/// Time between two publications of an input's counters.
const INPUT_PERIOD: Span = Span::from_ms(100);
/// The value of `watched_until` before anybody asked.
const NEVER: u64 = 0;

/// Counters of a running acquisition, a few tenths of a second old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets that match their description.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// Datagrams that do not match their description.
    pub rejected: u64,
    /// Packets that are missing according to the sources' counters.
    pub lost: u64,
    /// Events built while the run recorded, incomplete ones included.
    pub events: u64,
    /// Events built while it was armed or paused.
    pub paused: u64,
    /// Events that lack a packet.
    pub incomplete: u64,
    /// Fill level of the fullest ring \[%\].
    pub ring_percent: u64,
    /// Sources seen.
    pub sources: u64,
    /// Bytes of packets in the files.
    pub recorded_bytes: u64,
    /// Events that the filter rejected.
    pub filtered: u64,
}

/// Collects counters and notes of several threads; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Monitor {
    shared: Arc<Shared>,
    /// The input whose thread has this clone.
    input: usize,
    /// The time of its next publication, by the monotonic clock \[ns\].
    due: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// The recorder's share of the ledger, which it alone changes.
    recorded: Mutex<Ledger>,
    /// The time until which somebody watches packets too, by the monotonic clock \[ns\].
    watched_until: AtomicU64,
    /// The time until which somebody wants counters, by the same clock \[ns\].
    counted_until: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    stats: Stats,
    notes: Vec<String>,
    faults: Vec<String>,
    parts: LiveParts,
    /// The counters of the inputs that publish theirs, by number.
    inputs: BTreeMap<usize, PublishedInput>,
}

/// Counters that an input publishes.
#[derive(Clone, Debug, Default)]
pub(crate) struct PublishedInput {
    /// Its datagrams.
    pub counters: InputCounters,
    /// The frames that peers write into its memory; zeros for other links.
    pub remote: RemoteWriteCounters,
}

impl From<InputCounters> for PublishedInput {
    fn from(counters: InputCounters) -> PublishedInput {
        PublishedInput { counters, ..PublishedInput::default() }
    }
}

/// The readout's share of a live view.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveParts {
    /// Sources, builder, and what was taken of each input.
    pub ledger: Ledger,
    /// Delays of closed events.
    pub delays: Delays,
    /// The same delays by class.
    pub delay_counts: Arc<[DelayCount]>,
    /// The newest packet of each source.
    pub packets: Arc<BTreeMap<u32, Newest>>,
    /// The time of these counts.
    pub at: Moment,
}

impl FilterLog for &Monitor {
    fn add_counts(&mut self, counters: &FilterCounters) {
        self.note_filter(counters);
    }

    fn add_filtered(&mut self, batch: &EventBatch, stays: &[bool]) {
        self.note_filtered(batch, stays);
    }

    fn add_note(&mut self, note: String) {
        self.note(Some(note));
    }
}

impl Monitor {
    /// Returns the newest counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.state().stats
    }

    /// Returns the notes from number `first` on: each problem once, in the order of appearance.
    #[must_use]
    pub fn notes(&self, first: usize) -> Vec<String> {
        self.state().notes.iter().skip(first).cloned().collect()
    }

    /// Keeps a note; `None` is ignored.
    pub(crate) fn note(&self, problem: Option<impl Display>) {
        if let Some(problem) = problem {
            let text = problem.to_string();
            if keep(&mut self.state().notes, &text) {
                tracing::warn!("{text}");
            }
        }
    }

    /// Keeps a problem that ended an input before the run: a note, and part of the verdict.
    pub(crate) fn fault(&self, problem: impl Display) {
        let text = problem.to_string();
        let mut state = self.state();
        if keep(&mut state.notes, &text) {
            tracing::error!("{text}");
        }
        keep(&mut state.faults, &text);
    }

    /// Returns the problems that ended an input early.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.state().faults.clone()
    }

    /// Publishes the readout's counters.
    pub(crate) fn publish(&self, stats: Stats) {
        let mut state = self.state();
        let Stats { recorded_bytes, filtered, .. } = state.stats; // the recorder's
        state.stats = Stats { recorded_bytes, filtered, ..stats };
    }

    /// Publishes the recorder's counters.
    pub(crate) fn publish_recorded(&self, counts: RecorderCounts) {
        self.state().stats.recorded_bytes = counts.written.bytes;
    }

    /// Returns a clone for the thread of input number `input`.
    pub(crate) fn of_input(&self, input: usize) -> Monitor {
        Monitor { shared: self.shared.clone(), input, due: Arc::default() }
    }

    /// Publishes the counters of this clone's input ten times a second, if somebody watches.
    pub(crate) fn publish_input(&self, counters: impl FnOnce() -> PublishedInput) {
        let now = clock::monotonic();
        if self.is_counted() && now.as_ns() >= self.due.load(Ordering::Relaxed) {
            self.due.store((now + INPUT_PERIOD).as_ns(), Ordering::Relaxed);
            let counters = counters();
            self.state().inputs.insert(self.input, counters);
        }
    }

    /// Publishes the last counters of this clone's input.
    pub(crate) fn publish_input_end(&self, published: PublishedInput) {
        self.state().inputs.insert(self.input, published);
    }

    /// Returns true when somebody asked for a live view with its packets a short time ago.
    pub(crate) fn is_watched(&self) -> bool {
        is_before(&self.shared.watched_until)
    }

    /// Returns true when somebody asked for the live ledger a short time ago.
    pub(crate) fn is_counted(&self) -> bool {
        is_before(&self.shared.counted_until)
    }

    /// Publishes the readout's share of a live view, and the recorder's of the same moment: no
    /// packet is recorded before it is taken.
    pub(crate) fn publish_parts(&self, mut parts: LiveParts) {
        let recorded = self.recorded();
        for (entry, recorded) in parts.ledger.sources.iter_mut().zip(&recorded.sources) {
            entry.counters.merge(&recorded.counters);
        }
        parts.ledger.filter = recorded.filter.clone();
        parts.ledger.sink = recorded.sink.clone();
        drop(recorded);
        self.state().parts = parts;
    }

    /// Publishes the recorder's share at the end of the run, when the readout's is complete.
    pub(crate) fn publish_end(&self, recorded: &Ledger) {
        let mut state = self.state();
        for (entry, recorded) in state.parts.ledger.sources.iter_mut().zip(&recorded.sources) {
            let counters = &mut entry.counters;
            counters.recorded = recorded.counters.recorded;
            counters.not_recorded = recorded.counters.not_recorded;
            counters.filtered = recorded.counters.filtered;
            counters.write_failed = recorded.counters.write_failed;
            counters.bytes_recorded = recorded.counters.bytes_recorded;
        }
        state.parts.ledger.filter = recorded.filter.clone();
    }

    /// Adds the packets of events that do not stay to the recorder's share of the ledger.
    fn note_filtered(&self, batch: &EventBatch, stays: &[bool]) {
        let mut recorded = self.recorded();
        let views = batch.views().zip(stays).filter(|(_, stays)| !**stays);
        views.for_each(|(view, _)| recorded.note_packets(view.packets, BatchFate::Filtered));
    }

    /// Adds the decisions on a batch to the recorder's share of the ledger.
    fn note_filter(&self, counters: &FilterCounters) {
        let mut recorded = self.recorded();
        recorded.filter.merge(counters);
        self.state().stats.filtered = recorded.filter.events_filtered;
    }

    /// Adds the fate of a batch to the recorder's share of the ledger.
    pub(crate) fn note_batch(&self, batch: &EventBatch, fate: BatchFate) {
        self.recorded().note_batch(batch, fate);
    }

    /// Publishes the counters of the sink.
    pub(crate) fn publish_sink(&self, counters: SinkCounters) {
        self.recorded().sink = Some(counters);
    }

    /// Returns the recorder's share of the ledger.
    pub(crate) fn recorded_ledger(&self) -> Ledger {
        self.recorded().clone()
    }

    /// Asks the threads to publish counters and packets, as a page does.
    pub(crate) fn watch(&self) {
        let until = clock::monotonic() + WATCHED;
        self.shared.watched_until.fetch_max(until.as_ns(), Ordering::Relaxed);
        self.ask(WATCHED);
    }

    /// Asks the threads to publish counters for some time.
    pub(crate) fn ask(&self, time: Span) {
        let until = clock::monotonic() + time;
        self.shared.counted_until.fetch_max(until.as_ns(), Ordering::Relaxed);
    }

    /// Returns what the threads published last, as one ledger.
    pub(crate) fn parts(&self) -> LiveParts {
        let (mut parts, inputs) = {
            let state = self.state();
            (state.parts.clone(), state.inputs.clone())
        };
        for (number, PublishedInput { counters, remote }) in inputs {
            if let Some(entry) = parts.ledger.inputs.get_mut(number) {
                let taken = std::mem::replace(&mut entry.counters, counters);
                entry.counters.rejected = taken.rejected;
                entry.counters.sources_refused = taken.sources_refused;
                entry.counters.truncated += taken.truncated;
                // The input's counters may be older than the readout's.
                let came = taken.datagrams + entry.counters.ring_full;
                entry.counters.datagrams = entry.counters.datagrams.max(came);
                entry.counters.bytes = entry.counters.bytes.max(taken.bytes);
                entry.remote = remote;
            }
        }
        parts
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recorded(&self) -> MutexGuard<'_, Ledger> {
        self.shared.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true before a time by the monotonic clock \[ns\].
fn is_before(until: &AtomicU64) -> bool {
    let until = until.load(Ordering::Relaxed);
    until != NEVER && clock::monotonic().as_ns() < until
}

/// Keeps a new text; returns true when it did.
fn keep(list: &mut Vec<String>, text: &str) -> bool {
    let is_new = list.len() < NOTES_MAX && !list.iter().any(|one| one == text);
    if is_new {
        list.push(text.to_owned());
    }
    is_new
}

#[cfg(test)]
mod tests {
    use super::{Monitor, NOTES_MAX};

    #[test]
    fn notes_are_kept_once_in_order_and_up_to_a_limit() {
        let monitor = Monitor::default();
        for text in ["one", "two", "one"] {
            monitor.note(Some(text));
        }
        monitor.fault("three");
        assert_eq!(monitor.notes(1), ["two", "three"]);
        assert_eq!(monitor.faults(), ["three"]);
        (0..200).for_each(|number| monitor.note(Some(number)));
        assert_eq!(monitor.notes(0).len(), NOTES_MAX);
    }
}
