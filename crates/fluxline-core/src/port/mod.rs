//! Frames in and out: what the reliable endpoint rides on. A port promises nothing: frames may be
//! lost, repeated, reordered or damaged, and nobody is told.
//!
//! A frame is the payload of one UDP datagram. Frames are written where the port sends them from,
//! and read where it received them: no copy besides the port's own.

pub mod lossy;
pub mod network;
pub mod tap;

use core::net::{IpAddr, SocketAddr};

use crate::Moment;

/// One network interface, or one UDP socket, or something that behaves like them.
///
/// No call blocks.
pub trait Port {
    /// Returns what this port can do; it never changes.
    fn limits(&self) -> &PortLimits;

    /// The address from which frames to `peer` are sent. `None`: there is no way to it.
    fn local(&self, peer: IpAddr) -> Option<SocketAddr>;

    /// A place for a frame of `bytes` to `to`, to be filled before the next call; sent by `flush`
    /// at the latest, in the order of the calls. `None`: no room until frames have left; flush
    /// and try later.
    ///
    /// `bytes` is 1 to [`PortLimits::frame_bytes_max`]; more is refused as `None`.
    fn frame(&mut self, to: SocketAddr, bytes: usize) -> Option<Outgoing<'_>>;

    /// Hands all frames to the link. What the link refuses is lost, and counted.
    fn flush(&mut self, now: Moment);

    /// Gives frames that have arrived to `take`, a bounded batch of them; says how many.
    fn receive(&mut self, now: Moment, take: &mut dyn FnMut(Incoming<'_>)) -> usize;

    /// Returns when `flush` or `receive` has work although nothing arrives: frames that are
    /// delayed on purpose. `None`: never.
    fn deadline(&self) -> Option<Moment> {
        None
    }

    /// Returns the frames that passed, and those lost as far as this side knows.
    fn counters(&self) -> PortCounters;
}

/// The limits of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortLimits {
    /// The port's name, for reports: `udp`, `xdp`, `memory`.
    pub port: &'static str,
    /// The largest frame: the interface's MTU without the headers of IP and UDP \[byte\].
    pub frame_bytes_max: usize,
    /// Receive buffer: bytes that may wait before frames are dropped, with
    /// what the port spends on each frame counted in ([`PortLimits::frame_cost`]) \[byte\].
    pub receive_buffer_bytes: usize,
    /// Bytes of `receive_buffer_bytes` that a frame occupies besides its own.
    pub frame_cost: usize,
    /// The most frames to one address that are best sent together; 1: no gain from more.
    pub train_frames: usize,
}

/// A place for a frame to be sent.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// As long as asked for; what is in it before is undefined.
    pub bytes: &'a mut [u8],
    /// The identification that its IPv4 header will have; part of the invariant CRC.
    pub identification: u16,
}

/// A frame that has arrived.
#[derive(Debug)]
pub struct Incoming<'a> {
    /// Its sender.
    pub from: SocketAddr,
    /// The address that it was sent to.
    pub to: SocketAddr,
    /// The bytes.
    pub bytes: &'a [u8],
    /// The identification of its IPv4 header, where the port sees it.
    pub identification: Option<u16>,
    /// A switch on its way marked it: congestion experienced (RFC 3168).
    pub congestion: bool,
}

/// Counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames handed to the link.
    pub frames_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Frames that the link refused: no route, no neighbour, interface down, buffer full.
    pub frames_refused: u64,
    /// Frames given to `take`.
    pub frames_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Frames that arrived at this host and were dropped before this port could read them.
    pub frames_dropped: u64,
    /// Calls into the kernel to send.
    pub calls_sending: u64,
    /// Calls into the kernel to receive.
    pub calls_receiving: u64,
}
