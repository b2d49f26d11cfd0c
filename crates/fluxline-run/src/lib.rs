//! Runs an experiment on this machine: opens its links, starts its threads, closes its ledger.
//!
//! [`load`] reads an experiment file, [`start`] starts it, and the [`Acquisition`] that it returns
//! is asked for counters, stopped and waited for. Nothing here prints or reads arguments, and a
//! process may run several acquisitions at once. `examples/embed.rs` is a whole program.
//!
//! ```no_run
//! # fn main() -> Result<(), fluxline_run::Error> {
//! let experiment = fluxline_run::load("boards.toml".as_ref())?;
//! let acquisition = fluxline_run::start(experiment)?;
//! std::thread::sleep(std::time::Duration::from_secs(10));
//! println!("{} events so far", acquisition.stats().events);
//! acquisition.stop();
//! let report = acquisition.wait()?;
//! println!("{:?}, {}", report.folder, report.ledger.headline());
//! # Ok(())
//! # }
//! ```
//!
//! The experiment file's types and checks are [`fluxline_daq::experiment`].
#![forbid(unsafe_code)]

mod acquisition;
mod alarms;
mod built;
mod config;
mod control;
mod error;
mod events;
pub mod feedback;
pub mod filter;
pub mod gathered;
mod graph;
mod health;
mod held;
mod host;
mod inputs;
mod journey;
mod judged;
mod limits;
mod live;
mod local;
pub mod local_time;
mod monitor;
mod output;
mod periods;
mod plan;
mod plots;
mod readout;
mod record;
mod report;
mod requirements;
mod ring;
pub mod runs;
mod sample;
mod silence;
mod sink;
mod slow;
mod source;
mod stop;
mod taker;
mod verdict;

use std::path::Path;

use fluxline_daq::experiment::Experiment;

pub use acquisition::{Acquisition, Options, start, start_with};
pub use alarms::{
    ALARMS_FILE, AlarmChange, AlarmState, Health, RaisedAlarm, read_alarms, word as health_word,
};
pub use config::{builder_config, check_memory, source_lines};
pub use control::{Change, Command, Control, Refused, Remark, RunState};
pub use error::Error;
pub use events::{ClosedBatch, Received, Subscription};
pub use filter::{Decision, Filter, RunSource};
pub use inputs::{EndedInputs, InputCounts, Inputs, start_inputs, try_links};
pub use live::{Live, WatchedInput, Watcher};
pub use monitor::{Monitor, Stats};
pub use plan::{Memory, Plan, PlannedInput};
pub use plots::Plots;
pub use report::Report;
pub use requirements::{Checked, Met, loss_above};
pub use sample::{DelayCount, Delays, Newest};
pub use silence::{Silence, SilentSource, SourceTimes};
pub use sink::{BatchSink, OpenSink};
pub use slow::SlowValues;
pub use source::program::{FeedError, Feeder};
pub use source::sensors::Sensors;
pub use source::sensors_roce::{RoceSensors, RoceSensorsConfig};
pub use source::truth::SensorsTruth;
pub use stop::Stop;
pub use taker::PacketTaker;
pub use verdict::{Verdict, link_reasons};

/// Reads an experiment file that is to run in this process: the cores and the parameters of its
/// descriptions are checked too.
///
/// Errors: [`Error::Input`], with the line in question.
pub fn load(path: &Path) -> Result<Experiment, Error> {
    Ok(Experiment::load_for(path, &fluxline::pin::process_cores())?)
}
