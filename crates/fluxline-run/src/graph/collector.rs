//! The collector: batches of all builders in, one stream to the recorder out.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline_cluster::builder::{BuilderNode, Progress};
use fluxline_cluster::edges::Inlets;
use fluxline_cluster::{BuiltSource, OutputBatch, PartitionBuilder};
use fluxline_core::{Moment, Span, planted};
use fluxline_daq::event::EventBatch;

use super::link::EPOCH;
use super::loop_side::LoopSide;
use super::parts::{Board, BuilderPart, Numbers, Sum};
use crate::built::taken_of;
use crate::monitor::{Monitor, Stats};
use crate::output::Output;
use crate::periods::Counts;
use crate::stop::Stop;

/// Time between two publications of counters.
const PUBLISH_EVERY: Duration = Duration::from_millis(100);
/// Batches between all builders and the collector.
pub(crate) const BATCHES: usize = 4;
/// The longest sleep of a builder without records.
const REST: Span = Span::from_ms(1);

/// The closed events of one builder.
pub(crate) struct Built {
    builder: usize,
    /// Its sources that are new since its last batch.
    sources: Vec<BuiltSource>,
    events: EventBatch,
}

/// A builder in its thread.
pub(crate) struct BuilderThread<I> {
    pub number: usize,
    pub node: BuilderNode<I>,
    pub to: SyncSender<Built>,
    pub board: Board,
    pub monitor: Monitor,
    /// Dead readouts that were reported.
    pub named_dead: usize,
    /// Ends a builder whose readouts are other processes; `None`: its readouts end it.
    pub stop: Option<Stop>,
    pub clock: Clock,
    /// The feedback loop; `None`: there is none.
    pub side: Option<LoopSide<I>>,
}

/// The clock by which a builder ends events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// This host's.
    Host,
    /// That of the packets, which come from files.
    Packets,
    /// That of a simulated link, on which a packet takes this time.
    Virtual { packet: Span },
}

impl<I: Inlets> BuilderThread<I> {
    /// Builds until all readouts have ended.
    pub fn run(mut self) {
        let (mut known, mut published, mut worked) = (0, Moment::default(), 0);
        self.publish(false);
        loop {
            let (builder, to, side) = (self.number, &self.to, &mut self.side);
            let mut put = |partition: &PartitionBuilder, batch: OutputBatch| {
                let sources = partition.sources()[known..].to_vec();
                known = partition.sources().len();
                if let Some(side) = side {
                    side.look(partition, &batch.events, true);
                }
                // The collector lives as long as any builder.
                let _ = to.send(Built { builder, sources, events: batch.events });
            };
            let time = match self.clock {
                Clock::Host => Some(clock::now()),
                Clock::Packets => None,
                Clock::Virtual { .. } => {
                    Some(EPOCH + self.node.inlets().link_time().since(Moment::default()))
                }
            };
            time.into_iter().for_each(|time| self.node.partition_mut().end_events_at(time));
            let progress = self.node.step(&mut put);
            match progress {
                // What has come is built.
                Progress::Idle if self.stop.as_ref().is_some_and(Stop::is_over) => {
                    let left = self.node.stop(&mut put);
                    for readout in left {
                        self.monitor.fault(format_args!(
                            "this builder was stopped before readout-{readout} had ended: packets \
                             that it sends later are in no event"
                        ));
                    }
                    break;
                }
                Progress::Idle => {}
                Progress::Worked | Progress::Over => worked = self.spend(worked),
            }
            let more_after = self.go_on();
            if progress == Progress::Idle {
                self.node.rest(more_after.unwrap_or(REST).min(REST));
            }
            if progress == Progress::Over {
                break;
            }
            let now = self.node.partition().now();
            if now.since(published) >= Span::from_ms(100) {
                published = now;
                self.say();
                self.publish(false);
            }
        }
        self.go_on();
        if let Some(side) = &mut self.side {
            side.finish(self.node.inlets());
        }
        self.say();
        if self.node.inlets().has_crashed() {
            self.monitor.fault(format_args!(
                "builder-{} crashed: its open events ended there, and those of its keys are not \
                 built from then on",
                self.number
            ));
        }
        self.publish(true);
    }

    /// Shows the events that closed to the feedback loop; returns the time until it has more to
    /// do.
    fn go_on(&mut self) -> Option<Span> {
        let side = self.side.as_mut()?;
        let partition = self.node.partition();
        side.look(partition, partition.builder().closed(), false);
        side.go_on(self.node.inlets())
    }

