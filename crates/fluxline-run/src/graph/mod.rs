//! One run on several nodes: readouts and builders as threads of this process, with edges over any
//! link between them.
//!
//! ```text
//!   inputs ──▶ readout-0 ─┬─edge──▶ builder-0 ─┐
//!   inputs ──▶ readout-1 ─┴─edge──▶ builder-1 ─┴──▶ collector ──▶ recorder
//! ```
//!
//! `link.rs` reads the link and names the nodes, `taker.rs` is a readout, `collector.rs` a builder
//! and the collector, `parts.rs` their counts; `saving.rs` and `holds.rs` are for builders that
//! die; `world.rs` runs all of them in virtual time, with
//! the sensors of `sensor.rs`. `loop_side.rs` and
//! `actuators.rs` join the feedback loop to them. The pieces that build events are those of
//! `fluxline-cluster`.

mod actuators;
mod collector;
mod from_node;
mod holds;
mod link;
mod loop_side;
mod parts;
mod saving;
mod sensor;
mod taker;
pub(crate) mod world;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use fluxline_cluster::builder::BuilderNode;
use fluxline_cluster::checkpoint::Checkpoint;
use fluxline_cluster::edges::{Inlets, Outlets};
use fluxline_cluster::handover::Handover;
use fluxline_cluster::mailbox::mailboxes;
use fluxline_cluster::node::RECORD_EXCESS_MAX;
use fluxline_cluster::rings::RingNode;
use fluxline_cluster::{Heir, MakePartition, NodeConfig, PartitionBuilder, ReadoutNode};
use fluxline_core::Span;
use fluxline_core::fabric::Key;
use fluxline_daq::builder::BuilderConfig;
use fluxline_daq::experiment::{Experiment, Link as FileLink, Nodes, RING_BYTES_MIN};
use fluxline_daq::formats::LoadedFormat;

use crate::built::{Built, GraphEnd};
use crate::config;
use crate::control::Control;
use crate::error::Error;
use crate::feedback::{LeftBehind, LoopPlan, MakeDecide};
use crate::monitor::Monitor;
use crate::output::Output;
use crate::plan::Edges;
use crate::readout::Readout;
use crate::record::RecordQueue;
use crate::ring::InputRing;
use crate::stop::Stop;

pub(crate) use collector::SUCCESSION_FILE;
use collector::{BATCHES, BuilderThread, Clock, Collector};
use from_node::FromNode;
use holds::Holds;
use link::{BACK_RING_BYTES, EPOCH, Link, Places, RECORD_BYTES};
use loop_side::LoopSide;
use parts::Board;
use saving::{Saving, Sizes};
use taker::GraphTaker;

/// The number of a run in the records of its edges, which no other run shares.
const RUN: u64 = 1;

// Every record fits into the smallest ring.
const _: () = assert!((RECORD_BYTES + RECORD_EXCESS_MAX) as u64 + 64 <= RING_BYTES_MIN / 4);

/// Number of simulated worlds that this process has begun.
static WORLDS: AtomicU32 = AtomicU32::new(0);

/// The nodes and the link of a run.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    nodes: Nodes,
    link: Link,
    of_file: FileLink,
    /// The only node of this process; `None`: all are.
    own: Option<Own>,
    /// The feedback loop; `None`: there is none.
    feedback: Option<Arc<LoopPlan>>,
}

/// The one node of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    Readout(usize),
    Builder(usize),
    Actuator,
}

impl Graph {
    /// Returns the graph of an experiment; `None`: all is one node. `link` overrides its link.
    ///
    /// # Errors
    /// An unknown link, or an experiment that several nodes cannot run.
    pub fn of(
        experiment: &Experiment,
        link: Option<&str>,
        node: Option<&str>,
    ) -> Result<Option<Graph>, Error> {
        let is_one = experiment.graph.is_none()
            && experiment.link.is_none()
            && experiment.feedback.is_none()
            && link.is_none();
        if is_one {
            return Ok(None);
        }
        let nodes = experiment.graph.clone().unwrap_or_default();
        let of_file = experiment.link.clone().unwrap_or_default();
        let link = Link::parse(link.unwrap_or(&of_file.url))?;
        if !link.is_virtual() {
            experiment.check_mixed("[nodes]").map_err(Error::input)?;
        }
        let own = node.map(|node| Own::of(node, &nodes, &link, experiment.feedback.is_some()));
        let own = own.transpose()?;
        let graph = Graph { nodes, link, of_file, own, feedback: None };
        if graph.is_virtual() {
            world::check(experiment)?;
            graph.places(experiment).in_network()?;
        }
        Ok(Some(graph))
    }

