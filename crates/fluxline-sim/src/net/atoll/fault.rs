//! Cut cables and dead nodes: messages that they hit are removed and reported as lost.

use std::collections::VecDeque;

use super::deadlock::Held;
use super::state::FREE;
use super::wiring::NONE;
use super::{Cargo, Entry, Network};
use crate::core::agenda::Schedule;
use crate::core::fault::FaultKind;
use crate::core::interconnect::{Report, SendId};

impl<C: Cargo, const LINKS: u32, const PORTS: u32> Network<C, LINKS, PORTS> {
    /// Applies a fault. The cable of a node is that of its lowest link port with one.
    pub(super) fn apply(&mut self, kind: FaultKind, agenda: &mut impl Schedule<Entry>) -> bool {
        let node = kind.node();
        if node >= self.config.wiring.nodes() {
            return false;
        }
        self.tick = self.tick.max(self.ticks.from(agenda.now()));
        match kind {
            FaultKind::Host(_) | FaultKind::Restart(_) => return false,
            FaultKind::CutLink { from, to } => return self.set_between(from, to, Cut::Yes, agenda),
            FaultKind::MendLink { from, to } => return self.set_between(from, to, Cut::No, agenda),
            FaultKind::Power(_) => self.switch_off(node, agenda),
            FaultKind::Cable(_) | FaultKind::Repair(_) => {
                let has_cable = |port: &u32| self.config.wiring.end_of(node, *port) != NONE;
                let Some(port) = (0..LINKS).find(has_cable) else { return false };
                let cuts = matches!(kind, FaultKind::Cable(_));
                self.set_cable(node, port, if cuts { Cut::Yes } else { Cut::No }, agenda);
            }
        }
        true
    }

    /// Cuts all cables between two nodes, or repairs them. Returns false if there are none.
    fn set_between(
        &mut self,
        from: u32,
        to: u32,
        cut: Cut,
        agenda: &mut impl Schedule<Entry>,
    ) -> bool {
        let ports: Vec<u32> =
            (0..LINKS).filter(|&port| self.config.wiring.leads(from, port, to)).collect();
        ports.iter().for_each(|&port| {
            self.set_cable(from, port, cut, agenda);
        });
        !ports.is_empty()
    }

    /// Cuts the cable at any link port of a node, or repairs it. Returns false if there is none.
    pub fn set_cable(
        &mut self,
        node: u32,
        port: u32,
        cut: Cut,
        agenda: &mut impl Schedule<Entry>,
    ) -> bool {
        let wiring = &self.config.wiring;
        if node >= wiring.nodes() || port >= LINKS || wiring.end_of(node, port) == NONE {
            return false;
        }
        self.tick = self.tick.max(self.ticks.from(agenda.now()));
        let end = wiring.end_of(node, port);
        for link in [node * LINKS + port, end] {
            self.is_cut[link as usize] = cut == Cut::Yes;
        }
        self.follow_link(node * LINKS + port, agenda);
        self.follow_link(end, agenda);
        true
    }

    fn switch_off(&mut self, node: u32, agenda: &mut impl Schedule<Entry>) {
        self.has_power[node as usize] = false;
        for port in 0..LINKS {
            let end = self.config.wiring.end_of(node, port);
            if end != NONE {
                self.follow_link(node * LINKS + port, agenda);
                self.follow_link(end, agenda);
            }
        }
        let own = (0..).zip(self.worms.iter());
        let own: Vec<u32> = own.filter(|(_, of)| of.source == node).map(|of| of.0).collect();
        own.into_iter().for_each(|worm| self.kill(worm, agenda));
    }

    /// Makes the output of a link dead or alive, as its cable and both of its ends are.
    fn follow_link(&mut self, link: u32, agenda: &mut impl Schedule<Entry>) {
        let output = link / LINKS * PORTS + link % LINKS;
        let to = self.outputs[output as usize].to;
        let has_power = |at: u32| self.has_power[(at / PORTS) as usize];
        let is_dead = self.is_cut[link as usize] || !has_power(output) || !has_power(to);
        if std::mem::replace(&mut self.outputs[output as usize].is_dead, is_dead) || !is_dead {
            return;
        }
        let mut hit: Vec<u32> = self.worms_on(output).collect();
        hit.sort_unstable();
        hit.dedup();
        hit.into_iter().for_each(|worm| self.kill(worm, agenda));
        self.forget(output);
        // Others may wait for it.
        self.wake(output, self.tick + 1, agenda);
    }

