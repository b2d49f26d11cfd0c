//! The DMA engine: descriptors in order, bursts over the bus, packets through the card.
//!
//! At any time one of its bursts is on the bus, and up to the configured number are between bus and
//! network. The engine works on one block at a time: on the bus, and for its own time behind it. A
//! read keeps its place until its bytes are in memory. The next descriptor begins when the previous
//! one has been fetched (a write) or requested (a read) completely.

use std::collections::{BTreeMap, VecDeque};

use super::card::Owner;
use super::card::streams::{Piece, pieces};
use super::config::{Control, Posting};
use super::{
    Access, Descriptor, Direction, FetchId, Host, Notice, Outcome, Report, Status, Step, Tag,
};
use crate::Instant;

/// A DMA call of the program.
#[derive(Debug)]
struct Call {
    tag: Tag,
    notice: Notice,
    left: usize,
    outcome: Outcome,
}

/// A descriptor that the engine has begun.
#[derive(Debug)]
struct Active {
    call: u64,
    descriptor: Descriptor,
    /// Bytes in bursts that have begun.
    issued: u32,
    /// Number of unfinished bursts.
    open: u32,
}

/// A burst between its first step and its last.
#[derive(Debug)]
struct Burst {
    active: u64,
    offset: u64,
    address: u64,
    bytes: u32,
    /// Number of unfinished packets.
    packets: u32,
    /// The bytes of a read, on their way over the bus.
    data: Vec<u8>,
}

/// The engine's state.
#[derive(Debug, Default)]
pub(super) struct Engine {
    calls: BTreeMap<u64, Call>,
    queue: VecDeque<(u64, Descriptor)>,
    active: BTreeMap<u64, Active>,
    /// The call whose bursts are made now.
    current: Option<u64>,
    bursts: BTreeMap<u64, Burst>,
    /// Number of reads that are not yet in memory.
    asked: u32,
    /// Answered reads that wait for the bus.
    answered: VecDeque<u64>,
    /// True while it works on a block: on the bus, or for its own time.
    on_block: bool,
    /// True while a step is on the agenda.
    stepping: bool,
    numbers: u64,
    began: Option<Instant>,
}

impl Engine {
    /// Returns true if it has no calls.
    pub(super) fn is_empty(&self) -> bool {
        let nothing = self.active.is_empty() && self.bursts.is_empty() && self.asked == 0;
        self.calls.is_empty() && self.queue.is_empty() && nothing && !self.busy()
    }

    /// Returns true if it has work.
    pub(super) fn busy(&self) -> bool {
        self.began.is_some()
    }

    /// Returns the number of descriptors in its registers.
    pub(super) fn held(&self) -> usize {
        self.queue.len() + usize::from(self.current.is_some())
    }

    /// Returns true if all descriptors of a call are done.
    pub(super) fn is_done(&self, call: u64) -> bool {
        self.calls.get(&call).is_none_or(|call| call.left == 0)
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}

impl Host {
    /// Begins a DMA call; returns its number.
    pub(super) fn engine_open(&mut self, tag: Tag, notice: Notice, descriptors: usize) -> u64 {
        let number = self.engine.number();
        let outcome = Outcome::Done(Status::Normal);
        self.engine.calls.insert(number, Call { tag, notice, left: descriptors, outcome });
        if descriptors == 0 && notice != Notice::Spin {
            self.schedule(self.now, Step::Notice(number));
        }
        number
    }

    /// Ends a DMA call; returns its outcome.
    pub(super) fn engine_close(&mut self, call: u64) -> Outcome {
        self.engine.calls.remove(&call).map_or(Outcome::Lost, |call| call.outcome)
    }

    /// Adds a descriptor that is in the engine's registers or in its list.
    pub(super) fn engine_give(&mut self, call: u64, descriptor: Descriptor) {
        self.engine.queue.push_back((call, descriptor));
        if self.engine.began.is_none() {
            self.engine.began = Some(self.now);
            self.engine.stepping = true;
            self.schedule(self.now + self.config.engine.start, Step::Engine);
        } else {
            self.engine_go();
        }
    }