    /// Makes the functions of the feedback loop for the builders of this process.
    ///
    /// # Errors
    /// A function cannot be made, or there is none.
    pub fn with_feedback(
        self,
        experiment: &Experiment,
        loaded: &[LoadedFormat],
        of_caller: Option<MakeDecide>,
    ) -> Result<Graph, Error> {
        let plan = LoopPlan::of(experiment, loaded, of_caller, self.own_builders())?;
        Ok(Graph { feedback: plan.map(Arc::new), ..self })
    }

    /// Returns true when its nodes run in virtual time.
    pub fn is_virtual(&self) -> bool {
        self.link.is_virtual()
    }

    /// Returns true when all packets come on demand. In virtual time, sensors send those of files.
    pub fn reads_files(&self, experiment: &Experiment) -> bool {
        !self.is_virtual() && experiment.sources.iter().all(|source| source.is_file())
    }

    fn readouts(&self) -> usize {
        self.nodes.readout.count as usize
    }

    fn builders(&self) -> usize {
        self.nodes.builder.count as usize
    }

    /// Returns the numbers of the readouts of this process.
    fn own_readouts(&self) -> Range<usize> {
        match self.own {
            None => 0..self.readouts(),
            Some(Own::Readout(number)) => number..number + 1,
            Some(Own::Builder(_) | Own::Actuator) => 0..0,
        }
    }

    /// Returns the numbers of the builders of this process.
    fn own_builders(&self) -> Range<usize> {
        match self.own {
            None => 0..self.builders(),
            Some(Own::Builder(number)) => number..number + 1,
            Some(Own::Readout(_) | Own::Actuator) => 0..0,
        }
    }

    /// Returns true for a source that a readout of this process reads.
    pub fn reads(&self, experiment: &Experiment, source: usize) -> bool {
        let sources = experiment.sources_by_readout(&self.nodes);
        self.own_readouts().any(|readout| sources[readout].contains(&source))
    }

    /// Returns its edges and builders, for the bounds of memory.
    pub fn edges(&self) -> Edges {
        let (readouts, builders) = (self.readouts() as u64, self.builders() as u64);
        let kept = if self.keeps() {
            self.nodes.readout.keep_bytes + builders * BACK_RING_BYTES
        } else {
            0
        };
        let each = builders * self.of_file.ring_bytes + self.nodes.readout.memory_bytes + kept;
        Edges { bytes: readouts * each, builders }
    }

    /// Returns true when readouts keep records for the successor of a builder that dies. Nodes of
    /// one process die together.
    fn keeps(&self) -> bool {
        let can_die = self.is_virtual() || self.own.is_some();
        self.nodes.readout.keep_bytes > 0 && self.builders() > 1 && can_die
    }

    /// Returns the limit for other nodes to come; a simulated world has its own.
    fn join_within(&self) -> Option<Span> {
        let seconds = self.nodes.join_within_s.filter(|_| !self.is_virtual());
        seconds.map(|seconds| Span::from_ms(1000 * u64::from(seconds)))
    }

    /// Makes the board of its nodes.
    fn board(&self, experiment: &Experiment) -> Board {
        let board = Board::new(self.readouts(), self.builders());
        board.set_about_loop(self.about_loop(self.reads_files(experiment)));
        board
    }

    fn places(&self, experiment: &Experiment) -> Places {
        Places {
            link: self.link.clone(),
            readouts: self.readouts(),
            builders: self.builders(),
            sensors: if self.is_virtual() { experiment.sources.len() } else { 0 },
            has_actuator: experiment.feedback.is_some(),
            key: key_of(experiment),
            ring_bytes: self.of_file.ring_bytes,
            world: WORLDS.fetch_add(1, Ordering::Relaxed),
            addresses: self.of_file.addresses.clone(),
            has_way_back: self.keeps(),
            join_within: self.join_within(),
        }
    }
}

