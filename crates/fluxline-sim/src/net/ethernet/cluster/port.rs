//! The port of a node: frames to and from the reliable endpoint, which is the code of real links.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use fluxline_core::Moment;
use fluxline_core::port::{
    Identification, Incoming, Member, Outgoing, Port, PortCounters, PortLimits,
};
use fluxline_core::roce::UDP_PORT;

use crate::net::ethernet::config::Config;
use crate::net::ethernet::datagram::{Datagram, Payload, Udp};
use crate::net::ethernet::framing::{IP_BYTES, UDP_BYTES};
use crate::net::ethernet::tap::{ip_address, node_of_address};

/// The name of the link.
pub const LINK: &str = "sim:ethernet";
/// Frames given out in one call.
const BATCH_FRAMES: usize = 64;

/// Returns the address of a node's endpoint.
#[must_use]
pub fn address(node: u32) -> SocketAddr {
    SocketAddr::from((ip_address(node), UDP_PORT))
}

/// The buffers of a socket \[byte of payload\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Frames that wait for the card; with more, the endpoint waits.
    pub send_bytes: usize,
    /// Frames that wait for the endpoint; more are dropped.
    pub receive_bytes: usize,
}

impl Default for Buffers {
    /// A choice: 4 MiB to receive as the tuned hosts of the benchmarks, 1 MiB to send.
    fn default() -> Buffers {
        Buffers { send_bytes: 1 << 20, receive_bytes: 4 << 20 }
    }
}

/// The port of one node.
#[derive(Debug)]
pub struct StationPort {
    node: u32,
    limits: PortLimits,
    send_bytes: usize,
    /// Frames that the endpoint has asked for since its last flush.
    begun: VecDeque<Datagram>,
    /// Frames for the card.
    flushed: VecDeque<Datagram>,
    /// Bytes of both, and of those that the station holds for the card.
    sending_bytes: usize,
    /// True if the endpoint found no room, and has not been polled since.
    was_full: bool,
    /// True if the endpoint can go on, and should be polled.
    has_room: bool,
    arrived: VecDeque<Datagram>,
    arrived_bytes: usize,
    counters: PortCounters,
}

impl StationPort {
    /// Makes the port of a node.
    #[must_use]
    pub fn new(node: u32, config: &Config, buffers: Buffers) -> StationPort {
        let frame_bytes_max = (u64::from(config.mtu) - IP_BYTES - UDP_BYTES) as usize;
        let limits = PortLimits {
            port: LINK,
            frame_bytes_max,
            receive_buffer_bytes: buffers.receive_bytes,
            frame_cost: 0,
            train_frames: 1,
            member: Member::ALONE,
        };
        StationPort {
            node,
            limits,
            send_bytes: buffers.send_bytes,
            begun: VecDeque::new(),
            flushed: VecDeque::new(),
            sending_bytes: 0,
            was_full: false,
            has_room: false,
            arrived: VecDeque::new(),
            arrived_bytes: 0,
            counters: PortCounters::default(),
        }
    }

    /// Takes the next frame for the card. It counts as waiting until [`StationPort::left`].
    pub fn next_flushed(&mut self) -> Option<Datagram> {
        self.flushed.pop_front()
    }

    /// Notes that the card took a frame with this payload \[byte\].
    pub fn left(&mut self, bytes: usize) {
        self.sending_bytes = self.sending_bytes.saturating_sub(bytes);
        self.has_room |= std::mem::take(&mut self.was_full);
    }

    /// Returns true if a frame of this length fits into the receive buffer.
    #[must_use]
    pub fn has_space(&self, bytes: usize) -> bool {
        self.arrived_bytes + bytes <= self.limits.receive_buffer_bytes
    }

    /// Takes a frame into the receive buffer, which has space for it.
    pub fn arrive(&mut self, datagram: Datagram) {
        self.arrived_bytes += datagram.payload_bytes() as usize;
        self.arrived.push_back(datagram);
    }

    /// Counts a frame that was dropped before the endpoint could read it.
    pub fn drop_one(&mut self) {
        self.counters.frames_dropped += 1;
    }

    /// Returns true if frames wait for the endpoint, or room that it waits for.
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.arrived.is_empty() || self.has_room
    }
}

impl Port for StationPort {
    fn limits(&self) -> &PortLimits {
        &self.limits
    }

    fn local(&self, peer: IpAddr) -> Option<SocketAddr> {
        peer.is_ipv4().then(|| address(self.node))
    }

    fn frame(&mut self, to: SocketAddr, bytes: usize) -> Option<Outgoing<'_>> {
        if bytes == 0 || bytes > self.limits.frame_bytes_max {
            return None;
        }
        if self.sending_bytes + bytes > self.send_bytes {
            self.was_full = true;
            return None;
        }
        // A frame to nobody's address is dropped by the switch, as on a real link.
        let target = match to.ip() {
            IpAddr::V4(address) => node_of_address(address).unwrap_or(u32::MAX),
            IpAddr::V6(_) => u32::MAX,
        };
        self.sending_bytes += bytes;
        let udp = Udp {
            from_port: UDP_PORT,
            to_port: to.port(),
            bytes: vec![0; bytes],
            is_marked: false,
        };
        let datagram = Datagram { source: self.node, target, payload: Payload::Udp(udp) };
        self.begun.push_back(datagram);
        match &mut self.begun.back_mut()?.payload {
            // Linux writes 0 for a datagram that must not be fragmented; so does the dump.
            Payload::Udp(udp) => Some(Outgoing { bytes: &mut udp.bytes, identification: 0 }),
            Payload::Message(_) => None,
        }
    }

    fn flush(&mut self, _: Moment) {
        self.has_room = false;
        for datagram in self.begun.drain(..) {
            self.counters.frames_sent += 1;
            self.counters.bytes_sent += datagram.payload_bytes();
            self.flushed.push_back(datagram);
        }
    }

    fn receive(&mut self, _: Moment, take: &mut dyn FnMut(Incoming<'_>)) -> usize {
        let mut count = 0;
        while count < BATCH_FRAMES {
            let Some(datagram) = self.arrived.pop_front() else { break };
            let Datagram { source, payload, .. } = datagram;
            let Payload::Udp(udp) = payload else { continue };
            self.arrived_bytes -= udp.bytes.len();
            self.counters.frames_received += 1;
            self.counters.bytes_received += udp.bytes.len() as u64;
            let from = SocketAddr::from((ip_address(source), udp.from_port));
            let to = SocketAddr::from((ip_address(self.node), udp.to_port));
            let identification = Identification::Seen(0);
            let congestion = udp.is_marked;
            take(Incoming { from, to, bytes: &udp.bytes, identification, congestion });
            count += 1;
        }
        count
    }

    /// Frames that the socket's buffer could not hold are known; all other losses are the
    /// network's.
    fn counters(&self) -> PortCounters {
        self.counters
    }
}
