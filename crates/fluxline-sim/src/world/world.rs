//! All nodes of a world, their network and their time.
//!
//! An entry of the agenda changes one part; what follows from it at the same moment (a frame that
//! can be sent, a call that is done, a message that has come) is settled before time goes on, node
//! by node in a fixed order.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fluxline_core::Moment;
use fluxline_core::fabric::{
    AccessError, Capabilities, Completion, Fabric, Memory, RegionId, WorkCounters,
};

use super::driven::Driven;
use super::dump_file::FrameDump;
use super::machine::Machine;
use super::moments::{instant, moment};
use super::nodes::{Drivers, NodeState, Nodes};
use super::platform::{Due, Entry, Platform};
use super::touched::Touched;
use super::waking::Waking;
use crate::core::dump::{Dump, Written};
use crate::core::fault::{Fault, FaultKind};
use crate::core::interconnect::{Counter, Interconnect, Loss, Report};
use crate::fabric::adapter::{Counts, Hands, SendEnd};
use crate::fabric::driver::Driver;
use crate::{Agenda, Duration, Fingerprint, Instant};

/// After so long without any progress there will be none: longer than every time-out of the model
/// together (`Times::give_up`, between probes, for a buffer).
const QUIET: Duration = Duration::from_us(400_000);

/// A world of nodes whose adapters are of one kind.
pub struct World<A: Platform> {
    agenda: Agenda<A::Entry>,
    fingerprint: Fingerprint,
    wire: A::Wire,
    machines: Vec<Machine<A>>,
    /// Nodes for which something may follow from what has just happened.
    touched: Touched,
    /// Nodes whose programs may have something to do.
    waking: Waking,
    /// The file of dumped frames.
    dump: FrameDump,
    /// The capabilities of its nodes.
    pub(super) capabilities: Capabilities,
    /// The counters of a node without its handle.
    uncounted: WorkCounters,
    /// Makes the adapter of a node that starts again; `None`: no node can.
    renew: Option<Renew<A>>,
}

/// Makes the adapter of a node that starts again: of its number, and of how many times it has
/// started by then.
type Renew<A> = Box<dyn Fn(u32, u32) -> A + Send>;

impl<A: Platform> World<A> {
    /// Joins adapters, which are the nodes 0, 1, and so on, by a network.
    #[must_use]
    pub fn new(mut wire: A::Wire, adapters: impl IntoIterator<Item = A>) -> World<A> {
        let machines = (0..).zip(adapters).map(|(number, of)| Machine::new(number, of));
        let machines: Vec<Machine<A>> = machines.collect();
        let mut agenda = Agenda::default();
        wire.begin(&mut agenda);
        World {
            agenda,
            fingerprint: Fingerprint::default(),
            wire,
            waking: Waking::new(machines.len()),
            machines,
            touched: Touched::default(),
            dump: FrameDump::default(),
            capabilities: Capabilities::new("sim"),
            uncounted: WorkCounters::default(),
            renew: None,
        }
    }

    /// Lets nodes start again after a crash, with adapters that `renew` makes of the number of the
    /// node and of how many times it has started by then.
    #[must_use]
    pub fn restarting(mut self, renew: impl Fn(u32, u32) -> A + Send + 'static) -> World<A> {
        self.renew = Some(Box::new(renew));
        self
    }

    /// Lets a fault happen at its time.
    pub fn plan_fault(&mut self, fault: Fault) {
        self.agenda.schedule(fault.at, Entry::Fault(fault.kind));
    }

    fn handle(&mut self, entry: A::Entry) {
        let agenda = &mut self.agenda;
        let node = match entry.into() {
            Due::Wire(entry) => return self.wire.handle(entry, agenda),
            Due::Step(step) => {
                let node = crate::Entry::component(&step);
                self.machines[node as usize].handle(step, agenda);
                node
            }
            Due::World(Entry::Probe { node }) => {
                self.machines[node as usize].probe();
                node
            }
            Due::World(Entry::NoBuffer { node, endpoint }) => {
                self.machines[node as usize].no_buffer(endpoint, agenda);
                node
            }
            Due::World(Entry::Fault(kind)) => {
                self.wire.fault(kind, agenda);
                match kind {
                    FaultKind::Host(node) | FaultKind::Power(node) => {
                        self.machines[node as usize].die();
                        self.waking.wake(node);
                    }
                    FaultKind::Restart(node) => _ = self.renew(node),
                    _ => {}
                }
                kind.node()
            }
        };
        self.touched.insert(node);
    }

    /// Starts a dead node again; its peers give up its former life.
    fn renew(&mut self, node: u32) -> bool {
        let Some(renew) = &self.renew else { return false };
        let machine = &self.machines[node as usize];
        if machine.is_alive() {
            return false;
        }
        let life = machine.next_life(renew(node, machine.starts() + 1));
        self.machines[node as usize] = life;
        for (number, machine) in (0..).zip(&mut self.machines) {
            if number != node && machine.is_alive() {
                machine.forget(node, &mut self.agenda);
                self.touched.insert(number);
            }
        }
        self.waking.reset(node);
        self.waking.wake(node);
        self.touched.insert(node);
        true
    }

