//! All nodes of a cluster, their network and their time.
//!
//! An entry of the agenda changes one part; what follows from it at the same moment (a packet that
//! can be sent, a call that is done, a message that lies in a mailbox) is settled before time goes
//! on, node by node in a fixed order.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use fluxline_core::Moment;
use fluxline_core::fabric::Completion;
use fluxline_core::fabric::memory::Words;

use super::dump_file::DumpFile;
use super::entry::Entry;
use super::fault::Misfortune;
use super::machine::Machine;
use super::moments::moment;
use super::wire::{Wire, WireReport};
use crate::core::dump::{Dump, Written};
use crate::net::sci::{NodeId, Unbalanced};
use crate::{Agenda, Fingerprint, Instant};

/// The whole of a cluster.
pub struct World {
    /// The future entries.
    pub agenda: Agenda<Entry>,
    /// Equal when two runs did the same.
    pub fingerprint: Fingerprint,
    wire: Wire,
    machines: Vec<Machine>,
    /// Nodes for which something may follow from what has just happened.
    touched: BTreeSet<usize>,
    /// The file of dumped packets.
    dump: Option<DumpFile>,
}

impl World {
    /// Puts the parts together.
    #[must_use]
    pub fn new(wire: Wire, machines: Vec<Machine>) -> World {
        World {
            agenda: Agenda::default(),
            fingerprint: Fingerprint::default(),
            wire,
            machines,
            touched: BTreeSet::new(),
            dump: None,
        }
    }

    /// A node.
    #[must_use]
    pub fn machine(&self, node: usize) -> &Machine {
        &self.machines[node]
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.machines.len()
    }

    /// Lets a node's program do something, and settles what follows.
    pub fn act<T>(
        &mut self,
        node: usize,
        work: impl FnOnce(&mut Machine, &mut Agenda<Entry>) -> T,
    ) -> T {
        let result = work(&mut self.machines[node], &mut self.agenda);
        self.touched.insert(node);
        self.settle();
        result
    }

    /// Does all that is due by `until`; then it is `until`.
    pub fn run_until(&mut self, until: Instant) {
        while let Some(entry) = self.agenda.take(until) {
            let (component, kind) = (crate::Entry::component(&entry), crate::Entry::kind(&entry));
            self.fingerprint.add(self.agenda.now(), component, kind);
            self.handle(entry);
            self.settle();
            if let (Some(file), Wire::Network(network)) = (&mut self.dump, &mut self.wire) {
                file.follow(network);
            }
        }
        self.agenda.idle_until(until);
    }

    /// Puts the network's packets into a new file from now on; `false`: there is no network.
    pub fn begin_dump(&mut self, file: &Path, dump: Dump) -> io::Result<bool> {
        let Wire::Network(network) = &mut self.wire else { return Ok(false) };
        self.dump = Some(DumpFile::create(file)?);
        network.begin_dump(dump);
        Ok(true)
    }

    /// Ends the dump, if there is one.
    pub fn end_dump(&mut self) -> io::Result<Option<Written>> {
        let Wire::Network(network) = &mut self.wire else { return Ok(None) };
        match (self.dump.take(), network.end_dump()) {
            (Some(file), Some(dump)) => file.finish(dump).map(Some),
            _ => Ok(None),
        }
    }

    fn handle(&mut self, entry: Entry) {
        let agenda = &mut self.agenda;
        let node = match entry {
            Entry::Wire(entry) => return self.wire.handle(entry, agenda),
            Entry::Host(entry) => {
                let node = entry.host as usize;
                self.machines[node].host_due(entry, agenda);
                node
            }
            Entry::Timer { node } => {
                self.machines[node as usize].timer(agenda);
                node as usize
            }
            Entry::Probe { node } => {
                self.machines[node as usize].probe();
                node as usize
            }
            Entry::NoBuffer { node, endpoint } => {
                self.machines[node as usize].no_buffer(endpoint, agenda);
                node as usize
            }
            Entry::Fault(what) => self.fault(what),
        };
        self.touched.insert(node);
    }

    /// Lets something go wrong; returns at which node.
    fn fault(&mut self, what: Misfortune) -> usize {
        match what {
            Misfortune::Host(node) => {
                self.machines[node].die();
                node
            }
            Misfortune::Power(node) => {
                self.machines[node].die();
                self.wire.kill(node, &mut self.agenda);
                node
            }
            Misfortune::Cable(node) => {
                self.wire.cut(node, &mut self.agenda);
                node
            }
        }
    }

    /// Returns the time of the next completion for any program after `seen`.
    #[must_use]
    pub fn next_due_after(&self, seen: Moment) -> Option<Moment> {
        let tells = self.machines.iter().filter_map(|machine| machine.driver.next_completion_at());
        tells.map(moment).filter(|&at| at > seen).min()
    }

    /// Returns the number of work items completed for programs.
    #[must_use]
    pub fn progress(&self) -> u64 {
        self.machines.iter().map(|machine| machine.driver.progress()).sum()
    }

    /// Does what follows at this moment, until nothing does.
    fn settle(&mut self) {
        loop {
            while let Some(report) = self.wire.next_report() {
                let node = match report {
                    WireReport::Look { node } => node,
                    WireReport::Done { node, send } => {
                        self.machines[node].send_done(send, &mut self.agenda);
                        node
                    }
                    WireReport::Lost { node, send } => {
                        self.machines[node].send_lost(send, &mut self.agenda);
                        node
                    }
                };
                // A network may have nodes without a machine: a switch.
                if node < self.machines.len() {
                    self.touched.insert(node);
                }
            }
            let Some(node) = self.touched.pop_first() else { return };
            self.machines[node].settle(&mut self.wire, &mut self.agenda);
        }
    }

    /// Returns the next completion for a node's program.
    pub fn next_completion(&mut self, node: usize) -> Option<Completion> {
        self.machines[node].driver.next_completion(self.agenda.now())
    }

    /// The memory of the region that lies at an address.
    #[must_use]
    pub fn words_at(&self, node: NodeId, offset: u64) -> Option<Arc<Words>> {
        let machine = self.machines.iter().find(|machine| machine.id == node)?;
        let (region, _) = machine.space().find(offset)?;
        machine.space().region(region).ok().map(|region| Arc::clone(&region.words))
    }

    /// Checks that every packet of the network is in exactly one place.
    pub fn check_conservation(&self) -> Result<(), Unbalanced> {
        match &self.wire {
            Wire::Plain(_) => Ok(()),
            Wire::Network(network) => network.check_conservation(),
        }
    }

    /// Requests that are not over, of all nodes.
    #[must_use]
    pub fn transactions_open(&self) -> usize {
        self.machines.iter().map(Machine::transactions_open).sum()
    }

    /// The address of a node.
    #[must_use]
    pub fn address(&self, node: usize) -> NodeId {
        self.machines[node].id
    }
}

impl Drop for World {
    /// Completes a dump that was not ended. Only [`World::end_dump`] reports write errors.
    fn drop(&mut self) {
        let _ = self.end_dump();
    }
}
