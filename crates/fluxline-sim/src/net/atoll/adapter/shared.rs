//! Chips that several processes of a node use at once, each by its own host port.

use std::collections::{BTreeMap, VecDeque};

use super::super::{Cargo, ConfigError};
use crate::core::agenda::Schedule;
use crate::core::dump::Dump;
use crate::core::fault::FaultKind;
use crate::core::interconnect::{
    Circle, Class, Counter, Interconnect, LinkUse, Refused, Report, SendId,
};
use crate::fabric::courier::Frame;
use crate::{Duration, Instant};

/// The most processes of a node: one for each host port.
pub const PROCESSES_MAX: u32 = 4;

/// A frame between two processes.
#[derive(Clone, Debug)]
pub struct Addressed {
    frame: Frame,
    /// Processes of each node.
    processes: u32,
}

impl Cargo for Addressed {
    fn target(&self) -> u32 {
        self.frame.target / self.processes
    }

    fn bytes(&self) -> u32 {
        Cargo::bytes(&self.frame)
    }

    fn port(&self) -> u8 {
        (self.frame.source % self.processes) as u8
    }

    fn target_port(&self) -> u8 {
        (self.frame.target % self.processes) as u8
    }
}

/// A network whose users are processes. Process p of node n has the number n times the processes of
/// a node plus p, and host port p.
#[derive(Clone, Debug)]
pub struct Shared<N> {
    network: N,
    processes: u32,
    /// Frames in the memory of each process.
    arrived: Vec<VecDeque<Frame>>,
    /// The processes of sends that are under way.
    senders: BTreeMap<SendId, u32>,
    reports: VecDeque<Report>,
}

impl<N: Interconnect<Frame = Addressed>> Shared<N> {
    /// Lets processes use a network.
    ///
    /// # Errors
    /// A number of processes that its nodes cannot have.
    pub fn new(network: N, processes: u32) -> Result<Shared<N>, ConfigError> {
        if !(1..=PROCESSES_MAX).contains(&processes) {
            let text = format!("{processes} processes on each node: give 1 to {PROCESSES_MAX}");
            return Err(ConfigError(text));
        }
        let count = (network.nodes() * processes) as usize;
        let (senders, reports) = (BTreeMap::new(), VecDeque::new());
        let arrived = vec![VecDeque::new(); count];
        Ok(Shared { network, processes, arrived, senders, reports })
    }

    /// Distributes what the network reports to the processes.
    fn follow(&mut self, agenda: &mut impl Schedule<N::Entry>) {
        while let Some(report) = self.network.next_report() {
            match report {
                Report::Received { node, class } => {
                    while let Some(got) = self.network.take(node, class, agenda) {
                        let process = got.frame.target;
                        self.arrived[process as usize].push_back(got.frame);
                        self.reports.push_back(Report::Received { node: process, class });
                    }
                }
                Report::Done { send, .. } => {
                    let sender = self.senders.remove(&send);
                    self.reports.extend(sender.map(|node| Report::Done { node, send }));
                }
                Report::Lost { send, .. } => {
                    let sender = self.senders.remove(&send);
                    self.reports.extend(sender.map(|node| Report::Lost { node, send }));
                }
                Report::Space { node } => {
                    let own = node * self.processes..(node + 1) * self.processes;
                    self.reports.extend(own.map(|node| Report::Space { node }));
                }
                Report::Dropped { source } => self.reports.push_back(Report::Dropped { source }),
            }
        }
    }

    /// Returns a fault with the node of its process.
    fn of_node(&self, kind: FaultKind) -> FaultKind {
        let node = |process: u32| process / self.processes;
        match kind {
            FaultKind::Host(at) => FaultKind::Host(node(at)),
            FaultKind::Power(at) => FaultKind::Power(node(at)),
            FaultKind::Cable(at) => FaultKind::Cable(node(at)),
            FaultKind::Repair(at) => FaultKind::Repair(node(at)),
            FaultKind::Restart(at) => FaultKind::Restart(node(at)),
            FaultKind::CutLink { from, to } => {
                FaultKind::CutLink { from: node(from), to: node(to) }
            }
            FaultKind::MendLink { from, to } => {
                FaultKind::MendLink { from: node(from), to: node(to) }
            }
        }
    }
}

impl<N: Interconnect<Frame = Addressed>> Interconnect for Shared<N> {
    type Frame = Frame;
    type Entry = N::Entry;

    fn nodes(&self) -> u32 {
        self.network.nodes() * self.processes
    }

    fn begin(&mut self, agenda: &mut impl Schedule<N::Entry>) {
        self.network.begin(agenda);
    }

    fn counters(&self) -> Vec<Counter> {
        self.network.counters()
    }

    fn send(
        &mut self,
        process: u32,
        frame: Frame,
        agenda: &mut impl Schedule<N::Entry>,
    ) -> Result<SendId, Refused<Frame>> {
        let (processes, node) = (self.processes, process / self.processes);
        let sent = self.network.send(node, Addressed { frame, processes }, agenda);
        let send = sent.map_err(|back| Refused { frame: back.frame.frame, why: back.why })?;
        self.senders.insert(send, process);
        Ok(send)
    }

    fn sending_time(&self, bytes: u32) -> Duration {
        self.network.sending_time(bytes)
    }

    fn handle(&mut self, entry: N::Entry, agenda: &mut impl Schedule<N::Entry>) {
        self.network.handle(entry, agenda);
        self.follow(agenda);
    }

    fn next_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    fn take(
        &mut self,
        process: u32,
        class: Class,
        _: &mut impl Schedule<N::Entry>,
    ) -> Option<Frame> {
        match class {
            Class::Request => self.arrived[process as usize].pop_front(),
            Class::Response => None,
        }
    }

    fn fault(&mut self, kind: FaultKind, agenda: &mut impl Schedule<N::Entry>) -> bool {
        let is_known = self.network.fault(self.of_node(kind), agenda);
        self.follow(agenda);
        is_known
    }

    fn conserve(&self) -> Result<(), String> {
        self.network.conserve()
    }

    fn deadlock(&self) -> Option<Circle> {
        Interconnect::deadlock(&self.network)
    }

    fn kind_name(kind: u8) -> &'static str {
        N::kind_name(kind)
    }

    fn links(&self, now: Instant) -> Vec<LinkUse> {
        Interconnect::links(&self.network, now)
    }

    fn hops(&self) -> u64 {
        Interconnect::hops(&self.network)
    }

    fn begin_dump(&mut self, dump: Dump) -> bool {
        self.network.begin_dump(dump)
    }

    fn dump_mut(&mut self) -> Option<&mut Dump> {
        self.network.dump_mut()
    }

    fn end_dump(&mut self) -> Option<Dump> {
        self.network.end_dump()
    }
}
