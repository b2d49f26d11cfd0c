//! A started acquisition in numbers: addresses, folder, bounds of memory.

use std::path::PathBuf;

use fluxline_daq::builder::BuilderConfig;
use fluxline_daq::experiment::{Experiment, Plot, Source};

use crate::host;
use crate::record::BatchBounds;
use crate::source::OpenInput;

/// Tables of sources and rejects, stacks of threads, and the allocator's reserve \[byte\].
const REST_BYTES: u64 = 24 << 20;
/// Buffer of a capture and IP datagrams whose fragments wait \[byte\].
const CAPTURE_BYTES: u64 = 20 << 20;

/// A bin of a plot: five numbers, and each as text in plots.json \[byte\].
const PLOT_BIN_BYTES: u64 = 40 + 5 * 2 * 24;

/// A started acquisition: its addresses, its folder, its bounds of memory.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The experiment's name.
    pub name: String,
    /// The inputs, in the order of the experiment.
    pub inputs: Vec<PlannedInput>,
    /// The run folder; `None` when nothing is recorded.
    pub folder: Option<PathBuf>,
    /// Bounds of memory.
    pub memory: Memory,
}

impl Plan {
    /// Logs the start of the run.
    pub(crate) fn log(&self) {
        let folder = self.folder.as_deref().map(|folder| folder.display().to_string());
        tracing::info!(run = self.name, folder, "the run has started");
        for input in &self.inputs {
            tracing::info!(source = input.name, listens = input.listens.join(", "), "input open");
        }
    }
}

/// An open input.
#[derive(Clone, Debug)]
pub struct PlannedInput {
    /// The source's name in the experiment.
    pub name: String,
    /// Addresses or the URL that senders reach it by; empty for files and direct emulators.
    pub listens: Vec<String>,
    /// A key that was drawn for this run, for its producer alone; run.json does not have it.
    pub drawn_key: Option<u64>,
}

impl PlannedInput {
    /// Returns an input that another node has.
    pub(crate) fn elsewhere(source: &Source) -> PlannedInput {
        PlannedInput { name: source.name.clone(), listens: Vec::new(), drawn_key: None }
    }

    pub(crate) fn of(input: &OpenInput) -> PlannedInput {
        PlannedInput {
            name: input.name.clone(),
            listens: input.listens.clone(),
            drawn_key: input.drawn_key,
        }
    }
}

/// Memory that the configuration bounds \[byte\].
#[derive(Clone, Debug)]
pub struct Memory {
    /// Push rings, and the edges between nodes.
    pub rings: u64,
    /// Events under construction.
    pub events: u64,
    /// Batches between readout and disk.
    pub batches: u64,
    /// Buffers of files, tables, the threads' stacks.
    pub rest: u64,
    /// Memory of the process before the start.
    before: u64,
}

/// The nodes of a run, for its bounds of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edges {
    /// Memory of all edges \[byte\].
    pub bytes: u64,
    /// Number of builders, each of which has the memory of one.
    pub builders: u64,
}

impl Edges {
    /// A run on one node.
    pub const NONE: Edges = Edges { bytes: 0, builders: 1 };
}

/// Returns the most memory of plots: their bins, once more as text, and the batches that wait for
/// them \[byte\].
fn plots_bytes(experiment: &Experiment) -> u64 {
    let bins: u64 = experiment.plots.iter().map(Plot::bins_in_all).sum();
    match experiment.plots.is_empty() {
        true => 0,
        false => bins * PLOT_BIN_BYTES + BatchBounds::of(experiment).plots_bytes_max(),
    }
}

impl Memory {
    pub(crate) fn of(
        experiment: &Experiment,
        inputs: &[(usize, OpenInput)],
        builder: &BuilderConfig,
        edges: Edges,
        before: u64,
    ) -> Memory {
        let files = experiment.sources.iter().filter(|source| source.pcap.is_some()).count();
        Memory {
            rings: inputs.iter().map(|(_, input)| input.ring_bytes).sum::<u64>() + edges.bytes,
            events: builder.memory_bytes_max() * edges.builders,
            batches: BatchBounds::of(experiment).memory_bytes_max() + plots_bytes(experiment),
            rest: REST_BYTES + files as u64 * CAPTURE_BYTES,
            before,
        }
    }

    /// Returns the sum of the bounds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.rings + self.events + self.batches + self.rest
    }

    /// Returns the growth of the process's memory since the start, at its largest.
    pub(crate) fn most(&self) -> u64 {
        host::resident_most().saturating_sub(self.before)
    }
}
