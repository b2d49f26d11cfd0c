//! Myrinet with GM: cards with a processor, source-routed cut-through switches, reliable
//! connections between cards.
//!
//! A host gives its card a send token. The card's processor, the LANai, reads the token, fetches
//! the data over the bus in packets of at most 4 KB, and sends each on the port with the shorter
//! queue. Switches follow the rules of ATOLL's crossbars ([`crate::net::atoll`]): the head of a
//! packet opens an output, which is held to the tail; stop and go keep slack buffers from
//! overflowing. The receiving card checks the CRC, writes the data into memory in order, and
//! acknowledges it; a connection repeats packets from the first one that is missing. Each port of
//! the cards has switches of its own. `docs/simulation/myrinet.md` has the rules and limits.
//!
//! QsNet and InfiniBand are other parameters of the same parts ([`other`]), with credits instead of
//! stop and go.

#[cfg(test)]
mod bounds_tests;
mod card;
mod clos;
pub mod cluster;
pub mod config;
mod connection;
mod error;
mod firmware;
mod interconnect;
pub mod measure;
pub mod other;
mod packet;

pub use config::Config;
pub use error::ConfigError;
pub use packet::{Blank, Content, Packet};

use std::collections::{BTreeMap, VecDeque};

use card::Card;

use super::atoll;
use crate::core::agenda::Schedule;
use crate::core::interconnect::Report;
use crate::world::Due;
use crate::{Duration, Instant};

/// The switches and links of one port of all cards: chips with 16 link ports.
type Plane = atoll::Network<Packet, 16, 32>;

/// An entry of the network on the agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Of the links and switches of one port.
    Plane {
        /// The port.
        port: u8,
        /// The entry.
        entry: atoll::Entry,
    },
    /// Of a card.
    Card {
        /// The host.
        node: u32,
        /// The step.
        step: Step,
    },
}

/// A step of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A send token has come from the host.
    Token,
    /// The LANai has done a task.
    Lanai,
    /// Data is in the card.
    Fetched,
    /// Data is in memory.
    Landed,
    /// The packets to a peer may be overdue.
    Overdue {
        /// The peer.
        peer: u32,
    },
}

impl crate::Entry for Entry {
    fn component(&self) -> u32 {
        match self {
            Entry::Plane { entry, .. } => entry.component(),
            Entry::Card { node, .. } => *node,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Entry::Plane { .. } => 1,
            Entry::Card { step, .. } => match step {
                Step::Token => 2,
                Step::Lanai => 3,
                Step::Fetched => 4,
                Step::Landed => 5,
                Step::Overdue { .. } => 6,
            },
        }
    }
}

impl<S> From<Entry> for Due<Entry, S> {
    fn from(entry: Entry) -> Due<Entry, S> {
        Due::Wire(entry)
    }
}

/// The agenda as the links and switches of one port see it.
struct OfPort<'a, S> {
    whole: &'a mut S,
    port: u8,
}

impl<S: Schedule<Entry>> Schedule<atoll::Entry> for OfPort<'_, S> {
    fn now(&self) -> Instant {
        self.whole.now()
    }

    fn schedule(&mut self, at: Instant, entry: atoll::Entry) {
        self.whole.schedule(at, Entry::Plane { port: self.port, entry });
    }
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages handed over.
    pub sent: u64,
    /// Messages delivered.
    pub delivered: u64,
    /// Messages that were given up and have not arrived.
    pub lost: u64,
    /// Packets sent again.
    pub repeated: u64,
}

/// All hosts' cards, links and switches, with messages of content `C`.
#[derive(Debug)]
pub struct Network<C> {
    config: Config,
    planes: Vec<Plane>,
    cards: Vec<Card>,
    /// The contents of messages that have not arrived, by their number.
    contents: BTreeMap<u64, C>,
    arrived: Vec<VecDeque<C>>,
    reports: VecDeque<Report>,
    counts: Counts,
}

impl<C: Content> Network<C> {
    /// Makes a network without traffic.
    ///
    /// # Errors
    /// Those of [`Config::check`].
    pub fn new(config: Config) -> Result<Network<C>, ConfigError> {
        config.check()?;
        let mut planes = Vec::new();
        for port in 0..config.card.ports {
            planes.push(Plane::new(config.plane(port)?)?);
        }
        let nodes = config.nodes;
        Ok(Network {
            planes,
            cards: (0..nodes).map(|_| Card::new(config.bus)).collect(),
            contents: BTreeMap::new(),
            arrived: (0..nodes).map(|_| VecDeque::new()).collect(),
            reports: VecDeque::new(),
            counts: Counts::default(),
            config,
        })
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the counts since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of packets that bit errors and cut cables destroyed since the start.
    #[must_use]
    pub fn packets_lost(&self) -> u64 {
        self.planes.iter().map(|plane| plane.counts().lost).sum()
    }

    /// Returns the time of a packet with `bytes` of data from one card to another, over `links`
    /// links, when nothing else is under way.
    #[must_use]
    pub fn zero_load(&self, links: u32, bytes: u32) -> Duration {
        self.planes[0].zero_load(links, bytes)
    }
}

#[cfg(test)]
mod tests;
