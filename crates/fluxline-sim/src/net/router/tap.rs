//! Records packets that leave the routers of a network in a [`Dump`].
//!
//! Each packet is recorded once per link that it crosses, including the link to its node, at the
//! tick at which its head leaves the router. The model carries lengths, not bytes: the dump has a
//! header of its own (`docs/simulation/dumps.md`) without a payload.

use super::state::{NONE, Packet, Pending};
use super::topology::Topology;
use crate::Instant;
use crate::core::dump::{self, Dump, Interface, LINK_TYPE_NETWORK};

/// First byte of the header: the version of the layout. A choice.
const VERSION: u8 = 1;

/// The recorder of packets on links.
#[derive(Clone, Debug)]
pub(super) struct Tap {
    pub dump: Dump,
    /// Interface of each output; [`NONE`]: no link, at the edge of a mesh.
    interfaces: Vec<u32>,
}

/// A packet whose head leaves a router.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub at: Instant,
    pub output: u32,
    /// Virtual channel of the next buffer.
    pub channel: u8,
}

impl Tap {
    /// Makes a recorder, with one interface for each link out of a router.
    pub fn new(mut dump: Dump, topology: &Topology, bits_per_s: u64) -> Tap {
        let mut interfaces = Vec::new();
        for output in 0..topology.routers() * topology.ports() {
            let (router, port) = (output / topology.ports(), output % topology.ports());
            let neighbour = topology.neighbour(router, port);
            let is_local = port == topology.local_port();
            if neighbour == NONE && !is_local {
                interfaces.push(NONE);
                continue;
            }
            let (name, about) = if is_local {
                (format!("router{router}:node"), format!("link from router {router} to its node"))
            } else {
                let name = format!("router{router}:port{port}-{neighbour}");
                (name, format!("link from port {port} of router {router} to router {neighbour}"))
            };
            let (name, about, link_type) = (&name, &about, LINK_TYPE_NETWORK);
            interfaces.push(dump.interface(&Interface { name, about, link_type, bits_per_s }));
        }
        Tap { dump, interfaces }
    }

    /// Records a packet that leaves a router.
    #[cold]
    pub fn left(&mut self, left: Left, packet: &Packet, message: &Pending) {
        let interface = self.interfaces[left.output as usize];
        let packet = dump::Packet {
            at: left.at,
            interface,
            bytes: header(packet, message, left.channel),
            comment: String::new(),
            is_damaged: false,
        };
        self.dump.packet(left.at, packet);
    }
}

/// Returns the header: 28 bytes, big-endian numbers.
fn header(packet: &Packet, message: &Pending, channel: u8) -> Vec<u8> {
    let mut bytes = vec![VERSION, channel, 0, 0];
    for number in [message.source, packet.to, packet.message, packet.bytes, message.bytes] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend(message.packets.to_be_bytes());
    bytes
}
