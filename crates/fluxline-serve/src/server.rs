//! The server: a listening socket and a thread.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::Router;
use fluxline_run::Watcher;
use tokio::sync::oneshot;

use crate::api::{self, Site};
use crate::connections::{ArrivedAt, LimitedListener, Limits};
use crate::contained::contain;
use crate::guard::Guard;
use crate::hosts::{Hosts, is_host};
use crate::hub::Hub;
use crate::runs::Library;
use crate::runs_api::{self, RunsSite};
use crate::token::{Access, Token};
use crate::web::{self, StaticPage};

/// The port when none is given; the next free one is taken where it is in use.
const PORT: u16 = 8040;
/// The longest wait for the thread at the end.
const PATIENCE: Duration = Duration::from_secs(2);
const POLL_PERIOD: Duration = Duration::from_millis(1);
/// Ports that are tried.
const PORTS_TRIED: u16 = 20;

/// The configuration of a server.
///
/// Browsers may name the server by `localhost`, by its address and by the names of this computer;
/// [`ServerConfig::hosts`] has more.
#[derive(Clone, Debug, Default)]
pub struct ServerConfig {
    /// The address to listen on; `None`: loopback, port 8040 or the next free one.
    pub listen: Option<SocketAddr>,
    /// Limits of connections.
    pub limits: Limits,
    /// More names by which browsers may reach it, such as that of a server in front: `NAME` with
    /// any port, or `NAME:PORT`.
    pub hosts: Vec<String>,
    /// The token and the sessions of the servers before it at this address; `None`: a new token.
    pub access: Option<Access>,
}

impl ServerConfig {
    /// Stands for loopback and a port of the program's choice, where an option needs an address.
    pub const ANY_PORT: &str = "127.0.0.1:0";

    /// Returns the configuration of a server at this address; [`ServerConfig::ANY_PORT`] is as
    /// none.
    #[must_use]
    pub fn at(listen: Option<SocketAddr>) -> ServerConfig {
        let listen = listen.filter(|address| address.to_string() != Self::ANY_PORT);
        ServerConfig { listen, ..ServerConfig::default() }
    }

    /// Adds names by which browsers may reach the server.
    #[must_use]
    pub fn with_hosts(mut self, hosts: &[String]) -> ServerConfig {
        self.hosts.extend_from_slice(hosts);
        self
    }
}

/// The reason why a server does not start, in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot serve the live page on {address}: {reason}; give another address to --serve.")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        reason: std::io::Error,
    },
    /// The folder of runs does not exist.
    #[error("{} is not a directory; give the folder that has the runs, for example `runs`.",
        .0.display())]
    Folder(PathBuf),
    /// A name of [`ServerConfig::hosts`] is not a host.
    #[error(
        "`{0}` is not the name of a host; write for example daq.example.org or \
        daq.example.org:8443."
    )]
    Host(String),
    /// The kernel gave no random bytes, or no thread.
    #[error("cannot serve the live page: {0}.")]
    System(#[from] std::io::Error),
}

/// A running server; it ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    token: Token,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// An address that is listened on, before there is an acquisition: an address that is taken is
/// known before the run begins.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    limits: Limits,
    hosts: Vec<String>,
    access: Access,
}

impl Listening {
    /// Listens on the address of a configuration.
    ///
    /// # Errors
    /// [`ServeError::Listen`] and [`ServeError::Host`].
    pub fn on(config: &ServerConfig) -> Result<Listening, ServeError> {
        if let Some(name) = config.hosts.iter().find(|name| !is_host(name)) {
            return Err(ServeError::Host(name.clone()));
        }
        let listener = listen(config.listen)?;
        listener.set_nonblocking(true)?;
        let access = config.access.clone().map_or_else(Access::draw, Ok)?;
        Ok(Listening { listener, limits: config.limits, hosts: config.hosts.clone(), access })
    }

    /// Makes a configuration one of this address, token and sessions: for the next server.
    ///
    /// # Errors
    /// [`ServeError::System`].
    pub fn keep_in(&self, config: &mut ServerConfig) -> Result<(), ServeError> {
        config.listen = Some(self.listener.local_addr()?);
        config.access = Some(self.access.clone());
        Ok(())
    }
}

