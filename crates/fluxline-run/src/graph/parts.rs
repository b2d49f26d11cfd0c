//! The counts of all nodes of a graph, and their sum.
//!
//! Each node numbers its sources for itself. Here a source is known by its input and its label, and
//! gets the number of the run with its first packet in a batch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxline_cluster::{
    BuiltSource, Delivery, PartitionBuilder, PartitionCounts, Taken, TakenOver,
};
use fluxline_core::{Moment, planted};
use fluxline_daq::ledger::{EdgeCounters, Ledger};
use fluxline_daq::pipeline::{InputTaken, NewSource};
use serde_json::{Value, json};

use crate::feedback::{ActuatorPart, DeciderPart, LoopParts};

/// The counts of a readout.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadoutPart {
    /// By its own numbers of sources.
    pub counts: Ledger,
    /// By input.
    pub taken: Vec<InputTaken>,
    /// By builder.
    pub deliveries: Vec<Delivery>,
    /// By builder: packets that it was not given, where it has gone.
    pub lost: Vec<Option<u64>>,
    /// It crashed, and what sensors had pushed into its memory is gone.
    pub has_crashed: bool,
}

/// The counts of a builder.
#[derive(Clone, Debug, Default)]
pub(crate) struct BuilderPart {
    /// By its own numbers of sources.
    pub counts: Ledger,
    pub sources: Vec<BuiltSource>,
    /// By readout.
    pub taken: Vec<Taken>,
    pub records: PartitionCounts,
    /// Readouts that died.
    pub dead: Vec<u16>,
    /// The time of the link at these counts.
    pub link_time: Moment,
    /// It is in this process.
    pub is_here: bool,
    /// The builder that counts this partition.
    pub owner: usize,
    /// The partition was another process's, whose folder has this many of its packets.
    pub inherited: Option<u64>,
}

impl ReadoutPart {
    /// Returns true for a readout of this process: it has an edge to each builder.
    fn is_here(&self) -> bool {
        !self.deliveries.is_empty()
    }
}

impl BuilderPart {
    /// Returns true for a builder of this process.
    fn is_here(&self) -> bool {
        self.is_here
    }

    /// Takes the counts of a builder; `is_last` adds the lists that grow during a run.
    pub fn of(partition: &PartitionBuilder, dead: &[u16], is_last: bool) -> BuilderPart {
        let mut counts = Ledger::default();
        counts.add_builder(partition.builder());
        if is_last && !planted!(17) {
            counts.add_amendments(partition.builder());
        }
        BuilderPart {
            counts,
            sources: partition.sources().to_vec(),
            taken: partition.taken().copied().collect(),
            records: partition.counts(),
            dead: dead.to_vec(),
            link_time: Moment::default(),
            is_here: true,
            owner: 0,
            inherited: None,
        }
    }
}

/// The newest counts of all nodes; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Board(Arc<Mutex<Parts>>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub readouts: Vec<ReadoutPart>,
    pub builders: Vec<BuilderPart>,
    pub feedback: LoopParts,
}

