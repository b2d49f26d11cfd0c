//! A UDP socket as a port of frames: sends and receives trains, and counts frames that the kernel
//! dropped.
//!
//! The socket is never connected, and never lets the kernel fragment frames (path MTU discovery is
//! on). So the identification in an IPv4 header is known before the frame leaves: Linux writes 0
//! for a single datagram that must not be fragmented; a train begins with 0 and counts up by one
//! per datagram. Source: `ip_select_ident_segs` and `inet_gso_segment` of Linux; docs/ports.md.

mod route;
#[cfg(test)]
mod tests;
mod trains;

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::time::{Duration, Instant};

use fluxline_core::Moment;
use fluxline_core::port::{
    Identification, Incoming, IncomingTrain, Member, Outgoing, OutgoingTrain, Port, PortCounters,
    PortLimits,
};

use self::route::Routes;
pub use self::route::interface_of;
use self::trains::Trains;
use super::bind::{self, BindError, refused};
use super::receiver::{BufferReport, DropCount, WhenEmpty};
use super::shared::{self, Share};
use crate::sys::sent_back::SentBack;
use crate::sys::socket::{Arena, BATCH_MESSAGES, Flag, Message, SEGMENTS_MAX, Socket};

/// UDP's port of RoCE v2. Source: IANA's registry of service names and port numbers.
const PORT: u16 = 4791;
/// Room for one received message \[byte\]: the longest train plus some bytes, so that the buffers
/// begin in different sets of the first-level cache.
const MESSAGE_BYTES: usize = 65_536 + 320;
/// Messages received by calls of their own, and the most of one batch if they are trains: their
/// places stay in the second-level cache.
const FEW_MESSAGES: usize = 8;
/// Messages shorter than this may come by the batch \[byte\].
const SHORT_BYTES: usize = 16 << 10;
/// Largest UDP payload of a datagram \[byte\]: 65535 − 20 − 8; for a train over IPv6, 20 fewer.
const DATAGRAM_BYTES_MAX_V4: usize = 65_507;
const DATAGRAM_BYTES_MAX_V6: usize = 65_487;
/// Headers of IP and UDP \[byte\]. Source: RFC 791, RFC 8200, RFC 768.
const HEADERS_V4: usize = 20 + 8;
const HEADERS_V6: usize = 40 + 8;
/// IP_PMTUDISC_PROBE: frames must not be fragmented, and only the interface's MTU limits them,
/// never an ICMP message. Source: <linux/in.h>.
const MUST_NOT_BE_CUT: i32 = libc::IP_PMTUDISC_PROBE;
/// ECN-capable transport, ECT(0), and congestion experienced. Source: RFC 3168, 5.
const ECN_CAPABLE: i32 = 0b10;
const ECN_MASK: u8 = 0b11;
/// The pause after the queue of a device was full.
const QUEUE_FULL_PAUSE: Duration = Duration::from_micros(50);

/// The configuration of a port.
#[derive(Clone, Debug)]
pub struct UdpPortConfig {
    /// Address and port to receive on and send from. An IPv6 port is for IPv6 alone.
    pub local: SocketAddr,
    /// Receive buffer to ask for \[byte\].
    pub receive_buffer_bytes: u32,
    /// Send buffer to ask for \[byte\].
    pub send_buffer_bytes: u32,
    /// Send equal frames to one address as trains (UDP_SEGMENT).
    pub segmentation: bool,
    /// Let the kernel join frames to trains (UDP_GRO); a train that it drops then counts as one.
    pub gro: bool,
    /// Let several sockets share the port, each with a share of the senders (SO_REUSEPORT).
    pub reuse_port: bool,
    /// Busy polling in the driver \[us\] (SO_BUSY_POLL); 0 is off.
    pub busy_poll_us: u32,
    /// Mark frames as ECT(0): their transport reacts to congestion marks.
    pub ecn: bool,
    /// MTU to use \[byte\]; `None`: the interface's.
    pub mtu: Option<u32>,
    /// Time for which [`UdpPort::wait`] polls before it follows `when_empty`.
    pub spin: Duration,
    /// The behaviour of [`UdpPort::wait`] while nothing arrives.
    pub when_empty: WhenEmpty,
}

