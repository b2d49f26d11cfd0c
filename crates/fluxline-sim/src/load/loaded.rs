//! A network under traffic: the one generator of load for every network.

use std::collections::{BTreeSet, VecDeque};

use super::carrier::{Answer, Carrier, EntryOf, FrameOf};
use super::host::Host;
use super::observer::Observer;
use super::sweep::Experiment;
use super::tickets::{Ticket, Tickets};
use super::traffic::{EventCounts, Message, Workload};
use crate::core::ahead::Nearness;
use crate::core::fault::{Fault, FaultKind};
use crate::core::interconnect::{
    Class, CoreUse, Interconnect, LinkUse, Loss, Refusal, Report, SendId,
};
use crate::host::config::Bus;
use crate::{Agenda, Duration, Instant, Model};

/// Most messages that wait at a node; later ones of an open loop are dropped. Assumed: far more
/// than wait below saturation.
pub const SOURCE_MESSAGES: usize = 1024;

/// An entry of the agenda of a network under traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<N> {
    /// A node makes a message.
    Make {
        /// The node.
        source: u32,
        /// The kind of this entry, [`Carrier::MADE`].
        kind: u8,
    },
    /// An entry of the network.
    Network(N),
    /// A fault.
    Fault(FaultKind),
    /// A message has crossed the bus of a host to the card.
    Left(u32),
    /// A frame has crossed the bus of a host to memory.
    Landed(u32),
    /// The workload changes by itself.
    Moment,
}

/// The kinds of entries besides those of networks; no network has them.
const FAULT: u8 = u8::MAX - 1;
const LEFT: u8 = u8::MAX - 2;
const LANDED: u8 = u8::MAX - 3;
const MOMENT: u8 = u8::MAX - 4;

/// Returns the name of a kind of entries, for traces.
pub fn kind_name<C: Carrier>(kind: u8) -> &'static str {
    match kind {
        kind if kind == C::MADE => "message made",
        FAULT => "fault",
        LEFT => "message on the card",
        LANDED => "frame in memory",
        MOMENT => "trigger or time-out",
        kind => C::Network::kind_name(kind),
    }
}

impl<N> From<N> for Entry<N> {
    fn from(entry: N) -> Entry<N> {
        Entry::Network(entry)
    }
}

impl<N: crate::Entry> crate::Entry for Entry<N> {
    fn component(&self) -> u32 {
        match self {
            Entry::Make { source, .. } => *source,
            Entry::Network(entry) => entry.component(),
            Entry::Fault(kind) => kind.node(),
            Entry::Left(node) | Entry::Landed(node) => *node,
            Entry::Moment => 0,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Entry::Make { kind, .. } => *kind,
            Entry::Network(entry) => entry.kind(),
            Entry::Fault(_) => FAULT,
            Entry::Left(_) => LEFT,
            Entry::Landed(_) => LANDED,
            Entry::Moment => MOMENT,
        }
    }
}

/// One node's program.
#[derive(Debug)]
struct Node<F> {
    /// The next message, in an open loop.
    next: Option<Message>,
    /// Messages that wait for the send queue.
    waiting: VecDeque<Message>,
    /// Parts of the first of them that were sent.
    parts: u32,
    /// Answers that wait for the send queue.
    answers: VecDeque<Answer<F>>,
    /// The host; `None`: messages reach the card at once.
    host: Option<Box<Host<F>>>,
}

/// Messages since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    offered: u64,
    delivered: u64,
    /// Dropped by their sources.
    refused: u64,
    /// Given up, without those that the carrier counts.
    lost: u64,
}

/// A network, its traffic, and its observer.
pub struct Loaded<C: Carrier> {
    network: C::Network,
    carrier: C,
    traffic: Box<dyn Workload>,
    nodes: Vec<Node<FrameOf<C>>>,
    tickets: Tickets,
    /// Nodes whose program crashed: they take frames, and neither send nor answer.
    crashed: BTreeSet<u32>,
    observer: Observer,
    is_closed: bool,
    totals: Totals,
    quiet: Duration,
    /// The first mistake of the workload.
    mistake: Option<String>,
    /// The next moment of the workload on the agenda.
    moment: Option<Instant>,
}

/// The settings of a network under traffic.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// The faults. Those at the very start happen before any message.
    pub faults: &'a [Fault],
    /// The time before the first message of an open loop.
    pub quiet: Duration,
    /// The bus of each node's host; empty: no node has one.
    pub hosts: &'a [Option<Bus>],
}

impl Default for Settings<'_> {
    fn default() -> Self {
        Settings { faults: &[], quiet: Duration::ZERO, hosts: &[] }
    }
}

