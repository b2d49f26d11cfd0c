//! The motion of packets: the work of one clock.

use super::state::{Coming, FREE, Input, NEVER, Output, Packet, Repair};
use super::tap::{Fate, Sent};
use super::wiring::NONE;
use super::{Cargo, Entry, Errors, Network};
use crate::core::agenda::Schedule;
use crate::core::interconnect::{Class, Report, SendId};

impl<C: Cargo, const LINKS: u32, const PORTS: u32> Network<C, LINKS, PORTS> {
    /// Does all work of this clock.
    pub(super) fn do_tick(&mut self, agenda: &mut impl Schedule<Entry>) {
        self.tick = self.ticks.from(agenda.now());
        let index = self.tick as usize & (self.slots.len() - 1);
        let mut slot = std::mem::take(&mut self.slots[index]);
        for coming in slot.arrivals.drain(..) {
            self.arrive(coming, agenda);
        }
        for output in slot.nacks.drain(..) {
            self.begin_repair(output);
            slot.choices.push(output);
        }
        // Arrivals and choices may ask for further choices of this clock.
        self.choosing.append(&mut slot.choices);
        let mut next = 0;
        while let Some(&output) = self.choosing.get(next) {
            next += 1;
            self.choose(output, agenda);
        }
        self.choosing.clear();
        for worm in slot.deliveries.drain(..) {
            self.deliver(worm);
        }
        slot.is_planned = false;
        // The lists are empty; they keep their memory.
        self.slots[index] = slot;
    }

    /// Lets an output choose at a clock, now or later, unless it chooses before.
    pub(super) fn wake(&mut self, output: u32, tick: u64, agenda: &mut impl Schedule<Entry>) {
        let of = &mut self.outputs[output as usize];
        if of.wake_at <= tick {
            return;
        }
        of.wake_at = tick;
        if tick <= self.tick {
            self.choosing.push(output);
        } else {
            self.slot(tick, output, agenda).choices.push(output);
        }
    }

    /// Puts a packet into the buffer of an input.
    fn arrive(&mut self, coming: Coming, agenda: &mut impl Schedule<Entry>) {
        let Coming { packet, input } = coming;
        self.inputs[input as usize].coming -= 1;
        let Packet { worm, bytes, .. } = *self.packets.get(packet);
        let (tick, go, control) = (self.tick, self.config.go_bytes, self.control_clocks);
        if self.worms.get(worm).is_dead {
            self.remove(packet);
            self.return_credit(input, bytes.into(), agenda);
            self.resupply(input, agenda);
            return;
        }
        let of = &mut self.inputs[input as usize];
        of.settle(tick, go, control);
        of.fill += u32::from(bytes);
        let last = std::mem::replace(&mut of.tail, packet);
        if of.head == NONE {
            of.head = packet;
            self.request(input, agenda);
        } else {
            self.packets.get_mut(last).next = packet;
        }
        self.stop_if_full(input);
    }

    /// Lets a network port go on behind a packet that a fault removed.
    pub(super) fn resupply(&mut self, input: u32, agenda: &mut impl Schedule<Entry>) {
        if input % PORTS >= LINKS {
            self.supply(input, self.tick + 1, agenda);
        }
    }

    /// Returns the output of its chip that the first packet of an input needs.
    pub(super) fn wanted(&self, input: u32) -> u32 {
        let of = &self.inputs[input as usize];
        let packet = self.packets.get(of.head);
        if !packet.is_head {
            return input / PORTS * PORTS + u32::from(of.out);
        }
        let worm = self.worms.get(packet.worm);
        let hop = u32::from(worm.hop);
        let is_there = hop == worm.path.links();
        let port = if is_there { LINKS + u32::from(worm.target_port) } else { worm.path.port(hop) };
        input / PORTS * PORTS + port
    }

    /// Lets the first packet of an input ask for its output.
    pub(super) fn request(&mut self, input: u32, agenda: &mut impl Schedule<Entry>) {
        let output = self.wanted(input);
        self.outputs[output as usize].waiting |= 1 << (input % PORTS);
        let tick = self.inputs[input as usize].leaving_until.max(self.tick);
        self.wake(output, tick, agenda);
    }

    /// Lets an output send its next packet if it can, or choose again when it may.
    fn choose(&mut self, output: u32, agenda: &mut impl Schedule<Entry>) {
        let now = self.tick;
        let of = &mut self.outputs[output as usize];
        if of.wake_at <= now {
            of.wake_at = NEVER;
        }
        let repeats = of.repeats();
        if of.waiting == 0 && !repeats {
            return;
        }
        if of.is_dead {
            return self.drop_waiting(output, agenda);
        }
        let ack = of.acks[usize::from(of.ack)];
        let ready = if of.to == NONE { of.free_at } else { of.free_at.max(ack) };
        if ready > now {
            return self.wake(output, ready, agenda);
        }
        if !self.may_send(output, agenda) {
            return;
        }
        if repeats {
            return self.repeat(output, agenda);
        }
        if let Some(input) = self.winner(output, agenda) {
            self.start(output, input, agenda);
        }
    }

