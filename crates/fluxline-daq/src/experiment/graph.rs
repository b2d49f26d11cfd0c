//! The nodes of an experiment, and the link between them: `[nodes]` and `[link]`.
//!
//! Every source belongs to one readout. Readouts are numbered and so are builders; their names are
//! `readout-0`, `builder-0` and so on.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::problem::Problem;
use super::{Experiment, Source};

/// Most readouts, and most builders.
const NODES_MAX: u32 = 1024;
/// The link that carries records between threads of this process.
pub const THREADS: &str = "threads";

/// The readouts and builders of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Nodes {
    /// The nodes that read sources.
    pub readout: Readouts,
    /// The nodes that build events.
    pub builder: Builders,
    /// The time within which the others must come to a node in a process of its own \[s\]; a node
    /// that comes later is taken for dead. `None`: a node waits for the others without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join_within_s: Option<u32>,
}

/// The nodes that read sources.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Readouts {
    /// Number of readouts; at most one for each source.
    pub count: u32,
    /// Names of the sources of each readout; empty: in turns, in the order of the file.
    pub sources: Vec<Vec<String>>,
    /// Age at which records go to the builders, with the time up to which everything was read
    /// \[ms\].
    pub record_ms: f64,
    /// Memory of a readout for records that a builder has not taken \[byte\].
    pub memory_bytes: u64,
    /// Memory of a readout for records of which a builder has not saved what it made of them: the
    /// successor of a builder that dies gets them \[byte\]; 0: nothing is kept.
    pub keep_bytes: u64,
    /// Virtual time that a packet takes a readout, on a simulated link \[ns\].
    pub packet_ns: u64,
}

impl Default for Readouts {
    fn default() -> Readouts {
        Readouts {
            count: 1,
            sources: Vec::new(),
            record_ms: 5.0,
            memory_bytes: 64 << 20,
            keep_bytes: 0,
            packet_ns: 0,
        }
    }
}

/// The nodes that build events.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Builders {
    /// Number of builders; each builds the events of its share of the keys.
    pub count: u32,
    /// Virtual time that a packet takes a builder, on a simulated link \[ns\].
    pub packet_ns: u64,
}

impl Default for Builders {
    fn default() -> Builders {
        Builders { count: 1, packet_ns: 0 }
    }
}

/// The smallest memory of a builder for the records of one readout \[byte\]: a ring takes records
/// of a quarter of its size, and a record may have the longest datagram.
pub const RING_BYTES_MIN: u64 = 1 << 20;

/// The link between the nodes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Link {
    /// The link: `threads`, `shm:GROUP`, `udp:ADDRESS:PORT`, `sim:NETWORK?KEYS`.
    #[serde(default = "threads")]
    pub url: String,
    /// Memory of a builder for the records of one readout \[byte\].
    #[serde(default = "ring_bytes")]
    pub ring_bytes: u64,
    /// Addresses of nodes on other machines, by their names: `ADDRESS:PORT`, for `udp:`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub addresses: BTreeMap<String, SocketAddr>,
}

impl Default for Link {
    fn default() -> Link {
        Link { url: threads(), ring_bytes: ring_bytes(), addresses: BTreeMap::new() }
    }
}

fn threads() -> String {
    THREADS.to_owned()
}
fn ring_bytes() -> u64 {
    8 << 20
}

impl Experiment {
    /// Returns the sources of each readout, by their numbers.
    #[must_use]
    pub fn sources_by_readout(&self, nodes: &Nodes) -> Vec<Vec<usize>> {
        let count = nodes.readout.count as usize;
        let named = |names: &Vec<String>| {
            let is_its = |at: &usize| names.contains(&self.sources[*at].name);
            (0..self.sources.len()).filter(is_its).collect()
        };
        if !nodes.readout.sources.is_empty() {
            return nodes.readout.sources.iter().map(named).collect();
        }
        (0..count).map(|first| (first..self.sources.len()).step_by(count).collect()).collect()
    }

    /// Checks `[nodes]` and `[link]`, and that nodes can run what the experiment asks for.
    pub(super) fn check_graph(&self) -> Result<(), Problem> {
        if let Some(nodes) = &self.graph {
            self.check_counts(nodes)?;
        }
        if let Some(link) = &self.link
            && !(RING_BYTES_MIN..=1 << 36).contains(&link.ring_bytes)
        {
            let text = format!(
                "[link] ring-bytes = {}; write {RING_BYTES_MIN} or more: a ring takes records of a \
                 quarter of its size.",
                link.ring_bytes
            );
            return Err(Problem::at("link.ring-bytes", text));
        }
        Ok(())
    }

