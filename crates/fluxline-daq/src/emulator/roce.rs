//! Emulated packets as a simple FPGA sends them over RoCEv2.
//!
//! It sends RDMA WRITE ONLY with immediate on an unreliable connection that both sides are
//! configured for, round a ring of slots. A packet has the PSN and the slot of its number, so one
//! that is withheld leaves a gap in both. A bit that is flipped on purpose is flipped after the
//! invariant CRC, as on the wire.

use std::net::SocketAddr;

use fluxline_core::port::Port;
use fluxline_core::roce::{
    Body, Headers, ICRC_BYTES, IcrcContext, Psn, QueuePair, Reth, Transport, WritePart, pad_bytes,
};

use super::Emission;

/// The address and the ring that an emulated FPGA writes to.
#[derive(Clone, Copy, Debug)]
pub struct WriterConfig {
    /// The receiver.
    pub to: SocketAddr,
    /// The queue pair that frames are addressed to.
    pub queue_pair: QueuePair,
    /// The PSN of the first packet.
    pub first_psn: Psn,
    /// The R_Key.
    pub key: u32,
    /// The address of the region's first byte.
    pub base: u64,
    /// Distance of two packets in the region \[byte\]; at least 1.
    pub slot_bytes: u64,
    /// Number of slots of the ring; at least 1.
    pub slots: u64,
}

/// The counts that a receiver's ledger should have of one writer, to the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterTruth {
    /// Frames sent.
    pub frames: u64,
    /// Of these, with a flipped bit.
    pub wrong_check: u64,
    /// Of these, sent a second time, and whole.
    pub duplicate: u64,
    /// Of these, whole and after one with a higher PSN.
    pub late: u64,
    /// PSNs up to the last frame that no whole frame had.
    pub lost: u64,
}

/// Makes the frames of one source.
#[derive(Debug)]
pub struct Writer {
    config: WriterConfig,
    icrc: IcrcContext,
    newest: Option<u64>,
    before: Option<u64>,
    truth: WriterTruth,
}

impl Writer {
    /// Makes a writer that sends from `from`; `None`: its address is of another family than the
    /// receiver's.
    #[must_use]
    pub fn new(from: SocketAddr, config: WriterConfig) -> Option<Writer> {
        let icrc = IcrcContext::new(from, config.to).ok()?;
        let truth = WriterTruth::default();
        Some(Writer { config, icrc, newest: None, before: None, truth })
    }

    /// Puts a packet's frame into the port; `false`: it has no room now, or the frame is too long.
    pub fn send<P: Port>(&mut self, emission: &Emission<'_>, port: &mut P) -> bool {
        let Emission { number, bytes, flipped_bit, .. } = *emission;
        let config = &self.config;
        let address = config.base.wrapping_add(number % config.slots * config.slot_bytes);
        let reth = Reth { address, key: config.key, bytes: bytes.len() as u32 };
        let body = Body::Write(Transport::Unreliable, WritePart::Only(reth, Some(number as u32)));
        let psn = config.first_psn.plus(number as u32);
        let headers = Headers::new(config.queue_pair, psn, body);
        let start = headers.bytes();
        let end = start + bytes.len();
        let whole = end + pad_bytes(bytes.len()) + ICRC_BYTES;
        let Some(frame) = port.frame(config.to, whole) else { return false };
        headers.emit(bytes.len(), frame.bytes);
        frame.bytes[start..end].copy_from_slice(bytes);
        frame.bytes[end..].fill(0);
        flip(&mut frame.bytes[start..end], flipped_bit);
        if let Some((checked, icrc)) = frame.bytes.split_last_chunk_mut::<ICRC_BYTES>() {
            *icrc = self.icrc.icrc(frame.identification, checked).to_le_bytes();
        }
        flip(&mut frame.bytes[start..end], flipped_bit);
        self.note(number, flipped_bit.is_some());
        true
    }

    fn note(&mut self, number: u64, flipped: bool) {
        let truth = &mut self.truth;
        truth.frames += 1;
        let again = self.before == Some(number);
        self.before = Some(number);
        if flipped {
            truth.wrong_check += 1;
        } else if again {
            truth.duplicate += 1;
        } else if self.newest.is_some_and(|newest| number < newest) {
            truth.late += 1;
            truth.lost -= 1;
        } else {
            truth.lost += number - self.newest.map_or(0, |newest| newest + 1);
            self.newest = Some(number);
        }
    }

    /// Returns the counts of sent frames so far.
    #[must_use]
    pub fn truth(&self) -> WriterTruth {
        self.truth
    }
}

fn flip(bytes: &mut [u8], bit: Option<u64>) {
    let Some(bit) = bit else { return };
    if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
        *byte ^= 1 << (bit % 8);
    }
}
