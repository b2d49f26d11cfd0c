//! `fluxline sim`: links and hosts in virtual time.

mod arguments;
mod dump;
mod links;
mod parquet;
mod point;
mod presets;
mod report;
mod reproduce;
mod run;
mod tables;

use arguments::ReproduceCommand;

pub use arguments::SimCommand;

use crate::failure::Failure;
use crate::say_text;

/// Does what was asked.
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
