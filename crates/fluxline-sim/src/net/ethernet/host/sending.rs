//! The way of a datagram from a call to send until the network has it.

use super::counters::Place;
use super::machine::{At, Bill, Direction, Event, InNetwork, Machine, Out, Task};
use super::processor::{Job, Level, Split};
use crate::Duration;
use crate::core::interconnect::{Refusal, Refused, Report, SendId};
use crate::net::ethernet::datagram::Datagram;

impl Machine {
    /// Begins a call to send by a process.
    pub(super) fn call(
        &mut self,
        process: u32,
        datagram: Datagram,
    ) -> Result<(), Refused<Datagram>> {
        let found = self.processes.get_mut(process as usize).filter(|_| self.is_on && self.is_open);
        let Some(found) = found else {
            return Err(Refused { frame: datagram, why: Refusal::Never });
        };
        if found.calling.is_some() || found.blocked.is_some() {
            found.was_refused = true;
            return Err(Refused { frame: datagram, why: Refusal::Full });
        }
        let frames = self.frames(&datagram);
        let bytes = self.frame_bytes(&datagram).map(super::config::true_bytes).sum();
        self.counters.taken += 1;
        let out = Out { datagram, bill: Bill { process, bytes, frames } };
        if self.has_room(&out.bill) {
            self.begin_call(out, Duration::ZERO);
        } else {
            self.counters.waits += 1;
            self.processes[process as usize].blocked = Some(out);
        }
        Ok(())
    }

    /// Returns true if the send buffer takes a datagram; an empty one takes any.
    fn has_room(&self, bill: &Bill) -> bool {
        let used = self.processes[bill.process as usize].used_bytes;
        used == 0 || used + bill.bytes <= self.config.buffers.send_bytes
    }

    /// Gives the core of a process the work of a call to send.
    fn begin_call(&mut self, out: Out, wake: Duration) {
        let costs = self.config.costs;
        let further = costs.send_frame.times(u64::from(out.bill.frames) - 1);
        let copy = costs.send_byte.times(out.datagram.payload_bytes());
        let system = wake + costs.send_call + further + copy;
        let time = Split { user: costs.user, system, ..Split::default() };
        let task = Task::Call(out.bill.process);
        let process = &mut self.processes[out.bill.process as usize];
        process.used_bytes += out.bill.bytes;
        process.calling = Some(out);
        let core = process.core;
        self.work(core, Job { level: Level::Process, time, task });
    }

    /// Ends a call to send: the datagram goes to the driver's queue.
    pub(super) fn called(&mut self, process: u32) {
        let caller = &mut self.processes[process as usize];
        let Some(out) = caller.calling.take() else { return };
        if std::mem::take(&mut caller.was_refused) {
            self.effects.reports.push(Report::Space { node: self.node });
        }
        let frames = out.bill.frames;
        let sending = &mut self.sending;
        let is_empty = sending.queue.is_empty();
        if !is_empty && sending.queued_frames + frames > self.config.buffers.queue_frames {
            self.lose_sending(Place::Queue);
            return self.free(out.bill);
        }
        sending.queued_frames += frames;
        sending.queue.push_back(out);
        self.pump();
    }

    /// Frees the room of a datagram in its send buffer, and continues a call that waits for it.
    fn free(&mut self, bill: Bill) {
        let process = &mut self.processes[bill.process as usize];
        process.used_bytes -= bill.bytes;
        let Some(out) = process.blocked.take() else { return };
        if self.has_room(&out.bill) {
            self.begin_call(out, self.config.costs.wake);
        } else {
            self.processes[bill.process as usize].blocked = Some(out);
        }
    }

    /// Moves datagrams to the ring while it has slots, and lets the card read them.
    pub(super) fn pump(&mut self) {
        let slots = self.config.card.transmit_slots;
        let sending = &mut self.sending;
        while let Some(out) = sending.queue.front() {
            let frames = out.bill.frames;
            if sending.slots_used > 0 && sending.slots_used + frames > slots {
                break;
            }
            sending.queued_frames -= frames;
            sending.slots_used += frames;
            sending.ring.extend(sending.queue.pop_front());
        }
        let at_once = self.config.card.bus.frames_at_once();
        while !self.sending.is_full && self.sending.reading.len() < at_once {
            let Some(out) = self.sending.ring.pop_front() else { return };
            let frames = self.frame_bytes(&out.datagram);
            let ends = frames.map(|bytes| self.bus.read(self.now, bytes));
            let at = ends.last().unwrap_or(self.now);
            self.sending.reading.push_back(At { at, what: out });
            self.wake(at, Event::Read);
        }
    }

    /// Continues with datagrams that have crossed the bus.
    pub(super) fn read(&mut self) {
        let at = self.now + self.config.card.delay;
        while self.sending.reading.front().is_some_and(|of| of.at <= self.now) {
            let read = self.sending.reading.pop_front();
            self.sending.leaving.extend(read.map(|of| At { at, what: of.what }));
            if at > self.now {
                self.wake(at, Event::Leave);
            }
        }
        self.pump();
    }

    /// Takes the next datagram that can leave the card.
    pub(super) fn next_leaving(&mut self) -> Option<Out> {
        let is_due = self.sending.leaving.front().is_some_and(|of| of.at <= self.now);
        let is_free = is_due && !self.sending.is_full;
        if is_free { self.sending.leaving.pop_front().map(|of| of.what) } else { None }
    }

    /// Takes a datagram back for which the card's queue for the cable has no room.
    pub(super) fn stay(&mut self, out: Out) {
        self.sending.is_full = true;
        self.sending.leaving.push_front(At { at: self.now, what: out });
    }

    /// Notes that the network has a datagram.
    pub(super) fn left(&mut self, send: SendId, bill: Bill) {
        self.counters.sent += 1;
        self.sending.in_network.push_back(InNetwork { send, bill });
    }

    /// Notes that the card's queue for the cable has room again.
    pub(super) fn has_space(&mut self) {
        self.sending.is_full = false;
        self.pump();
    }

    /// Notes that a datagram has left the card, or was lost before.
    pub(super) fn done(&mut self, send: SendId) {
        let sending = &mut self.sending;
        let Some(at) = sending.in_network.iter().position(|of| of.send == send) else { return };
        sending.done.extend(sending.in_network.remove(at).map(|of| of.bill));
        if let Some(at) = self.interrupts.transmit.event(self.now) {
            self.wake(at, Event::Interrupt(Direction::Transmit));
        }
    }

    /// Frees the buffers of sent datagrams.
    pub(super) fn clean(&mut self, datagrams: usize) {
        for _ in 0..datagrams {
            let Some(bill) = self.sending.done.pop_front() else { break };
            self.sending.slots_used -= bill.frames;
            self.free(bill);
        }
        self.pump();
    }
}
