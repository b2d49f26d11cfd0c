//! Interfaces, addresses, routes and neighbours, queried from the kernel over route netlink.
//!
//! Source: Linux man-pages netlink(7), rtnetlink(7); <linux/rtnetlink.h>, <linux/neighbour.h>.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::frame::Mac;
use crate::sys::netlink::KernelSocket;

/// `struct nlmsghdr` \[byte\]: length, type, flags, sequence, port.
const HEAD_BYTES: usize = 16;
/// Room for one datagram of an answer \[byte\]. Source: NLMSG_GOODSIZE, 8 KiB, and dumps up to 32.
const ANSWER_BYTES: usize = 32 << 10;

const ERROR: u16 = 2;
const DONE: u16 = 3;
const GET_LINK: u16 = 18;
const GET_ADDRESS: u16 = 22;
const GET_ROUTE: u16 = 26;
const NEW_NEIGHBOUR: u16 = 28;
const GET_NEIGHBOUR: u16 = 30;

const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const DUMP: u16 = 0x300;
const CREATE: u16 = 0x400;

/// `RTM_F_FIB_MATCH`: the entry of the table, not what follows from it.
const TABLE_ENTRY: u32 = 0x2000;
/// `RTN_UNICAST`.
const UNICAST: u8 = 1;
/// `NUD_PERMANENT`, `NOARP`, `REACHABLE`, `STALE`, `DELAY`, `PROBE`: the address is known.
const KNOWN: u16 = 0x80 | 0x40 | 0x02 | 0x04 | 0x08 | 0x10;
/// `NTF_USE`: as if a packet were sent there, so that the kernel resolves or confirms it.
const USE: u8 = 1;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    /// `ARPHRD_…`: 1 Ethernet, 772 loopback.
    pub(super) kind: u16,
    pub(super) is_up: bool,
    pub(super) mac: Mac,
    pub(super) mtu: usize,
    /// Receive queues that it was made with.
    pub(super) queues: u32,
}

/// The way to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// The gateway, or the address itself.
    pub(super) next_hop: IpAddr,
    /// The address that the kernel would send from.
    pub(super) source: IpAddr,
}

/// A conversation with the kernel.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: KernelSocket,
    sequence: Cell<u32>,
}

impl Netlink {
    pub(super) fn open() -> io::Result<Netlink> {
        Ok(Netlink { socket: KernelSocket::route()?, sequence: Cell::new(0) })
    }

    /// Sends a request, and passes the body of each message of the answer to `take`.
    fn ask(
        &self,
        kind: u16,
        flags: u16,
        body: &Body,
        mut take: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        self.socket.send(&body.request(kind, flags | REQUEST, sequence))?;
        let mut answer = vec![0; ANSWER_BYTES];
        loop {
            let bytes = self.socket.receive(&mut answer)?;
            for message in messages(&answer[..bytes]).filter(|it| it.sequence == sequence) {
                match message.kind {
                    ERROR => return outcome(message.body),
                    DONE => return Ok(()),
                    kind => take(kind, message.body),
                }
                if flags & DUMP == 0 && flags & ACKNOWLEDGE == 0 {
                    return Ok(());
                }
            }
        }
    }