impl UdpPortConfig {
    /// Returns the defaults for one address: 64 MiB to receive, 4 MiB to send, trains both ways,
    /// ECN, sleep at once.
    #[must_use]
    pub fn new(local: SocketAddr) -> UdpPortConfig {
        UdpPortConfig {
            local,
            receive_buffer_bytes: 64 << 20,
            send_buffer_bytes: 4 << 20,
            segmentation: true,
            gro: true,
            reuse_port: false,
            busy_poll_us: 0,
            ecn: true,
            mtu: None,
            spin: Duration::ZERO,
            when_empty: WhenEmpty::Block,
        }
    }
}

impl Default for UdpPortConfig {
    /// Returns the defaults for loopback, port 4791.
    fn default() -> UdpPortConfig {
        UdpPortConfig::new(SocketAddr::from(([127, 0, 0, 1], PORT)))
    }
}

/// A UDP socket as a [`Port`].
pub struct UdpPort {
    socket: Socket,
    /// Its part in a port of several sockets.
    share: Option<Share>,
    local: SocketAddr,
    limits: PortLimits,
    buffer: BufferReport,
    trains: Trains,
    arena: Arena,
    /// Places for received messages, [`MESSAGE_BYTES`] each.
    room: Box<[u8]>,
    /// In a cell, because [`Port::local`] and [`Port::counters`] borrow the port shared.
    routes: RefCell<Routes>,
    drops: Cell<DropCount>,
    counters: PortCounters,
    spin: Duration,
    when_empty: WhenEmpty,
    /// True if the last batch emptied the socket.
    drained: bool,
    /// Messages to look for in the next batch: about as many as came in the last one, or one.
    expected: usize,
    /// The device had no room: its socket is writable all the same.
    queue_full: bool,
    /// The kernel reported an error: its queue of errors may have more.
    has_errors: bool,
}

impl UdpPort {
    /// Opens, sets up and binds the socket; frames are buffered by the kernel from then on.
    ///
    /// Errors: [`BindError`], a sentence each. A smaller buffer than configured is not an error:
    /// see [`UdpPort::buffer`]. Cost: about twenty system calls, 4.5 MiB.
    pub fn bind(config: UdpPortConfig) -> Result<UdpPort, BindError> {
        let opened = open(&config)?;
        UdpPort::on(opened, &config, None)
    }

    /// Opens `count` ports at one address, each for the node of one thread. The kernel gives each
    /// port the frames of its node's connections, and a port that is dropped leaves its share of
    /// new connections to the others. No program of another user can join them.
    ///
    /// Errors: [`BindError`], a sentence each; also where a socket of this user shares the port
    /// already. Cost: that of [`UdpPort::bind`] for each.
    pub fn bind_threads(config: &UdpPortConfig, count: usize) -> Result<Vec<UdpPort>, BindError> {
        shared::check_count(count)?;
        if count == 1 {
            return Ok(vec![UdpPort::bind(config.clone())?]);
        }
        let first = open(&UdpPortConfig { reuse_port: false, ..config.clone() })?;
        shared::let_others_join(&first.socket, config.local)?;
        let at = first.socket.local_address();
        let local = at.map_err(refused("report the local address", config.local))?;
        let config = UdpPortConfig { local, reuse_port: true, ..config.clone() };
        let mut all = vec![first];
        for _ in 1..count {
            all.push(open(&config)?);
        }
        let copies = all.iter().map(|opened| &opened.socket);
        let shares = shared::join(copies, local)?;
        let ports = all.into_iter().zip(shares);
        ports.map(|(opened, share)| UdpPort::on(opened, &config, Some(share))).collect()
    }