impl Board {
    pub fn new(readouts: usize, builders: usize) -> Board {
        let readouts = vec![ReadoutPart::default(); readouts];
        let part = |owner| BuilderPart { owner, ..BuilderPart::default() };
        let builders: Vec<BuilderPart> = (0..builders).map(part).collect();
        let deciders = vec![None; builders.len()];
        let feedback = LoopParts { deciders, ..LoopParts::default() };
        Board(Arc::new(Mutex::new(Parts { readouts, builders, feedback })))
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn builders(&self) -> usize {
        self.parts().builders.len()
    }

    pub fn set_readout(&self, number: u16, part: ReadoutPart) {
        self.parts().readouts[usize::from(number)] = part;
    }

    /// Sets the counts of a partition, unless another builder has it now.
    pub fn set_builder(&self, number: usize, by: usize, part: BuilderPart) {
        let old = &mut self.parts().builders[number];
        if old.owner == by {
            let inherited = old.inherited;
            *old = BuilderPart { owner: by, inherited, ..part };
        }
    }

    /// Gives the partitions of a builder that was replaced to builder number `to`.
    pub fn replace(&self, to: usize, taken: &TakenOver, is_apart: bool) {
        let mut parts = self.parts();
        let mut packets = is_apart.then_some(taken.packets);
        for partition in &taken.partitions {
            let part = &mut parts.builders[*partition as usize];
            part.owner = to;
            // The first one counts for all.
            part.inherited = packets;
            packets = packets.map(|_| 0);
        }
    }

    pub fn set_decider(&self, number: usize, part: DeciderPart) {
        self.parts().feedback.deciders[number] = Some(part);
    }

    pub fn set_actuator(&self, part: ActuatorPart) {
        self.parts().feedback.actuator = Some(part);
    }

    /// Sets the words about the loop.
    pub fn set_about_loop(&self, about: Value) {
        self.parts().feedback.about = about;
    }

    /// Returns the latest time of the link at which a builder has counted.
    pub fn ended(&self) -> Moment {
        self.parts().builders.iter().map(|of| of.link_time).max().unwrap_or_default()
    }

    /// Returns the newest counts.
    pub fn get(&self) -> Parts {
        self.parts().clone()
    }
}

/// The numbers of the run's sources, by input and label.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    known: HashMap<(u16, String), u32>,
}

impl Numbers {
    /// Returns the number of a source; `new` gets one that was not known.
    pub fn of(&mut self, input: u16, label: &str, new: &mut dyn FnMut(NewSource)) -> u32 {
        let next = self.known.len() as u32;
        match self.known.get(&(input, label.to_owned())) {
            Some(number) => *number,
            None => {
                self.known.insert((input, label.to_owned()), next);
                new(NewSource { number: next, input, label: label.to_owned() });
                next
            }
        }
    }
}

/// The sum over all nodes.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    pub counts: Ledger,
    pub taken: Vec<InputTaken>,
}

impl Parts {
    /// Sums the counts by the numbers of the run; `new` gets the sources that had none.
    ///
    /// What is in flight when all nodes have ended (`is_over`) is lost.
    pub fn sum(&self, is_over: bool, numbers: &mut Numbers, new: &mut dyn FnMut(NewSource)) -> Sum {
        let mut sum = Sum::default();
        for part in &self.readouts {
            let own: Vec<u32> = part
                .counts
                .sources
                .iter()
                .map(|entry| numbers.of(entry.format, &entry.label, new))
                .collect();
            sum.counts.add(&part.counts, |number| own[number as usize]);
            sum.taken.resize(sum.taken.len().max(part.taken.len()), InputTaken::default());
            for (all, own) in sum.taken.iter_mut().zip(&part.taken) {
                all.datagrams += own.datagrams;
                all.bytes += own.bytes;
                all.rejected += own.rejected;
                all.refused += own.refused;
                all.truncated += own.truncated;
            }
        }
        for part in &self.builders {
            let own: Vec<u32> =
                part.sources.iter().map(|of| numbers.of(of.input, &of.label, new)).collect();
            sum.counts.add(&part.counts, |number| own[number as usize]);
            // Of readouts in other processes, a builder alone knows the sources.
            for (number, source) in own.iter().zip(&part.sources) {
                if let Some(entry) = sum.counts.sources.get_mut(*number as usize) {
                    entry.label.clone_from(&source.label);
                    entry.format = source.input;
                }
            }
        }
        // Each builder follows all keys, and sees them start anew.
        let restarts = self.builders.iter().map(|part| part.counts.builder.key_restarts);
        sum.counts.builder.key_restarts = restarts.max().unwrap_or(0);
        sum.counts.edges = Some(self.edges(is_over));
        // While events are on their way, the loop does not close.
        sum.counts.feedback = self.feedback.counters().filter(|_| is_over);
        sum
    }

