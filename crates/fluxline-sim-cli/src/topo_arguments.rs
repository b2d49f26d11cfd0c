//! The command line of `fluxline topo`.

use std::path::PathBuf;

use clap::Args;
use fluxline_sim::topo::Pair;

/// `fluxline topo`.
#[derive(Debug, Args)]
pub struct TopoArguments {
    /// A scenario file, or the URL of a simulated link
    pub network: String,
    /// The load of each node, as a share of a link; default: the middle one of the scenario
    #[arg(long)]
    pub load: Option<f64>,
    /// Virtual time in microseconds; default: the measured time of the scenario, or a quarter more
    /// than the time of its last fault
    #[arg(long)]
    pub us: Option<f64>,
    /// Number of intervals, each of which is a position of the slider
    #[arg(long, default_value_t = 20)]
    pub steps: u32,
    /// Mark the route from one node to another
    #[arg(long, value_name = "FROM:TO", value_parser = pair)]
    pub route: Option<Pair>,
    /// Override the scenario's seed
    #[arg(long)]
    pub seed: Option<u64>,
    /// Write the map into this HTML file, with a slider for the time
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the map at one time into this SVG file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// The time of the SVG file in microseconds; default: the end
    #[arg(long, requires = "svg", value_name = "US")]
    pub at: Option<f64>,
    /// The page
    #[command(flatten)]
    pub page: crate::served::PageArguments,
}

/// Reads a route, such as `3:12`.
fn pair(text: &str) -> Result<Pair, String> {
    let read = || -> Option<Pair> {
        let (from, to) = text.split_once(':')?;
        Some(Pair { from: from.parse().ok()?, to: to.parse().ok()? })
    };
    read().ok_or_else(|| "write two node numbers, such as 3:12".to_owned())
}
