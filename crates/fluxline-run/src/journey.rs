//! The journeys of packets in a simulated world: from the moment at which a sensor has a packet to
//! its arrival at the readout. The world knows both, so nothing more crosses the network.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use fluxline_core::Moment;
use hdrhistogram::Histogram;

use crate::sample::Delays;

/// The journeys of a sensor's packets. Its ring bounds those that are under way.
#[derive(Clone)]
pub(crate) struct Journeys(Arc<Mutex<State>>);

struct State {
    /// The times at which the packets under way were due, the oldest first.
    due: VecDeque<Moment>,
    taken: Histogram<u64>,
}

impl Journeys {
    pub fn new() -> Journeys {
        let state = State { due: VecDeque::new(), taken: Delays::histogram() };
        Journeys(Arc::new(Mutex::new(state)))
    }

    /// Notes that a packet begins its journey, which was due at a time of the link.
    pub fn begin(&self, due: Moment) {
        self.with(|state| state.due.push_back(due));
    }

    /// Forgets the packet that began last: its readout has gone.
    pub fn cancel(&self) {
        self.with(|state| state.due.pop_back());
    }

    /// Notes that the oldest packet arrived at a time of the link.
    pub fn end(&self, now: Moment) {
        self.with(|state| {
            let due = state.due.pop_front();
            due.map(|due| state.taken.saturating_record(now.since(due).as_ns().max(1)))
        });
    }

    /// Returns the times that the journeys took.
    pub fn delays(&self) -> Delays {
        self.with(|state| Delays::of(&state.taken))
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
