//! The state of one chip, as software on its node reads it.

use super::deadlock::Held;
use super::state::FREE;
use super::wiring::NONE;
use super::{Cargo, Network};

/// The first packet of an input, as its chip knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// The number of its message.
    pub send: u64,
    /// The first byte of the message that it carries.
    pub first: u32,
}

impl<C: Cargo, const LINKS: u32, const PORTS: u32> Network<C, LINKS, PORTS> {
    /// Returns true if a link port receives the signal of another chip.
    #[must_use]
    pub fn is_link_up(&self, node: u32, port: u32) -> bool {
        port < LINKS && !self.outputs[(node * PORTS + port) as usize].is_dead
    }

    /// Returns the first packet of an input that waits for its output.
    #[must_use]
    pub fn front(&self, held: Held) -> Option<Front> {
        let input = &self.inputs[(held.node * PORTS + held.input) as usize];
        let packet = (input.head != NONE).then(|| self.packets.get(input.head))?;
        Some(Front { send: self.worms.get(packet.worm).send, first: packet.first })
    }

    /// Returns true if a message holds an input: its head has left, its tail has not.
    #[must_use]
    pub fn is_held(&self, node: u32, input: u32) -> bool {
        self.inputs[(node * PORTS + input) as usize].worm != NONE
    }

    /// Returns the number of heads that have left the crossbar of a node. Those of the management
    /// do not count.
    #[must_use]
    pub fn heads(&self, node: u32) -> u32 {
        self.heads[node as usize]
    }

    /// Returns true if a chip holds no message but those of the management.
    #[must_use]
    pub fn is_quiet(&self, node: u32) -> bool {
        let is_control = |worm: u32| self.worms.get(worm).is_control;
        let first = node * PORTS;
        let inputs = (first..first + PORTS).all(|index| {
            let input = &self.inputs[index as usize];
            let mut next = input.head;
            while next != NONE {
                let packet = self.packets.get(next);
                if !is_control(packet.worm) {
                    return false;
                }
                next = packet.next;
            }
            input.out == FREE || is_control(input.worm)
        });
        let outputs = (first..first + PORTS).all(|index| {
            let repair = self.outputs[index as usize].repair.iter();
            let mut kept = repair.flat_map(|of| of.lost.iter().chain(&of.ready));
            kept.all(|&packet| is_control(self.packets.get(packet).worm))
        });
        let ports = &self.ports[(node * LINKS) as usize..][..LINKS as usize];
        let queued = ports.iter().flat_map(|port| &port.worms);
        inputs && outputs && queued.into_iter().all(|&worm| is_control(worm))
    }
}
