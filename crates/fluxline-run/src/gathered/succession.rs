//! Builders that were replaced: their files are valid up to the state from which the successor
//! went on, and the successor has the counts of their partitions.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::{Edge, Node};
use crate::graph::SUCCESSION_FILE;

/// Most builders that replaced one another.
const CHAIN_MAX: usize = 1024;

/// The builder that another one replaced, as the successor wrote it down.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Succession {
    builder: String,
    /// Batches of its files that are valid.
    batches: u64,
}

impl Succession {
    /// Reads the file of a node's folder; `None`: it replaced nobody.
    pub fn of(folder: &Path) -> Option<Succession> {
        let text = std::fs::read(folder.join(SUCCESSION_FILE)).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

/// Notes which nodes were replaced.
pub(super) fn apply(nodes: &mut [Node]) {
    let replaced: Vec<Succession> = nodes.iter().filter_map(|of| of.succession.clone()).collect();
    for Succession { builder, batches } in replaced {
        let ends = successor_ends(nodes, &builder);
        if let Some(node) = nodes.iter_mut().find(|node| node.name == builder) {
            (node.was_killed, node.valid_batches) = (true, Some(batches));
            node.is_counted_elsewhere = ends;
            node.document["graph"] = Value::Null;
        }
    }
}

/// Returns true when the last successor of a builder ended by itself, and so has counts.
fn successor_ends(nodes: &[Node], builder: &str) -> bool {
    let mut name = builder;
    for _ in 0..CHAIN_MAX {
        let is_its = |node: &&Node| node.succession.as_ref().is_some_and(|of| of.builder == name);
        match nodes.iter().find(is_its) {
            Some(successor) => name = &successor.name,
            None => break,
        }
    }
    let is_it = |node: &&Node| node.name == name && node.name != builder;
    let last = nodes.iter().find(is_it);
    last.is_some_and(|node| node.document["graph"]["builders"].is_array())
}

/// Gives the packets that a killed builder took of another one's partition to that one's edges: its
/// files do not say which partition an event is of.
pub(super) fn share(nodes: &[Node], edges: &mut BTreeMap<(String, String), Edge>) {
    for node in nodes.iter().filter(|node| node.was_killed && !node.is_counted_elsewhere) {
        let Some(succession) = &node.succession else { continue };
        for (ends, edge) in edges.clone().into_iter().filter(|(ends, _)| ends.1 == node.name) {
            let (Some(handed), Some(taken)) = (edge.handed, edge.taken) else { continue };
            let more = taken.saturating_sub(handed);
            edges.entry(ends.clone()).or_default().taken = Some(taken - more);
            let other = edges.entry((ends.0, succession.builder.clone())).or_default();
            other.taken = Some(other.taken.unwrap_or(0) + more);
        }
    }
}

/// Returns the packets that successors count, and that are in no folder that was given.
pub(super) fn inherited(nodes: &[Node]) -> u64 {
    let counted = nodes.iter().filter_map(|node| node.ledger.edges.as_ref());
    let counted: u64 = counted.map(|edges| edges.inherited).sum();
    let replaced = nodes.iter().filter(|node| node.is_counted_elsewhere);
    let given: u64 = replaced.map(|node| node.ledger.source_totals().recorded).sum();
    counted.saturating_sub(given)
}
