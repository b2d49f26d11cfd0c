//! The alarms of a run, their states, and the verdict that they make.
//!
//! `table.rs` keeps the alarms, `log.rs` is `alarms.jsonl` of the run folder. [`crate::health`]
//! finds what is not normal.

mod finding;
mod log;
mod table;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxline_core::Moment;
use fluxline_daq::experiment::Severity;
use serde_json::Value;

pub(crate) use finding::Finding;
pub(crate) use log::AlarmLog;
pub use log::{ALARMS_FILE, RaisedAlarm, read_alarms};
pub(crate) use table::Table;
pub use table::{AlarmChange, Change as AlarmState};

use crate::control::Refused;

/// The health of an acquisition; clones are of the same one, from any thread.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<Table>>);

impl Health {
    /// Returns the worst alarm's importance; `None`: the run is ok.
    #[must_use]
    pub fn state(&self) -> Option<Severity> {
        self.table().state()
    }

    /// Returns `state` (`ok`, `warning`, `alarm`, `unknown`), `sentence`, `since_ns`, `advice` and
    /// `alarms`, each with name, severity, state and times.
    #[must_use]
    pub fn document(&self) -> Value {
        self.table().document_at(fluxline::clock::now())
    }

    /// Notes that a person has seen an alarm.
    ///
    /// # Errors
    /// [`Refused`]: the run does not have this alarm now.
    pub fn acknowledge(&self, name: &str, now: Moment) -> Result<(), Refused> {
        self.table().acknowledge(name, now)
    }

    /// Lets an alarm not count for some minutes, at most a day.
    ///
    /// # Errors
    /// [`Refused`]: the run does not have this alarm now, or the time is out of range.
    pub fn shelve(&self, name: &str, minutes: u64, now: Moment) -> Result<(), Refused> {
        self.table().shelve(name, minutes, now)
    }

    /// Lets a shelved alarm count again.
    ///
    /// # Errors
    /// [`Refused`]: the run does not have this alarm now.
    pub fn unshelve(&self, name: &str, now: Moment) -> Result<(), Refused> {
        self.table().unshelve(name, now)
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the word for a state: `ok`, `warning` or `alarm`.
#[must_use]
pub fn word(state: Option<Severity>) -> &'static str {
    table::word(state)
}
