//! A node with calls that wait: the short way to use a link.
//!
//! [`Fabric`] never blocks: a program posts, polls, and sorts completions. [`Node`] does that
//! sorting. Each of its calls waits until it is done, at most for a time of the link that the
//! caller gives, and keeps the completions of everything else. Its errors name the peer, the thing
//! that failed, and what to do.
//!
//! ```
//! use fluxline_core::Span;
//! use fluxline_core::fabric::memory::Lab;
//! use fluxline_core::fabric::node::Node;
//! use fluxline_core::fabric::{Grant, Key, Level, Local, Reliability, Rights, Target, Work};
//!
//! let (lab, second) = (Lab::new(), Span::from_s(1));
//! let mut owner = Node::new(lab.node("owner")?);
//! let region = owner.export("samples", Grant { rights: Rights::PUT, key: Key(7) }, 4096)?;
//!
//! let mut writer = Node::new(lab.node("writer")?);
//! let peer = writer.connect("owner", Reliability::Reliable, second)?;
//! let remote = writer.import(peer, "samples", Key(7), second)?.remote;
//! let (from, to) = (Local::Bytes(b"sample"), Target { remote, offset: 0 });
//! let put = Work::Put { from, to, notify: Some(42), complete_at: Some(Level::Placed) };
//! writer.post(peer, 1, put, second)?;
//! writer.wait_for(peer, 1, second)?;
//! assert_eq!(owner.wait_notified(region, second)?.value, 42);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A node works only while one of its calls runs, as every fabric. The poll interface stays below:
//! [`Node::fabric`].

mod error;
mod fan_out;
mod rings;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};

use super::connect::Connector;
use super::push::Rings;
use super::{
    Completion, EndpointId, Fabric, Grant, Key, Name, PostError, RegionId, Reliability, RemoteId,
    Status, Work,
};
use crate::{Moment, Span};

pub use error::NodeError;
pub use fan_out::Numbered;
pub use rings::Records;

/// Completions that wait for the program, at most; with more, a call that waits fails.
const KEPT_MAX: usize = 4096;
/// Peers whose names are kept for errors; the oldest connections are forgotten first.
const PEERS_MAX: usize = 1 << 16;
/// The longest sleep while something is to be tried again that wakes nobody.
const PAUSE: Span = Span::from_ms(1);

/// A node whose calls wait, for any link.
pub struct Node {
    fabric: Box<dyn Fabric>,
    rings: Rings,
    /// The names of peers, by connection.
    peers: BTreeMap<EndpointId, String>,
    /// Completions that no call has waited for yet.
    kept: VecDeque<Completion>,
}

/// A region of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The region.
    pub remote: RemoteId,
    /// Its size \[byte\].
    pub bytes: u64,
}

/// A put of a peer into an own region: the bytes are in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The connection to the writer.
    pub endpoint: EndpointId,
    /// The offset of the first byte \[byte\].
    pub offset: u64,
    /// The length \[byte\].
    pub bytes: u64,
    /// The writer's value.
    pub value: u32,
}

/// A wait: its subject for an error, and its end.
struct Wait {
    peer: String,
    waits_for: String,
    remedy: &'static str,
    timeout: Span,
}

impl Node {
    /// Returns a node that works on this fabric.
    #[must_use]
    pub fn new(fabric: impl Fabric + 'static) -> Node {
        Node::of(Box::new(fabric))
    }

    /// The same for a fabric that is in a box already.
    #[must_use]
    pub fn of(fabric: Box<dyn Fabric>) -> Node {
        let (rings, peers, kept) = (Rings::default(), BTreeMap::new(), VecDeque::new());
        Node { fabric, rings, peers, kept }
    }

    /// Returns the poll interface. Completions that it polls are not seen by this node.
    pub fn fabric(&mut self) -> &mut dyn Fabric {
        &mut *self.fabric
    }

