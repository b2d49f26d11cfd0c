//! The readout and the event builder as one stage: datagrams from all rings in, batches out.
//!
//! Live inputs have turns. Inputs that wait for their reader are read as one stream (`held.rs`).
//! [`ReadoutStage::step`] takes a turn of each; the thread only repeats it and waits.

use std::thread::JoinHandle;
use std::time::Duration;

use fluxline::{clock, pin};
use fluxline_core::{Moment, Span};
use fluxline_daq::event::EventBatch;
use fluxline_daq::ledger::{InputCounters, InputEntry, Ledger};
use fluxline_daq::pipeline::{NewSource, Pipeline};
use fluxline_daq::record::SourceLine;

use crate::control::Control;
use crate::held::{Held, Step};
use crate::monitor::{LiveParts, Monitor, Stats};
use crate::record::{RecordQueue, Wanted};
use crate::ring::{Arrival, InputRing, ReadSlots};
use crate::sample::Sampler;
use crate::stop::Stop;

/// Slots taken from one ring before the next has its turn, and before they are given back.
const SLOTS_PER_TURN: usize = 64;
/// Packets taken of on-demand inputs before live ones have their turns.
const PACKETS_PER_TURN: usize = 64;
/// Packets of files after which time-outs are checked, whatever their times.
const PACKETS_PER_TICK: u32 = 64;
/// Pause of the readout when all rings are empty.
const SLEEP: Duration = Duration::from_millis(1);
/// Period of checking time-outs and publishing counters \[ns\].
const TICK_NS: u64 = 2_000_000;
/// Ticks between two publications of counters.
const PUBLISH_TICKS: u64 = 50;

/// The clock that closes events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventClock {
    /// The wall clock: live sources.
    Wall,
    /// The time in the files, where all inputs are files: it makes a run repeatable.
    Data,
}

/// The parts of a readout.
pub(crate) struct Readout {
    /// Readout and builder.
    pub pipeline: Pipeline,
    /// The rings, in the order of the inputs.
    pub rings: Vec<InputRing>,
    /// The way of batches to the recorder.
    pub queue: RecordQueue,
    /// For each input the part of its sources' lines that is the same.
    pub source_lines: Vec<SourceLine>,
    /// The clock that closes events.
    pub clock: EventClock,
    /// The core to run on.
    pub core: Option<usize>,
    /// The end of the run.
    pub stop: Stop,
    /// The run's state, which decides if events are recorded.
    pub control: Control,
}

