//! From a frame to its IP packet, and from a tunnel's packet to the one inside.
//!
//! Mirror ports and networks wrap frames: VLAN tags, MPLS labels and PPPoE before IP; GRE, ERSPAN,
//! VXLAN and IP in IP behind it. Each header is removed and counted by its kind. Every length is
//! checked, and the number of headers is bounded. Sources: IEEE 802.1Q; RFC 2516, 2784, 2890, 3032,
//! 4448, 7348; draft-foschiano-erspan; draft-ietf-nvo3-vxlan-gpe.

use super::CaptureCounters;

/// EtherType values. Source: IEEE 802 numbers, IANA.
const ETHER_IPV4: u16 = 0x0800;
const ETHER_IPV6: u16 = 0x86DD;
const ETHER_VLAN: [u16; 3] = [0x8100, 0x88A8, 0x9100];
const ETHER_MPLS: [u16; 2] = [0x8847, 0x8848];
const ETHER_PPPOE: u16 = 0x8864;
/// Protocols of GRE besides EtherTypes: a whole Ethernet frame; ERSPAN I or II; ERSPAN III.
const GRE_ETHERNET: u16 = 0x6558;
const GRE_ERSPAN_II: u16 = 0x88BE;
const GRE_ERSPAN_III: u16 = 0x22EB;
/// Most headers before an IP packet; hostile frames could stack any number.
const HEADERS_MAX: usize = 12;
/// Bytes of the two addresses of an Ethernet frame.
const ADDRESSES: usize = 12;
/// UDP ports of VXLAN, of its generic extension, and of early Linux.
const VXLAN_PORTS: [u16; 3] = [4789, 4790, 8472];

/// IP protocols that carry a packet. Source: IANA.
pub(super) const IP_IN_IP: u8 = 4;
pub(super) const IPV6_IN_IP: u8 = 41;
pub(super) const GRE: u8 = 47;

/// A place in a frame, by what begins there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Ethernet(usize),
    EtherType(usize),
    Mpls(usize),
    Pppoe(usize),
}

/// The start of the IP packet of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Ip(usize),
    NotIp,
    Unknown,
    Short,
}

/// Returns the start of the IP packet of a frame with this link type.
pub(super) fn ip_start(link: i32, frame: &[u8], counters: &mut CaptureCounters) -> Link {
    // Numbers: https://www.tcpdump.org/linktypes.html
    match link {
        0 | 108 => match frame.first_chunk::<4>() {
            // The family in the byte order of the capturing host; 24, 28, 30: IPv6 of the BSDs.
            Some(family) => match u32::from_le_bytes(*family).min(u32::from_be_bytes(*family)) {
                2 | 10 | 24 | 28 | 30 => Link::Ip(4),
                _ => Link::NotIp,
            },
            None => Link::Short,
        },
        1 => follow(frame, At::Ethernet(0), counters),
        101 | 228 | 229 => by_version(frame, 0),
        113 => follow(frame, At::EtherType(14), counters),
        276 => match word(frame, 0) {
            Some(ETHER_IPV4 | ETHER_IPV6) => Link::Ip(20),
            Some(tag) if ETHER_VLAN.contains(&tag) => follow(frame, At::EtherType(22), counters),
            Some(tag) if ETHER_MPLS.contains(&tag) => follow(frame, At::Mpls(20), counters),
            Some(ETHER_PPPOE) => follow(frame, At::Pppoe(20), counters),
            Some(_) => Link::NotIp,
            None => Link::Short,
        },
        _ => Link::Unknown,
    }
}

/// Returns the start of the IP packet in what an IP packet of a tunnel's protocol carries.
pub(super) fn in_tunnel(protocol: u8, inside: &[u8], counters: &mut CaptureCounters) -> Link {
    match protocol {
        IP_IN_IP | IPV6_IN_IP => {
            counters.ip_in_ip += 1;
            by_version(inside, 0)
        }
        _ => in_gre(inside, counters),
    }
}

/// Returns the start of the IP packet in a UDP payload; `None`: it is not VXLAN.
pub(super) fn in_vxlan(port: u16, payload: &[u8], counters: &mut CaptureCounters) -> Option<Link> {
    const HAS_NETWORK: u8 = 0x08;
    const NAMES_PROTOCOL: u8 = 0x04;
    let [flags, _, _, protocol, _, _, _, last] = *payload.first_chunk::<8>()?;
    // Reserved bytes are 0: a board that sends to this port by chance hardly fits.
    let fits = VXLAN_PORTS.contains(&port) && flags & HAS_NETWORK != 0 && last == 0;
    let named = flags & NAMES_PROTOCOL != 0;
    if !fits || flags & !(HAS_NETWORK | NAMES_PROTOCOL) != 0 || (!named && protocol != 0) {
        return None;
    }
    let found = match (named, protocol) {
        (false, _) | (true, 3) => follow(payload, At::Ethernet(8), counters),
        (true, 1 | 2) => by_version(payload, 8),
        (true, 5) => follow(payload, At::Mpls(8), counters),
        (true, _) => Link::NotIp,
    };
    counters.vxlan += 1;
    Some(found)
}

