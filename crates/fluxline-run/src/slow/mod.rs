//! Slow control values beside the events: high voltage, temperature, gas flow, with their times.
//!
//! Programs of the slow control send lines of InfluxDB's line protocol to a UDP socket. `line.rs`
//! reads a line, `table.rs` keeps the newest value of each name and chooses those that are recorded
//! in `slow.arrows`, `listener.rs` is the thread between socket and file. Page, HTTP and the rules
//! of health see [`SlowValues`].

mod line;
mod listener;
mod table;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxline_core::Moment;
use fluxline_daq::experiment::SlowControl;
use serde_json::Value;

pub(crate) use listener::{Listener, SlowSocket};
use table::Table;

/// The slow control values of an acquisition; clones are of the same ones, from any thread.
#[derive(Clone, Debug)]
pub struct SlowValues {
    table: Arc<Mutex<Table>>,
    /// The socket's address.
    listens: Arc<str>,
    /// The start, by the monotonic clock.
    began: Moment,
}

impl SlowValues {
    fn new(limits: SlowControl, listens: &str) -> SlowValues {
        SlowValues {
            table: Arc::new(Mutex::new(Table::new(limits))),
            listens: listens.into(),
            began: fluxline::clock::monotonic(),
        }
    }

    /// Returns the address that the socket `listens` on, `counters`, the number of `names`, and
    /// `values`: the newest of the first `shown` names.
    #[must_use]
    pub fn document(&self, shown: usize) -> Value {
        let mut document = self.table().document(shown);
        document["listens"] = (*self.listens).into();
        document
    }

    /// Returns the newest number of a name; `None`: it has not been sent.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        self.table().number(name)
    }

    /// Returns the time since a name's newest arrival \[s\]; since the start where it has not been
    /// sent.
    #[must_use]
    pub fn silence_s(&self, name: &str) -> f64 {
        let heard = self.table().heard(name).unwrap_or(self.began);
        fluxline::clock::monotonic().since(heard).as_ns() as f64 * 1e-9
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
