//! Packets of a simulated network as a pcapng file, for Wireshark and other readers of captures.
//!
//! A model reports each packet with its link and its start; a [`Dump`] sorts them by time and keeps
//! the bytes of the file in memory, up to a limit. Times are picoseconds of virtual time. These
//! have dumps: a network ([`Interconnect`](super::interconnect::Interconnect)), a
//! [`Cluster`](crate::world::Cluster) by its URL and a [`Scenario`](crate::scenario::Scenario).
//!
//! The writer of captures in `fluxline-daq` is for UDP in Ethernet frames. It cannot be used here,
//! because this crate depends only on `fluxline-core`.

mod pcapng;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

pub use pcapng::{Interface, Packet};

use crate::Instant;

/// The default limit of a dump \[byte\]: about 400,000 packets of 64 bytes. A choice.
pub const LIMIT_BYTES: u64 = 64 << 20;

/// Link type of SCI packets: LINKTYPE_USER0. Source: tcpdump.org, "Link-Layer Header Types"; no
/// number is assigned to SCI.
pub const LINK_TYPE_SCI: u16 = 147;
/// Link type of packets of the generic network: LINKTYPE_USER1.
pub const LINK_TYPE_NETWORK: u16 = 148;

/// A pcapng file that is being written in memory.
///
/// Costs: a copy of each packet's bytes plus about 60 bytes, until the limit is reached.
#[derive(Clone, Debug)]
pub struct Dump {
    bytes: Vec<u8>,
    /// The number of bytes already taken out of `bytes`.
    taken: u64,
    limit_bytes: u64,
    interfaces: Vec<Counts>,
    /// Packets reported before their time.
    waiting: BinaryHeap<Reverse<Waiting>>,
    reported: u64,
    last: Instant,
    is_full: bool,
}

/// The end of a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Packets in the file.
    pub packets: u64,
    /// Packets that came after the limit was reached.
    pub left_out: u64,
    /// The limit.
    pub limit_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    written: u64,
    left_out: u64,
}

/// A packet in the order of time; packets of one moment keep the order of their reports.
#[derive(Clone, Debug)]
struct Waiting {
    number: u64,
    packet: Packet,
}

impl Waiting {
    fn key(&self) -> (Instant, u64) {
        (self.packet.at, self.number)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// The sentence for a dump that lacks packets.
impl fmt::Display for Written {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Written { packets, left_out, limit_bytes } = self;
        write!(
            out,
            "the dump has the first {packets} packets; {left_out} more did not fit into its limit \
             of {limit_bytes} bytes"
        )
    }
}

impl Dump {
    /// Begins a file that grows up to `limit_bytes`. Descriptions of links are always written.
    /// After the first packet that does not fit, no packets are written.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Dump {
        let mut bytes = Vec::new();
        pcapng::section(&mut bytes);
        Dump {
            bytes,
            taken: 0,
            limit_bytes,
            interfaces: Vec::new(),
            waiting: BinaryHeap::new(),
            reported: 0,
            last: Instant::START,
            is_full: false,
        }
    }

    /// Adds a link. Add all links before the first packet.
    pub fn interface(&mut self, interface: &Interface<'_>) -> u32 {
        pcapng::interface(&mut self.bytes, interface);
        self.interfaces.push(Counts::default());
        (self.interfaces.len() - 1) as u32
    }

    /// Adds a packet. The time is `now`: no later call adds a packet that begins before it.
    ///
    /// # Panics
    /// When there is no such interface.
    pub fn packet(&mut self, now: Instant, packet: Packet) {
        self.write_until(now);
        self.reported += 1;
        self.waiting.push(Reverse(Waiting { number: self.reported, packet }));
    }

    /// Takes the bytes written since the last call; the first call begins with the file's first
    /// byte.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        self.taken += self.bytes.len() as u64;
        std::mem::take(&mut self.bytes)
    }

    /// Returns the number of bytes that [`Dump::take_bytes`] would return.
    #[must_use]
    pub fn untaken_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Ends the file and returns the bytes that were not taken before. A last record for each link
    /// counts the packets that it carried, and those that are not in the file.
    #[must_use]
    pub fn finish(mut self) -> (Vec<u8>, Written) {
        self.write_until(Instant::from_ps(u64::MAX));
        let sum = |of: fn(&Counts) -> u64| self.interfaces.iter().map(of).sum();
        let (packets, left_out) = (sum(|of| of.written), sum(|of| of.left_out));
        let written = Written { packets, left_out, limit_bytes: self.limit_bytes };
        let comment = if left_out > 0 { written.to_string() } else { String::new() };
        for (interface, counts) in (0..).zip(&self.interfaces) {
            let carried = counts.written + counts.left_out;
            let statistics =
                pcapng::Statistics { interface, at: self.last, carried, left_out: counts.left_out };
            pcapng::statistics(&mut self.bytes, &statistics, &comment);
        }
        (self.bytes, written)
    }

    fn write_until(&mut self, now: Instant) {
        while self.waiting.peek().is_some_and(|Reverse(first)| first.packet.at <= now) {
            let Some(Reverse(Waiting { packet, .. })) = self.waiting.pop() else { return };
            self.last = packet.at;
            self.is_full |= !self.has_space(&packet);
            let counts = &mut self.interfaces[packet.interface as usize];
            if self.is_full {
                counts.left_out += 1;
                continue;
            }
            counts.written += 1;
            pcapng::packet(&mut self.bytes, &packet);
        }
    }

    /// Returns true if a packet fits together with the last records.
    fn has_space(&self, packet: &Packet) -> bool {
        let end = self.interfaces.len() as u64 * pcapng::STATISTICS_BYTES_MAX;
        let before = self.taken + self.bytes.len() as u64;
        before + pcapng::packet_bytes(packet) + end <= self.limit_bytes
    }
}