/// Generic routing encapsulation, with ERSPAN in it.
fn in_gre(inside: &[u8], counters: &mut CaptureCounters) -> Link {
    const CHECK_SUM: u16 = 0x8000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    const VERSION: u16 = 7;
    let (Some(flags), Some(protocol)) = (word(inside, 0), word(inside, 2)) else {
        return Link::Short;
    };
    // Bit 0x4000 announces routes, which RFC 2784 removed.
    if flags & VERSION != 0 || flags & 0x4000 != 0 {
        return Link::NotIp;
    }
    let options = [CHECK_SUM, KEY, SEQUENCE].iter().filter(|option| flags & **option != 0);
    let start = 4 + 4 * options.count();
    match protocol {
        GRE_ERSPAN_II => {
            counters.erspan += 1;
            // The first version has no header of its own, and no sequence.
            let header = if flags & SEQUENCE != 0 { 8 } else { 0 };
            return follow(inside, At::Ethernet(start + header), counters);
        }
        GRE_ERSPAN_III => {
            counters.erspan += 1;
            return in_erspan_iii(inside, start, counters);
        }
        _ => counters.gre += 1,
    }
    match protocol {
        GRE_ETHERNET => follow(inside, At::Ethernet(start), counters),
        // The last word before the payload is its protocol, unless options are between.
        ETHER_IPV4 | ETHER_IPV6 => by_version(inside, start),
        tag if ETHER_MPLS.contains(&tag) => follow(inside, At::Mpls(start), counters),
        _ => Link::NotIp,
    }
}

/// Type III: 12 bytes, and 8 more where its last bit says so.
fn in_erspan_iii(inside: &[u8], start: usize, counters: &mut CaptureCounters) -> Link {
    let Some(flags) = word(inside, start + 10) else { return Link::Short };
    let end = start + if flags & 1 != 0 { 20 } else { 12 };
    match flags >> 10 & 31 {
        0 => follow(inside, At::Ethernet(end), counters),
        2 => by_version(inside, end),
        _ => Link::NotIp,
    }
}

/// An IP packet that nothing announced.
fn by_version(bytes: &[u8], at: usize) -> Link {
    match bytes.get(at).map(|first| first >> 4) {
        Some(4 | 6) => Link::Ip(at),
        Some(_) => Link::NotIp,
        None => Link::Short,
    }
}

/// Follows headers up to the IP packet.
fn follow(frame: &[u8], mut at: At, counters: &mut CaptureCounters) -> Link {
    for _ in 0..HEADERS_MAX {
        at = match at {
            At::Ethernet(start) => At::EtherType(start + ADDRESSES),
            At::EtherType(start) => match word(frame, start) {
                Some(ETHER_IPV4 | ETHER_IPV6) => return Link::Ip(start + 2),
                Some(tag) if ETHER_VLAN.contains(&tag) => At::EtherType(start + 4),
                Some(tag) if ETHER_MPLS.contains(&tag) => At::Mpls(start + 2),
                Some(ETHER_PPPOE) => At::Pppoe(start + 2),
                Some(_) => return Link::NotIp,
                None => return Link::Short,
            },
            At::Mpls(start) => {
                let Some(behind) = behind_labels(frame, start) else { return Link::Short };
                counters.mpls += 1;
                match frame.get(behind).map(|first| first >> 4) {
                    Some(4 | 6) => return Link::Ip(behind),
                    // An Ethernet frame behind its control word.
                    Some(0) => At::Ethernet(behind + 4),
                    Some(_) => return Link::NotIp,
                    None => return Link::Short,
                }
            }
            At::Pppoe(start) => {
                counters.pppoe += 1;
                // Version, code, session and length, then the protocol of PPP.
                match word(frame, start + 6) {
                    Some(0x0021 | 0x0057) => return Link::Ip(start + 8),
                    Some(0x0281 | 0x0283) => At::Mpls(start + 8),
                    Some(_) => return Link::NotIp,
                    None => return Link::Short,
                }
            }
        };
    }
    Link::NotIp
}

/// Returns the place behind a stack of labels.
fn behind_labels(frame: &[u8], mut at: usize) -> Option<usize> {
    for _ in 0..HEADERS_MAX {
        let is_last = frame.get(at + 2)? & 1 == 1;
        at += 4;
        if is_last {
            break;
        }
    }
    Some(at)
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..at + 2)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}
