//! Routes: the ring port that sends a packet, and the port that takes it off that ringlet.

use super::config::{Config, Topology};
use super::go::NEVER;
use super::port::{NOBODY, Port};
use super::ring::Ringlet;

/// Routes through the network, in the order of dimensions: the next ringlet is in the first
/// dimension in which the coordinates differ. So ringlets never wait in a cycle (BACKGROUND-M).
#[derive(Debug)]
pub(super) struct Routes {
    topology: Topology,
    /// Nodes by address.
    nodes: Vec<u32>,
    /// Behind a switch: the ringlet of each node.
    ringlets: Vec<u32>,
}

impl Routes {
    pub fn new(config: &Config) -> Routes {
        let last = config.addresses.iter().map(|address| address.0).max().unwrap_or(0);
        let mut nodes = vec![NOBODY; usize::from(last) + 1];
        for (address, node) in config.addresses.iter().zip(0_u32..) {
            nodes[usize::from(address.0)] = node;
        }
        let ringlets = match &config.topology {
            Topology::Switch { ringlets } => (0..)
                .zip(ringlets)
                .flat_map(|(ringlet, &nodes)| std::iter::repeat_n(ringlet, nodes as usize))
                .collect(),
            _ => Vec::new(),
        };
        Routes { topology: config.topology.clone(), nodes, ringlets }
    }

    /// Returns the node of an address.
    pub fn node(&self, address: u16) -> Option<u32> {
        self.nodes.get(usize::from(address)).copied().filter(|&node| node != NOBODY)
    }

    /// Returns the port that sends from a node, and the port on the same ringlet that takes the
    /// packet off.
    pub fn way(&self, from: u32, to: u32) -> (u32, u32) {
        match &self.topology {
            Topology::Ring { .. } => (from, to),
            Topology::Torus { sizes } => torus_way(sizes, from, to),
            Topology::Switch { .. } => switch_way(&self.ringlets, from, to),
        }
    }

    /// Returns a node's first port, which sends packets without a receiver.
    pub fn first_port(&self, node: u32) -> u32 {
        match &self.topology {
            Topology::Torus { sizes } => node * sizes.len() as u32,
            _ => node,
        }
    }
}

fn torus_way(sizes: &[u32], from: u32, to: u32) -> (u32, u32) {
    let dimensions = sizes.len() as u32;
    let mut stride = 1;
    for (dimension, &size) in (0..).zip(sizes) {
        let (here, there) = (from / stride % size, to / stride % size);
        if here != there {
            let corner = from - here * stride + there * stride;
            return (from * dimensions + dimension, corner * dimensions + dimension);
        }
        stride *= size;
    }
    (from * dimensions, to * dimensions)
}

fn switch_way(ringlets: &[u32], from: u32, to: u32) -> (u32, u32) {
    let switch = ringlets.len() as u32;
    let ringlet = |node: u32| ringlets[node as usize];
    if from == switch {
        let ringlet = if to == switch { 0 } else { ringlet(to) };
        return (switch + ringlet, if to == switch { switch } else { to });
    }
    let direct = to != switch && ringlet(to) == ringlet(from);
    (from, if direct { to } else { switch + ringlet(from) })
}

/// Builds all ports and ringlets of a topology; the first port of a ringlet is its scrubber. A
/// node's ports have consecutive numbers.
pub(super) fn build(config: &Config) -> (Vec<Port>, Vec<Ringlet>) {
    let rings: Vec<Vec<(u32, u32)>> = match &config.topology {
        Topology::Ring { nodes } => vec![(0..*nodes).map(|node| (node, node)).collect()],
        Topology::Torus { sizes } => torus_rings(sizes),
        Topology::Switch { ringlets } => switch_rings(ringlets),
    };
    let hop = u64::from(config.pass_symbols) + u64::from(config.cable_symbols);
    let mut ports: Vec<(u32, Port)> = Vec::new();
    let mut ringlets = Vec::new();
    for (number, ring) in (0..).zip(&rings) {
        for (place, &(port, node)) in ring.iter().enumerate() {
            let downstream = ring[(place + 1) % ring.len()].0;
            let is_scrubber = place == 0;
            ports.push((port, Port { is_scrubber, ..Port::new(node, number, downstream) }));
        }
        let circuit = hop * ring.len() as u64;
        ringlets.push(Ringlet {
            ports: ring.iter().map(|&(port, _)| port).collect(),
            patience: 2 * circuit + 4 * u64::from(config.bypass_symbols),
            dead: false,
            watched: false,
            toggled_at: None,
            toggle_at: NEVER,
            alive: true,
            silent: 0,
            ageing: 0,
            begun: 0,
            begun_at: NEVER,
            allocating: false,
            allocation_at: NEVER,
        });
    }
    ports.sort_by_key(|&(number, _)| number);
    (ports.into_iter().map(|(_, port)| port).collect(), ringlets)
}

/// Returns the ringlets behind a switch; its port is the last one of each.
fn switch_rings(ringlets: &[u32]) -> Vec<Vec<(u32, u32)>> {
    let switch: u32 = ringlets.iter().sum();
    let mut first = 0;
    let mut rings = Vec::new();
    for (ring, &count) in (0..).zip(ringlets) {
        let nodes = (first..first + count).map(|node| (node, node));
        rings.push(nodes.chain([(switch + ring, switch)]).collect());
        first += count;
    }
    rings
}

/// Returns the ringlets of a torus: for each dimension and each coordinate in the others, the nodes
/// along it.
fn torus_rings(sizes: &[u32]) -> Vec<Vec<(u32, u32)>> {
    let (nodes, dimensions): (u32, u32) = (sizes.iter().product(), sizes.len() as u32);
    let mut rings = Vec::new();
    let mut stride = 1;
    for (dimension, &size) in (0..).zip(sizes) {
        let firsts = (0..nodes).filter(|node| node / stride % size == 0);
        rings.extend(firsts.map(|first| {
            let along = (0..size).map(|place| first + place * stride);
            along.map(|node| (node * dimensions + dimension, node)).collect::<Vec<_>>()
        }));
        stride *= size;
    }
    rings
}
