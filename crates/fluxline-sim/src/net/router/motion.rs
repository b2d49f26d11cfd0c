//! The motion of packets: the work of one tick.

use std::collections::VecDeque;
use std::hint::black_box;

use super::state::{Buffer, Coming, NEVER, NONE};
use super::tap::Left;
use super::topology::Class;
use super::turns::Turns;
use super::{AHEAD, Entry, Network};
use crate::core::agenda::Schedule;

/// Packets and outputs that are processed together. Derived: a core waits for about 16 lines at
/// once.
const BLOCK: usize = 16;

/// The choice of an output: the head that it sends next.
struct Winner {
    /// The buffer that it waits in.
    buffer: u32,
    /// The channel of the next link that has room for it.
    channel: u8,
}

/// Takes the first packet on a way if it has arrived by `now`.
fn due(way: &mut VecDeque<Coming>, now: u64) -> Option<Coming> {
    if way.front()?.tick == now { way.pop_front() } else { None }
}

impl Network {
    /// Does all work of this tick, including the choice of output `asked`. A second call does
    /// nothing.
    pub(super) fn do_tick(&mut self, asked: Option<u32>, agenda: &mut impl Schedule<Entry>) {
        let now = self.ticks.from(agenda.now());
        self.tick = now;
        while let Some(coming) = due(&mut self.from_nodes, now) {
            self.arrive(coming, agenda);
        }
        while self.from_routers.front().is_some_and(|coming| coming.tick == now) {
            if self.is_large {
                self.read_ahead_of_arrivals();
            }
            for _ in 0..BLOCK {
                let Some(coming) = due(&mut self.from_routers, now) else { break };
                self.arrive(coming, agenda);
            }
        }
        let list = now as usize % AHEAD;
        self.choosing[list].extend(asked);
        // Outputs that choose schedule only later ticks and never add to this list.
        let mut choosing = std::mem::take(&mut self.choosing[list]);
        for block in choosing.chunks(BLOCK) {
            if self.is_large {
                self.read_ahead_of_choices(block);
            }
            block.iter().for_each(|&output| self.choose(output, agenda));
        }
        choosing.clear();
        self.choosing[list] = choosing;
    }

    /// Reads the memory that the next arrivals will need, all at once: waiting for many lines of a
    /// far cache takes no longer than waiting for one.
    fn read_ahead_of_arrivals(&self) {
        let read = |sum: u32, coming: &Coming| {
            sum ^ self.buffers[coming.buffer as usize].head ^ self.packets.get(coming.packet).to
        };
        black_box(self.from_routers.iter().take(BLOCK).fold(0, read));
    }

    /// Reads the memory that choosing outputs will need: the buffer at the other end, and the
    /// feeder to which the head's buffer returns its space.
    fn read_ahead_of_choices(&self, outputs: &[u32]) {
        let read = |sum: u64, &output: &u32| {
            let out = &self.outputs[output as usize];
            let place = (out.waiting.rotate_right(out.turn).trailing_zeros() + out.turn) % 64;
            let Some(queue) = self.buffers.get((out.base + place) as usize) else { return sum };
            let next = out.to.wrapping_add(u32::from(queue.first_channel)) as usize;
            let next = self.buffers.get(next).map_or(0, |next| u64::from(next.free));
            sum ^ next ^ self.outputs.get(queue.feeder as usize).map_or(0, |feeder| feeder.waiting)
        };
        black_box(outputs.iter().fold(0, read));
    }

    fn arrive(&mut self, coming: Coming, agenda: &mut impl Schedule<Entry>) {
        let Coming { packet, buffer, .. } = coming;
        if self.cuts.has_broken() && self.is_lost_on_arrival(packet, buffer, agenda) {
            return;
        }
        let queue = &mut self.buffers[buffer as usize];
        queue.packets += 1;
        let last = std::mem::replace(&mut queue.tail, packet);
        if queue.head != NONE {
            self.packets.get_mut(last).next = packet;
            return;
        }
        queue.head = packet;
        self.ask(buffer, agenda);
    }

    pub(super) fn output_of(&self, queue: &Buffer) -> u32 {
        queue.router * self.ports + u32::from(queue.port)
    }

    /// Requests an output for the head of a buffer.
    fn ask(&mut self, buffer: u32, agenda: &mut impl Schedule<Entry>) {
        let queue = &mut self.buffers[buffer as usize];
        let route = self.topology.route(queue.router, self.packets.get(queue.head).to);
        let channels = self.config.channels;
        (queue.first_channel, queue.end_channel) = match route.class {
            Class::Any => (0, channels),
            Class::Before => (0, channels / 2),
            Class::After => (channels / 2, channels),
        };
        queue.port = route.port;
        let (place, ready) = (queue.place, queue.ready.max(self.tick));
        let output = queue.router * self.ports + u32::from(route.port);
        self.outputs[output as usize].waiting |= 1 << place;
        self.wake(output, ready, agenda);
    }