    /// Does what follows at this moment, until nothing does.
    fn settle(&mut self) {
        loop {
            while let Some(report) = self.wire.next_report() {
                let (node, ended) = match report {
                    Report::Received { node, .. } | Report::Space { node } => (node, None),
                    Report::Done { node, send } => (node, Some((send, SendEnd::Done))),
                    Report::Lost { node, send } => (node, Some((send, SendEnd::Lost))),
                    // The adapter notices it by a time-out.
                    Report::Dropped { .. } => continue,
                };
                // A network may have nodes without a machine: a switch.
                let Some(machine) = self.machines.get_mut(node as usize) else { continue };
                if let Some((send, end)) = ended {
                    machine.adapter.send_ended(send, end, &mut self.agenda);
                }
                self.touched.insert(node);
            }
            let Some(node) = self.touched.pop_first() else { return };
            let machine = &mut self.machines[node as usize];
            machine.settle(&mut self.wire, &mut self.agenda);
            self.waking.note(node, &machine.driver);
        }
    }
}

impl<A: Platform> Nodes for World<A>
where
    A::Wire: Send,
{
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
        self.machines.len()
    }

    fn call(&mut self, node: usize, work: &mut dyn FnMut(&mut dyn Fabric)) {
        work(&mut Driven { world: self, node });
    }

    fn patience(&self) -> Duration {
        QUIET
    }

    fn restart(&mut self, node: usize) -> bool {
        let has_started = self.renew(node as u32);
        if has_started {
            self.wire.fault(FaultKind::Restart(node as u32), &mut self.agenda);
            self.settle();
        }
        has_started
    }

    fn losses(&self) -> Vec<Loss> {
        self.wire.losses()
    }

    fn switch_off(&mut self, node: usize) {
        self.machines[node].die();
        self.touched.insert(node as u32);
        self.settle();
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
        let machine = &self.machines[node];
        NodeState {
            next_completion_at: machine.driver.next_completion_at(),
            changes: machine.memory.changes(),
            is_busy: machine.driver.is_busy(),
            is_alive: machine.is_alive(),
            starts: machine.starts(),
        }
    }

    fn next_due_after(&self, seen: Moment) -> Option<Moment> {
        self.waking.next_due_after(instant(seen)).map(moment)
    }

    fn progress(&self) -> u64 {
        self.waking.progress()
    }

    fn take_woken(&mut self, now: Moment) -> BTreeSet<u32> {
        self.waking.take(instant(now))
    }

    fn counts(&self, node: usize) -> Counts {
        self.machines[node].adapter.counts()
    }

    fn check_conservation(&self) -> Result<(), String> {
        self.wire.conserve()
    }

    fn counters(&self) -> Vec<Counter> {
        self.wire.counters()
    }

    fn transactions_open(&self) -> usize {
        self.machines.iter().map(|machine| machine.adapter.transactions_open()).sum()
    }

    fn begin_dump(&mut self, file: &Path, dump: Dump) -> io::Result<bool> {
        self.dump.begin(file, &mut self.wire, dump)
    }

    fn end_dump(&mut self) -> io::Result<Option<Written>> {
        self.dump.end(&mut self.wire)
    }
}

impl<A: Platform> Drivers for World<A>
where
    A::Wire: Send,
{
    fn act(&mut self, node: usize, work: &mut dyn FnMut(&mut Driver, &mut dyn Hands)) {
        self.machines[node].act(&mut self.agenda, work);
        self.touched.insert(node as u32);
        self.settle();
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn uncounted(&self) -> &WorkCounters {
        &self.uncounted
    }

    fn through_windows(&self, node: usize) -> &Arc<AtomicU64> {
        &self.machines[node].through_windows
    }

    fn next_completion(&mut self, node: usize) -> Option<Completion> {
        let driver = &mut self.machines[node].driver;
        let completion = driver.next_completion(self.agenda.now());
        if completion.is_some() {
            self.waking.note(node as u32, driver);
        }
        completion
    }

    fn region_words(&self, node: usize, region: RegionId) -> Result<Arc<dyn Memory>, AccessError> {
        self.machines[node].memory.region(region).map(|region| Arc::clone(&region.words))
    }

    fn words_at(&self, node: u32, offset: u64) -> Option<Arc<dyn Memory>> {
        let memory = &self.machines.get(node as usize)?.memory;
        let (region, _) = memory.find(offset)?;
        memory.region(region).ok().map(|region| Arc::clone(&region.words))
    }

    fn driver(&self, node: usize) -> &Driver {
        &self.machines[node].driver
    }
}

impl<A: Platform> Drop for World<A> {
    /// Completes a dump that was not ended. Only `end_dump` reports write errors.
    fn drop(&mut self) {
        let _ = self.dump.end(&mut self.wire);
    }
}
