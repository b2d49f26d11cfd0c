//! One node: the reliable endpoint on its port, the processor's work for each frame, and the card.

use std::collections::VecDeque;
use std::net::SocketAddr;

use fluxline_core::endpoint::{EndpointConfig, Node};
use fluxline_core::fabric::{Completion, Fabric};
use fluxline_core::random::Draw;
use fluxline_core::roce::UDP_PORT;
use fluxline_core::{Moment, Span};

use super::port::{Buffers, StationPort};
use crate::net::ethernet::config::Config;
use crate::net::ethernet::datagram::{Datagram, Payload};
use crate::{Duration, Instant};

/// The work of a node's processor for each frame, sent or received. A first model: one core does
/// all of it, in the order in which it comes up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCost {
    /// For each frame.
    pub frame: Duration,
    /// For each byte of its payload.
    pub byte: Duration,
}

impl HostCost {
    /// Returns the time for a frame with this payload \[byte\].
    #[must_use]
    pub fn of(&self, bytes: u64) -> Duration {
        self.frame + self.byte.times(bytes)
    }

    /// Returns true if frames cost nothing: the wire alone is modelled.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == HostCost::default()
    }
}

/// Connections of a node: the most that the endpoint has.
const ENDPOINTS_MAX: u32 = 1022;

/// A frame in the hands of the processor until a time.
#[derive(Debug)]
pub struct Held {
    /// The time.
    pub until: Instant,
    /// The frame.
    pub datagram: Datagram,
}

/// A node.
pub struct Station {
    /// The number.
    pub number: u32,
    /// The endpoint.
    pub node: Node<StationPort>,
    /// True until it crashes or is switched off.
    pub is_alive: bool,
    /// The number of times that it has started.
    pub starts: u32,
    /// The time of the last poll.
    pub polled_at: Moment,
    /// Frames on their way to the card: the processor's work, then the card's queue.
    pub leaving: VecDeque<Held>,
    /// Frames on their way to the socket.
    pub coming: VecDeque<Held>,
    /// Bytes of `coming`.
    coming_bytes: usize,
    /// The time from which the processor is free.
    core_free: Instant,
    /// Completions that its programs got.
    pub completions: u64,
    /// Frames that its socket dropped.
    pub dropped: u64,
}

/// The parts of a cluster that every node shares.
#[derive(Clone, Debug)]
pub struct Common {
    /// The network.
    pub config: Config,
    /// The buffers of each socket.
    pub buffers: Buffers,
    /// The work for each frame.
    pub host: HostCost,
}

impl Station {
    /// Makes a node that has started as many times by now.
    #[must_use]
    pub fn new(number: u32, starts: u32, common: &Common) -> Station {
        let port = StationPort::new(number, &common.config, common.buffers);
        let config = EndpointConfig::new(&number.to_string(), secret(common, number, starts));
        let config = EndpointConfig { endpoints_max: ENDPOINTS_MAX, ..config };
        Station {
            number,
            node: Node::new(port, config),
            is_alive: true,
            starts,
            polled_at: Moment::default(),
            leaving: VecDeque::new(),
            coming: VecDeque::new(),
            coming_bytes: 0,
            core_free: Instant::START,
            completions: 0,
            dropped: 0,
        }
    }

    /// Stops the node: frames in its processor are lost.
    pub fn die(&mut self) {
        self.is_alive = false;
        self.leaving.clear();
        self.coming.clear();
        self.coming_bytes = 0;
    }

    /// Occupies the processor for a frame; returns the time at which it is done.
    pub fn work(&mut self, now: Instant, bytes: u64, host: &HostCost) -> Instant {
        self.core_free = self.core_free.max(now) + host.of(bytes);
        self.core_free
    }

    /// Takes a frame that has arrived at the card. Returns the time at which the processor is done
    /// with it, if that is later.
    pub fn arrive(&mut self, now: Instant, datagram: Datagram, host: &HostCost) -> Option<Instant> {
        let is_mine = matches!(&datagram.payload, Payload::Udp(udp) if udp.to_port == UDP_PORT);
        if !self.is_alive || !is_mine {
            return None;
        }
        let bytes = datagram.payload_bytes() as usize;
        // A frame occupies the socket's buffer from its arrival.
        if !self.node.port().has_space(self.coming_bytes + bytes) {
            self.node.port().drop_one();
            self.dropped += 1;
            return None;
        }
        if host.is_zero() {
            self.node.port().arrive(datagram);
            return None;
        }
        self.coming_bytes += bytes;
        let until = self.work(now, bytes as u64, host);
        self.coming.push_back(Held { until, datagram });
        Some(until)
    }

    /// Gives the endpoint the frames that the processor is done with.
    pub fn hand_over(&mut self, now: Instant) {
        while self.coming.front().is_some_and(|held| held.until <= now) {
            let Some(Held { datagram, .. }) = self.coming.pop_front() else { return };
            self.coming_bytes -= datagram.payload_bytes() as usize;
            self.node.port().arrive(datagram);
        }
    }

    /// Returns the time of the next poll that has work; `None`: it waits for a frame.
    ///
    /// A deadline that has passed is looked at a nanosecond after the last poll, not for ever.
    pub fn due(&mut self, now: Moment) -> Option<Moment> {
        if !self.is_alive {
            return None;
        }
        let soon = self.polled_at + Span::from_ns(1);
        if self.node.waiting() > 0 || self.node.port().has_work() {
            return Some(now.max(soon));
        }
        self.node.deadline().map(|at| at.max(soon))
    }

    /// Makes its next life: with another secret, and empty memory.
    #[must_use]
    pub fn next_life(&self, common: &Common) -> Station {
        let Station { dropped, completions, .. } = *self;
        Station { dropped, completions, ..Station::new(self.number, self.starts + 1, common) }
    }

    /// Polls the endpoint.
    pub fn poll(&mut self, now: Moment) -> Option<Completion> {
        if !self.is_alive {
            return None;
        }
        self.polled_at = now;
        let completion = self.node.poll(now);
        self.completions += u64::from(completion.is_some());
        completion
    }
}

/// Returns the address by which a node's endpoint reaches a peer that is called by its number.
#[must_use]
pub fn address_of(name: &str, nodes: u32) -> Option<SocketAddr> {
    let number = name.parse::<u32>().ok().filter(|&number| number < nodes)?;
    Some(super::port::address(number))
}

/// Returns the secret of a life of a node.
fn secret(common: &Common, number: u32, starts: u32) -> [u8; 16] {
    let life = u64::from(starts) << 32 | u64::from(number);
    let mut draw = Draw::new(common.config.seed.rotate_left(32) ^ life);
    let mut secret = [0; 16];
    let (low, high) = secret.split_at_mut(8);
    low.copy_from_slice(&draw.bits().to_le_bytes());
    high.copy_from_slice(&draw.bits().to_le_bytes());
    secret
}
