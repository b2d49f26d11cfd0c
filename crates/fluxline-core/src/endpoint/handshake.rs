//! Ends of connections that begin or end, and the replies that they get.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

use super::connection::{ASK_AGAIN, Connection};
use super::frames::Setup;
use super::secrets::Secrets;
use super::wire::{Ends, Wire};
use crate::Moment;
use crate::fabric::{EndpointId, Reliability, Rights, Status};
use crate::guesses::Guesses;
use crate::port::Port;
use crate::roce::{Psn, QueuePair};

/// Cookies are good for one to two of these.
pub(super) const EPOCH_NS: u64 = 10_000_000_000;
/// Ended connections that are remembered. Later Hellos of older ones look like new connections.
const ENDED_MAX: usize = 256;
/// Replies that wait to be sent, at most; the peer repeats a request whose reply was dropped.
const REPLIES_MAX: usize = 256;
/// A goodbye is said again until it is answered, so often at most.
const GOODBYES_MAX: u32 = 20;

/// The state of set-up that belongs to no endpoint.
pub(super) struct Handshake {
    pub secrets: Secrets,
    pub replies: Vec<Reply>,
    pub ended: EndedConnections,
    pub guesses: Guesses,
}

impl Handshake {
    pub fn new(secret: [u8; 16]) -> Handshake {
        Handshake {
            secrets: Secrets::new(secret),
            replies: Vec::new(),
            ended: EndedConnections::default(),
            guesses: Guesses::default(),
        }
    }

    pub fn push_reply(&mut self, reply: Reply) {
        if self.replies.len() < REPLIES_MAX {
            self.replies.push(reply);
        }
    }
}

/// An end that waits for an answer to its Hello.
pub(super) struct Calling {
    pub ends: Ends,
    pub reliability: Reliability,
    pub pair: QueuePair,
    pub first: Psn,
    pub nonce: u64,
    pub cookie: u64,
    pub frame_bytes: usize,
    pub tries_of_size: u8,
    pub attempt: u8,
    pub sent: Option<Moment>,
    pub since: Option<Moment>,
}

/// An end that says goodbye.
pub(super) struct Leaving {
    pub ends: Ends,
    pairs: (QueuePair, QueuePair),
    tries: u32,
    sent: Option<Moment>,
}

/// The reply to a set-up frame.
pub(super) enum Reply {
    Retry { ends: Ends, nonce: u64, cookie: u64 },
    Refuse { ends: Ends, nonce: u64, status: Status },
    Accept { endpoint: EndpointId, attempt: u8, frame_bytes: usize },
    Imported { endpoint: EndpointId, request: u32, found: Result<(u32, u64, Rights), Status> },
    Farewell { ends: Ends, pair: QueuePair },
}

/// A connection that ended while cookies for it are still good.
struct Ended {
    epoch: u64,
    peer: SocketAddr,
    nonce: u64,
}

/// Connections that ended lately: a Hello for one of them is late.
#[derive(Default)]
pub(super) struct EndedConnections(VecDeque<Ended>);

impl EndedConnections {
    pub fn note(&mut self, now: Moment, peer: SocketAddr, nonce: u64) {
        if self.0.len() >= ENDED_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Ended { epoch: now.as_ns() / EPOCH_NS, peer, nonce });
    }

    pub fn has(&self, now: Moment, peer: SocketAddr, nonce: u64) -> bool {
        let epoch = now.as_ns() / EPOCH_NS;
        self.0.iter().any(|of| of.epoch + 2 > epoch && of.peer == peer && of.nonce == nonce)
    }
}

impl Leaving {
    pub fn of(open: Connection) -> Leaving {
        Leaving { ends: open.ends, pairs: open.pairs, tries: 0, sent: None }
    }

    pub fn is_over(&self, now: Moment) -> bool {
        self.tries >= GOODBYES_MAX && now >= self.deadline()
    }

    pub fn deadline(&self) -> Moment {
        self.sent.map_or(Moment::default(), |sent| sent + ASK_AGAIN)
    }

    pub fn send<P: Port>(&mut self, now: Moment, port: &mut P) -> usize {
        if now < self.deadline() || self.tries >= GOODBYES_MAX {
            return 0;
        }
        let mut wire = Wire { port, ends: &self.ends, checked: true, to: self.pairs.1 };
        if !wire.setup(&Setup::Goodbye { from: self.pairs.0 }, 0) {
            return 0;
        }
        (self.sent, self.tries) = (Some(now), self.tries + 1);
        1
    }
}

impl Calling {
    pub fn deadline(&self) -> Moment {
        self.sent.map_or(Moment::default(), |sent| sent + ASK_AGAIN)
    }
}
