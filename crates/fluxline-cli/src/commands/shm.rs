//! `fluxline shm`: the nodes on shared memory, and the files of dead ones.

use fluxline::shm::{self, NodeEntry};
use indicatif::HumanBytes;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::say;

/// Shows nodes and their regions.
pub fn list(json: bool) -> Result<(), Failure> {
    let nodes = shm::list(None).map_err(|error| Failure::link(format_args!("{error}.")))?;
    if json {
        super::print_json(&json!({ "nodes": documents(&nodes) }));
        return Ok(());
    }
    if nodes.is_empty() {
        say!("No node uses shared memory.");
        return Ok(());
    }
    table(&nodes);
    if nodes.iter().any(|node| !node.alive) {
        say!("Next: fluxline shm clean, which removes the files of the dead ones");
    }
    Ok(())
}

/// Removes what dead nodes left.
pub fn clean(json: bool) -> Result<(), Failure> {
    let nodes = shm::clean(None).map_err(|error| Failure::link(format_args!("{error}.")))?;
    let bytes: u64 = nodes.iter().map(memory).sum();
    if json {
        super::print_json(&json!({ "removed": documents(&nodes), "bytes": bytes }));
        return Ok(());
    }
    table(&nodes);
    say!("Removed {} dead nodes and gave {} back.", nodes.len(), HumanBytes(bytes));
    Ok(())
}

fn table(nodes: &[NodeEntry]) {
    let width = |text: fn(&NodeEntry) -> usize| nodes.iter().map(text).max().unwrap_or(0);
    let (groups, names) = (width(|node| node.group.len()), width(|node| node.node.len()));
    for node in nodes {
        let regions: Vec<String> = node
            .regions
            .iter()
            .map(|(name, bytes)| format!("{name} {}", HumanBytes(*bytes)))
            .collect();
        say!(
            "{:<5}  {:<groups$}  {:<names$}  {:>11}  {}",
            if node.alive { "alive" } else { "dead" },
            node.group,
            node.node,
            HumanBytes(memory(node)).to_string(),
            regions.join(", ")
        );
    }
}

fn memory(node: &NodeEntry) -> u64 {
    node.bytes + node.regions.iter().map(|(_, bytes)| bytes).sum::<u64>()
}

fn documents(nodes: &[NodeEntry]) -> Vec<Value> {
    let region = |(name, bytes): &(String, u64)| json!({ "name": name, "bytes": bytes });
    nodes
        .iter()
        .map(|node| {
            json!({
                "group": node.group, "node": node.node, "alive": node.alive,
                "bytes": memory(node),
                "regions": node.regions.iter().map(region).collect::<Vec<_>>(),
            })
        })
        .collect()
}
