//! The program `fluxline-sim`: simulated networks. `fluxline sim`, `topo` and `plan` call
//! it, and `fluxline run` with a simulated link.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod campaign;
mod plan;
mod served;
mod sim;
mod sim_arguments;
mod topo;
mod topo_arguments;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use fluxline_terminal::failure::{self, Ending, Failure};
use fluxline_terminal::generate::{GenerateCommand, generate};
use fluxline_terminal::{Common, files, inform, output, progress, say, say_text, version, well};

/// Simulate networks in virtual time
// Its usage is that of `fluxline`, which users call.
#[derive(Debug, Parser)]
#[command(name = "fluxline", version = version::VERSION, max_term_width = 110)]
#[command(after_help = failure::status_help())]
struct Arguments {
    /// The arguments of all commands
    #[command(flatten)]
    common: Common,
    /// The command
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Simulate a link and its nodes in virtual time
    #[command(subcommand)]
    Sim(sim_arguments::SimCommand),
    /// Draw the map of a simulated network: nodes, links, their load and faults over time, routes
    #[command(
        after_help = "Examples:\n  fluxline topo scenarios/atoll-faults.toml --html map.html\n  \
        fluxline topo 'sim:atoll?torus=4x4' --route 0:10 --svg map.svg\n  \
        fluxline topo scenarios/torus.toml --load 0.3 --json"
    )]
    Topo(topo_arguments::TopoArguments),
    /// Compare candidates for the link of an experiment, by bounds and by simulation
    #[command(after_help = "Example: fluxline plan examples/plan/crate.toml --candidates \
        examples/plan/crate-candidates.toml -o plan.html")]
    Plan(plan::PlanArguments),
    /// Write manual pages or shell completions
    #[command(subcommand, hide = true)]
    Generate(GenerateCommand),
}

fn main() -> ExitCode {
    let is_flag = |word: &std::ffi::OsString| word.to_string_lossy().starts_with('-');
    if std::env::args_os().skip(1).find(|word| !is_flag(word)).is_some_and(|word| word == "run") {
        // A run on a simulated link, which `fluxline` has not.
        fluxline_sim::register();
        return fluxline_cli::main();
    }
    let Arguments { common, command } = Arguments::parse();
    fluxline_terminal::run(common, |json| dispatch(&command, json))
}

fn dispatch(command: &Command, json: bool) -> Result<Ending, Failure> {
    match command {
        Command::Sim(sim) => sim::sim(sim, json).map(well),
        Command::Topo(topo) => topo::topo(topo, json).map(well),
        Command::Plan(plan) => plan::plan(plan, json),
        Command::Generate(what) => generate(what, "fluxline-sim", Arguments::command()).map(well),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn no_two_flags_collide() {
        super::Arguments::command().debug_assert();
    }
}
