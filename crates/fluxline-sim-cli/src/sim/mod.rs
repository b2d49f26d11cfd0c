//! `fluxline sim`: links and hosts in virtual time.

mod dump;
mod keys;
mod parquet;
mod presets;
mod reproduce;
mod run;

use crate::campaign::campaign;
use crate::failure::Failure;
use crate::sim_arguments::SimCommand;

/// Runs a command of `fluxline sim`.
pub fn sim(command: &SimCommand, json: bool) -> Result<(), Failure> {
    match command {
        SimCommand::Run(arguments) => run::run(arguments, json),
        SimCommand::Campaign(arguments) => campaign(arguments, json),
        SimCommand::Reproduce(arguments) => reproduce::reproduce(arguments, json),
        SimCommand::Presets => {
            presets::show(json);
            Ok(())
        }
        SimCommand::Keys => {
            keys::show(json);
            Ok(())
        }
    }
}
