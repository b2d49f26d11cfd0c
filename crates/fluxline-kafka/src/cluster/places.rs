//! The places of all received data of a run over several machines: one row for each.

use std::collections::BTreeMap;

use fluxline_core::counters::Row;

use super::block::{PartitionCounters, ReadoutCounters};
use super::built::PartitionRow;
use super::edges::Edge;
use super::ledger::{ClusterLedger, NodeRow};
use super::life::Life;

/// Number and start of a readout node.
type Start = (u16, u32);

/// The kind of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// In events of committed batches.
    Built,
    /// In an event, by another packet with the same number or the same part of the event.
    Duplicate,
    /// The filter rejected its event.
    Filtered,
    /// In an event that closed during a pause.
    Unwanted,
    /// On its way; after the end of the run, nothing is.
    InFlight,
    /// In no event.
    Lost,
}

/// A place, and the number of packets or datagrams there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name, as `accept` writes it.
    pub name: &'static str,
    /// The name in reports.
    pub words: &'static str,
    /// The kind.
    pub fate: Fate,
    /// The remedy; may be empty.
    pub remedy: &'static str,
    /// Number of packets or datagrams.
    pub count: u64,
}

/// Ends of the readouts' counters.
const OF_READOUTS: &[(&str, &str, Fate)] = &[
    ("duplicate", "duplicate", Fate::Duplicate),
    ("late", "too old", Fate::Lost),
    ("rejected", "rejected", Fate::Lost),
    ("truncated", "truncated", Fate::Lost),
    ("sources_refused", "sources refused", Fate::Lost),
    ("memory_full", "no memory in the readout", Fate::Lost),
    ("ring_full", "ring full", Fate::Lost),
    ("socket_dropped", "socket dropped", Fate::Lost),
];

/// Ends of the builders' counters.
const OF_PARTITIONS: &[(&str, &str, Fate)] = &[
    ("filtered", "filtered", Fate::Filtered),
    ("not_recorded", "counted only, in a pause", Fate::Unwanted),
    ("event_duplicate", "duplicate in its event", Fate::Duplicate),
    ("in_open", "in open events", Fate::InFlight),
    ("in_closed", "in closed events", Fate::InFlight),
    ("late_dropped", "late dropped", Fate::Lost),
    ("builder_full", "builder full", Fate::Lost),
    ("inconsistent", "inconsistent", Fate::Lost),
];

/// The name of packets that are lost with the memory of a dead readout.
pub const DEAD_READOUT: &str = "dead_readout";

impl ClusterLedger {
    /// Returns the number of datagrams and packets that the readouts received, as far as known: by
    /// their blocks, and by the records of dead ones that came after their last block.
    #[must_use]
    pub fn received(&self) -> u64 {
        let blocks = self.readouts().filter_map(|row| row.seen.block.readout.as_ref());
        let received = blocks.map(|readout| {
            let counters = &readout.counters;
            counters.received.max(in_order(counters)).saturating_add(counters.socket_dropped)
        });
        let counted = received.fold(0, u64::saturating_add);
        let mut since = self.since_blocks();
        // The first packets that came after a block were in the readout's memory then.
        for row in self.readouts() {
            if let Some((start, counters)) = counters_of(row)
                && let Some(packets) = since.get_mut(&start)
            {
                *packets = packets.saturating_sub(in_memory(counters));
            }
        }
        counted.saturating_add(since.into_values().fold(0, u64::saturating_add))
    }

    /// Returns the packets that came after the last block of each start of a readout.
    fn since_blocks(&self) -> BTreeMap<Start, u64> {
        let mut since = BTreeMap::new();
        for ((number, start, _), edge) in &self.edges {
            let of = since.entry((*number, *start)).or_insert(0_u64);
            *of = of.saturating_add(edge.since_block());
        }
        since
    }

    /// Returns every place, in the order of the tables. They add up to [`Self::received`].
    #[must_use]
    pub fn places(&self) -> Vec<Place> {
        let (readouts, partitions) = (self.readout_totals(), self.partition_totals());
        let committed = self.built.values().map(PartitionRow::packets_committed);
        let committed = committed.fold(0, u64::saturating_add);
        let mut list = vec![place("in_batches", "in committed events", Fate::Built, committed)];
        for (name, words, fate) in OF_PARTITIONS {
            let count = value(partitions.rows(), name);
            let remedy = remedy(PartitionCounters::ROWS, name);
            list.push(Place { remedy, ..place(name, words, *fate, count) });
        }
        for (name, words, fate) in OF_READOUTS {
            let count = value(readouts.rows(), name);
            list.push(Place {
                remedy: remedy(ReadoutCounters::ROWS, name),
                ..place(name, words, *fate, count)
            });
        }
        list.extend(self.places_of_edges());
        list.extend(self.places_of_memory());
        let not_committed = self.built.values().map(PartitionRow::not_committed);
        let not_committed = not_committed.fold(0, u64::saturating_add);
        let words = "in batches that are not committed";
        list.push(place("not_committed", words, Fate::InFlight, not_committed));
        list
    }

