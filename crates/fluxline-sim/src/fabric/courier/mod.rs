//! The simplest adapter, for a network that carries whole frames: each job is one frame.
//!
//! Many jobs to one peer are under way, and are done once and in order whatever is lost: requests
//! have numbers, the peer says up to which it has done them, in frames of its own or in an answer,
//! and what is lost is sent again. Jobs that bring something back go alone.
//!
//! The host is the one of the published figures: a processor, which takes a call for each frame
//! that it sends or receives, and a card that moves data by itself ([`MessageDma`]).
//!
//! [`MessageDma`]: crate::host::MessageDma

mod answers;
mod frame;
mod inbound;
mod line;
mod requests;
mod times;
mod traffic;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::marker::PhantomData;

pub use frame::{Body, Frame, Kept};
pub use times::Times;
pub use traffic::Messages;

use inbound::Inbound;
use line::{Errand, Line};

use super::adapter::{Adapter, Counts, Job, Repeat, Report, SendEnd};
use super::memory::NodeMemory;
use crate::core::agenda::Schedule;
use crate::core::interconnect::{Class, Interconnect, Refusal, SendId};
use crate::host::{Outgoing, SharedBus};
use crate::{Agenda, Duration, Instant};

/// A step of a courier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    node: u32,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// The link can start with a frame.
    Leave(u64),
    /// A frame is in memory.
    Land(u64),
    /// The answer to the oldest request to a peer may be overdue.
    Overdue(u32),
    /// The processor has done a call.
    Called(u64),
    /// A peer may have waited long enough for its answer.
    Lingered(u32),
}

impl crate::Entry for Step {
    fn component(&self) -> u32 {
        self.node
    }

    /// The kinds of adapters begin behind those of networks.
    fn kind(&self) -> u8 {
        match self.what {
            What::Leave(_) => 0x40,
            What::Land(_) => 0x41,
            What::Overdue(_) => 0x42,
            What::Called(_) => 0x43,
            What::Lingered(_) => 0x44,
        }
    }
}

/// A call of the processor. It does one after the other.
#[derive(Debug)]
enum Call {
    Send(Frame),
    Receive(Frame),
}

/// The adapter of one node on a network `W`.
#[derive(Debug)]
pub struct Courier<W> {
    number: u32,
    times: Times,
    /// `None`: the network's cards have their own.
    bus: Option<SharedBus>,
    processor_free: Instant,
    /// Calls that wait for the processor.
    calls: VecDeque<Call>,
    /// The call that the processor does.
    call: Option<Call>,
    /// The number of that call.
    called: u64,
    /// True if that call is over.
    is_called: bool,
    lines: BTreeMap<u32, Line>,
    /// The requests to each peer have higher numbers.
    first_request: u64,
    inbound: BTreeMap<u32, Inbound>,
    /// Frames on the bus, in either direction.
    crossing: BTreeMap<u64, Frame>,
    crossings: u64,
    /// Frames that wait for room in the send queue.
    leaving: VecDeque<Frame>,
    /// Peers that were given up: they are not answered, so that they notice it too.
    gone: BTreeSet<u32>,
    reports: VecDeque<Report>,
    /// Peers to be asked for a sign of life.
    pings: VecDeque<u32>,
    counts: Counts,
    wire: PhantomData<fn(W)>,
}

impl<W> Courier<W> {
    /// Makes the adapter of a node.
    #[must_use]
    pub fn new(number: u32, times: Times) -> Courier<W> {
        Courier::on_bus(number, times, times.dma.map(|dma| SharedBus::new(dma.bus)))
    }

