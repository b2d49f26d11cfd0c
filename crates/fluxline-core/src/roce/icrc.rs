//! The invariant CRC: a checksum of all that no router may change, addresses included.
//!
//! It covers, in this order:
//!
//! * 8 bytes of ones,
//! * the IP header, with ones for what routers change (type of service, time to live and checksum;
//!   for IPv6 traffic class, flow label and hop limit),
//! * the UDP header, with ones for its checksum,
//! * the base header, with ones for the byte of FECN and BECN,
//! * the rest of the packet.
//!
//! It is the CRC-32 of Ethernet, written with its low byte first.
//! Source: IBTA volume 1, 7.8.1 and Annex A17.
//!
//! An IPv4 header must have 20 bytes, be no fragment, and have "don't fragment" set. The kernel's
//! rxe driver sends such headers (`rxe_net.c`, `prepare4`), and so does a UDP socket unless
//! `IP_MTU_DISCOVER` is `IP_PMTUDISC_DONT`. A packet with that bit clear does not match.

use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

use crc32fast::Hasher;

use super::polynomial::{contributions, crc32_state, multiply, power_of_minus_bytes};
use super::sizes::{BTH_BYTES, ICRC_BYTES};

/// Ones in place of the InfiniBand link's header, which RoCEv2 does not have \[byte\].
const ONES_BYTES: usize = 8;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const UDP_BYTES: usize = 8;
/// The longest head of a packet, up to the end of the UDP header \[byte\].
const HEAD_BYTES_MAX: usize = ONES_BYTES + IPV6_BYTES + UDP_BYTES;
const IPV4_TOTAL_LENGTH: usize = ONES_BYTES + 2;
const IPV4_IDENTIFICATION: usize = ONES_BYTES + 4;
const IPV6_PAYLOAD_LENGTH: usize = ONES_BYTES + 4;
/// The bytes between the identification and the UDP payload.
const AFTER_IDENTIFICATION_BYTES: usize =
    ONES_BYTES + IPV4_BYTES + UDP_BYTES - IPV4_IDENTIFICATION - size_of::<u16>();
const DONT_FRAGMENT: u8 = 0x40;
const PROTOCOL_UDP: u8 = 17;

/// The contribution of a 16-bit field in the head to the CRC's state after the UDP header.
struct Field {
    high: [u32; 256],
    low: [u32; 256],
}

impl Field {
    /// Returns the field with `after` bytes between its end and the end of the UDP header.
    const fn new(after: usize) -> Field {
        Field { high: contributions(after + 1), low: contributions(after) }
    }

    #[inline]
    fn of(&self, value: u16) -> u32 {
        let [high, low] = value.to_be_bytes();
        self.high[usize::from(high)] ^ self.low[usize::from(low)]
    }
}

/// The UDP length, after which only the checksum follows.
static UDP_LENGTH: Field = Field::new(2);
static V4_LENGTH: Field = Field::new(ONES_BYTES + IPV4_BYTES + UDP_BYTES - IPV4_TOTAL_LENGTH - 2);
static V4_IDENTIFICATION: Field = Field::new(AFTER_IDENTIFICATION_BYTES);
static V6_LENGTH: Field = Field::new(ONES_BYTES + IPV6_BYTES + UDP_BYTES - IPV6_PAYLOAD_LENGTH - 2);

/// The two addresses are of different families, so no packet can pass between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{from} and {to} are addresses of two families; both must be IPv4, or both IPv6")]
pub struct TwoFamilies {
    /// The source.
    pub from: SocketAddr,
    /// The destination.
    pub to: SocketAddr,
}

/// The result of checking an ICRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet arrived unchanged.
    Match {
        /// The IPv4 identification that fits the ICRC; 0 with IPv6.
        identification: u16,
    },
    /// The packet was damaged, or its IP header is not of the expected form.
    Mismatch,
}

/// Returns the state of the CRC after a UDP payload, from the state before it, with ones in place
/// of the payload's fifth byte (FECN and BECN). Nothing is inverted.
pub type PacketSum = fn(state: u32, payload: &[u8]) -> u32;

