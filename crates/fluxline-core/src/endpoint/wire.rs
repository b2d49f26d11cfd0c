//! The way of a connection's frames: into the port with an ICRC, and out of it without.

use core::net::SocketAddr;

use super::frames::{CONTROL_BYTES_MAX, Selective, Setup};
use super::management::mad::{FRAME_BYTES, MAD_BYTES, emit_frame};
use super::posted::PayloadSource;
use crate::port::{Identification, Incoming, IncomingTrain, Port};
use crate::roce::{
    HeaderTemplate, Headers, ICRC_BYTES, IcrcContext, LengthIcrc, PacketSum, Psn, QueuePair,
    TemplateFields, UnsummedPacket, Verdict, packet_sum, pad_bytes, split_icrc,
};

/// The addresses of both ends, with the invariant CRC of each direction.
///
/// Frames go to the peer's port for RoCEv2. The peer may send from another port, as cards and
/// Linux's rdma_rxe do to spread connections over paths.
/// Source: InfiniBand specification 1.4, A17.9.3 (the source port is the sender's choice).
pub(super) struct Ends {
    pub local: SocketAddr,
    pub peer: SocketAddr,
    sum: PacketSum,
    out: IcrcContext,
    back: Back,
}

/// The direction from the peer to here.
enum Back {
    /// The peer sends from this address.
    Pinned { from: SocketAddr, icrc: IcrcContext },
    /// The peer's source port is learned from its first accepted frame.
    Unknown,
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
        let icrc = IcrcContext::new(peer, local).ok()?;
        let back = Back::Pinned { from: peer, icrc };
        Some(Ends { local, peer, sum: packet_sum, out, back })
    }

    /// Sums packets by another function.
    pub fn with_sum(self, sum: PacketSum) -> Ends {
        let back = match self.back {
            Back::Pinned { from, icrc } => Back::Pinned { from, icrc: icrc.with_sum(sum) },
            Back::Unknown => Back::Unknown,
        };
        Ends { sum, out: self.out.with_sum(sum), back, ..self }
    }

    /// Expects frames from another source port of the peer; `None`: from the one that
    /// [`Ends::pin`] learns.
    pub fn with_source_port(mut self, port: Option<u16>) -> Ends {
        self.back = Back::Unknown;
        if let Some(port) = port {
            let mut from = self.peer;
            from.set_port(port);
            self.pin(from);
        }
        self
    }

    /// Returns true when a frame from this address can be the peer's.
    #[inline]
    pub fn is_sender(&self, from: SocketAddr) -> bool {
        match &self.back {
            Back::Pinned { from: pinned, .. } => *pinned == from,
            Back::Unknown => {
                let mut possible = self.peer;
                possible.set_port(from.port());
                possible == from
            }
        }
    }

    /// Returns true when the source port is known.
    #[inline]
    pub fn is_pinned(&self) -> bool {
        matches!(self.back, Back::Pinned { .. })
    }

    /// Expects all further frames from this address. Does nothing for an address of another family.
    pub fn pin(&mut self, from: SocketAddr) {
        if let Ok(icrc) = IcrcContext::new(from, self.local) {
            self.back = Back::Pinned { from, icrc: icrc.with_sum(self.sum) };
        }
    }

    /// Returns the verdict on the frame's ICRC.
    #[inline]
    fn verify(&self, frame: &Incoming<'_>) -> Verdict {
        let likely = frame.identification.value();
        match &self.back {
            Back::Pinned { icrc, .. } => icrc.verify(frame.bytes, likely),
            Back::Unknown => IcrcContext::new(frame.from, self.local)
                .map_or(Verdict::Mismatch, |icrc| icrc.verify(frame.bytes, likely)),
        }
    }

    /// Returns the check of a train's frames. `None`: the sender is not known, or not the peer.
    pub fn train_check(&self, train: &IncomingTrain<'_>, check: IcrcCheck) -> Option<TrainCheck> {
        let Back::Pinned { from, icrc } = &self.back else { return None };
        let packet_bytes = train.frame_bytes.checked_sub(ICRC_BYTES)?;
        let length = icrc.of_length(packet_bytes);
        (*from == train.from).then_some(TrainCheck { check, length })
    }

    /// Returns the frame without its ICRC, if the ICRC is right.
    pub fn opened<'a>(&self, frame: &Incoming<'a>, check: IcrcCheck) -> Option<&'a [u8]> {
        let (bytes, _) = split_icrc(frame.bytes)?;
        if !check.is_required && frame.bytes.ends_with(&UNCHECKED) {
            return Some(bytes);
        }
        match (self.verify(frame), frame.identification) {
            (Verdict::Match { identification }, Identification::Seen(seen)) => {
                (identification == seen || self.peer.is_ipv6()).then_some(bytes)
            }
            (Verdict::Match { identification }, Identification::Likely(_)) => {
                (identification <= check.identification_max).then_some(bytes)
            }
            (Verdict::Mismatch, _) => None,
        }
    }
}

