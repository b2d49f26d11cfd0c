//! Routers, links, buffers and credits: virtual cut-through on k-ary n-cubes and graphs.
//!
//! One entry handles all of a tick: first, heads arrive that can leave their router from this tick
//! on; then, every requested output chooses. So an output sees all arrivals of the tick, in
//! whatever order they were scheduled. Changes at known times (a link becomes free, credits return)
//! need no entry; an output is woken only if a packet waits for it.
//!
//! A model of a specific network starts with its own [`NetworkConfig`]; a larger model contains a
//! [`Network`] and converts its [`Entry`].

pub mod config;
pub mod deadlock;
pub mod graph;
pub mod loaded;
pub mod topology;

mod audit;
mod credit;
mod cut;
mod error;
mod motion;
mod state;
mod tap;
mod turns;

pub use config::NetworkConfig;
pub use deadlock::Deadlock;
pub use error::NetworkError;
pub use graph::Graph;
pub use loaded::{Loaded, loaded};
pub(crate) use state::Slab;
pub use topology::{Dateline, Dimension, Ways, Wrap};

use std::collections::VecDeque;

use credit::Later;
use cut::Cuts;
use state::{Buffer, Coming, NONE, Output, Packet, Pending};
use tap::Tap;
use topology::Topology;

use crate::core::agenda::Schedule;
use crate::core::dump::Dump;
use crate::load::traffic::Message;
use crate::{Clock, Duration, Instant};

/// An entry of a network on the agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// All heads of this tick arrive, and all outputs of this tick choose.
    Tick {
        /// The buffer or the output for which it was scheduled.
        first: u32,
    },
    /// An output chooses at this tick, which was too far ahead for the lists.
    Choose {
        /// The output: router times ports plus port.
        output: u32,
    },
    /// The tail of a packet has reached its node.
    Deliver {
        /// The packet.
        packet: u32,
        /// The node.
        node: u32,
    },
}

impl crate::Entry for Entry {
    fn component(&self) -> u32 {
        match *self {
            Entry::Tick { first } => first,
            Entry::Choose { output } => output,
            Entry::Deliver { node, .. } => node,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Entry::Tick { .. } => 1,
            Entry::Choose { .. } => 2,
            Entry::Deliver { .. } => 3,
        }
    }
}

/// A message whose last byte has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The sender.
    pub source: u32,
    /// The receiver.
    pub to: u32,
    /// Its length.
    pub bytes: u32,
    /// Time from hand-over to the arrival of its last byte, including the wait at the source.
    pub latency: Duration,
    /// The time at which it was offered, before it was handed over.
    pub offered: Instant,
    /// The number of its event.
    pub event: u64,
}

/// Converts ticks to time; without a division if the period is a whole number of picoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    clock: Clock,
    period_ps: Option<u64>,
}

impl Ticks {
    pub(crate) fn new(clock: Clock) -> Ticks {
        let second = 1_000_000_000_000;
        let period_ps = second % clock.hertz() == 0;
        Ticks { clock, period_ps: period_ps.then(|| second / clock.hertz()) }
    }

    /// Returns the time at which a tick begins.
    pub(crate) fn at(&self, tick: u64) -> Instant {
        match self.period_ps {
            Some(period) => Instant::from_ps(tick.saturating_mul(period)),
            None => self.clock.at(tick),
        }
    }

    /// Returns the first tick at or after `now`.
    pub(crate) fn from(&self, now: Instant) -> u64 {
        match self.period_ps {
            Some(period) => now.as_ps().div_ceil(period),
            None => self.clock.tick_from(now),
        }
    }
}

/// Number of future ticks with a list of outputs that will choose; later choices have entries of
/// their own. Derived: a packet of 256 bytes takes 16 ticks on a link of 16 bytes per tick, and 32
/// lists stay in a cache.
const AHEAD: usize = 32;

/// Size of buffers and outputs from which reading ahead pays. Measured: at 245 KB it costs 5 to 10
/// %, at 983 KB it gains 10 %, at 3.9 MB 40 to 60 %.
const LARGE_BYTES: usize = 1 << 19;

