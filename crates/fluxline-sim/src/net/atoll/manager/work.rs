//! The work of nodes: what agents, managers and watches ask for is done.

use super::act::{Act, Wake, Why};
use super::entry::{Task, Wakeup};
use super::explore::Chip;
use super::letter::Body;
use super::master::{Manager, Start};
use super::record::Record;
use super::{Cargo, Entry, Managed};
use crate::core::agenda::{Part, Schedule};

/// Looks of the watch in the time after which an input counts as blocked. A choice.
const LOOKS: u64 = 4;

impl<C: Cargo + Clone> Managed<C> {
    /// Begins the management of all nodes.
    pub(super) fn begin_all(&mut self, agenda: &mut impl Schedule<Entry>) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        let nodes = self.agents.len() as u64;
        for node in 0..self.agents.len() as u32 {
            // Nodes greet at different times.
            let interval = self.settings.hello_every.as_ps() / nodes * u64::from(node);
            let after = crate::Duration::from_ps(interval);
            agenda.schedule_after(after, Entry::Node { node, task: Task::Greet });
            let looks = crate::Duration::from_ps(self.settings.dead_after.as_ps() / LOOKS);
            agenda.schedule_after(looks, Entry::Node { node, task: Task::Watch });
        }
        let node = self.settings.manager;
        if self.is_alive[node as usize] {
            let mut acts = Vec::new();
            self.agents[node as usize].lead(&mut acts);
            self.follow(node, acts, agenda);
        }
    }

    /// Does a task of a node.
    pub(super) fn do_task(&mut self, node: u32, task: Task, agenda: &mut impl Schedule<Entry>) {
        let (index, now) = (node as usize, agenda.now());
        if !self.is_alive[index] && task != Task::Begin {
            if let Task::Letter(number) = task {
                self.desks.remove(&number);
            }
            return;
        }
        let mut acts = Vec::new();
        match task {
            Task::Begin => return self.begin_all(agenda),
            Task::Letter(number) => return self.work_on(number, agenda),
            Task::Repeat(message) => return self.repeat(node, message, agenda),
            Task::Acknowledge(source) => return self.acknowledge(node, source, agenda),
            Task::Watch => return self.watch(node, agenda),
            Task::Greet => {
                let chip = self.chip(node);
                self.agents[index].tick(&chip, now, &mut acts);
                agenda.schedule_after(self.settings.hello_every, Entry::Node { node, task });
            }
            Task::Signal => {
                let chip = self.chip(node);
                self.agents[index].signals(&chip, now, &mut acts);
            }
            Task::Wake(Wakeup(Why::Held(port))) => self.agents[index].held(port, now, &mut acts),
            Task::Wake(Wakeup(why)) => {
                let own = self.own_chip(node);
                if let Some(manager) = self.managers.get_mut(&node) {
                    manager.wake(why, own, now, &mut acts);
                }
            }
        }
        self.follow(node, acts, agenda);
    }

    fn own_chip(&self, node: u32) -> Chip {
        let agent = &self.agents[node as usize];
        let has_signal = agent.promising(&self.chip(node));
        Chip { serial: agent.serial(), has_signal, number: agent.number() }
    }

    /// Does what an agent or a manager asks for, and what follows from it.
    pub(super) fn follow(&mut self, node: u32, acts: Vec<Act>, agenda: &mut impl Schedule<Entry>) {
        let mut acts = std::collections::VecDeque::from(acts);
        while let Some(act) = acts.pop_front() {
            let mut more = Vec::new();
            match act {
                Act::Post(letter) => {
                    let is_hello = matches!(letter.body, Body::Hello(_));
                    self.counts.hellos += u64::from(is_hello);
                    self.post(node, letter, agenda);
                }
                Act::Wake(Wake { after, why }) => {
                    let task = Task::Wake(Wakeup(why));
                    agenda.schedule_after(after, Entry::Node { node, task });
                }
                Act::ForManager(body) => {
                    if let Some(manager) = self.managers.get_mut(&node) {
                        manager.take(&body, agenda.now(), &mut more);
                    }
                }
                Act::Begin => {
                    let is_first = self.managers.is_empty() && self.log.iter().next().is_none();
                    let start = if is_first { Start::Fresh } else { Start::TakeOver };
                    let own = self.own_chip(node);
                    let manager = Manager::new(self.settings, own, start, &mut more);
                    self.managers.insert(node, manager);
                }
                Act::StandDown => _ = self.managers.remove(&node),
                Act::Routes => {
                    self.counts.tables += 1;
                    self.routes_changed(node, agenda);
                }
                Act::Record(event) => {
                    self.log.add(Record { at: agenda.now(), node, event });
                }
            }
            acts.extend(more);
        }
    }

    /// Looks for blocked inputs of a chip; removes a message from one where routes are not proved.
    fn watch(&mut self, node: u32, agenda: &mut impl Schedule<Entry>) {
        let now = agenda.now();
        let dead_after = self.settings.dead_after;
        let looks = crate::Duration::from_ps(dead_after.as_ps() / LOOKS);
        agenda.schedule_after(looks, Entry::Node { node, task: Task::Watch });
        // Chips lose their patience at different times: one of a circle is enough.
        let serial = u64::from(self.agents[node as usize].serial().0 % 64);
        let patience = dead_after + crate::Duration::from_ps(dead_after.as_ps() / 64 * serial);
        let alarms = self.watches[node as usize].look(node, &self.network, patience, now);
        self.counts.alarms += alarms.iter().filter(|alarm| alarm.is_new).count() as u64;
        if self.agents[node as usize].is_safe() {
            return;
        }
        for alarm in alarms {
            let removed = self.network.remove_blocked(alarm.held, &mut Part::of(agenda));
            self.counts.removed += u64::from(removed);
        }
        self.after_chips(agenda);
    }
}