    /// The interface with that index.
    pub(super) fn interface(&self, index: u32) -> io::Result<Interface> {
        let mut found = None;
        self.ask(GET_LINK, 0, &Body::link(index), |_, body| found = parse_interface(body))?;
        found.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The addresses of an interface.
    pub(super) fn addresses(&self, index: u32) -> io::Result<Vec<IpAddr>> {
        let mut found = Vec::new();
        // struct ifaddrmsg: family, prefix, flags, scope, index.
        self.ask(GET_ADDRESS, DUMP, &Body::new(&[0; 8]), |_, body| {
            if body.len() >= 8 && word(body, 4) == index {
                found.extend(parse_address(body));
            }
        })?;
        Ok(found)
    }

    /// Returns the route to `peer` through that interface, if there is one.
    pub(super) fn route(&self, index: u32, peer: IpAddr) -> Option<Route> {
        // With a given interface, the kernel takes any address without a route for a neighbour. So
        // the first request is for the entry, the second for the kernel's decision.
        self.ask(GET_ROUTE, 0, &Body::route(index, peer, TABLE_ENTRY), |_, _| ()).ok()?;
        let mut found = None;
        let body = Body::route(index, peer, 0);
        self.ask(GET_ROUTE, 0, &body, |_, body| found = parse_route(body, index, peer)).ok()?;
        found
    }

    /// The Ethernet address of a neighbour; `None` while it is not known.
    pub(super) fn neighbour(&self, index: u32, address: IpAddr) -> Option<Mac> {
        let mut found = None;
        let body = Body::neighbour(index, address, 0);
        self.ask(GET_NEIGHBOUR, 0, &body, |_, body| found = parse_neighbour(body)).ok()?;
        found
    }

    /// Makes the kernel resolve or confirm a neighbour, later and in the background.
    pub(super) fn use_neighbour(&self, index: u32, address: IpAddr) {
        let body = Body::neighbour(index, address, USE);
        // The neighbour's state shows the result.
        let _ = self.ask(NEW_NEIGHBOUR, CREATE | ACKNOWLEDGE, &body, |_, _| ());
    }
}

/// The result in an error message: a negative number, zero for success.
fn outcome(body: &[u8]) -> io::Result<()> {
    match body.get(..4).map(|_| word(body, 0) as i32) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(error.saturating_neg())),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// A request's fixed part and attributes.
struct Body {
    bytes: Vec<u8>,
}

impl Body {
    fn new(fixed: &[u8]) -> Body {
        Body { bytes: fixed.to_vec() }
    }

    /// struct ifinfomsg: family, kind, index, flags, mask.
    fn link(index: u32) -> Body {
        let mut fixed = [0; 16];
        fixed[4..8].copy_from_slice(&index.to_ne_bytes());
        Body::new(&fixed)
    }

    /// struct rtmsg: family, prefix lengths, …, flags in the last word.
    fn route(index: u32, peer: IpAddr, flags: u32) -> Body {
        let mut fixed = [0; 12];
        let address = octets(peer);
        fixed[0] = family(peer);
        fixed[1] = (address.len() * 8) as u8;
        fixed[8..12].copy_from_slice(&flags.to_ne_bytes());
        let mut body = Body::new(&fixed);
        body.attribute(libc::RTA_DST, &address);
        body.attribute(libc::RTA_OIF, &index.to_ne_bytes());
        body
    }

    /// struct ndmsg: family, padding, index, state (2 bytes), flags, kind.
    fn neighbour(index: u32, address: IpAddr, flags: u8) -> Body {
        let mut fixed = [0; 12];
        fixed[0] = family(address);
        fixed[4..8].copy_from_slice(&index.to_ne_bytes());
        fixed[10] = flags;
        let mut body = Body::new(&fixed);
        body.attribute(libc::NDA_DST, &octets(address));
        body
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.bytes.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn request(&self, kind: u16, flags: u16, sequence: u32) -> Vec<u8> {
        let bytes = (HEAD_BYTES + self.bytes.len()) as u32;
        let mut request = Vec::with_capacity(bytes as usize);
        request.extend_from_slice(&bytes.to_ne_bytes());
        request.extend_from_slice(&kind.to_ne_bytes());
        request.extend_from_slice(&flags.to_ne_bytes());
        request.extend_from_slice(&sequence.to_ne_bytes());
        request.extend_from_slice(&[0; 4]);
        request.extend_from_slice(&self.bytes);
        request
    }
}

struct Message<'a> {
    kind: u16,
    sequence: u32,
    body: &'a [u8],
}

/// The messages of a datagram; ends at the first that is cut.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let len = bytes.get(..HEAD_BYTES).map(|_| word(bytes, 0) as usize)?;
        let own = bytes.get(..len).filter(|own| own.len() >= HEAD_BYTES)?;
        let message =
            Message { kind: half(own, 4), sequence: word(own, 8), body: &own[HEAD_BYTES..] };
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// The attributes after the fixed part of a message; ends at the first that is cut.
fn attributes(body: &[u8], fixed: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let mut bytes = body.get(fixed..).unwrap_or_default();
    std::iter::from_fn(move || {
        let len = bytes.get(..4).map(|_| usize::from(half(bytes, 0)))?;
        let own = bytes.get(..len).filter(|own| own.len() >= 4)?;
        // The two upper bits are flags.
        let kind = half(own, 2) & 0x3fff;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, &own[4..]))
    })
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn family(address: IpAddr) -> u8 {
    (if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::V4(Ipv4Addr::from(v4)));
    }
    <[u8; 16]>::try_from(bytes).ok().map(|v6| IpAddr::V6(Ipv6Addr::from(v6)))
}

