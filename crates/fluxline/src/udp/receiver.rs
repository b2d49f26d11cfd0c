//! Receives UDP with few losses: batches straight into the slot ring, every drop counted.
//!
//! The kernel drops datagrams that do not fit the socket's buffer, silently by default. So the
//! buffer is made large, packets are fetched many at a time, and the socket's own drop counter is
//! read. A receiver that is woken for each packet loses more than one that naps for tens of
//! microseconds and then fetches a batch: two to three times the loss-free rate where sender and
//! receiver share a machine (measured with bare programs over loopback and veth).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use fluxline_core::Moment;

use super::bind::{self, BindError, Multicast, refused};
use crate::clock;
use crate::ring::{Batch, Producer, SLOT_BYTES_ANY, SlotMeta, Waited};
use crate::sys::socket::{self, Arena, BATCH_MESSAGES, Flag, Message, Socket, Until};

/// Most sockets of one receiver: they are polled in turn.
const SOCKETS_MAX: usize = 64;

/// The behaviour of a receiver while nothing arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenEmpty {
    /// Sleep until data arrives, then nap for this time so that a batch gathers. The default is 50
    /// us; the kernel's timer adds about 50 us.
    Nap(Duration),
    /// Sleep until data arrives and fetch it at once: the lowest latency of the sleeping modes.
    Block,
    /// Poll continuously: lowest latency, one core at 100 %.
    Spin,
}

/// The behaviour of a receiver when the ring has no free slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Leave packets in the socket's buffer until the reader has caught up.
    Wait,
    /// Fetch and drop them, counted as `ring_full`: the newest data is lost, at a known place.
    Drop,
}

/// The configuration of a receiver.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Addresses to listen on; `[::]:port` listens for IPv6 and IPv4 unless `v6_only`.
    pub listen: Vec<SocketAddr>,
    /// Groups to join, each on every socket of its family.
    pub groups: Vec<Multicast>,
    /// Receive buffer to ask for, per socket \[byte\].
    pub buffer_bytes: u32,
    /// Let the kernel join equal datagrams to trains (UDP_GRO); needs slots of 64 KiB.
    ///
    /// A train that the kernel drops counts as one in `socket_drops`, however long it is. Without
    /// trains, that counter is exact to the datagram, and the rate is about four times lower.
    pub gro: bool,
    /// Use `[::]` for IPv6 only.
    pub v6_only: bool,
    /// Let several processes share the port, each with a share of the senders (SO_REUSEPORT).
    pub reuse_port: bool,
    /// Busy polling in the driver \[us\] (SO_BUSY_POLL); 0 is off.
    pub busy_poll_us: u32,
    /// The behaviour while nothing arrives.
    pub when_empty: WhenEmpty,
    /// The behaviour when the ring is full.
    pub when_full: WhenFull,
}

/// Default receive buffer \[byte\]: 64 MiB, half a second of 1 Gb/s.
const BUFFER_BYTES: u32 = 64 << 20;

impl ReceiverConfig {
    /// Returns the defaults for one address.
    #[must_use]
    pub fn new(listen: SocketAddr) -> ReceiverConfig {
        ReceiverConfig {
            listen: vec![listen],
            groups: Vec::new(),
            buffer_bytes: BUFFER_BYTES,
            gro: true,
            v6_only: false,
            reuse_port: false,
            busy_poll_us: 0,
            when_empty: WhenEmpty::Nap(Duration::from_micros(50)),
            when_full: WhenFull::Wait,
        }
    }
}

/// The configured buffer, and the one that the kernel granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferReport {
    /// Requested receive buffer \[byte\].
    pub asked_bytes: u32,
    /// Granted receive buffer, for packets with the kernel's own overhead \[byte\].
    pub granted_bytes: u32,
}

impl BufferReport {
    /// Returns one sentence with the remedy, if less was granted than requested.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let BufferReport { asked_bytes: asked, granted_bytes: granted } = *self;
        (granted < asked).then(|| {
            format!(
                "the receive buffer is {granted} bytes, {asked} were asked: bursts may be lost; \
                 allow it with `sudo sysctl -w net.core.rmem_max={asked}`"
            )
        })
    }
}