/// A packet whose payload is not yet written. Its sum is that of [`PacketSum`].
#[derive(Debug)]
pub struct UnsummedPacket<'a> {
    /// The state of the CRC before the packet.
    pub state: u32,
    /// The packet without its ICRC: headers, room for the payload, padding.
    pub bytes: &'a mut [u8],
    /// The place of the payload in `bytes`.
    pub payload: Range<usize>,
    /// The sum that a memory may replace by an equal one that is faster for it.
    pub sum: PacketSum,
}

/// The sum of packets in safe code. Links bring a faster one.
#[must_use]
pub fn packet_sum(state: u32, payload: &[u8]) -> u32 {
    let (bth, rest) = payload.split_at(payload.len().min(BTH_BYTES));
    let mut covered = [0; BTH_BYTES];
    covered[..bth.len()].copy_from_slice(bth);
    covered[4] = 0xFF; // congestion: FECN and BECN
    let state = crc32_state(state, &covered[..bth.len()]);
    let mut hasher = Hasher::new_with_initial(!state);
    hasher.update(rest);
    !hasher.finalize()
}

/// Makes and checks the ICRC of packets from one address to another.
#[derive(Clone, Copy, Debug)]
pub struct IcrcContext {
    /// The state of the CRC after IP and UDP headers whose lengths and identification are 0.
    state: u32,
    ipv4: bool,
    sum: PacketSum,
}

impl IcrcContext {
    /// Returns the context of packets from `from` to `to`, both as seen on the wire.
    ///
    /// IPv4-mapped IPv6 addresses count as IPv4, as sockets of both families use them. Errors: the
    /// families differ.
    pub fn new(from: SocketAddr, to: SocketAddr) -> Result<IcrcContext, TwoFamilies> {
        let mut head = [0; HEAD_BYTES_MAX];
        head[..ONES_BYTES].fill(0xFF);
        let ip = &mut head[ONES_BYTES..];
        let (ip_bytes, ipv4) = match (from.ip().to_canonical(), to.ip().to_canonical()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                ip[0] = 0x45;
                ip[1] = 0xFF;
                ip[6] = DONT_FRAGMENT;
                ip[8] = 0xFF;
                ip[9] = PROTOCOL_UDP;
                ip[10..12].fill(0xFF);
                ip[12..16].copy_from_slice(&from.octets());
                ip[16..20].copy_from_slice(&to.octets());
                (IPV4_BYTES, true)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                ip[..4].copy_from_slice(&[0x6F, 0xFF, 0xFF, 0xFF]);
                ip[6] = PROTOCOL_UDP;
                ip[7] = 0xFF;
                ip[8..24].copy_from_slice(&from.octets());
                ip[24..40].copy_from_slice(&to.octets());
                (IPV6_BYTES, false)
            }
            _ => return Err(TwoFamilies { from, to }),
        };
        let udp = &mut ip[ip_bytes..];
        udp[..2].copy_from_slice(&from.port().to_be_bytes());
        udp[2..4].copy_from_slice(&to.port().to_be_bytes());
        udp[6..8].fill(0xFF);
        let udp_end = ONES_BYTES + ip_bytes + UDP_BYTES;
        Ok(IcrcContext { state: crc32_state(u32::MAX, &head[..udp_end]), ipv4, sum: packet_sum })
    }

    /// Sums packets by another function.
    #[must_use]
    pub fn with_sum(self, sum: PacketSum) -> IcrcContext {
        IcrcContext { sum, ..self }
    }

    /// Returns the ICRC of a UDP payload without one; the caller appends it as `to_le_bytes`.
    ///
    /// `ip_identification` is that of the IPv4 header; it is ignored with IPv6. Linux (seen with
    /// 6.18) sends 0 from a UDP socket that is not connected and has `IP_MTU_DISCOVER` at
    /// `IP_PMTUDISC_DO` or `_PROBE`. The numbers of other sockets cannot be known before. The
    /// result for a payload that is too long for UDP has no meaning.
    #[must_use]
    pub fn icrc(&self, ip_identification: u16, udp_payload_without_icrc: &[u8]) -> u32 {
        let payload = udp_payload_without_icrc;
        self.of_length(payload.len()).icrc(ip_identification, payload)
    }

    /// Returns the context of packets of one length, without their ICRC \[byte\].
    #[inline]
    pub(crate) fn of_length(&self, packet_bytes: usize) -> LengthIcrc {
        let udp_bytes = UDP_BYTES + packet_bytes + ICRC_BYTES;
        let state = self.state ^ UDP_LENGTH.of(udp_bytes as u16);
        let length = match self.ipv4 {
            true => V4_LENGTH.of((IPV4_BYTES + udp_bytes) as u16),
            false => V6_LENGTH.of(udp_bytes as u16),
        };
        LengthIcrc { state: state ^ length, ipv4: self.ipv4, sum: self.sum }
    }

    /// Checks the ICRC at the end of a UDP payload.
    ///
    /// A receiver on a UDP socket does not see the IPv4 identification. So the check finds the
    /// identification that fits the ICRC and returns it; one of 65,536 random errors is not
    /// noticed. A caller that knows the identification compares it. With IPv6 the check is exact.
    ///
    /// Cost: that of `icrc`, and some 10 ns where the identification is not the likely one.
    #[must_use]
    pub fn verify(&self, udp_payload_with_icrc: &[u8], likely_identification: u16) -> Verdict {
        let Some((payload, received)) = split_icrc(udp_payload_with_icrc) else {
            return Verdict::Mismatch;
        };
        let likely = if self.ipv4 { likely_identification } else { 0 };
        let difference = self.icrc(likely, payload) ^ received;
        if difference == 0 {
            return Verdict::Match { identification: likely };
        }
        match identification_for(difference, payload.len()) {
            // The CRC is linear: the difference is that of the two identifications.
            Verdict::Match { identification } if self.ipv4 => {
                Verdict::Match { identification: identification ^ likely }
            }
            _ => Verdict::Mismatch,
        }
    }
}