    /// Returns the port of an open socket.
    fn on(
        opened: OpenedSocket,
        config: &UdpPortConfig,
        share: Option<Share>,
    ) -> Result<UdpPort, BindError> {
        let OpenedSocket { socket, granted_bytes } = opened;
        let local =
            socket.local_address().map_err(refused("report the local address", config.local))?;
        let mtu = config.mtu.unwrap_or_else(|| route::mtu(local.ip()));
        let (headers, datagram_bytes_max) = match local {
            SocketAddr::V4(_) => (HEADERS_V4, DATAGRAM_BYTES_MAX_V4),
            SocketAddr::V6(_) => (HEADERS_V6, DATAGRAM_BYTES_MAX_V6),
        };
        let frame_bytes_max = (mtu as usize).saturating_sub(headers).clamp(1, datagram_bytes_max);
        let limits = PortLimits {
            port: "udp",
            frame_bytes_max,
            // The kernel counts the last quarter that a reader frees as used until the queue is
            // empty. Source: `udp_rmem_release` of Linux.
            receive_buffer_bytes: granted_bytes as usize * 2 / 4 * 3,
            frame_cost: frame_cost(frame_bytes_max),
            train_frames: if config.segmentation { SEGMENTS_MAX } else { 1 },
            member: share.as_ref().map_or(Member::ALONE, |share| share.membership.member()),
        };
        Ok(UdpPort {
            socket,
            share,
            local,
            limits,
            buffer: BufferReport { asked_bytes: config.receive_buffer_bytes, granted_bytes },
            trains: Trains::new(datagram_bytes_max, config.segmentation),
            arena: Arena::new(),
            room: vec![0; BATCH_MESSAGES * MESSAGE_BYTES].into_boxed_slice(),
            routes: RefCell::default(),
            drops: Cell::default(),
            counters: PortCounters::default(),
            spin: config.spin,
            when_empty: config.when_empty,
            drained: false,
            expected: 1,
            queue_full: false,
            has_errors: false,
        })
    }

    /// Returns the bound address, with the actual port.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Returns the receive buffer, requested and granted.
    #[must_use]
    pub fn buffer(&self) -> BufferReport {
        self.buffer
    }

    /// Returns the number of frames that arrived here for another thread of the same address, and
    /// were given to it: trains to several threads arrive as one message.
    #[must_use]
    pub fn frames_handed_over(&self) -> u64 {
        self.share.as_ref().map_or(0, |share| share.membership.frames_handed_over())
    }

    /// Returns true when equal frames leave as trains; `false` also after the device refused one.
    ///
    /// The frames of that train leave one by one, with identification 0 each.
    #[must_use]
    pub fn segmentation(&self) -> bool {
        self.trains.segmentation()
    }

    /// Returns true when frames wait for room in the kernel; [`UdpPort::wait`] returns when there
    /// is some.
    #[must_use]
    pub fn pending(&self) -> bool {
        !self.trains.is_empty()
    }

