//! The readout as a stage: packets from all rings in, each given to the packet taker.
//!
//! Live inputs have turns. Inputs that wait for their reader are read as one stream (`held.rs`).
//! [`ReadoutStage::step`] takes a turn of each; the thread only repeats it and waits.

use std::thread::JoinHandle;
use std::time::Duration;

use fluxline::{clock, pin};
use fluxline_core::{Moment, Span};

use crate::held::{Held, Step};
use crate::monitor::Monitor;
use crate::ring::{Arrival, InputRing, ReadSlots};
use crate::stop::Stop;
use crate::taker::PacketTaker;

/// Slots taken from one ring before the next has its turn, and before they are given back.
const SLOTS_PER_TURN: usize = 64;
/// Packets taken of on-demand inputs before live ones have their turns.
const PACKETS_PER_TURN: usize = 64;
/// Packets of files after which time-outs are checked, whatever their times.
const PACKETS_PER_TICK: u32 = 64;
/// Pause of the readout while its taker has no room.
const SLEEP: Duration = Duration::from_millis(1);
/// Period of checking time-outs \[ns\].
const TICK_NS: u64 = 2_000_000;

/// The clock that closes events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventClock {
    /// The wall clock: live sources.
    Wall,
    /// The time in the files, where all inputs are files: it makes a run repeatable.
    Data,
}

/// The parts of a readout.
pub(crate) struct Readout<T> {
    /// Takes the packets.
    pub taker: T,
    /// The rings, with the numbers of their inputs.
    pub rings: Vec<(u16, InputRing)>,
    /// The clock that closes events.
    pub clock: EventClock,
    /// The core to run on.
    pub core: Option<usize>,
    /// The end of the run.
    pub stop: Stop,
}

impl<T: PacketTaker> Readout<T> {
    /// Runs until all inputs have ended and their rings are empty; returns the taker.
    pub fn start(self, monitor: Monitor) -> JoinHandle<T::Outcome> {
        std::thread::spawn(move || {
            if let Some(core) = self.core {
                monitor.note(pin::pin_current_thread(core).err());
            }
            let mut stage = ReadoutStage::new(self, monitor);
            loop {
                match stage.step(clock::now()) {
                    Progress::Worked => {}
                    Progress::Idle(held) => stage.rest(held),
                    Progress::Blocked => std::thread::sleep(SLEEP),
                    Progress::Over => return stage.finish(clock::now()),
                }
            }
        })
    }
}

/// A live input.
struct LiveInput {
    number: u16,
    ring: InputRing,
    is_open: bool,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Packets were read; step again.
    Worked,
    /// All rings were empty; this is the state of the on-demand inputs.
    Idle(Turn),
    /// The taker has no room: packets wait in their rings.
    Blocked,
    /// All inputs have ended and are read.
    Over,
}

/// The result of a turn of the on-demand inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Packets were read, and there may be more.
    Worked,
    /// The ring of this lane is empty.
    Waits(usize),
    /// The next packet is due after this span.
    Later(Span),
    /// All inputs have ended and are read.
    Over,
}

struct ReadoutStage<T> {
    taker: T,
    clock: EventClock,
    live_inputs: Vec<LiveInput>,
    held: Held,
    ticks: Ticks,
    /// Fill level of the fullest ring since the last check of the time \[%\].
    ring_most: usize,
    monitor: Monitor,
}

/// The checks of time-outs.
#[derive(Default)]
struct Ticks {
    last: Moment,
    /// Packets of files since the last check.
    packets: u32,
}

impl<T: PacketTaker> ReadoutStage<T> {
    fn new(readout: Readout<T>, monitor: Monitor) -> ReadoutStage<T> {
        let Readout { mut taker, rings, clock, core: _, stop } = readout;
        let (mut live_inputs, mut held) = (Vec::new(), Vec::new());
        for (number, ring) in rings {
            match ring {
                InputRing::OnDemand(ring) => held.push((number, ring)),
                ring => live_inputs.push(LiveInput { number, ring, is_open: true }),
            }
        }
        for (input, ring) in &held {
            // An input that waits is silent by the times of its own packets alone.
            taker.note_backlog(*input, true);
            if live_inputs.is_empty() {
                taker.read_on_demand(*input, ring.times);
            }
        }
        let held = Held::new(held, &taker, stop);
        monitor.note(held.in_turns());
        let ticks = Ticks::default();
        ReadoutStage { held, taker, clock, live_inputs, ticks, ring_most: 0, monitor }
    }

