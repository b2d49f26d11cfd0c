//! The agent of a node: it watches the links of its chip, passes letters on, keeps the routes of
//! its node, and takes over the management when no manager is left.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::act::{Act, Why};
use super::letter::{
    Ask, Body, Found, Hello, Letter, Link, Neighbour, Notice, Order, Reply, Sign, Table,
};
use super::record::Event;
use super::serial::Serial;
use super::settings::Settings;
use super::skeptic::Skeptic;
use crate::{Duration, Instant};

/// The state of a chip, as its agent reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChipState {
    /// The link ports with a signal.
    pub has_signal: [bool; 4],
    /// The link inputs that a message holds or waits at.
    pub is_busy: [bool; 4],
    /// True if the chip holds no message of a program.
    pub is_quiet: bool,
    /// Heads that have left its crossbar.
    pub heads: u32,
}

/// Intervals of greetings after which a node without routes asks for them. A choice.
const INTERVALS_WITHOUT_ROUTES: u32 = 40;
/// Intervals of greetings for which a candidate waits for a better one. A choice.
const INTERVALS_AS_CANDIDATE: u64 = 2;

/// A link port.
#[derive(Clone, Debug)]
struct Port {
    has_signal: bool,
    /// True while a repaired link is on trial.
    is_held: bool,
    /// The state in the last notice.
    link: Link,
    neighbour: Option<Neighbour>,
    heard_at: Instant,
    skeptic: Skeptic,
}

/// The part of an agent in the choice of a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It obeys a manager.
    Follower,
    /// It found no manager, and waits for a better candidate.
    Candidate(Instant),
    /// Its node has the manager.
    Chief,
}

/// The agent of a node.
#[derive(Clone, Debug)]
pub struct Agent {
    serial: Serial,
    settings: Settings,
    ports: [Port; 4],
    role: Role,
    sign: Option<Sign>,
    /// The time of the newest sign.
    signed_at: Instant,
    /// The largest number of each manager's signs: an old sign never counts as a new one.
    signs: BTreeMap<Serial, u64>,
    /// The number of its last notice.
    number: u32,
    /// The newest notice of each other chip.
    heard: BTreeMap<Serial, u32>,
    table: Option<Arc<Table>>,
    is_paused: bool,
    /// Intervals since it was paused.
    paused_for: u32,
}

impl Agent {
    /// Makes the agent of a chip at the start.
    #[must_use]
    pub fn new(serial: Serial, settings: Settings, chip: &ChipState) -> Agent {
        let port = |has_signal: bool| Port {
            has_signal,
            is_held: false,
            link: if has_signal { Link::New } else { Link::Down },
            neighbour: None,
            heard_at: Instant::START,
            skeptic: Skeptic::new(settings.hold, settings.hold_max),
        };
        Agent {
            serial,
            settings,
            ports: chip.has_signal.map(port),
            role: Role::Follower,
            sign: None,
            signed_at: Instant::START,
            signs: BTreeMap::new(),
            number: 0,
            heard: BTreeMap::new(),
            table: None,
            is_paused: true,
            paused_for: 0,
        }
    }

    /// Returns its chip.
    #[must_use]
    pub fn serial(&self) -> Serial {
        self.serial
    }

    /// Returns the routes of its node, unless it may not send now.
    #[must_use]
    pub fn routes(&self) -> Option<&Arc<Table>> {
        self.table.as_ref().filter(|_| !self.is_paused)
    }