impl Own {
    /// Returns the node of a name.
    fn of(name: &str, nodes: &Nodes, link: &Link, has_loop: bool) -> Result<Own, Error> {
        if matches!(link, Link::Threads | Link::Simulated(..)) {
            return Err(Error::input(format_args!(
                "--node {name}: the nodes of this link are in one process; leave --node out, or \
                 choose shm:GROUP or udp:ADDRESS."
            )));
        }
        let of = |kind: &str, count: u32| {
            let number = name.strip_prefix(kind)?.parse::<u32>().ok()?;
            (number < count).then_some(number as usize)
        };
        let (readouts, builders) = (nodes.readout.count, nodes.builder.count);
        let readout = of("readout-", readouts).map(Own::Readout);
        let actuator = (has_loop && name == Places::actuator()).then_some(Own::Actuator);
        readout.or(actuator).or_else(|| of("builder-", builders).map(Own::Builder)).ok_or_else(
            || {
                Error::input(format_args!(
                    "--node {name}: the experiment has the nodes readout-0 to readout-{} and \
                 builder-0 to builder-{}{}.",
                    readouts - 1,
                    builders - 1,
                    if has_loop { ", and actuator-0" } else { "" }
                ))
            },
        )
    }
}

/// Returns the key of the rings between the nodes of an experiment. Nodes of another experiment
/// have another one.
fn key_of(experiment: &Experiment) -> Key {
    // Not what each node may choose for itself, such as the place of its files.
    let Experiment { name, sources, events, graph, feedback, .. } = experiment;
    let text = serde_json::to_vec(&(name, sources, events, graph, feedback)).unwrap_or_default();
    Key(fluxline_cluster::digest(&text) | 1)
}

/// Everything that the nodes of a graph share.
#[derive(Clone)]
struct Shared<'a> {
    graph: &'a Graph,
    experiment: &'a Experiment,
    loaded: &'a [LoadedFormat],
    builder: &'a BuilderConfig,
    board: Board,
    monitor: Monitor,
    stop: Stop,
    left_behind: LeftBehind,
    /// The run folder of a process with one node; `None`: there is none, or all nodes share it.
    folder: Option<PathBuf>,
}

impl Shared<'_> {
    /// Returns the maker of a readout, which takes its edges.
    fn taker<O: Outlets>(
        &self,
        number: usize,
        to: &SyncSender<FromNode>,
    ) -> impl FnOnce(O) -> GraphTaker<O> + use<O> {
        let Nodes { readout, .. } = &self.graph.nodes;
        let config = NodeConfig {
            run: RUN,
            node: number as u16,
            start: 0,
            mode: self.builder.mode,
            record_bytes: RECORD_BYTES,
            record_age: record_age(&self.graph.nodes),
            memory_bytes: readout.memory_bytes as usize,
        };
        // All inputs of the experiment, so that labels and keys are those of one node.
        let pairs = self.experiment.sources.iter().zip(self.loaded);
        let inputs: Vec<_> =
            pairs.map(|(source, of)| (source.name.clone(), of.description.clone())).collect();
        let descriptions = inputs.iter().map(|input| input.1.clone()).collect();
        let node = ReadoutNode::new(config, inputs, self.graph.builders() as u32)
            .with_sources_max(self.experiment.sources_max as usize)
            .keeping(if self.graph.keeps() { readout.keep_bytes as usize } else { 0 });
        let handover = self.graph.keeps().then(|| Handover::new(self.graph.builders()));
        let to = to.clone();
        let to = handover.as_ref().filter(|_| self.graph.is_virtual()).map(|_| to);
        let reads_files = self.graph.reads_files(self.experiment);
        let (board, monitor) = (self.board.clone(), self.monitor.clone());
        move |outlets| {
            let number = number as u16;
            let taker =
                GraphTaker::new(number, node, outlets, descriptions, reads_files, board, monitor);
            taker.keeping(handover, to)
        }
    }

    /// Returns the maker of a builder, which takes its edges.
    fn builder<I: Inlets>(
        &self,
        number: usize,
        to: SyncSender<FromNode>,
    ) -> impl FnOnce(I, Option<LoopSide<I>>) -> BuilderThread<I> + use<I> {
        let reads_files = self.graph.reads_files(self.experiment);
        let make = self.make_partition();
        let keeps = self.graph.keeps();
        let (readouts, builders) = (self.graph.readouts(), self.graph.builders());
        let keep_bytes = self.graph.nodes.readout.keep_bytes;
        let folder = self.folder.clone();
        let (board, monitor) = (self.board.clone(), self.monitor.clone());
        let stop = matches!(self.graph.own, Some(Own::Builder(_))).then(|| self.stop.clone());
        let is_virtual = self.graph.is_virtual();
        let packet_ns = if is_virtual { self.graph.nodes.builder.packet_ns } else { 0 };
        let clock = match (is_virtual, reads_files) {
            (true, _) => Clock::Virtual { packet: Span::from_ns(packet_ns) },
            (false, true) => Clock::Packets,
            (false, false) => Clock::Host,
        };
        move |inlets, side| {
            let partition = make(number as u32, None);
            let partition = partition.unwrap_or_else(|_| unreachable!("nothing is read"));
            let mut node = BuilderNode::new(inlets, partition).numbered(number as u32);
            let mut saving = None;
            if keeps {
                let before = (number + builders - 1) % builders;
                node = node.with_heir(Heir::new(before as u32, readouts, make));
                let sizes = Sizes { readouts, builders, keep_bytes };
                saving = Some(Saving::new(number, sizes, is_virtual));
            }
            let (named_dead, known) = (0, BTreeMap::new());
            BuilderThread {
                number,
                node,
                to,
                board,
                monitor,
                named_dead,
                looks_for_readouts: !is_virtual,
                stop,
                clock,
                side,
                known,
                saving,
                folder,
            }
        }
    }

    /// Returns the maker of partitions, from a saved state or at the beginning.
    fn make_partition(&self) -> MakePartition {
        let (nodes, config) = (self.graph.readouts(), self.builder.clone());
        let reads_files = self.graph.reads_files(self.experiment);
        let on_demand = if reads_files { self.sources() } else { Vec::new() };
        Box::new(move |_, state| {
            if let Some(state) = state {
                return Checkpoint::restore(RUN, nodes, &config, state);
            }
            let mut partition = PartitionBuilder::new(RUN, nodes, config.clone());
            for (readout, sources) in on_demand.iter().enumerate() {
                for source in sources {
                    partition.read_on_demand(readout as u16, *source as u16);
                }
            }
            Ok(partition)
        })
    }

    /// Returns the sources of each readout.
    fn sources(&self) -> Vec<Vec<usize>> {
        self.experiment.sources_by_readout(&self.graph.nodes)
    }
}

