//! The way of one connection's frames into the port.

use core::net::SocketAddr;

use super::frames::{Selective, Setup};
use crate::port::{Incoming, Port};
use crate::roce::{Headers, ICRC_BYTES, IcrcContext, QueuePair, Verdict, pad_bytes, split_icrc};

/// The two ends as the invariant CRC has them, either way.
pub(super) struct Ends {
    pub local: SocketAddr,
    pub peer: SocketAddr,
    out: IcrcContext,
    back: IcrcContext,
}

/// The check sum on a wire that is checked by others, where both ends agreed to leave it out.
const UNCHECKED: [u8; ICRC_BYTES] = [0; ICRC_BYTES];

impl Ends {
    /// `None`: the two are of different families.
    pub fn new(local: SocketAddr, peer: SocketAddr) -> Option<Ends> {
        let out = IcrcContext::new(local, peer).ok()?;
        let back = IcrcContext::new(peer, local).ok()?;
        Some(Ends { local, peer, out, back })
    }

    /// The frame without its ICRC, if that is right. `checked: false` lets zeros pass.
    ///
    /// Fluxline's own ports send identifications up to the number of frames in a train; where the
    /// port does not see the identification, `identification_max` bounds what is believed.
    pub fn opened<'a>(
        &self,
        frame: &Incoming<'a>,
        (checked, identification_max): (bool, u16),
    ) -> Option<&'a [u8]> {
        let (bytes, _) = split_icrc(frame.bytes)?;
        if !checked && frame.bytes.ends_with(&UNCHECKED) {
            return Some(bytes);
        }
        match (self.back.verify(frame.bytes), frame.identification) {
            (Verdict::Match { identification }, Some(seen)) => {
                (identification == seen || self.peer.is_ipv6()).then_some(bytes)
            }
            (Verdict::Match { identification }, None) => {
                (identification <= identification_max).then_some(bytes)
            }
            (Verdict::Mismatch, _) => None,
        }
    }
}

/// The way of one connection's frames.
pub(super) struct Wire<'a, P> {
    pub port: &'a mut P,
    pub ends: &'a Ends,
    pub checked: bool,
    pub to: QueuePair,
}

impl<P: Port> Wire<'_, P> {
    /// Sends a packet; `fill` writes its payload. `false`: the port has no room now.
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

    /// Sends a set-up frame, padded to `frame_bytes` (0: as short as it is); always checked.
    pub fn setup(&mut self, setup: &Setup<'_>, frame_bytes: usize) -> bool {
        let mut bytes = [0; super::frames::CONTROL_BYTES_MAX];
        let length = setup.emit(self.to, &mut bytes);
        let whole = (length + ICRC_BYTES).max(frame_bytes / 4 * 4);
        let Some(frame) = self.port.frame(self.ends.peer, whole) else { return false };
        frame.bytes.fill(0);
        frame.bytes[..length].copy_from_slice(&bytes[..length]);
        close(self.ends, true, frame.bytes, frame.identification);
        true
    }

    /// Sends an acknowledgement with what is missing.
    pub fn selective(&mut self, ack: &Selective<'_>) -> bool {
        let mut bytes = [0; super::frames::CONTROL_BYTES_MAX];
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

/// Appends the ICRC.
#[inline]
fn close(ends: &Ends, checked: bool, frame: &mut [u8], identification: u16) {
    let Some((bytes, icrc)) = frame.split_last_chunk_mut::<ICRC_BYTES>() else { return };
    *icrc = match checked {
        true => ends.out.icrc(identification, bytes).to_le_bytes(),
        false => UNCHECKED,
    };
}
