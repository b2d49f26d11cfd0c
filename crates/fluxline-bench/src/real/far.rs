//! The far side: `fluxline bench --serve`, which does what the side that measures orders.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use fluxline::doctor::Through;
use fluxline::pin;
use serde_json::Value;

use super::ANSWER_LIMIT;
use super::link::Link;
use super::player::{self, Player, Watch};
use crate::control::{Channel, Greeting, Message, is_key};
use crate::role::Side;
use crate::stage::Talk;
use crate::{Stop, Trouble, host, registry};

/// Between two looks for somebody who connects.
const ACCEPT_NAP: Duration = Duration::from_millis(20);
/// Who has connected and says nothing for so long is somebody else.
const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is not this host's, or taken.
    #[error("cannot listen on {address} ({source}); choose another address or port of this host")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// The host's answer.
        source: std::io::Error,
    },
    /// The host refused.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

/// The far side, listening.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    key: String,
}

impl Server {
    /// Listens on `address`; who connects must show `key`. Errors: [`ServeError::Bind`].
    pub fn bind(address: SocketAddr, key: &str) -> Result<Server, ServeError> {
        let bind = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Server { listener, address, key: key.to_owned() })
        };
        bind().map_err(|source| ServeError::Bind { address, source })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves one benchmark after the other, or one alone (`once`), until it is over. `say` is
    /// told how each ended. Errors: the host's.
    pub fn serve(&self, once: bool, stop: &Stop, say: &dyn Fn(&str)) -> Result<(), ServeError> {
        while !stop.is_over() {
            match self.listener.accept() {
                Ok((stream, from)) => {
                    let ended = self.serve_in_thread(stream, stop);
                    match &ended {
                        Ok(()) => say(&format!("{from}: done")),
                        Err(trouble) => say(&format!("{from}: {trouble}")),
                    }
                    // Somebody without the key must not end it for who has it.
                    let was_stranger =
                        matches!(ended, Err(Trouble::Input(_) | Trouble::Garbled { .. }));
                    if once && !was_stranger {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    std::thread::sleep(ACCEPT_NAP);
                }
                Err(source) => return Err(Trouble::host("listening")(source).into()),
            }
        }
        Ok(())
    }

    /// In a thread of its own, since it is pinned.
    fn serve_in_thread(&self, stream: TcpStream, stop: &Stop) -> Result<(), Trouble> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| self.greet(Channel::new(stream)?, stop)?.obey());
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn greet(&self, mut channel: Channel, stop: &Stop) -> Result<Session, Trouble> {
        let hello = channel.wait(HELLO_LIMIT, stop)?;
        let Some(Message::Hello { greeting, key, link }) = hello else {
            let what = "no greeting".to_owned();
            return Err(Trouble::Garbled { what });
        };
        let checked = if is_key(&key, &self.key) {
            greeting.check()
        } else {
            let why = "the key is wrong; give the one that `fluxline bench --serve` printed, with \
                       --key";
            Err(Trouble::Input(why.to_owned()))
        };
        if let Err(trouble) = checked {
            // Told from the other's point of view.
            let why = match &trouble {
                Trouble::Version { theirs, ours } => {
                    Trouble::Version { theirs: ours.clone(), ours: theirs.clone() }.to_string()
                }
                other => other.to_string(),
            };
            channel.send(&Message::Refused { why })?;
            return Err(trouble);
        }
        let through = through(&link, &channel);
        let environment = host::describe(Some(&through));
        channel.send(&Message::Welcome { greeting: Greeting::ours(), environment })?;
        Ok(Session { channel, stop: stop.clone(), player: None, other_node: None })
    }
}

/// What the link goes through here; where that is not known, it may be anything.
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
    player: Option<Player>,
    /// The near side's node on shared memory.
    other_node: Option<String>,
}

impl Drop for Session {
    /// Takes away what a near side left on shared memory that was killed.
    fn drop(&mut self) {
        self.player = None;
        if let Some(url) = &self.other_node {
            // Who takes a dead node's name, and goes, cleans up; a living one keeps it.
            drop(fluxline::open(url));
        }
    }
}

