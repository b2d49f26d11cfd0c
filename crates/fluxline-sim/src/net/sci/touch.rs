//! Reads ahead what a network's next entries need (see [`crate::ahead`]).

use std::hint::black_box;

use super::link::{Entry, Kind};
use super::network::Network;
use super::port::What;
use crate::core::ahead::Nearness;

impl Network {
    /// Reads what an entry will need whose turn is near. Changes nothing.
    #[inline]
    pub fn touch(&self, entry: &Entry, nearness: Nearness) {
        match (entry.kind, nearness) {
            (Kind::Wake, Nearness::Soon) => self.touch_port(entry.at),
            (Kind::Wake, Nearness::Next) => self.touch_link(entry.at),
            (Kind::Stripped, Nearness::Soon) => self.touch_intake(entry.at),
            (Kind::Bus | Kind::Passed, Nearness::Soon) => self.touch_bus(entry.at),
            (Kind::Ended, Nearness::Soon) => {
                black_box(self.rings.sends.get(entry.at).map(|send| send.ended));
            }
            _ => {}
        }
    }

    /// A word of each cache line that a passing packet needs.
    fn touch_port(&self, at: u32) {
        let Some(port) = self.rings.ports.get(at as usize) else { return };
        let words = port.woken_for ^ port.in_rise.low ^ port.out_rise.low;
        black_box(words ^ port.counters.symbols_in);
    }

    /// Touches the next item of a port, and the link behind it.
    fn touch_link(&self, at: u32) {
        let Some(port) = self.rings.ports.get(at as usize) else { return };
        if let Some(item) = port.input.front()
            && let What::Packet(flight) = item.what
        {
            black_box(self.rings.flights.get(flight).map(|flight| flight.symbols));
        }
        let behind = self.rings.ports.get(port.downstream as usize);
        black_box(behind.and_then(|behind| behind.input.back()).map(|item| item.at));
    }

    fn touch_intake(&self, at: u32) {
        let Some(port) = self.rings.ports.get(at as usize) else { return };
        let held = port.intake.each_ref().map(|intake| intake.held);
        black_box((port.arriving.len(), held, port.node));
    }

    fn touch_bus(&self, node: u32) {
        let Some(bus) = self.buses.get(node as usize) else { return };
        black_box(bus.waiting ^ bus.held[0]);
        black_box(bus.turns[0] ^ bus.passing.len() ^ bus.out[0].len() ^ bus.packets[0].len());
    }
}