/// The result of one call of [`UdpReceiver::receive_into`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Number of slots that were filled and published.
    Slots(usize),
    /// No datagram came before the time had passed.
    Idle,
    /// The ring was full; with [`WhenFull::Drop`], the datagrams were dropped and counted.
    RingFull,
    /// The ring's reader has ended.
    ReaderGone,
}

/// The reason why receiving stopped.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The configured slots would cut trains.
    #[error(
        "ring slots of {slot_bytes} bytes cannot hold trains of UDP_GRO: make them \
         {SLOT_BYTES_ANY} bytes or switch gro off"
    )]
    SlotsTooSmall {
        /// The ring's slots \[byte\].
        slot_bytes: usize,
    },
    /// Any error of the host.
    #[error("receiving on {address} failed: {source}")]
    System {
        /// The socket's address.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
}

fluxline_core::counters! {
    /// Counters of a UDP receiver. Law: `datagrams` = those in slots + `ring_full`.
    pub struct ReceiverCounters {
        datagrams [Sum "datagram"] "Datagrams fetched from the sockets" => "";
        bytes [Sum "byte"] "UDP payload fetched from the sockets" => "";
        trains [Sum "train"] "Messages that held several datagrams (UDP_GRO)" => "";
        messages [Sum "message"] "Messages fetched: single datagrams and trains" => "";
        calls [Sum "call"] "System calls that fetched something" => "";
        sleeps [Sum "sleep"] "Times that the receiver slept for want of packets" => "";
        truncated [Sum "message"] "Messages cut because a slot was too small"
            => "Give the ring slots of at least the largest datagram; 65536 bytes holds any.";
        ring_full [Sum "datagram"] "Datagrams dropped because the ring was full"
            => "The reader is too slow: see the ring's full_stalls.";
        ring_full_bytes [Sum "byte"] "UDP payload of the datagrams in ring_full" => "";
        socket_drops [Sum "message"]
            "Messages that the kernel dropped because the socket's buffer was full"
            => "Raise net.core.rmem_max, pin the receiver, or lower the rate. A train is one.";
        socket_errors [Sum "error"] "Errors that the network reported to a socket"
            => "See `nstat` and the senders.";
    }
}

struct Port {
    socket: Socket,
    address: SocketAddr,
    drops: DropCount,
    /// True if all datagrams from before the drain have been fetched.
    drained: bool,
}

/// Extends a counter of 32 bits that wraps to 64 bits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DropCount {
    pub(super) total: u64,
}

impl DropCount {
    /// Takes a reading; returns the growth of the total. Readings may come late: an older reading
    /// (by less than half the range) changes nothing.
    pub(super) fn read(&mut self, low: u32) -> u64 {
        let ahead = low.wrapping_sub(self.total as u32);
        if ahead >= 1 << 31 {
            return 0;
        }
        self.total += u64::from(ahead);
        ahead.into()
    }
}

/// One or several UDP sockets whose packets go into one ring.
pub struct UdpReceiver {
    ports: Vec<Port>,
    /// Index of the socket that the next sweep begins with, so that a busy one starves no other.
    turn: usize,
    arena: Arena,
    config: ReceiverConfig,
    buffer: BufferReport,
    /// True if the last sweep fetched less than possible: a nap first lets datagrams gather.
    drained: bool,
    /// The moment at which the drain began: only earlier datagrams are still needed.
    drain_since: Option<Moment>,
    counters: ReceiverCounters,
}

impl UdpReceiver {
    /// Opens, sets up and binds the sockets; packets are buffered by the kernel from then on.
    ///
    /// Errors: [`BindError`], a sentence each. A smaller buffer than requested is not an error: see
    /// [`UdpReceiver::buffer`]. Cost: about ten system calls per socket.
    pub fn bind(config: ReceiverConfig) -> Result<UdpReceiver, BindError> {
        if config.listen.is_empty() {
            return Err(BindError::NoAddress);
        }
        if config.listen.len() > SOCKETS_MAX {
            let asked = config.listen.len();
            return Err(BindError::TooManyAddresses { asked, max: SOCKETS_MAX });
        }
        let asked_bytes = config.buffer_bytes;
        let mut granted_bytes = u32::MAX;
        let mut ports = Vec::with_capacity(config.listen.len());
        for &address in &config.listen {
            let (port, granted) = open(&config, address)?;
            granted_bytes = granted_bytes.min(granted);
            ports.push(port);
        }
        for multicast in &config.groups {
            join_all(&ports, multicast)?;
        }
        Ok(UdpReceiver {
            ports,
            turn: 0,
            arena: Arena::new(),
            config,
            buffer: BufferReport { asked_bytes, granted_bytes },
            drained: false,
            drain_since: None,
            counters: ReceiverCounters::default(),
        })
    }

