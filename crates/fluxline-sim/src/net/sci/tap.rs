//! Records packets on the links of a network in a [`Dump`].
//!
//! Each packet is recorded once per link that it crosses: at the tick of its first symbol, with the
//! bytes that arrive at the other end. A send's bytes are kept from its start, because the model
//! hands the packet over at its acceptance, while the echo is still on the way.

use std::fmt::Write;

use super::ageing::Phase;
use super::lane::{self, Send};
use super::port::{Echo, Flight, Port};
use super::ticks::Ticks;
use super::wire::{self, Crc, EchoHead, Flow};
use super::{Config, NodeId, Packet};
use crate::core::dump::{self, Dump, Interface, LINK_TYPE_SCI};

/// The recorder of packets on links.
#[derive(Debug)]
pub(super) struct Tap {
    pub dump: Dump,
    ticks: Ticks,
    /// Address of each ring port's node.
    addresses: Vec<NodeId>,
    /// The packets on their way, by flight.
    images: Vec<Option<Image>>,
}

/// The content of a send at its start, for the records of the send and its echo.
#[derive(Debug)]
struct Image {
    packet: Packet,
    id: u64,
    attempt: u32,
    is_passing: bool,
    /// The port that made the echo, if it exists.
    echoed_by: Option<u32>,
}

/// A packet that is put on a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Put {
    /// The port before the link.
    pub at: u32,
    /// The current tick.
    pub now: u64,
    /// Tick of the first symbol.
    pub out: u64,
    pub handle: u32,
    pub is_cut: bool,
}

impl Tap {
    /// Makes a recorder with one interface for each ring port's output link, by the port's number.
    pub fn new(mut dump: Dump, ports: &[Port], config: &Config, ticks: Ticks) -> Tap {
        let address = |node: u32| config.addresses[node as usize];
        for port in ports {
            let (from, to) = (port.node, ports[port.downstream as usize].node);
            let name = format!("ringlet{}:{from}-{to}", port.ring);
            let about = format!(
                "ringlet {}, link from node {from} (address {:#06x}) to node {to} ({:#06x})",
                port.ring,
                address(from).0,
                address(to).0
            );
            let bits_per_s = config.clock.hertz() * 16;
            let (name, about, link_type) = (&name, &about, LINK_TYPE_SCI);
            dump.interface(&Interface { name, about, link_type, bits_per_s });
        }
        let addresses = ports.iter().map(|port| address(port.node)).collect();
        Tap { dump, ticks, addresses, images: Vec::new() }
    }

    /// Records the start of a send.
    #[cold]
    pub fn start(&mut self, handle: u32, send: &Send) {
        let place = handle as usize;
        if self.images.len() <= place {
            self.images.resize_with(place + 1, || None);
        }
        self.images[place] = send.packet.clone().map(|packet| Image {
            packet,
            id: send.id.0,
            attempt: send.attempts,
            is_passing: send.passing,
            echoed_by: None,
        });
    }

    /// Records a packet that is put on a link.
    #[cold]
    pub fn put(&mut self, put: Put, flight: &Flight) {
        let Some(Some(image)) = self.images.get_mut(put.handle as usize) else { return };
        let crc = match (flight.bad, flight.logged) {
            (false, _) => Crc::Right,
            (true, false) => Crc::Damaged,
            (true, true) => Crc::Stomped,
        };
        let (is_high, phase) = (lane::is_high(flight.lane.into()), flight.phase);
        let flow = Flow { is_high, phase, is_old: flight.old };
        let bytes = match flight.echo {
            None => wire::send(&image.packet, flow, crc),
            Some(says) => {
                let by = *image.echoed_by.get_or_insert(put.at);
                let head = EchoHead {
                    target: image.packet.source,
                    source: self.addresses[by as usize],
                    says,
                    is_response: lane::is_response(flight.lane.into()),
                    transaction: image.packet.transaction,
                    flow,
                };
                wire::echo(&head, crc)
            }
        };
        let packet = dump::Packet {
            at: self.ticks.at(put.out),
            interface: put.at,
            bytes,
            comment: comment(image, flight, crc, put.is_cut),
            is_damaged: crc != Crc::Right,
        };
        self.dump.packet(self.ticks.at(put.now), packet);
    }
}

/// Describes facts that the bytes do not show.
fn comment(image: &Image, flight: &Flight, crc: Crc, is_cut: bool) -> String {
    let mut text = String::new();
    let of = if flight.echo.is_some() { "echo of send" } else { "send" };
    // Writing into a string cannot fail.
    let _ = write!(text, "{of} {}, try {}", image.id, image.attempt);
    let mut add = |what: &str| {
        text.push_str("; ");
        text.push_str(what);
    };
    match flight.phase {
        Phase::DoTry => {}
        Phase::RetryA => add("of generation A"),
        Phase::RetryB => add("of generation B"),
    }
    if image.is_passing {
        add("comes from another ringlet");
    }
    match flight.echo {
        None | Some(Echo::Accepted) => {}
        Some(Echo::Busy(Phase::DoTry)) => add("refused"),
        Some(Echo::Busy(Phase::RetryA)) => add("refused into generation A"),
        Some(Echo::Busy(Phase::RetryB)) => add("refused into generation B"),
        Some(Echo::None) => add("scrubbed: nobody took the send"),
    }
    if flight.old {
        add("marked old by the scrubber");
    }
    match crc {
        Crc::Right => {}
        Crc::Damaged => add("damaged on this link"),
        Crc::Stomped => add("damaged before, CRC stomped"),
    }
    if is_cut {
        add("destroyed: this cable is cut");
    }
    text
}
