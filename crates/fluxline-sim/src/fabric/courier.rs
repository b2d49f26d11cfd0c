//! The simplest adapter, for a network that carries whole frames: each job is one frame, and each
//! frame has one answer.
//!
//! Jobs to one peer are done one after the other, so that they keep their order whatever is lost:
//! the peer remembers its last answer to each source, and repeats it for a copy of the request. The
//! host is a processor that begins each job, and a bus that carries each frame on both sides.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::marker::PhantomData;

use super::adapter::{Action, Adapter, Counts, Failure, Job, Repeat, Report, SendEnd};
use super::memory::NodeMemory;
use crate::core::agenda::Schedule;
use crate::core::interconnect::{Class, Interconnect, Refusal, SendId};
use crate::host::{Atomic, SharedBus, Status, config, preset};
use crate::load::traffic::Message;
use crate::load::{Arrived, Carrier};
use crate::{Agenda, Duration, Instant};

/// Bytes of a frame besides its data. A choice.
const HEADER_BYTES: u64 = 32;

/// The number of a request of one source; a repetition has the same number.
type RequestId = u64;

/// A frame of couriers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The sender.
    pub source: u32,
    /// The receiver.
    pub target: u32,
    /// The number of the request.
    pub request: u64,
    /// The content.
    pub body: Body,
}

/// The content of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A request.
    Ask(Action),
    /// A request for a sign of life.
    Ping,
    /// The answer to a request.
    Answer(Result<Vec<u8>, Status>),
    /// A message of generated traffic, of this number of bytes; it is not answered.
    Load(u32),
}

impl Frame {
    /// Returns the length on the network \[byte\].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let data = match &self.body {
            Body::Ask(Action::Write { data, .. } | Action::Message(data)) => data.len() as u64,
            Body::Answer(Ok(data)) => data.len() as u64,
            Body::Load(bytes) => u64::from(*bytes),
            Body::Ask(_) | Body::Ping | Body::Answer(Err(_)) => 0,
        };
        HEADER_BYTES + data
    }

    fn bus_bytes(&self) -> u32 {
        u32::try_from(self.bytes()).unwrap_or(u32::MAX)
    }
}

/// The times of a courier and its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Processor time to begin a job.
    pub call: Duration,
    /// From the departure of a request to its repetition when no answer came.
    pub answer: Duration,
    /// The same for each byte of request and answer, in addition.
    pub answer_per_byte: Duration,
    /// From the first departure to giving the peer up.
    pub give_up: Duration,
    /// From a completion until a polling program sees it.
    pub poll_notice: Duration,
    /// The bus between memory and card. `None`: the network's cards have their own.
    pub bus: Option<config::Bus>,
}

impl Default for Times {
    /// All assumed: far above a round trip on a network of 100 MB/s, and a machine with PCI.
    fn default() -> Times {
        Times {
            call: Duration::from_us(1),
            answer: Duration::from_us(5_000),
            answer_per_byte: Duration::from_ns(100),
            give_up: Duration::from_us(60_000),
            poll_notice: Duration::from_ns(200),
            bus: Some(preset::pci_32_33()),
        }
    }
}

/// A step of a courier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    node: u32,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// A frame has crossed the bus to the card.
    Leave(u64),
    /// A frame has crossed the bus to memory.
    Land(u64),
    /// The answer to the request to a peer may be overdue.
    Overdue { peer: u32, request: RequestId },
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
            What::Overdue { .. } => 0x42,
        }
    }
}

/// A request that waits for its answer, or for its turn; a ping has no job.
#[derive(Debug)]
struct Errand {
    job: Option<u64>,
    body: Body,
    repeat: Repeat,
}

/// The errands to one peer, the first of which is under way.
#[derive(Debug, Default)]
struct Line {
    errands: VecDeque<Errand>,
    request: RequestId,
    began: Instant,
}

/// The last request of a source, and the answer to it.
#[derive(Debug)]
struct Answered {
    request: RequestId,
    answer: Result<Vec<u8>, Status>,
}