    /// Returns true if the routes in use are proved: nothing can deadlock.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.routes().is_some_and(|table| table.is_safe)
    }

    /// Returns the chip of the manager that it obeys.
    #[must_use]
    pub fn chief(&self) -> Option<Serial> {
        self.sign.map(|sign| sign.chief)
    }

    /// Returns the number of its last notice.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Becomes the manager's agent at the start.
    pub fn lead(&mut self, acts: &mut Vec<Act>) {
        self.role = Role::Chief;
        self.sign = Some(Sign { chief: self.serial, number: 1 });
        acts.push(Act::Begin);
        self.greet(Instant::START, acts);
    }

    /// Does the work of an interval: greets neighbours, and looks for silent ones.
    pub fn tick(&mut self, chip: &ChipState, now: Instant, acts: &mut Vec<Act>) {
        let interval = self.settings.hello_every;
        if let (Role::Chief, Some(sign)) = (self.role, &mut self.sign) {
            sign.number += 1;
            self.signs.insert(self.serial, sign.number);
            self.signed_at = now;
        }
        let silence = interval.times(self.settings.manager_misses.into());
        if self.role == Role::Follower && now.since(self.signed_at) > silence {
            self.role = Role::Candidate(now);
            let number = self.signs.get(&self.serial).copied().unwrap_or(0) + 1;
            self.sign = Some(Sign { chief: self.serial, number });
            self.signed_at = now;
            self.pause(acts);
        }
        if let Role::Candidate(since) = self.role {
            self.signed_at = now;
            if now.since(since) >= interval.times(INTERVALS_AS_CANDIDATE) {
                self.role = Role::Chief;
                acts.push(Act::Begin);
            }
        }
        let has_changed = self.find_silent(chip, now);
        self.paused_for = if self.is_paused { self.paused_for + 1 } else { 0 };
        let is_forgotten = self.paused_for >= INTERVALS_WITHOUT_ROUTES;
        if has_changed || is_forgotten {
            self.paused_for = 0;
            self.notify(acts);
        }
        self.greet(now, acts);
    }

    /// Finds neighbours that have said nothing for too long. One whose greetings may wait for other
    /// messages on the link is not silent.
    fn find_silent(&mut self, chip: &ChipState, now: Instant) -> bool {
        let patience = self.settings.hello_every.times(self.settings.misses.into());
        let mut has_changed = false;
        for (port, is_busy) in self.ports.iter_mut().zip(chip.is_busy) {
            if is_busy {
                port.heard_at = now;
            }
            let is_overdue = now.since(port.heard_at) > patience;
            if port.has_signal && !port.is_held && is_overdue && port.link != Link::Silent {
                (port.link, port.neighbour) = (Link::Silent, None);
                has_changed = true;
            }
        }
        has_changed
    }

    /// Greets all neighbours.
    fn greet(&self, now: Instant, acts: &mut Vec<Act>) {
        // Neighbours must not take an old sign for a new one.
        let is_fresh = now.since(self.signed_at) <= self.settings.hello_every.times(2);
        let sign = self.sign.filter(|_| is_fresh);
        for (number, port) in (0..).zip(&self.ports) {
            if port.has_signal {
                let hello = Hello { serial: self.serial, port: number, sign };
                acts.push(Act::Post(Letter::new(vec![number], Body::Hello(hello))));
            }
        }
    }

    /// Tells all agents the state of its links.
    fn notify(&mut self, acts: &mut Vec<Act>) {
        self.number += 1;
        let notice = Notice {
            serial: self.serial,
            number: self.number,
            links: [0, 1, 2, 3].map(|port: usize| self.ports[port].link),
            wants_routes: self.is_paused,
        };
        acts.push(Act::ForManager(Body::Notice(notice)));
        self.pass_on(notice, acts);
    }

    fn pass_on(&self, notice: Notice, acts: &mut Vec<Act>) {
        for (number, _) in (0..).zip(&self.ports).filter(|(_, port)| port.has_signal) {
            acts.push(Act::Post(Letter::new(vec![number], Body::Notice(notice))));
        }
    }

    /// Reads the signals of its links after one has changed.
    pub fn signals(&mut self, chip: &ChipState, now: Instant, acts: &mut Vec<Act>) {
        let mut has_changed = false;
        for (number, has_signal) in (0_u8..).zip(chip.has_signal) {
            let port = &mut self.ports[usize::from(number)];
            if std::mem::replace(&mut port.has_signal, has_signal) == has_signal {
                continue;
            }
            if has_signal {
                port.is_held = true;
                port.heard_at = now;
                acts.push(Act::wake(port.skeptic.came_up(now), Why::Held(number)));
            } else {
                port.skeptic.went_down(now);
                has_changed |= !port.is_held;
                (port.is_held, port.neighbour, port.link) = (false, None, Link::Down);
            }
        }
        if has_changed {
            self.notify(acts);
        }
    }

    /// Ends the trial of a repaired link, if it has been up all the time.
    pub fn held(&mut self, number: u8, now: Instant, acts: &mut Vec<Act>) {
        let port = &mut self.ports[usize::from(number)];
        if !port.is_held || !port.has_signal {
            return;
        }
        let left = port.skeptic.hold_left(now);
        if left > Duration::ZERO {
            // It went down and came up meanwhile.
            return acts.push(Act::wake(left, Why::Held(number)));
        }
        port.is_held = false;
        if let Some(neighbour) = port.neighbour {
            port.link = Link::Up(neighbour);
            self.notify(acts);
        }
    }

    /// Takes a letter that has reached its end at this chip.
    pub fn take(&mut self, letter: &Letter, chip: &ChipState, now: Instant, acts: &mut Vec<Act>) {
        let arrival = letter.back.last().copied();
        match &letter.body {
            Body::Hello(hello) => {
                if let Some(port) = arrival {
                    self.hello(hello, port, now, acts);
                }
            }
            Body::Notice(notice) => self.notice(*notice, acts),
            Body::Probe(probe) => {
                if let Some(arrival) = arrival {
                    let found = Found {
                        probe: *probe,
                        serial: self.serial,
                        arrival,
                        has_signal: self.promising(chip),
                        number: self.number,
                    };
                    acts.push(Act::Post(letter.answer(Body::Found(found))));
                }
            }
            Body::Ask(ask) => self.obey(ask, letter, chip, acts),
            Body::Found(_) | Body::Reply(_) => acts.push(Act::ForManager(letter.body.clone())),
        }
    }

    /// Returns the ports that are worth a probe: they have a signal, and are not known as silent.
    #[must_use]
    pub fn promising(&self, chip: &ChipState) -> [bool; 4] {
        let of = |port: usize| chip.has_signal[port] && self.ports[port].link != Link::Silent;
        [0, 1, 2, 3].map(of)
    }

    fn hello(&mut self, hello: &Hello, number: u8, now: Instant, acts: &mut Vec<Act>) {
        let neighbour = Neighbour { serial: hello.serial, port: hello.port };
        let port = &mut self.ports[usize::from(number)];
        (port.neighbour, port.heard_at) = (Some(neighbour), now);
        if port.is_held || !port.has_signal {
            return;
        }
        let before = std::mem::replace(&mut port.link, Link::Up(neighbour));
        // At the start, probes find the links; later, notices report them.
        let is_news = before == Link::Silent || (before == Link::Down && self.table.is_some());
        if is_news && before != Link::Up(neighbour) {
            self.notify(acts);
        }
        if let Some(sign) = hello.sign {
            self.consider(sign, now, acts);
        }
    }

    /// Compares the sign of a manager with that of its own.
    fn consider(&mut self, theirs: Sign, now: Instant, acts: &mut Vec<Act>) {
        let silence = self.settings.hello_every.times(3);
        let is_stale = self.role == Role::Follower && now.since(self.signed_at) > silence;
        let newest = self.signs.get(&theirs.chief).copied().unwrap_or(0);
        if theirs.number <= newest || theirs.chief == self.serial {
            return;
        }
        match self.sign {
            Some(own) if own.chief == theirs.chief => {}
            Some(own) if own.chief < theirs.chief && !is_stale => return,
            Some(_) => {
                if self.role != Role::Follower {
                    self.role = Role::Follower;
                    acts.push(Act::StandDown);
                    acts.push(Act::Record(Event::StoodDown { chief: theirs.chief }));
                }
                self.pause(acts);
            }
            None => {}
        }
        (self.sign, self.signed_at) = (Some(theirs), now);
        self.signs.insert(theirs.chief, theirs.number);
        self.greet(now, acts);
    }

    /// Takes the notice of another chip, and passes it on if it is new.
    fn notice(&mut self, notice: Notice, acts: &mut Vec<Act>) {
        let newest = self.heard.entry(notice.serial).or_insert(0);
        if notice.serial == self.serial || notice.number <= *newest {
            return;
        }
        *newest = notice.number;
        acts.push(Act::ForManager(Body::Notice(notice)));
        self.pass_on(notice, acts);
    }

    fn pause(&mut self, acts: &mut Vec<Act>) {
        if !std::mem::replace(&mut self.is_paused, true) {
            self.paused_for = 0;
            acts.push(Act::Routes);
        }
    }

    /// Obeys an order of its manager; that of another one is dropped.
    fn obey(&mut self, ask: &Ask, letter: &Letter, chip: &ChipState, acts: &mut Vec<Act>) {
        if self.sign.is_none_or(|sign| sign.chief != ask.chief) {
            return;
        }
        match &ask.order {
            Order::Pause => self.pause(acts),
            Order::Quiet => {}
            Order::Install(table) => {
                self.table = Some(Arc::clone(table));
                self.is_paused = false;
                acts.push(Act::Routes);
            }
        }
        let reply = Reply {
            serial: self.serial,
            round: ask.round,
            is_quiet: chip.is_quiet,
            heads: chip.heads,
        };
        acts.push(Act::Post(letter.answer(Body::Reply(reply))));
    }
}
