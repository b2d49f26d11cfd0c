//! Interrupts, and the softirq that they start.

use super::config::Driver;
use super::counters::Place;
use super::machine::{Direction, In, Item, Machine, Task};
use super::processor::{Job, Level, Split};
use crate::Duration;

/// Sent datagrams whose buffers are freed in one item. Background: the budget of a poll.
const CLEANED_AT_ONCE: usize = 64;

impl Machine {
    /// Raises the interrupt of a direction if it is due.
    pub(super) fn interrupt(&mut self, direction: Direction) {
        let moderator = match direction {
            Direction::Transmit => &mut self.interrupts.transmit,
            Direction::Receive => &mut self.interrupts.receive,
        };
        if !moderator.fire(self.now) {
            return;
        }
        self.counters.interrupts += 1;
        let seen = match self.config.driver {
            Driver::Poll => {
                self.interrupts.transmit.mask();
                self.interrupts.receive.mask();
                0
            }
            Driver::Backlog { .. } => self.receiving.ring.len(),
        };
        let costs = self.config.costs;
        let irq = costs.interrupt + costs.backlog_frame.times(seen as u64);
        let time = Split { irq, ..Split::default() };
        let job = Job { level: Level::Interrupt, time, task: Task::Interrupt(seen) };
        self.work(self.config.cores.interrupts, job);
    }

    /// Ends the interrupt handler: frames move to the backlog, and the softirq starts.
    pub(super) fn handled(&mut self, seen: usize) {
        if let Driver::Backlog { frames: limit } = self.config.driver {
            for _ in 0..seen {
                let Some(taken) = self.take_from_ring() else { break };
                self.add_to_backlog(taken, limit);
            }
        }
        if !std::mem::replace(&mut self.interrupts.is_softirq, true) {
            self.softirq(self.config.costs.softirq);
        }
    }

    fn add_to_backlog(&mut self, taken: In, limit: u32) {
        let receiving = &mut self.receiving;
        if receiving.backlog_frames + taken.frames > limit {
            return self.lose_receiving(Place::Backlog, taken.datagram.source);
        }
        receiving.backlog_frames += taken.frames;
        receiving.backlog.push_back(taken);
    }

    /// Gives the core of the interrupts a part of the softirq.
    fn softirq(&mut self, softirq: Duration) {
        let time = Split { softirq, ..Split::default() };
        let job = Job { level: Level::Softirq, time, task: Task::Softirq };
        self.work(self.config.cores.interrupts, job);
    }

    /// Ends the present item of the softirq, and begins the next one.
    pub(super) fn next_item(&mut self) {
        match self.interrupts.item.take() {
            None => {}
            Some(Item::Clean(datagrams)) => self.clean(datagrams),
            Some(Item::Datagram(datagram)) => self.deliver(datagram),
        }
        let costs = self.config.costs;
        let sent = self.sending.done.iter().take(CLEANED_AT_ONCE);
        let (datagrams, frames) = sent.fold((0, 0), |(datagrams, frames), bill| {
            (datagrams + 1, frames + u64::from(bill.frames))
        });
        if datagrams > 0 {
            self.interrupts.item = Some(Item::Clean(datagrams));
            return self.softirq(costs.clean_frame.times(frames));
        }
        if let Some(next) = self.next_datagram() {
            let frames = costs.receive_frame.times(next.frames.into());
            let time = frames + costs.receive_frame_byte.times(next.bytes);
            self.interrupts.item = Some(Item::Datagram(next));
            return self.softirq(time);
        }
        self.interrupts.is_softirq = false;
        if self.config.driver == Driver::Poll {
            self.interrupts.transmit.unmask();
            self.interrupts.receive.unmask();
        }
    }

    fn next_datagram(&mut self) -> Option<In> {
        if self.config.driver == Driver::Poll {
            return self.take_from_ring();
        }
        let taken = self.receiving.backlog.pop_front()?;
        self.receiving.backlog_frames -= taken.frames;
        Some(taken)
    }
}
