//! An Ethernet whose nodes are hosts: the UDP stacks around the network.
//!
//! [`Hosts`] is a network like the one inside it. A send is a call of the node's first process, and
//! a datagram is received when the call to receive returns. A node without a host is the wire
//! alone.

use std::collections::VecDeque;

use super::config::{BadHost, Config};
use super::machine::{Direction, Event, Machine, Out, Wake};
use super::processor::Split;
use crate::Instant;
use crate::core::agenda::{Part, Schedule};
use crate::core::dump::Dump;
use crate::core::fault::FaultKind;
use crate::core::interconnect::{
    Class, CoreUse, Interconnect, LinkUse, Loss, Refusal, Refused, Report, SendId,
};
use crate::net::ethernet::datagram::Datagram;
use crate::net::ethernet::framing;
use crate::net::ethernet::link;
use crate::net::ethernet::network::Network;

/// An entry of the agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Of the network.
    Wire(link::Entry),
    /// Of a host.
    Host {
        /// The node.
        node: u32,
        /// The event.
        event: Event,
    },
}

impl From<link::Entry> for Entry {
    fn from(entry: link::Entry) -> Entry {
        Entry::Wire(entry)
    }
}

impl crate::Entry for Entry {
    fn component(&self) -> u32 {
        match self {
            Entry::Wire(entry) => entry.component(),
            Entry::Host { node, .. } => *node,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Entry::Wire(entry) => entry.kind(),
            Entry::Host { event, .. } => match event {
                Event::Core(_) => 16,
                Event::Read => 17,
                Event::Leave => 18,
                Event::Arrive => 19,
                Event::Land => 20,
                Event::Interrupt(Direction::Transmit) => 21,
                Event::Interrupt(Direction::Receive) => 22,
            },
        }
    }
}

/// A network with its hosts.
#[derive(Debug)]
pub struct Hosts {
    wire: Network,
    /// The host of each node; empty: no node has one.
    machines: Vec<Option<Box<Machine>>>,
    reports: VecDeque<Report>,
    sends: u64,
}

impl Hosts {
    /// Makes a network whose nodes have no hosts.
    #[must_use]
    pub fn without(wire: Network) -> Hosts {
        Hosts { wire, machines: Vec::new(), reports: VecDeque::new(), sends: 0 }
    }

    /// Makes a network with the host of each node.
    ///
    /// # Errors
    /// [`BadHost`]: a host that cannot be, or not one for each node.
    pub fn new(wire: Network, hosts: &[Option<Config>]) -> Result<Hosts, BadHost> {
        let (nodes, mtu) = (wire.config().nodes, u64::from(wire.config().mtu));
        if hosts.len() != nodes as usize {
            return Err(BadHost::count(hosts.len(), nodes));
        }
        let mut machines = Vec::new();
        for (node, host) in (0..).zip(hosts) {
            if let Some(host) = host {
                host.check(framing::frame_bytes(mtu))?;
            }
            machines.push(host.clone().map(|host| Box::new(Machine::new(node, mtu, host))));
        }
        Ok(Hosts { wire, machines, reports: VecDeque::new(), sends: 0 })
    }

    /// Returns the network.
    #[must_use]
    pub fn wire(&self) -> &Network {
        &self.wire
    }

    /// Returns the host of a node.
    #[must_use]
    pub fn machine(&self, node: u32) -> Option<&Machine> {
        self.machines.get(node as usize)?.as_deref()
    }

    /// Returns the time that each core of a node has used since the start.
    #[must_use]
    pub fn used(&self, node: u32) -> Vec<Split> {
        self.machine(node).map(Machine::used).unwrap_or_default()
    }

    /// Begins a call to send by a process of a node.
    ///
    /// # Errors
    /// [`Refusal::Full`] while the process is in a call: a [`Report::Space`] of the node follows.
    /// [`Refusal::Never`]: no such process, a dead machine, or a datagram that no network carries.
    pub fn send_from(
        &mut self,
        node: u32,
        process: u32,
        datagram: Datagram,
        agenda: &mut impl Schedule<Entry>,
    ) -> Result<SendId, Refused<Datagram>> {
        let fits = datagram.fits(self.wire.config().nodes);
        let found = self.machines.get_mut(node as usize).and_then(Option::as_deref_mut);
        let Some(machine) = found else {
            let sent = self.wire.send(node, datagram, &mut Part::<_, Entry>::of(agenda));
            self.follow_wire(agenda);
            return sent;
        };
        if !fits {
            return Err(Refused { frame: datagram, why: Refusal::Never });
        }
        machine.now = agenda.now();
        machine.call(process, datagram)?;
        self.settle(node, agenda);
        self.follow_wire(agenda);
        self.sends += 1;
        Ok(SendId(self.sends))
    }