    /// Makes a region of `bytes` zero bytes, and lets peers import it by name and key.
    ///
    /// Does not wait. Errors: [`NodeError`].
    pub fn export(&mut self, name: &str, grant: Grant, bytes: u64) -> Result<RegionId, NodeError> {
        let name = Name::parse(name)?;
        let region = self.fabric.register(bytes)?;
        self.fabric.export(region, name, grant).inspect_err(|_| {
            let _ = self.fabric.withdraw(region); // it was just made
        })?;
        Ok(region)
    }

    /// Connects to a peer, which may come later.
    ///
    /// Errors: [`NodeError`].
    pub fn connect(
        &mut self,
        peer: &str,
        reliability: Reliability,
        timeout: Span,
    ) -> Result<EndpointId, NodeError> {
        let until = self.fabric.now() + timeout;
        let mut connector = Connector::new(peer, reliability, until);
        loop {
            self.drive()?;
            for what in core::mem::take(&mut self.kept) {
                self.kept.extend(connector.handle(what));
            }
            if let Some(endpoint) = connector.progress(&mut *self.fabric)? {
                self.remember(endpoint, peer.to_string());
                return Ok(endpoint);
            }
            self.pause(until);
        }
    }

    /// Imports a peer's region, which may be exported later.
    ///
    /// Errors: [`NodeError`].
    pub fn import(
        &mut self,
        endpoint: EndpointId,
        name: &str,
        key: Key,
        timeout: Span,
    ) -> Result<Imported, NodeError> {
        let parsed = Name::parse(name)?;
        let until = self.fabric.now() + timeout;
        loop {
            let remote = self.fabric.import(endpoint, parsed.clone(), key)?;
            let wait = Wait {
                peer: self.peer(endpoint),
                waits_for: alloc::format!("the region {name}"),
                remedy: "its program must run and poll its node",
                timeout: until.since(self.fabric.now()),
            };
            let (status, bytes) = self.wait(wait, |node| {
                node.take(|what| match what {
                    Completion::Imported { remote: of, status, bytes } if *of == remote => {
                        Some((*status, *bytes))
                    }
                    _ => None,
                })
            })?;
            match status {
                Status::Done => return Ok(Imported { remote, bytes }),
                // It may be exported yet.
                Status::NoSuchRegion if self.fabric.now() < until => self.pause(until),
                status => {
                    let (peer, region) = (self.peer(endpoint), name.to_string());
                    return Err(NodeError::Import { peer, region, status });
                }
            }
        }
    }

    /// Posts work as [`Fabric::post`] does, and waits for room in the queue.
    ///
    /// Errors: [`NodeError`]; then nothing was posted.
    pub fn post(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        work: Work<'_>,
        timeout: Span,
    ) -> Result<(), NodeError> {
        let wait = Wait {
            peer: self.peer(endpoint),
            waits_for: String::from("room in the queue of the connection"),
            remedy: "it does not take the work that was posted before; its node must be polled",
            timeout,
        };
        self.wait(wait, |node| match node.fabric.post(endpoint, tag, work) {
            Ok(()) => Some(Ok(())),
            Err(PostError::Full) => None,
            Err(error) => Some(Err(NodeError::Post { peer: node.peer(endpoint), error })),
        })?
    }

    /// Waits for the completion of the work with this tag; returns its value: the old word of an
    /// atomic, the length of a received message, else 0.
    ///
    /// Only work with `complete_at` reports its end. Errors: [`NodeError`].
    pub fn wait_for(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        timeout: Span,
    ) -> Result<u64, NodeError> {
        let wait = Wait {
            peer: self.peer(endpoint),
            waits_for: alloc::format!("the end of work {tag}"),
            remedy: "it must have been posted with `complete_at`, and the peer's node be polled",
            timeout,
        };
        let (status, value) = self.wait(wait, |node| {
            node.take(|what| match what {
                Completion::Done { endpoint: at, tag: of, status, value, .. }
                    if (*at, *of) == (endpoint, tag) =>
                {
                    Some((*status, *value))
                }
                _ => None,
            })
        })?;
        match status {
            Status::Done => Ok(value),
            status => Err(NodeError::Work { peer: self.peer(endpoint), tag, status }),
        }
    }

