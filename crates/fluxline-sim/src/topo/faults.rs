//! Links and nodes that are dead at a time, from the faults of the scenario.

use std::collections::BTreeSet;

use super::Interval;
use crate::Instant;
use crate::core::fault::{Fault, FaultKind};
use crate::core::interconnect::LinkUse;
use crate::net::atoll::Wiring;
use crate::scenario::{Kind, Scenario};

/// The faults of a scenario in the order of time.
pub struct Faults<'a> {
    scenario: &'a Scenario,
    links: &'a [LinkUse],
    wiring: Option<Wiring>,
    list: Vec<Fault>,
}

/// The dead parts of a network.
#[derive(Default)]
struct Dead {
    nodes: BTreeSet<usize>,
    cables: BTreeSet<usize>,
}

impl Dead {
    fn repair(&mut self, links: &[usize]) {
        self.cables.retain(|at| !links.contains(at));
    }
}

impl<'a> Faults<'a> {
    pub fn of(scenario: &'a Scenario, links: &'a [LinkUse], list: &[Fault]) -> Faults<'a> {
        let mut list = list.to_vec();
        list.sort_by_key(|fault| fault.at);
        let wiring = scenario.network.kind.is_atoll().then(|| scenario.network.atoll_wiring());
        Faults { scenario, links, wiring: wiring.and_then(Result::ok), list }
    }

    /// Writes the faults of an interval into it, and what is dead at its end.
    pub fn fill(&self, interval: &mut Interval, from: Instant, until: Instant) {
        let mut dead = Dead::default();
        for fault in self.list.iter().take_while(|fault| fault.at <= until) {
            self.apply(fault.kind, &mut dead);
            if fault.at > from || (from == Instant::START && fault.at == from) {
                interval.faults.push(fault.to_string());
            }
        }
        let touches = |link: &LinkUse| {
            dead.nodes.contains(&(link.from as usize)) || dead.nodes.contains(&(link.to as usize))
        };
        let all = self.links.iter().enumerate();
        let dead_links = all.filter(|&(at, link)| dead.cables.contains(&at) || touches(link));
        interval.dead_links = dead_links.map(|(at, _)| at).collect();
        interval.dead_nodes = dead.nodes.into_iter().collect();
    }

    fn apply(&self, kind: FaultKind, dead: &mut Dead) {
        match kind {
            // The card of a crashed program passes packets on.
            FaultKind::Host(_) => {}
            FaultKind::Power(node) => dead.nodes.extend([node as usize]),
            FaultKind::Restart(node) => dead.nodes.retain(|&at| at != node as usize),
            FaultKind::Cable(node) => dead.cables.extend(self.cable(node)),
            FaultKind::CutLink { from, to } => dead.cables.extend(self.between(from, to)),
            FaultKind::Repair(node) => dead.repair(&self.cable(node)),
            FaultKind::MendLink { from, to } => dead.repair(&self.between(from, to)),
        }
    }

    /// Returns the links of "the cable of a node".
    fn cable(&self, node: u32) -> Vec<usize> {
        let all = || self.links.iter().enumerate();
        if let Some(wiring) = &self.wiring {
            return atoll_cable(wiring, node);
        }
        match self.scenario.network.kind {
            // Both directions of the cable to the switch.
            Kind::Ethernet => {
                let is_its = |link: &LinkUse| link.from == node || link.to == node;
                all().filter(|(_, link)| is_its(link)).map(|(at, _)| at).collect()
            }
            // The cable behind a node, of its first ringlet.
            _ => all().find(|(_, link)| link.from == node).map(|(at, _)| at).into_iter().collect(),
        }
    }

    fn between(&self, one: u32, other: u32) -> Vec<usize> {
        let joins = |link: &LinkUse| [[one, other], [other, one]].contains(&[link.from, link.to]);
        let all = self.links.iter().enumerate();
        all.filter(|(_, link)| joins(link)).map(|(at, _)| at).collect()
    }
}

/// Returns both directions of the cable at the lowest wired link port of a node.
fn atoll_cable(wiring: &Wiring, node: u32) -> Vec<usize> {
    let ports = wiring.link_ports();
    let Some(near) = ports.iter().position(|port| port.node == node) else { return Vec::new() };
    let end = wiring.end_of(ports[near].node, ports[near].port);
    let far = ports.iter().position(|port| port.index() == end);
    std::iter::once(near).chain(far).collect()
}
