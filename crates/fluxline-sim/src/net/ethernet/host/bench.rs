//! Two hosts on a cable, and two experiments with them: a stream, and round trips.

use super::config::{BadHost, Config};
use super::counters::{Counters, Place};
use super::hosts::{Entry, Hosts};
use crate::core::fault::FaultKind;
use crate::core::interconnect::{Class, Interconnect, LinkUse, Report};
use crate::core::split::Split;
use crate::load::traffic::Message;
use crate::net::ethernet::datagram::{Datagram, Payload};
use crate::net::ethernet::{self, ConfigError, Forwarding, Network};
use crate::{Agenda, Duration, Instant};

/// The node that sends a stream and begins a round trip.
const SENDER: u32 = 0;
/// The other node.
const RECEIVER: u32 = 1;

/// A reason why an experiment cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BadBench {
    /// A host.
    #[error(transparent)]
    Host(#[from] BadHost),
    /// The network.
    #[error(transparent)]
    Network(#[from] ConfigError),
}

/// The network of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    /// The rate \[bit/s\].
    pub bits_per_s: u64,
    /// The longest IP packet \[byte\].
    pub mtu: u32,
}

/// The lengths of a stream in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// The time before the measurement.
    pub warm_up: Duration,
    /// The measured time.
    pub measured: Duration,
}

/// A stream: each process of the sender sends as fast as it can, or at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The payload of a datagram \[byte\].
    pub bytes: u32,
    /// The time from the start of a call to that of the next; 0: as fast as possible.
    pub period: Duration,
    /// The lengths.
    pub length: Length,
}

/// The measurement of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Streamed {
    /// The measured time \[s\].
    pub seconds: f64,
    /// The payload of a datagram \[byte\].
    pub bytes: u32,
    /// Datagrams that the receiver's process received.
    pub received: u64,
    /// Datagrams that the senders' calls took.
    pub taken: u64,
    /// Used shares of the sender's cores.
    pub sender: Vec<Shares>,
    /// Used shares of the receiver's cores.
    pub receiver: Vec<Shares>,
    /// The share of its time that the sender's cable was busy.
    pub cable: f64,
    /// Lost datagrams by place, sender and receiver together.
    pub lost: [u64; Place::ALL.len()],
    /// Datagrams that the network lost.
    pub lost_on_wire: u64,
}

/// The used shares of a core's time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// Time of programs.
    pub user: f64,
    /// Time of system calls.
    pub system: f64,
    /// Time of interrupt handlers.
    pub irq: f64,
    /// Time of the softirq.
    pub softirq: f64,
}

impl Shares {
    fn of(used: &Split, measured: Duration) -> Shares {
        let share = |time: Duration| time.as_ps() as f64 / measured.as_ps().max(1) as f64;
        Shares {
            user: share(used.user),
            system: share(used.system),
            irq: share(used.irq),
            softirq: share(used.softirq),
        }
    }

    /// Returns the sum.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.user + self.system + self.irq + self.softirq
    }
}

impl Streamed {
    /// Returns the received payload \[Gb/s\].
    #[must_use]
    pub fn gigabits_per_s(&self) -> f64 {
        self.received as f64 * f64::from(self.bytes) * 8e-9 / self.seconds
    }

    /// Returns the received datagrams \[kHz\].
    #[must_use]
    pub fn kilohertz(&self) -> f64 {
        self.received as f64 / self.seconds / 1e3
    }

    /// Returns the lost share of the datagrams that the calls took; small errors at the ends of
    /// the measured time cancel.
    #[must_use]
    pub fn loss(&self) -> f64 {
        let lost = self.lost.iter().sum::<u64>() + self.lost_on_wire;
        lost as f64 / self.taken.max(1) as f64
    }
}

/// Two hosts on a cable.
#[derive(Debug)]
pub struct Bench {
    hosts: Hosts,
    agenda: Agenda<Entry>,
}

/// The counts of both hosts at a time.
struct Counted {
    counters: [Counters; 2],
    cores: [Vec<Split>; 2],
    cable: Option<LinkUse>,
    lost_on_wire: u64,
}

impl Bench {
    /// Connects two hosts by a cable: a cut-through switch without a delay of its own.
    ///
    /// # Errors
    /// [`BadBench`].
    pub fn new(cable: Cable, sender: Config, receiver: Config) -> Result<Bench, BadBench> {
        let config = ethernet::Config {
            bits_per_s: cable.bits_per_s,
            mtu: cable.mtu,
            forwarding: Forwarding::CutThrough,
            switch_latency: Duration::ZERO,
            cable: Duration::from_ns(5),
            ..ethernet::Config::new(2)
        };
        Bench::on(config, sender, receiver)
    }

    /// Connects two hosts by a network of two nodes.
    ///
    /// # Errors
    /// [`BadBench`].
    pub fn on(
        network: ethernet::Config,
        sender: Config,
        receiver: Config,
    ) -> Result<Bench, BadBench> {
        let hosts = Hosts::new(Network::new(network)?, &[Some(sender), Some(receiver)])?;
        Ok(Bench { hosts, agenda: Agenda::default() })
    }

