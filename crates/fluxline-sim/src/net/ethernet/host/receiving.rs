//! The way of a datagram from the network until a process has received it.

use super::counters::Place;
use super::machine::{At, Direction, Event, In, Machine, Task};
use super::processor::{Job, Level, Split};
use crate::Duration;
use crate::core::interconnect::{Class, Report};
use crate::net::ethernet::datagram::Datagram;

impl Machine {
    /// Takes a datagram from the network.
    pub(super) fn arrive(&mut self, datagram: Datagram) {
        self.counters.arrived += 1;
        if !self.is_on {
            return self.lose_receiving(Place::Dead, datagram.source);
        }
        let bytes = self.frame_bytes(&datagram).sum();
        let what = In { frames: self.frames(&datagram), bytes, datagram };
        let at = self.now + self.config.card.delay;
        self.receiving.incoming.push_back(At { at, what });
        if at > self.now {
            self.wake(at, Event::Arrive);
        } else {
            self.reach_bus();
        }
    }

    /// Brings datagrams from the card to the bus, if they have room on the card and in the ring.
    pub(super) fn reach_bus(&mut self) {
        while self.receiving.incoming.front().is_some_and(|of| of.at <= self.now) {
            let Some(At { what, .. }) = self.receiving.incoming.pop_front() else { return };
            let (card, receiving) = (&self.config.card, &mut self.receiving);
            let source = what.datagram.source;
            if receiving.landing_bytes + what.bytes > card.receive_bytes {
                self.lose_receiving(Place::CardBuffer, source);
                continue;
            }
            if receiving.slots_used + what.frames > card.receive_slots {
                self.lose_receiving(Place::Ring, source);
                continue;
            }
            receiving.slots_used += what.frames;
            receiving.landing_bytes += what.bytes;
            let frames = self.frame_bytes(&what.datagram);
            let ends = frames.map(|bytes| self.bus.write(self.now, bytes));
            let at = ends.last().unwrap_or(self.now);
            self.receiving.landing.push_back(At { at, what });
            self.wake(at, Event::Land);
        }
    }

    /// Continues with datagrams that have crossed the bus.
    pub(super) fn land(&mut self) {
        while self.receiving.landing.front().is_some_and(|of| of.at <= self.now) {
            let Some(At { what, .. }) = self.receiving.landing.pop_front() else { return };
            self.receiving.landing_bytes -= what.bytes;
            self.receiving.ring.push_back(what);
            if let Some(at) = self.interrupts.receive.event(self.now) {
                self.wake(at, Event::Interrupt(Direction::Receive));
            }
        }
    }

    /// Takes the oldest datagram out of the receive ring.
    pub(super) fn take_from_ring(&mut self) -> Option<In> {
        let taken = self.receiving.ring.pop_front()?;
        self.receiving.slots_used -= taken.frames;
        Some(taken)
    }

    /// Puts a datagram into the socket, if it has room.
    pub(super) fn deliver(&mut self, what: In) {
        let source = what.datagram.source;
        if !self.is_open {
            return self.lose_receiving(Place::Dead, source);
        }
        let bytes = self.true_bytes(what.frames);
        if self.receiving.socket_bytes + bytes > self.config.buffers.receive_bytes {
            return self.lose_receiving(Place::Socket, source);
        }
        self.receiving.socket_bytes += bytes;
        self.receiving.socket.push_back(what);
        if !self.receiving.is_reading {
            self.begin_receive(self.config.costs.wake);
        }
    }

    /// Gives the core of the first process the work of a call to receive.
    fn begin_receive(&mut self, wake: Duration) {
        let Some(first) = self.receiving.socket.front() else { return };
        let costs = self.config.costs;
        let copy = costs.receive_byte.times(first.datagram.payload_bytes());
        let system = wake + costs.receive_call + copy;
        let time = Split { user: costs.user, system, ..Split::default() };
        self.receiving.is_reading = true;
        let core = self.processes[0].core;
        self.work(core, Job { level: Level::Process, time, task: Task::Receive });
    }

    /// Ends a call to receive.
    pub(super) fn received(&mut self) {
        self.receiving.is_reading = false;
        let Some(first) = self.receiving.socket.pop_front() else { return };
        self.receiving.socket_bytes -= self.true_bytes(first.frames);
        self.receiving.ready.push_back(first.datagram);
        self.counters.received += 1;
        let (node, class) = (self.node, Class::Request);
        self.effects.reports.push(Report::Received { node, class });
        self.begin_receive(Duration::ZERO);
    }
}
