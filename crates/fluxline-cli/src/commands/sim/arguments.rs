//! The command line of `fluxline sim`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fluxline_sim::dump::LIMIT_BYTES;

/// `fluxline sim`.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Simulate what a scenario file says
    #[command(
        after_help = "Examples:\n  fluxline sim run scenarios/sci-ring.toml --report ring\n  \
        fluxline sim run scenarios/torus.toml --quick --json\n  \
        fluxline sim run scenarios/sci-ring.toml --quick --trace ring.json\n  \
        fluxline sim run scenarios/sci-ring.toml --quick --dump ring.pcapng"
    )]
    Run(SimRunArguments),
    /// Run published experiments on models of their machines, and compare
    #[command(subcommand)]
    Reproduce(ReproduceCommand),
    /// Show the networks that scenarios can name, with their speeds and delays
    #[command(after_help = "Example: fluxline sim presets")]
    Presets,
    /// Print the manual's page of the scenario file
    #[command(hide = true)]
    Keys,
}

/// `fluxline sim run`.
#[derive(Debug, Args)]
pub struct SimRunArguments {
    /// The scenario
    pub scenario: PathBuf,
    /// A first look: a tenth of the virtual time, at most 4 loads
    #[arg(long)]
    pub quick: bool,
    /// Override the scenario's seed
    #[arg(long)]
    pub seed: Option<u64>,
    /// Points that are simulated at a time; default: one a core. Results do not depend on it
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Write report.html, results.json and tables as Parquet into this folder
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Write what happens at the first load into this file, for Perfetto or Chrome's tracing page
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// How much of it: from the start, in virtual time \[us\]
    #[arg(long, requires = "trace", default_value_t = 20.0, value_name = "US")]
    pub trace_us: f64,
    /// Write the packets on all links at the first load into this new file, for Wireshark; into a
    /// folder: at each load
    #[arg(long, value_name = "FILE_OR_DIR")]
    pub dump: Option<PathBuf>,
    /// How much of them: from the start, in virtual time \[us\]
    #[arg(long, requires = "dump", default_value_t = 100.0, value_name = "US")]
    pub dump_us: f64,
    /// The largest dump \[byte\]; packets beyond it are counted
    #[arg(long, requires = "dump", default_value_t = LIMIT_BYTES, value_name = "BYTES",
          value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub dump_limit: u64,
}

/// `fluxline sim reproduce`.
#[derive(Debug, Subcommand)]
pub enum ReproduceCommand {
    /// SCINET's figures and Trams' comparison, on SCI cards of the nineties
    #[command(after_help = "Example: fluxline sim reproduce sci --report sci.html")]
    Sci(ReproduceArguments),
}

/// `fluxline sim reproduce sci`.
#[derive(Debug, Args)]
pub struct ReproduceArguments {
    /// Write the comparison as an HTML page
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}