    /// Returns the hosts with their network.
    #[must_use]
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Returns the time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.agenda.now()
    }

    /// Sends datagrams from every process of the first host to the second host.
    pub fn stream(&mut self, stream: &Stream) -> Streamed {
        let processes = self.processes();
        let mut next = vec![self.agenda.now(); processes as usize];
        let begin = self.agenda.now() + stream.length.warm_up;
        self.send_until(begin, stream, &mut next);
        let before = self.counted();
        self.send_until(begin + stream.length.measured, stream, &mut next);
        self.streamed(stream, &before)
    }

    fn processes(&self) -> u32 {
        self.hosts.machine(SENDER).map_or(0, |of| of.config().cores.processes.len() as u32)
    }

    /// Runs with all senders at work.
    fn send_until(&mut self, until: Instant, stream: &Stream, next: &mut [Instant]) {
        loop {
            for (process, next) in (0..).zip(next.iter_mut()) {
                while *next <= self.agenda.now() && self.call(SENDER, process, stream.bytes) {
                    *next += stream.period;
                }
            }
            let due = next.iter().copied().filter(|&at| at > self.agenda.now()).min();
            let at = self.agenda.next_at().into_iter().chain(due).min();
            match at.filter(|&at| at <= until) {
                Some(at) => self.step(at),
                None => return self.agenda.idle_until(until),
            }
        }
    }

    /// Handles what is due by a time.
    fn step(&mut self, at: Instant) {
        match self.agenda.take(at) {
            Some(entry) => self.hosts.handle(entry, &mut self.agenda),
            None => self.agenda.idle_until(at),
        }
        while let Some(report) = self.hosts.next_report() {
            if let Report::Received { node, class } = report {
                _ = self.hosts.take(node, class, &mut self.agenda);
            }
        }
    }

    /// Begins a call to send; returns false if the process is in one.
    fn call(&mut self, node: u32, process: u32, bytes: u32) -> bool {
        let (to, at) = (RECEIVER - node, self.agenda.now());
        let message = Message { source: node, to, bytes, at, event: 0 };
        let payload = Payload::Message(message);
        let datagram = Datagram { source: node, target: to, payload };
        self.hosts.send_from(node, process, datagram, &mut self.agenda).is_ok()
    }

    fn counted(&self) -> Counted {
        let machine = |node| self.hosts.machine(node).map(|of| *of.counters()).unwrap_or_default();
        Counted {
            counters: [machine(SENDER), machine(RECEIVER)],
            cores: [self.hosts.used(SENDER), self.hosts.used(RECEIVER)],
            cable: self.hosts.links(self.agenda.now()).first().copied(),
            lost_on_wire: self.hosts.wire().counters().lost(),
        }
    }

    fn streamed(&self, stream: &Stream, before: &Counted) -> Streamed {
        let (after, measured) = (self.counted(), stream.length.measured);
        let shares = |node: usize| {
            let pairs = before.cores[node].iter().zip(&after.cores[node]);
            pairs.map(|(old, new)| Shares::of(&new.since(old), measured)).collect()
        };
        let busy = |of: &Counted| of.cable.map_or(Duration::ZERO, |link| link.busy);
        let lost = |of: &Counted, place| of.counters.iter().map(|one| one.lost(place)).sum::<u64>();
        Streamed {
            seconds: measured.as_us() / 1e6,
            bytes: stream.bytes,
            received: after.counters[1].received - before.counters[1].received,
            taken: after.counters[0].taken - before.counters[0].taken,
            sender: shares(0),
            receiver: shares(1),
            cable: (busy(&after) - busy(before)).as_us() / measured.as_us(),
            lost: Place::ALL.map(|place| lost(&after, place) - lost(before, place)),
            lost_on_wire: after.lost_on_wire - before.lost_on_wire,
        }
    }

    /// Sends `count` datagrams, one call after the other, and lets the hosts finish.
    pub fn burst(&mut self, count: u64, bytes: u32) {
        for _ in 0..count {
            while !self.call(SENDER, 0, bytes) {
                let Some(at) = self.agenda.next_at() else { return };
                self.step(at);
            }
        }
        self.drain();
    }

    /// Applies a fault to a host or its cable now.
    pub fn fault(&mut self, kind: FaultKind) {
        self.hosts.fault(kind, &mut self.agenda);
    }

    /// Lets the hosts finish everything that is under way.
    pub fn drain(&mut self) {
        while let Some(at) = self.agenda.next_at() {
            self.step(at);
        }
    }

    /// Returns the time from a call to send on one host until the call to receive returns on the
    /// other, on an idle network.
    pub fn one_way(&mut self, bytes: u32) -> Duration {
        self.rest();
        self.pass(SENDER, bytes)
    }

    /// Returns the time of a request and its answer, on an idle network.
    pub fn round_trip(&mut self, request: u32, answer: u32) -> Duration {
        self.rest();
        self.pass(SENDER, request) + self.pass(RECEIVER, answer)
    }

    /// Waits until nothing is left of earlier traffic.
    fn rest(&mut self) {
        let until = self.agenda.now() + Duration::from_us(1_000);
        self.run_until(until);
    }

    fn run_until(&mut self, until: Instant) {
        while self.agenda.next_at().is_some_and(|at| at <= until) {
            self.step(until);
        }
        self.agenda.idle_until(until);
    }

    /// Sends one datagram; returns the time until it is received.
    fn pass(&mut self, node: u32, bytes: u32) -> Duration {
        let begin = self.agenda.now();
        self.call(node, 0, bytes);
        while let Some(at) = self.agenda.next_at() {
            let Some(entry) = self.agenda.take(at) else { continue };
            self.hosts.handle(entry, &mut self.agenda);
            while let Some(report) = self.hosts.next_report() {
                if let Report::Received { node, .. } = report {
                    _ = self.hosts.take(node, Class::Request, &mut self.agenda);
                    return self.agenda.now().since(begin);
                }
            }
        }
        Duration::ZERO
    }
}