/// Makes the ICRC of packets of one length from one address to another.
#[derive(Clone, Copy)]
pub(crate) struct LengthIcrc {
    /// The state of the CRC after IP and UDP headers whose identification is 0.
    state: u32,
    ipv4: bool,
    sum: PacketSum,
}

impl LengthIcrc {
    /// Returns the state of the CRC before the UDP payload of a packet with this identification.
    #[inline]
    pub fn state(&self, ip_identification: u16) -> u32 {
        match self.ipv4 {
            true => self.state ^ V4_IDENTIFICATION.of(ip_identification),
            false => self.state,
        }
    }

    /// Returns the function that sums packets.
    pub fn sum(&self) -> PacketSum {
        self.sum
    }

    /// Returns the ICRC of a UDP payload of the length.
    #[inline]
    pub fn icrc(&self, ip_identification: u16, udp_payload_without_icrc: &[u8]) -> u32 {
        !(self.sum)(self.state(ip_identification), udp_payload_without_icrc)
    }
}

/// Returns the identification that makes this difference to the ICRC of an IPv4 packet.
///
/// The CRC is linear: an identification `i(x)` with `n` bytes after it adds `i(x) x^(8n+32)` modulo
/// the polynomial. Division by the power leaves the identification, or, after an error, a
/// polynomial of a higher degree.
fn identification_for(difference: u32, payload_bytes: usize) -> Verdict {
    let shift = payload_bytes + AFTER_IDENTIFICATION_BYTES + size_of::<u32>();
    let Some(undo) = power_of_minus_bytes(shift) else { return Verdict::Mismatch };
    let product = multiply(difference, undo);
    // The lowest power is the highest bit: 16 bits of degree below 16, and none above.
    if product & 0xFFFF != 0 {
        return Verdict::Mismatch;
    }
    Verdict::Match { identification: ((product >> 16) as u16).swap_bytes() }
}

