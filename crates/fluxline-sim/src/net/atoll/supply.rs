//! Network ports: messages wait, and are cut into packets as fast as the crossbar takes them.

use super::state::{Coming, Packet, Worm};
use super::wiring::NONE;
use super::{Cargo, Entry, Network};
use crate::core::agenda::Schedule;
use crate::core::interconnect::{Refusal, Refused, Report, SendId};

impl<C: Cargo, const LINKS: u32, const PORTS: u32> Network<C, LINKS, PORTS> {
    /// Queues a message at the network port of its host port.
    pub(super) fn queue(
        &mut self,
        node: u32,
        cargo: C,
        agenda: &mut impl Schedule<Entry>,
    ) -> Result<SendId, Refused<C>> {
        let never = |frame| Err(Refused { frame, why: Refusal::Never });
        let (wiring, port, target_port) = (&self.config.wiring, cargo.port(), cargo.target_port());
        let chosen = cargo.path();
        let target = chosen.map_or(cargo.target(), |path| path.end(wiring, node));
        let Some(bytes) = cargo.bytes().checked_add(self.config.header_bytes) else {
            return never(cargo);
        };
        let is_there = |node: u32| self.has_power.get(node as usize) == Some(&true);
        let has_ports = u32::from(port.max(target_port)) < LINKS;
        if !has_ports || !is_there(node) || target >= self.config.wiring.hosts() {
            return never(cargo);
        }
        let Some(path) = chosen.or_else(|| self.routes.path(node, target)) else {
            return never(cargo);
        };
        let index = (node * LINKS + u32::from(port)) as usize;
        if self.ports[index].worms.len() >= self.config.queue_messages as usize {
            self.ports[index].has_refused = true;
            return Err(Refused { frame: cargo, why: Refusal::Full });
        }
        self.counts.sent += 1;
        let send = self.counts.sent;
        let is_control = cargo.is_control();
        let worm = Worm {
            send,
            source: node,
            target,
            port,
            target_port,
            bytes,
            taken: 0,
            landed: 0,
            packets: 0,
            path,
            hop: 0,
            is_control,
            is_dead: false,
            is_damaged: false,
        };
        let number = self.worms.add(worm);
        if self.cargo.len() <= number as usize {
            self.cargo.resize_with(number as usize + 1, || None);
        }
        self.cargo[number as usize] = Some(cargo);
        let waiting = &mut self.ports[index].worms;
        // The management goes ahead of messages that have not begun.
        let place = if is_control { waiting.len().min(1) } else { waiting.len() };
        waiting.insert(place, number);
        if !self.ports[index].is_supplied {
            let now = self.ticks.from(agenda.now()).max(self.tick);
            let input = node * PORTS + LINKS + u32::from(port);
            self.supply(input, now + self.source_clocks, agenda);
        }
        Ok(SendId(send))
    }

    /// Lets the next packet of a network port reach the crossbar's input at a clock.
    pub(super) fn supply(&mut self, input: u32, tick: u64, agenda: &mut impl Schedule<Entry>) {
        let (node, port) = (input / PORTS, input % PORTS - LINKS);
        let place = &mut self.ports[(node * LINKS + port) as usize];
        place.is_supplied = !place.worms.is_empty();
        let Some(&number) = place.worms.front() else { return };
        let worm = self.worms.get_mut(number);
        let bytes = (worm.bytes - worm.taken).min(self.config.packet_bytes);
        let first = worm.taken;
        worm.taken += bytes;
        worm.packets += 1;
        let (is_head, is_tail) = (first == 0, worm.taken == worm.bytes);
        if is_tail {
            place.worms.pop_front();
            if std::mem::take(&mut place.has_refused) {
                self.reports.push_back(Report::Space { node });
            }
        }
        let bytes = bytes as u16;
        let packet = Packet { worm: number, first, next: NONE, bytes, is_head, is_tail };
        let packet = self.packets.add(packet);
        self.inputs[input as usize].coming += 1;
        self.slot(tick, input, agenda).arrivals.push(Coming { packet, input });
    }

    /// Removes a packet, and a dead message with its last packet.
    pub(super) fn remove(&mut self, packet: u32) {
        let number = self.packets.remove(packet).worm;
        let worm = self.worms.get_mut(number);
        worm.packets -= 1;
        if worm.is_dead && worm.packets == 0 {
            self.worms.remove(number);
        }
    }
}