    /// Waits until a frame has arrived, or waiting frames can be sent; returns `false` if the time
    /// has passed or a signal came.
    ///
    /// Spins first for as long as configured; a port that naps sleeps longer than needed, so that
    /// a batch gathers. Errors: the kernel's. Cost: one system call at least.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        let start = Instant::now();
        let spin = if self.when_empty == WhenEmpty::Spin { timeout } else { self.spin };
        if self.drained {
            self.nap(timeout);
        }
        while start.elapsed() < spin.min(timeout) {
            if self.ready(Duration::ZERO)? {
                return Ok(true);
            }
            std::hint::spin_loop();
        }
        let ready = self.ready(timeout.saturating_sub(start.elapsed()))?;
        if ready && !self.drained {
            self.nap(timeout.saturating_sub(start.elapsed()));
        }
        Ok(ready)
    }

    /// Returns the socket's descriptor, for `epoll` and its kin. It belongs to the port.
    #[must_use]
    pub fn descriptor(&self) -> i32 {
        self.socket.number()
    }

    fn nap(&self, at_most: Duration) {
        if let WhenEmpty::Nap(nap) = self.when_empty {
            std::thread::sleep(nap.min(at_most));
        }
    }

    fn ready(&self, timeout: Duration) -> io::Result<bool> {
        if self.share.as_ref().is_some_and(|share| share.membership.has_waiting()) {
            return Ok(true);
        }
        let pending = self.pending();
        if pending && self.queue_full {
            let read = self.socket.wait_ready(false, timeout.min(QUEUE_FULL_PAUSE))?;
            return Ok(read || timeout >= QUEUE_FULL_PAUSE);
        }
        self.socket.wait_ready(pending, timeout)
    }

    /// Sends the waiting frames, until the kernel has no room.
    fn push(&mut self) {
        while !self.trains.is_empty() {
            self.counters.calls_sending += 1;
            match self.trains.next(|bytes, parts| self.socket.send_parts(bytes, parts)) {
                Ok(messages) => self.took(messages),
                Err(error) => {
                    if !self.goes_on(&error) {
                        return;
                    }
                }
            }
        }
    }

    fn took(&mut self, messages: usize) {
        if self.trains.first_is_apart() {
            // The frames were sent one by one although the train was refused: the device refuses
            // trains.
            self.trains.stop_segmentation();
        }
        let (frames, bytes) = self.trains.sent(messages);
        self.counters.frames_sent += frames as u64;
        self.counters.bytes_sent += bytes as u64;
        self.queue_full = false;
    }

    /// Decides about the first train: keeps it (`false`), takes it apart, or drops it.
    fn goes_on(&mut self, error: &io::Error) -> bool {
        match error.raw_os_error() {
            Some(libc::EINTR) => true,
            Some(libc::EAGAIN) => {
                self.queue_full = false;
                false
            }
            Some(libc::ENOBUFS | libc::ENOMEM) => {
                self.queue_full = true;
                false
            }
            // An answer to an earlier frame, which the kernel reports once.
            Some(libc::ECONNREFUSED) => {
                self.has_errors = true;
                true
            }
            Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE) if self.trains.take_first_apart() => {
                self.has_errors = true;
                true
            }
            _ => {
                self.has_errors = true;
                self.counters.frames_refused += self.trains.drop_first() as u64;
                true
            }
        }
    }

    /// Fetches the messages that are expected; returns how many were there.
    ///
    /// An error is a signal, or an ICMP message about a frame sent earlier: nothing has arrived.
    fn fetch(&mut self) -> usize {
        let mut places = self.room.chunks_exact_mut(MESSAGE_BYTES);
        if self.expected > FEW_MESSAGES {
            self.counters.calls_receiving += 1;
            let received = self.socket.receive(&mut self.arena, places);
            return received.unwrap_or_else(|error| self.no_message(0, &error));
        }
        for index in 0..self.expected {
            let Some(place) = places.next() else { return index };
            self.counters.calls_receiving += 1;
            if let Err(error) = self.socket.receive_one(&mut self.arena, index, place) {
                return self.no_message(index, &error);
            }
        }
        self.expected
    }

    /// Notes an error that is an answer to an earlier frame; returns the number of messages.
    fn no_message(&mut self, received: usize, error: &io::Error) -> usize {
        self.has_errors |= error.kind() != io::ErrorKind::WouldBlock;
        received
    }

    /// Returns the address that a message was sent to.
    fn destination(local: SocketAddr, message: &Message) -> SocketAddr {
        let Some((ip, interface)) = message.destination else { return local };
        match ip {
            IpAddr::V6(ip) if ip.is_unicast_link_local() => {
                SocketAddrV6::new(ip, local.port(), 0, interface).into()
            }
            ip => SocketAddr::new(ip, local.port()),
        }
    }

    fn note_drops(drops: &Cell<DropCount>, low: u32) {
        let mut count = drops.get();
        count.read(low);
        drops.set(count);
    }
}

impl Port for UdpPort {
    fn limits(&self) -> &PortLimits {
        &self.limits
    }

    /// Returns the address bound; for the wildcard the one of the kernel's route, remembered for
    /// the last 64 peers. A link-local IPv6 peer has none, because its interface is not known.
    fn local(&self, peer: IpAddr) -> Option<SocketAddr> {
        if peer.is_ipv4() != self.local.is_ipv4() {
            return None;
        }
        if !self.local.ip().is_unspecified() {
            return Some(self.local);
        }
        let source = self.routes.borrow_mut().source(peer)?;
        Some(SocketAddr::new(source, self.local.port()))
    }

