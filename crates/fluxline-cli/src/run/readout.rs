//! The readout's thread: takes datagrams from all push rings, in turn, and hands batches on.

use std::thread::JoinHandle;
use std::time::Duration;

use fluxline::{clock, pin};
use fluxline_daq::acquisition::{Acquisition, NewSource};
use fluxline_daq::event::EventBatch;
use fluxline_daq::record::SourceLine;
use fluxline_proto::Moment;

use super::live::{Live, Numbers};
use super::record::RecordQueue;
use super::ring::Ring;

/// Slots taken from one ring before the next has its turn, and before they are given back.
const SLOTS_PER_TURN: usize = 64;
/// How long the readout sleeps when all rings are empty.
const SLEEP: Duration = Duration::from_millis(1);
/// How often time-outs are looked at and numbers are published \[ns\].
const TICK_NS: u64 = 2_000_000;
/// Publishing every so many ticks.
const PUBLISH_TICKS: u64 = 50;

/// Whose time closes events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventClock {
    /// The wall clock: live sources.
    Wall,
    /// The newest time of arrival in the data: files that are read faster than they were recorded.
    Data,
}

/// What the readout's thread works on.
pub struct Readout {
    /// The acquisition.
    pub acquisition: Acquisition,
    /// The rings, in the order of the inputs.
    pub rings: Vec<Ring>,
    /// Where batches go.
    pub queue: RecordQueue,
    /// What a source's line in the run folder says of its input: description and parameters.
    pub source_lines: Vec<SourceLine>,
    /// Whose time closes events.
    pub clock: EventClock,
    /// The core to run on.
    pub core: Option<usize>,
}

impl Readout {
    /// Runs until all inputs have ended and their rings are empty; gives the acquisition back.
    pub fn start(self, live: Live) -> JoinHandle<Acquisition> {
        std::thread::spawn(move || {
            if let Some(core) = self.core {
                live.note(pin::pin_current_thread(core).err());
            }
            let mut work = Working {
                readout: self,
                batch: EventBatch::default(),
                newest: Moment::default(),
                ticked: Moment::default(),
                ticks: 0,
                ring_most: 0,
                live,
            };
            work.run();
            work.finish()
        })
    }
}

struct Working {
    readout: Readout,
    batch: EventBatch,
    newest: Moment,
    ticked: Moment,
    ticks: u64,
    ring_most: usize,
    live: Live,
}

impl Working {
    fn run(&mut self) {
        let mut open = vec![true; self.readout.rings.len()];
        while open.iter().any(|open| *open) {
            let mut worked = false;
            for (input, open) in open.iter_mut().enumerate() {
                if *open {
                    worked |= self.turn(input);
                }
            }
            self.tick();
            if !worked {
                self.rest(&mut open);
            }
        }
    }

    /// Takes what is in one ring, at most one turn's worth.
    fn turn(&mut self, input: usize) -> bool {
        let wall = (self.readout.clock == EventClock::Wall).then(clock::now);
        let Readout { acquisition, rings, .. } = &mut self.readout;
        let ring = match &mut rings[input] {
            Ring::Slots(ring) => ring,
            Ring::Landed(landed) => {
                let now = wall.unwrap_or_else(clock::now);
                let count = landed.read(SLOTS_PER_TURN, now, |datagram| {
                    acquisition.take(input as u16, now, datagram);
                });
                return count > 0;
            }
            Ring::Records(records) => {
                let now = wall.unwrap_or_else(clock::now);
                let read = records.read(SLOTS_PER_TURN, now, |datagram| {
                    acquisition.take(input as u16, now, datagram);
                });
                return match read {
                    Ok(count) => count > 0,
                    Err(error) => {
                        self.live.fault(error);
                        false
                    }
                };
            }
        };
        let mut slots = 0;
        for slot in ring.peek().take(SLOTS_PER_TURN) {
            slots += 1;
            self.newest = self.newest.max(slot.meta.time);
            let now = wall.unwrap_or(self.newest);
            let mut left = slot.meta.datagram_count();
            for datagram in slot.datagrams() {
                left -= 1;
                if slot.meta.truncated && left == 0 {
                    acquisition.take_truncated(input as u16, datagram.bytes.len());
                } else {
                    acquisition.take(input as u16, now, &datagram);
                }
            }
        }
        ring.release(slots);
        self.ring_most = self.ring_most.max(slots * 100 / ring.slots());
        slots > 0
    }

    fn now(&self) -> Moment {
        match self.readout.clock {
            EventClock::Wall => clock::now(),
            EventClock::Data => self.newest,
        }
    }

    /// Looks at time-outs, hands a batch on when it is due, publishes numbers.
    fn tick(&mut self) {
        let now = self.now();
        let acquisition = &mut self.readout.acquisition;
        if now.since(self.ticked).as_ns() >= TICK_NS || acquisition.batch_is_due(now) {
            self.ticked = now;
            self.ticks += 1;
            acquisition.poll(now);
            if acquisition.batch_is_due(now) {
                self.hand_on();
            }
            if self.ticks.is_multiple_of(PUBLISH_TICKS) {
                self.publish();
            }
        }
    }

    fn hand_on(&mut self) {
        let Readout { acquisition, queue, source_lines, .. } = &mut self.readout;
        for NewSource { number, input, label } in acquisition.new_sources() {
            let template = source_lines[usize::from(input)].clone();
            queue.source(SourceLine { source: number, name: label, ..template });
        }
        let spare = std::mem::take(&mut self.batch);
        let batch = acquisition.take_batch(spare);
        if !batch.is_empty() {
            self.batch = queue.exchange(batch);
        }
    }

    /// Nothing came: sleeps at the only ring, or for a moment; notices rings that have ended.
    fn rest(&mut self, open: &mut [bool]) {
        let count = open.len();
        for (ring, open) in self.readout.rings.iter_mut().zip(open.iter_mut()) {
            if *open {
                let timeout = if count == 1 { SLEEP } else { Duration::ZERO };
                *open = ring.wait(timeout);
            }
        }
        if count > 1 {
            std::thread::sleep(SLEEP / 4);
        }
    }

    fn publish(&mut self) {
        let acquisition = &self.readout.acquisition;
        let mut numbers = Numbers { ring_percent: self.ring_most as u64, ..Numbers::default() };
        self.ring_most = 0;
        for source in acquisition.readout().sources() {
            let counters = source.counters();
            numbers.packets += counters.parsed;
            numbers.bytes += counters.bytes_parsed;
            numbers.lost += counters.lost;
            numbers.sources += 1;
        }
        numbers.rejected = acquisition.readout().rejected();
        let events = acquisition.builder().counters();
        numbers.incomplete = events.events_incomplete + events.events_stopped;
        numbers.events = events.events_complete + numbers.incomplete;
        self.live.numbers(numbers);
    }

    fn finish(mut self) -> Acquisition {
        let now = self.now();
        self.readout.acquisition.finish(now);
        self.hand_on();
        self.publish();
        self.readout.acquisition
    }
}