impl<C: Carrier> Loaded<C> {
    /// Makes a network under traffic, with the first messages of every node on the agenda.
    pub fn new(
        network: C::Network,
        carrier: C,
        traffic: impl Workload + 'static,
        settings: &Settings<'_>,
        agenda: &mut Agenda<Entry<EntryOf<C>>>,
    ) -> Loaded<C> {
        let count = traffic.nodes();
        let node = |number: u32| Node {
            next: None,
            waiting: VecDeque::new(),
            parts: 0,
            answers: VecDeque::new(),
            host: settings
                .hosts
                .get(number as usize)
                .copied()
                .flatten()
                .map(Host::new)
                .map(Box::new),
        };
        let mut loaded = Loaded {
            is_closed: traffic.is_closed_loop(),
            network,
            carrier,
            traffic: Box::new(traffic),
            nodes: (0..count).map(node).collect(),
            tickets: Tickets::default(),
            crashed: BTreeSet::new(),
            observer: Observer::new(count),
            totals: Totals::default(),
            quiet: settings.quiet,
            mistake: None,
            moment: None,
        };
        loaded.network.begin(agenda);
        for fault in settings.faults {
            if fault.at == Instant::START {
                loaded.fault(fault.kind, agenda);
            } else {
                agenda.schedule(fault.at, Entry::Fault(fault.kind));
            }
        }
        for source in 0..count {
            loaded.plan_next(source, agenda);
            loaded.send_waiting(source, agenda);
        }
        loaded.ask_ready(agenda);
        loaded.follow_reports(agenda);
        loaded
    }

    /// Returns the network.
    #[must_use]
    pub fn network(&self) -> &C::Network {
        &self.network
    }

    /// Returns the network, to be changed.
    pub fn network_mut(&mut self) -> &mut C::Network {
        &mut self.network
    }

