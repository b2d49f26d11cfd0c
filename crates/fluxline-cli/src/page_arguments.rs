//! The arguments of pages: of a run, of run folders.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use fluxline_daq::experiment::Experiment;
use fluxline_serve::ServerConfig;

/// The live page of a run.
#[derive(Clone, Debug, Default, Args)]
pub struct ServeArguments {
    /// Show the run on a page and take commands from it. Without an address: loopback, port 8040
    /// or the next free one. Other addresses are reachable from the network, without encryption
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1)]
    #[arg(default_missing_value = ServerConfig::ANY_PORT)]
    pub serve: Option<SocketAddr>,
    /// Wait for `start` from the page or `fluxline ctl` before recording
    #[arg(long, requires = "serve")]
    pub armed: bool,
    /// One more name by which browsers may reach the page, such as that of a server in front.
    /// Without it: localhost, and the names and addresses of this computer. Repeat it for several
    #[arg(long, value_name = "NAME[:PORT]", requires = "serve")]
    pub host: Vec<String>,
}

impl ServeArguments {
    /// Returns the configuration of the server, if one is wanted.
    pub fn config(&self, experiment: &Experiment) -> Option<ServerConfig> {
        let hosts = [&self.host[..], &experiment.page_hosts].concat();
        self.serve.map(|listen| ServerConfig::at(Some(listen)).with_hosts(&hosts))
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
    /// One more name by which browsers may reach the page, such as that of a server in front.
    /// Without it: localhost, and the names and addresses of this computer. Repeat it for several
    #[arg(long, value_name = "NAME[:PORT]")]
    pub host: Vec<String>,
}
