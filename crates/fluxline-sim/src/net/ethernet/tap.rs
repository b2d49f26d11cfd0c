//! Records the frames of all links in a [`Dump`], as a capture of each cable would have them.
//!
//! Frames begin with the destination address; preamble and check sequence are left out, as captures
//! leave them out. The data of generated traffic are zeros.

use std::net::Ipv4Addr;

use fluxline_core::roce::UDP_PORT;

use super::carried::Carried;
use super::config::Config;
use super::datagram::{Datagram, Payload};
use super::framing::{FCS_BYTES, FRAME_BYTES_MIN, IP_BYTES, UDP_BYTES, part};
use super::link::{Content, Frame};
use super::slab::Slab;
use crate::Instant;
use crate::core::dump::{self, Dump, Interface};

/// The link type of Ethernet: LINKTYPE_ETHERNET. Source: tcpdump.org, "Link-Layer Header Types".
const LINK_TYPE: u16 = 1;
/// The type of a frame with IPv4.
const TYPE_IPV4: u16 = 0x0800;
/// The type of a frame with MAC control.
const TYPE_CONTROL: u16 = 0x8808;
/// The address of pause frames. Source: IEEE 802.3, annex 31B.
const PAUSE_ADDRESS: [u8; 6] = [0x01, 0x80, 0xC2, 0, 0, 0x01];
/// The operation "pause".
const PAUSE: u16 = 1;
const UDP_PROTOCOL: u8 = 17;
const HOP_LIMIT: u8 = 64;
/// "Capable of congestion marks" and "congestion experienced". Source: RFC 3168.
const ECN_CAPABLE: u8 = 2;
const ECN_MARKED: u8 = 3;
const DO_NOT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;

/// Returns the IPv4 address of a node: 10.0.0.1 is that of node 0.
#[must_use]
pub fn ip_address(node: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 1).to_bits() + node)
}

/// Returns the node of an IPv4 address, which may not exist.
#[must_use]
pub fn node_of_address(address: Ipv4Addr) -> Option<u32> {
    address.to_bits().checked_sub(ip_address(0).to_bits())
}

/// Returns the locally administered address of a node's card; that of the switch is that of the
/// number behind the last node.
fn mac_address(node: u32) -> [u8; 6] {
    let [a, b, c, d] = node.to_be_bytes();
    [0x02, 0, a, b, c, d]
}

/// The recorder.
#[derive(Debug)]
pub struct Tap {
    pub dump: Dump,
    mtu: u64,
    switch: u32,
}

impl Tap {
    /// Makes a recorder, with one interface for each link.
    pub fn new(mut dump: Dump, config: &Config) -> Tap {
        for is_up in [true, false] {
            for node in 0..config.nodes {
                let (name, about) = match is_up {
                    true => (format!("node{node}:switch"), format!("from node {node} to its port")),
                    false => {
                        (format!("switch:node{node}"), format!("from its port to node {node}"))
                    }
                };
                let (name, about, link_type) = (&name, &about, LINK_TYPE);
                let bits_per_s = config.bits_per_s;
                dump.interface(&Interface { name, about, link_type, bits_per_s });
            }
        }
        Tap { dump, mtu: config.mtu.into(), switch: config.nodes }
    }

    /// Records a frame that begins on a link.
    #[cold]
    pub fn began(&mut self, now: Instant, link: u32, frame: &Frame, carried: &Slab<Carried>) {
        let (bytes, comment) = match frame.content {
            Content::Pause(units) => (pause_bytes(self.switch, units), String::new()),
            Content::Part { carried: number, index } => {
                let Some(of) = carried.get(number) else { return };
                (self.part_bytes(&of.datagram, of.send.0, index, frame), comment(of, index))
            }
        };
        let is_damaged = frame.is_damaged;
        self.dump
            .packet(now, dump::Packet { at: now, interface: link, bytes, comment, is_damaged });
    }

    /// Returns the bytes of a frame with a part of a datagram.
    fn part_bytes(&self, datagram: &Datagram, send: u64, index: u32, frame: &Frame) -> Vec<u8> {
        let part = part(datagram.payload_bytes(), self.mtu, index.into());
        let mut bytes = Vec::with_capacity(frame.bytes as usize);
        bytes.extend(mac_address(datagram.target));
        bytes.extend(mac_address(datagram.source));
        bytes.extend(TYPE_IPV4.to_be_bytes());
        let is_whole = part.offset == 0 && !part.has_more;
        let more = if part.has_more { MORE_FRAGMENTS } else { 0 };
        let flags = if is_whole { DO_NOT_FRAGMENT } else { more | (part.offset / 8) as u16 };
        // Source: RFC 6864: the number of a datagram that is not fragmented has no meaning.
        let identification = if is_whole { 0 } else { send as u16 };
        let mut header = vec![0x45, if frame.is_marked { ECN_MARKED } else { ECN_CAPABLE }];
        for word in [(IP_BYTES + part.bytes) as u16, identification, flags] {
            header.extend(word.to_be_bytes());
        }
        header.extend([HOP_LIMIT, UDP_PROTOCOL, 0, 0]);
        header.extend(ip_address(datagram.source).octets());
        header.extend(ip_address(datagram.target).octets());
        let sum = header_sum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(header);
        let whole = udp_bytes(datagram);
        bytes.extend(&whole[part.offset as usize..][..part.bytes as usize]);
        pad(&mut bytes);
        bytes
    }
}

fn comment(of: &Carried, index: u32) -> String {
    format!("send {}, part {index}", of.send.0)
}

/// Returns a datagram with its UDP header, whose check sum is left out.
fn udp_bytes(datagram: &Datagram) -> Vec<u8> {
    let length = datagram.payload_bytes();
    let (from_port, to_port) = match &datagram.payload {
        Payload::Message(_) => (UDP_PORT, UDP_PORT),
        Payload::Udp(udp) => (udp.from_port, udp.to_port),
    };
    let mut bytes = Vec::new();
    for word in [from_port, to_port, (length + UDP_BYTES) as u16, 0] {
        bytes.extend(word.to_be_bytes());
    }
    match &datagram.payload {
        Payload::Message(_) => bytes.resize(bytes.len() + length as usize, 0),
        Payload::Udp(udp) => bytes.extend(&udp.bytes),
    }
    bytes
}

fn pause_bytes(switch: u32, units: u16) -> Vec<u8> {
    let mut bytes = PAUSE_ADDRESS.to_vec();
    bytes.extend(mac_address(switch));
    for word in [TYPE_CONTROL, PAUSE, units] {
        bytes.extend(word.to_be_bytes());
    }
    pad(&mut bytes);
    bytes
}

/// Fills a short frame with zeros.
fn pad(bytes: &mut Vec<u8>) {
    let least = (FRAME_BYTES_MIN - FCS_BYTES) as usize;
    bytes.resize(bytes.len().max(least), 0);
}

/// Returns the check sum of an IPv4 header. Source: RFC 1071.
fn header_sum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    !(((sum & 0xFFFF) + (sum >> 16)) as u16)
}
