//! The pages of a simulation, which do not change.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use fluxline_run::Stop;
use fluxline_serve::{Listening, ServeError, Server, ServerConfig, StaticPage};

use crate::failure::Failure;
use crate::inform;

/// The page of a simulation.
#[derive(Clone, Debug, Default, Args)]
pub struct PageArguments {
    /// Show the result on a page until Ctrl-C. Without an address: loopback, port 8040 or the next
    /// free one
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1)]
    #[arg(default_missing_value = ServerConfig::ANY_PORT)]
    pub serve: Option<SocketAddr>,
    /// One more name by which browsers may reach the page. Without it: localhost, and the names and
    /// addresses of this computer. Repeat it for several
    #[arg(long, value_name = "NAME[:PORT]", requires = "serve")]
    pub host: Vec<String>,
}

impl PageArguments {
    /// Returns the configuration of the server, if one is wanted.
    pub fn config(&self) -> Option<ServerConfig> {
        self.serve.map(|listen| ServerConfig::at(Some(listen)).with_hosts(&self.host))
    }
}

/// A page, and its name on the terminal.
pub struct NamedPage {
    /// Its name: `report`.
    pub name: &'static str,
    /// Its path and text.
    pub page: StaticPage,
}

/// Serves pages until Ctrl-C.
pub fn pages(config: &ServerConfig, pages: Vec<NamedPage>) -> Result<(), Failure> {
    let stop = Stop::on_signal(crate::output::ended_at_once);
    let listening = Listening::on(config).map_err(failure)?;
    let names: Vec<_> = pages.iter().map(|of| (of.name, of.page.path.clone())).collect();
    let pages = pages.into_iter().map(|of| of.page).collect();
    let server = Server::start_pages(listening, pages).map_err(failure)?;
    for (name, path) in names {
        inform!("{name:<8} {}{}", server.address(), path.trim_start_matches('/'));
    }
    while !stop.is_over() {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn failure(error: ServeError) -> Failure {
    match error {
        ServeError::Listen { .. } => Failure::link(error),
        ServeError::Host(_) => Failure::input(error),
        ServeError::Folder(_) | ServeError::System(_) => Failure::failed(error),
    }
}