    /// Fetches datagrams into free slots of the ring and publishes them.
    ///
    /// Returns after the first batch, at most 64 slots per socket; or when `timeout` has passed or
    /// a signal came. Errors: [`ReceiveError`]; datagrams fetched before are in the ring. Cost: one
    /// system call per socket and batch; no copy besides the kernel's, no allocation per packet.
    pub fn receive_into(
        &mut self,
        ring: &mut Producer,
        timeout: Duration,
    ) -> Result<Received, ReceiveError> {
        if self.config.gro && ring.slot_bytes() < SLOT_BYTES_ANY {
            return Err(ReceiveError::SlotsTooSmall { slot_bytes: ring.slot_bytes() });
        }
        if ring.is_abandoned() {
            return Ok(Received::ReaderGone);
        }
        if self.drained {
            self.nap(timeout);
        }
        let start = Instant::now();
        loop {
            match self.sweep(ring)? {
                Received::Idle => {}
                Received::RingFull if self.config.when_full == WhenFull::Wait => {
                    let left = timeout.saturating_sub(start.elapsed());
                    return Ok(match ring.wait_for_space(left) {
                        Waited::Closed => Received::ReaderGone,
                        Waited::Ready | Waited::TimedOut => Received::RingFull,
                    });
                }
                other => return Ok(other),
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(Received::Idle);
            }
            if !self.sleep(left)? {
                return Ok(Received::Idle);
            }
        }
    }

    /// Waits for packets; returns `false` if none came.
    fn sleep(&mut self, left: Duration) -> Result<bool, ReceiveError> {
        if self.config.when_empty == WhenEmpty::Spin {
            std::hint::spin_loop();
            return Ok(true);
        }
        self.counters.sleeps += 1;
        let sockets: Vec<&Socket> = self.ports.iter().map(|port| &port.socket).collect();
        let ready = socket::wait(&sockets, Until::Readable, left);
        let address = self.ports[0].address;
        let ready = ready.map_err(|source| ReceiveError::System { address, source })?;
        if ready {
            self.nap(left);
        }
        Ok(ready)
    }

    fn nap(&mut self, at_most: Duration) {
        if let WhenEmpty::Nap(nap) = self.config.when_empty {
            std::thread::sleep(nap.min(at_most));
        }
    }

    /// Fetches one batch from each socket in turn.
    fn sweep(&mut self, ring: &mut Producer) -> Result<Received, ReceiveError> {
        let mut filled = 0;
        let mut full = false;
        let mut discarded = 0;
        let mut more = false;
        for step in 0..self.ports.len() {
            let index = (self.turn + step) % self.ports.len();
            let batch = ring.reserve(BATCH_MESSAGES);
            if batch.is_empty() {
                full = true;
                if self.config.when_full == WhenFull::Wait {
                    self.turn = index;
                    break;
                }
                discarded += self.discard(index)?;
                continue;
            }
            let room = batch.len();
            let count = self.fetch(index, batch)?;
            more |= count == room;
            filled += count;
        }
        if !full {
            self.turn = (self.turn + 1) % self.ports.len();
        }
        self.drained = filled > 0 && !more && !full;
        let waits = full && self.config.when_full == WhenFull::Wait;
        Ok(match filled {
            0 if waits || discarded > 0 => Received::RingFull,
            0 => Received::Idle,
            filled => Received::Slots(filled),
        })
    }

    /// Fetches one batch from one socket into `batch`.
    fn fetch(&mut self, index: usize, mut batch: Batch<'_>) -> Result<usize, ReceiveError> {
        let received = self.ports[index].socket.receive(&mut self.arena, batch.buffers());
        let Some(count) = self.settle(index, received)? else { return Ok(0) };
        self.note_drain(index, count);
        let slot_bytes = batch.slot_bytes();
        let arrival = clock::now();
        let port = self.ports[index].address.port();
        for slot in 0..count {
            let message = self.arena.message(slot);
            let meta = SlotMeta {
                port,
                time: message.time.unwrap_or(arrival),
                ..slot_meta(&message, slot_bytes)
            };
            self.count(index, &message, meta.datagram_count(), message.sent_bytes);
            self.counters.truncated += u64::from(meta.truncated);
            batch.set(slot, meta);
        }
        batch.commit(count);
        Ok(count)
    }

