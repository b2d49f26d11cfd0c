//! `fluxline sim`: links and hosts in virtual time.

mod dump;
mod parquet;
mod presets;
mod reproduce;
mod run;

use crate::failure::Failure;
use crate::say_text;
use crate::sim_arguments::SimCommand;

/// Runs a command of `fluxline sim`.
pub fn sim(command: &SimCommand, json: bool) -> Result<(), Failure> {
    match command {
        SimCommand::Run(arguments) => run::run(arguments, json),
        SimCommand::Reproduce(arguments) => reproduce::reproduce(arguments, json),
        SimCommand::Presets => {
            presets::show(json);
            Ok(())
        }
        SimCommand::Keys => {
            say_text!("{}", fluxline_sim::scenario::page());
            Ok(())
        }
    }
}