    fn frame(&mut self, to: SocketAddr, bytes: usize) -> Option<Outgoing<'_>> {
        let OutgoingTrain { bytes, identification } = self.train(to, bytes, 1)?;
        Some(Outgoing { bytes, identification })
    }

    fn train(&mut self, to: SocketAddr, bytes: usize, frames: usize) -> Option<OutgoingTrain<'_>> {
        if bytes == 0 || bytes > self.limits.frame_bytes_max {
            return None;
        }
        let (first, index) = match self.trains.place(to, bytes) {
            Some(place) => place,
            None => {
                self.push();
                self.trains.place(to, bytes)?
            }
        };
        let place = first.start..self.trains.extend_last(bytes, frames - 1);
        // IPv6 has no identification.
        let identification = if to.is_ipv4() { index as u16 } else { 0 };
        Some(OutgoingTrain { bytes: self.trains.bytes_mut(place), identification })
    }

    /// Sends all frames to the kernel. Frames without room stay, in order, for the next flush; a
    /// train that it refuses for another reason is lost, and counted.
    fn flush(&mut self, _now: Moment) {
        self.push();
    }

    fn receive(&mut self, now: Moment, take: &mut dyn FnMut(Incoming<'_>)) -> usize {
        self.receive_trains(now, &mut |train| {
            (0..train.frames()).filter_map(|index| train.frame(index)).for_each(&mut *take);
        })
    }

    /// Receives the frames of at most 64 messages, each a frame or a train. Cost: one system call
    /// for each of the first eight messages, or one for a batch where many are expected.
    fn receive_trains(&mut self, _now: Moment, take: &mut dyn FnMut(IncomingTrain<'_>)) -> usize {
        let expected = self.expected;
        let count = self.fetch();
        self.drained = count < expected;
        let (mut frames, mut bytes, mut bytes_fetched) = (0, 0, 0);
        let mut give = |train: IncomingTrain<'_>| {
            frames += train.frames();
            bytes += train.bytes.len();
            take(train);
        };
        if let Some(share) = &mut self.share {
            share.membership.collect(&mut give);
        }
        for index in 0..count {
            let message = self.arena.message(index);
            if let Some(drops) = message.drops {
                Self::note_drops(&self.drops, drops);
            }
            let Some(from) = self.arena.sender(index) else { continue };
            let to = Self::destination(self.local, &message);
            let congestion = message.traffic_class & ECN_MASK == ECN_MASK;
            let start = index * MESSAGE_BYTES;
            let train = &self.room[start..start + message.sent_bytes.min(MESSAGE_BYTES)];
            let frame_bytes = match message.segment_bytes as usize {
                0 => train.len().max(1),
                bytes => bytes,
            };
            bytes_fetched += train.len();
            // Linux counts up the identification of a train's frames.
            let identification = Identification::Likely(0);
            let train =
                IncomingTrain { from, to, bytes: train, frame_bytes, identification, congestion };
            match &mut self.share {
                None => give(train),
                Some(share) => share.membership.sort(&train, &mut give),
            }
        }
        if let Some(share) = &mut self.share {
            share.wake(&self.socket);
        }
        self.counters.frames_received += frames as u64;
        self.counters.bytes_received += bytes as u64;
        self.expected = next_batch(expected, count, bytes_fetched < count * SHORT_BYTES);
        frames
    }

    /// Takes the next frame that a host sent back. Cost: none, unless the kernel reported an error.
    fn refused(&mut self) -> Option<SocketAddr> {
        while self.has_errors {
            match self.socket.next_sent_back() {
                Some(SentBack { to, no_program: true }) => return to,
                Some(_) => {}
                None => self.has_errors = false,
            }
        }
        None
    }

    /// Returns the counters. `frames_dropped` counts frames that the kernel dropped until now,
    /// because the receive buffer was full or the checksum wrong: exact without GRO; with it a
    /// train is one.
    ///
    /// Cost: one system call.
    fn counters(&self) -> PortCounters {
        if let Ok(drops) = self.socket.drops() {
            Self::note_drops(&self.drops, drops);
        }
        let handed = self.share.as_ref().map_or(0, |share| share.membership.frames_dropped());
        PortCounters { frames_dropped: self.drops.get().total + handed, ..self.counters }
    }
}

