//! Ports: the frames in and out of the reliable endpoint. A port promises nothing: frames may be
//! lost, repeated, reordered or damaged without notice.
//!
//! A frame is the payload of one UDP datagram. Frames are written where the port sends them from,
//! and read where it received them, so only the port itself copies them.

pub mod lossy;
mod member;
pub mod network;
pub mod tap;

use core::net::{IpAddr, SocketAddr};

use crate::Moment;

pub use member::{MEMBERS_MAX, Member};

/// One network interface, or one UDP socket, or something that behaves like them.
///
/// No call blocks. A port may move to another thread, with its node.
pub trait Port: Send {
    /// Returns the limits of this port, which never change.
    fn limits(&self) -> &PortLimits;

    /// Returns the address from which frames to `peer` are sent. `None`: there is no route.
    fn local(&self, peer: IpAddr) -> Option<SocketAddr>;

    /// Returns room for a frame of `bytes` bytes to `to`, to be filled before the next call.
    ///
    /// `flush` sends it at the latest, in the order of the calls. `None`: there is no room until
    /// frames have left; flush and try later.
    ///
    /// `bytes` is 1 to [`PortLimits::frame_bytes_max`]; more is refused as `None`.
    fn frame(&mut self, to: SocketAddr, bytes: usize) -> Option<Outgoing<'_>>;

    /// Returns room for at most `frames` equal frames of `bytes` bytes each to `to`.
    ///
    /// The result is that of as many calls of [`Port::frame`] as it has frames, in one call.
    /// `frames` is at least 1.
    fn train(&mut self, to: SocketAddr, bytes: usize, frames: usize) -> Option<OutgoingTrain<'_>> {
        debug_assert!(frames > 0);
        let Outgoing { bytes, identification } = self.frame(to, bytes)?;
        Some(OutgoingTrain { bytes, identification })
    }

    /// Hands all frames to the link. Frames that the link refuses are lost and counted.
    fn flush(&mut self, now: Moment);

    /// Gives a bounded batch of arrived frames to `take`; returns how many.
    fn receive(&mut self, now: Moment, take: &mut dyn FnMut(Incoming<'_>)) -> usize;

    /// Gives a bounded batch of arrived frames to `take`, equal frames of one sender together;
    /// returns how many frames.
    fn receive_trains(&mut self, now: Moment, take: &mut dyn FnMut(IncomingTrain<'_>)) -> usize {
        self.receive(now, &mut |frame| take(IncomingTrain::of(&frame)))
    }

    /// Returns the destination of a frame that a host sent back, because no program receives there.
    /// `None`: there is none, or the link does not know.
    fn refused(&mut self) -> Option<SocketAddr> {
        None
    }

    /// Returns when `flush` or `receive` has work although nothing arrives: frames that are
    /// delayed on purpose. `None`: never.
    fn deadline(&self) -> Option<Moment> {
        None
    }

    /// Returns the counts of frames that passed, and of those known to be lost.
    fn counters(&self) -> PortCounters;
}

/// The limits of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortLimits {
    /// The port's name, for reports: `udp`, `xdp`, `memory`.
    pub port: &'static str,
    /// The largest frame: the interface's MTU without the headers of IP and UDP \[byte\].
    pub frame_bytes_max: usize,
    /// The receive buffer: bytes that may wait before frames are dropped. Each frame costs
    /// [`PortLimits::frame_cost`] in addition \[byte\].
    pub receive_buffer_bytes: usize,
    /// Bytes of `receive_buffer_bytes` that a frame occupies besides its own.
    pub frame_cost: usize,
    /// The most frames to one address that are best sent together; 1: no gain from more.
    pub train_frames: usize,
    /// The place of this port among those of its address.
    pub member: Member,
}

/// Room for a frame to be sent.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// The room, as long as requested; its content is undefined.
    pub bytes: &'a mut [u8],
    /// The identification that its IPv4 header will have; part of the invariant CRC.
    pub identification: u16,
}

/// Room for equal frames to be sent, one behind the other.
#[derive(Debug)]
pub struct OutgoingTrain<'a> {
    /// The room, a whole number of frames; its content is undefined.
    pub bytes: &'a mut [u8],
    /// The identification of the first frame; that of each further frame is one higher.
    pub identification: u16,
}

/// The identification of a received frame's IPv4 header, which its ICRC covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identification {
    /// The port has seen it.
    Seen(u16),
    /// The port cannot see it. This one is likely: another costs time, not correctness.
    Likely(u16),
}

impl Identification {
    /// Returns the identification, seen or likely.
    #[must_use]
    pub fn value(self) -> u16 {
        match self {
            Identification::Seen(value) | Identification::Likely(value) => value,
        }
    }
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
    /// The identification of its IPv4 header.
    pub identification: Identification,
    /// A switch on its way marked it: congestion experienced (RFC 3168).
    pub congestion: bool,
}

/// Frames that have arrived together. All have the same length but the last, which may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct IncomingTrain<'a> {
    /// Their sender.
    pub from: SocketAddr,
    /// The address that they were sent to.
    pub to: SocketAddr,
    /// The frames, one behind the other.
    pub bytes: &'a [u8],
    /// The length of a frame, at least 1 \[byte\].
    pub frame_bytes: usize,
    /// The identification of the first frame's IPv4 header. That of each further frame is likely
    /// one higher.
    pub identification: Identification,
    /// A switch on their way marked them.
    pub congestion: bool,
}

impl<'a> IncomingTrain<'a> {
    /// Returns a train of one frame.
    #[must_use]
    pub fn of(frame: &Incoming<'a>) -> IncomingTrain<'a> {
        let Incoming { from, to, bytes, identification, congestion } = *frame;
        let frame_bytes = bytes.len().max(1);
        IncomingTrain { from, to, bytes, frame_bytes, identification, congestion }
    }

    /// Returns the number of frames, at least 1: a single frame may be empty.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.bytes.len().div_ceil(self.frame_bytes).max(1)
    }

    /// Returns the frame with this index, if there is one.
    #[must_use]
    #[inline]
    pub fn frame(&self, index: usize) -> Option<Incoming<'a>> {
        let start = index.checked_mul(self.frame_bytes)?;
        let rest = self.bytes.get(start..).filter(|rest| index == 0 || !rest.is_empty())?;
        let IncomingTrain { from, to, congestion, .. } = *self;
        let identification = match index {
            0 => self.identification,
            _ => Identification::Likely(self.identification.value().wrapping_add(index as u16)),
        };
        let bytes = &rest[..rest.len().min(self.frame_bytes)];
        Some(Incoming { from, to, bytes, identification, congestion })
    }
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