/// The parts of a run that the nodes of a graph work between.
pub(crate) struct Between<'a> {
    pub experiment: &'a Experiment,
    pub loaded: &'a [LoadedFormat],
    pub builder: &'a BuilderConfig,
    pub queue: RecordQueue,
    pub control: &'a Control,
    pub stop: &'a Stop,
    pub monitor: &'a Monitor,
    /// The run folder; `None`: nothing is recorded.
    pub folder: Option<PathBuf>,
}

impl Between<'_> {
    /// Returns what the nodes share.
    fn shared<'b>(&'b self, graph: &'b Graph) -> Shared<'b> {
        Shared {
            graph,
            experiment: self.experiment,
            loaded: self.loaded,
            builder: self.builder,
            board: graph.board(self.experiment),
            monitor: self.monitor.clone(),
            stop: self.stop.clone(),
            left_behind: LeftBehind::default(),
            folder: self.folder.clone().filter(|_| graph.own.is_some()),
        }
    }

    /// Makes the collector, which ends the run.
    fn collector(self, graph: &Graph, board: Board) -> Collector {
        let lines = config::source_lines(self.experiment, self.loaded);
        let mut output = Output::new(self.queue, lines, self.control.clone());
        if !graph.reads_files(self.experiment) {
            output.measure_delays();
        }
        let holds = graph.keeps() && graph.is_virtual();
        let holds = holds.then(|| Holds::new(graph.builders(), graph.readouts()));
        let collector =
            Collector::new(output, board, self.monitor.clone(), self.experiment.sources.len());
        collector.holding(holds)
    }
}

