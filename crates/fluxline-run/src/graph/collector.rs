//! The collector: batches of all builders in, one stream to the recorder out.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline_cluster::builder::{BuilderNode, Progress, Put};
use fluxline_cluster::edges::Inlets;
use fluxline_cluster::{OutputBatch, PartitionBuilder, TakenOver};
use fluxline_core::{Moment, Span, planted};

use super::from_node::{Built, FromNode};
use super::holds::Holds;
use super::link::EPOCH;
use super::loop_side::LoopSide;
use super::parts::{Board, BuilderPart, Numbers, Sum};
use super::saving::Saving;
use super::taker::PATIENCE;
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
/// Rests for readouts that have not taken the last message.
const RESTS_MAX: u32 = 1_000;

/// The name of the file in which a builder says whom it replaced.
pub(crate) const SUCCESSION_FILE: &str = "succession.json";

/// A builder in its thread.
pub(crate) struct BuilderThread<I> {
    pub number: usize,
    pub node: BuilderNode<I>,
    pub to: SyncSender<FromNode>,
    pub board: Board,
    pub monitor: Monitor,
    /// Dead readouts that were reported.
    pub named_dead: usize,
    /// The readouts that have not come are still to be named.
    pub looks_for_readouts: bool,
    /// Ends a builder whose readouts are other processes; `None`: its readouts end it.
    pub stop: Option<Stop>,
    pub clock: Clock,
    /// The feedback loop; `None`: there is none.
    pub side: Option<LoopSide<I>>,
    /// For each partition: its sources that the collector knows.
    pub known: BTreeMap<u32, usize>,
    /// The saves for a successor; `None`: readouts keep nothing.
    pub saving: Option<Saving>,
    /// The folder of a process with this node alone.
    pub folder: Option<PathBuf>,
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
        let (mut published, mut worked) = (Moment::default(), 0);
        let began = self.node.inlets().link_time();
        self.publish(false);
        loop {
            let time = match self.clock {
                Clock::Host => Some(clock::now()),
                Clock::Packets => None,
                Clock::Virtual { .. } => {
                    Some(EPOCH + self.node.inlets().link_time().since(Moment::default()))
                }
            };
            for (_, partition) in self.node.partitions_mut() {
                time.into_iter().for_each(|time| partition.end_events_at(time));
            }
            let progress = self.with_put(BuilderNode::step);
            if let Some(taken) = self.node.take_over() {
                self.take_over(&taken);
            }
            match progress {
                // What has come is built.
                Progress::Idle if self.stop.as_ref().is_some_and(Stop::is_over) => {
                    let left = self.with_put(BuilderNode::stop);
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
            self.save();
            if progress == Progress::Idle {
                self.node.rest(more_after.unwrap_or(REST).min(REST));
            }
            if progress == Progress::Over {
                break;
            }
            self.look_for_readouts(began);
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
        if self.saving.is_some() {
            self.end_answers();
        } else if self.node.inlets().has_crashed() {
            self.monitor.fault(format_args!(
                "builder-{} crashed: its open events ended there, and those of its keys are not \
                 built from then on",
                self.number
            ));
        }
        self.publish(true);
    }

    /// Works with the node, and gives its batches to the collector.
    fn with_put<R>(&mut self, work: impl FnOnce(&mut BuilderNode<I>, &mut Put<'_>) -> R) -> R {
        let BuilderThread { node, number, to, side, known, .. } = self;
        let mut put = |partition: u32, of: &PartitionBuilder, batch: OutputBatch| {
            let known = known.entry(partition).or_default();
            let sources = of.sources()[*known..].to_vec();
            *known = of.sources().len();
            if let Some(side) = side {
                side.look(of, &batch.events, true);
            }
            let (builder, events) = (*number, batch.events);
            // The collector lives as long as any builder.
            let _ = to.send(FromNode::Built(Built { builder, partition, sources, events }));
        };
        work(node, &mut put)
    }

    /// Goes on for a builder that has gone, unless that cannot be written down.
    fn take_over(&mut self, taken: &TakenOver) {
        if let Err(error) = self.write_down(taken) {
            return self.monitor.fault(format_args!(
                "builder-{} cannot take over from builder-{}: {SUCCESSION_FILE}: {error}",
                self.number, taken.builder
            ));
        }
        self.monitor.note(Some(format!(
            "builder-{} goes on with the keys of builder-{}, from what that one had saved last",
            self.number, taken.builder
        )));
        let (builder, number) = (taken.builder as usize, taken.number);
        if self.folder.is_none() {
            let _ = self.to.send(FromNode::Replaced { builder, number });
        }
        self.board.replace(self.number, taken, self.folder.is_some());
        self.with_put(BuilderNode::go_on);
        self.publish(false);
    }

    /// Writes down in the node's own folder whom it replaces, before a batch says it.
    fn write_down(&self, taken: &TakenOver) -> std::io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let text = serde_json::json!({
            "builder": format!("builder-{}", taken.builder), "batches": taken.batches,
            "partitions": taken.partitions, "packets": taken.packets,
        });
        let mut file = std::fs::File::create(folder.join(SUCCESSION_FILE))?;
        writeln!(file, "{text}")?;
        file.sync_all()?;
        std::fs::File::open(folder)?.sync_all()
    }

    /// Saves what is due for a successor.
    fn save(&mut self) {
        if let Some(saving) = &mut self.saving {
            saving.go_on(&mut self.node, &self.to);
        }
    }

    /// Ends the ways back to the readouts.
    fn end_answers(&mut self) {
        let mut rests = 0;
        while !self.node.inlets().end_answers() && rests < RESTS_MAX {
            self.node.rest(REST);
            self.node.inlets().progress();
            rests += 1;
        }
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
        let packets = self.node.partitions().map(|(_, of)| of.counts().taken).sum();
        if let Clock::Virtual { packet } = self.clock
            && packet > Span::ZERO
            && packets > worked
        {
            let work = packet.as_ns().saturating_mul(packets - worked);
            self.node.inlets().spend(Span::from_ns(work));
        }
        packets
    }

    /// Says which readout is not there, once it has been waited for.
    fn look_for_readouts(&mut self, began: Moment) {
        let inlets = self.node.inlets();
        if !self.looks_for_readouts || inlets.link_time().since(began) < PATIENCE {
            return;
        }
        self.looks_for_readouts = false;
        if let Some(readout) = inlets.waits_for() {
            self.monitor.note(Some(format!(
                "builder-{} waits for readout-{readout}: it has not come yet",
                self.number
            )));
        }
    }

    /// Says what became known about sources and readouts. Each builder follows all sources, so one
    /// speaks for all.
    fn say(&mut self) {
        for readout in &self.node.dead()[self.named_dead..] {
            self.monitor.fault(format_args!(
                "readout-{readout} ended before its last record, or never came: what it had taken \
                 and not handed over is lost, and nobody counted it"
            ));
        }
        self.named_dead = self.node.dead().len();
        for (number, partition) in self.node.partitions_mut() {
            let reports = partition.take_reports();
            if number == 0 {
                reports.into_iter().for_each(|said| self.monitor.note(Some(said)));
            }
        }
    }

    fn publish(&mut self, is_last: bool) {
        let link_time = self.node.inlets().link_time();
        let dead = self.node.dead().to_vec();
        for (number, partition) in self.node.partitions() {
            let part = BuilderPart::of(partition, &dead, is_last);
            let part = BuilderPart { link_time, ..part };
            self.board.set_builder(number as usize, self.number, part);
        }
        if let Some(side) = &self.side {
            self.board.set_decider(self.number, side.part());
        }
    }
}

/// Gives the batches of all builders to the recorder, with one numbering of sources.
pub(crate) struct Collector {
    output: Output,
    numbers: Numbers,
    /// For each builder and partition: the run's numbers of its sources.
    sources: HashMap<(usize, u32), Vec<u32>>,
    /// Batches that may still be void, in a simulated world.
    holds: Option<Holds>,
    board: Board,
    monitor: Monitor,
    inputs: usize,
}

impl Collector {
    pub fn new(output: Output, board: Board, monitor: Monitor, inputs: usize) -> Collector {
        let (numbers, sources) = (Numbers::default(), HashMap::new());
        Collector { output, numbers, sources, holds: None, board, monitor, inputs }
    }

    /// Holds batches that may still be void.
    #[must_use]
    pub fn holding(self, holds: Option<Holds>) -> Collector {
        Collector { holds, ..self }
    }

    /// Collects until every builder has ended.
    pub fn run(&mut self, from: &Receiver<FromNode>) {
        let mut published = Instant::now();
        loop {
            match from.recv_timeout(PUBLISH_EVERY) {
                Ok(message) => self.hear(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if published.elapsed() >= PUBLISH_EVERY {
                published = Instant::now();
                self.publish(false);
            }
        }
        let left = self.holds.as_mut().map(Holds::end).unwrap_or_default();
        left.into_iter().for_each(|built| self.take(built));
    }

    fn hear(&mut self, message: FromNode) {
        let Some(holds) = &mut self.holds else {
            return match message {
                FromNode::Built(built) => self.take(built),
                FromNode::Mark(mark) => self.output.mark(mark),
                FromNode::Saving { .. } | FromNode::Saved { .. } | FromNode::Replaced { .. } => {}
            };
        };
        let certain = match message {
            FromNode::Built(built) => {
                holds.put(built.builder, built);
                Vec::new()
            }
            FromNode::Saving { builder, number } => {
                holds.mark(builder, number);
                Vec::new()
            }
            FromNode::Saved { builder, readout, number } => holds.know(builder, readout, number),
            FromNode::Replaced { builder, number } => holds.replace(builder, number),
            FromNode::Mark(mark) => {
                self.output.mark(mark);
                Vec::new()
            }
        };
        certain.into_iter().for_each(|built| self.take(built));
    }

    fn take(&mut self, built: Built) {
        let Built { builder, partition, sources, mut events } = built;
        let Collector { output, numbers, .. } = self;
        let mut name = |source| output.name(source);
        let own = self.sources.entry((builder, partition)).or_default();
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