    /// Continues after the start of the engine, or after a descriptor has come over the bus.
    pub(super) fn engine_step(&mut self) {
        self.engine.stepping = false;
        self.engine_go();
    }

    /// Begins as much as possible: answered reads, descriptors, the next burst of the current one.
    fn engine_go(&mut self) {
        while !self.engine.stepping && !self.engine.on_block {
            if let Some(number) = self.engine.answered.pop_front() {
                self.engine_place(number);
                continue;
            }
            let Some(number) = self.engine.current else {
                if !self.engine_next() {
                    return;
                }
                continue;
            };
            let (open, asked) = (self.engine.bursts.len() as u32, self.engine.asked);
            let Some(active) = self.engine.active.get_mut(&number) else { return };
            let descriptor = active.descriptor;
            if active.issued == descriptor.bytes {
                self.engine.current = None;
                self.engine_descriptor_done(number);
                self.cpu_resume();
                continue;
            }
            let full = match descriptor.direction {
                Direction::Write => open >= self.config.engine.writes_outstanding,
                Direction::Read => asked >= self.config.engine.reads_outstanding,
            };
            if full {
                return;
            }
            let offset = descriptor.offset + u64::from(active.issued);
            let address = descriptor.address + u64::from(active.issued);
            let bytes = (descriptor.bytes - active.issued).min(64 - (offset % 64) as u32);
            active.issued += bytes;
            active.open += 1;
            let burst = Burst { active: number, offset, address, bytes, packets: 0, data: vec![] };
            self.engine_begin(descriptor, burst);
        }
    }

    /// Takes the next descriptor; `false` if there is none or it must first be fetched.
    fn engine_next(&mut self) -> bool {
        let Some((call, descriptor)) = self.engine.queue.pop_front() else { return false };
        let number = self.engine.number();
        let active = Active { call, descriptor, issued: 0, open: 0 };
        self.engine.active.insert(number, active);
        self.engine.current = Some(number);
        match self.config.engine.control {
            Control::Registers { .. } => true,
            Control::List { bytes } => {
                let over = self.bus.read(self.now, bytes);
                self.engine.stepping = true;
                self.schedule(over, Step::Engine);
                false
            }
        }
    }

    fn engine_begin(&mut self, descriptor: Descriptor, burst: Burst) {
        let number = self.engine.number();
        let miss = self.card.translate(descriptor.to, burst.offset);
        let (offset, bytes) = (burst.offset, burst.bytes);
        self.engine.bursts.insert(number, burst);
        match descriptor.direction {
            Direction::Write => {
                self.engine.on_block = true;
                let over = self.bus.read(self.now, bytes) + miss + self.config.engine.block;
                self.schedule(over, Step::Burst(number));
            }
            Direction::Read => self.engine_ask(number, descriptor, offset, bytes),
        }
    }

    /// Puts the bytes of an answered read on the bus.
    fn engine_place(&mut self, number: u64) {
        let Some(burst) = self.engine.bursts.get(&number) else { return };
        self.engine.on_block = true;
        let over = self.bus.write(self.now, burst.bytes) + self.config.engine.block;
        self.schedule(over, Step::Burst(number));
    }

    /// Requests a read's burst: selected bytes of a block of 16, or else the whole block of 64.
    fn engine_ask(&mut self, number: u64, descriptor: Descriptor, offset: u64, bytes: u32) {
        let selected = offset % 16 + u64::from(bytes) <= 16;
        let (at, bytes) = if selected { (offset, bytes) } else { (offset & !63, 64) };
        self.engine.asked += 1;
        let owner = Owner::Burst(number);
        self.card_send(owner, descriptor.to, Access::Read { bytes }, at, Vec::new());
    }

