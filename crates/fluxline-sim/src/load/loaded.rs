//! A network under traffic: the one generator of load for every network.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::observer::{Detail, Observer};
use super::sweep::Experiment;
use super::traffic::{Arrivals, Message, Traffic};
use crate::core::ahead::Nearness;
use crate::core::fault::{Fault, FaultKind};
use crate::core::interconnect::{Interconnect, LinkUse, Refusal, Report, SendId};
use crate::{Agenda, Duration, Instant, Model};

/// Most messages that wait at a node; later ones of an open loop are dropped. Assumed: far more
/// than wait below saturation.
pub const SOURCE_MESSAGES: usize = 1024;

/// A frame that arrived, as its carrier understands it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived<F> {
    /// The message whose last byte it brought.
    pub message: Option<Message>,
    /// The answer that the receiver sends, and the node that gets it.
    pub answer: Option<Answer<F>>,
    /// The source that has one message less under way.
    pub over: Option<u32>,
}

/// An answer to a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<F> {
    /// The node that gets it: the source of the message.
    pub to: u32,
    /// The frame.
    pub frame: F,
}

/// The frame of a network that carries messages.
type FrameOf<C> = <<C as Carrier>::Network as Interconnect>::Frame;
/// The entry of such a network.
type EntryOf<C> = <<C as Carrier>::Network as Interconnect>::Entry;

/// The way in which a network carries messages.
pub trait Carrier {
    /// The network.
    type Network: Interconnect;

    /// The kind of the entry that makes a message; the network has other kinds.
    const MADE: u8 = u8::MAX;

    /// Returns the frame that carries a message.
    fn pack(&mut self, message: &Message, network: &Self::Network) -> FrameOf<Self>;

    /// Takes a frame of [`Carrier::pack`] back that the network did not take.
    fn unpack(&mut self, frame: FrameOf<Self>) {
        let _ = frame;
    }

    /// Explains a frame that has arrived at a node.
    fn arrived(
        &mut self,
        node: u32,
        frame: FrameOf<Self>,
        network: &Self::Network,
    ) -> Arrived<FrameOf<Self>>;

    /// Returns true if a message is over when the network reports its send as done.
    fn ends_with_send(&self) -> bool {
        false
    }
}

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
}

/// The kind of the entry of a fault; no network has it.
const FAULT: u8 = u8::MAX - 1;

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
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Entry::Make { kind, .. } => *kind,
            Entry::Network(entry) => entry.kind(),
            Entry::Fault(_) => FAULT,
        }
    }
}

/// One node's program.
#[derive(Clone, Debug)]
struct Node<F> {
    /// The next message, in an open loop.
    next: Option<Message>,
    /// Messages that wait for the send queue.
    waiting: VecDeque<Message>,
    /// Answers that wait for the send queue.
    answers: VecDeque<Answer<F>>,
}

/// A network, its traffic, and its observer.
pub struct Loaded<C: Carrier> {
    network: C::Network,
    carrier: C,
    traffic: Traffic,
    nodes: Vec<Node<FrameOf<C>>>,
    /// Answers under way, and their receivers.
    answering: BTreeMap<SendId, u32>,
    /// Nodes whose program crashed: they take frames, and neither send nor answer.
    crashed: BTreeSet<u32>,
    observer: Observer,
    is_closed: bool,
    lost: u64,
    quiet: Duration,
}

/// The settings of a network under traffic.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// The detail of the statistics.
    pub detail: Detail,
    /// The faults. Those at the very start happen before any message.
    pub faults: &'a [Fault],
    /// The time before the first message of an open loop.
    pub quiet: Duration,
}

impl Default for Settings<'_> {
    fn default() -> Self {
        Settings { detail: Detail::Full, faults: &[], quiet: Duration::ZERO }
    }
}

