//! The sources of a run over several machines: their packets, losses and silence.

use std::collections::{BTreeMap, BTreeSet};

use fluxline_daq::builder::Expectation;
use fluxline_daq::ledger::RemoteWriteCounters;
use fluxline_run::{Silence, SourceTimes};

use super::block::ReadoutBlock;
use super::built::PartitionRow;
use super::observed::Observed;

/// The sources of a run, and the inputs before them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sources {
    /// Those that the blocks list, by label.
    pub rows: Vec<SourceRow>,
    /// Number of sources that no block lists.
    pub not_listed: u64,
    /// The sources that the experiment requires; `None`: all that joined.
    pub require: Option<Expectation>,
    /// Frames and records that peers wrote into the memory of readouts.
    pub remote: RemoteWriteCounters,
    /// Inputs that ended before the run did, a sentence each.
    pub faults: Vec<String>,
}

/// A source, over all starts of its readout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceRow {
    /// Its readout node.
    pub node: String,
    /// Its packets in time.
    pub times: SourceTimes,
    /// Packets missing before the readout, by the packet counters.
    pub lost: u64,
}

impl Sources {
    /// Joins the sources of all readouts. The builders in `built` name those that events do not
    /// wait for.
    pub(super) fn of(observed: &Observed, built: &BTreeMap<u32, PartitionRow>) -> Sources {
        let blocks = || observed.blocks.iter().map(|seen| &seen.block);
        let given_up = built.values().flat_map(|row| &row.block.given_up);
        let given_up: BTreeSet<&String> = given_up.collect();
        let mut rows: BTreeMap<&String, SourceRow> = BTreeMap::new();
        let mut sources = Sources::default();
        for block in blocks() {
            let Some(readout) = &block.readout else { continue };
            sources.remote.merge(&readout.remote);
            sources.faults.extend(readout.faults.iter().cloned());
            let not_listed = readout.sources.saturating_sub(readout.listed.len() as u64);
            sources.not_listed = sources.not_listed.saturating_add(not_listed);
            for listed in &readout.listed {
                let row = rows.entry(&listed.label).or_insert_with(|| SourceRow {
                    node: block.node.clone(),
                    times: SourceTimes { first_ns: u64::MAX, ..SourceTimes::default() },
                    lost: 0,
                });
                row.lost = row.lost.saturating_add(listed.lost);
                let times = &mut row.times;
                times.packets = times.packets.saturating_add(listed.packets);
                times.first_ns = times.first_ns.min(listed.first_ns);
                times.last_ns = times.last_ns.max(listed.last_ns);
                times.read_until_ns = times.read_until_ns.max(read_until(readout));
                times.file = readout.reads_files.then_some(listed.input);
            }
        }
        for (label, row) in &mut rows {
            row.times.label.clone_from(label);
            row.times.is_given_up = given_up.contains(label);
        }
        sources.rows = rows.into_values().collect();
        let newest = blocks().max_by_key(|block| block.incarnation);
        sources.require = newest.and_then(|block| block.require.clone());
        sources
    }

    /// Judges which sources fell silent.
    #[must_use]
    pub fn silence(&self) -> Silence {
        let times: Vec<SourceTimes> = self.rows.iter().map(|row| row.times.clone()).collect();
        // The others sent something, or nobody would have counted them.
        Silence { unknown: self.not_listed, ..Silence::of(&times) }
    }
}

/// Files have times of their own, which other nodes do not limit.
fn read_until(readout: &ReadoutBlock) -> u64 {
    if readout.reads_files { u64::MAX } else { readout.read_until_ns }
}
