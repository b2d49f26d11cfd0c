//! The readout's thread: takes datagrams from all push rings and hands batches on.
//!
//! Live inputs have turns. Inputs that can wait are read as one stream (`held.rs`).

use std::thread::JoinHandle;
use std::time::Duration;

use fluxline::{clock, pin};
use fluxline_core::{Datagram, Moment, Span};
use fluxline_daq::acquisition::{Acquisition, NewSource};
use fluxline_daq::event::EventBatch;
use fluxline_daq::record::SourceLine;

use super::held::{Held, Step};
use super::live::{Live, Numbers};
use super::record::RecordQueue;
use super::ring::{LiveRing, Ring};
use super::stop::Stop;

/// Slots taken from one ring before the next has its turn, and before they are given back.
const SLOTS_PER_TURN: usize = 64;
/// Packets taken of inputs that can wait before live ones have their turns.
const PACKETS_PER_TURN: usize = 64;
/// Packets of files after which time-outs are looked at, whatever their times.
const PACKETS_PER_TICK: u32 = 64;
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
    /// The time in the files, where all inputs are files: it makes a run repeatable.
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
    /// When the run ends.
    pub stop: Stop,
}

impl Readout {
    /// Runs until all inputs have ended and their rings are empty; gives the acquisition back.
    pub fn start(self, live: Live) -> JoinHandle<Acquisition> {
        std::thread::spawn(move || {
            if let Some(core) = self.core {
                live.note(pin::pin_current_thread(core).err());
            }
            let mut work = Working::new(self, live);
            work.run();
            work.finish()
        })
    }
}

/// A live input.
struct LiveInput {
    number: u16,
    ring: LiveRing,
    is_open: bool,
}

/// How far a turn came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Packets were read, and more may be there.
    Worked,
    /// The ring of this lane is empty.
    Waits(usize),
    /// The next packet is due after so long.
    Later(Span),
    /// There is no more to read.
    Over,
}

struct Working {
    acquisition: Acquisition,
    queue: RecordQueue,
    source_lines: Vec<SourceLine>,
    clock: EventClock,
    live_inputs: Vec<LiveInput>,
    held: Held,
    batch: EventBatch,
    ticked: Moment,
    ticks: u64,
    packets_since_tick: u32,
    ring_most: usize,
    live: Live,
}

impl Working {
    fn new(readout: Readout, live: Live) -> Working {
        let Readout { mut acquisition, rings, queue, source_lines, clock, core: _, stop } = readout;
        let (mut live_inputs, mut held) = (Vec::new(), Vec::new());
        for (number, ring) in (0..).zip(rings) {
            match ring {
                Ring::Live(ring) => live_inputs.push(LiveInput { number, ring, is_open: true }),
                Ring::Held(ring) => held.push((number, ring)),
            }
        }
        for (input, ring) in &held {
            // An input that waits is silent by the times of its own packets alone.
            acquisition.note_backlog(*input, true);
            if live_inputs.is_empty() {
                acquisition.read_on_demand(*input, ring.times);
            }
        }
        let held = Held::new(held, &acquisition, stop);
        live.note(held.in_turns());
        Working {
            held,
            acquisition,
            queue,
            source_lines,
            clock,
            live_inputs,
            batch: EventBatch::default(),
            ticked: Moment::default(),
            ticks: 0,
            packets_since_tick: 0,
            ring_most: 0,
            live,
        }
    }

    fn run(&mut self) {
        loop {
            // One time for all rings: what came before it was read, or is known to be unread.
            let now = clock::now();
            let mut worked = false;
            for at in 0..self.live_inputs.len() {
                if self.live_inputs[at].is_open {
                    let packets = self.turn(at, now);
                    let number = self.live_inputs[at].number;
                    self.acquisition.note_backlog(number, packets >= SLOTS_PER_TURN);
                    worked |= packets > 0;
                }
            }
            let turn = self.turn_held(now);
            if self.clock == EventClock::Wall {
                self.tick(now);
            }
            if !worked && turn != Turn::Worked {
                if turn == Turn::Over && self.live_inputs.iter().all(|input| !input.is_open) {
                    break;
                }
                self.rest(turn);
            }
        }
    }