    /// Returns the messages that use a link: the one that holds it, and those of packets on it or
    /// in its retransmission buffer.
    fn worms_on(&self, output: u32) -> impl Iterator<Item = u32> + '_ {
        let of = &self.outputs[output as usize];
        let holder = (of.holder != FREE).then(|| {
            let input = output / PORTS * PORTS + u32::from(of.holder);
            self.inputs[input as usize].worm
        });
        let kept = of.repair.iter().flat_map(|repair| repair.lost.iter().chain(&repair.ready));
        let coming = self.slots.iter().flat_map(|slot| &slot.arrivals);
        let coming = coming.filter(move |coming| coming.input == of.to);
        let packets = kept.copied().chain(coming.map(|coming| coming.packet));
        holder.into_iter().chain(packets.map(|packet| self.packets.get(packet).worm))
    }

    /// Removes the packets that a link would repeat; their messages are dead.
    fn forget(&mut self, output: u32) {
        let Some(repair) = self.outputs[output as usize].repair.take() else { return };
        repair.lost.iter().chain(&repair.ready).for_each(|&packet| self.remove(packet));
    }

    /// Removes the messages whose first packets ask for a dead output.
    pub(super) fn drop_waiting(&mut self, output: u32, agenda: &mut impl Schedule<Entry>) {
        let first = output / PORTS * PORTS;
        for input in first..first + PORTS {
            let is_asking = self.outputs[output as usize].waiting & 1 << (input - first) != 0;
            let head = self.inputs[input as usize].head;
            if is_asking && head != NONE {
                let worm = self.packets.get(head).worm;
                self.kill(worm, agenda);
            }
        }
    }

    /// Removes the message whose first packet waits at an input. Returns false if none does.
    pub fn remove_blocked(&mut self, held: Held, agenda: &mut impl Schedule<Entry>) -> bool {
        let head = self.inputs[(held.node * PORTS + held.input) as usize].head;
        if head == NONE {
            return false;
        }
        self.tick = self.tick.max(self.ticks.from(agenda.now()));
        let lost = self.counts.lost;
        self.kill(self.packets.get(head).worm, agenda);
        self.counts.lost > lost
    }

    /// Removes a message from its whole path, and reports it as lost.
    fn kill(&mut self, number: u32, agenda: &mut impl Schedule<Entry>) {
        let worm = *self.worms.get(number);
        // The slot of a message that is over may still be read by a list of all slots.
        if worm.is_dead || self.cargo[number as usize].is_none() || worm.landed == worm.bytes {
            return;
        }
        self.cargo[number as usize] = None;
        self.counts.lost += 1;
        let (node, send) = (worm.source, SendId(worm.send));
        self.reports.push_back(Report::Lost { node, send });
        let port = &mut self.ports[(node * LINKS + u32::from(worm.port)) as usize];
        port.worms.retain(|&waiting| waiting != number);
        if std::mem::take(&mut port.has_refused) {
            self.reports.push_back(Report::Space { node });
        }
        if worm.packets == 0 {
            self.worms.remove(number);
            return;
        }
        self.worms.get_mut(number).is_dead = true;
        // A packet more, so that the message outlives its last packet during this loop.
        self.worms.get_mut(number).packets += 1;
        let mut input = node * PORTS + LINKS + u32::from(worm.port);
        for hop in 0..=worm.path.links() {
            self.purge(input, number, agenda);
            if hop < worm.path.links() {
                let output = input / PORTS * PORTS + worm.path.port(hop);
                input = self.outputs[output as usize].to;
            }
        }
        self.worms.get_mut(number).packets -= 1;
        if self.worms.get(number).packets == 0 {
            self.worms.remove(number);
        }
    }

    /// Removes the packets of a message from an input, and its hold on an output.
    fn purge(&mut self, input: u32, worm: u32, agenda: &mut impl Schedule<Entry>) {
        let (tick, go, control) = (self.tick, self.config.go_bytes, self.control_clocks);
        let of = &mut self.inputs[input as usize];
        of.settle(tick, go, control);
        let mut next = std::mem::replace(&mut of.head, NONE);
        of.tail = NONE;
        let out = if of.worm == worm { std::mem::replace(&mut of.out, FREE) } else { FREE };
        if of.worm == worm {
            of.worm = NONE;
        }
        let mut kept = VecDeque::new();
        let (mut removed, mut bytes) = (0, 0);
        while next != NONE {
            let packet = *self.packets.get(next);
            if packet.worm == worm {
                self.inputs[input as usize].fill -= u32::from(packet.bytes);
                bytes += u32::from(packet.bytes);
                self.remove(next);
                removed += 1;
            } else {
                kept.push_back(next);
            }
            next = packet.next;
        }
        self.relink(input, &kept);
        let first = input / PORTS * PORTS;
        if out != FREE {
            let output = first + u32::from(out);
            self.outputs[output as usize].holder = FREE;
            self.wake(output, tick + 1, agenda);
        }
        if removed > 0 {
            let bit = 1 << (input - first);
            (first..first + PORTS).for_each(|of| self.outputs[of as usize].waiting &= !bit);
            self.inputs[input as usize].go(tick + control, go);
            self.announce_go(input, agenda);
            self.return_credit(input, bytes, agenda);
            self.resupply(input, agenda);
        }
        if !kept.is_empty() && removed > 0 {
            self.ask_later(input, agenda);
        }
    }

    /// Makes `kept` the packets of an input.
    fn relink(&mut self, input: u32, kept: &VecDeque<u32>) {
        for (index, &packet) in kept.iter().enumerate() {
            let next = kept.get(index + 1).copied().unwrap_or(NONE);
            self.packets.get_mut(packet).next = next;
        }
        let of = &mut self.inputs[input as usize];
        of.head = kept.front().copied().unwrap_or(NONE);
        of.tail = kept.back().copied().unwrap_or(NONE);
    }

    /// Lets the first packet of an input ask for its output, from the next clock on.
    fn ask_later(&mut self, input: u32, agenda: &mut impl Schedule<Entry>) {
        let output = self.wanted(input);
        self.outputs[output as usize].waiting |= 1 << (input % PORTS);
        let tick = self.inputs[input as usize].leaving_until.max(self.tick + 1);
        self.wake(output, tick, agenda);
    }
}

/// The state of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing passes.
    Yes,
    /// Packets pass.
    No,
}
