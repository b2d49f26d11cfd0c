//! Records packets on the links of a network in a [`Dump`].
//!
//! Each packet is recorded once for each time that a link sends it, at the clock of its first
//! symbol: also damaged and repeated ones. The model carries lengths, not bytes, so the dump has
//! the header of the generic network (`docs/simulation/dumps.md`) without a payload.

use super::config::Config;
use super::state::{Packet, Worm};
use super::wiring::NONE;
use crate::Instant;
use crate::core::dump::{self, Dump, Interface, LINK_TYPE_NETWORK};

/// The first byte of the header: the version of the layout.
const VERSION: u8 = 1;

/// The recorder of packets on links.
#[derive(Clone, Debug)]
pub struct Tap {
    pub dump: Dump,
    /// The interface of each output; [`NONE`]: no cable.
    interfaces: Vec<u32>,
}

/// The fate of a packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives whole.
    Whole,
    /// A bit is wrong at its end.
    Damaged,
    /// The receiver rejects it, because it follows a damaged packet.
    Rejected,
    /// It goes to a host port of its chip, not over a link.
    Landed,
}

/// A packet that a link sends.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub at: Instant,
    pub output: u32,
    pub symbols: u64,
    pub fate: Fate,
    /// True if it was sent before.
    pub is_repeat: bool,
}

impl Tap {
    /// Makes a recorder with one interface for each direction of a cable.
    /// A chip has inputs and outputs with numbers below `ports`.
    pub fn new(mut dump: Dump, config: &Config, ports: u32) -> Tap {
        let mut interfaces = vec![NONE; (config.wiring.nodes() * ports) as usize];
        for near in config.wiring.link_ports() {
            let (node, port, to) = (near.node, near.port, near.end(&config.wiring).node);
            let name = format!("node{node}:port{port}-{to}");
            let about = format!("link from port {port} of node {node} to node {to}");
            let bits_per_s = config.clock.hertz() * 8;
            let (name, about, link_type) = (&name, &about, LINK_TYPE_NETWORK);
            let interface = Interface { name, about, link_type, bits_per_s };
            interfaces[(node * ports + port) as usize] = dump.interface(&interface);
        }
        Tap { dump, interfaces }
    }

    /// Records a packet.
    #[cold]
    pub fn record(&mut self, sent: &Sent, packet: &Packet, worm: &Worm, packet_bytes: u32) {
        let Some(&interface) = self.interfaces.get(sent.output as usize) else { return };
        if interface == NONE {
            return;
        }
        let left = (worm.bytes - worm.landed).div_ceil(packet_bytes);
        let mut bytes = vec![VERSION, worm.port, 0, 0];
        let numbers = [worm.source, worm.target, worm.send as u32, sent.symbols as u32];
        for number in numbers.into_iter().chain([worm.bytes, left]) {
            bytes.extend(number.to_be_bytes());
        }
        let (at, is_damaged) = (sent.at, sent.fate == Fate::Damaged);
        let comment = comment(sent, packet, worm);
        self.dump.packet(at, dump::Packet { at, interface, bytes, comment, is_damaged });
    }
}

/// Describes facts that the header does not have.
fn comment(sent: &Sent, packet: &Packet, worm: &Worm) -> String {
    let last = packet.first + u32::from(packet.bytes);
    let mut text = format!("send {}, bytes {} to {last}", worm.send, packet.first);
    if sent.is_repeat {
        text.push_str("; sent again");
    }
    match sent.fate {
        Fate::Whole | Fate::Landed => {}
        Fate::Damaged => text.push_str("; damaged on this link"),
        Fate::Rejected => text.push_str("; rejected behind a damaged packet"),
    }
    text
}