impl<C: Carrier> Loaded<C> {
    /// Makes a network under traffic, with the first messages of every node on the agenda.
    pub fn new(
        network: C::Network,
        carrier: C,
        traffic: Traffic,
        settings: &Settings<'_>,
        agenda: &mut Agenda<Entry<EntryOf<C>>>,
    ) -> Loaded<C> {
        let count = traffic.plan().nodes;
        let node = |_| Node { next: None, waiting: VecDeque::new(), answers: VecDeque::new() };
        let mut loaded = Loaded {
            is_closed: matches!(traffic.plan().arrivals, Arrivals::Window { .. }),
            network,
            carrier,
            traffic,
            nodes: (0..count).map(node).collect(),
            answering: BTreeMap::new(),
            crashed: BTreeSet::new(),
            observer: Observer::new(count, settings.detail),
            lost: 0,
            quiet: settings.quiet,
        };
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

    /// Returns the number of messages that the network gave up.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Makes a source's next message, or all that its window takes.
    fn plan_next(&mut self, source: u32, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        if self.crashed.contains(&source) {
            return;
        }
        while let Some(mut message) = self.traffic.next(source, agenda.now()) {
            let node = &mut self.nodes[source as usize];
            if !self.is_closed {
                message.at += self.quiet;
                node.next = Some(message);
                agenda.schedule(message.at, Entry::Make { source, kind: C::MADE });
                return;
            }
            self.observer.offered(&message);
            node.waiting.push_back(message);
        }
    }

    fn make(&mut self, source: u32, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        let node = &mut self.nodes[source as usize];
        if let Some(message) = node.next.take() {
            self.observer.offered(&message);
            if node.waiting.len() < SOURCE_MESSAGES && self.network.accepts(source) {
                node.waiting.push_back(message);
            } else {
                self.observer.refused(message.bytes);
            }
        }
        self.send_waiting(source, agenda);
        self.plan_next(source, agenda);
    }

    /// Hands frames to the network while it takes them: answers first, because they complete other
    /// nodes' work.
    fn send_waiting(&mut self, node: u32, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        while let Some(Answer { to, frame }) = self.nodes[node as usize].answers.pop_front() {
            match self.network.send(node, frame, agenda) {
                Ok(send) => {
                    self.answering.insert(send, to);
                }
                Err(back) if back.why == Refusal::Full => {
                    let answer = Answer { to, frame: back.frame };
                    self.nodes[node as usize].answers.push_front(answer);
                    break;
                }
                Err(_) => self.lose(to),
            }
        }
        while let Some(message) = self.nodes[node as usize].waiting.pop_front() {
            let frame = self.carrier.pack(&message, &self.network);
            let Err(back) = self.network.send(node, frame, agenda) else { continue };
            self.carrier.unpack(back.frame);
            if back.why == Refusal::Full {
                self.nodes[node as usize].waiting.push_front(message);
                break;
            }
            self.lose(node);
        }
    }

    /// Counts a message of `source` as given up.
    fn lose(&mut self, source: u32) {
        self.lost += 1;
        self.traffic.delivered(source);
    }

    fn follow_reports(&mut self, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        while let Some(report) = self.network.next_report() {
            match report {
                Report::Received { node, class } => {
                    while let Some(frame) = self.network.take(node, class, agenda) {
                        self.arrived(node, frame, agenda);
                    }
                }
                Report::Done { node, send } => {
                    let is_answer = self.answering.remove(&send).is_some();
                    if !is_answer && self.carrier.ends_with_send() {
                        self.over(node, agenda);
                    }
                }
                Report::Lost { node, send } => {
                    let source = self.answering.remove(&send).unwrap_or(node);
                    self.lost += 1;
                    self.over(source, agenda);
                }
                Report::Dropped { source } => {
                    self.lost += 1;
                    self.over(source, agenda);
                }
                Report::Space { node } => self.send_waiting(node, agenda),
            }
        }
    }

    fn arrived(&mut self, node: u32, frame: FrameOf<C>, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        let arrived = self.carrier.arrived(node, frame, &self.network);
        if self.crashed.contains(&node) {
            return;
        }
        if let Some(message) = arrived.message {
            self.observer.delivered(&message, agenda.now().since(message.at));
        }
        if let Some(answer) = arrived.answer {
            self.nodes[node as usize].answers.push_back(answer);
            self.send_waiting(node, agenda);
        }
        if let Some(source) = arrived.over {
            self.over(source, agenda);
        }
    }

    /// Ends a message of `source`: a closed loop then has room for the next one.
    fn over(&mut self, source: u32, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        if self.is_closed {
            self.traffic.delivered(source);
            self.plan_next(source, agenda);
            self.send_waiting(source, agenda);
        }
    }

    fn fault(&mut self, kind: FaultKind, agenda: &mut Agenda<Entry<EntryOf<C>>>) {
        if let FaultKind::Host(node) | FaultKind::Power(node) = kind {
            self.crashed.insert(node);
            if let Some(node) = self.nodes.get_mut(node as usize) {
                (node.next, node.waiting, node.answers) = (None, VecDeque::new(), VecDeque::new());
            }
        }
        self.network.fault(kind, agenda);
        if let FaultKind::Restart(node) = kind
            && self.crashed.remove(&node)
        {
            self.traffic.resume(node, agenda.now());
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

    fn links(&self) -> Vec<LinkUse> {
        self.network.links()
    }

    fn hops(&self) -> u64 {
        self.network.hops()
    }

    fn check(&self, _: Instant) -> Result<(), String> {
        self.network.conserve()
    }
}