impl Readout {
    /// Runs until all inputs have ended and their rings are empty; returns the pipeline.
    pub fn start(self, monitor: Monitor) -> JoinHandle<Pipeline> {
        std::thread::spawn(move || {
            if let Some(core) = self.core {
                monitor.note(pin::pin_current_thread(core).err());
            }
            let mut stage = ReadoutStage::new(self, monitor);
            loop {
                match stage.step(clock::now()) {
                    Progress::Worked => {}
                    Progress::Idle(held) => stage.rest(held),
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

struct ReadoutStage {
    pipeline: Pipeline,
    output: Output,
    clock: EventClock,
    live_inputs: Vec<LiveInput>,
    held: Held,
    ticks: Ticks,
    /// Fill level of the fullest ring since the last publication \[%\].
    ring_most: usize,
    monitor: Monitor,
}

/// The way to the recorder.
struct Output {
    queue: RecordQueue,
    source_lines: Vec<SourceLine>,
    /// Memory for the next batch.
    spare: EventBatch,
    control: Control,
    /// The purpose of the events that close now.
    wanted: Wanted,
    /// Samples closed events while somebody watches.
    sampler: Option<Sampler>,
}

impl Output {
    /// Passes new sources and closed events to the recorder.
    fn hand_on(&mut self, pipeline: &mut Pipeline) {
        for NewSource { number, input, label } in pipeline.new_sources() {
            tracing::info!(source = label, number, input, "new source");
            let template = self.source_lines[usize::from(input)].clone();
            self.queue.source(SourceLine { source: number, name: label, ..template }, input);
        }
        let batch = pipeline.take_batch(std::mem::take(&mut self.spare));
        if !batch.is_empty() {
            if let Some(sampler) = &mut self.sampler {
                sampler.take(&batch);
            }
            self.spare = self.queue.exchange(batch, self.wanted);
        }
    }

    /// Follows the run's state. Events that closed before a change have the purpose of that time.
    fn follow_control(&mut self, pipeline: &mut Pipeline) {
        let wanted = wanted_by(&self.control);
        if wanted != self.wanted {
            self.hand_on(pipeline);
            self.wanted = wanted;
        }
    }
}

fn wanted_by(control: &Control) -> Wanted {
    match control.records() {
        true => Wanted::Recorded,
        false => Wanted::Counted,
    }
}

/// The checks of time-outs.
#[derive(Default)]
struct Ticks {
    last: Moment,
    count: u64,
    /// Packets of files since the last check.
    packets: u32,
}

impl ReadoutStage {
    fn new(readout: Readout, monitor: Monitor) -> ReadoutStage {
        let Readout { mut pipeline, rings, queue, source_lines, clock, core: _, stop, control } =
            readout;
        let (mut live_inputs, mut held) = (Vec::new(), Vec::new());
        for (number, ring) in (0..).zip(rings) {
            match ring {
                InputRing::OnDemand(ring) => held.push((number, ring)),
                ring => live_inputs.push(LiveInput { number, ring, is_open: true }),
            }
        }
        for (input, ring) in &held {
            // An input that waits is silent by the times of its own packets alone.
            pipeline.note_backlog(*input, true);
            if live_inputs.is_empty() {
                pipeline.read_on_demand(*input, ring.times);
            }
        }
        let held = Held::new(held, &pipeline, stop);
        monitor.note(held.in_turns());
        ReadoutStage {
            held,
            pipeline,
            output: Output {
                queue,
                source_lines,
                spare: EventBatch::default(),
                wanted: wanted_by(&control),
                control,
                sampler: None,
            },
            clock,
            live_inputs,
            ticks: Ticks::default(),
            ring_most: 0,
            monitor,
        }
    }

    /// Takes a turn of each input, and closes the events whose time is over.
    ///
    /// One time holds for all rings: a packet from before it was read, or is known to be unread.
    fn step(&mut self, now: Moment) -> Progress {
        let mut worked = false;
        for at in 0..self.live_inputs.len() {
            if self.live_inputs[at].is_open {
                let packets = self.turn(at, now);
                let number = self.live_inputs[at].number;
                self.pipeline.note_backlog(number, packets >= SLOTS_PER_TURN);
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
        let ReadoutStage { pipeline, live_inputs, .. } = self;
        let LiveInput { number, ring, .. } = &mut live_inputs[at];
        let take = |arrival: Arrival<'_>| match arrival {
            Arrival::Whole(datagram) => pipeline.take(*number, now, &datagram),
            Arrival::Truncated(bytes) => pipeline.take_truncated(*number, bytes),
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
            let lane = match self.held.step(&mut self.pipeline) {
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
            if !self.pipeline.has_room(self.held.next_bytes(lane)) {
                self.output.hand_on(&mut self.pipeline); // open events leave room by themselves
            }
            self.held.read(lane, now, &mut self.pipeline);
        }
        Turn::Worked
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
        if now.since(self.ticks.last).as_ns() >= TICK_NS || self.pipeline.batch_is_due(now) {
            self.ticks.last = now;
            self.check_time(now);
        }
    }

    fn check_time(&mut self, now: Moment) {
        self.ticks.count += 1;
        self.output.follow_control(&mut self.pipeline);
        self.pipeline.poll(now);
        self.pipeline.reports(now).for_each(|said| self.monitor.note(Some(said)));
        if self.pipeline.batch_is_due(now) {
            self.output.hand_on(&mut self.pipeline);
        }
        if self.ticks.count.is_multiple_of(PUBLISH_TICKS) {
            self.publish();
            self.publish_parts(now);
        }
    }

    /// Sleeps at the only ring, or for a moment; notices live inputs that have ended.
    fn rest(&mut self, held: Turn) {
        let open = self.live_inputs.iter().filter(|input| input.is_open).count();
        let alone = open == 1 && held == Turn::Over;
        for input in self.live_inputs.iter_mut().filter(|input| input.is_open) {
            input.is_open = input.ring.wait(if alone { SLEEP } else { Duration::ZERO });
            if !input.is_open {
                self.pipeline.end_input(input.number);
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
        let pipeline = &self.pipeline;
        let mut stats = Stats { ring_percent: self.ring_most as u64, ..Stats::default() };
        self.ring_most = 0;
        for source in pipeline.readout().sources() {
            let counters = source.counters();
            stats.packets += counters.parsed;
            stats.bytes += counters.bytes_parsed;
            stats.lost += counters.lost;
            stats.sources += 1;
        }
        stats.rejected = pipeline.readout().rejected();
        let events = pipeline.builder().counters();
        stats.incomplete = events.events_incomplete + events.events_stopped;
        stats.events = events.events_complete + stats.incomplete;
        self.monitor.publish(stats);
    }

    /// Publishes the ledger so far for a live view, if there is one.
    fn publish_parts(&mut self, now: Moment) {
        if !self.monitor.is_watched() {
            self.output.sampler = None;
            return;
        }
        let pipeline = &self.pipeline;
        let mut ledger = Ledger::default().with_counts(pipeline.readout(), pipeline.builder());
        ledger.inputs = (0..self.output.source_lines.len())
            .map(|number| taken_of(pipeline, number as u16))
            .collect();
        let sampler = self.output.sampler.get_or_insert_with(Sampler::new);
        let (delays, packets) = (sampler.delays(now), sampler.packets());
        let delay_counts = sampler.delay_counts();
        let at = clock::now();
        self.monitor.publish_parts(LiveParts { ledger, delays, delay_counts, packets, at });
    }

    /// Closes all events and passes the last batch on.
    fn finish(mut self, wall: Moment) -> Pipeline {
        let now = match self.clock {
            EventClock::Wall => wall,
            EventClock::Data => self.held.now(),
        };
        self.output.follow_control(&mut self.pipeline);
        self.pipeline.finish(now);
        self.pipeline.last_reports().for_each(|said| self.monitor.note(Some(said)));
        self.output.hand_on(&mut self.pipeline);
        self.publish();
        self.publish_parts(now);
        self.pipeline
    }
}

/// Returns what the readout took of an input.
fn taken_of(pipeline: &Pipeline, number: u16) -> InputEntry {
    let taken = pipeline.taken(number);
    let counters = InputCounters {
        datagrams: taken.datagrams,
        bytes: taken.bytes,
        rejected: taken.rejected,
        sources_refused: taken.refused,
        truncated: taken.truncated,
        ..InputCounters::default()
    };
    InputEntry { counters, ..InputEntry::default() }
}
