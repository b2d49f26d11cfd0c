//! A world of endpoints on an Ethernet, and their time.
//!
//! The endpoints are those of real links: they work when their program polls. A program is looked
//! at when its node has frames or completions, and at the endpoint's deadlines.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use fluxline_core::Moment;
use fluxline_core::endpoint::Node;
use fluxline_core::fabric::{
    AccessError, Capabilities, Completion, ConnectError, EndpointId, ExportError, Fabric, Grant,
    ImportError, Key, Memory, Name, PostError, RegionId, RegisterError, Reliability, RemoteId,
    Slice, Work, WorkCounters,
};

use super::port::StationPort;
use super::station::{Common, Held, Station, address_of};
use crate::core::dump::{Dump, Written};
use crate::core::fault::{Fault, FaultKind};
use crate::core::interconnect::{Class, Interconnect, Loss, Refusal, Report};
use crate::fabric::adapter::Counts;
use crate::net::ethernet::host::{self, Hosts};
use crate::world::dump_file::FrameDump;
use crate::world::moments::{instant, moment};
use crate::world::{NodeState, Nodes};
use crate::{Agenda, Duration, Fingerprint, Instant};

/// An entry of the agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// Of the network and its hosts.
    Wire(host::Entry),
    /// The processor of a node is done with a frame.
    Worked {
        /// The node.
        node: u32,
    },
    /// A fault happens.
    Fault(FaultKind),
}

impl From<host::Entry> for Entry {
    fn from(entry: host::Entry) -> Entry {
        Entry::Wire(entry)
    }
}

impl crate::Entry for Entry {
    fn component(&self) -> u32 {
        match self {
            Entry::Wire(entry) => entry.component(),
            Entry::Worked { node } => *node,
            Entry::Fault(kind) => kind.node(),
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Entry::Wire(entry) => entry.kind(),
            Entry::Worked { .. } => 0x44,
            Entry::Fault(_) => 0x83,
        }
    }
}

/// The world.
pub struct World {
    agenda: Agenda<Entry>,
    fingerprint: Fingerprint,
    wire: Hosts,
    stations: Vec<Station>,
    common: Common,
    /// Nodes for which something may follow from what has just happened.
    touched: BTreeSet<u32>,
    /// The time of the next poll of each node that has one.
    due: BTreeSet<(Moment, u32)>,
    due_of: Vec<Option<Moment>>,
    /// Nodes that crashed or started again since they were taken.
    woken: BTreeSet<u32>,
    dump: FrameDump,
}

impl World {
    /// Makes a world of nodes on a network.
    #[must_use]
    pub fn new(wire: Hosts, common: Common) -> World {
        let nodes = common.config.nodes;
        World {
            agenda: Agenda::default(),
            fingerprint: Fingerprint::default(),
            wire,
            stations: (0..nodes).map(|number| Station::new(number, 1, &common)).collect(),
            common,
            touched: BTreeSet::new(),
            due: BTreeSet::new(),
            due_of: vec![None; nodes as usize],
            woken: BTreeSet::new(),
            dump: FrameDump::default(),
        }
    }

