//! The health of a run: one verdict of now, from rules over counters and time, and its alarms.
//!
//! `sample.rs` takes the counts once a second. `rules.rs` finds what is not normal, `table.rs`
//! keeps the alarms and their states, `keeper.rs` is the thread that does both. Each change of an
//! alarm is a line of `alarms.jsonl` in the run folder (`log.rs`) and goes to the command of the
//! experiment (`notify.rs`). Page, `fluxline ctl status`, HTTP and `/metrics` show [`Health`].

mod keeper;
mod log;
mod notify;
mod rules;
mod sample;
mod table;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxline_core::Moment;
use fluxline_daq::experiment::Severity;
use serde_json::Value;

pub(crate) use keeper::{Keeper, Kept};
pub use log::{ALARMS_FILE, RaisedAlarm, read_alarms};
pub use table::{AlarmChange, Change as AlarmState};

use crate::control::Refused;
use table::Table;

/// The health of an acquisition; clones are of the same one, from any thread.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<Table>>);

impl Health {
    /// Returns the worst alarm's importance; `None`: the run is ok.
    #[must_use]
    pub fn state(&self) -> Option<Severity> {
        self.table().state()
    }

    /// Returns `state` (`ok`, `warning`, `alarm`), `sentence`, `since_ns`, `advice` and `alarms`,
    /// each with name, severity, state and times.
    #[must_use]
    pub fn document(&self) -> Value {
        self.table().document()
    }

    /// Notes that a person has seen an alarm.
    ///
    /// # Errors
    /// [`Refused`]: there is no such alarm now.
    pub fn acknowledge(&self, name: &str, now: Moment) -> Result<(), Refused> {
        self.table().acknowledge(name, now)
    }

    /// Lets an alarm not count for some minutes, at most a day.
    ///
    /// # Errors
    /// [`Refused`]: there is no such alarm now, or the time is none.
    pub fn shelve(&self, name: &str, minutes: u64, now: Moment) -> Result<(), Refused> {
        self.table().shelve(name, minutes, now)
    }

    /// Lets a shelved alarm count again.
    ///
    /// # Errors
    /// [`Refused`]: there is no such alarm now.
    pub fn unshelve(&self, name: &str, now: Moment) -> Result<(), Refused> {
        self.table().unshelve(name, now)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the word for a state: `ok`, `warning` or `alarm`.
#[must_use]
pub fn word(state: Option<Severity>) -> &'static str {
    table::word(state)
}
