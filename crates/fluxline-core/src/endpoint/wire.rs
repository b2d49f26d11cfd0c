//! The way of a connection's frames: into the port with an ICRC, and out of it without.

use core::net::SocketAddr;

use super::frames::{CONTROL_BYTES_MAX, Selective, Setup};
use crate::port::{Incoming, Port};
use crate::roce::{Headers, ICRC_BYTES, IcrcContext, QueuePair, Verdict, pad_bytes, split_icrc};

/// The addresses of both ends, with the invariant CRC of each direction.
pub(super) struct Ends {
    pub local: SocketAddr,
    pub peer: SocketAddr,
    out: IcrcContext,
    back: IcrcContext,
}

/// Zeros in place of the ICRC, where both ends agreed to leave it out.
const UNCHECKED: [u8; ICRC_BYTES] = [0; ICRC_BYTES];

/// The demands on the ICRC of a received frame.
#[derive(Clone, Copy)]
pub(super) struct IcrcCheck {
    /// Zeros in place of the ICRC are rejected.
    pub is_required: bool,
    /// The largest identification that is accepted where the port does not see it.
    ///
    /// Fluxline's own ports send identifications up to the number of frames in a train.
    pub identification_max: u16,
}

impl IcrcCheck {
    /// The demands on set-up frames.
    pub const SETUP: IcrcCheck = IcrcCheck { is_required: true, identification_max: u16::MAX };
}

impl Ends {
    /// Returns `None` for addresses of different families.
    pub fn new(local: SocketAddr, peer: SocketAddr) -> Option<Ends> {
        let out = IcrcContext::new(local, peer).ok()?;
        let back = IcrcContext::new(peer, local).ok()?;
        Some(Ends { local, peer, out, back })
    }

    /// Returns the frame without its ICRC, if the ICRC is right.
    pub fn opened<'a>(&self, frame: &Incoming<'a>, check: IcrcCheck) -> Option<&'a [u8]> {
        let (bytes, _) = split_icrc(frame.bytes)?;
        if !check.is_required && frame.bytes.ends_with(&UNCHECKED) {
            return Some(bytes);
        }
        match (self.back.verify(frame.bytes), frame.identification) {
            (Verdict::Match { identification }, Some(seen)) => {
                (identification == seen || self.peer.is_ipv6()).then_some(bytes)
            }
            (Verdict::Match { identification }, None) => {
                (identification <= check.identification_max).then_some(bytes)
            }
            (Verdict::Mismatch, _) => None,
        }
    }
}

/// The route of a connection: its ends, their queue pairs, and the use of the ICRC.
pub(super) struct Route {
    pub ends: Ends,
    pub own_pair: QueuePair,
    pub peer_pair: QueuePair,
    /// Frames carry an ICRC; without it both ends agreed on zeros in its place.
    pub checked: bool,
}

impl Route {
    #[inline]
    pub fn wire<'a, P>(&'a self, port: &'a mut P) -> Wire<'a, P> {
        Wire { port, ends: &self.ends, checked: self.checked, to: self.peer_pair }
    }
}

/// A port on which frames go to one queue pair of one peer.
pub(super) struct Wire<'a, P> {
    port: &'a mut P,
    ends: &'a Ends,
    checked: bool,
    to: QueuePair,
}

impl<'a, P> Wire<'a, P> {
    /// Returns a wire for set-up frames, which always carry an ICRC.
    pub fn setup_to(to: QueuePair, ends: &'a Ends, port: &'a mut P) -> Wire<'a, P> {
        Wire { port, ends, checked: true, to }
    }
}

impl<P: Port> Wire<'_, P> {
    /// Returns the peer's queue pair.
    #[inline]
    pub fn to(&self) -> QueuePair {
        self.to
    }

    /// Sends a packet; `fill` writes its payload. Returns false when the port has no room now.
    #[inline]
    pub fn packet(
        &mut self,
        headers: &Headers,
        payload_bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        let start = headers.bytes();
        let end = start + payload_bytes;
        let padded = end + pad_bytes(payload_bytes);
        let Some(frame) = self.port.frame(self.ends.peer, padded + ICRC_BYTES) else {
            return false;
        };
        headers.emit(payload_bytes, frame.bytes);
        fill(&mut frame.bytes[start..end]);
        frame.bytes[end..padded].fill(0);
        let identification = frame.identification;
        close(self.ends, self.checked, frame.bytes, identification);
        true
    }

    /// Sends a set-up frame with an ICRC, padded to `frame_bytes` (0: not padded). Returns false
    /// when the port has no room now.
    pub fn setup(&mut self, setup: &Setup<'_>, frame_bytes: usize) -> bool {
        let mut bytes = [0; CONTROL_BYTES_MAX];
        let length = setup.emit(self.to, &mut bytes);
        let whole = (length + ICRC_BYTES).max(frame_bytes / 4 * 4);
        let Some(frame) = self.port.frame(self.ends.peer, whole) else { return false };
        frame.bytes.fill(0);
        frame.bytes[..length].copy_from_slice(&bytes[..length]);
        let checked = true;
        close(self.ends, checked, frame.bytes, frame.identification);
        true
    }

    /// Sends an acknowledgement that names the missing frames. Returns false when the port has no
    /// room now.
    pub fn selective(&mut self, ack: &Selective<'_>) -> bool {
        let mut bytes = [0; CONTROL_BYTES_MAX];
        let length = ack.emit(self.to, &mut bytes);
        let Some(frame) = self.port.frame(self.ends.peer, length + ICRC_BYTES) else {
            return false;
        };
        frame.bytes[..length].copy_from_slice(&bytes[..length]);
        let identification = frame.identification;
        close(self.ends, self.checked, frame.bytes, identification);
        true
    }
}

/// Writes the ICRC at the end of a frame, or zeros in its place.
#[inline]
fn close(ends: &Ends, checked: bool, frame: &mut [u8], identification: u16) {
    let Some((bytes, icrc)) = frame.split_last_chunk_mut::<ICRC_BYTES>() else { return };
    *icrc = match checked {
        true => ends.out.icrc(identification, bytes).to_le_bytes(),
        false => UNCHECKED,
    };
}
