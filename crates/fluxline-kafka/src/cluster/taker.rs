//! Takes the packets of a readout node's inputs, and hands their records to the log.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fluxline::clock;
use fluxline_core::{Datagram, Moment, Span};
use fluxline_daq::builder::Expectation;
use fluxline_daq::experiment::Experiment;
use fluxline_run::PacketTaker;

use super::block::ReadoutBlock;
use super::steady::SteadyClock;
use crate::build::deliveries::Refusal;
use crate::build::kafka::KafkaLog;
use crate::build::log::hand_over;
use fluxline_cluster::ReadoutNode;

/// Time between two publications of counts.
const PUBLISH_EVERY: Span = Span::from_ms(250);

/// The results of a taker, which the node's own thread reads.
#[derive(Clone, Debug, Default)]
pub struct TakerState {
    /// Its counts.
    pub block: ReadoutBlock,
    /// The first refusal of a record.
    pub refusal: Option<Refusal>,
    /// The error after which the log takes nothing any more.
    pub fatal: Option<String>,
}

/// The state of a taker; clones share it.
#[derive(Clone, Debug, Default)]
pub struct SharedState(Arc<Mutex<TakerState>>);

impl SharedState {
    /// Returns the newest state.
    pub fn get(&self) -> TakerState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, state: TakerState) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

/// An input that may have packets which were not taken yet.
#[derive(Clone, Copy, Debug, Default)]
struct Backlog {
    /// Arrival of the newest packet taken.
    newest: Moment,
    has_unread: bool,
    datagrams: u64,
    bytes: u64,
    truncated: u64,
}

/// Takes packets and hands records over.
pub struct NodeTaker {
    node: ReadoutNode,
    log: KafkaLog,
    reads_files: bool,
    inputs: Vec<Backlog>,
    /// The low-water mark: everything that arrived before was taken.
    mark: Moment,
    /// The clock of packets; those of files have their own times.
    clock: SteadyClock,
    state: SharedState,
    /// Number of pauses and resumptions of the run.
    changes: Arc<AtomicU32>,
    /// The sources that the experiment requires.
    require: Expectation,
    published: Moment,
}

impl NodeTaker {
    /// Makes a taker of the inputs of an experiment. Times of files are the node's time where it
    /// reads files.
    pub fn new(
        node: ReadoutNode,
        log: KafkaLog,
        experiment: &Experiment,
        reads_files: bool,
    ) -> NodeTaker {
        let mut taker = NodeTaker {
            node,
            log,
            reads_files,
            inputs: vec![Backlog::default(); experiment.sources.len()],
            require: experiment.events.require.clone(),
            mark: Moment::default(),
            clock: SteadyClock::new(clock::now(), clock::monotonic()),
            state: SharedState::default(),
            changes: Arc::default(),
            published: Moment::default(),
        };
        // The first counts have the node's number: without it they would be those of node 0.
        taker.publish();
        taker
    }

    /// Returns the state, which changes while the taker works.
    pub fn state(&self) -> SharedState {
        self.state.clone()
    }

    /// Returns the number of pauses and resumptions of the run, which the caller keeps up to date.
    pub fn changes(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.changes)
    }

    /// Hands waiting records over, as far as the log takes them.
    pub fn hand_over(&mut self) -> bool {
        // A log that is full or away takes the records later.
        let _ = hand_over(&mut self.node, &mut self.log);
        self.node.is_handed_over()
    }

    /// Returns the log.
    pub fn log(&self) -> &KafkaLog {
        &self.log
    }

    /// Returns datagrams and bytes taken of an input.
    pub fn taken(&self, input: usize) -> (u64, u64) {
        self.inputs.get(input).map_or((0, 0), |of| (of.datagrams, of.bytes))
    }

    /// Publishes the state to the node's own thread.
    pub fn publish(&mut self) {
        let mut block = ReadoutBlock::of(&self.node, &self.require);
        block.clock_set_ms = self.clock.step_ms();
        (block.reads_files, block.read_until_ns) = (self.reads_files, self.mark.as_ns());
        block.counters.bytes = self.inputs.iter().map(|of| of.bytes).sum();
        let truncated = self.inputs.iter().map(|of| of.truncated).sum::<u64>();
        block.counters.truncated = truncated;
        block.counters.received += truncated;
        let (refusal, fatal) = (self.log.deliveries().refusal(), self.log.fatal_error());
        self.state.set(TakerState { block, refusal, fatal });
    }

    /// Returns the time `now` by the steady clock. Files have their own time.
    fn steady(&mut self, now: Moment) -> Moment {
        match self.reads_files {
            true => now,
            false => {
                self.clock.look_at_host();
                self.clock.correct(now)
            }
        }
    }

    /// Returns the time of arrival of a packet by the steady clock.
    fn time_of(&mut self, time: Moment) -> Moment {
        if self.reads_files {
            return time;
        }
        if self.clock.is_strange(time) {
            self.clock.look_at_host();
        }
        self.clock.correct(time)
    }

    /// Returns the time up to which everything was taken.
    fn low_water(&self, now: Moment) -> Moment {
        if self.reads_files {
            return now;
        }
        let unread = self.inputs.iter().filter(|of| of.has_unread);
        unread.map(|of| of.newest).min().unwrap_or(now).min(now)
    }
}

impl PacketTaker for NodeTaker {
    type Outcome = NodeTaker;

    fn take(&mut self, input: u16, _now: Moment, datagram: &Datagram<'_>) {
        let datagram = &Datagram { time: self.time_of(datagram.time), ..*datagram };
        if let Some(of) = self.inputs.get_mut(usize::from(input)) {
            of.newest = of.newest.max(datagram.time);
            of.datagrams += 1;
            of.bytes += datagram.bytes.len() as u64;
        }
        // A record that is full is closed with the last mark: packets of this turn are not all
        // taken yet.
        self.node.take(input, self.mark, datagram);
        if !self.node.is_handed_over() {
            self.hand_over();
        }
    }

    fn take_truncated(&mut self, input: u16, bytes: usize) {
        if let Some(of) = self.inputs.get_mut(usize::from(input)) {
            of.truncated += 1;
            of.bytes += bytes as u64;
        }
    }

    fn end_input(&mut self, input: u16) {
        self.note_backlog(input, false);
        let newest = self.inputs.get(usize::from(input)).map_or(self.mark, |of| of.newest);
        self.node.end_input(input, newest);
    }

    fn note_backlog(&mut self, input: u16, has_unread: bool) {
        if let Some(of) = self.inputs.get_mut(usize::from(input)) {
            of.has_unread = has_unread;
        }
    }

    fn can_take(&self) -> bool {
        self.node.has_room()
    }

    fn check_time(&mut self, now: Moment, _ring_percent: usize) {
        self.hand_over();
        self.node.set_changes(self.changes.load(Ordering::Relaxed));
        let now = self.steady(now);
        // While packets wait in their rings for memory, the mark stays.
        if self.node.has_room() {
            self.mark = self.mark.max(self.low_water(now));
            self.node.poll(self.mark);
            self.hand_over();
        }
        let wall = clock::monotonic();
        if wall.since(self.published) >= PUBLISH_EVERY {
            self.published = wall;
            self.publish();
        }
    }

    fn finish(mut self, now: Moment) -> NodeTaker {
        self.mark = self.mark.max(self.steady(now));
        self.node.set_changes(self.changes.load(Ordering::Relaxed));
        self.node.finish(self.mark);
        self.hand_over();
        self.publish();
        self
    }
}