    /// Fetches one batch from one socket and drops it, counted.
    fn discard(&mut self, index: usize) -> Result<usize, ReceiveError> {
        // Empty buffers: the kernel drops the payload and still reports its length.
        let nowhere = (0..BATCH_MESSAGES).map(|_| Default::default());
        let received = self.ports[index].socket.receive(&mut self.arena, nowhere);
        let Some(count) = self.settle(index, received)? else { return Ok(0) };
        self.note_drain(index, count);
        for slot in 0..count {
            let message = self.arena.message(slot);
            let datagrams = slot_meta(&message, SLOT_BYTES_ANY).datagram_count();
            self.count(index, &message, datagrams, message.sent_bytes);
            self.counters.ring_full += datagrams;
            self.counters.ring_full_bytes += message.sent_bytes as u64;
        }
        Ok(count)
    }

    /// Notes the end of a socket's drain: the datagrams just fetched came after it began. Without
    /// the kernel's time stamps, only an empty socket shows that.
    fn note_drain(&mut self, index: usize, count: usize) {
        let Some(since) = self.drain_since else { return };
        let last = count.checked_sub(1).and_then(|last| self.arena.message(last).time);
        if last.is_some_and(|time| time > since) {
            self.ports[index].drained = true;
        }
    }

    /// Classifies the kernel's answer: messages, no data, a passing error, a permanent error.
    fn settle(
        &mut self,
        index: usize,
        received: io::Result<usize>,
    ) -> Result<Option<usize>, ReceiveError> {
        match received {
            Ok(count) => {
                self.counters.calls += 1;
                Ok(Some(count))
            }
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => Ok(None),
                io::ErrorKind::WouldBlock => {
                    self.ports[index].drained = true;
                    Ok(None)
                }
                // An ICMP message about a datagram sent earlier from this port.
                io::ErrorKind::ConnectionRefused
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable => {
                    self.counters.socket_errors += 1;
                    Ok(None)
                }
                _ => {
                    let address = self.ports[index].address;
                    Err(ReceiveError::System { address, source: error })
                }
            },
        }
    }

    fn count(&mut self, index: usize, message: &Message, datagrams: u64, bytes: usize) {
        self.counters.messages += 1;
        self.counters.datagrams += datagrams;
        self.counters.bytes += bytes as u64;
        self.counters.trains += u64::from(datagrams > 1);
        if let Some(drops) = message.drops {
            self.counters.socket_drops += self.ports[index].drops.read(drops);
        }
    }

    /// Begins a drain: only datagrams from before `moment` are still needed;
    /// [`UdpReceiver::is_drained`] is true once [`UdpReceiver::receive_into`] has fetched them all.
    /// Cost: none.
    pub fn begin_drain(&mut self, moment: Moment) {
        self.drain_since = Some(moment);
        self.ports.iter_mut().for_each(|port| port.drained = false);
    }

    /// Returns true when each socket was empty since [`UdpReceiver::begin_drain`], or had a
    /// datagram that the kernel received after its moment, as with senders that never pause.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.drain_since.is_some() && self.ports.iter().all(|port| port.drained)
    }

    /// Returns the counters, after asking each socket for its drops up to now.
    ///
    /// Packets report the drops before them; only this call finds those after the last packet.
    /// Cost: one system call per socket.
    pub fn counters(&mut self) -> &ReceiverCounters {
        for port in &mut self.ports {
            if let Ok(drops) = port.socket.drops() {
                self.counters.socket_drops += port.drops.read(drops);
            }
        }
        &self.counters
    }

    /// Returns the receive buffer, requested and granted; the smallest of several sockets.
    #[must_use]
    pub fn buffer(&self) -> BufferReport {
        self.buffer
    }

    /// Returns the bound addresses in the order of the configuration, with actual ports in place of
    /// 0.
    pub fn local_addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.ports.iter().map(|port| port.address)
    }

    /// Returns true if the kernel may join datagrams to trains: slots must hold [`SLOT_BYTES_ANY`].
    #[must_use]
    pub fn gro(&self) -> bool {
        self.config.gro
    }
}

