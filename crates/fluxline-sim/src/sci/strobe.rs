//! Clock strobes: events that every node of a ringlet takes note of as they pass.
//!
//! A node takes note of the tick at which a strobe's first symbol comes. How long it waited before,
//! at its sender and in the bypass FIFOs on its way, goes with it, so that whoever sets a clock by
//! it may take that into account, or not. The standard lets nodes note when a strobe came and when
//! it left (BACKGROUND-M); that the sum travels in the strobe itself is assumed.

use super::link::{Kind, NodeIndex, Passage, Report};
use super::network::Network;
use super::port::Flight;
use super::ring::Rings;

impl Rings {
    /// A strobe's head comes to a port: it is told of when all of it is in, if its CRC is right.
    pub(super) fn take_note(&mut self, at: u32, tick: u64, flight: &Flight) {
        if !flight.is_strobe || flight.bad {
            return;
        }
        let Some(send) = self.sends.get(flight.send) else { return };
        let (source, delayed, waited) = (send.source, send.delayed, send.waited);
        let Some(number) = send.strobe else { return };
        let passage = Passage { source, number, arrived: tick, delayed, waited };
        self.ports[at as usize].strobes.push_back(passage);
        self.schedule(tick + u64::from(flight.symbols), at, Kind::Strobe);
    }
}

impl Network {
    /// All of a strobe is in.
    pub(super) fn strobe(&mut self, at: u32) {
        let port = &mut self.rings.ports[at as usize];
        let node = NodeIndex(port.node);
        let passage = port.strobes.pop_front();
        self.reports.extend(passage.map(|passage| Report::Strobe { node, passage }));
    }
}