    /// Takes a turn of each input, and does what is due.
    ///
    /// One time holds for all rings: a packet from before it was read, or is known to be unread.
    fn step(&mut self, now: Moment) -> Progress {
        if !self.taker.can_take() {
            self.check_time(self.time(now));
            return Progress::Blocked;
        }
        self.taker.begin_turn();
        let mut worked = false;
        for at in 0..self.live_inputs.len() {
            if self.live_inputs[at].is_open {
                let packets = self.turn(at, now);
                let number = self.live_inputs[at].number;
                self.taker.note_backlog(number, packets >= SLOTS_PER_TURN);
                worked |= packets > 0;
            }
        }
        let held = self.turn_held(now);
        if self.clock == EventClock::Wall {
            self.tick(now);
        }
        if worked || held == Turn::Worked {
            return Progress::Worked;
        }
        match held == Turn::Over && self.live_inputs.iter().all(|input| !input.is_open) {
            true => Progress::Over,
            false => Progress::Idle(held),
        }
    }

    /// Takes packets of one live ring, at most one turn's worth; returns the number of slots.
    fn turn(&mut self, at: usize, now: Moment) -> usize {
        let ReadoutStage { taker, live_inputs, .. } = self;
        let LiveInput { number, ring, .. } = &mut live_inputs[at];
        let take = |arrival: Arrival<'_>| match arrival {
            Arrival::Whole(datagram) => taker.take(*number, now, &datagram),
            Arrival::Truncated(bytes) => taker.take_truncated(*number, bytes),
        };
        let read = ring.read(SLOTS_PER_TURN, now, take).unwrap_or_else(|error| {
            self.monitor.fault(error);
            ReadSlots::default()
        });
        self.ring_most = self.ring_most.max(read.ring_percent);
        read.count
    }

    /// Takes packets of the on-demand inputs, in their order, at most one turn's worth.
    ///
    /// Where all inputs are files, everything that is done depends on packets alone: time-outs and
    /// batches too, so that the same files give the same bytes.
    fn turn_held(&mut self, wall: Moment) -> Turn {
        for _ in 0..PACKETS_PER_TURN {
            if !self.taker.can_take() {
                return Turn::Worked;
            }
            let lane = match self.held.step(&mut self.taker) {
                Step::Read(lane) => lane,
                Step::Wait(lane) => return Turn::Waits(lane),
                Step::Later(wait) => return Turn::Later(wait),
                Step::Over => return Turn::Over,
            };
            let now = self.time(wall);
            if self.clock == EventClock::Data {
                self.tick_in_files(now);
            }
            self.taker.make_room(self.held.next_bytes(lane));
            self.held.read(lane, now, &mut self.taker);
        }
        Turn::Worked
    }

    /// Returns the time by the clock that closes events.
    fn time(&self, wall: Moment) -> Moment {
        match self.clock {
            EventClock::Wall => wall,
            EventClock::Data => self.held.now(),
        }
    }

    /// Does the same as [`Self::tick`] in the time of files. Files may have no times; then
    /// that time does not advance, so packets count too.
    fn tick_in_files(&mut self, now: Moment) {
        self.ticks.packets += 1;
        if self.ticks.packets >= PACKETS_PER_TICK || now.since(self.ticks.last).as_ns() >= TICK_NS {
            self.ticks.packets = 0;
            self.ticks.last = now;
            self.ring_most = self.ring_most.max(self.held.fullest_percent());
            self.check_time(now);
        }
    }

    /// Closes events by time-out, passes a batch on when it is due, publishes numbers.
    fn tick(&mut self, now: Moment) {
        if now.since(self.ticks.last).as_ns() >= TICK_NS || self.taker.is_due(now) {
            self.ticks.last = now;
            self.check_time(now);
        }
    }

    fn check_time(&mut self, now: Moment) {
        self.taker.check_time(now, std::mem::take(&mut self.ring_most));
    }

    /// Sleeps at the only ring, or for a moment; notices live inputs that have ended.
    fn rest(&mut self, held: Turn) {
        let open = self.live_inputs.iter().filter(|input| input.is_open).count();
        let alone = open == 1 && held == Turn::Over;
        let pause = self.taker.pause();
        for input in self.live_inputs.iter_mut().filter(|input| input.is_open) {
            input.is_open = input.ring.wait(if alone { pause } else { Duration::ZERO });
            if !input.is_open {
                self.taker.end_input(input.number);
            }
        }
        match held {
            _ if alone => {}
            Turn::Waits(lane) if open == 0 => self.held.wait(lane, pause),
            Turn::Later(wait) if open == 0 => {
                std::thread::sleep(pause.min(Duration::from_nanos(wait.as_ns())));
            }
            _ => std::thread::sleep(pause / 4),
        }
    }

    /// Ends the taker's run.
    fn finish(self, wall: Moment) -> T::Outcome {
        let now = self.time(wall);
        self.taker.finish(now)
    }
}
