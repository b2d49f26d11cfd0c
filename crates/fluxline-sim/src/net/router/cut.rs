//! Links that are cut, and work again.
//!
//! The route of a packet is fixed. So a packet that needs a cut link is lost at the router before
//! it, which swallows it at the rate of the link. A packet that is on the link when it is cut is
//! lost at its other end. If its head has passed already, the rest of it follows its route, and is
//! dropped at the target. With its first packet, a message is lost, and its source gets a report.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::state::{NONE, Pending};
use super::{Entry, Network};
use crate::core::agenda::Schedule;
use crate::core::interconnect::Loss;

/// The traces of cut links; empty while there was none.
#[derive(Clone, Debug, Default)]
pub struct Cuts {
    /// Packets that lost a part on a cut link, with the link's output.
    broken: BTreeMap<u32, u32>,
    /// Messages that lost a packet, and are not over.
    messages: BTreeSet<u32>,
    /// Lost packets by the output of the link.
    lost: BTreeMap<u32, u64>,
    /// The bytes of lost messages that are over.
    pub bytes: u64,
    /// The sources of lost messages that were not reported yet.
    pub sources: VecDeque<u32>,
}

impl Cuts {
    /// Returns true if packets under way lost a part.
    #[inline]
    pub fn has_broken(&self) -> bool {
        !self.broken.is_empty()
    }

    /// Returns the output of the link that took a part of a packet, and forgets it.
    fn take_broken(&mut self, packet: u32) -> Option<u32> {
        if self.broken.is_empty() { None } else { self.broken.remove(&packet) }
    }
}

impl Network {
    /// Cuts the link between two routers, or mends it. Returns false if there is none.
    pub(super) fn set_cut(
        &mut self,
        ends: [u32; 2],
        is_cut: bool,
        agenda: &mut impl Schedule<Entry>,
    ) -> bool {
        let outputs = self.outputs_between(ends);
        for &output in &outputs {
            self.tick = self.tick.max(self.ticks.from(agenda.now()));
            let was_cut = std::mem::replace(&mut self.outputs[output as usize].is_cut, is_cut);
            if is_cut && !was_cut {
                self.break_packets(output);
            }
            if self.outputs[output as usize].waiting != 0 {
                self.wake(output, self.tick + 1, agenda);
            }
        }
        !outputs.is_empty()
    }

    /// Returns the outputs of both directions; two routers of a ring of two have two links.
    fn outputs_between(&self, [one, other]: [u32; 2]) -> Vec<u32> {
        let topology = &self.topology;
        if one.max(other) >= topology.routers() {
            return Vec::new();
        }
        let ways = [(one, other), (other, one)].into_iter();
        let outputs = ways.flat_map(|(from, to)| {
            let ports = (0..topology.ports()).filter(move |&port| port != topology.local_port());
            let leads = move |port: &u32| topology.neighbour(from, *port) == to;
            ports.filter(leads).map(move |port| from * topology.ports() + port)
        });
        outputs.collect()
    }

    /// Marks the packets on a link that was cut.
    fn break_packets(&mut self, output: u32) {
        let wire = u64::from(self.config.wire_ticks);
        for coming in &self.from_routers {
            let left = coming.tick - self.hop_ticks();
            let ticks = u64::from(self.packet_ticks(self.packets.get(coming.packet).bytes));
            let is_here = self.buffers[coming.buffer as usize].feeder == output;
            if is_here && self.tick < left + ticks + wire {
                self.cuts.broken.insert(coming.packet, output);
            }
        }
        let out = &self.outputs[output as usize];
        if out.sent != NONE && self.tick < out.busy_until + wire {
            self.cuts.broken.insert(out.sent, output);
        }
    }

    /// Returns true if a packet that arrives at a buffer was lost on a cut link before it.
    pub(super) fn is_lost_on_arrival(
        &mut self,
        packet: u32,
        buffer: u32,
        agenda: &mut impl Schedule<Entry>,
    ) -> bool {
        let feeder = self.buffers[buffer as usize].feeder;
        if self.cuts.broken.get(&packet) != Some(&feeder) {
            return false;
        }
        self.cuts.broken.remove(&packet);
        self.buffers[buffer as usize].free += self.packets.get(packet).bytes;
        self.lose(packet, feeder);
        if self.outputs[feeder as usize].waiting != 0 {
            self.wake(feeder, self.tick, agenda);
        }
        true
    }

    /// Drops a packet at its target if a cut link took a part of it.
    pub(super) fn is_lost_at_target(&mut self, packet: u32) -> bool {
        let Some(output) = self.cuts.take_broken(packet) else { return false };
        self.lose(packet, output);
        true
    }

    /// Loses a packet at the link of an output.
    pub(super) fn lose(&mut self, packet: u32, output: u32) {
        *self.cuts.lost.entry(output).or_default() += 1;
        let number = self.packets.remove(packet).message;
        self.cuts.messages.insert(number);
        self.end_packet(number);
    }

    /// Counts the end of a packet; returns its message if that was the last one and all arrived.
    pub(super) fn end_packet(&mut self, number: u32) -> Option<Pending> {
        let message = self.messages.get_mut(number);
        message.packets -= 1;
        if message.packets > 0 {
            return None;
        }
        let message = self.messages.remove(number);
        if self.cuts.messages.is_empty() || !self.cuts.messages.remove(&number) {
            return Some(message);
        }
        self.cuts.bytes += u64::from(message.bytes);
        self.cuts.sources.push_back(message.source);
        None
    }

    /// Returns the links that lost packets.
    pub(super) fn cut_losses(&self) -> Vec<Loss> {
        let ports = self.topology.ports();
        let of = |(&output, &frames): (&u32, &u64)| {
            let (from, to) =
                (output / ports, self.topology.neighbour(output / ports, output % ports));
            Loss { place: format!("link from router {from} to router {to}"), frames }
        };
        self.cuts.lost.iter().map(of).collect()
    }
}
