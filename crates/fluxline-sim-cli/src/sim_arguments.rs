//! The command line of `fluxline sim`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fluxline_sim::core::dump::LIMIT_BYTES;
use fluxline_sim::reproduce::Set;

use crate::campaign::CampaignArguments;

/// `fluxline sim`.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Simulate a scenario file
    #[command(
        after_help = "Examples:\n  fluxline sim run scenarios/sci-ring.toml --report ring\n  \
        fluxline sim run scenarios/torus.toml --quick --json\n  \
        fluxline sim run scenarios/sci-ring.toml --quick --trace ring.json\n  \
        fluxline sim run scenarios/sci-ring.toml --quick --dump ring.pcapng\n\n\
        fluxline sim keys lists the keys of a scenario file."
    )]
    Run(SimRunArguments),
    /// Run an experiment under faults that seeds draw, and check laws after each run
    #[command(after_help = "Examples:\n  fluxline sim campaign experiment.toml --seeds 1000\n  \
        fluxline sim campaign experiment.toml --seed 17 --seeds 1 --link sim:ethernet")]
    Campaign(CampaignArguments),
    /// Repeat published experiments on models of their machines, and compare the results
    #[command(after_help = "Example: fluxline sim reproduce sci --report sci.html")]
    Reproduce(ReproduceArguments),
    /// List the networks that scenarios can name, with their speeds and delays
    #[command(after_help = "Example: fluxline sim presets")]
    Presets,
    /// List every key of a scenario with its default, unit and networks
    #[command(after_help = "Example: fluxline sim keys")]
    Keys,
}

/// `fluxline sim run`.
#[derive(Debug, Args)]
pub struct SimRunArguments {
    /// The scenario
    pub scenario: PathBuf,
    /// Simulate a tenth of the virtual time, and at most 4 loads
    #[arg(long)]
    pub quick: bool,
    /// Override the scenario's seed
    #[arg(long)]
    pub seed: Option<u64>,
    /// Number of points simulated at a time, which does not change results; default: one per core
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Write report.html, results.json and Parquet tables into this directory
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Write a trace of the first load into this file, for Perfetto or Chrome's tracing page
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Length of the trace in microseconds of virtual time from the start
    #[arg(long, requires = "trace", default_value_t = 20.0, value_name = "US")]
    pub trace_us: f64,
    /// Write the packets on all links at the first load into this new file, for Wireshark; with a
    /// directory: one file per load
    #[arg(long, value_name = "FILE_OR_DIR")]
    pub dump: Option<PathBuf>,
    /// Length of the dump in microseconds of virtual time from the start
    #[arg(long, requires = "dump", default_value_t = 100.0, value_name = "US")]
    pub dump_us: f64,
    /// Largest size of a dump in bytes; packets beyond it are counted
    #[arg(long, requires = "dump", default_value_t = LIMIT_BYTES, value_name = "BYTES",
          value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub dump_limit: u64,
    /// The page
    #[command(flatten)]
    pub page: crate::served::PageArguments,
}

/// `fluxline sim reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArguments {
    /// The set of experiments: sci or ethernet; default: all sets
    #[arg(value_parser = Set::named)]
    pub set: Option<&'static Set>,
    /// Write the comparison as an HTML page
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write the comparison as the manual's page on fidelity
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}