    /// Returns the places between readouts and builders.
    fn places_of_edges(&self) -> Vec<Place> {
        let sum = |of: fn(&Edge) -> u64| self.over_edges(of);
        let lost =
            |name, words, of, remedy| Place { remedy, ..place(name, words, Fate::Lost, sum(of)) };
        let (in_flight, held_back) = (sum(Edge::in_flight), sum(|edge| edge.taken.held));
        vec![
            place("in_log", "between readouts and builders", Fate::InFlight, in_flight),
            place("held_back", "waiting for other readouts", Fate::InFlight, held_back),
            lost(
                "not_in_log",
                "handed over by a readout, not in the log",
                Edge::lost,
                "The readout died before the log took them, or the log lost them: check acks \
                 and replicas.",
            ),
            lost(
                "missing",
                "in missing records",
                |edge| edge.taken.missing,
                "Raise retention.ms of the topic of fragments; check its replicas.",
            ),
            lost(
                "torn",
                "in unreadable entries",
                |edge| edge.taken.torn,
                "Run the same version of the program on all nodes.",
            ),
            lost(
                "outdated",
                "of a replaced readout",
                |edge| edge.taken.outdated,
                "Two processes had the same node name; end one of them.",
            ),
            lost("after_end", "after the end of the run", |edge| edge.taken.after_end, ""),
        ]
    }

    /// Returns the datagrams in the memory of readouts, which are lost when the readout is dead.
    fn places_of_memory(&self) -> [Place; 2] {
        let (mut living, mut dead) = (0_u64, 0_u64);
        let since = self.since_blocks();
        for row in self.readouts() {
            let Some((start, counters)) = counters_of(row) else { continue };
            let came = since.get(&start).copied().unwrap_or(0);
            let left = in_memory(counters).saturating_sub(came);
            let sum = if is_gone(row) { &mut dead } else { &mut living };
            *sum = sum.saturating_add(left);
        }
        let remedy = "Received, and not handed over when the readout died.";
        [
            place("in_memory", "in readouts", Fate::InFlight, living),
            Place { remedy, ..place(DEAD_READOUT, "in a dead readout", Fate::Lost, dead) },
        ]
    }

    /// Returns the sum over all places of a kind.
    #[must_use]
    pub fn sum_of(&self, fate: Fate) -> u64 {
        let places = self.places().into_iter().filter(|place| place.fate == fate);
        places.map(|place| place.count).fold(0, u64::saturating_add)
    }
}

/// Returns true when a readout stopped without handing over everything that it had received.
pub(super) fn is_gone(row: &NodeRow) -> bool {
    row.life.is_lost() || row.life == Life::Failed
}

/// Returns the datagrams that a readout has passed on from its rings, or dropped there.
fn in_order(counters: &ReadoutCounters) -> u64 {
    [counters.ring_full, counters.truncated, counters.taken]
        .into_iter()
        .fold(0, u64::saturating_add)
}

/// Returns the datagrams that a readout has received and not handed over: in rings, and held for
/// the next packet of their source.
fn in_memory(counters: &ReadoutCounters) -> u64 {
    counters.received.saturating_sub(in_order(counters)).saturating_add(counters.held)
}

/// Returns the start of a readout, and its counters.
fn counters_of(row: &NodeRow) -> Option<(Start, &ReadoutCounters)> {
    let readout = row.seen.block.readout.as_ref()?;
    Some(((readout.number, row.seen.block.start), &readout.counters))
}

fn place(name: &'static str, words: &'static str, fate: Fate, count: u64) -> Place {
    Place { name, words, fate, remedy: "", count }
}

fn value<'a>(mut rows: impl Iterator<Item = (&'static Row, u64)> + 'a, name: &str) -> u64 {
    rows.find(|(row, _)| row.name == name).map_or(0, |(_, value)| value)
}

fn remedy(rows: &'static [Row], name: &str) -> &'static str {
    rows.iter().find(|row| row.name == name).map_or("", |row| row.remedy)
}