/// Starts the nodes of a graph, each in a thread; `rings` are those of the inputs.
///
/// # Errors
/// A node cannot be opened on the link.
pub(crate) fn start(
    graph: &Graph,
    between: Between<'_>,
    rings: Vec<(u16, InputRing)>,
) -> Result<JoinHandle<Built>, Error> {
    let (shared, (to, from)) = (between.shared(graph), sync_channel(BATCHES));
    let rings = by_readout(&shared.sources(), rings);
    let mut threads = Vec::new();
    if graph.link == Link::Threads {
        let (outlets, inlets) =
            mailboxes(graph.readouts(), graph.builders(), graph.of_file.ring_bytes as usize);
        let (writes, actuator) = shared.loop_threads();
        let mut writes = writes.into_iter();
        for (number, inlets) in inlets.into_iter().enumerate() {
            let side = shared.loop_side_of_thread(number, writes.next());
            let builder = shared.builder(number, to.clone())(inlets, side);
            threads.push(std::thread::spawn(move || builder.run()));
        }
        for ((number, rings), outlets) in rings.into_iter().enumerate().zip(outlets) {
            threads.push(start_readout(&shared, &between, number, rings, outlets, &to));
        }
        let folder = between.folder.as_deref();
        threads.extend(actuator.map(|inlets| shared.start_actuator(folder, inlets)));
    } else {
        // All nodes are open before a thread starts.
        let places = graph.places(shared.experiment);
        let builders: Vec<RingNode> =
            graph.own_builders().map(|of| places.open_builder(of)).collect::<Result<_, _>>()?;
        let readouts: Vec<RingNode> =
            graph.own_readouts().map(|of| open_readout(&places, of)).collect::<Result<_, _>>()?;
        let actuator = shared.open_actuator(&places)?;
        for (number, node) in graph.own_builders().zip(builders) {
            let side = shared.open_loop_side(number, &places)?;
            let builder = shared.builder(number, to.clone())(node, side);
            threads.push(std::thread::spawn(move || builder.run()));
        }
        let rings = rings.into_iter().enumerate().filter(|of| graph.own_readouts().contains(&of.0));
        for ((number, rings), node) in rings.zip(readouts) {
            threads.push(start_readout(&shared, &between, number, rings, node, &to));
        }
        let folder = between.folder.as_deref();
        threads.extend(actuator.map(|node| shared.start_actuator(folder, node)));
    }
    drop(to);
    let board = shared.board.clone();
    let collector = between.collector(graph, board.clone());
    Ok(std::thread::spawn(move || collect(collector, &from, threads, &board)))
}

/// Opens a readout of a real link, with the ways back to it.
fn open_readout(places: &Places, number: usize) -> Result<RingNode, Error> {
    let mut node = places.open_readout(number)?;
    places.add_lanes_back(&mut node)?;
    Ok(node)
}

/// Returns the age at which records go to the builders.
fn record_age(nodes: &Nodes) -> Span {
    Span::from_ns((nodes.readout.record_ms * 1e6) as u64)
}

/// Sorts the rings of inputs by the readouts to which their sources belong.
fn by_readout(sources: &[Vec<usize>], rings: Vec<(u16, InputRing)>) -> Vec<Vec<(u16, InputRing)>> {
    let mut readouts: Vec<Vec<(u16, InputRing)>> = Vec::new();
    readouts.resize_with(sources.len(), Vec::new);
    for (input, ring) in rings {
        let readout = sources.iter().position(|of| of.contains(&usize::from(input)));
        readouts[readout.expect("each source belongs to a readout")].push((input, ring));
    }
    readouts
}

fn start_readout<O: Outlets + 'static>(
    shared: &Shared<'_>,
    between: &Between<'_>,
    number: usize,
    rings: Vec<(u16, InputRing)>,
    outlets: O,
    to: &SyncSender<FromNode>,
) -> JoinHandle<()> {
    let readout = Readout {
        taker: shared.taker(number, to)(outlets),
        rings,
        clock: config::event_clock(shared.experiment),
        // The first readout has the core of the only one.
        core: shared.experiment.readout_core.filter(|_| number == 0),
        stop: between.stop.clone(),
    };
    readout.start(between.monitor.clone())
}

/// Collects until all nodes have ended, and returns the counts of the run.
fn collect(
    mut collector: Collector,
    from: &Receiver<FromNode>,
    threads: Vec<JoinHandle<()>>,
    board: &Board,
) -> Built {
    collector.run(from);
    for thread in threads {
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
    let (sum, output) = collector.finish();
    let delays = output.delays();
    let (periods, paused) = output.end(crate::periods::Counts::of_ledger(&sum.counts));
    let graph = GraphEnd {
        document: board.get().document(),
        feedback: board.get().feedback.document(),
        began: EPOCH,
        virtual_end: None,
        crashed: Vec::new(),
    };
    Built { counts: sum.counts, taken: sum.taken, paused, periods, delays, graph: Some(graph) }
}
