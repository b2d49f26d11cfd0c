//! The arguments of pages: of a run, of run folders, of simulations.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::served::{LOOPBACK, config};

/// The live page of a run.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ServeArguments {
    /// Show the run on a page and take commands from it. Without an address: loopback, port 8040
    /// or the next free one. Other addresses are reachable from the network, without encryption
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = LOOPBACK)]
    pub serve: Option<SocketAddr>,
    /// Wait for `start` from the page or `fluxline ctl` before recording
    #[arg(long, requires = "serve")]
    pub armed: bool,
}

impl ServeArguments {
    /// Returns the configuration of the server, if one is wanted.
    pub fn config(self) -> Option<fluxline_serve::ServerConfig> {
        self.serve.map(|listen| config(Some(listen)))
    }
}

/// `fluxline serve`.
#[derive(Debug, Args)]
pub struct ServeRunsArguments {
    /// The folder that has the runs
    #[arg(default_value = "runs")]
    pub folder: PathBuf,
    /// The address; default: loopback, port 8040 or the next free one. Other addresses are
    /// reachable from the network, without encryption
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
}

/// The page of a simulation.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct PageArguments {
    /// Show the result on a page until Ctrl-C. Without an address: loopback, port 8040 or the next
    /// free one
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = LOOPBACK)]
    pub serve: Option<SocketAddr>,
}
