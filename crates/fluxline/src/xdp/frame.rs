//! Ethernet, IP and UDP headers: written before sent payloads, read and checked before received
//! ones.
//!
//! Source: IEEE 802.3 and 802.1Q (Ethernet), RFC 791 (IPv4), RFC 8200 (IPv6), RFC 768 (UDP), RFC
//! 1071 (checksum), RFC 3168 (congestion marks).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ops::Range;

use fluxline_core::port::Identification;

/// An Ethernet address.
pub(super) type Mac = [u8; 6];

/// Ethernet header without a tag \[byte\].
pub(super) const ETHERNET_BYTES: usize = 14;
const TAG_BYTES: usize = 4;
const V4_BYTES: usize = 20;
const V6_BYTES: usize = 40;
const UDP_BYTES: usize = 8;
/// Headers of IP and UDP \[byte\].
pub(super) const V4_HEAD_BYTES: usize = V4_BYTES + UDP_BYTES;
pub(super) const V6_HEAD_BYTES: usize = V6_BYTES + UDP_BYTES;
/// The longest headers to send \[byte\].
pub(super) const HEAD_BYTES_MAX: usize = ETHERNET_BYTES + V6_HEAD_BYTES;
/// Returns the length of the longest frame of an interface with that MTU, tag included \[byte\].
pub(super) const fn frame_bytes(mtu: usize) -> usize {
    ETHERNET_BYTES + TAG_BYTES + mtu
}

const UDP: u8 = 17;
/// "Do not fragment", no offset.
const DO_NOT_FRAGMENT: u16 = 0x4000;
const HOPS: u8 = 64;
/// Congestion marks: able to react to them, and experienced.
const ABLE: u8 = 2;
const EXPERIENCED: u8 = 3;

/// The reason why a frame was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// Shorter than its headers, or than the length in them.
    Short,
    /// Neither IPv4 without options nor IPv6 without extension headers, or not UDP.
    NotUdp,
    /// A checksum is wrong.
    Checksum,
}

/// A datagram found in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) payload: Range<usize>,
    pub(super) identification: Identification,
    pub(super) congestion: bool,
}

/// The treatment of UDP checksums that a sender on this host left unfinished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfinished {
    Accept,
    Refuse,
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Reads the headers of a frame and checks lengths and checksums. `scope` is the interface's index,
/// for link-local IPv6 addresses.
pub(super) fn parse(frame: &[u8], unfinished: Unfinished, scope: u32) -> Result<Parsed, Malformed> {
    if frame.len() < ETHERNET_BYTES + TAG_BYTES {
        return Err(Malformed::Short);
    }
    let (kind, start) = match half(frame, 12) {
        0x8100 => (half(frame, 16), ETHERNET_BYTES + TAG_BYTES),
        kind => (kind, ETHERNET_BYTES),
    };
    match kind {
        0x0800 => parse_v4(frame, start, unfinished),
        0x86dd => parse_v6(frame, start, unfinished, scope),
        _ => Err(Malformed::NotUdp),
    }
}

fn parse_v4(frame: &[u8], start: usize, unfinished: Unfinished) -> Result<Parsed, Malformed> {
    let packet = &frame[start..];
    if packet.len() < V4_HEAD_BYTES {
        return Err(Malformed::Short);
    }
    let is_fragment = half(packet, 6) & !DO_NOT_FRAGMENT != 0;
    if packet[0] != 0x45 || packet[9] != UDP || is_fragment {
        return Err(Malformed::NotUdp);
    }
    // Frames are padded to 60 bytes, so the packet may end before the frame.
    let total = usize::from(half(packet, 2));
    if total < V4_HEAD_BYTES || total > packet.len() {
        return Err(Malformed::Short);
    }
    if sum(&packet[..V4_BYTES]) != 0xffff {
        return Err(Malformed::Checksum);
    }
    let datagram = &packet[V4_BYTES..total];
    let udp_bytes = udp_bytes(datagram)?;
    if half(datagram, 6) != 0 {
        check(&packet[12..20], &datagram[..udp_bytes], unfinished)?;
    }
    let [from, to] = [12, 16].map(|at| {
        IpAddr::V4(Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]))
    });
    let payload = start + V4_HEAD_BYTES..start + V4_BYTES + udp_bytes;
    Ok(Parsed {
        from: SocketAddr::new(from, half(datagram, 0)),
        to: SocketAddr::new(to, half(datagram, 2)),
        payload,
        identification: Identification::Seen(half(packet, 4)),
        congestion: packet[1] & 3 == EXPERIENCED,
    })
}

