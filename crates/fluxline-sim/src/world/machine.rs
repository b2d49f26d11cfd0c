//! One node: its adapter, its memory and its driver, joined.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fluxline_core::fabric::EndpointId;

use super::platform::{Entry, Platform};
use crate::core::interconnect::{Class, Interconnect};
use crate::fabric::adapter::{Hands, Job, Report};
use crate::fabric::driver::Driver;
use crate::fabric::memory::NodeMemory;
use crate::{Agenda, Duration, Instant};

/// The interval at which a driver checks that its peers are alive. Assumed.
const PROBE_EVERY: Duration = Duration::from_us(10_000);

/// A node.
pub struct Machine<A> {
    number: u32,
    is_alive: bool,
    /// The number of times that it has started.
    starts: u32,
    /// Bytes stored through windows since they were charged.
    pub through_windows: Arc<AtomicU64>,
    /// Its adapter with its host.
    pub adapter: A,
    /// Its memory that others can reach.
    pub memory: NodeMemory,
    /// The driver: its program's requests and completions.
    pub driver: Driver,
    /// True if a probe is on the agenda.
    is_probing: bool,
}

/// The parts of a machine that its driver works with.
struct Parts<'a, A: Platform> {
    number: u32,
    adapter: &'a mut A,
    memory: &'a mut NodeMemory,
    agenda: &'a mut Agenda<A::Entry>,
}

impl<A: Platform> Hands for Parts<'_, A> {
    fn now(&self) -> Instant {
        self.agenda.now()
    }

    fn memory(&mut self) -> &mut NodeMemory {
        self.memory
    }

    fn submit(&mut self, job: Job) {
        self.adapter.submit(job, self.agenda);
    }

    fn wait_for_buffer(&mut self, endpoint: EndpointId, wait: Duration) {
        let entry = Entry::NoBuffer { node: self.number, endpoint: endpoint.0 };
        self.agenda.schedule_after(wait, entry);
    }

    fn compute(&mut self, time: Duration) {
        self.adapter.compute(time, self.agenda);
    }
}

impl<A: Platform> Machine<A> {
    /// Makes a node at rest.
    #[must_use]
    pub fn new(number: u32, adapter: A) -> Machine<A> {
        Machine::of(number, adapter, 1)
    }

    /// Makes the node's next life, with another adapter.
    #[must_use]
    pub fn next_life(&self, adapter: A) -> Machine<A> {
        // A probe of the former life is on the agenda still.
        Machine {
            is_probing: self.is_probing,
            ..Machine::of(self.number, adapter, self.starts + 1)
        }
    }

    fn of(number: u32, adapter: A, starts: u32) -> Machine<A> {
        Machine {
            number,
            is_alive: true,
            starts,
            through_windows: Arc::default(),
            driver: Driver::new(adapter.poll_notice(), adapter.keeps_order()),
            adapter,
            memory: NodeMemory::default(),
            is_probing: false,
        }
    }

    /// Returns true until the node crashes.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.is_alive
    }

    /// Returns the number of times that it has started.
    #[must_use]
    pub fn starts(&self) -> u32 {
        self.starts
    }

    /// Gives up a peer that has started again, and meets it as a new one.
    pub fn forget(&mut self, peer: u32, agenda: &mut Agenda<A::Entry>) {
        self.adapter.forget(peer);
        self.act(agenda, |driver, hands| driver.peer_gone(hands, peer));
        self.driver.meet_again(peer);
    }

    /// Stops the node: it takes frames, and answers none. Its program gets no more completions.
    pub fn die(&mut self) {
        self.is_alive = false;
        self.driver.forget_completions();
        self.adapter.die();
    }

    /// Lets the driver do something.
    pub fn act(
        &mut self,
        agenda: &mut Agenda<A::Entry>,
        work: impl FnOnce(&mut Driver, &mut dyn Hands),
    ) {
        let Machine { number, adapter, memory, driver, .. } = self;
        driver.set_now(agenda.now());
        work(driver, &mut Parts { number: *number, adapter, memory, agenda });
    }

    /// Handles an entry of the adapter.
    pub fn handle(&mut self, step: A::Step, agenda: &mut Agenda<A::Entry>) {
        if self.is_alive {
            self.adapter.handle(step, agenda);
        }
    }

    /// Handles a message that has waited for its buffer.
    pub fn no_buffer(&mut self, endpoint: u32, agenda: &mut Agenda<A::Entry>) {
        if self.is_alive {
            self.act(agenda, |driver, hands| driver.no_buffer(hands, EndpointId(endpoint)));
        }
    }

    /// Asks each peer for a sign of life.
    pub fn probe(&mut self) {
        self.is_probing = false;
        if self.is_alive {
            self.driver.peers().into_iter().for_each(|peer| self.adapter.probe(peer));
        }
    }

    /// Does what follows at this moment.
    pub fn settle(&mut self, wire: &mut A::Wire, agenda: &mut Agenda<A::Entry>) {
        if !self.is_alive {
            for class in [Class::Request, Class::Response] {
                while wire.take(self.number, class, agenda).is_some() {}
            }
            return;
        }
        while let Some(report) = self.adapter.next_report(&mut self.memory, wire, agenda) {
            self.follow(report, agenda);
        }
        if !self.is_probing && self.driver.has_peers() {
            self.is_probing = true;
            agenda.schedule_after(PROBE_EVERY, Entry::Probe { node: self.number });
        }
    }

    fn follow(&mut self, report: Report, agenda: &mut Agenda<A::Entry>) {
        self.act(agenda, |driver, hands| match report {
            Report::Copied { job } => driver.copied(job),
            Report::Ended { job, result } => driver.job_ended(hands, job, result),
            Report::Message { from, message } => driver.message(hands, from, &message),
            Report::PeerGone { peer } => driver.peer_gone(hands, peer),
        });
    }
}