/// The adapter of one node on a network `W`.
#[derive(Debug)]
pub struct Courier<W> {
    number: u32,
    times: Times,
    /// `None`: the network's cards have their own.
    bus: Option<SharedBus>,
    processor_free: Instant,
    lines: BTreeMap<u32, Line>,
    /// The requests to each peer have higher numbers.
    first_request: RequestId,
    answered: BTreeMap<u32, Answered>,
    /// Frames on the bus, in either direction.
    crossing: BTreeMap<u64, Frame>,
    crossings: u64,
    /// Frames that wait for room in the send queue.
    leaving: VecDeque<Frame>,
    landed: VecDeque<Frame>,
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
        Courier::on_bus(number, times, times.bus.map(SharedBus::new))
    }

    /// Makes the adapter of a process that shares its bus with others of its machine.
    #[must_use]
    pub fn on_bus(number: u32, times: Times, bus: Option<SharedBus>) -> Courier<W> {
        Courier {
            number,
            times,
            bus,
            processor_free: Instant::START,
            lines: BTreeMap::new(),
            first_request: 0,
            answered: BTreeMap::new(),
            crossing: BTreeMap::new(),
            crossings: 0,
            leaving: VecDeque::new(),
            landed: VecDeque::new(),
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
        Courier { crossings: first, first_request: first, ..Courier::new(number, times) }
    }

    fn step(&self, what: What) -> Step {
        Step { node: self.number, what }
    }

    /// Adds an errand, and begins it if it is the only one to its peer.
    fn add(&mut self, peer: u32, errand: Errand, agenda: &mut impl Schedule<Step>) {
        if self.gone.contains(&peer) {
            let lost = |job| Report::Ended { job, result: Err(Failure::Lost) };
            self.reports.extend(errand.job.map(lost));
            return;
        }
        let line = self.lines.entry(peer).or_default();
        line.errands.push_back(errand);
        if line.errands.len() == 1 {
            self.begin(peer, agenda);
        }
    }

    /// Begins the first errand to a peer.
    fn begin(&mut self, peer: u32, agenda: &mut impl Schedule<Step>) {
        let Some(line) = self.lines.get_mut(&peer) else { return };
        if line.errands.is_empty() {
            return;
        }
        line.request = line.request.max(self.first_request) + 1;
        line.began = agenda.now();
        self.counts.requester.begun += 1;
        self.processor_free = self.processor_free.max(agenda.now()) + self.times.call;
        self.ask(peer, agenda);
    }

    /// Sends the request under way to a peer, for the first time or again.
    fn ask(&mut self, peer: u32, agenda: &mut impl Schedule<Step>) {
        let Some(line) = self.lines.get(&peer) else { return };
        let (Some(errand), request) = (line.errands.front(), line.request) else { return };
        let body = errand.body.clone();
        let frame = Frame { source: self.number, target: peer, request, body };
        let bytes = match &frame.body {
            Body::Ask(Action::Read { bytes, .. }) => *bytes,
            _ => frame.bytes(),
        };
        let patience = self.times.answer + self.times.answer_per_byte.times(bytes);
        let left = self.load(frame, agenda);
        let step = self.step(What::Overdue { peer, request });
        agenda.schedule(left + patience, step);
    }

    /// Carries a frame from memory to the card; returns the time at which it is there.
    fn load(&mut self, frame: Frame, agenda: &mut impl Schedule<Step>) -> Instant {
        let ready = self.processor_free.max(agenda.now());
        let bytes = frame.bus_bytes();
        let over = self.bus.as_mut().map_or(ready, |bus| bus.read(ready, bytes));
        self.crossings += 1;
        self.crossing.insert(self.crossings, frame);
        agenda.schedule(over, self.step(What::Leave(self.crossings)));
        over
    }

    /// Ends the errand under way to a peer, and begins the next one.
    fn end(
        &mut self,
        peer: u32,
        result: Result<Vec<u8>, Failure>,
        agenda: &mut impl Schedule<Step>,
    ) {
        let errand = self.lines.get_mut(&peer).and_then(|line| line.errands.pop_front());
        if let Some(job) = errand.and_then(|errand| errand.job) {
            self.reports.push_back(Report::Ended { job, result });
        }
        self.begin(peer, agenda);
    }

    /// Repeats or gives up a request whose answer is overdue.
    fn overdue(&mut self, peer: u32, request: RequestId, agenda: &mut impl Schedule<Step>) {
        let Some(line) = self.lines.get(&peer).filter(|line| line.request == request) else {
            return;
        };
        let Some(errand) = line.errands.front() else { return };
        if errand.repeat == Repeat::No {
            return self.end(peer, Err(Failure::Lost), agenda);
        }
        if agenda.now().since(line.began) < self.times.give_up {
            self.counts.requester.repeated += 1;
            return self.ask(peer, agenda);
        }
        self.counts.requester.given_up += 1;
        self.gone.insert(peer);
        self.reports.push_back(Report::PeerGone { peer });
        self.end_all(peer);
    }

    /// Ends all errands to a peer as lost.
    fn end_all(&mut self, peer: u32) {
        let errands = self.lines.get_mut(&peer).map(|line| std::mem::take(&mut line.errands));
        let lost = |job| Report::Ended { job, result: Err(Failure::Lost) };
        let jobs = errands.into_iter().flatten().filter_map(|errand| errand.job);
        self.reports.extend(jobs.map(lost));
    }

    /// Acts on a frame that has come into memory.
    fn landed(&mut self, frame: Frame, memory: &mut NodeMemory, agenda: &mut impl Schedule<Step>) {
        let Frame { source, request, body, .. } = frame;
        if self.gone.contains(&source) {
            return;
        }
        if let Body::Answer(answer) = body {
            let is_due = |line: &&Line| line.request == request && !line.errands.is_empty();
            if self.lines.get(&source).filter(is_due).is_none() {
                self.counts.requester.stray += 1;
                return;
            }
            self.counts.requester.answered += 1;
            return self.end(source, answer.map_err(Failure::Refused), agenda);
        }
        let last = self.answered.get(&source).filter(|last| last.request >= request);
        let answer = match (last, body) {
            (Some(last), _) if last.request == request => {
                self.counts.responder.locks_again += 1;
                last.answer.clone()
            }
            // A copy of an older request: its answer came long ago.
            (Some(_), _) | (None, Body::Load(_)) => return,
            (None, Body::Ask(action)) => self.serve(source, action, memory),
            (None, _) => Ok(Vec::new()),
        };
        self.answered.insert(source, Answered { request, answer: answer.clone() });
        let body = Body::Answer(answer);
        self.load(Frame { source: self.number, target: source, request, body }, agenda);
    }

    /// Does a request of another node on memory.
    fn serve(
        &mut self,
        source: u32,
        action: Action,
        memory: &mut NodeMemory,
    ) -> Result<Vec<u8>, Status> {
        let word = |before: u64| before.to_le_bytes().to_vec();
        let answer = match action {
            Action::Write { offset, data } => {
                memory.write(source, offset, &data).map(|()| Vec::new())
            }
            Action::Read { offset, bytes } => {
                let mut data = vec![0; bytes as usize];
                memory.read(source, offset, &mut data).map(|count| {
                    data.truncate(count);
                    data
                })
            }
            Action::FetchAdd { offset, add } => {
                memory.lock(source, offset, Atomic::FetchAdd, [add, 0]).map(word)
            }
            Action::CompareSwap { offset, expected, desired } => {
                memory.lock(source, offset, Atomic::CompareSwap, [expected, desired]).map(word)
            }
            Action::Message(message) => {
                self.reports.push_back(Report::Message { from: source, message });
                Ok(Vec::new())
            }
        };
        match answer {
            Ok(_) => self.counts.responder.done += 1,
            Err(_) => self.counts.responder.refused += 1,
        }
        answer
    }
}

