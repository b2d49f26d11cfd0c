//! ATOLL: four host ports, an 8 x 8 crossbar and four links on one chip, without other switches.
//!
//! A message is a worm: its head takes a path that the source chose, a symbol for each crossbar,
//! and holds each output until its tail has left. Links carry packets of at most 64 bytes with a
//! CRC, repeat damaged ones, and stop a sender whose packets do not fit. All times are exact to the
//! clock; `docs/simulation/atoll.md` lists the rules and what is left out.
//!
//! The crossbars of other networks follow the same rules: `net::myrinet` has chips with more ports,
//! chips that are only the ends of links, and damaged messages that their target drops.
//!
//! One entry handles all of a clock: packets arrive, then outputs choose, so the order in which
//! they were scheduled does not count.

pub mod adapter;
pub mod cargo;
pub mod config;
pub mod deadlock;
pub mod manager;
pub mod routes;
pub mod wiring;

mod audit;
mod chip;
mod control;
mod error;
mod fault;
mod interconnect;
mod motion;
mod state;
mod supply;
mod tap;

pub use cargo::{Cargo, Parcel, Processes, Sent, Worms};
pub use config::{Config, Errors, Flow};
pub use deadlock::Deadlock;
pub use error::ConfigError;
pub use fault::Cut;
pub use routes::Routing;
pub use wiring::{Cable, Grid, Wiring};

use std::collections::VecDeque;

use fluxline_core::random::Draw;

use routes::Routes;
use state::{Input, NetworkPort, Output, Packet, Slot, Worm};
use wiring::NONE;

use super::router::{Slab, Ticks};
use crate::Duration;
use crate::core::agenda::Schedule;
use crate::core::interconnect::Report;

/// An entry of the network on the agenda: the work of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The input or output for which it was scheduled.
    first: u32,
}

impl crate::Entry for Entry {
    fn component(&self) -> u32 {
        self.first
    }

    fn kind(&self) -> u8 {
        1
    }
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages handed over.
    pub sent: u64,
    /// Messages delivered.
    pub delivered: u64,
    /// Messages that a fault removed.
    pub lost: u64,
    /// Packets that crossed a link between chips whole.
    pub hops: u64,
    /// Packets that were damaged on a link.
    pub damaged: u64,
    /// Packets that were sent again.
    pub repeated: u64,
    /// Stop symbols.
    pub stops: u64,
}

/// All chips and cables, with messages that carry `C`. A chip has `LINKS` link ports and as many
/// network ports, with numbers below `PORTS`; those of ATOLL are the default.
#[derive(Clone, Debug)]
pub struct Network<C, const LINKS: u32 = 4, const PORTS: u32 = 8> {
    config: Config,
    routes: Routes,
    ticks: Ticks,
    /// The current clock.
    tick: u64,
    /// The work of the next clocks: that of clock t is at index t modulo the length.
    slots: Vec<Slot>,
    /// The choices of this clock, while it is handled.
    choosing: Vec<u32>,
    /// By node and port.
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    /// By node and host port.
    ports: Vec<NetworkPort>,
    packets: Slab<Packet>,
    worms: Slab<Worm>,
    /// The content of each worm.
    cargo: Vec<Option<C>>,
    /// Messages in the memory of each node.
    arrived: Vec<VecDeque<C>>,
    /// Heads that have left each crossbar; those of the management do not count.
    heads: Vec<u32>,
    has_power: Vec<bool>,
    is_cut: Vec<bool>,
    reports: VecDeque<Report>,
    draw: Draw,
    /// The chance that a packet arrives whole, by its symbols; empty: links have no errors.
    survivals: Vec<f64>,
    stop_bytes: u32,
    /// Chips below this number are only the ends of links.
    ends: u32,
    source_clocks: u64,
    hop_clocks: u64,
    end_clocks: u64,
    ack_clocks: u64,
    control_clocks: u64,
    counts: Counts,
    /// The dump, if there is one.
    tap: Option<Box<tap::Tap>>,
    /// The first broken law, if any.
    defect: Option<String>,
}