/// Returns a slot's meta data from a message, except port and time.
fn slot_meta(message: &Message, slot_bytes: usize) -> SlotMeta {
    let len = message.sent_bytes.min(slot_bytes);
    SlotMeta {
        len: u32::try_from(len).unwrap_or(u32::MAX),
        segment_bytes: message.segment_bytes,
        sender: message.sender,
        truncated: message.sent_bytes > slot_bytes,
        ..SlotMeta::EMPTY
    }
}

fn open(config: &ReceiverConfig, address: SocketAddr) -> Result<(Port, u32), BindError> {
    let socket = Socket::new(address.ip()).map_err(refused("open a socket", address))?;
    if address.is_ipv6() {
        let v6_only = i32::from(config.v6_only);
        socket.set(Flag::V6Only, v6_only).map_err(refused("choose IPv6 or both", address))?;
    }
    // Never for unicast: two programs would each get a part of the packets without noticing.
    if !config.groups.is_empty() {
        socket.set(Flag::ReuseAddress, 1).map_err(refused("share the group's port", address))?;
    }
    if config.reuse_port {
        socket.set(Flag::ReusePort, 1).map_err(refused("share the port", address))?;
    }
    let granted = ask_buffer(&socket, config.buffer_bytes)
        .map_err(refused("size the receive buffer", address))?;
    socket.set(Flag::Timestamps, 1).map_err(refused("switch on time stamps", address))?;
    socket.set(Flag::DropCounter, 1).map_err(refused("switch on the drop counter", address))?;
    if config.gro {
        socket.set(Flag::Gro, 1).map_err(refused("switch on UDP_GRO", address))?;
    }
    if config.busy_poll_us > 0 {
        let us = i32::try_from(config.busy_poll_us).unwrap_or(i32::MAX);
        socket.set(Flag::BusyPollMicroseconds, us).map_err(refused("busy-poll", address))?;
    }
    bind::bind(&socket, address)?;
    let address = socket.local_address().map_err(refused("report the local address", address))?;
    Ok((Port { socket, address, drops: DropCount::default(), drained: false }, granted))
}

/// Requests a receive buffer; returns the granted size \[byte\].
pub(super) fn ask_buffer(socket: &Socket, bytes: u32) -> io::Result<u32> {
    // The kernel doubles the size that is set and reports the double; the second half is its
    // overhead.
    let ask = i32::try_from(bytes).unwrap_or(i32::MAX);
    if socket.set(Flag::ReceiveBufferForce, ask).is_err() {
        socket.set(Flag::ReceiveBuffer, ask)?;
    }
    Ok(u32::try_from(socket.fetch(Flag::ReceiveBuffer)?).unwrap_or(0) / 2)
}

fn join_all(ports: &[Port], multicast: &Multicast) -> Result<(), BindError> {
    let group = multicast.group;
    let fitting = |port: &&Port| match port.address.ip() {
        IpAddr::V4(_) => group.is_ipv4(),
        IpAddr::V6(_) => group.is_ipv6(),
    };
    let mut joined = false;
    for port in ports.iter().filter(fitting) {
        bind::join(&port.socket, multicast)?;
        joined = true;
    }
    if joined {
        return Ok(());
    }
    let hint = if group.is_ipv4() { "0.0.0.0:<port>" } else { "[::]:<port>" };
    Err(BindError::NoSocketForGroup { group, hint })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drop_counter_that_wraps_or_comes_late_stays_right() {
        let mut drops = DropCount::default();
        assert_eq!(drops.read(5), 5);
        assert_eq!(drops.read(3), 0);
        assert_eq!(drops.read(5), 0);
        assert_eq!(drops.read(0x7fff_ffff), 0x7fff_fffa);
        assert_eq!(drops.read(0xffff_fff0), 0x7fff_fff1);
        assert_eq!(drops.read(0xffff_ffff), 15);
        assert_eq!(drops.read(9), 10);
        assert_eq!(drops.total, (1 << 32) + 9);
        assert_eq!(drops.read(0xffff_ffff), 0);
    }
}
