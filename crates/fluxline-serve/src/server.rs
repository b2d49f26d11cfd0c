//! The server: a listening socket and a thread.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use fluxline_run::Watcher;
use tokio::sync::oneshot;

use crate::api::{self, Site};
use crate::guard::Guard;
use crate::hub::Hub;
use crate::token::Token;

/// The port when none is given; the next free one is taken where it is in use.
const PORT: u16 = 8040;
/// Ports that are tried.
const PORTS_TRIED: u16 = 20;

/// The configuration of a server.
#[derive(Clone, Debug, Default)]
pub struct ServerConfig {
    /// The address to listen on; `None`: loopback, port 8040 or the next free one.
    pub listen: Option<SocketAddr>,
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
pub struct Listening(TcpListener);

impl Listening {
    /// Listens on the address of a configuration.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn on(config: &ServerConfig) -> Result<Listening, ServeError> {
        let listener = listen(config.listen)?;
        listener.set_nonblocking(true)?;
        Ok(Listening(listener))
    }
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
        let Listening(listener) = listening;
        let address = listener.local_addr()?;
        let token = Token::draw()?;
        let guard = Arc::new(Guard::new(token.clone(), hosts(address)));
        let site = Site { hub: Arc::new(Hub::new(watcher)), guard };
        let (end, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("serve".into()).spawn(move || {
            runtime.block_on(serve(listener, site, ended));
            // Streams of pages that are still open end here.
            runtime.shutdown_background();
        })?;
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
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(listener: TcpListener, site: Site, ended: oneshot::Receiver<()>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let ticks = site.hub.clone().run();
    let server = axum::serve(listener, api::routes(site));
    tokio::select! {
        _ = ended => {}
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

/// Returns the names by which browsers may reach an address; none: any.
fn hosts(address: SocketAddr) -> Vec<String> {
    if !address.ip().is_loopback() {
        return Vec::new();
    }
    let port = address.port();
    let names = ["localhost", "127.0.0.1", "[::1]"];
    let mut hosts: Vec<String> = names.iter().map(|name| format!("{name}:{port}")).collect();
    hosts.push(address.to_string());
    hosts
}