/// Cuts the ICRC off a UDP payload; `None`: it is too short for a base header and an ICRC.
#[must_use]
pub fn split_icrc(udp_payload: &[u8]) -> Option<(&[u8], u32)> {
    let (payload, icrc) = udp_payload.split_last_chunk::<ICRC_BYTES>()?;
    (payload.len() >= BTH_BYTES).then(|| (payload, u32::from_le_bytes(*icrc)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;

    /// The same CRC, bit by bit.
    fn crc32(bytes: &[u8]) -> u32 {
        let mut state = u32::MAX;
        for &byte in bytes {
            state ^= u32::from(byte);
            for _ in 0..8 {
                state = state >> 1 ^ if state & 1 == 1 { 0xEDB8_8320 } else { 0 };
            }
        }
        !state
    }

    fn v4(last: u8, port: u16) -> SocketAddr {
        (Ipv4Addr::new(192, 168, 2, last), port).into()
    }

    /// Returns all bytes that the CRC covers, written independently.
    fn covered_v4(from: u8, to: u8, ports: [u16; 2], id: u16, payload: &[u8]) -> Vec<u8> {
        let udp = payload.len() as u16 + 12;
        let mut all = [0xFF; 8].to_vec();
        all.extend([0x45, 0xFF]);
        all.extend((udp + 20).to_be_bytes());
        all.extend(id.to_be_bytes());
        all.extend([0x40, 0, 0xFF, 17, 0xFF, 0xFF, 192, 168, 2, from, 192, 168, 2, to]);
        for word in [ports[0], ports[1], udp, 0xFFFF] {
            all.extend(word.to_be_bytes());
        }
        all.extend(&payload[..4]);
        all.push(0xFF);
        all.extend(&payload[5..]);
        all
    }

    proptest! {
        #[test]
        fn the_crc_is_that_of_the_bytes_written_out(
            id: u16,
            ports: [u16; 2],
            payload in prop::collection::vec(any::<u8>(), 12..300),
        ) {
            let context = IcrcContext::new(v4(1, ports[0]), v4(9, ports[1])).expect("one family");
            let expected = crc32(&covered_v4(1, 9, ports, id, &payload));
            prop_assert_eq!(context.icrc(id, &payload), expected);
        }

        #[test]
        fn verify_finds_the_identification_that_it_cannot_see(
            id: u16,
            likely: u16,
            payload in prop::collection::vec(any::<u8>(), 12..9000),
        ) {
            let context = IcrcContext::new(v4(1, 49_152), v4(2, 4791)).expect("one family");
            let mut packet = payload.clone();
            packet.extend(context.icrc(id, &payload).to_le_bytes());
            for likely in [0, id, likely] {
                let expected = Verdict::Match { identification: id };
                prop_assert_eq!(context.verify(&packet, likely), expected);
            }
        }

        #[test]
        fn a_changed_bit_is_noticed_or_explained_by_another_identification(
            id: u16,
            payload in prop::collection::vec(any::<u8>(), 12..200),
            bit: prop::sample::Index,
        ) {
            let context = IcrcContext::new(v4(1, 49_152), v4(2, 4791)).expect("one family");
            let mut packet = payload.clone();
            packet.extend(context.icrc(id, &payload).to_le_bytes());
            let bit = bit.index(packet.len() * 8);
            packet[bit / 8] ^= 1 << (bit % 8);
            let (changed, received) = split_icrc(&packet).expect("long enough");
            match context.verify(&packet, 0) {
                Verdict::Mismatch => {}
                Verdict::Match { identification } if bit / 8 == 4 => {
                    prop_assert_eq!(identification, id, "that byte is not covered");
                }
                Verdict::Match { identification } => {
                    prop_assert_ne!(identification, id);
                    prop_assert_eq!(context.icrc(identification, changed), received);
                }
            }
        }
    }

    /// A packet as it was captured: source, destination, identification, UDP payload with ICRC.
    fn captured(from: &str, to: &str, identification: u16, payload: &str) {
        let address = |text: &str| text.parse().expect("an address");
        let context = IcrcContext::new(address(from), address(to)).expect("one family");
        let digits: Vec<u8> =
            payload.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
        let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        let (packet, icrc) = split_icrc(&bytes).expect("an ICRC");
        assert_eq!(context.icrc(identification, packet), icrc);
        assert_eq!(context.verify(&bytes, 0), Verdict::Match { identification });
        assert!(crate::roce::Packet::parse(packet).is_ok());
    }

    /// Source of both: scapy's tests, test/contrib/roce.uts. The second came from a ConnectX-4 Lx.
    #[test]
    fn packets_of_others_match() {
        captured(
            "192.168.0.7:49152",
            "192.168.0.7:4791",
            1144,
            "2460ffff 000000d3 00cf1710 4630818b e28935d9 0e9a9550 5401be88 5e500000 78f353f3",
        );
        let zeros = "00000000 00000000 00000000 00000000";
        let payload = alloc::format!("8100ffff 40000118 00000000 {zeros} 82fd002a");
        captured("10.0.17.1:0", "10.0.18.1:4791", 0x718C, &payload);
    }

    #[test]
    fn one_bit_errors_are_nearly_all_noticed() {
        let context = IcrcContext::new(v4(1, 49_152), v4(2, 4791)).expect("one family");
        let mut packet: Vec<u8> = (0..1024u32).map(|at| (at * 7) as u8).collect();
        packet.extend(context.icrc(0x1234, &packet).to_le_bytes());
        let mut unnoticed = 0;
        for bit in (0..packet.len() * 8).filter(|bit| bit / 8 != 4) {
            packet[bit / 8] ^= 1 << (bit % 8);
            unnoticed += u32::from(context.verify(&packet, 0) != Verdict::Mismatch);
            packet[bit / 8] ^= 1 << (bit % 8);
        }
        // 8216 errors at one in 65,536.
        assert!(unnoticed <= 2, "{unnoticed}");
    }

    #[test]
    fn ipv6_is_checked_exactly() {
        let address =
            |last| SocketAddr::from((Ipv6Addr::new(0xFE80, 0, 0, 0, 1, 2, 3, last), 4791));
        let context = IcrcContext::new(address(1), address(2)).expect("one family");
        let mut packet: Vec<u8> = (0..64).collect();
        let icrc = context.icrc(0, &packet);
        assert_eq!(icrc, context.icrc(7, &packet), "there is no identification");
        packet.extend(icrc.to_le_bytes());
        assert_eq!(context.verify(&packet, 0), Verdict::Match { identification: 0 });
        packet[20] ^= 1;
        assert_eq!(context.verify(&packet, 0), Verdict::Mismatch);
        packet[20] ^= 1;
        packet[4] ^= 0xFF;
        assert_eq!(context.verify(&packet, 0), Verdict::Match { identification: 0 });
    }

    #[test]
    fn mapped_addresses_are_ipv4_and_families_do_not_mix() {
        let mapped =
            |last| SocketAddr::from((Ipv4Addr::new(192, 168, 2, last).to_ipv6_mapped(), 4791));
        let plain = IcrcContext::new(v4(1, 4791), v4(2, 4791)).expect("one family");
        let both = IcrcContext::new(mapped(1), mapped(2)).expect("one family");
        assert_eq!(plain.icrc(5, &[3; 40]), both.icrc(5, &[3; 40]));
        let six = SocketAddr::from((Ipv6Addr::LOCALHOST, 4791));
        assert!(IcrcContext::new(v4(1, 4791), six).is_err());
    }

    #[test]
    fn payloads_of_any_length_are_summed_or_refused() {
        let context = IcrcContext::new(v4(1, 4791), v4(2, 4791)).expect("one family");
        for length in 0..16 {
            let _ = context.icrc(1, &[1; 16][..length]);
            assert_eq!(context.verify(&[1; 16][..length], 0), Verdict::Mismatch);
        }
        let _ = context.verify(&[0; 70_000], 0);
    }
}