    /// Makes the adapter of a process that shares its bus with others of its machine.
    #[must_use]
    pub fn on_bus(number: u32, times: Times, bus: Option<SharedBus>) -> Courier<W> {
        Courier {
            number,
            times,
            bus,
            processor_free: Instant::START,
            calls: VecDeque::new(),
            call: None,
            called: 0,
            is_called: false,
            lines: BTreeMap::new(),
            first_request: 1,
            inbound: BTreeMap::new(),
            crossing: BTreeMap::new(),
            crossings: 0,
            leaving: VecDeque::new(),
            gone: BTreeSet::new(),
            reports: VecDeque::new(),
            pings: VecDeque::new(),
            counts: Counts::default(),
            wire: PhantomData,
        }
    }

    /// Makes the adapter of a node that has started as many times by now. Its numbers are above
    /// those of the former lives, so that late frames and steps of these match nothing.
    #[must_use]
    pub fn of_life(number: u32, times: Times, starts: u32) -> Courier<W> {
        let first = u64::from(starts.saturating_sub(1)) << 32;
        let of_first = Courier::new(number, times);
        Courier { crossings: first, called: first, first_request: first + 1, ..of_first }
    }

    fn step(&self, what: What) -> Step {
        Step { node: self.number, what }
    }

    /// Lets the processor send a frame after its other calls.
    fn send(&mut self, frame: Frame, agenda: &mut impl Schedule<Step>) {
        let inbound = self.inbound.entry(frame.target).or_default();
        inbound.leaving += u32::from(!frame.body.has_results());
        self.call(Call::Send(frame), agenda);
    }

    /// Lets the processor do a call after its others.
    fn call(&mut self, call: Call, agenda: &mut impl Schedule<Step>) {
        self.calls.push_back(call);
        self.work(agenda);
    }

    /// Begins the next call, unless one is under way.
    fn work(&mut self, agenda: &mut impl Schedule<Step>) {
        if self.call.is_some() {
            return;
        }
        self.call = self.calls.pop_front();
        if self.call.is_some() {
            self.called += 1;
            self.processor_free = self.processor_free.max(agenda.now()) + self.times.call;
            agenda.schedule(self.processor_free, self.step(What::Called(self.called)));
        }
    }

    /// Takes a frame that the network has brought to the card.
    fn arrived(&mut self, frame: Frame, agenda: &mut impl Schedule<Step>) {
        let Some((dma, bus)) = self.times.dma.zip(self.bus.as_ref()) else {
            return self.call(Call::Receive(frame), agenda);
        };
        let over = dma.land(&mut bus.bus(), agenda.now(), frame.bus_bytes());
        self.crossings += 1;
        self.crossing.insert(self.crossings, frame);
        agenda.schedule(over, self.step(What::Land(self.crossings)));
    }

    /// Fills in the header of a frame that leaves now.
    fn leave(&mut self, mut frame: Frame, agenda: &mut impl Schedule<Step>) {
        let peer = frame.target;
        // An answer with results says what was done when they were collected.
        if !frame.body.has_results()
            && let Some(inbound) = self.inbound.get_mut(&peer)
        {
            inbound.leaving = inbound.leaving.saturating_sub(1);
            (frame.done, frame.heard) = (inbound.plainly_done(), inbound.heard);
        }
        if let Some(line) = self.lines.get_mut(&peer) {
            (frame.oldest, frame.inquiry) = (line.oldest(), line.inquiry);
            if matches!(frame.body, Body::Ask(_) | Body::Ping) {
                frame.asks = line.asks(frame.request, frame.bytes());
                self.watch(peer, agenda);
            }
        }
        self.leaving.push_back(frame);
    }
}

impl<W: Interconnect<Frame = Frame>> Courier<W> {
    /// Does what follows a call of the processor.
    fn do_called(&mut self, memory: &mut NodeMemory, wire: &W, agenda: &mut impl Schedule<Step>) {
        match self.call.take() {
            Some(Call::Send(frame)) => self.depart(frame, wire, agenda),
            Some(Call::Receive(frame)) => self.received(frame, memory, agenda),
            None => {}
        }
        self.work(agenda);
    }