fn parse_v6(
    frame: &[u8],
    start: usize,
    unfinished: Unfinished,
    scope: u32,
) -> Result<Parsed, Malformed> {
    let packet = &frame[start..];
    if packet.len() < V6_HEAD_BYTES {
        return Err(Malformed::Short);
    }
    if packet[0] >> 4 != 6 || packet[6] != UDP {
        return Err(Malformed::NotUdp);
    }
    let bytes = usize::from(half(packet, 4));
    if bytes > packet.len() - V6_BYTES {
        return Err(Malformed::Short);
    }
    let datagram = &packet[V6_BYTES..V6_BYTES + bytes];
    let udp_bytes = udp_bytes(datagram)?;
    // Zero: no checksum, as in RoCEv2 of Linux's rdma_rxe; frames have their ICRC (cf. RFC 6935).
    if half(datagram, 6) != 0 {
        check(&packet[8..40], &datagram[..udp_bytes], unfinished)?;
    }
    let [from, to] = [(8, 0), (24, 2)].map(|(at, port)| {
        let octets: [u8; 16] = packet[at..at + 16].try_into().expect("16 bytes");
        let address = Ipv6Addr::from(octets);
        let scope = if is_link_local(address) { scope } else { 0 };
        SocketAddr::V6(SocketAddrV6::new(address, half(datagram, port), 0, scope))
    });
    let payload = start + V6_HEAD_BYTES..start + V6_BYTES + udp_bytes;
    let congestion = packet[1] >> 4 & 3 == EXPERIENCED;
    Ok(Parsed { from, to, payload, identification: Identification::Likely(0), congestion })
}

/// Returns true for addresses in fe80::/10.
pub(super) fn is_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

/// Returns the length in a UDP header, checked.
fn udp_bytes(datagram: &[u8]) -> Result<usize, Malformed> {
    if datagram.len() < UDP_BYTES {
        return Err(Malformed::Short);
    }
    let bytes = usize::from(half(datagram, 4));
    if (UDP_BYTES..=datagram.len()).contains(&bytes) { Ok(bytes) } else { Err(Malformed::Short) }
}

/// Checks a UDP checksum; `addresses` are source and destination.
fn check(addresses: &[u8], datagram: &[u8], unfinished: Unfinished) -> Result<(), Malformed> {
    let pseudo = pseudo(addresses, datagram.len());
    if fold(u64::from(pseudo) + u64::from(sum(datagram))) == 0xffff {
        return Ok(());
    }
    // The kernel leaves the sum over the pseudo header, which a card would complete; on a virtual
    // link there is no card.
    let is_unfinished = half(datagram, 6) == pseudo;
    if is_unfinished && unfinished == Unfinished::Accept {
        Ok(())
    } else {
        Err(Malformed::Checksum)
    }
}

/// Returns the sum over addresses, protocol and length, with which UDP checksums begin.
fn pseudo(addresses: &[u8], udp_bytes: usize) -> u16 {
    fold(u64::from(sum(addresses)) + u64::from(UDP) + udp_bytes as u64)
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the ones' complement sum of big-endian 16-bit words (RFC 1071), with an odd last byte
/// padded.
fn sum(bytes: &[u8]) -> u16 {
    // Another byte order only swaps the bytes of the result. Adding words of four bytes to sums of
    // eight lets the compiler use wide registers.
    let words = bytes.chunks_exact(4);
    let rest = words.remainder();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let total: u64 =
        words.map(|word| u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))).sum();
    u16::from_be(fold(total + u64::from(u32::from_ne_bytes(last))))
}

