//! Facts about a host, before judgement. Absent: the host does not say.

use std::collections::BTreeMap;

use super::card::Card;
use super::check::Check;
use super::concern;
use super::files::Files;
use super::firewall::Firewall;
use super::interrupts::{Backlog, Interrupts};
use super::limits::Limits;
use super::load::Load;
use super::losses::Losses;
use super::memory::Memory;
use super::path::Paths;
use super::processor::Processor;
use super::rule::Needs;
use super::sockets::Sockets;

/// Everything that the checks judge; each group has a file of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// The kernel's queues and buffers.
    pub sockets: Sockets,
    /// The interfaces but loopback, by name.
    pub cards: BTreeMap<String, Card>,
    /// The cores that handle interrupts.
    pub interrupts: Interrupts,
    /// Drops since boot.
    pub losses: Losses,
    /// Cores, their clocks and their sleep.
    pub processor: Processor,
    /// Shared memory, huge pages.
    pub memory: Memory,
    /// The limits of this process.
    pub limits: Limits,
    /// Rules and connection tracking.
    pub firewall: Firewall,
    /// Routes to the sensors.
    pub paths: Paths,
}

impl HostFacts {
    /// Reads a host; of this one, the kernel is asked for what no file says.
    ///
    /// `load`: the experiment whose sensors' paths are asked for. Cost: some hundred small files,
    /// some ioctls per interface; no packet is sent.
    #[must_use]
    pub fn read(files: &Files, load: Option<&Load>) -> HostFacts {
        let mut facts = HostFacts {
            sockets: Sockets::read(files),
            cards: Card::read_all(files),
            interrupts: Interrupts::read(files),
            losses: Losses::read(files),
            processor: Processor::read(files),
            memory: Memory::read(files),
            limits: Limits::read(files),
            firewall: Firewall::read(files),
            paths: Paths::read(files),
        };
        if files.is_this_host() {
            for (name, card) in &mut facts.cards {
                card.ask_driver(name);
            }
            super::card::ask_addresses(&mut facts.cards);
            facts.firewall.ask_kernel();
            facts.memory.ask_kernel();
            facts.paths.ask_kernel(load);
        }
        facts
    }

    /// Judges the facts, worst first; with an experiment, only what concerns it.
    #[must_use]
    pub fn judge(&self, load: Option<&Load>) -> Vec<Check> {
        let mut checks = Vec::new();
        for (name, card) in self.cards.iter().filter(|(_, card)| card.up) {
            if concern::concerns(&self.cards, name, load) {
                card.judge(name, load, &mut checks);
                self.interrupts.judge(name, card, load, &mut checks);
                checks.extend(self.interrupts.judge_rps(name, card, self.backlog(), load));
            }
        }
        self.sockets.judge(load, &mut checks);
        self.paths.judge(load, &mut checks);
        self.firewall.judge(load, &mut checks);
        self.losses.judge(&self.sockets, &mut checks);
        self.losses.judge_cards(&self.cards, load, &mut checks);
        self.processor.judge(load, &mut checks);
        self.memory.judge(load, &mut checks);
        self.limits.judge(load, &mut checks);
        self.interrupts.judge_balancer(load, &mut checks);
        checks.retain(|check| load.is_none_or(|load| is_needed(check.rule.needs, load)));
        checks.sort_by_key(|check| std::cmp::Reverse(check.verdict));
        checks
    }

    /// Returns the state of the kernel's backlog since boot.
    fn backlog(&self) -> Backlog {
        let dropped = self.losses.softnet.iter().any(|core| core.dropped > 0);
        match self.sockets.squeezed > 0 || dropped {
            true => Backlog::Overflowed,
            false => Backlog::Sufficed,
        }
    }
}

fn is_needed(needs: Needs, load: &Load) -> bool {
    match needs {
        Needs::Nothing => true,
        Needs::Sockets => load.socket_streams().next().is_some(),
        Needs::Cards => load.card_streams().next().is_some(),
        Needs::Shared => load.shared_streams().next().is_some(),
    }
}