    /// Waits for the next put of a peer with a notification into an own region.
    ///
    /// Errors: [`NodeError`].
    pub fn wait_notified(
        &mut self,
        region: RegionId,
        timeout: Span,
    ) -> Result<Notification, NodeError> {
        self.wait_until("a notification", timeout, |what| match *what {
            Completion::Notified { endpoint, region: of, offset, bytes, value } if of == region => {
                Some(Notification { endpoint, offset, bytes, value })
            }
            _ => None,
        })
    }

    /// Returns the oldest completion that no other call has waited for.
    ///
    /// Errors: [`NodeError::Late`].
    pub fn next_completion(&mut self, timeout: Span) -> Result<Completion, NodeError> {
        self.wait_until("a completion", timeout, |what| Some(what.clone()))
    }

    /// Waits until `wanted` accepts a completion, and takes that one; all others stay. `waits_for`
    /// names it in the error.
    ///
    /// Errors: [`NodeError`].
    pub fn wait_until<T>(
        &mut self,
        waits_for: &str,
        timeout: Span,
        mut wanted: impl FnMut(&Completion) -> Option<T>,
    ) -> Result<T, NodeError> {
        let wait = Wait {
            peer: String::from("any peer"),
            waits_for: waits_for.to_string(),
            remedy: "a peer must connect, put or send",
            timeout,
        };
        self.wait(wait, |node| node.take(&mut wanted))
    }

    /// Returns the name of a connection's peer, for messages.
    #[must_use]
    pub fn peer(&self, endpoint: EndpointId) -> String {
        let unknown = || alloc::format!("the peer of connection {}", endpoint.0);
        self.peers.get(&endpoint).cloned().unwrap_or_else(unknown)
    }

    /// Drives the node until `ready` returns something.
    fn wait<T>(
        &mut self,
        wait: Wait,
        mut ready: impl FnMut(&mut Node) -> Option<T>,
    ) -> Result<T, NodeError> {
        let until = self.fabric.now() + wait.timeout;
        loop {
            if let Some(found) = ready(self) {
                return Ok(found);
            }
            let drained = self.drive();
            if let Some(found) = ready(self) {
                return Ok(found);
            }
            drained?;
            if self.fabric.now() >= until {
                let Wait { peer, waits_for, remedy, timeout } = wait;
                return Err(NodeError::Late { peer, waits_for, timeout, remedy });
            }
            self.pause(until);
        }
    }

    /// Polls the link until it has no more completions; rings take theirs, all others are kept.
    fn drive(&mut self) -> Result<(), NodeError> {
        while self.kept.len() < KEPT_MAX {
            let Some(what) = self.rings.poll(&mut *self.fabric) else { return Ok(()) };
            if let Completion::Connected { endpoint, peer, .. } = &what {
                self.remember(*endpoint, peer.clone());
            }
            self.kept.push_back(what);
        }
        Err(NodeError::Crowded { kept: KEPT_MAX })
    }

    fn remember(&mut self, endpoint: EndpointId, peer: String) {
        self.peers.insert(endpoint, peer);
        if self.peers.len() > PEERS_MAX {
            self.peers.pop_first();
        }
    }

    /// Takes the first kept completion that `wanted` accepts.
    fn take<T>(&mut self, mut wanted: impl FnMut(&Completion) -> Option<T>) -> Option<T> {
        let found = self.kept.iter().enumerate().find_map(|(at, what)| Some((at, wanted(what)?)));
        let (at, found) = found?;
        self.kept.remove(at);
        Some(found)
    }

    /// Sleeps until something arrives, for a moment at most.
    fn pause(&mut self, until: Moment) {
        let soon = self.fabric.now() + PAUSE;
        self.fabric.wait(until.min(soon));
    }
}
