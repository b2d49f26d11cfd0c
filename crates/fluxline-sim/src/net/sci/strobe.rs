//! Clock strobes: events that every node of a ringlet notes as they pass.
//!
//! A node notes the tick at which a strobe's first symbol arrives. The strobe carries its waiting
//! times at its sender and in bypass FIFOs, so that a clock may correct for them. The standard lets
//! nodes note the arrival and the departure of a strobe (BACKGROUND-M); the sum in the strobe
//! itself is assumed.

use super::link::{Kind, NodeIndex, Passage, Report};
use super::network::Network;
use super::port::Flight;
use super::ring::Rings;

impl Rings {
    /// Handles a strobe's head at a port. The strobe is reported when all of it has arrived, if its
    /// CRC is correct.
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
    /// Handles the end of a strobe.
    pub(super) fn strobe(&mut self, at: u32) {
        let port = &mut self.rings.ports[at as usize];
        let node = NodeIndex(port.node);
        let passage = port.strobes.pop_front();
        self.reports.extend(passage.map(|passage| Report::Strobe { node, passage }));
    }
}
