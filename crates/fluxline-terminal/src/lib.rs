//! The shared part of Fluxline's programs: `fluxline`, `fluxline-sim` and `fluxline-bench`.
//!
//! A user sees one program with one list of commands. So all three print, fail and end in the same
//! way, and have the same version.
#![forbid(unsafe_code)]
// A full or closed standard error must not end a run: all text goes through `output`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod failure;
pub mod files;
pub mod generate;
pub mod log;
pub mod output;
pub mod progress;
pub mod version;

use std::process::ExitCode;

use clap::Args;

use failure::{Ending, Failure};

/// The arguments that all commands have.
#[derive(Clone, Copy, Debug, Args)]
pub struct Common {
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Log starts, stops, states, new and silent sources to standard error
    #[arg(long, global = true, value_name = "FORMAT")]
    pub log: Option<log::LogFormat>,
    /// The least important events of the log; default: FLUXLINE_LOG, or info
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log_level: Option<log::LogLevel>,
}

/// Begins the log, runs a program's command, and turns its end into a message and an exit status.
pub fn run(common: Common, command: impl FnOnce(bool) -> Result<Ending, Failure>) -> ExitCode {
    match log::begin(common.log, common.log_level).and_then(|()| command(common.json)) {
        Ok(ending) => ending.into(),
        Err(failure) => {
            failure.say(common.json);
            Ending::Failed(failure.kind).into()
        }
    }
}

/// A command that either fails before it prints or ends well.
pub fn well((): ()) -> Ending {
    Ending::Well
}