/// Messages of generated traffic as frames of couriers: each is over when it has arrived.
#[derive(Clone, Debug)]
pub struct Messages<W> {
    /// Messages under way, by the number of their frame.
    sent: BTreeMap<u64, Message>,
    next: u64,
    wire: PhantomData<fn(W)>,
}

impl<W> Default for Messages<W> {
    fn default() -> Messages<W> {
        Messages { sent: BTreeMap::new(), next: 0, wire: PhantomData }
    }
}

impl<W: Interconnect<Frame = Frame>> Carrier for Messages<W> {
    type Network = W;

    fn pack(&mut self, message: &Message, _: &W) -> Frame {
        self.next += 1;
        self.sent.insert(self.next, *message);
        let Message { source, to, bytes, .. } = *message;
        Frame { source, target: to, request: self.next, body: Body::Load(bytes) }
    }

    fn unpack(&mut self, frame: Frame) {
        self.sent.remove(&frame.request);
    }

    fn arrived(&mut self, _: u32, frame: Frame, _: &W) -> Arrived<Frame> {
        let message = self.sent.remove(&frame.request);
        Arrived { message, answer: None, over: message.map(|message| message.source) }
    }

    fn host_bytes(&self, frame: &Frame) -> u32 {
        frame.bus_bytes()
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
            What::Leave(number) => self.leaving.extend(self.crossing.remove(&number)),
            What::Land(number) => self.landed.extend(self.crossing.remove(&number)),
            What::Overdue { peer, request } => self.overdue(peer, request, agenda),
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
            if let Some(frame) = self.landed.pop_front() {
                self.landed(frame, memory, agenda);
            } else if let Some(frame) = wire.take(self.number, Class::Request, agenda) {
                let (now, bytes) = (agenda.now(), frame.bus_bytes());
                let over = self.bus.as_mut().map_or(now, |bus| bus.write(now, bytes));
                self.crossings += 1;
                self.crossing.insert(self.crossings, frame);
                agenda.schedule(over, self.step(What::Land(self.crossings)));
            } else if let Some(peer) = self.pings.pop_front() {
                // An errand under way shows as well whether the peer is alive.
                if self.lines.get(&peer).is_none_or(|line| line.errands.is_empty()) {
                    let errand = Errand { job: None, body: Body::Ping, repeat: Repeat::Yes };
                    self.add(peer, errand, agenda);
                }
            } else {
                let frame = self.leaving.pop_front()?;
                if let Err(back) = wire.send(self.number, frame, agenda)
                    && back.why == Refusal::Full
                {
                    self.leaving.push_front(back.frame);
                    return None;
                }
            }
        }
    }

    fn forget(&mut self, peer: u32) {
        self.gone.remove(&peer);
        self.end_all(peer);
    }

    fn die(&mut self) {
        self.leaving.clear();
        self.landed.clear();
    }

    fn compute(&mut self, time: Duration, agenda: &mut impl Schedule<Step>) {
        self.processor_free = self.processor_free.max(agenda.now()) + time;
    }

    fn poll_notice(&self) -> Duration {
        self.times.poll_notice
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn transactions_open(&self) -> usize {
        self.lines.values().map(|line| line.errands.len()).sum()
    }
}