impl Session {
    /// Does what is ordered until the other side leaves.
    fn obey(&mut self) -> Result<(), Trouble> {
        loop {
            let ordered = match &mut self.player {
                Some(player) => player.wait(Duration::MAX, &mut self.channel, &self.stop),
                None => self.channel.wait(Duration::MAX, &self.stop),
            };
            let order = match ordered {
                Ok(Some(order)) => order,
                Ok(None) => continue,
                // It is done, and closes the link and this connection in either order.
                Err(Trouble::PeerGone { .. }) => return Ok(()),
                Err(trouble) => return Err(trouble),
            };
            match self.follow(order) {
                Ok(()) => {}
                Err(trouble) => {
                    // Where nobody hears it any more it is said here all the same.
                    let (why, leaves) = (trouble.to_string(), trouble.ends_session());
                    let _ = self.channel.send(&Message::Failed { why, leaves });
                    if leaves {
                        return Err(trouble);
                    }
                }
            }
        }
    }

    fn follow(&mut self, order: Message) -> Result<(), Trouble> {
        match order {
            Message::Open { url, half_bytes, key, core } => self.open(&url, half_bytes, key, core),
            Message::Begin { number, trial, parameters } => {
                let mut role = registry::role(&trial, &parameters, Side::Far)?;
                let Some(player) = &mut self.player else {
                    let what = "a trial before the link".to_owned();
                    return Err(Trouble::Garbled { what });
                };
                self.channel.send(&Message::Ready)?;
                let mut watch = Watch::new(&mut self.channel, &self.stop);
                player.play((&trial, number), &mut *role, &mut watch)?;
                self.channel.send(&Message::Finished { outcome: role.outcome() })
            }
            Message::Call { service, parameters } => {
                let found = registry::service(&service);
                let unknown = || Trouble::Input(format!("there is no service {service:?}"));
                let found = found.ok_or_else(unknown)?;
                self.channel.send(&Message::Ready)?;
                let mut talk = FarTalk { channel: &mut self.channel, stop: &self.stop };
                let outcome = (found.run)(&parameters, &mut talk)?;
                self.channel.send(&Message::Finished { outcome })
            }
            // What the near end of a service said when the far end had already finished.
            Message::Tell { .. } => Ok(()),
            _ => Err(Trouble::Garbled { what: "an answer that nobody asked for".to_owned() }),
        }
    }

    fn open(
        &mut self,
        url: &str,
        half_bytes: u64,
        key: u64,
        core: Option<usize>,
    ) -> Result<(), Trouble> {
        // The last one: the first is where a host has its other work.
        let core = core.or_else(|| pin::allowed_cores().last().copied());
        if let Some(core) = core {
            pin::pin_current_thread(core).map_err(|error| Trouble::Input(error.to_string()))?;
        }
        if url.is_empty() {
            // A link without a fabric: the core was all.
            return self.channel.send(&Message::Opened { peer: String::new() });
        }
        let opened = player::open(url, (Side::Far, ""), half_bytes, key);
        // That is no reason to leave: the other side hears why, from who was not gone.
        let (fabric, joining) = opened.map_err(|trouble| match trouble {
            Trouble::Refused(_) => Trouble::Input(trouble.to_string()),
            other => other,
        })?;
        if url.starts_with("shm://") {
            self.other_node = url.strip_suffix("/far").map(|group| format!("{group}/near"));
        }
        let peer = url.rsplit('/').next().unwrap_or_default().to_owned();
        self.channel.send(&Message::Opened { peer })?;
        let watch = Watch::new(&mut self.channel, &self.stop);
        self.player = Some(Player::join(fabric, joining, watch)?);
        self.channel.send(&Message::Ready)
    }
}

/// The far end of a service's talk.
struct FarTalk<'a> {
    channel: &'a mut Channel,
    stop: &'a Stop,
}

impl Talk for FarTalk<'_> {
    fn send(&mut self, value: &Value) -> Result<(), Trouble> {
        self.channel.send(&Message::Tell { value: value.clone() })
    }

    fn receive(&mut self, limit: Duration) -> Result<Option<Value>, Trouble> {
        match self.channel.wait(limit.min(ANSWER_LIMIT * 30), self.stop)? {
            Some(Message::Tell { value }) => Ok(Some(value)),
            None => Ok(None),
            Some(_) => Err(Trouble::Garbled { what: "an order within a service".to_owned() }),
        }
    }

    fn is_over(&mut self) -> bool {
        self.stop.is_over() || self.channel.is_closed()
    }
}