    /// Lets the virtual time of the packets behind the first `worked` pass; returns their number.
    fn spend(&mut self, worked: u64) -> u64 {
        let packets = self.node.partition().counts().taken;
        if let Clock::Virtual { packet } = self.clock
            && packet > Span::ZERO
            && packets > worked
        {
            let work = packet.as_ns().saturating_mul(packets - worked);
            self.node.inlets().spend(Span::from_ns(work));
        }
        packets
    }

    /// Says what became known about sources and readouts. Each builder follows all sources, so one
    /// speaks for all.
    fn say(&mut self) {
        for readout in &self.node.dead()[self.named_dead..] {
            self.monitor.fault(format_args!(
                "readout-{readout} ended before its last record: what it had taken and not handed \
                 over is lost, and nobody counted it"
            ));
        }
        self.named_dead = self.node.dead().len();
        let reports = self.node.partition_mut().take_reports();
        if self.number == 0 {
            reports.into_iter().for_each(|said| self.monitor.note(Some(said)));
        }
    }

    fn publish(&mut self, is_last: bool) {
        let link_time = self.node.inlets().link_time();
        let part = BuilderPart::of(self.node.partition(), self.node.dead(), is_last);
        let part = BuilderPart { link_time, ..part };
        self.board.set_builder(self.number, part);
        if let Some(side) = &self.side {
            self.board.set_decider(self.number, side.part());
        }
    }
}

/// Gives the batches of all builders to the recorder, with one numbering of sources.
pub(crate) struct Collector {
    output: Output,
    numbers: Numbers,
    /// For each builder: the run's numbers of its sources.
    sources: Vec<Vec<u32>>,
    board: Board,
    monitor: Monitor,
    inputs: usize,
}

impl Collector {
    pub fn new(output: Output, board: Board, monitor: Monitor, inputs: usize) -> Collector {
        let sources = vec![Vec::new(); board.builders()];
        Collector { output, numbers: Numbers::default(), sources, board, monitor, inputs }
    }

    /// Collects until every builder has ended.
    pub fn run(&mut self, from: &Receiver<Built>) {
        let mut published = Instant::now();
        loop {
            match from.recv_timeout(PUBLISH_EVERY) {
                Ok(built) => self.take(built),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if published.elapsed() >= PUBLISH_EVERY {
                published = Instant::now();
                self.publish(false);
            }
        }
    }

    fn take(&mut self, built: Built) {
        let Built { builder, sources, mut events } = built;
        let Collector { output, numbers, .. } = self;
        let mut name = |source| output.name(source);
        let own = &mut self.sources[builder];
        own.extend(sources.iter().map(|of| numbers.of(of.input, &of.label, &mut name)));
        events.packets.iter_mut().for_each(|row| row.source = own[row.source as usize]);
        if planted!(8) && builder == 1 {
            events.packets.iter_mut().for_each(|row| row.source = 0);
        }
        let of_source = events.events.iter_mut().filter_map(|row| row.source.as_mut());
        of_source.for_each(|source| *source = own[*source as usize]);
        if self.output.has_changed() {
            let counts = self.counts();
            self.output.change(counts);
        }
        if planted!(6) && events.events.len() % 7 == 3 {
            return;
        }
        if planted!(7) && events.events.len() % 7 == 3 {
            self.output.put(events.clone());
        }
        self.output.put(events);
    }

    fn sum(&mut self, is_over: bool) -> Sum {
        let Collector { board, numbers, output, .. } = self;
        board.get().sum(is_over, numbers, &mut |source| output.name(source))
    }

    fn counts(&mut self) -> Counts {
        Counts::of_ledger(&self.sum(false).counts)
    }

    /// Publishes the newest counts of all nodes; the ledger if somebody wants it or the run ends.
    fn publish(&mut self, is_end: bool) {
        let Sum { mut counts, taken } = self.sum(false);
        let of = Counts::of_ledger(&counts);
        if self.output.has_changed() {
            self.output.change(of);
        }
        let totals = counts.source_totals();
        let stats = Stats {
            bytes: totals.bytes_parsed,
            rejected: taken.iter().map(|of| of.rejected).sum(),
            sources: counts.sources.len() as u64,
            ..Stats::default()
        };
        self.output.publish(of, stats, &self.monitor);
        if !is_end && !self.monitor.is_counted() {
            return self.output.end_parts();
        }
        counts.inputs = taken.into_iter().map(taken_of).collect();
        counts.inputs.resize_with(self.inputs, Default::default);
        self.output.publish_parts(counts, of, clock::now(), &self.monitor);
    }

    /// Ends the run: returns its counts, and the way to the recorder.
    pub fn finish(mut self) -> (Sum, Output) {
        self.publish(true);
        let mut sum = self.sum(true);
        sum.taken.resize(self.inputs, Default::default());
        (sum, self.output)
    }
}