/// Returns the number of messages to look for after `count` of `expected` have come.
const fn next_batch(expected: usize, count: usize, are_short: bool) -> usize {
    let wanted = match count {
        0 => 1,
        full if full == expected => expected * 2,
        some => some.next_power_of_two(),
    };
    match are_short {
        true if wanted > FEW_MESSAGES => BATCH_MESSAGES,
        _ if wanted > FEW_MESSAGES => FEW_MESSAGES,
        _ => wanted,
    }
}

/// Returns the bytes that the kernel accounts for a frame besides its own, at worst.
///
/// Over loopback a frame lies in a block of the next power of two above its length and 374, with
/// 256 for its descriptor; from 16 KiB on it costs 832. Measured on Linux 6.18 for all lengths, and
/// again by a test. A network card's driver may use a page (4096) for the shortest frame.
const fn frame_cost(frame_bytes_max: usize) -> usize {
    if frame_bytes_max < 7_808 { 4_096 + 832 } else { 16_384 + 256 - 7_808 }
}

/// A bound socket.
struct OpenedSocket {
    socket: Socket,
    /// The granted receive buffer without the kernel's own half \[byte\].
    granted_bytes: u32,
}

/// Opens and binds the socket.
fn open(config: &UdpPortConfig) -> Result<OpenedSocket, BindError> {
    let address = config.local;
    let socket = Socket::new(address.ip()).map_err(refused("open a socket", address))?;
    set_for_family(&socket, config).map_err(refused("set IP options", address))?;
    if config.reuse_port {
        socket.set(Flag::ReusePort, 1).map_err(refused("share the port", address))?;
    }
    let granted_bytes = super::receiver::ask_buffer(&socket, config.receive_buffer_bytes)
        .map_err(refused("size the receive buffer", address))?;
    let send_buffer = i32::try_from(config.send_buffer_bytes).unwrap_or(i32::MAX);
    socket
        .set(Flag::SendBufferForce, send_buffer)
        .or_else(|_| socket.set(Flag::SendBuffer, send_buffer))
        .map_err(refused("size the send buffer", address))?;
    socket.set(Flag::DropCounter, 1).map_err(refused("switch on the drop counter", address))?;
    if config.gro {
        socket.set(Flag::Gro, 1).map_err(refused("switch on UDP_GRO", address))?;
    }
    if config.busy_poll_us > 0 {
        let us = i32::try_from(config.busy_poll_us).unwrap_or(i32::MAX);
        socket.set(Flag::BusyPollMicroseconds, us).map_err(refused("busy-poll", address))?;
    }
    bind::bind(&socket, address)?;
    Ok(OpenedSocket { socket, granted_bytes })
}

/// Sets options whose names differ between IPv4 and IPv6.
fn set_for_family(socket: &Socket, config: &UdpPortConfig) -> io::Result<()> {
    let v6 = config.local.is_ipv6();
    let pick = |v4, other| if v6 { other } else { v4 };
    if v6 {
        socket.set(Flag::V6Only, 1)?;
        // Linux's rdma_rxe sends RoCEv2 over IPv6 without a UDP checksum; frames have their ICRC.
        socket.set(Flag::ReceiveWithoutChecksumV6, 1)?;
    }
    socket.set(pick(Flag::DiscoverMtuV4, Flag::DiscoverMtuV6), MUST_NOT_BE_CUT)?;
    // A host says when no program has a port: then its process has ended.
    socket.report_sent_back(v6)?;
    socket.set(pick(Flag::ReportTrafficClassV4, Flag::ReportTrafficClassV6), 1)?;
    if config.ecn {
        socket.set(pick(Flag::TrafficClassV4, Flag::TrafficClassV6), ECN_CAPABLE)?;
    }
    if config.local.ip().is_unspecified() {
        socket.set(pick(Flag::ReportDestinationV4, Flag::ReportDestinationV6), 1)?;
    }
    Ok(())
}
