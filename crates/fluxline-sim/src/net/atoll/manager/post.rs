//! Letters: from chip to chip, and to the agents.

use super::super::routes::Path;
use super::super::wiring::LINKS;
use super::agent::ChipState;
use super::driver::LETTERS_MAX;
use super::entry::Task;
use super::letter::{Body, Letter};
use super::{Cargo, Desk, Entry, Managed};
use crate::core::agenda::Schedule;
use crate::net::atoll::deadlock::Held;

impl<C: Cargo + Clone> Managed<C> {
    /// Returns the state of a chip, as its agent reads it.
    pub(super) fn chip(&self, node: u32) -> ChipState {
        let ports = [0, 1, 2, 3];
        ChipState {
            has_signal: ports.map(|port| self.network.is_link_up(node, port)),
            is_busy: ports.map(|input| {
                let has_front = self.network.front(Held { node, input }).is_some();
                has_front || self.network.is_held(node, input)
            }),
            is_quiet: self.network.is_quiet(node),
            heads: self.network.heads(node),
        }
    }

    /// Sends a letter one chip further, or to the agent of this node.
    pub(super) fn post(&mut self, node: u32, letter: Letter, agenda: &mut impl Schedule<Entry>) {
        let Some(port) = letter.next_port() else {
            return self.hand_over(node, letter, agenda);
        };
        if matches!(letter.body, Body::Probe(_)) && letter.back.is_empty() {
            self.counts.probes += 1;
        }
        if matches!(letter.body, Body::Ask(_)) && letter.back.is_empty() {
            self.counts.questions += 1;
        }
        let waiting = &mut self.drivers[node as usize].letters[usize::from(port % 4)];
        let has_signal = self.network.is_link_up(node, port.into());
        if !has_signal || waiting.len() >= LETTERS_MAX {
            self.counts.letters_dropped += 1;
            return;
        }
        waiting.push_back(letter);
        self.pump(node, agenda);
    }

    /// Gives a letter to the agent of a node, which works on one after the other.
    pub(super) fn hand_over(
        &mut self,
        node: u32,
        letter: Letter,
        agenda: &mut impl Schedule<Entry>,
    ) {
        if !self.is_alive[node as usize] {
            return;
        }
        let free = &mut self.free[node as usize];
        *free = agenda.now().max(*free) + self.settings.agent_time;
        self.desk_count += 1;
        let number = self.desk_count;
        self.desks.insert(number, Desk { node, letter });
        agenda.schedule(*free, Entry::Node { node, task: Task::Letter(number) });
    }

    /// Takes a letter that has crossed a link, and notes the port by which it came.
    pub(super) fn letter_arrived(
        &mut self,
        node: u32,
        from: u32,
        mut letter: Letter,
        agenda: &mut impl Schedule<Entry>,
    ) {
        let Some(port) = letter.next_port() else { return };
        let far = self.network.config().wiring.end_of(from, port.into());
        letter.back.push((far % LINKS) as u8);
        self.hand_over(node, letter, agenda);
    }

    /// Does the work of an agent on a letter.
    pub(super) fn work_on(&mut self, number: u64, agenda: &mut impl Schedule<Entry>) {
        let Some(Desk { node, letter }) = self.desks.remove(&number) else { return };
        if !self.is_alive[node as usize] {
            return;
        }
        if letter.next_port().is_some() {
            return self.post(node, letter, agenda);
        }
        let (chip, now) = (self.chip(node), agenda.now());
        let mut acts = Vec::new();
        self.agents[node as usize].take(&letter, &chip, now, &mut acts);
        self.follow(node, acts, agenda);
    }

    /// Returns the path of a single link.
    pub(super) fn one_link(port: u8) -> Path {
        let mut path = Path::default();
        path.push(port.into());
        path
    }
}