    /// Returns the capabilities of its nodes.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        *self.stations[0].node.capabilities()
    }

    /// Lets a fault happen at its time.
    pub fn plan_fault(&mut self, fault: Fault) {
        self.agenda.schedule(fault.at, Entry::Fault(fault.kind));
    }

    fn handle(&mut self, entry: Entry) {
        match entry {
            Entry::Wire(entry) => self.wire.handle(entry, &mut self.agenda),
            Entry::Worked { node } => {
                self.stations[node as usize].hand_over(self.agenda.now());
                self.touched.insert(node);
            }
            Entry::Fault(kind) => self.fault(kind),
        }
    }

    fn fault(&mut self, kind: FaultKind) {
        self.wire.fault(kind, &mut self.agenda);
        let node = kind.node();
        match kind {
            FaultKind::Host(_) | FaultKind::Power(_) => {
                self.stations[node as usize].die();
                self.woken.insert(node);
            }
            FaultKind::Restart(_) => _ = self.start_again(node),
            _ => {}
        }
        self.touched.insert(node);
    }

    /// Starts a dead node again: with another secret, and empty memory.
    fn start_again(&mut self, node: u32) -> bool {
        let station = &mut self.stations[node as usize];
        if station.is_alive {
            return false;
        }
        *station = station.next_life(&self.common);
        self.woken.insert(node);
        self.touched.insert(node);
        true
    }

    /// Does what follows at this moment, until nothing does.
    fn settle(&mut self) {
        loop {
            while let Some(report) = self.wire.next_report() {
                match report {
                    Report::Received { node, .. } => self.receive(node),
                    Report::Space { node } => _ = self.touched.insert(node),
                    // The endpoint notices a loss by itself.
                    Report::Done { .. } | Report::Lost { .. } | Report::Dropped { .. } => {}
                }
            }
            let Some(node) = self.touched.pop_first() else { return };
            self.send(node);
            self.note(node);
        }
    }

    fn receive(&mut self, node: u32) {
        let (now, host) = (self.agenda.now(), self.common.host);
        while let Some(datagram) =
            Interconnect::take(&mut self.wire, node, Class::Request, &mut self.agenda)
        {
            let until = self.stations[node as usize].arrive(now, datagram, &host);
            if let Some(until) = until {
                self.agenda.schedule(until, Entry::Worked { node });
            }
        }
        self.touched.insert(node);
    }

    /// Brings the frames of a node to its card.
    fn send(&mut self, node: u32) {
        let (now, host) = (self.agenda.now(), self.common.host);
        let station = &mut self.stations[node as usize];
        while let Some(datagram) = station.node.port().next_flushed() {
            let bytes = datagram.payload_bytes();
            let until = if host.is_zero() { now } else { station.work(now, bytes, &host) };
            station.leaving.push_back(Held { until, datagram });
            if until > now {
                self.agenda.schedule(until, Entry::Worked { node });
            }
        }
        while let Some(held) = station.leaving.pop_front() {
            if held.until > now {
                return station.leaving.push_front(held);
            }
            let Held { until, datagram } = held;
            let bytes = datagram.payload_bytes() as usize;
            match self.wire.send(node, datagram, &mut self.agenda) {
                Err(back) if back.why == Refusal::Full => {
                    return station.leaving.push_front(Held { until, datagram: back.frame });
                }
                // A frame to nobody's address is lost, as at a switch.
                Ok(_) | Err(_) => station.node.port().left(bytes),
            }
        }
    }

    /// Notes when a node has to be polled next.
    fn note(&mut self, node: u32) {
        let due = self.stations[node as usize].due(moment(self.agenda.now()));
        let known = &mut self.due_of[node as usize];
        if *known != due {
            known.map(|at| self.due.remove(&(at, node)));
            due.map(|at| self.due.insert((at, node)));
            *known = due;
        }
    }

    fn after(&mut self, node: usize) {
        self.touched.insert(node as u32);
        self.settle();
    }
}

impl Nodes for World {
    fn now(&self) -> Instant {
        self.agenda.now()
    }

    fn next_at(&self) -> Option<Instant> {
        self.agenda.next_at()
    }

    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn nodes(&self) -> usize {
        self.stations.len()
    }

    fn call(&mut self, node: usize, work: &mut dyn FnMut(&mut dyn Fabric)) {
        work(&mut Called { world: self, node });
        self.after(node);
    }

    fn patience(&self) -> Duration {
        // Work without progress breaks its connection, and may be tried twice.
        let death = self.capabilities().death_noticed_within;
        Duration::from_ns(death.as_ns()).times(4)
    }

    fn answers_by_polling(&self) -> bool {
        true
    }

    /// The node says goodbye to its peers, as the nodes of real links do.
    fn switch_off(&mut self, node: usize) {
        let now = moment(self.agenda.now());
        let station = &mut self.stations[node];
        if station.is_alive {
            station.node.leave(now);
        }
        self.after(node);
        // Frames that left the socket are the card's.
        self.stations[node].is_alive = false;
        self.after(node);
    }

    fn restart(&mut self, node: usize) -> bool {
        let has_started = self.start_again(node as u32);
        if has_started {
            self.wire.fault(FaultKind::Restart(node as u32), &mut self.agenda);
            self.settle();
        }
        has_started
    }

    fn run_until(&mut self, until: Instant) {
        while let Some(entry) = self.agenda.take(until) {
            let (component, kind) = (crate::Entry::component(&entry), crate::Entry::kind(&entry));
            self.fingerprint.add(self.agenda.now(), component, kind);
            self.handle(entry);
            self.settle();
            self.dump.follow(&mut self.wire);
        }
        self.agenda.idle_until(until);
    }

    fn look(&self, node: usize) -> NodeState {
        let station = &self.stations[node];
        NodeState {
            next_completion_at: self.due_of[node].map(instant),
            // Peers change memory only while the program polls.
            changes: 0,
            is_busy: false,
            is_alive: station.is_alive,
            starts: station.starts,
        }
    }

    fn next_due_after(&self, seen: Moment) -> Option<Moment> {
        self.due.range((seen, u32::MAX)..).find(|of| of.0 > seen).map(|of| of.0)
    }

