//! From the processor's stores to bursts on the bus: write-combining buffers, then the host
//! bridge's posting buffer.

use std::collections::VecDeque;

use super::card::streams::Verdict;
use super::{Host, Step};
use crate::{Duration, Instant};

/// Stores that cross the bus as one burst, all within one stream of the card.
#[derive(Clone, Debug)]
pub(super) struct Burst {
    pub(super) to: u32,
    pub(super) offset: u64,
    pub(super) data: Vec<u8>,
}

/// A write-combining buffer in use.
#[derive(Debug)]
struct Buffer {
    number: u64,
    touched: Instant,
    burst: Burst,
}

/// The stores of the processor that the card has not yet taken.
#[derive(Debug, Default)]
pub(super) struct Posted {
    buffers: VecDeque<Buffer>,
    next_number: u64,
    bursts: VecDeque<Burst>,
    /// The stream for which the head is on the bus.
    crossing: Option<usize>,
    /// The time at which the head was first refused; it is tried again when a stream becomes free.
    refused: Option<Instant>,
    /// True while no stream has become free since.
    waiting: bool,
    /// True while a try is on the agenda.
    trying: bool,
}

impl Posted {
    /// Returns true if a burst is on the bus.
    pub(super) fn is_crossing(&self) -> bool {
        self.crossing.is_some()
    }

    /// Returns true if all buffers are empty.
    pub(super) fn holds_nothing(&self) -> bool {
        self.buffers.is_empty() && self.bursts.is_empty()
    }

    /// Returns the number of bursts in the posting buffer.
    pub(super) fn posted(&self) -> usize {
        self.bursts.len()
    }
}

impl Host {
    /// Puts the stores of one run of instructions into a write-combining buffer, or posts them.
    pub(super) fn combine(&mut self, burst: Burst) {
        let Some(combining) = self.config.cpu.combining else {
            return self.post(burst);
        };
        let mask = !(u64::from(combining.bytes) - 1);
        let line = burst.offset & mask;
        let buffers = &mut self.posting.buffers;
        let same =
            |buffer: &Buffer| buffer.burst.to == burst.to && buffer.burst.offset & mask == line;
        if let Some(at) = buffers.iter().position(same) {
            let open = &mut buffers[at].burst;
            if open.offset + open.data.len() as u64 == burst.offset {
                open.data.extend_from_slice(&burst.data);
                buffers[at].touched = self.now;
                if buffers[at].burst.data.len() as u32 == combining.bytes {
                    self.write_out(at);
                }
                return;
            }
            self.write_out(at);
        }
        if burst.data.len() as u32 == combining.bytes {
            return self.post(burst);
        }
        if self.posting.buffers.len() >= combining.buffers as usize {
            self.write_out(0);
        }
        let number = self.posting.next_number;
        self.posting.next_number += 1;
        self.posting.buffers.push_back(Buffer { number, touched: self.now, burst });
        self.schedule(self.now + combining.linger, Step::Linger(number));
    }

    /// Writes all write-combining buffers out, the oldest first.
    pub(super) fn combining_flush(&mut self) {
        while !self.posting.buffers.is_empty() {
            self.write_out(0);
        }
    }

    /// Writes a buffer out if it got no store for the linger time.
    pub(super) fn combining_linger(&mut self, number: u64) {
        let Some(combining) = self.config.cpu.combining else { return };
        let found = self.posting.buffers.iter().position(|buffer| buffer.number == number);
        let Some(at) = found else { return };
        let until = self.posting.buffers[at].touched + combining.linger;
        if until > self.now {
            return self.schedule(until, Step::Linger(number));
        }
        self.write_out(at);
    }

    fn write_out(&mut self, at: usize) {
        if let Some(buffer) = self.posting.buffers.remove(at) {
            self.post(buffer.burst);
        }
    }

    fn post(&mut self, burst: Burst) {
        self.posting.bursts.push_back(burst);
        self.posted_try();
    }

    /// Handles the head of the posting buffer: it has crossed the bus, or is tried again.
    pub(super) fn posted_step(&mut self) {
        self.posting.trying = false;
        if let Some(stream) = self.posting.crossing.take()
            && let Some(burst) = self.posting.bursts.pop_front()
        {
            self.stream_fill(stream, &burst.data);
        }
        self.posted_try();
        self.cpu_resume();
    }

    /// Schedules a new try of a refused head, after the host bridge's pause, because a stream
    /// became free.
    pub(super) fn posted_retry(&mut self) {
        if std::mem::take(&mut self.posting.waiting) {
            let pause = self.bus.clocks(u64::from(self.config.bus.retry_clocks));
            self.posting.trying = true;
            self.schedule(self.now + pause, Step::Posted);
        }
    }

    /// Puts the head of the posting buffer on the bus if the card takes it.
    fn posted_try(&mut self) {
        let posting = &self.posting;
        if posting.crossing.is_some() || posting.waiting || posting.trying {
            return;
        }
        let Some(burst) = posting.bursts.front() else { return };
        let (to, offset, bytes) = (burst.to, burst.offset, burst.data.len() as u32);
        let mut verdict = self.streams.verdict(to, offset);
        if let Verdict::Send(stream) = verdict {
            self.stream_send(stream);
            verdict = self.streams.verdict(to, offset);
        }
        let Verdict::Take { stream, claim } = verdict else {
            self.counters.retries += 1;
            self.posting.refused = self.posting.refused.or(Some(self.now));
            self.posting.waiting = true;
            return;
        };
        let hold = self.stream_bind(stream, to, offset, claim);
        // The card has worked on the address since it first refused it.
        let known = self.posting.refused.take().map_or(Duration::ZERO, |at| self.now.since(at));
        let hold = if hold > known { hold - known } else { Duration::ZERO };
        self.posting.crossing = Some(stream);
        let over = self.bus.store(self.now, bytes, hold);
        self.schedule(over, Step::Posted);
    }
}
