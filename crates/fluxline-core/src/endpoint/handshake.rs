//! Ends of connections that begin or end, and replies to set-up frames.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

use super::connection::Connection;
use super::frames::{Imported, QueueStart, SETUP_REPEAT_AFTER, Setup};
use super::secrets::Secrets;
use super::wire::{Ends, Route, Wire};
use crate::fabric::{EndpointId, Reliability, Status};
use crate::guesses::Guesses;
use crate::port::Port;
use crate::roce::QueuePair;
use crate::{Moment, Span};

/// The length of an epoch; a cookie is valid for one to two epochs.
pub(super) const EPOCH_NS: u64 = 10_000_000_000;
/// Ended connections that are remembered. A late hello of an older one looks like a new connection.
const ENDED_MAX: usize = 256;
/// Replies that wait to be sent, at most. The peer repeats a request whose reply was dropped.
const REPLIES_MAX: usize = 256;
/// A goodbye is repeated until it is answered, at most this many times.
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

/// Tries of a frame size before a smaller one is tried.
const TRIES_EACH: u8 = 3;
/// Frame sizes that are tried when a larger one does not arrive \[byte\]: those of MTU 9000, 4096
/// (RoCE's), 1500 and IPv6's least, 1280, each less IPv6 and UDP, and the 576 that every IPv4 host
/// takes (RFC 791), less IPv4 and UDP: tunnels have MTUs below 1280.
const FRAME_BYTES: [usize; 5] = [8952, 4140, 1452, 1232, 548];

/// An end that waits for an answer to its hello.
pub(super) struct Calling {
    pub ends: Ends,
    pub reliability: Reliability,
    pub own: QueueStart,
    pub nonce: u64,
    /// The cookie that the peer asked for; 0: none yet.
    pub cookie: u64,
    size: SizeTrial,
    attempts: Attempts,
}

/// The frame size that hellos try now.
struct SizeTrial {
    frame_bytes: usize,
    /// Hellos of this size so far.
    tries: u8,
}

/// The hellos so far.
#[derive(Default)]
struct Attempts {
    /// The number of the last hello.
    last: u8,
    /// The time of the last hello; `None`: the next one is due now.
    sent: Option<Moment>,
    /// The time of the first hello.
    since: Option<Moment>,
}

/// An end that says goodbye.
pub(super) struct Leaving {
    pub route: Route,
    tries: u32,
    sent: Option<Moment>,
}

/// The reply to a set-up frame.
pub(super) enum Reply {
    Retry { ends: Ends, nonce: u64, cookie: u64 },
    Refuse { ends: Ends, nonce: u64, status: Status },
    Accept { endpoint: EndpointId, attempt: u8, frame_bytes: usize },
    Imported { endpoint: EndpointId, imported: Imported },
    Farewell { ends: Ends, pair: QueuePair },
}

/// A connection that ended while cookies for it are still valid.
struct Ended {
    epoch: u64,
    peer: SocketAddr,
    nonce: u64,
}

/// Connections that ended lately. A hello for one of them is late.
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
    /// Returns the state after the end of a connection.
    pub fn of(open: Connection) -> Leaving {
        Leaving { route: open.route, tries: 0, sent: None }
    }

    /// Returns true when the peer has not answered the last goodbye.
    pub fn is_over(&self, now: Moment) -> bool {
        self.tries >= GOODBYES_MAX && now >= self.deadline()
    }

    pub fn deadline(&self) -> Moment {
        self.sent.map_or(Moment::default(), |sent| sent + SETUP_REPEAT_AFTER)
    }

    /// Sends the goodbye when it is due; returns how many frames.
    pub fn send<P: Port>(&mut self, now: Moment, port: &mut P) -> usize {
        if now < self.deadline() || self.tries >= GOODBYES_MAX {
            return 0;
        }
        let Route { ends, own_pair, peer_pair, .. } = &self.route;
        let mut wire = Wire::setup_to(*peer_pair, ends, port);
        if !wire.setup(&Setup::Goodbye { from: *own_pair }, 0) {
            return 0;
        }
        (self.sent, self.tries) = (Some(now), self.tries + 1);
        1
    }
}

impl Calling {
    /// Returns the state before the first hello, which will try frames of `frame_bytes`.
    pub fn new(
        ends: Ends,
        reliability: Reliability,
        own: QueueStart,
        nonce: u64,
        frame_bytes: usize,
    ) -> Calling {
        let size = SizeTrial { frame_bytes, tries: 0 };
        Calling { ends, reliability, own, nonce, cookie: 0, size, attempts: Attempts::default() }
    }

    pub fn frame_bytes(&self) -> usize {
        self.size.frame_bytes
    }

    /// Returns when the next hello is due.
    pub fn deadline(&self) -> Moment {
        self.attempts.sent.map_or(Moment::default(), |sent| sent + SETUP_REPEAT_AFTER)
    }

    /// Returns the number of the next hello.
    pub fn next_attempt(&self) -> u8 {
        self.attempts.last + 1
    }

    /// Notes that the hello with this number was sent.
    pub fn hello_sent(&mut self, attempt: u8, now: Moment) {
        self.attempts.last = attempt.min(u8::MAX - 1);
        self.attempts.sent = Some(now);
        self.attempts.since.get_or_insert(now);
        self.size.tries += u8::from(self.cookie != 0);
    }

    /// Takes a cookie; the next hello is due now. The same cookie again is a duplicate.
    pub fn take_cookie(&mut self, cookie: u64) {
        if self.cookie != cookie {
            (self.cookie, self.attempts.sent) = (cookie, None);
        }
    }

    /// Returns the round trip that ends now with the answer to this attempt, if it was the last.
    pub fn round_trip(&self, attempt: u8, now: Moment) -> Option<Span> {
        let sent = self.attempts.sent.filter(|_| attempt == self.attempts.last)?;
        Some(now.since(sent))
    }

    /// Returns true when no hello was answered for longer than `death`.
    pub fn is_dead(&self, now: Moment, death: Span) -> bool {
        self.attempts.since.is_some_and(|since| now.since(since) > death)
    }

    /// Tries a smaller frame when the present size had its tries, then `frame_bytes_max` again.
    pub fn try_next_size(&mut self, now: Moment, frame_bytes_max: usize) {
        if self.size.tries >= TRIES_EACH && self.deadline() <= now {
            let smaller = FRAME_BYTES.into_iter().find(|&bytes| bytes < self.size.frame_bytes);
            // If even the smallest does not arrive, the length is not the reason.
            let frame_bytes = smaller.unwrap_or(frame_bytes_max);
            self.size = SizeTrial { frame_bytes, tries: 0 };
        }
    }
}