    /// Does what follows from a change of a host.
    fn settle(&mut self, node: u32, agenda: &mut impl Schedule<Entry>) {
        let Some(machine) = self.machines[node as usize].as_deref_mut() else { return };
        while let Some(Out { datagram, bill }) = machine.next_leaving() {
            match self.wire.send(node, datagram, &mut Part::<_, Entry>::of(agenda)) {
                Ok(send) => machine.left(send, bill),
                Err(back) => machine.stay(Out { datagram: back.frame, bill }),
            }
        }
        for Wake { at, event } in machine.effects.wakes.drain(..) {
            agenda.schedule(at, Entry::Host { node, event });
        }
        self.reports.extend(machine.effects.reports.drain(..));
    }

    /// Brings the reports of the network to the hosts.
    fn follow_wire(&mut self, agenda: &mut impl Schedule<Entry>) {
        while let Some(report) = self.wire.next_report() {
            let node = match report {
                Report::Received { node, .. }
                | Report::Done { node, .. }
                | Report::Lost { node, .. }
                | Report::Space { node }
                | Report::Dropped { source: node } => node,
            };
            let found = self.machines.get_mut(node as usize).and_then(Option::as_deref_mut);
            let Some(machine) = found else {
                self.reports.push_back(report);
                continue;
            };
            machine.now = agenda.now();
            match report {
                Report::Received { class, .. } => {
                    while let Some(datagram) = self.wire.take(node, class) {
                        machine.arrive(datagram);
                    }
                }
                Report::Done { send, .. } => machine.done(send),
                Report::Lost { send, .. } => {
                    machine.done(send);
                    self.reports.push_back(Report::Dropped { source: node });
                }
                Report::Dropped { .. } => self.reports.push_back(report),
                Report::Space { .. } => machine.has_space(),
            }
            self.settle(node, agenda);
        }
    }
}

impl Interconnect for Hosts {
    type Frame = Datagram;
    type Entry = Entry;

    fn nodes(&self) -> u32 {
        self.wire.config().nodes
    }

    fn send(
        &mut self,
        node: u32,
        datagram: Datagram,
        agenda: &mut impl Schedule<Entry>,
    ) -> Result<SendId, Refused<Datagram>> {
        self.send_from(node, 0, datagram, agenda)
    }

    fn handle(&mut self, entry: Entry, agenda: &mut impl Schedule<Entry>) {
        match entry {
            Entry::Wire(entry) => self.wire.handle(entry, &mut Part::<_, Entry>::of(agenda)),
            Entry::Host { node, event } => {
                if let Some(machine) = self.machines[node as usize].as_deref_mut() {
                    machine.now = agenda.now();
                    machine.handle(event);
                    self.settle(node, agenda);
                }
            }
        }
        self.follow_wire(agenda);
    }

    fn next_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    fn take(&mut self, node: u32, class: Class, _: &mut impl Schedule<Entry>) -> Option<Datagram> {
        match self.machines.get_mut(node as usize).and_then(Option::as_deref_mut) {
            Some(machine) => machine.receiving.ready.pop_front(),
            None => self.wire.take(node, class),
        }
    }

    fn fault(&mut self, kind: FaultKind, agenda: &mut impl Schedule<Entry>) -> bool {
        let is_known = self.wire.fault(kind, &mut Part::<_, Entry>::of(agenda));
        let node = kind.node();
        if let Some(machine) = self.machines.get_mut(node as usize).and_then(Option::as_deref_mut) {
            machine.now = agenda.now();
            match kind {
                FaultKind::Power(_) => machine.die(),
                FaultKind::Host(_) => machine.close(),
                FaultKind::Restart(_) => machine.start(),
                _ => {}
            }
            self.settle(node, agenda);
        }
        self.follow_wire(agenda);
        is_known
    }

    fn conserve(&self) -> Result<(), String> {
        self.wire.conserve()?;
        self.machines.iter().flatten().try_for_each(|machine| machine.conserve())
    }

    fn kind_name(kind: u8) -> &'static str {
        match kind {
            16 => "core free",
            17 => "frame on the card",
            18 => "frame leaves the card",
            19 => "frame at the bus",
            20 => "frame in memory",
            21 | 22 => "interrupt",
            kind => Network::kind_name(kind),
        }
    }

    fn links(&self, now: Instant) -> Vec<LinkUse> {
        self.wire.links(now)
    }

    fn hops(&self) -> u64 {
        self.wire.hops()
    }

    fn losses(&self) -> Vec<Loss> {
        let mut losses = self.wire.losses();
        let machines = self.machines.iter().flatten();
        losses.extend(machines.flat_map(|machine| machine.counters.losses(machine.node)));
        losses
    }

    fn cores(&self) -> Vec<CoreUse> {
        let of = |machine: &Machine| {
            let node = machine.node;
            let each =
                (0..).zip(machine.used()).map(move |(core, used)| CoreUse { node, core, used });
            each.collect::<Vec<_>>()
        };
        self.machines.iter().flatten().flat_map(|machine| of(machine)).collect()
    }

    fn begin_dump(&mut self, dump: Dump) -> bool {
        self.wire.begin_dump(dump)
    }

    fn dump_mut(&mut self) -> Option<&mut Dump> {
        self.wire.dump_mut()
    }

    fn end_dump(&mut self) -> Option<Dump> {
        self.wire.end_dump()
    }
}