/// The common headers of all frames to one peer.
#[derive(Clone, Debug)]
pub(super) struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    len: usize,
}

/// The addresses of both ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) source_mac: Mac,
    pub(super) target_mac: Mac,
    pub(super) source: IpAddr,
    pub(super) target: IpAddr,
    pub(super) source_port: u16,
}

/// The congestion mark of sent datagrams (ECN-capable or not).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marking {
    Able,
    NotAble,
}

impl Head {
    /// Makes the headers; returns `None` if the two addresses are of different families.
    pub(super) fn new(ends: &Ends, marking: Marking) -> Option<Head> {
        let mut bytes = [0; HEAD_BYTES_MAX];
        bytes[..6].copy_from_slice(&ends.target_mac);
        bytes[6..12].copy_from_slice(&ends.source_mac);
        let mark = if marking == Marking::Able { ABLE } else { 0 };
        let packet = &mut bytes[ETHERNET_BYTES..];
        let (kind, len) = match (ends.source, ends.target) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                packet[0] = 0x45;
                packet[1] = mark;
                packet[6..8].copy_from_slice(&DO_NOT_FRAGMENT.to_be_bytes());
                packet[8] = HOPS;
                packet[9] = UDP;
                packet[12..16].copy_from_slice(&source.octets());
                packet[16..20].copy_from_slice(&target.octets());
                (0x0800_u16, V4_BYTES)
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                packet[0] = 0x60;
                packet[1] = mark << 4;
                packet[6] = UDP;
                packet[7] = HOPS;
                packet[8..24].copy_from_slice(&source.octets());
                packet[24..40].copy_from_slice(&target.octets());
                (0x86dd, V6_BYTES)
            }
            _ => return None,
        };
        packet[len..len + 2].copy_from_slice(&ends.source_port.to_be_bytes());
        bytes[12..14].copy_from_slice(&kind.to_be_bytes());
        Some(Head { bytes, len: ETHERNET_BYTES + len + UDP_BYTES })
    }

    /// Returns the length of the headers before the payload \[byte\].
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Writes the headers before a payload of `payload_bytes`, UDP checksum zero.
    pub(super) fn write(&self, frame: &mut [u8], port: u16, payload_bytes: usize) {
        frame[..self.len].copy_from_slice(&self.bytes[..self.len]);
        let udp = self.len - UDP_BYTES;
        let udp_bytes = (UDP_BYTES + payload_bytes) as u16;
        frame[udp + 2..udp + 4].copy_from_slice(&port.to_be_bytes());
        frame[udp + 4..udp + 6].copy_from_slice(&udp_bytes.to_be_bytes());
        let packet = &mut frame[ETHERNET_BYTES..];
        if packet[0] >> 4 == 4 {
            let total = (V4_HEAD_BYTES + payload_bytes) as u16;
            packet[2..4].copy_from_slice(&total.to_be_bytes());
            let sum = !sum(&packet[..V4_BYTES]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            packet[4..6].copy_from_slice(&udp_bytes.to_be_bytes());
        }
    }
}

/// Computes the UDP checksum of a frame whose headers [`Head::write`] has written.
pub(super) fn finish_checksum(frame: &mut [u8], head_bytes: usize) {
    let udp = head_bytes - UDP_BYTES;
    let v6 = head_bytes == HEAD_BYTES_MAX;
    let first = ETHERNET_BYTES + if v6 { 8 } else { 12 };
    let pseudo = pseudo(&frame[first..udp], frame.len() - udp);
    let sum = !fold(u64::from(pseudo) + u64::from(sum(&frame[udp..])));
    // RFC 768: a sum of zero is sent as all ones, because zero means "no checksum".
    let sum = if sum == 0 { 0xffff } else { sum };
    frame[udp + 6..udp + 8].copy_from_slice(&sum.to_be_bytes());
}
