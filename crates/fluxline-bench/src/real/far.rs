//! The far side: `fluxline bench --serve`, which carries out the orders of the near side.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use fluxline::pin;
use fluxline_core::text::printable;
use fluxline_doctor::Through;
use serde_json::Value;

use super::ANSWER_LIMIT;
use super::link::Link;
use super::newcomers::{Known, Newcomers};
use super::runner::{self, Runner, Trial, Watch};
use crate::control::{Channel, Greeting, Message};
use crate::environment::Conversation;
use crate::role::{JoinConfig, Side};
use crate::{Error, Stop, host, registry};

/// The time between two looks for new connections.
const ACCEPT_NAP: Duration = Duration::from_millis(20);
/// The same while a benchmark runs, which must not be disturbed.
const BUSY_NAP: Duration = Duration::from_millis(250);
/// Connections accepted in one look.
const ACCEPTS_MAX: usize = 256;
/// A near side without orders for this time is gone, though its connection is open.
const ORDER_LIMIT: Duration = Duration::from_secs(600);
/// The longest time from the link's end to the control connection's end.
const LEAVE_LIMIT: Duration = Duration::from_secs(1);

/// A reason why the far side cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is not of this host, or in use.
    #[error("cannot listen on {address} ({source}); choose another address or port of this host")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The host's error.
        source: std::io::Error,
    },
    /// The host rejected an operation.
    #[error(transparent)]
    Error(#[from] Error),
}

/// The listening far side.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    key: String,
}

/// The end of serving, unless a stop comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After one benchmark.
    FirstEnds,
    /// At the stop alone.
    Stopped,
}

impl Server {
    /// Listens on `address`. A near side must show `key`. Errors: [`ServeError::Bind`].
    pub fn bind(address: SocketAddr, key: &str) -> Result<Server, ServeError> {
        let bind = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Server { listener, address, key: key.to_owned() })
        };
        bind().map_err(|source| ServeError::Bind { address, source })
    }

    /// Returns the address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves benchmarks, one after the other, to those who show the key. Passes the end of each to
    /// `say`, as a sentence. Errors: the host's.
    pub fn serve(&self, until: Until, stop: &Stop, say: &dyn Fn(&str)) -> Result<(), ServeError> {
        let mut newcomers = Newcomers::default();
        while !stop.is_over() {
            self.accept(&mut newcomers)?;
            let Some(known) = newcomers.listen(&self.key, say) else {
                std::thread::sleep(ACCEPT_NAP);
                continue;
            };
            let from = known.from;
            match self.serve_in_thread(known, &mut newcomers, stop, say)? {
                Ok(()) => say(&format!("{from}: done")),
                // It may quote bytes from the network.
                Err(error) => say(&printable(&format!("{from}: {error}"), 1000)),
            }
            if until == Until::FirstEnds {
                break;
            }
        }
        let counters = newcomers.counters();
        let strangers = counters.silent + counters.closed + counters.keys_wrong;
        if strangers > 0 {
            say(&format!("{strangers} connections did not show the key"));
        }
        Ok(())
    }

    /// Accepts the connections that wait.
    fn accept(&self, newcomers: &mut Newcomers) -> Result<(), ServeError> {
        for _ in 0..ACCEPTS_MAX {
            match self.listener.accept() {
                Ok((stream, from)) => newcomers.add(stream, from),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // It was closed again, or this process has no descriptor for it now.
                Err(error) if is_passing(&error) => break,
                Err(source) => return Err(Error::host("listening")(source).into()),
            }
        }
        Ok(())
    }

    /// Serves in a thread of its own, since that is pinned. Asks others that show the key meanwhile
    /// to come again.
    fn serve_in_thread(
        &self,
        known: Known,
        newcomers: &mut Newcomers,
        stop: &Stop,
        say: &dyn Fn(&str),
    ) -> Result<Result<(), Error>, ServeError> {
        let from = known.from;
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| Session::welcome(known, stop)?.obey());
            while !thread.is_finished() {
                self.accept(newcomers)?;
                if let Some(mut other) = newcomers.listen(&self.key, say) {
                    let why = format!("it serves a benchmark of {}; try again later", from.ip());
                    other.channel.send_if_possible(&Message::Refused { why });
                }
                nap(&thread);
            }
            Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }
}

/// Sleeps for a while, or until the thread ends.
fn nap<T>(thread: &ScopedJoinHandle<'_, T>) {
    let began = Instant::now();
    while !thread.is_finished() && began.elapsed() < BUSY_NAP {
        std::thread::sleep(ACCEPT_NAP);
    }
}

/// Returns true if a connection could not be accepted but the next one may be.
fn is_passing(error: &std::io::Error) -> bool {
    let passing =
        [ErrorKind::ConnectionAborted, ErrorKind::ConnectionReset, ErrorKind::Interrupted];
    // Source: accept(2); too many open files, of this process or of all.
    passing.contains(&error.kind()) || matches!(error.raw_os_error(), Some(23 | 24))
}

/// Finds the hardware under the link on this host; an unknown path counts as any.
fn through(link: &str, channel: &Channel) -> Through {
    let near = channel.stream().peer_addr().ok();
    let known = Link::parse(link).ok().zip(near);
    let through = known.and_then(|(link, near)| link.through_at_far(near.ip()));
    through.unwrap_or(Through::Anything)
}

/// One benchmark, after the greeting.
struct Session {
    channel: Channel,
    stop: Stop,
    runner: Option<Runner>,
    /// The near side's node on shared memory.
    other_node: Option<String>,
}