    /// Lets the card fetch a frame from memory.
    fn depart(&mut self, frame: Frame, wire: &W, agenda: &mut impl Schedule<Step>) {
        let Some((dma, bus)) = self.times.dma.zip(self.bus.as_ref()) else {
            return self.leave(frame, agenda);
        };
        let bytes = frame.bus_bytes();
        let message = Outgoing { bytes, sending: wire.sending_time(bytes) };
        let departure = dma.fetch(&mut bus.bus(), agenda.now(), message);
        self.processor_free = self.processor_free.max(departure.rung);
        self.crossings += 1;
        self.crossing.insert(self.crossings, frame);
        agenda.schedule(departure.start, self.step(What::Leave(self.crossings)));
    }

    /// Hands frames to the network until it is full.
    fn hand_over(&mut self, wire: &mut W, agenda: &mut impl Schedule<W::Entry>) {
        while let Some(frame) = self.leaving.pop_front() {
            if let Err(back) = wire.send(self.number, frame, agenda)
                && back.why == Refusal::Full
            {
                return self.leaving.push_front(back.frame);
            }
        }
    }
}

impl<W: Interconnect<Frame = Frame>> Adapter for Courier<W> {
    type Wire = W;
    type Step = Step;

    fn submit(&mut self, job: Job, agenda: &mut impl Schedule<Step>) {
        let Job { number, to, action, repeat } = job;
        self.add(to, Errand { job: Some(number), body: Body::Ask(action), repeat }, agenda);
    }

    fn handle(&mut self, step: Step, agenda: &mut impl Schedule<Step>) {
        match step.what {
            What::Leave(number) => {
                if let Some(frame) = self.crossing.remove(&number) {
                    self.leave(frame, agenda);
                }
            }
            What::Land(number) => {
                if let Some(frame) = self.crossing.remove(&number) {
                    self.call(Call::Receive(frame), agenda);
                }
            }
            What::Overdue(peer) => self.overdue(peer, agenda),
            What::Called(number) => self.is_called |= number == self.called,
            What::Lingered(peer) => self.lingered(peer, agenda),
        }
    }

    fn probe(&mut self, peer: u32) {
        self.pings.push_back(peer);
    }

    /// An answer, or its absence, says more.
    fn send_ended(&mut self, _: SendId, _: SendEnd, _: &mut impl Schedule<Step>) {}

    fn next_report<E>(
        &mut self,
        memory: &mut NodeMemory,
        wire: &mut W,
        agenda: &mut Agenda<E>,
    ) -> Option<Report>
    where
        E: From<Step> + From<W::Entry>,
    {
        loop {
            if let Some(report) = self.reports.pop_front() {
                return Some(report);
            }
            if std::mem::take(&mut self.is_called) {
                self.do_called(memory, wire, agenda);
            } else if let Some(frame) = wire.take(self.number, Class::Request, agenda) {
                self.arrived(frame, agenda);
            } else if let Some(peer) = self.pings.pop_front() {
                // An errand under way shows as well whether the peer is alive.
                if self.lines.get(&peer).is_none_or(|line| line.len() == 0) {
                    let errand = Errand { job: None, body: Body::Ping, repeat: Repeat::Yes };
                    self.add(peer, errand, agenda);
                }
            } else {
                self.hand_over(wire, agenda);
                return None;
            }
        }
    }

    fn forget(&mut self, peer: u32) {
        self.gone.remove(&peer);
        self.end_all(peer);
    }

    fn keeps_order(&self) -> bool {
        true
    }

    fn die(&mut self) {
        self.leaving.clear();
        self.calls.clear();
    }

    fn compute(&mut self, time: Duration, agenda: &mut impl Schedule<Step>) {
        self.processor_free = self.processor_free.max(agenda.now()) + time;
    }

    /// The call that receives is all of it.
    fn poll_notice(&self) -> Duration {
        Duration::ZERO
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn transactions_open(&self) -> usize {
        self.lines.values().map(Line::len).sum()
    }
}