/// The state of a network.
#[derive(Clone, Debug)]
pub struct Network {
    config: NetworkConfig,
    topology: Topology,
    /// Ports of a router.
    ports: u32,
    /// True if its state is larger than a near cache.
    is_large: bool,
    ticks: Ticks,
    /// The buffers by router and port: the first `channels` buffers of a router belong to port 0,
    /// and so on.
    buffers: Vec<Buffer>,
    outputs: Vec<Output>,
    /// The buffers of the same input port, by a buffer's place in its router.
    ports_of: Box<[u64; 64]>,
    /// Outputs that choose at the next ticks: tick t is at index t modulo [`AHEAD`].
    choosing: Vec<Vec<u32>>,
    /// Packets on the way from nodes, and between routers. Each way takes a fixed time, so packets
    /// arrive in the order in which they left.
    from_nodes: VecDeque<Coming>,
    from_routers: VecDeque<Coming>,
    /// The current tick.
    tick: u64,
    later: Slab<Later>,
    packets: Slab<Packet>,
    messages: Slab<Pending>,
    hops: u64,
    /// Bytes of messages handed over, and delivered.
    bytes_in: u64,
    bytes_out: u64,
    /// Records packets on the links if there is a dump.
    tap: Option<Box<Tap>>,
    /// Messages that arrived and were not taken, and the receivers not yet reported.
    arrived: VecDeque<Message>,
    news: VecDeque<u32>,
    sends: u64,
    cuts: Cuts,
}

impl Network {
    /// Makes a network without traffic.
    ///
    /// # Errors
    /// Those of [`NetworkConfig::check`].
    pub fn new(config: NetworkConfig) -> Result<Network, NetworkError> {
        let topology = config.check()?;
        let (routers, ports) = (topology.routers(), topology.ports());
        let channels = usize::from(config.channels);
        let count = (routers * ports) as usize;
        let of_router = (ports as usize * channels) as u32;
        let space = config.buffer_bytes;
        let buffer = |index: u32| Buffer::new(index / of_router, (index % of_router) as u8, space);
        let mut buffers: Vec<Buffer> = (0..(count * channels) as u32).map(buffer).collect();
        let mut outputs = Vec::with_capacity(count);
        for output in 0..count as u32 {
            let (router, port) = (output / ports, output % ports);
            let neighbour = topology.neighbour(router, port);
            let mut to = NONE;
            if neighbour != NONE {
                to = (neighbour * ports + topology.entrance(router, port)) * channels as u32;
                let fed = &mut buffers[to as usize..][..channels];
                fed.iter_mut().for_each(|buffer| buffer.feeder = output);
            }
            outputs.push(Output::new(router * of_router, to));
        }
        let state_bytes = size_of_val(buffers.as_slice()) + size_of_val(outputs.as_slice());
        Ok(Network {
            ticks: Ticks::new(config.clock),
            buffers,
            outputs,
            ports_of: turns::ports_of(channels as u32),
            choosing: vec![Vec::new(); AHEAD],
            from_nodes: VecDeque::new(),
            from_routers: VecDeque::new(),
            tick: 0,
            later: Slab::default(),
            packets: Slab::default(),
            messages: Slab::default(),
            hops: 0,
            bytes_in: 0,
            bytes_out: 0,
            tap: None,
            arrived: VecDeque::new(),
            news: VecDeque::new(),
            sends: 0,
            cuts: Cuts::default(),
            config,
            topology,
            ports,
            is_large: state_bytes >= LARGE_BYTES,
        })
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &NetworkConfig {
        &self.config
    }

    /// Returns the topology of routers and links.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the number of packet-link-hops between routers so far.
    #[must_use]
    pub fn hops(&self) -> u64 {
        self.hops
    }

    /// Puts a header of every packet that leaves a router into `dump` from now on, one interface
    /// for each link; see `docs/simulation/dumps.md`. Without a dump it costs nothing that can be
    /// measured.
    pub fn begin_dump(&mut self, dump: Dump) {
        let bits_per_s = (self.config.link_bytes_per_s() * 8.0) as u64;
        self.tap = Some(Box::new(Tap::new(dump, &self.topology, bits_per_s)));
    }

    /// Stops dumping, and gives the dump back.
    pub fn end_dump(&mut self) -> Option<Dump> {
        self.tap.take().map(|tap| tap.dump)
    }

    /// Messages that are not delivered yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.messages.len()
    }