impl<C: Cargo, const LINKS: u32, const PORTS: u32> Network<C, LINKS, PORTS> {
    /// Makes a network without traffic.
    ///
    /// # Errors
    /// Those of [`Config::check`].
    pub fn new(config: Config) -> Result<Network<C, LINKS, PORTS>, ConfigError> {
        config.check()?;
        let nodes = config.wiring.nodes();
        let end_of = |index: u32| match (index / PORTS, index % PORTS) {
            (node, port) if port < LINKS => match config.wiring.end_of(node, port) {
                NONE => NONE,
                end => end / LINKS * PORTS + end % LINKS,
            },
            _ => NONE,
        };
        let all = 0..nodes * PORTS;
        let is_dead = |index: u32| index % PORTS < LINKS && end_of(index) == NONE;
        let span = config.longest() + config.ack() + config.control() + config.hop() + 2;
        let has_errors = config.bit_error_rate > 0.0;
        let has_credits = config.flow == Flow::Credits;
        let input = |index| {
            let feeder = end_of(index);
            Input::new(feeder, has_credits && feeder != NONE)
        };
        Ok(Network {
            routes: Routes::of(&config.wiring, config.routing),
            ticks: Ticks::new(config.clock),
            tick: 0,
            slots: vec![Slot::default(); span.next_power_of_two() as usize],
            choosing: Vec::new(),
            inputs: all.clone().map(input).collect(),
            outputs: all.map(|index| Output::new(end_of(index), is_dead(index))).collect(),
            ports: vec![NetworkPort::default(); (nodes * LINKS) as usize],
            packets: Slab::default(),
            worms: Slab::default(),
            cargo: Vec::new(),
            arrived: (0..nodes).map(|_| VecDeque::new()).collect(),
            heads: vec![0; nodes as usize],
            has_power: vec![true; nodes as usize],
            is_cut: vec![false; (nodes * LINKS) as usize],
            reports: VecDeque::new(),
            draw: Draw::new(config.seed),
            survivals: if has_errors { config.survivals() } else { Vec::new() },
            stop_bytes: config.stop_bytes(),
            ends: config.wiring.ends(),
            source_clocks: config.source(),
            hop_clocks: config.hop(),
            end_clocks: config.end(),
            ack_clocks: config.ack(),
            control_clocks: config.control(),
            counts: Counts::default(),
            tap: None,
            defect: None,
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

    /// Returns the number of messages that wait at a host port, the one that leaves included.
    #[must_use]
    pub fn waiting(&self, node: u32, port: u32) -> usize {
        self.ports[(node * LINKS + port) as usize].worms.len()
    }

    /// Returns the number of links on the path of a message, if there is a path.
    #[must_use]
    pub fn links_between(&self, source: u32, target: u32) -> Option<u32> {
        let path = self.routes.path(source, target)?;
        Some(path.links())
    }

    /// Returns the latency of a message of `bytes` over `links` links when nothing else is under
    /// way. Each chip and each cable delays the head once; the symbols follow. Behind a head with
    /// its route, later packets of a message start one symbol later for each link.
    #[must_use]
    pub fn zero_load(&self, links: u32, bytes: u32) -> Duration {
        let config = &self.config;
        let payload = u64::from(bytes) + u64::from(config.header_bytes);
        let packets = payload.div_ceil(u64::from(config.packet_bytes));
        let symbols = payload + packets * u64::from(config.overhead_symbols);
        let links = u64::from(links);
        let route = if packets > 1 { links } else { 0 };
        let last = if links > 0 && self.ends > 0 { self.hop_clocks - self.end_clocks } else { 0 };
        let head = self.source_clocks + links * self.hop_clocks - last;
        config.clock.span(head + symbols + route)
    }

    /// Returns the work of a clock from the next one on, and schedules the clock.
    fn slot(&mut self, tick: u64, first: u32, agenda: &mut impl Schedule<Entry>) -> &mut Slot {
        let index = tick as usize & (self.slots.len() - 1);
        if !self.slots[index].is_planned {
            self.slots[index].is_planned = true;
            agenda.schedule(self.ticks.at(tick), Entry { first });
        }
        &mut self.slots[index]
    }
}

#[cfg(test)]
mod tests;