    /// Returns the input that an output serves: its holder, or one after the other.
    fn winner(&mut self, output: u32, agenda: &mut impl Schedule<Entry>) -> Option<u32> {
        let of = &self.outputs[output as usize];
        let first = output / PORTS * PORTS;
        let mut asking = match of.holder {
            FREE => of.waiting,
            holder => of.waiting & 1 << holder,
        };
        let (turn, mut soonest) = (of.turn, NEVER);
        while asking != 0 {
            // The first one from the turn on, or else the first of all.
            let ahead = asking & u32::MAX << turn;
            let local = if ahead == 0 { asking } else { ahead }.trailing_zeros();
            let input = first + local;
            let leaving = self.inputs[input as usize].leaving_until;
            if leaving <= self.tick {
                return Some(input);
            }
            soonest = soonest.min(leaving);
            asking &= !(1 << local);
        }
        if soonest < NEVER {
            self.wake(output, soonest, agenda);
        }
        None
    }

    /// Sends the first packet of an input.
    fn start(&mut self, output: u32, input: u32, agenda: &mut impl Schedule<Entry>) {
        let (now, go, control) = (self.tick, self.config.go_bytes, self.control_clocks);
        let of = &mut self.inputs[input as usize];
        of.settle(now, go, control);
        let number = of.head;
        let packet = *self.packets.get(number);
        of.head = packet.next;
        self.packets.get_mut(number).next = NONE;
        if packet.is_head {
            let worm = self.worms.get_mut(packet.worm);
            worm.hop += 1;
            self.heads[(input / PORTS) as usize] += u32::from(!worm.is_control);
        }
        let symbols = self.symbols(&packet);
        let local = (input % PORTS) as u8;
        Self::hold(
            &mut self.inputs[input as usize],
            &mut self.outputs[output as usize],
            &packet,
            [local, (output % PORTS) as u8],
        );
        let of = &mut self.inputs[input as usize];
        of.leaving_until = now + symbols;
        of.leaving_bytes = packet.bytes;
        let (has_more, is_awaited) = (of.head != NONE, of.is_awaited);
        if is_awaited {
            self.announce_go(input, agenda);
        }
        if has_more {
            self.request(input, agenda);
        }
        let fate = self.launch(output, number, symbols, agenda);
        if self.tap.is_some() {
            self.record(number, Sent { at: agenda.now(), output, symbols, fate, is_repeat: false });
        }
        if self.outputs[output as usize].waiting != 0 {
            self.wake(output, now + symbols, agenda);
        }
        if input % PORTS >= LINKS {
            self.supply(input, now + symbols, agenda);
        }
    }

    /// Lets a message hold an output from its head to its tail. `ports` are the input and the
    /// output within the chip.
    fn hold(input: &mut Input, output: &mut Output, packet: &Packet, ports: [u8; 2]) {
        let [from, to] = ports;
        output.waiting &= !(1 << from);
        if packet.is_head {
            output.turn = (from + 1) % PORTS as u8;
        }
        let is_over = packet.is_tail;
        output.holder = if is_over { FREE } else { from };
        input.out = if is_over { FREE } else { to };
        input.worm = if is_over { NONE } else { packet.worm };
    }

    /// Returns the symbols of a packet on the link that it is sent on.
    fn symbols(&self, packet: &Packet) -> u64 {
        let plain = u64::from(packet.bytes) + u64::from(self.config.overhead_symbols);
        if !packet.is_head {
            return plain;
        }
        let worm = self.worms.get(packet.worm);
        plain + u64::from(worm.path.links()) + 1 - u64::from(worm.hop)
    }

    /// Puts a packet on the link of an output.
    fn launch(
        &mut self,
        output: u32,
        number: u32,
        symbols: u64,
        agenda: &mut impl Schedule<Entry>,
    ) -> Fate {
        let now = self.tick;
        let of = &mut self.outputs[output as usize];
        of.free_at = now + symbols;
        of.busy += symbols;
        let to = of.to;
        if to == NONE {
            self.land(number, now + symbols, agenda);
            return Fate::Landed;
        }
        if self.config.errors == Errors::RepeatedByLinks {
            of.acks[usize::from(of.ack)] = now + symbols + self.ack_clocks;
            of.ack = (of.ack + 1) % self.config.window as u8;
        }
        let lost = of.repair.as_mut().map(|repair| &mut repair.lost);
        if let Some(lost) = lost.filter(|lost| !lost.is_empty()) {
            lost.push_back(number);
            return Fate::Rejected;
        }
        let survival = self.survivals.get(symbols as usize);
        if survival.is_some_and(|&chance| !self.draw.chance(chance)) {
            self.counts.damaged += 1;
            if self.config.errors == Errors::DroppedByTarget {
                let worm = self.packets.get(number).worm;
                self.worms.get_mut(worm).is_damaged = true;
                self.carry(number, to, agenda);
                return Fate::Damaged;
            }
            let repair = of.repair.get_or_insert_default();
            repair.lost.push_back(number);
            let tick = now + symbols + self.ack_clocks;
            self.slot(tick, output, agenda).nacks.push(output);
            return Fate::Damaged;
        }
        self.carry(number, to, agenda);
        Fate::Whole
    }