    /// The latency of a message of one packet when nothing else is under way. Each of the links and
    /// routers delays the head once; the tail follows the head by the packet's length.
    #[must_use]
    pub fn zero_load(&self, from: u32, to: u32, bytes: u32) -> Duration {
        let hops = self.topology.hops(from, to);
        let routers = (hops + 1) * self.config.router_ticks;
        let wires = (hops + 2) * self.config.wire_ticks;
        let ticks = routers + wires + self.packet_ticks(bytes + self.config.header_bytes);
        self.config.clock.span(u64::from(ticks))
    }

    /// Packets that wait at a node.
    #[must_use]
    pub fn waiting(&self, node: u32) -> u32 {
        self.buffers[self.source_buffer(node) as usize].packets
    }

    /// Hands over a message now. Cut into packets, it waits at its source until the network takes
    /// it; its place there is not limited.
    pub fn send(&mut self, message: &Message, agenda: &mut impl Schedule<Entry>) {
        let count = message.bytes.div_ceil(self.config.packet_bytes).max(1);
        let pending = Pending {
            source: message.source,
            to: message.to,
            bytes: message.bytes,
            packets: count,
            at: agenda.now(),
            offered: message.at.min(agenda.now()),
            event: message.event,
        };
        let number = self.messages.add(pending);
        self.bytes_in += u64::from(message.bytes);
        let tick = self.ticks.from(agenda.now()) + self.hop_ticks();
        let buffer = self.source_buffer(message.source);
        if self.from_nodes.back().is_none_or(|last| last.tick != tick) {
            agenda.schedule(self.ticks.at(tick), Entry::Tick { first: buffer });
        }
        let mut rest = message.bytes;
        for _ in 0..count {
            let part = rest.min(self.config.packet_bytes);
            rest -= part;
            let bytes = part + self.config.header_bytes;
            let packet = Packet { to: message.to, message: number, bytes, next: NONE };
            let packet = self.packets.add(packet);
            self.from_nodes.push_back(Coming { tick, packet, buffer });
        }
    }

    /// Handles an entry that is due now; returns a message that it delivered, if any.
    pub fn handle(&mut self, entry: Entry, agenda: &mut impl Schedule<Entry>) -> Option<Delivery> {
        match entry {
            Entry::Tick { .. } => self.do_tick(None, agenda),
            Entry::Choose { output } => self.do_tick(Some(output), agenda),
            Entry::Deliver { packet, .. } => return self.deliver(packet, agenda.now()),
        }
        None
    }

    fn packet_ticks(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.config.bytes_per_tick).max(1)
    }

    /// Returns the time from a head's departure until it can leave the next router \[ticks\].
    fn hop_ticks(&self) -> u64 {
        u64::from(self.config.wire_ticks) + u64::from(self.config.router_ticks)
    }

    /// Returns the time from the free space of a packet until its sender may use it \[ticks\].
    fn credit_ticks(&self) -> u64 {
        u64::from(self.config.wire_ticks) + u64::from(self.config.credit_ticks)
    }

    fn source_buffer(&self, node: u32) -> u32 {
        let port = node * self.topology.ports() + self.topology.local_port();
        port * u32::from(self.config.channels)
    }

    fn deliver(&mut self, packet: u32, now: Instant) -> Option<Delivery> {
        if self.is_lost_at_target(packet) {
            return None;
        }
        let number = self.packets.remove(packet).message;
        let Pending { source, to, bytes, at, offered, event, .. } = self.end_packet(number)?;
        self.bytes_out += u64::from(bytes);
        Some(Delivery { source, to, bytes, latency: now.since(at), offered, event })
    }
}

#[cfg(test)]
mod tests;
