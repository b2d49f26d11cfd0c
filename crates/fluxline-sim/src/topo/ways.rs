//! Routes between nodes, as each kind of network chooses them, in terms of its links.

use std::collections::BTreeMap;

use super::Pair;
use crate::core::interconnect::LinkUse;
use crate::net::atoll::{self, Wiring};
use crate::net::router::topology::{Class, Topology};
use crate::scenario::run::refused;
use crate::scenario::{Kind, NetworkPart, Refused, Scenario};

/// A link of a route: the `nth` one between two nodes, and the class of its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub from: u32,
    pub to: u32,
    pub nth: u32,
    /// 0: the first class of virtual channels; 1: the second.
    pub class: u32,
}

/// The routes of a network.
pub enum Ways {
    Routers(Topology),
    Atoll {
        wiring: Wiring,
        routes: atoll::routes::Routes,
    },
    Sci(Ringlets),
    /// Every node is joined to the switch, whose number is given.
    Star(u32),
}

impl Ways {
    pub fn of(scenario: &Scenario) -> Result<Ways, Refused> {
        let kind = scenario.network.kind;
        if kind.is_atoll() {
            let config = scenario.atoll_config()?;
            let routes = atoll::routes::Routes::of(&config.wiring, config.routing);
            return Ok(Ways::Atoll { wiring: config.wiring, routes });
        }
        if kind.is_sci() {
            return Ok(Ways::Sci(Ringlets::of(&scenario.network)));
        }
        if kind == Kind::Ethernet {
            return Ok(Ways::Star(scenario.network.node_count() as u32));
        }
        let topology = scenario.network.routers().check().map_err(|error| refused(&error))?;
        Ok(Ways::Routers(topology))
    }

    /// Returns the links of a route; empty: there is no path.
    pub fn links(&self, pair: Pair, index: &LinkIndex) -> Vec<usize> {
        let steps = self.steps(pair);
        steps.iter().map(|step| index.find(step)).collect::<Option<_>>().unwrap_or_default()
    }

    /// Returns the steps of a route; empty: there is no path.
    pub fn steps(&self, pair: Pair) -> Vec<Step> {
        match self {
            Ways::Routers(topology) => of_routers(topology, pair),
            Ways::Atoll { wiring, routes } => of_atoll(wiring, routes, pair),
            Ways::Sci(ringlets) => ringlets.steps(pair),
            Ways::Star(switch) => {
                let Pair { from, to } = pair;
                let step = |from, to| Step { from, to, nth: 0, class: 0 };
                vec![step(from, *switch), step(*switch, to)]
            }
        }
    }
}

fn of_routers(topology: &Topology, Pair { from, to }: Pair) -> Vec<Step> {
    let (mut at, mut steps) = (from, Vec::new());
    while at != to {
        let route = topology.route(at, to);
        let port = u32::from(route.port);
        let next = topology.neighbour(at, port);
        let nth = (0..port).filter(|&lower| topology.neighbour(at, lower) == next).count();
        let class = u32::from(route.class == Class::After);
        steps.push(Step { from: at, to: next, nth: nth as u32, class });
        at = next;
    }
    steps
}

fn of_atoll(wiring: &Wiring, routes: &atoll::routes::Routes, Pair { from, to }: Pair) -> Vec<Step> {
    let Some(path) = routes.path(from, to) else { return Vec::new() };
    let mut at = from;
    let steps = (0..path.links()).map(|hop| {
        let port = path.port(hop);
        let next = wiring.end_of(at, port) / atoll::wiring::LINKS;
        let nth = (0..port).filter(|&lower| wiring.leads(at, lower, next)).count() as u32;
        let step = Step { from: at, to: next, nth, class: 0 };
        at = next;
        step
    });
    steps.collect()
}

/// The ringlets of an SCI network.
pub enum Ringlets {
    /// One ringlet, and its number of nodes.
    One(u32),
    /// Ringlets along each dimension; the nodes on them.
    Torus(Vec<u32>),
    /// Ringlets behind a switch; the nodes on each.
    Switch(Vec<u32>),
}

impl Ringlets {
    fn of(network: &NetworkPart) -> Ringlets {
        match network.kind {
            Kind::SciTorus => Ringlets::Torus(network.sides()),
            Kind::SciSwitch => Ringlets::Switch(network.ringlets()),
            _ => Ringlets::One(network.nodes),
        }
    }

    /// Returns the next node of a packet. Packets go along ringlets, one dimension after the other;
    /// the echo goes on around the ringlet.
    fn next(&self, at: u32, to: u32) -> u32 {
        match self {
            Ringlets::One(nodes) => (at + 1) % nodes,
            Ringlets::Torus(sides) => next_on_torus(sides, at, to),
            Ringlets::Switch(ringlets) => next_by_switch(ringlets, at, to),
        }
    }

    fn steps(&self, Pair { from, to }: Pair) -> Vec<Step> {
        let (mut at, mut steps) = (from, Vec::new());
        while at != to {
            let next = self.next(at, to);
            steps.push(Step { from: at, to: next, nth: 0, class: 0 });
            at = next;
        }
        steps
    }
}

fn next_on_torus(sides: &[u32], at: u32, to: u32) -> u32 {
    let mut stride = 1;
    for &side in sides {
        let (here, there) = (at / stride % side, to / stride % side);
        if here != there {
            return at - here * stride + (here + 1) % side * stride;
        }
        stride *= side;
    }
    to
}

fn next_by_switch(ringlets: &[u32], at: u32, to: u32) -> u32 {
    let switch: u32 = ringlets.iter().sum();
    let mut first = 0;
    for &nodes in ringlets {
        let ringlet = first..first + nodes;
        if at == switch && ringlet.contains(&to) {
            return first;
        }
        if ringlet.contains(&at) {
            return if at + 1 == ringlet.end { switch } else { at + 1 };
        }
        first += nodes;
    }
    to
}

/// The links between each two nodes, by their indices.
pub struct LinkIndex {
    between: BTreeMap<[u32; 2], Vec<usize>>,
}

impl LinkIndex {
    pub fn of(links: &[LinkUse]) -> LinkIndex {
        let mut between: BTreeMap<[u32; 2], Vec<usize>> = BTreeMap::new();
        for (index, link) in links.iter().enumerate() {
            between.entry([link.from, link.to]).or_default().push(index);
        }
        LinkIndex { between }
    }

    /// Returns the link of a step.
    pub fn find(&self, step: &Step) -> Option<usize> {
        self.between.get(&[step.from, step.to])?.get(step.nth as usize).copied()
    }
}
