//! The count of events whose records are on their way: an event has arrived when all its records
//! have.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxline_daq::ledger::SinkCounters;

/// State that the client's thread and the recorder's share.
#[derive(Debug, Default)]
pub struct State {
    /// The places of events.
    pub counters: SinkCounters,
    /// Notes for the user that were not taken yet.
    pub notes: Vec<String>,
    /// Values that did not fit into the schema, by name.
    pub misfits: BTreeMap<String, u64>,
    /// Messages of start and stop on their way.
    pub marks_waiting: u64,
    /// The place of events that the topic lacks.
    pub rest: Rest,
    /// No broker could be reached since the last acknowledgement.
    pub all_down: bool,
}

impl State {
    /// Keeps a note for the user.
    pub fn note(&mut self, text: String) {
        /// More notes at a time are not kept: the run keeps each once.
        const NOTES_MAX: usize = 16;
        if self.notes.len() < NOTES_MAX && !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }
}

/// The place of events that the topic lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rest {
    /// The files of the run, from which `fluxline ship` sends them.
    #[default]
    InFiles,
    /// None: the run has no files.
    Lost,
}

impl Rest {
    /// Returns the rest's future, for a note while the run goes on.
    pub fn words(self) -> &'static str {
        match self {
            Rest::InFiles => "the run goes on, and `fluxline ship` sends the rest later",
            Rest::Lost => "the run goes on, and the rest is lost, since the run has no files",
        }
    }
}

/// Locks the state.
pub fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The fate of a record; of several records, the last of this list is the fate of their events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Fate {
    /// The broker has it.
    Acknowledged,
    /// The broker did not acknowledge it in time.
    TimedOut,
    /// The sink's memory was full.
    LeftOut,
    /// The broker or the client refused it.
    Refused,
}

/// A record on its way.
#[derive(Debug)]
pub enum Sent {
    /// A record of events.
    Events {
        /// The events, and their other records.
        group: Arc<Group>,
        /// Its size.
        bytes: u64,
    },
    /// The message of a run's start or stop.
    Mark {
        /// `start` or `stop`.
        name: &'static str,
        /// Its size.
        bytes: u64,
    },
}

/// Events that have records in common.
#[derive(Debug)]
pub struct Group {
    events: u64,
    waiting: AtomicU32,
    worst: AtomicU8,
}

impl Group {
    /// Makes a group of `events` with `records` records, and counts them as queued.
    pub fn queue(state: &mut State, events: u64, records: usize) -> Arc<Group> {
        state.counters.queued += events;
        let waiting = AtomicU32::new(u32::try_from(records).unwrap_or(u32::MAX));
        Arc::new(Group { events, waiting, worst: AtomicU8::new(Fate::Acknowledged as u8) })
    }

    /// Counts the fate of one record; with the last record, the fate of the events.
    pub fn settle(&self, state: &mut State, fate: Fate) {
        self.worst.fetch_max(fate as u8, Ordering::Relaxed);
        if self.waiting.fetch_sub(1, Ordering::Relaxed) > 1 {
            return;
        }
        let counters = &mut state.counters;
        counters.queued = counters.queued.saturating_sub(self.events);
        let worst = self.worst.load(Ordering::Relaxed);
        let place = match worst {
            of if of == Fate::Acknowledged as u8 => &mut counters.acked,
            of if of == Fate::TimedOut as u8 => &mut counters.timed_out,
            of if of == Fate::LeftOut as u8 => &mut counters.left_out,
            _ => &mut counters.refused,
        };
        *place += self.events;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_arrived_when_all_their_records_have() {
        let mut state = State::default();
        let fates = [Fate::Acknowledged, Fate::LeftOut, Fate::TimedOut, Fate::Acknowledged];
        let group = Group::queue(&mut state, 7, fates.len());
        for fate in fates {
            assert_eq!(state.counters.queued, 7);
            group.settle(&mut state, fate);
        }
        let its = &state.counters;
        assert_eq!((its.queued, its.left_out, its.acked, its.timed_out), (0, 7, 0, 0));
        let group = Group::queue(&mut state, 3, 1);
        group.settle(&mut state, Fate::Acknowledged);
        assert_eq!((state.counters.queued, state.counters.acked), (0, 3));
    }
}
