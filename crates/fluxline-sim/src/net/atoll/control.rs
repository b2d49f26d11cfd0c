//! Flow control. With stop and go, a receiver stops the sender at the other end of a cable before
//! its buffer is full. With credits, it returns the place of each packet that has left.

use super::state::{Input, Signal, Word};
use super::wiring::NONE;
use super::{Cargo, Entry, Network};
use crate::core::agenda::Schedule;

impl Input {
    /// Frees the place of a packet whose tail has left by `now`.
    pub fn settle(&mut self, now: u64, go_bytes: u32, control_clocks: u64) {
        if self.leaving_bytes > 0 && self.leaving_until <= now {
            let tick = self.leaving_until + control_clocks;
            self.free(tick, go_bytes);
        }
    }

    /// Takes the bytes of the leaving packet off the fill; a go or a credit reaches the sender at
    /// `tick`.
    fn free(&mut self, tick: u64, go_bytes: u32) {
        let bytes = std::mem::take(&mut self.leaving_bytes).into();
        self.fill -= bytes;
        self.credit(tick, bytes);
        self.go(tick, go_bytes);
    }

    /// Returns the place of bytes to the sender, if it has been counted.
    pub fn credit(&mut self, tick: u64, bytes: u32) {
        if self.has_credits && bytes > 0 {
            self.signals.push_back(Signal { tick, word: Word::Credit(bytes) });
        }
    }

    /// Sends a go if the buffer has become empty enough.
    pub fn go(&mut self, tick: u64, go_bytes: u32) {
        if self.is_stopping && self.fill <= go_bytes {
            self.is_stopping = false;
            self.signals.push_back(Signal { tick, word: Word::Go });
        }
    }

    /// Obeys the signals of the receiver that have come by `now`.
    pub fn obey(&mut self, now: u64) {
        while let Some(signal) = self.signals.front().filter(|signal| signal.tick <= now) {
            match signal.word {
                Word::Stop => self.is_stopped = true,
                Word::Go => self.is_stopped = false,
                Word::Credit(bytes) => self.owed -= bytes,
            }
            self.signals.pop_front();
        }
    }
}

impl<C: Cargo, const LINKS: u32, const PORTS: u32> Network<C, LINKS, PORTS> {
    /// Returns true if an output may send a packet to the input at its other end now. Otherwise the
    /// output chooses again when a go comes.
    pub(super) fn may_send(&mut self, output: u32, agenda: &mut impl Schedule<Entry>) -> bool {
        let to = self.outputs[output as usize].to;
        if to == NONE {
            return true;
        }
        let (go_bytes, control) = (self.config.go_bytes, self.control_clocks);
        let places = self.config.fifo_bytes - self.config.packet_bytes;
        let input = &mut self.inputs[to as usize];
        input.settle(self.tick, go_bytes, control);
        input.obey(self.tick);
        if !input.is_stopped && input.owed <= places {
            input.is_awaited = false;
            return true;
        }
        input.is_awaited = true;
        let signal = input.signals.iter().find(|signal| signal.word != Word::Stop);
        if let Some(tick) = signal.map(|signal| signal.tick) {
            self.wake(output, tick, agenda);
        } else {
            self.announce_go(to, agenda);
        }
        false
    }

    /// Wakes a waiting sender when the place of the leaving packet brings a go.
    pub(super) fn announce_go(&mut self, input: u32, agenda: &mut impl Schedule<Entry>) {
        let go_bytes = self.config.go_bytes;
        let of = &self.inputs[input as usize];
        let rest = of.fill - u32::from(of.leaving_bytes);
        let has_place = if of.has_credits { of.leaving_bytes > 0 } else { rest <= go_bytes };
        if of.is_awaited && has_place {
            let tick = of.leaving_until.max(self.tick) + self.control_clocks;
            let feeder = of.feeder;
            self.wake(feeder, tick, agenda);
        }
    }

    /// Returns the place of bytes that a fault removed to the sender.
    pub(super) fn return_credit(
        &mut self,
        input: u32,
        bytes: u32,
        agenda: &mut impl Schedule<Entry>,
    ) {
        let tick = self.tick + self.control_clocks;
        let of = &mut self.inputs[input as usize];
        of.credit(tick, bytes);
        if of.has_credits && of.is_awaited {
            let feeder = of.feeder;
            self.wake(feeder, tick, agenda);
        }
    }

    /// Sends a stop if a buffer has become too full.
    pub(super) fn stop_if_full(&mut self, input: u32) {
        let (stop_bytes, tick) = (self.stop_bytes, self.tick + self.control_clocks);
        let of = &mut self.inputs[input as usize];
        if of.feeder == NONE || of.is_stopping || of.fill <= stop_bytes {
            return;
        }
        if !of.has_credits {
            of.is_stopping = true;
            of.signals.push_back(Signal { tick, word: Word::Stop });
            self.counts.stops += 1;
        }
        if of.fill > self.config.fifo_bytes {
            self.defect.get_or_insert_with(|| format!("the buffer of input {input} overflowed"));
        }
    }
}