    /// Returns the counts of all edges.
    fn edges(&self, is_over: bool) -> EdgeCounters {
        let mut edges = EdgeCounters::default();
        for row in self.rows() {
            edges.handed += row.handed;
            edges.taken += row.taken;
            edges.lost += row.lost;
            match row.ends {
                Ends::Both if is_over => edges.lost += row.in_flight,
                Ends::Both => edges.in_flight += row.in_flight,
                Ends::Readout if row.has_gone => edges.in_doubt += row.in_flight,
                Ends::Readout => edges.handed_on += row.in_flight,
                Ends::Builder => edges.came_in += row.taken,
            }
        }
        edges.inherited = self.builders.iter().filter_map(|part| part.inherited).sum();
        edges
    }

    /// Returns the edges with an end in this process, one by one. A packet that was handed over and
    /// not taken is in flight until both ends have ended; then it is lost.
    pub fn rows(&self) -> Vec<EdgeRow> {
        let mut rows = Vec::new();
        for (readout, from) in self.readouts.iter().enumerate() {
            for (builder, to) in self.builders.iter().enumerate() {
                let ends = match (from.is_here(), to.is_here()) {
                    (true, true) => Ends::Both,
                    (true, false) => Ends::Readout,
                    (false, true) => Ends::Builder,
                    (false, false) => continue,
                };
                let its = to.taken.iter().filter(|taken| usize::from(taken.node) == readout);
                let taken = its.map(|taken| taken.taken).sum();
                let delivery = from.deliveries.get(builder);
                let handed = delivery.map_or(0, |of| of.packets + of.waiting);
                let missing = handed.saturating_sub(taken);
                let refused = from.lost.get(builder).copied().flatten();
                let (lost, has_gone) = (refused.unwrap_or(0).min(missing), refused.is_some());
                let in_flight = missing - lost;
                rows.push(EdgeRow {
                    readout,
                    builder,
                    ends,
                    has_gone,
                    handed,
                    taken,
                    in_flight,
                    lost,
                });
            }
        }
        rows
    }

    /// Returns the nodes and edges for run.json, at the end of the run.
    pub fn document(&self) -> Value {
        let edges = self.rows().into_iter().map(|row| {
            let mut edge = json!({
                "from": format!("readout-{}", row.readout),
                "to": format!("builder-{}", row.builder),
            });
            if row.ends != Ends::Builder {
                edge["handed"] = row.handed.into();
                edge["lost"] = row.lost.into();
            }
            if row.ends != Ends::Readout {
                edge["taken"] = row.taken.into();
            }
            if row.ends == Ends::Both {
                edge["lost"] = (row.lost + row.in_flight).into();
            }
            edge
        });
        // A partition of another process has a folder, and a name there.
        let is_own = |part: &BuilderPart| part.is_here() && part.inherited.is_none();
        let builders = self.builders.iter().enumerate().filter(|(_, part)| is_own(part));
        let builders = builders.map(|(number, part)| {
            let mut builder = json!({
                "name": format!("builder-{number}"),
                "dead_readouts": part.dead,
                "records": part.records.records, "packets": part.records.taken,
                "events": part.counts.builder.events_complete
                    + part.counts.builder.events_incomplete
                    + part.counts.builder.events_stopped,
            });
            if part.owner != number {
                builder["replaced_by"] = format!("builder-{}", part.owner).into();
            }
            builder
        });
        let readouts = self.readouts.iter().enumerate().filter(|(_, part)| part.is_here());
        let readouts = readouts.map(|(number, part)| {
            let packets: u64 = part.taken.iter().map(|taken| taken.datagrams).sum();
            json!({ "name": format!("readout-{number}"), "datagrams": packets })
        });
        json!({
            "readouts": readouts.collect::<Vec<_>>(),
            "builders": builders.collect::<Vec<_>>(),
            "edges": edges.collect::<Vec<_>>(),
        })
    }
}

/// The counts of an edge \[packet\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EdgeRow {
    pub readout: usize,
    pub builder: usize,
    pub ends: Ends,
    /// The builder has gone before all was handed over.
    pub has_gone: bool,
    pub handed: u64,
    pub taken: u64,
    pub in_flight: u64,
    pub lost: u64,
}

/// The ends of an edge that are in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    Both,
    Readout,
    Builder,
}
