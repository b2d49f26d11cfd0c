//! The manager: it explores the network, computes routes, brings them to all nodes, and does so
//! again when something changes.
//!
//! ```text
//!   exploring ──▶ planning ──▶ installing ──▶ resting ──▶ waiting for more news
//!       ▲             │             ▲                             │
//!       │             ▼             │                             │
//!       │          pausing ──▶ draining                           │
//!       └─────────────────────────────────────────────────────────┘
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use super::act::{Act, Why};
use super::explore::{Chip, Exploration, Probe};
use super::letter::{Ask, Body, Found, Letter, Notice, Order, Reply};
use super::map::{Change, Map, NodeState};
use super::plan::Plan;
use super::record::{Event, Switch};
use super::serial::Serial;
use super::settings::Settings;
use crate::{Duration, Instant};

/// Departures of a question before its agent counts as silent. A choice: with doubled waits, a
/// message of 16 MB ahead of it does not make an agent silent.
const TRIES: u32 = 8;

/// The work of a manager at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Exploring,
    /// Routes are being computed.
    Planning,
    Pausing,
    /// Old messages leave the network. `heads` has the counts of the last round, if all chips were
    /// quiet in it.
    Draining {
        since: Instant,
        heads: Option<BTreeMap<u32, u32>>,
    },
    Installing,
    /// Further news may come.
    Waiting,
    Resting,
}

/// A question that an agent has not answered.
#[derive(Clone, Debug)]
struct Question {
    letter: Letter,
    tries: u32,
}

/// A round: a question to each agent.
#[derive(Clone, Debug, Default)]
struct Round {
    number: u32,
    open: BTreeMap<u32, Question>,
    replies: BTreeMap<u32, Reply>,
}

/// The routes that nodes may use now.
#[derive(Clone, Debug, Default)]
struct InUse {
    /// Each of them, in any mixture.
    plans: Vec<Arc<Plan>>,
    /// True if a former manager may have installed others.
    has_others: bool,
}

/// The manager of a network.
#[derive(Clone, Debug)]
pub struct Manager {
    serial: Serial,
    settings: Settings,
    phase: Phase,
    map: Map,
    exploration: Option<Exploration>,
    probes: u32,
    /// Notices that came during an exploration.
    notices: Vec<Notice>,
    /// True if there are chips behind a link that the map does not show.
    must_explore: bool,
    /// True if the last exploration gave a probe up.
    has_gaps: bool,
    round: Round,
    /// The number of the last wait.
    wait: u32,
    next: Option<Arc<Plan>>,
    switch: Switch,
    in_use: InUse,
    epoch: u32,
}

/// The beginning of a manager's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// No node has routes.
    Fresh,
    /// Another manager may have installed routes.
    TakeOver,
}

impl Manager {
    /// Makes the manager of a network, at a chip, and begins to explore.
    #[must_use]
    pub fn new(settings: Settings, own: Chip, start: Start, acts: &mut Vec<Act>) -> Manager {
        let mut manager = Manager {
            serial: own.serial,
            settings,
            phase: Phase::Exploring,
            map: Map::default(),
            exploration: None,
            probes: 0,
            notices: Vec::new(),
            must_explore: false,
            has_gaps: false,
            round: Round::default(),
            wait: 0,
            next: None,
            switch: Switch::First,
            in_use: InUse { plans: Vec::new(), has_others: start == Start::TakeOver },
            epoch: 0,
        };
        acts.push(Act::Record(Event::Began));
        manager.explore(own, acts);
        manager
    }