    /// Carries a packet to the input at the other end of a link.
    fn carry(&mut self, packet: u32, input: u32, agenda: &mut impl Schedule<Entry>) {
        self.counts.hops += 1;
        let bytes = u32::from(self.packets.get(packet).bytes);
        let of = &mut self.inputs[input as usize];
        of.coming += 1;
        of.owed += if of.has_credits { bytes } else { 0 };
        let is_end = input / PORTS < self.ends;
        let tick = self.tick + if is_end { self.end_clocks } else { self.hop_clocks };
        self.slot(tick, input, agenda).arrivals.push(Coming { packet, input });
    }

    /// Records a packet that a link sends in the dump.
    #[cold]
    fn record(&mut self, number: u32, sent: Sent) {
        if sent.fate == Fate::Landed {
            return;
        }
        let Some(tap) = &mut self.tap else { return };
        let packet = self.packets.get(number);
        tap.record(&sent, packet, self.worms.get(packet.worm), self.config.packet_bytes);
    }

    /// Acts on a negative acknowledgement: all packets since the damaged one are sent again. They
    /// fill the retransmission buffer no longer.
    fn begin_repair(&mut self, output: u32) {
        let of = &mut self.outputs[output as usize];
        let Some(repair) = of.repair.as_mut() else { return };
        let Repair { lost, ready } = &mut **repair;
        lost.append(ready);
        std::mem::swap(lost, ready);
        of.acks = [0; super::config::WINDOW_MAX];
    }

    /// Sends the next packet again.
    fn repeat(&mut self, output: u32, agenda: &mut impl Schedule<Entry>) {
        let of = &mut self.outputs[output as usize];
        let Some(repair) = of.repair.as_mut() else { return };
        let Some(number) = repair.ready.pop_front() else { return };
        if repair.ready.is_empty() && repair.lost.is_empty() {
            of.repair = None;
        }
        let packet = *self.packets.get(number);
        if self.worms.get(packet.worm).is_dead {
            self.remove(number);
        } else {
            self.counts.repeated += 1;
            let symbols = self.symbols(&packet);
            let fate = self.launch(output, number, symbols, agenda);
            if self.tap.is_some() {
                let at = agenda.now();
                self.record(number, Sent { at, output, symbols, fate, is_repeat: true });
            }
        }
        let of = &self.outputs[output as usize];
        if of.waiting != 0 || of.repeats() {
            let tick = of.free_at.max(self.tick + 1);
            self.wake(output, tick, agenda);
        }
    }

    /// Takes a packet out of the network at its target.
    fn land(&mut self, number: u32, tick: u64, agenda: &mut impl Schedule<Entry>) {
        let packet = *self.packets.get(number);
        let worm = self.worms.get_mut(packet.worm);
        if packet.first != worm.landed {
            let send = worm.send;
            self.defect.get_or_insert_with(|| format!("send {send}: a packet is out of order"));
        }
        let worm = self.worms.get_mut(packet.worm);
        worm.landed += u32::from(packet.bytes);
        let target = worm.target;
        self.remove(number);
        if packet.is_tail {
            self.slot(tick, target, agenda).deliveries.push(packet.worm);
        }
    }

    /// Puts a message into the memory of its target.
    fn deliver(&mut self, number: u32) {
        let worm = self.worms.remove(number);
        let Some(cargo) = self.cargo[number as usize].take() else { return };
        if worm.landed != worm.bytes || worm.packets != 0 {
            let send = worm.send;
            self.defect.get_or_insert_with(|| format!("send {send} arrived in part"));
        }
        let (node, send) = (worm.source, SendId(worm.send));
        if worm.is_damaged {
            self.counts.lost += 1;
            self.reports.push_back(Report::Lost { node, send });
            return;
        }
        self.counts.delivered += 1;
        self.arrived[worm.target as usize].push_back(cargo);
        self.reports.push_back(Report::Received { node: worm.target, class: Class::Request });
        self.reports.push_back(Report::Done { node, send });
    }
}
