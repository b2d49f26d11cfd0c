//! The program `fluxline-bench`: measurements. `fluxline bench` and `fluxline rdma` call it.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod bench;
mod bench_arguments;
mod rdma;
mod rdma_arguments;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use fluxline_terminal::failure::{self, Failure};
use fluxline_terminal::generate::{GenerateCommand, generate};
use fluxline_terminal::{Common, files, inform, output, progress, say, say_text, version, well};

/// Measure links and the limits of machines
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
    /// Test remote memory with the RDMA programs of others (perftest)
    #[command(subcommand)]
    Rdma(rdma_arguments::RdmaCommand),
    /// Measure a link on this machine, and the limits of the machine itself
    #[command(after_help = "Examples:\n  fluxline bench shm://\n  \
        fluxline bench shm:// --quick --json\n  \
        fluxline bench udp://10.0.0.7 --key KEY   (there: fluxline bench --serve 10.0.0.7:14791)\n  \
        fluxline bench udp://127.0.0.1 --only pingpong,load\n  \
        fluxline bench tcp://127.0.0.1 --only pingpong --format netpipe\n  \
        fluxline bench shm:// --only stores --save\n  \
        fluxline bench udp://127.0.0.1 --only soak --seconds 3600 --seed 7\n  \
        fluxline bench --compare before/report.json after/report.json")]
    Bench(Box<bench_arguments::BenchArguments>),
    /// Write manual pages or shell completions
    #[command(subcommand, hide = true)]
    Generate(GenerateCommand),
}

fn main() -> ExitCode {
    let Arguments { common, command } = Arguments::parse();
    fluxline_terminal::run(common, |json| dispatch(&command, json).map(well))
}

fn dispatch(command: &Command, json: bool) -> Result<(), Failure> {
    match command {
        Command::Rdma(rdma) => rdma::rdma(rdma, json),
        Command::Bench(bench) => bench::bench(bench, json),
        Command::Generate(what) => generate(what, "fluxline-bench", Arguments::command()),
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