/// The content of a server.
struct Content {
    router: Router,
    /// The hub of a live run, which takes snapshots.
    hub: Option<Arc<Hub>>,
}

impl Server {
    /// Serves an acquisition.
    ///
    /// When it returns, the address is answered. Cost: a thread, and ten snapshots of the ledger a
    /// second.
    ///
    /// # Errors
    /// [`ServeError::System`].
    pub fn start(listening: Listening, watcher: Watcher) -> Result<Server, ServeError> {
        Server::spawn(listening, |guard| {
            let hub = Arc::new(Hub::new(watcher));
            let router = api::routes(Site { hub: hub.clone(), guard });
            Content { router, hub: Some(hub) }
        })
    }

    /// Serves a folder of runs: finished ones, and those that are being written.
    ///
    /// # Errors
    /// [`ServeError::Folder`] and [`ServeError::System`].
    pub fn start_runs(listening: Listening, folder: &Path) -> Result<Server, ServeError> {
        if !folder.is_dir() {
            return Err(ServeError::Folder(folder.to_path_buf()));
        }
        let library = Arc::new(Library::new(folder));
        Server::spawn(listening, |guard| {
            let router = runs_api::routes(RunsSite { library, guard });
            Content { router, hub: None }
        })
    }

    /// Serves pages that do not change.
    ///
    /// # Errors
    /// [`ServeError::System`].
    pub fn start_pages(listening: Listening, pages: Vec<StaticPage>) -> Result<Server, ServeError> {
        Server::spawn(listening, |_| Content { router: web::static_pages(pages), hub: None })
    }

    fn spawn(
        listening: Listening,
        content: impl FnOnce(Arc<Guard>) -> Content,
    ) -> Result<Server, ServeError> {
        let Listening { listener, limits, hosts, access } = listening;
        let address = listener.local_addr()?;
        let token = access.token.clone();
        let guard = Arc::new(Guard::new(access, Hosts::of(address, &hosts)));
        let Content { router, hub } = content(guard.clone());
        let router = api::guarded(router, guard);
        let (end, ends) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("serve".into()).spawn(move || {
            contain(|| runtime.block_on(serve(listener, limits, router, hub, ends)));
            // Streams of pages that are still open end here.
            runtime.shutdown_background();
        })?;
        tracing::info!(%address, "the page is served");
        Ok(Server { address, token, end: Some(end), thread: Some(thread) })
    }

    /// Returns the address with the token, for the operator's browser. The token is behind `#`,
    /// which browsers send to nobody; the page shows it once and removes it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}#{}", self.address(), self.token.as_str())
    }

    /// Returns the address without the token, for everybody who may look.
    #[must_use]
    pub fn address(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Returns the token that permits run control.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            let _ = end.send(());
        }
        let Some(thread) = self.thread.take() else { return };
        let began = Instant::now();
        while !thread.is_finished() && began.elapsed() < PATIENCE {
            std::thread::sleep(POLL_PERIOD);
        }
        // A thread that does not end in time is left behind: it must not hold the run.
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}

async fn serve(
    listener: TcpListener,
    limits: Limits,
    router: Router,
    hub: Option<Arc<Hub>>,
    ends: oneshot::Receiver<()>,
) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let ticks = async {
        match hub {
            Some(hub) => hub.run().await,
            None => std::future::pending().await,
        }
    };
    let service = router.into_make_service_with_connect_info::<ArrivedAt>();
    let server = axum::serve(LimitedListener::new(listener, limits), service);
    tokio::select! {
        _ = ends => {}
        () = ticks => {}
        _ = server => {}
    }
}

fn listen(wanted: Option<SocketAddr>) -> Result<TcpListener, ServeError> {
    let usual = |number| SocketAddr::from((Ipv4Addr::LOCALHOST, PORT + number));
    let one = |address| {
        TcpListener::bind(address).map_err(|reason| ServeError::Listen { address, reason })
    };
    match wanted {
        Some(address) => one(address),
        None => (1..PORTS_TRIED)
            .fold(one(usual(0)), |tried, number| tried.or_else(|_| one(usual(number)))),
    }
}
