//! Counters and notes of the threads of an acquisition, for other threads while it runs.

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxline_daq::record::RecorderCounts;

/// Distinct notes kept; further ones are dropped.
const NOTES_MAX: usize = 100;

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
    /// Events built, incomplete ones included.
    pub events: u64,
    /// Events that lack a packet.
    pub incomplete: u64,
    /// Fill level of the fullest ring \[%\].
    pub ring_percent: u64,
    /// Sources seen.
    pub sources: u64,
    /// Bytes of packets in the files.
    pub recorded_bytes: u64,
}

/// Collects counters and notes of several threads; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Monitor(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    stats: Stats,
    notes: Vec<String>,
    faults: Vec<String>,
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
            keep(&mut self.state().notes, problem.to_string());
        }
    }

    /// Keeps a problem that ended an input before the run: a note, and part of the verdict.
    pub(crate) fn fault(&self, problem: impl Display) {
        let text = problem.to_string();
        let mut state = self.state();
        keep(&mut state.notes, text.clone());
        keep(&mut state.faults, text);
    }

    /// Returns the problems that ended an input early.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.state().faults.clone()
    }

    /// Publishes the readout's counters.
    pub(crate) fn publish(&self, stats: Stats) {
        let mut state = self.state();
        state.stats = Stats { recorded_bytes: state.stats.recorded_bytes, ..stats };
    }

    /// Publishes the recorder's counters.
    pub(crate) fn publish_recorded(&self, counts: RecorderCounts) {
        self.state().stats.recorded_bytes = counts.written.bytes;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep(list: &mut Vec<String>, text: String) {
    if list.len() < NOTES_MAX && !list.contains(&text) {
        list.push(text);
    }
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