    /// Takes what is in one live ring, at most one turn's worth; returns how many packets (or slots
    /// of them).
    fn turn(&mut self, at: usize, now: Moment) -> usize {
        let Working { acquisition, live_inputs, .. } = self;
        let LiveInput { number: input, ring, .. } = &mut live_inputs[at];
        let input = *input;
        let ring = match ring {
            LiveRing::Slots(ring) => ring,
            LiveRing::Landed(landed) => {
                let take = |datagram: &Datagram<'_>| acquisition.take(input, now, datagram);
                return landed.read(SLOTS_PER_TURN, now, take);
            }
            LiveRing::Records(records) => {
                let take = |datagram: &Datagram<'_>| acquisition.take(input, now, datagram);
                return records.read(SLOTS_PER_TURN, now, take).unwrap_or_else(|error| {
                    self.live.fault(error);
                    0
                });
            }
        };
        let mut slots = 0;
        for slot in ring.peek().take(SLOTS_PER_TURN) {
            slots += 1;
            let mut left = slot.meta.datagram_count();
            for datagram in slot.datagrams() {
                left -= 1;
                if slot.meta.truncated && left == 0 {
                    acquisition.take_truncated(input, datagram.bytes.len());
                } else {
                    acquisition.take(input, now, &datagram);
                }
            }
        }
        ring.release(slots);
        let has_unread = ring.peek().next().is_some();
        acquisition.note_backlog(input, has_unread);
        self.ring_most = self.ring_most.max(slots * 100 / ring.slots());
        slots
    }

    /// Takes packets of the inputs that can wait, in their order, at most one turn's worth.
    ///
    /// Where all inputs are files, everything that is done depends on packets alone: time-outs and
    /// batches too, so that the same files give the same bytes.
    fn turn_held(&mut self, wall: Moment) -> Turn {
        for _ in 0..PACKETS_PER_TURN {
            let lane = match self.held.step(&mut self.acquisition) {
                Step::Read(lane) => lane,
                Step::Wait(lane) => return Turn::Waits(lane),
                Step::Later(wait) => return Turn::Later(wait),
                Step::Over => return Turn::Over,
            };
            let now = match self.clock {
                EventClock::Wall => wall,
                EventClock::Data => {
                    let now = self.held.now();
                    self.tick_in_files(now);
                    now
                }
            };
            if !self.acquisition.has_room(self.held.next_bytes(lane)) {
                self.hand_on(); // open events leave room by themselves
            }
            self.held.read(lane, now, &mut self.acquisition);
        }
        Turn::Worked
    }

    /// As [`Self::tick`], in the time of files: it stands still where they have none, so that
    /// packets count too.
    fn tick_in_files(&mut self, now: Moment) {
        self.packets_since_tick += 1;
        if self.packets_since_tick >= PACKETS_PER_TICK || now.since(self.ticked).as_ns() >= TICK_NS
        {
            self.packets_since_tick = 0;
            self.ticked = now;
            self.ring_most = self.ring_most.max(self.held.fullest_percent());
            self.look_at_time(now);
        }
    }

    /// Looks at time-outs, hands a batch on when it is due, publishes numbers.
    fn tick(&mut self, now: Moment) {
        if now.since(self.ticked).as_ns() >= TICK_NS || self.acquisition.batch_is_due(now) {
            self.ticked = now;
            self.look_at_time(now);
        }
    }

    fn look_at_time(&mut self, now: Moment) {
        self.ticks += 1;
        self.acquisition.poll(now);
        self.acquisition.reports(now).for_each(|said| self.live.note(Some(said)));
        if self.acquisition.batch_is_due(now) {
            self.hand_on();
        }
        if self.ticks.is_multiple_of(PUBLISH_TICKS) {
            self.publish();
        }
    }

    fn hand_on(&mut self) {
        let Working { acquisition, queue, source_lines, .. } = self;
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

    /// Nothing came: sleeps at the only ring, or for a moment; notices live inputs that have ended.
    fn rest(&mut self, held: Turn) {
        let open = self.live_inputs.iter().filter(|input| input.is_open).count();
        let alone = open == 1 && held == Turn::Over;
        for input in self.live_inputs.iter_mut().filter(|input| input.is_open) {
            input.is_open = input.ring.wait(if alone { SLEEP } else { Duration::ZERO });
            if !input.is_open {
                self.acquisition.end_input(input.number);
            }
        }
        match held {
            _ if alone => {}
            Turn::Waits(lane) if open == 0 => self.held.wait(lane, SLEEP),
            Turn::Later(wait) if open == 0 => {
                std::thread::sleep(SLEEP.min(Duration::from_nanos(wait.as_ns())));
            }
            _ => std::thread::sleep(SLEEP / 4),
        }
    }

    fn publish(&mut self) {
        let acquisition = &self.acquisition;
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
        let now = match self.clock {
            EventClock::Wall => clock::now(),
            EventClock::Data => self.held.now(),
        };
        self.acquisition.finish(now);
        self.acquisition.last_reports().for_each(|said| self.live.note(Some(said)));
        self.hand_on();
        self.publish();
        self.acquisition
    }
}