    /// Returns the number of messages that were given up since the start and have not arrived:
    /// those that the network lost, and those of a node whose program ended.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.totals.lost + self.carrier.lost()
    }

    /// Returns the number of messages that are under way: neither delivered nor dropped by their
    /// source nor lost.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        let Totals { offered, delivered, refused, .. } = self.totals;
        offered.saturating_sub(delivered + refused + self.lost())
    }

    /// Makes a source's next message, or all that its window takes.
    fn plan_next(&mut self, source: u32, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        if self.crashed.contains(&source) {
            return;
        }
        while let Some(mut message) = self.traffic.next(source, agenda.now()) {
            message.at += self.quiet;
            if self.is_closed {
                message.at = message.at.min(agenda.now());
            }
            if let Some(mistake) = self.mistake_of(&message, source, agenda.now()) {
                self.mistake.get_or_insert(mistake);
                return;
            }
            if !self.is_closed {
                self.nodes[source as usize].next = Some(message);
                agenda.schedule(message.at, Entry::Make { source, kind: C::MADE });
                return;
            }
            self.offer(&message);
            self.bring_to_card(message, agenda);
        }
    }

    /// Returns the mistake in a message of a workload, if there is one.
    fn mistake_of(&self, message: &Message, source: u32, now: Instant) -> Option<String> {
        let Message { to, bytes, at, .. } = *message;
        let problem = if message.source != source {
            format!("of node {}", message.source)
        } else if to as usize >= self.nodes.len() || to == source {
            format!("to node {to}; another node from 0 to {} is needed", self.nodes.len() - 1)
        } else if bytes == 0 {
            "without bytes".to_owned()
        } else if at < now && !self.is_closed {
            format!("at {at}, which is before now, {now}")
        } else {
            return None;
        };
        Some(format!("the workload gives node {source} a message {problem}"))
    }

    fn offer(&mut self, message: &Message) {
        self.totals.offered += 1;
        if self.traffic.is_payload(message) {
            self.observer.offered(message);
        }
    }

    /// Asks the nodes that became ready for messages, and plans the next moment of the workload.
    fn ask_ready(&mut self, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        while let Some(node) = self.traffic.ready() {
            self.plan_next(node, agenda);
            self.send_waiting(node, agenda);
        }
        if let Some(at) = self.traffic.next_moment()
            && self.moment.is_none_or(|planned| at < planned)
        {
            self.moment = Some(at);
            agenda.schedule(at.max(agenda.now()), Entry::Moment);
        }
    }

    /// Lets the workload change.
    fn moment(&mut self, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        self.moment = None;
        self.traffic.moment(agenda.now());
        self.ask_ready(agenda);
    }

    fn make(&mut self, source: u32, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        if let Some(message) = self.nodes[source as usize].next.take() {
            self.offer(&message);
            let node = &self.nodes[source as usize];
            let waiting = node.waiting.len() + node.host.as_ref().map_or(0, |host| host.leaving());
            if waiting < SOURCE_MESSAGES && self.network.accepts(source) {
                self.bring_to_card(message, agenda);
            } else {
                self.totals.refused += 1;
                self.observer.refused(message.bytes);
            }
        }
        self.send_waiting(source, agenda);
        self.plan_next(source, agenda);
    }

    /// Brings a message to the card, over the bus of the host if there is one.
    fn bring_to_card(&mut self, message: Message, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        let node = &mut self.nodes[message.source as usize];
        match &mut node.host {
            None => node.waiting.push_back(message),
            Some(host) => {
                let at = host.leave(message, agenda.now());
                agenda.schedule(at, Entry::Left(message.source));
            }
        }
    }

    /// Continues with a message that has reached the card.
    fn left(&mut self, number: u32, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        let node = &mut self.nodes[number as usize];
        node.waiting.extend(node.host.as_mut().and_then(|host| host.left()));
        self.send_waiting(number, agenda);
    }

    /// Hands frames to the network while it takes them: answers first, because they complete other
    /// nodes' work.
    fn send_waiting(&mut self, node: u32, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        while let Some(Answer { to, frame }) = self.nodes[node as usize].answers.pop_front() {
            let ticket = self.carrier.ticket(&frame);
            match self.network.send(node, frame, agenda) {
                Ok(send) => self.note(send, ticket),
                Err(back) if back.why == Refusal::Full => {
                    let answer = Answer { to, frame: back.frame };
                    self.nodes[node as usize].answers.push_front(answer);
                    break;
                }
                Err(_) => self.never_sent(to, ticket),
            }
        }
        while let Some(&message) = self.nodes[node as usize].waiting.front() {
            let part = self.nodes[node as usize].parts;
            let frame = self.carrier.pack_part(&message, part, &self.network);
            let ticket = self.carrier.ticket(&frame);
            match self.network.send(node, frame, agenda) {
                Ok(send) => self.note(send, ticket),
                Err(back) if back.why == Refusal::Full => {
                    self.carrier.unpack(back.frame);
                    break;
                }
                Err(back) => {
                    if ticket.is_none() {
                        self.carrier.unpack(back.frame);
                    }
                    self.never_sent(node, ticket);
                }
            }
            let is_last = part + 1 >= self.carrier.parts(&message);
            let node = &mut self.nodes[node as usize];
            node.parts = if is_last { 0 } else { part + 1 };
            if is_last {
                node.waiting.pop_front();
            }
        }
    }

    #[inline]
    fn note(&mut self, send: SendId, ticket: Option<Ticket>) {
        if let Some(ticket) = ticket {
            self.tickets.add(send, ticket);
        }
    }

    /// Gives up a frame that the network never takes; its message is one of `source`.
    fn never_sent(&mut self, source: u32, ticket: Option<Ticket>) {
        let over = match ticket {
            Some(ticket) => self.carrier.gave_up(ticket),
            None => {
                self.totals.lost += 1;
                Some(source)
            }
        };
        if let Some(source) = over {
            self.traffic.delivered(source);
        }
    }

    fn follow_reports(&mut self, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        while let Some(report) = self.network.next_report() {
            match report {
                Report::Received { node, class } => self.receive(node, class, agenda),
                Report::Done { send, .. } => {
                    let ticket = self.tickets.take(send);
                    let over = ticket.and_then(|ticket| self.carrier.done(ticket));
                    self.over(over, agenda);
                }
                Report::Lost { node, send } => {
                    let over = match self.tickets.take(send) {
                        Some(ticket) => self.carrier.gave_up(ticket),
                        None => {
                            self.totals.lost += 1;
                            Some(node)
                        }
                    };
                    self.over(over, agenda);
                }
                Report::Dropped { source } => {
                    let over = match self.carrier.dropped(&mut self.network) {
                        Some(ticket) => self.carrier.gave_up(ticket),
                        None => {
                            self.totals.lost += 1;
                            Some(source)
                        }
                    };
                    self.over(over, agenda);
                }
                Report::Space { node } => self.send_waiting(node, agenda),
            }
        }
    }

    /// Takes the frames that wait in a receive queue, as far as the host has time.
    fn receive(&mut self, node: u32, class: Class, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        if class == Class::Response || self.nodes[node as usize].host.is_none() {
            while let Some(frame) = self.network.take(node, class, agenda) {
                self.arrived(node, frame, agenda);
            }
            return;
        }
        let is_held = self.carrier.waits_for_hosts();
        let Some(host) = &mut self.nodes[node as usize].host else { return };
        while !is_held || host.is_idle() {
            let Some(frame) = self.network.take(node, class, agenda) else { return };
            let bytes = self.carrier.host_bytes(&frame);
            let at = host.land(frame, bytes, agenda.now());
            agenda.schedule(at, Entry::Landed(node));
        }
    }

    /// Continues with a frame that has reached memory.
    fn landed(&mut self, node: u32, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        let host = self.nodes[node as usize].host.as_mut();
        if let Some(frame) = host.and_then(|host| host.landed()) {
            self.arrived(node, frame, agenda);
        }
        self.receive(node, Class::Request, agenda);
    }

    fn arrived(&mut self, node: u32, frame: FrameOf<C>, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        let arrived = self.carrier.arrived(node, frame, &self.network);
        if self.crashed.contains(&node) {
            self.totals.lost += u64::from(arrived.message.is_some());
            return;
        }
        if let Some(message) = arrived.message {
            self.totals.delivered += 1;
            if self.traffic.is_payload(&message) {
                self.observer.delivered(&message, agenda.now().since(message.at));
            }
            self.traffic.arrived(&message, agenda.now());
            self.ask_ready(agenda);
        }
        if let Some(answer) = arrived.answer {
            self.nodes[node as usize].answers.push_back(answer);
            self.send_waiting(node, agenda);
        }
        self.over(arrived.over, agenda);
    }

    /// Ends a message of a source: a closed loop then has room for the next one.
    fn over(&mut self, source: Option<u32>, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        let Some(source) = source.filter(|_| self.is_closed) else { return };
        self.traffic.delivered(source);
        self.plan_next(source, agenda);
        self.send_waiting(source, agenda);
    }

    fn fault(&mut self, kind: FaultKind, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        if let FaultKind::Host(node) | FaultKind::Power(node) = kind {
            self.crashed.insert(node);
            if let Some(node) = self.nodes.get_mut(node as usize) {
                // A message of which a part was sent stays in flight.
                let mut lost = node.waiting.len() - usize::from(node.parts > 0);
                if let Some(host) = &mut node.host {
                    lost += std::iter::from_fn(|| host.left()).count();
                }
                self.totals.lost += lost as u64;
                (node.next, node.waiting, node.answers) = (None, VecDeque::new(), VecDeque::new());
                node.parts = 0;
            }
        }
        self.network.fault(kind, agenda);
        if let FaultKind::Restart(node) = kind
            && self.crashed.remove(&node)
        {
            // The workload counts from the end of the quiet time.
            let passed = agenda.now().since(Instant::START).as_ps();
            let now = Instant::from_ps(passed.saturating_sub(self.quiet.as_ps()));
            self.traffic.restarted(node, now);
            self.plan_next(node, agenda);
            self.send_waiting(node, agenda);
        }
    }
}