fn find(body: &[u8], fixed: usize, wanted: u16) -> Option<&[u8]> {
    attributes(body, fixed).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn find_word(body: &[u8], fixed: usize, wanted: u16) -> Option<u32> {
    find(body, fixed, wanted)?.try_into().ok().map(u32::from_ne_bytes)
}

/// Bytes of `struct ifinfomsg`, `ifaddrmsg`, `rtmsg`, `ndmsg`.
const LINK_FIXED: usize = 16;
const ADDRESS_FIXED: usize = 8;
const ROUTE_FIXED: usize = 12;
const NEIGHBOUR_FIXED: usize = 12;

fn parse_interface(body: &[u8]) -> Option<Interface> {
    let fixed = body.get(..LINK_FIXED)?;
    let find = |wanted| find(body, LINK_FIXED, wanted);
    Some(Interface {
        kind: half(fixed, 2),
        is_up: word(fixed, 8) & libc::IFF_UP as u32 != 0,
        mac: find(libc::IFLA_ADDRESS).and_then(|mac| mac.try_into().ok()).unwrap_or([0; 6]),
        mtu: find_word(body, LINK_FIXED, libc::IFLA_MTU)? as usize,
        queues: find_word(body, LINK_FIXED, libc::IFLA_NUM_RX_QUEUES).unwrap_or(1),
    })
}

/// The own address of an interface: IFA_LOCAL, which differs from IFA_ADDRESS on
/// point-to-point links; IPv6 has only the latter.
fn parse_address(body: &[u8]) -> Option<IpAddr> {
    let find = |wanted| find(body, ADDRESS_FIXED, wanted);
    find(libc::IFA_LOCAL).or_else(|| find(libc::IFA_ADDRESS)).and_then(ip)
}

fn parse_route(body: &[u8], index: u32, peer: IpAddr) -> Option<Route> {
    let fixed = body.get(..ROUTE_FIXED)?;
    let through = find_word(body, ROUTE_FIXED, libc::RTA_OIF);
    if fixed[7] != UNICAST || through != Some(index) {
        return None;
    }
    let find = |wanted| find(body, ROUTE_FIXED, wanted);
    // RTA_VIA: a gateway of the other family, after its family in two bytes.
    let via = || find(libc::RTA_VIA).and_then(|via| ip(via.get(2..)?));
    let gateway = find(libc::RTA_GATEWAY).and_then(ip).or_else(via);
    let source = find(libc::RTA_PREFSRC).and_then(ip)?;
    Some(Route { next_hop: gateway.unwrap_or(peer), source })
}

fn parse_neighbour(body: &[u8]) -> Option<Mac> {
    let fixed = body.get(..NEIGHBOUR_FIXED)?;
    if half(fixed, 8) & KNOWN == 0 {
        return None;
    }
    find(body, NEIGHBOUR_FIXED, libc::NDA_LLADDR)?.try_into().ok()
}

#[cfg(test)]
pub(super) mod tests_only {
    use super::*;

    /// Parses bytes as every kind of answer.
    pub(in crate::xdp) fn parse_anything(bytes: &[u8]) {
        for message in messages(bytes) {
            let _ = outcome(message.body);
        }
        let _ = (parse_interface(bytes), parse_address(bytes), parse_neighbour(bytes));
        let _ = (parse_route(bytes, 1, IpAddr::from([1; 4])), outcome(bytes));
    }
}