/// Checks the ICRCs of a train's frames of full length, of which each is the likely one.
pub(super) struct TrainCheck {
    check: IcrcCheck,
    length: LengthIcrc,
}

impl TrainCheck {
    /// Returns true when the ICRC of a frame fits its likely identification, or is left out by
    /// agreement. A frame that is not accepted may still be right.
    #[inline]
    pub fn accepts(&self, frame: &Incoming<'_>) -> bool {
        let Some((packet, received)) = split_icrc(frame.bytes) else { return false };
        if !self.check.is_required && received == 0 {
            return true;
        }
        let identification = frame.identification.value();
        identification <= self.check.identification_max
            && self.length.icrc(identification, packet) == received
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

/// Equal frames of one operation.
pub(super) struct PayloadTrain<'a> {
    pub template: HeaderTemplate,
    pub first: Psn,
    pub source: &'a PayloadSource,
    /// Offset of the first frame's payload in the source \[byte\].
    pub at: u64,
    /// The payload of each frame \[byte\].
    pub payload_bytes: usize,
    pub frames: usize,
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

    /// Sends equal frames of one operation, as many as the port takes at once; returns how many.
    /// `asks`, called for each in order, returns true for those that request an acknowledgement.
    pub fn train(&mut self, train: &PayloadTrain<'_>, mut asks: impl FnMut(Psn) -> bool) -> usize {
        let PayloadTrain { template, first, payload_bytes, frames, .. } = train;
        let end = template.bytes() + payload_bytes;
        let packet_bytes = end + pad_bytes(*payload_bytes);
        let frame_bytes = packet_bytes + ICRC_BYTES;
        let Some(room) = self.port.train(self.ends.peer, frame_bytes, *frames) else { return 0 };
        let icrc = self.checked.then(|| self.ends.out.of_length(packet_bytes));
        let mut sent = 0;
        for frame in room.bytes.chunks_exact_mut(frame_bytes) {
            let (packet, check) = frame.split_last_chunk_mut().expect("a frame ends with an ICRC");
            let (psn, advance) = (first.plus(sent as u32), (sent * payload_bytes) as u64);
            let acknowledge_request = asks(psn);
            template.emit(&TemplateFields { psn, acknowledge_request, advance }, packet);
            packet[end..].fill(0);
            let (at, payload) = (train.at + advance, template.bytes()..end);
            *check = match icrc {
                None => {
                    train.source.copy(at, &mut packet[payload]);
                    UNCHECKED
                }
                Some(icrc) => {
                    let state = icrc.state(room.identification.wrapping_add(sent as u16));
                    let (bytes, sum) = (packet, icrc.sum());
                    let unsummed = UnsummedPacket { state, bytes, payload, sum };
                    (!train.source.copy_summed(at, unsummed)).to_le_bytes()
                }
            };
            sent += 1;
        }
        sent
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

    /// Sends a management datagram. Returns false when the port has no room now.
    pub fn management(&mut self, mad: &[u8; MAD_BYTES], psn: Psn) -> bool {
        let Some(frame) = self.port.frame(self.ends.peer, FRAME_BYTES + ICRC_BYTES) else {
            return false;
        };
        emit_frame(mad, psn, &mut frame.bytes[..FRAME_BYTES]);
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
    let (bytes, icrc) = frame.split_last_chunk_mut().expect("callers made room for the ICRC");
    *icrc = match checked {
        true => ends.out.icrc(identification, bytes).to_le_bytes(),
        false => UNCHECKED,
    };
}
