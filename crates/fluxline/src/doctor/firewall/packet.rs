//! A datagram before it came: what is known of it, byte by byte, and what is not.

use std::net::IpAddr;

use super::expression::{Head, Register};

/// `IPPROTO_UDP`.
const UDP: u8 = 17;
/// Bits of `NFT_CT_STATE`: a new connection; one that is not tracked. Source:
/// <linux/netfilter/nf_conntrack_common.h>, NF_CT_STATE_BIT.
pub(super) const STATE_NEW: u32 = 1 << 3;
pub(super) const STATE_UNTRACKED: u32 = 1 << 6;
/// `RTN_LOCAL`. Source: <linux/rtnetlink.h>.
const LOCAL: u32 = 2;

/// A datagram that an experiment waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Datagram {
    /// The interface that it comes through.
    pub(super) interface: String,
    /// The interface's number.
    pub(super) index: Option<u32>,
    /// IPv6, else IPv4.
    pub(super) is_v6: bool,
    /// The sender's address.
    pub(super) from: Option<IpAddr>,
    /// Its own address.
    pub(super) to: Option<IpAddr>,
    /// The port that it is sent to.
    pub(super) port: Option<u16>,
}

/// One byte of a packet or register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Known(u8),
    /// It depends on this.
    Unknown(&'static str),
}

impl Datagram {
    /// Bytes of one of its heads.
    pub(super) fn payload(&self, head: Head, offset: usize, length: usize) -> Vec<Cell> {
        let bytes = match head {
            Head::Network => self.network(),
            Head::Transport => self.transport(),
            Head::Other => Vec::new(),
        };
        let rest = Cell::Unknown("what is in it");
        (offset..offset.saturating_add(length.min(64)))
            .map(|at| bytes.get(at).copied().unwrap_or(rest))
            .collect()
    }

    /// Source: RFC 791, RFC 8200.
    fn network(&self) -> Vec<Cell> {
        let mut bytes = vec![Cell::Unknown("its IP head"); if self.is_v6 { 40 } else { 20 }];
        let (protocol, from, to, length) = if self.is_v6 { (6, 8, 24, 16) } else { (9, 12, 16, 4) };
        bytes[protocol] = Cell::Known(UDP);
        let source = address(self.from, length, "the sender's address");
        bytes[from..from + length].copy_from_slice(&source);
        let own = address(self.to, length, "the address that it is sent to");
        bytes[to..to + length].copy_from_slice(&own);
        bytes
    }

    /// Source: RFC 768.
    fn transport(&self) -> Vec<Cell> {
        let mut bytes = vec![Cell::Unknown("the port that it is sent from"); 2];
        match self.port {
            Some(port) => bytes.extend(port.to_be_bytes().map(Cell::Known)),
            None => bytes.extend([Cell::Unknown("the port that it is sent to"); 2]),
        }
        bytes.extend([Cell::Unknown("its length"); 2]);
        bytes.extend([Cell::Unknown("its checksum"); 2]);
        bytes
    }

    /// What `meta` loads (`NFT_META_…`).
    pub(super) fn meta(&self, key: u32) -> Vec<Cell> {
        let known = |bytes: &[u8]| bytes.iter().copied().map(Cell::Known).collect();
        let unknown = |what| vec![Cell::Unknown(what); 16];
        match key {
            0 => unknown("its length"),
            // The protocol of Ethernet, and netfilter's.
            1 => known(if self.is_v6 { &[0x86, 0xdd] } else { &[0x08, 0x00] }),
            15 => known(&[if self.is_v6 { 10 } else { 2 }]),
            16 => known(&[UDP]),
            3 => unknown("its mark"),
            4 => match self.index {
                Some(index) => known(&index.to_ne_bytes()),
                None => unknown("the interface's number"),
            },
            6 => {
                let mut name = [0; 16];
                for (to, from) in name.iter_mut().zip(self.interface.bytes().take(15)) {
                    *to = from;
                }
                known(&name)
            }
            19 => unknown("whether it is sent to all"),
            20 => unknown("the core that takes it"),
            24 => unknown("chance"),
            30..=32 => unknown("the time"),
            _ => unknown("what is known of it only then"),
        }
    }

    /// What kind of address it is sent to.
    pub(super) fn destination_type(&self) -> Vec<Cell> {
        match self.to.is_some_and(|to| to.is_multicast()) {
            true => vec![Cell::Unknown("the address that it is sent to"); 4],
            false => LOCAL.to_ne_bytes().map(Cell::Known).to_vec(),
        }
    }
}

fn address(address: Option<IpAddr>, length: usize, what: &'static str) -> Vec<Cell> {
    let bytes: Vec<u8> = match address {
        Some(IpAddr::V4(address)) => address.octets().to_vec(),
        Some(IpAddr::V6(address)) => address.octets().to_vec(),
        None => Vec::new(),
    };
    match bytes.len() == length {
        true => bytes.into_iter().map(Cell::Known).collect(),
        false => vec![Cell::Unknown(what); length],
    }
}

/// The registers of a rule, 64 byte that are known or not.
#[derive(Clone, Debug)]
pub(super) struct Registers {
    cells: [Cell; 64],
}

impl Registers {
    /// All empty: no rule reads what it did not load.
    pub(super) fn new() -> Registers {
        Registers { cells: [Cell::Known(0); 64] }
    }

    /// Loads bytes; the rest of their last word is zero.
    pub(super) fn load(&mut self, to: Register, bytes: &[Cell]) {
        let padded = bytes.iter().copied().chain(std::iter::repeat(Cell::Known(0)));
        let length = bytes.len().next_multiple_of(4);
        for (cell, value) in self.cells.iter_mut().skip(to).zip(padded.take(length)) {
            *cell = value;
        }
    }

    /// The bytes from there on.
    pub(super) fn read(&self, from: Register, length: usize) -> &[Cell] {
        let end = from.saturating_add(length).min(self.cells.len());
        self.cells.get(from..end).unwrap_or_default()
    }
}