    /// Returns its map.
    #[must_use]
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Returns the routes that all nodes have, or will have soon.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.in_use.plans.last().map(|plan| &**plan)
    }

    /// Returns true if nothing is left to do.
    #[must_use]
    pub fn is_resting(&self) -> bool {
        self.phase == Phase::Resting
    }

    fn explore(&mut self, own: Chip, acts: &mut Vec<Act>) {
        self.phase = Phase::Exploring;
        self.must_explore = false;
        self.exploration = Some(Exploration::new(self.map.clone(), own, self.probes));
        self.send_probes(acts);
    }

    fn send_probes(&mut self, acts: &mut Vec<Act>) {
        let Some(exploration) = &mut self.exploration else { return };
        while let Some(probe) = exploration.next_probe() {
            send_probe(&self.settings, probe, acts);
        }
        let last = exploration.last();
        self.has_gaps = exploration.has_given_up();
        let Some(map) = exploration.finished() else { return };
        let was_present: Vec<u32> = self.map.present().collect();
        let is_joined = map.present().any(|id| !was_present.contains(&id));
        // Nodes that join the network may have routes of another manager.
        self.in_use.has_others |= is_joined && !self.in_use.plans.is_empty();
        self.map = map.clone();
        let probes = last - std::mem::replace(&mut self.probes, last);
        self.exploration = None;
        for notice in std::mem::take(&mut self.notices) {
            self.map.apply(&notice);
        }
        let nodes = self.map.present().count() as u32;
        let links = self.map.links().count() as u32;
        acts.push(Act::Record(Event::Explored { nodes, links, probes }));
        self.begin_plan(acts);
    }

    fn begin_plan(&mut self, acts: &mut Vec<Act>) {
        if let Some(own) = self.map.id_of(self.serial) {
            self.map.mark_unreachable(own);
        }
        self.phase = Phase::Planning;
        self.wait += 1;
        let nodes = self.map.present().count() as u64;
        let time = self.settings.pair_time.times(nodes * nodes);
        acts.push(Act::wake(time, Why::Planned(self.wait)));
    }

    /// Computes routes, and begins to install them.
    fn plan_now(&mut self, now: Instant, acts: &mut Vec<Act>) {
        let root = self.map.id_of(self.serial);
        let plan = match Plan::of(&self.map, self.settings.algorithm, root) {
            Ok(plan) => Arc::new(plan),
            Err(defect) => {
                self.phase = Phase::Resting;
                return acts.push(Act::Record(Event::Defect(defect)));
            }
        };
        let in_use = &self.in_use;
        self.switch = if in_use.plans.is_empty() && !in_use.has_others {
            Switch::First
        } else if !in_use.has_others && plan.agrees_with(in_use.plans.iter().map(|of| &**of)) {
            Switch::Running
        } else {
            Switch::Stopped
        };
        let (algorithm, cycle, switch) = (plan.algorithm, plan.cycle.clone(), self.switch);
        acts.push(Act::Record(Event::Planned { algorithm, cycle, switch }));
        self.next = Some(plan);
        if self.switch == Switch::Stopped {
            self.phase = Phase::Pausing;
            return self.ask(|_, _| Order::Pause, now, acts);
        }
        self.install(now, acts);
    }

    fn install(&mut self, now: Instant, acts: &mut Vec<Act>) {
        let Some(plan) = self.next.clone() else { return };
        self.phase = Phase::Installing;
        self.epoch += 1;
        self.in_use.plans.push(Arc::clone(&plan));
        let epoch = self.epoch;
        let order = |map: &Map, id| Order::Install(Arc::new(plan.table(map, id, epoch)));
        self.ask(order, now, acts);
    }

    /// Begins a round: an order for each agent.
    fn ask(&mut self, order: impl Fn(&Map, u32) -> Order, now: Instant, acts: &mut Vec<Act>) {
        self.round = Round { number: self.round.number + 1, ..Round::default() };
        let (number, chief) = (self.round.number, self.serial);
        let Some(own) = self.map.id_of(chief) else { return };
        let ways = self.map.ways(own);
        let count = ways.iter().flatten().count() as u64;
        for (id, way) in (0..).zip(ways) {
            let is_present = self.map.nodes()[id as usize].state == NodeState::Present;
            let Some(way) = way.filter(|_| is_present) else { continue };
            let ask = Ask { chief, round: number, order: order(&self.map, id) };
            let letter = Letter::new(way, Body::Ask(ask));
            acts.push(Act::Post(letter.clone()));
            acts.push(Act::wake(self.answer_wait(count, 1), Why::Answer { round: number, id }));
            self.round.open.insert(id, Question { letter, tries: 1 });
        }
        self.end_round_if_over(now, acts);
    }

    /// Returns the wait for an answer when `count` agents are asked at the same time: their
    /// letters queue at the agents next to the manager.
    fn answer_wait(&self, count: u64, tries: u32) -> Duration {
        let queue = self.settings.agent_time.times(4 * count);
        (self.settings.answer_wait + queue).times(1 << (tries - 1).min(16))
    }

    fn end_round_if_over(&mut self, now: Instant, acts: &mut Vec<Act>) {
        if !self.round.open.is_empty() {
            return;
        }
        match self.phase.clone() {
            Phase::Pausing => {
                self.phase = Phase::Draining { since: now, heads: None };
                self.ask(|_, _| Order::Quiet, now, acts);
            }
            Phase::Draining { since, heads } => self.drain(since, heads, now, acts),
            Phase::Installing => {
                let newest = self.in_use.plans.pop();
                self.in_use = InUse { plans: newest.into_iter().collect(), has_others: false };
                self.phase = Phase::Resting;
                let (epoch, switch) = (self.epoch, self.switch);
                acts.push(Act::Record(Event::Installed { epoch, switch }));
                if std::mem::take(&mut self.has_gaps) {
                    self.explore_later(acts);
                }
            }
            Phase::Exploring | Phase::Planning | Phase::Waiting | Phase::Resting => {}
        }
    }

    /// Explores again when agents have had time to find their silent neighbours, whose ports are
    /// not probed then: what still does not answer was too busy before.
    fn explore_later(&mut self, acts: &mut Vec<Act>) {
        let silence = self.settings.hello_every.times(self.settings.misses.into());
        (self.phase, self.must_explore) = (Phase::Waiting, true);
        self.wait += 1;
        acts.push(Act::wake(silence.times(2), Why::News(self.wait)));
    }

    /// Ends the draining when all chips were quiet in two rounds, and no head moved in between.
    fn drain(
        &mut self,
        since: Instant,
        before: Option<BTreeMap<u32, u32>>,
        now: Instant,
        acts: &mut Vec<Act>,
    ) {
        let replies = &self.round.replies;
        let is_quiet = replies.values().all(|reply| reply.is_quiet);
        let heads: BTreeMap<u32, u32> =
            replies.iter().map(|(&id, reply)| (id, reply.heads)).collect();
        let is_over = is_quiet && before.as_ref() == Some(&heads);
        if !is_over && now.since(since) < self.settings.drain_max {
            self.phase = Phase::Draining { since, heads: is_quiet.then_some(heads) };
            return self.ask(|_, _| Order::Quiet, now, acts);
        }
        acts.push(Act::Record(if is_over { Event::Drained } else { Event::NotDrained }));
        self.in_use = InUse::default();
        self.install(now, acts);
    }

    /// Takes the content of a letter. `own` is the manager's chip.
    pub fn take(&mut self, body: &Body, now: Instant, acts: &mut Vec<Act>) {
        match body {
            Body::Found(found) => self.found(found, acts),
            Body::Reply(reply) => self.reply(*reply, now, acts),
            Body::Notice(notice) => self.news(*notice, acts),
            Body::Hello(_) | Body::Probe(_) | Body::Ask(_) => {}
        }
    }

    fn found(&mut self, found: &Found, acts: &mut Vec<Act>) {
        let exploration = self.exploration.as_mut();
        if exploration.is_some_and(|exploration| exploration.answered(found)) {
            self.send_probes(acts);
        }
    }

    fn reply(&mut self, reply: Reply, now: Instant, acts: &mut Vec<Act>) {
        let Some(id) = self.map.id_of(reply.serial) else { return };
        let is_due = reply.round == self.round.number && self.round.open.remove(&id).is_some();
        if is_due {
            self.round.replies.insert(id, reply);
            self.end_round_if_over(now, acts);
        }
    }

    fn news(&mut self, notice: Notice, acts: &mut Vec<Act>) {
        acts.push(Act::Record(Event::News(notice)));
        if self.phase == Phase::Exploring {
            return self.notices.push(notice);
        }
        match self.map.apply(&notice) {
            Change::Unknown => self.must_explore = true,
            Change::No if !notice.wants_routes => return,
            Change::No | Change::Links => {}
        }
        self.wait_for_news(acts);
    }

    /// Ends the present work, and begins again when further news had time to come.
    fn wait_for_news(&mut self, acts: &mut Vec<Act>) {
        self.round.open.clear();
        self.phase = Phase::Waiting;
        self.wait += 1;
        acts.push(Act::wake(self.settings.news_wait, Why::News(self.wait)));
    }

    /// Wakes up. `own` is the manager's chip.
    pub fn wake(&mut self, why: Why, own: Chip, now: Instant, acts: &mut Vec<Act>) {
        match why {
            Why::Probe(number) => {
                let Some(exploration) = &mut self.exploration else { return };
                if let Some(probe) = exploration.overdue(number) {
                    send_probe(&self.settings, probe, acts);
                }
                self.send_probes(acts);
            }
            Why::Answer { round, id } if round == self.round.number => {
                self.overdue(id, acts);
                self.end_round_if_over(now, acts);
            }
            Why::News(wait) if wait == self.wait && self.phase == Phase::Waiting => {
                if self.must_explore { self.explore(own, acts) } else { self.begin_plan(acts) }
            }
            Why::Planned(wait) if wait == self.wait && self.phase == Phase::Planning => {
                self.plan_now(now, acts);
            }
            Why::Answer { .. } | Why::News(_) | Why::Planned(_) | Why::Held(_) => {}
        }
    }

    /// Asks an agent again, or counts it as silent.
    fn overdue(&mut self, id: u32, acts: &mut Vec<Act>) {
        let count = self.map.present().count() as u64;
        let round = self.round.number;
        let Some(question) = self.round.open.get_mut(&id) else { return };
        question.tries += 1;
        let (tries, letter) = (question.tries, question.letter.clone());
        if tries <= TRIES {
            acts.push(Act::Post(letter));
            acts.push(Act::wake(self.answer_wait(count, tries), Why::Answer { round, id }));
            return;
        }
        self.round.open.remove(&id);
        acts.push(Act::Record(Event::NoAnswer { id }));
        if Some(id) != self.map.id_of(self.serial) && self.map.silence(id) {
            self.wait_for_news(acts);
        }
    }
}

fn send_probe(settings: &Settings, probe: Probe, acts: &mut Vec<Act>) {
    let Probe { number, route, tries } = probe;
    let ways = settings.agent_time.times(4 * route.len() as u64);
    let wait = (settings.answer_wait + ways).times(1 << (tries - 1).min(16));
    acts.push(Act::Post(Letter::new(route, Body::Probe(number))));
    acts.push(Act::wake(wait, Why::Probe(number)));
}
