//! Rejected packets: counted by reason, with the first packet of each kind for the report.
//!
//! Strangers choose what arrives, so the table is bounded: kinds beyond it share one count.

use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_packet::Reject;

/// One kind of rejected packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectRow {
    /// Number of the format that rejected them.
    pub format: u16,
    /// The reason, and the broken rule.
    pub reject: Reject,
    /// Number of packets.
    pub packets: u64,
    /// The first of them, whole (at most [`FIRST_BYTES_MAX`]).
    pub first_bytes: Vec<u8>,
    /// The sender of the first one.
    pub first_sender: SenderAddress,
    /// The UDP port that it was sent to.
    pub first_port: u16,
    /// Its time of arrival.
    pub first_time: Moment,
}

/// The largest UDP payload \[byte\], which is kept of a first packet. Source: 65535 − 8, RFC 768.
pub const FIRST_BYTES_MAX: usize = 65_527;

/// Counts of rejected packets.
#[derive(Clone, Debug)]
pub(super) struct Rejects {
    rows: Vec<RejectRow>,
    last: usize,
    kinds_max: usize,
    other: u64,
}

impl Rejects {
    pub(super) fn new(kinds_max: usize) -> Rejects {
        Rejects { rows: Vec::new(), last: 0, kinds_max, other: 0 }
    }

    pub(super) fn count(&mut self, format: u16, reject: Reject, datagram: &Datagram<'_>) {
        let same = |row: &RejectRow| row.format == format && row.reject == reject;
        if !self.rows.get(self.last).is_some_and(same) {
            match self.rows.iter().position(same) {
                Some(place) => self.last = place,
                None if self.rows.len() < self.kinds_max => {
                    self.last = self.rows.len();
                    let kept = datagram.bytes.len().min(FIRST_BYTES_MAX);
                    self.rows.push(RejectRow {
                        format,
                        reject,
                        packets: 0,
                        first_bytes: datagram.bytes[..kept].to_vec(),
                        first_sender: datagram.sender,
                        first_port: datagram.port,
                        first_time: datagram.time,
                    });
                }
                None => {
                    self.other += 1;
                    return;
                }
            }
        }
        self.rows[self.last].packets += 1;
    }

    pub(super) fn rows(&self) -> &[RejectRow] {
        &self.rows
    }

    pub(super) fn other(&self) -> u64 {
        self.other
    }

    pub(super) fn total(&self) -> u64 {
        self.other + self.rows.iter().map(|row| row.packets).sum::<u64>()
    }
}
