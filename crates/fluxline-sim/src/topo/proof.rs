//! The proof that the routes of a network cannot deadlock, on its channel dependency graph.

use super::ways::{LinkIndex, Step, Ways};
use super::{Pair, Proof};
use crate::net::router::topology::{NONE, Topology};
use crate::routes::{Cycle, Dependencies, End, Graph, Routes};

/// The most nodes that are checked: a path for each pair takes seconds for more.
const NODES_MAX: u32 = 1024;
/// Classes of virtual channels: those before the end of a ring, and those behind it.
const CLASSES: u32 = 2;

/// Checks the routes of a network.
pub fn of(ways: &Ways, index: &LinkIndex) -> Proof {
    let free = |text: &str| Proof { is_free: Some(true), text: text.to_owned(), cycle: Vec::new() };
    let graph = match ways {
        Ways::Star(_) => {
            return free("Links cannot wait for each other in a circle: all join one switch.");
        }
        Ways::Sci(_) => {
            return free(
                "Packets never hold a link while they wait for another: a node that cannot take a \
                 packet sends a busy echo, and routes take the dimensions in order.",
            );
        }
        Ways::Atoll { wiring, .. } => limit(wiring.nodes()).map(|()| wiring.graph()),
        Ways::Routers(topology) => of_topology(topology),
    };
    match graph.and_then(|graph| check(&graph, ways)) {
        Ok(checked) => checked.proof(ways, index),
        Err(text) => Proof { is_free: None, text, cycle: Vec::new() },
    }
}

/// The dependencies of all routes, and their cycle.
struct Checked {
    dependencies: u64,
    cycle: Option<Cycle>,
}

impl Checked {
    fn proof(self, ways: &Ways, index: &LinkIndex) -> Proof {
        let Some(cycle) = self.cycle else {
            let count = self.dependencies;
            let text = format!(
                "The routes cannot deadlock: their channel dependency graph ({count} dependencies) \
                 has no cycle."
            );
            return Proof { is_free: Some(true), text, cycle: Vec::new() };
        };
        let links = cycle.channels.iter().map(|channel| {
            let port = channel.from.port / classes(ways);
            let (from, to) = (channel.from.node, channel.to.node);
            let nth = (0..port).filter(|&lower| end(ways, from, lower) == to).count() as u32;
            index.find(&Step { from, to, nth, class: 0 })
        });
        let hops: Vec<String> = cycle
            .channels
            .iter()
            .map(|channel| format!("{} → {}", channel.from.node, channel.to.node))
            .collect();
        let text = format!(
            "The routes can deadlock: packets on these links can wait for each other in a circle: \
             {}.",
            hops.join(", ")
        );
        Proof { is_free: Some(false), text, cycle: links.flatten().collect() }
    }
}

/// Returns the classes of channels, which are ports of their own in the checked graph.
fn classes(ways: &Ways) -> u32 {
    match ways {
        Ways::Routers(topology) if !topology.is_graph() => CLASSES,
        _ => 1,
    }
}

/// Returns the node behind a port.
fn end(ways: &Ways, node: u32, port: u32) -> u32 {
    match ways {
        Ways::Routers(topology) => topology.neighbour(node, port),
        Ways::Atoll { wiring, .. } => match wiring.end_of(node, port) {
            NONE => NONE,
            end => end / crate::net::atoll::wiring::LINKS,
        },
        _ => NONE,
    }
}

fn of_topology(topology: &Topology) -> Result<Graph, String> {
    limit(topology.routers())?;
    let classes = if topology.is_graph() { 1 } else { CLASSES };
    let ports = topology.local_port();
    let mut graph = Graph::new(topology.routers(), ports * classes)?;
    for node in 0..topology.routers() {
        for port in 0..ports {
            let next = topology.neighbour(node, port);
            if next == NONE {
                continue;
            }
            let back = topology.back(node, port);
            if [node, port] < [next, back] {
                for class in 0..classes {
                    let end = |node, port| End { node, port: port * classes + class };
                    graph.join(end(node, port), end(next, back))?;
                }
            }
        }
    }
    Ok(graph)
}

fn limit(nodes: u32) -> Result<(), String> {
    match nodes <= NODES_MAX {
        true => Ok(()),
        false => Err(format!("The routes of {nodes} nodes were not checked: {NODES_MAX} at most.")),
    }
}

fn check(graph: &Graph, ways: &Ways) -> Result<Checked, String> {
    let classes = classes(ways);
    let ports = |from: u32, to: u32| {
        let steps = ways.steps(Pair { from, to });
        let port = |step: &Step| {
            let mut ports =
                (0..graph.ports() / classes).filter(|&port| end(ways, step.from, port) == step.to);
            let port = ports.nth(step.nth as usize)?;
            Some((port * classes + step.class) as u8)
        };
        steps.iter().map(port).collect::<Option<Vec<u8>>>().filter(|ports| !ports.is_empty())
    };
    let routes = Routes::from_lists(graph, ports);
    let dependencies = Dependencies::of(graph, &routes)?;
    Ok(Checked { dependencies: dependencies.count(), cycle: dependencies.cycle() })
}