impl<C: Carrier> Model for Loaded<C>
where
    EntryOf<C>: crate::Entry,
{
    type Entry = Entry<EntryOf<C>>;

    fn handle(&mut self, entry: Self::Entry, agenda: &mut Agenda<Self::Entry>) {
        match entry {
            Entry::Make { source, .. } => self.make(source, agenda),
            Entry::Network(entry) => self.network.handle(entry, agenda),
            Entry::Fault(kind) => self.fault(kind, agenda),
            Entry::Left(node) => self.left(node, agenda),
            Entry::Landed(node) => self.landed(node, agenda),
            Entry::Moment => self.moment(agenda),
        }
        self.follow_reports(agenda);
    }

    #[inline]
    fn touch(&self, entry: &Self::Entry, nearness: Nearness) {
        if let Entry::Network(entry) = entry {
            self.network.touch(entry, nearness);
        }
    }
}

impl<C: Carrier> Experiment for Loaded<C>
where
    EntryOf<C>: crate::Entry,
{
    fn observer(&mut self) -> &mut Observer {
        &mut self.observer
    }

    fn begin(&mut self, now: Instant) {
        self.observer.reset();
        self.traffic.begin(now);
    }

    fn events(&self) -> Option<&EventCounts> {
        self.traffic.events()
    }

    fn links(&self, now: Instant) -> Vec<LinkUse> {
        self.network.links(now)
    }

    fn lost(&self) -> u64 {
        Loaded::lost(self)
    }

    fn losses(&self) -> Vec<Loss> {
        self.network.losses()
    }

    fn cores(&self) -> Vec<CoreUse> {
        self.network.cores()
    }

    fn hops(&self) -> u64 {
        self.network.hops()
    }

    fn check(&self, _: Instant) -> Result<(), String> {
        self.mistake.clone().map_or(Ok(()), Err)?;
        self.network.conserve()
    }
}
