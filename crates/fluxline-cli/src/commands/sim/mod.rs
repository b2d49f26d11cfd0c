//! `fluxline sim`: links and hosts in virtual time.

mod arguments;
mod dump;
mod parquet;
mod presets;
mod reproduce;
mod run;

use arguments::ReproduceCommand;

pub use arguments::SimCommand;

use crate::failure::Failure;
use crate::say_text;

/// Runs a command of `fluxline sim`.
pub fn sim(command: &SimCommand, json: bool) -> Result<(), Failure> {
    match command {
        SimCommand::Run(arguments) => run::run(arguments, json),
        SimCommand::Reproduce(ReproduceCommand::Sci(arguments)) => reproduce::sci(arguments, json),
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