    fn check_counts(&self, nodes: &Nodes) -> Result<(), Problem> {
        let Readouts { count, sources, record_ms, memory_bytes, .. } = &nodes.readout;
        let wrong = |key: &str, text: String| Err(Problem::at(format!("nodes.{key}"), text));
        if !(1..=NODES_MAX).contains(count) {
            return wrong(
                "readout.count",
                format!("[nodes.readout] count = {count}; write 1 to {NODES_MAX}."),
            );
        }
        let builders = nodes.builder.count;
        if !(1..=NODES_MAX).contains(&builders) {
            return wrong(
                "builder.count",
                format!("[nodes.builder] count = {builders}; write 1 to {NODES_MAX}."),
            );
        }
        if !(0.01..=10_000.0).contains(record_ms) {
            return wrong(
                "readout.record-ms",
                format!("[nodes.readout] record-ms = {record_ms}; write 0.01 to 10000."),
            );
        }
        if nodes.join_within_s == Some(0) {
            let text = "[nodes] join-within-s = 0; write 1 or more, or leave it out.".to_owned();
            return wrong("join-within-s", text);
        }
        if *memory_bytes < 1 << 20 {
            return wrong(
                "readout.memory-bytes",
                format!("[nodes.readout] memory-bytes = {memory_bytes}; write 1048576 or more."),
            );
        }
        if nodes.readout.keep_bytes > 0 && (self.feedback.is_some() || self.filter.keep.is_some()) {
            let text = "[nodes.readout] keep-bytes: a builder goes on for another one in runs \
                        without a loop and without [filter] keep; leave one of them out.";
            return wrong("readout.keep-bytes", text.to_owned());
        }
        let there = self.sources.len();
        if sources.is_empty() && *count as usize > there {
            return wrong(
                "readout.count",
                format!(
                    "[nodes.readout] count = {count}, and the experiment has {there} sources: a \
                     source belongs to one readout; write at most {there}."
                ),
            );
        }
        if !sources.is_empty() && sources.len() != *count as usize {
            return wrong(
                "readout.sources",
                format!(
                    "[nodes.readout] sources has {} lists for count = {count} readouts; write one \
                     list for each.",
                    sources.len()
                ),
            );
        }
        self.check_lists(sources)
    }

    /// Checks that lists of sources have each source once.
    fn check_lists(&self, lists: &[Vec<String>]) -> Result<(), Problem> {
        let wrong = |text: String| Err(Problem::at("nodes.readout.sources", text));
        if lists.is_empty() {
            return Ok(());
        }
        let all = || lists.iter().flatten();
        if let Some(name) = all().find(|name| self.sources.iter().all(|of| of.name != **name)) {
            return wrong(format!("[nodes.readout] sources: source `{name}` is unknown."));
        }
        for Source { name, .. } in &self.sources {
            match all().filter(|its| *its == name).count() {
                1 => {}
                0 => {
                    return wrong(format!(
                        "[nodes.readout] sources: source `{name}` belongs to no readout; write it \
                         into one of the lists."
                    ));
                }
                _ => {
                    return wrong(format!(
                        "[nodes.readout] sources: source `{name}` is named twice; a source belongs \
                         to one readout."
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that several nodes can run the experiment.
    ///
    /// # Errors
    /// A sentence: files and live sources together, or files with windows by arrival.
    pub fn check_mixed(&self, tables: &str) -> Result<(), Problem> {
        let (file, live) = (
            self.sources.iter().find(|source| source.is_file()),
            self.sources.iter().find(|source| !source.is_file()),
        );
        match (file, live) {
            (Some(file), Some(live)) => {
                let text = format!(
                    "source `{}` reads a file and source `{}` is live: their times have nothing \
                     in common; with {tables}, read files alone or live sources alone.",
                    file.name, live.name
                );
                Err(Problem::at("source", text))
            }
            (Some(file), None) if self.is_built_by_arrival() => {
                let text = format!(
                    "source `{}` reads a file: nodes read at different speeds, so windows by \
                     arrival would miss packets; write window-clock = \"sensor\" below [events].",
                    file.name
                );
                Err(Problem::at("events.build", text))
            }
            _ => Ok(()),
        }
    }
}