impl Drop for Session {
    /// Removes what a killed near side left on shared memory.
    fn drop(&mut self) {
        self.runner = None;
        if let Some(url) = &self.other_node {
            // Taking a dead node's name and closing it cleans up; a living node keeps its name.
            drop(fluxline::open(url));
        }
    }
}

impl Session {
    /// Greets a near side that has shown the key.
    fn welcome(known: Known, stop: &Stop) -> Result<Session, Error> {
        let Known { mut channel, link, .. } = known;
        let through = through(&link, &channel);
        let environment = host::describe(Some(&through));
        channel.send(&Message::Welcome { greeting: Greeting::ours(), environment })?;
        Ok(Session { channel, stop: stop.clone(), runner: None, other_node: None })
    }

    /// Carries out orders until the near side leaves.
    fn obey(&mut self) -> Result<(), Error> {
        loop {
            let ordered = match &mut self.runner {
                Some(runner) => runner.wait(ORDER_LIMIT, &mut self.channel, &self.stop),
                None => self.channel.wait(ORDER_LIMIT, &self.stop),
            };
            let order = match ordered {
                Ok(Some(order)) => order,
                Ok(None) => {
                    let how = format!("it ordered nothing for {} s", ORDER_LIMIT.as_secs());
                    return Err(Error::PeerGone { how });
                }
                // It is done, and closes the link and this connection in either order.
                Err(Error::PeerGone { .. }) if self.channel.closes(LEAVE_LIMIT) => return Ok(()),
                Err(error) => {
                    // The link broke, and the other side is there: it hears why.
                    let (why, leaves) = (error.to_string(), true);
                    let _ = self.channel.send(&Message::Failed { why, leaves });
                    return Err(error);
                }
            };
            match self.follow(order) {
                Ok(()) => {}
                Err(error) => {
                    // The near side may be gone; the error is reported here in any case.
                    let (why, leaves) = (error.to_string(), error.ends_session());
                    let _ = self.channel.send(&Message::Failed { why, leaves });
                    if leaves {
                        return Err(error);
                    }
                }
            }
        }
    }

    fn follow(&mut self, order: Message) -> Result<(), Error> {
        match order {
            Message::Open { url, half_bytes, key, core } => self.open(&url, half_bytes, key, core),
            Message::Begin { number, trial, parameters } => {
                let mut role = registry::role(&trial, &parameters, Side::Far)?;
                let Some(runner) = &mut self.runner else {
                    let what = "a trial before the link".to_owned();
                    return Err(Error::Garbled { what });
                };
                self.channel.send(&Message::Ready)?;
                let mut watch = Watch::new(&mut self.channel, &self.stop);
                runner.run(Trial { name: &trial, number }, &mut *role, &mut watch)?;
                self.channel.send(&Message::Finished { outcome: role.outcome() })
            }
            Message::Call { service, parameters } => {
                let found = registry::service(&service);
                let unknown = || Error::Input(format!("unknown service {service:?}"));
                let found = found.ok_or_else(unknown)?;
                self.channel.send(&Message::Ready)?;
                let mut conversation =
                    FarConversation { channel: &mut self.channel, stop: &self.stop };
                let outcome = (found.run)(&parameters, &mut conversation)?;
                self.channel.send(&Message::Finished { outcome })
            }
            // What the near end of a service said when the far end had already finished.
            Message::Tell { .. } => Ok(()),
            _ => Err(Error::Garbled { what: "an answer without a question".to_owned() }),
        }
    }

    fn open(
        &mut self,
        url: &str,
        half_bytes: u64,
        key: u64,
        core: Option<usize>,
    ) -> Result<(), Error> {
        // The last one: the first is where a host has its other work.
        let core = core.or_else(|| pin::allowed_cores().last().copied());
        if let Some(core) = core {
            pin::pin_current_thread(core).map_err(|error| Error::Input(error.to_string()))?;
        }
        if url.is_empty() {
            // A link without a fabric: the core was all.
            return self.channel.send(&Message::Opened { peer: String::new() });
        }
        let opened = runner::open(url, &JoinConfig { side: Side::Far, peer: "", half_bytes, key });
        // The session goes on, and the near side gets the reason.
        let (fabric, joining) = opened.map_err(|error| match error {
            Error::Refused(_) => Error::Input(error.to_string()),
            other => other,
        })?;
        if url.starts_with("shm://") {
            self.other_node = url.strip_suffix("/far").map(|group| format!("{group}/near"));
        }
        let peer = url.rsplit('/').next().unwrap_or_default().to_owned();
        self.channel.send(&Message::Opened { peer })?;
        let watch = Watch::new(&mut self.channel, &self.stop);
        self.runner = Some(Runner::join(fabric, joining, watch)?);
        self.channel.send(&Message::Ready)
    }
}

/// The far end of a service's conversation.
struct FarConversation<'a> {
    channel: &'a mut Channel,
    stop: &'a Stop,
}

impl Conversation for FarConversation<'_> {
    fn send(&mut self, value: &Value) -> Result<(), Error> {
        self.channel.send(&Message::Tell { value: value.clone() })
    }

    fn receive(&mut self, limit: Duration) -> Result<Option<Value>, Error> {
        match self.channel.wait(limit.min(ANSWER_LIMIT * 30), self.stop)? {
            Some(Message::Tell { value }) => Ok(Some(value)),
            None => Ok(None),
            Some(_) => Err(Error::Garbled { what: "an order within a service".to_owned() }),
        }
    }

    fn is_over(&mut self) -> bool {
        self.stop.is_over() || self.channel.is_closed()
    }
}