    /// Makes an output choose at a tick, unless it already chooses earlier.
    pub(super) fn wake(&mut self, output: u32, tick: u64, agenda: &mut impl Schedule<Entry>) {
        let out = &mut self.outputs[output as usize];
        let at = tick.max(out.busy_until);
        if at >= out.wake {
            return;
        }
        out.wake = at;
        if at - self.tick >= AHEAD as u64 {
            agenda.schedule(self.ticks.at(at), Entry::Choose { output });
            return;
        }
        let list = &mut self.choosing[at as usize % AHEAD];
        if list.is_empty() && at != self.tick {
            agenda.schedule(self.ticks.at(at), Entry::Tick { first: output });
        }
        list.push(output);
    }

    fn choose(&mut self, output: u32, agenda: &mut impl Schedule<Entry>) {
        let out = &mut self.outputs[output as usize];
        if out.wake != self.tick {
            // It has chosen already.
            return;
        }
        out.wake = NEVER;
        match self.winner(output) {
            Ok(winner) => self.transmit(output, winner, agenda),
            Err(NEVER) => {}
            Err(later) => self.wake(output, later, agenda),
        }
    }

    /// Returns the next buffer in turn whose head can leave, and the channel that has room.
    /// Otherwise returns the tick of the next try (`NEVER`: wait for a change).
    fn winner(&mut self, output: u32) -> Result<Winner, u64> {
        let now = self.tick;
        let out = &self.outputs[output as usize];
        let mut later = NEVER;
        let turns = Turns::of(out);
        for place in turns.over(&self.ports_of) {
            let queue = &self.buffers[(out.base + place) as usize];
            if queue.ready > now {
                later = later.min(queue.ready);
                continue;
            }
            if out.to == NONE || out.is_cut {
                return Ok(Winner { buffer: out.base + place, channel: 0 });
            }
            let bytes = self.packets.get(queue.head).bytes;
            for channel in queue.first_channel..queue.end_channel {
                let next = &mut self.buffers[(out.to + u32::from(channel)) as usize];
                next.settle(now, &mut self.later);
                if next.free >= bytes {
                    return Ok(Winner { buffer: out.base + place, channel });
                }
                later = later.min(next.due[0]);
            }
        }
        Err(later)
    }

    fn transmit(
        &mut self,
        output: u32,
        Winner { buffer, channel }: Winner,
        agenda: &mut impl Schedule<Entry>,
    ) {
        let now = self.tick;
        let queue = &mut self.buffers[buffer as usize];
        let packet = queue.head;
        let sent = self.packets.get_mut(packet);
        let bytes = sent.bytes;
        let is_cut = self.outputs[output as usize].is_cut;
        if let Some(tap) = self.tap.as_mut().filter(|_| !is_cut) {
            let left = Left { at: self.ticks.at(now), output, channel };
            tap.left(left, sent, self.messages.get(sent.message));
        }
        queue.head = std::mem::replace(&mut sent.next, NONE);
        queue.packets -= 1;
        let (place, node) = (u32::from(queue.place), queue.router);
        let ticks = u64::from(self.packet_ticks(bytes));
        let gone = now + ticks;
        let queue = &mut self.buffers[buffer as usize];
        queue.ready = gone;
        let of_port = self.ports_of[place as usize];
        let out = &mut self.outputs[output as usize];
        out.waiting &= !(1 << place);
        out.took_turn(place, of_port);
        out.busy_until = gone;
        let is_asked = out.waiting != 0;
        out.busy_ticks += if is_cut { 0 } else { ticks };
        out.sent = packet;
        if is_cut {
            out.sent = NONE;
            self.lose(packet, output);
        } else if out.to == NONE {
            let at = self.ticks.at(gone + u64::from(self.config.wire_ticks));
            agenda.schedule(at, Entry::Deliver { packet, node });
        } else {
            let buffer = out.to + u32::from(channel);
            self.buffers[buffer as usize].free -= bytes;
            self.hops += 1;
            self.forward(Coming { tick: now + self.hop_ticks(), packet, buffer }, agenda);
        }
        if is_asked {
            self.wake(output, gone, agenda);
        }
        self.give_back(buffer, bytes, gone, agenda);
        if self.buffers[buffer as usize].head != NONE {
            self.ask(buffer, agenda);
        }
    }

    /// Sends a packet on its way to a router.
    fn forward(&mut self, coming: Coming, agenda: &mut impl Schedule<Entry>) {
        if self.from_routers.back().is_none_or(|last| last.tick != coming.tick) {
            agenda.schedule(self.ticks.at(coming.tick), Entry::Tick { first: coming.buffer });
        }
        self.from_routers.push_back(coming);
    }

    /// Promises the feeder of a buffer the space of a packet that begins to leave now and has left
    /// at `gone`.
    fn give_back(&mut self, buffer: u32, bytes: u32, gone: u64, agenda: &mut impl Schedule<Entry>) {
        let tick = gone + self.credit_ticks();
        let queue = &mut self.buffers[buffer as usize];
        let feeder = queue.feeder;
        if feeder == NONE {
            return;
        }
        queue.promise(self.tick, tick, bytes, &mut self.later);
        if self.outputs[feeder as usize].waiting != 0 {
            self.wake(feeder, tick, agenda);
        }
    }
}