    fn progress(&self) -> u64 {
        self.stations.iter().map(|station| station.completions).sum()
    }

    fn take_woken(&mut self, now: Moment) -> BTreeSet<u32> {
        let mut nodes = std::mem::take(&mut self.woken);
        nodes.extend(self.due.range(..=(now, u32::MAX)).map(|of| of.1));
        nodes
    }

    /// The endpoint has counters of its own.
    fn counts(&self, _: usize) -> Counts {
        Counts::default()
    }

    fn check_conservation(&self) -> Result<(), String> {
        self.wire.conserve()
    }

    fn losses(&self) -> Vec<Loss> {
        let mut losses = self.wire.losses();
        for station in &self.stations {
            let frames = station.dropped;
            if frames > 0 {
                let place = format!("socket of node {}", station.number);
                losses.push(Loss { place, frames });
            }
        }
        losses
    }

    fn transactions_open(&self) -> usize {
        0
    }

    fn begin_dump(&mut self, file: &Path, dump: Dump) -> io::Result<bool> {
        self.dump.begin(file, &mut self.wire, dump)
    }

    fn end_dump(&mut self) -> io::Result<Option<Written>> {
        self.dump.end(&mut self.wire)
    }
}

impl Drop for World {
    /// Completes a dump that was not ended. Only `end_dump` reports write errors.
    fn drop(&mut self) {
        let _ = self.dump.end(&mut self.wire);
    }
}

/// A node with its world, while a program calls it.
struct Called<'a> {
    world: &'a mut World,
    node: usize,
}

impl Called<'_> {
    fn node(&self) -> &Node<StationPort> {
        &self.world.stations[self.node].node
    }

    fn node_mut(&mut self) -> &mut Node<StationPort> {
        &mut self.world.stations[self.node].node
    }
}

impl Fabric for Called<'_> {
    fn capabilities(&self) -> &Capabilities {
        self.node().capabilities()
    }

    fn register(&mut self, bytes: u64) -> Result<RegionId, RegisterError> {
        self.node_mut().register(bytes)
    }

    fn register_own(&mut self, memory: Arc<dyn Memory>) -> Result<RegionId, RegisterError> {
        self.node_mut().register_own(memory)
    }

    fn view(
        &mut self,
        region: RegionId,
        visit: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), AccessError> {
        self.node_mut().view(region, visit)
    }

    fn export(&mut self, region: RegionId, name: Name, grant: Grant) -> Result<(), ExportError> {
        self.node_mut().export(region, name, grant)
    }

    fn withdraw(&mut self, region: RegionId) -> Result<(), AccessError> {
        self.node_mut().withdraw(region)
    }

    fn memory(&self, region: RegionId) -> Result<Arc<dyn Memory>, AccessError> {
        self.node().memory(region)
    }

    fn connect(
        &mut self,
        peer: &str,
        reliability: Reliability,
    ) -> Result<EndpointId, ConnectError> {
        let nodes = self.world.common.config.nodes;
        let found = address_of(peer, nodes).filter(|_| peer != self.node.to_string());
        let Some(address) = found else {
            let expected = "write another node's number, counted from 0";
            return Err(ConnectError::Name { peer: peer.to_owned(), expected });
        };
        self.node_mut().connect(&address.to_string(), reliability)
    }

    fn disconnect(&mut self, endpoint: EndpointId) -> Result<(), PostError> {
        self.node_mut().disconnect(endpoint)
    }

    fn import(
        &mut self,
        endpoint: EndpointId,
        name: Name,
        key: Key,
    ) -> Result<RemoteId, ImportError> {
        self.node_mut().import(endpoint, name, key)
    }

    fn window(&self, remote: RemoteId) -> Result<Option<Arc<dyn Memory>>, AccessError> {
        self.node().window(remote)
    }

    fn post(&mut self, endpoint: EndpointId, tag: u64, work: Work<'_>) -> Result<(), PostError> {
        self.node_mut().post(endpoint, tag, work)
    }

    fn post_receive(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        into: Slice,
    ) -> Result<(), PostError> {
        self.node_mut().post_receive(endpoint, tag, into)
    }

    fn counters(&self) -> &WorkCounters {
        Fabric::counters(self.node())
    }

    fn now(&self) -> Moment {
        moment(self.world.agenda.now())
    }

    fn poll(&mut self, now: Moment) -> Option<Completion> {
        let now = now.max(self.now());
        self.world.stations[self.node].poll(now)
    }

    fn deadline(&self) -> Option<Moment> {
        let next = self.world.agenda.next_at().map(moment);
        self.world.due_of[self.node].into_iter().chain(next).min()
    }
}