    /// Handles a burst that the bus has carried.
    pub(super) fn engine_burst(&mut self, number: u64) {
        let Some(burst) = self.engine.bursts.get_mut(&number) else { return };
        let Some(active) = self.engine.active.get(&burst.active) else { return };
        let (address, bytes) = (burst.address, burst.bytes);
        match active.descriptor.direction {
            Direction::Write => {
                self.engine.on_block = false;
                self.reports.push_back(Report::Fetch { fetch: number, address, bytes });
            }
            Direction::Read => {
                let data = std::mem::take(&mut burst.data);
                self.engine.asked -= 1;
                self.engine.on_block = false;
                self.reports.push_back(Report::Placed { address, data });
                self.engine_burst_done(number);
            }
        }
    }

    /// Takes the bytes that the engine has read from memory.
    pub(super) fn engine_supply(&mut self, fetch: FetchId, mut data: Vec<u8>) {
        let Some(burst) = self.engine.bursts.get_mut(&fetch) else { return };
        if burst.packets > 0 {
            return;
        }
        let Some(active) = self.engine.active.get(&burst.active) else { return };
        let (to, offset) = (active.descriptor.to, burst.offset);
        data.resize(burst.bytes as usize, 0);
        let moves = self.config.card.posting != Posting::Write;
        let pieces = pieces(offset, &data, moves);
        burst.packets = pieces.len() as u32;
        for Piece { access, offset, data } in pieces {
            self.card_send(Owner::Burst(fetch), to, access, offset, data);
        }
        self.engine_go();
    }

    /// Handles the answer to a packet of a burst.
    pub(super) fn engine_answer(&mut self, number: u64, outcome: Outcome, data: Vec<u8>) {
        let Some(burst) = self.engine.bursts.get_mut(&number) else { return };
        let Some(active) = self.engine.active.get(&burst.active) else { return };
        let failed = outcome != Outcome::Done(Status::Normal);
        if failed && let Some(call) = self.engine.calls.get_mut(&active.call) {
            call.outcome = outcome;
        }
        match active.descriptor.direction {
            Direction::Write => {
                burst.packets -= 1;
                if burst.packets == 0 {
                    self.engine_burst_done(number);
                }
            }
            // A failed read places nothing.
            Direction::Read if failed => {
                self.engine.asked -= 1;
                self.engine_burst_done(number);
            }
            Direction::Read => {
                let block = burst.offset % 16 + u64::from(burst.bytes) > 16;
                let skip = if block { (burst.offset % 64) as usize } else { 0 };
                let from = data.into_iter().skip(skip).chain(std::iter::repeat(0));
                burst.data = from.take(burst.bytes as usize).collect();
                self.engine.answered.push_back(number);
                self.engine_go();
            }
        }
    }

    fn engine_burst_done(&mut self, number: u64) {
        let Some(burst) = self.engine.bursts.remove(&number) else { return };
        if let Some(active) = self.engine.active.get_mut(&burst.active) {
            active.open -= 1;
        }
        self.engine_descriptor_done(burst.active);
        self.engine_go();
    }

    /// Completes a descriptor when all its bursts are done; the last one of a call gives notice.
    fn engine_descriptor_done(&mut self, number: u64) {
        let Some(active) = self.engine.active.get(&number) else { return };
        let (call_number, issued) = (active.call, active.issued == active.descriptor.bytes);
        if !issued || active.open > 0 || self.engine.current == Some(number) {
            return;
        }
        self.engine.active.remove(&number);
        if self.engine.active.is_empty() && self.engine.queue.is_empty() {
            let began = self.engine.began.take();
            let span = self.now.since(began.unwrap_or(self.now));
            self.counters.engine_busy_ps += span.as_ps();
        }
        let Some(call) = self.engine.calls.get_mut(&call_number) else { return };
        call.left -= 1;
        if call.left > 0 {
            return;
        }
        match call.notice {
            Notice::Spin => self.cpu_resume(),
            Notice::Word => {
                let over = self.bus.write(self.now, 4);
                self.schedule(over, Step::Notice(call_number));
            }
        }
    }

    /// Reports the end of a DMA call to the program.
    pub(super) fn engine_notice(&mut self, number: u64) {
        if let Some(call) = self.engine.calls.remove(&number) {
            let (tag, outcome) = (call.tag, call.outcome);
            self.reports.push_back(Report::Completed { tag, outcome, data: Vec::new() });
        }
    }
}
