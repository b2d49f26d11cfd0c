//! The card of one node: its host's accesses and the network's packets, joined.

mod mail;

use std::collections::{BTreeSet, VecDeque};
use std::marker::PhantomData;
use std::sync::Arc;

use super::access::{access_of, command_of, packet_data};
use super::address::REGISTERS_AT;
use super::ids::Ids;
use super::mover::{self, Moved, Mover};
use super::outbox::Letter;
use super::requester::{Outcome as Answer, Request, Requester, Ticket, Times};
use super::responder::Responder;
use super::space::{Control, NodeSpace};
use crate::core::agenda::{Part, Schedule};
use crate::core::in_order::InOrder;
use crate::core::interconnect::{Class, Interconnect, Refusal, SendId};
use crate::fabric::adapter::{Action, Adapter, Counts, Failure, Job, Repeat, Report, SendEnd};
use crate::fabric::memory::NodeMemory;
use crate::host::{self, Access, Host, Incoming, Out, Outcome};
use crate::net::sci::{Command, NodeId, Packet, Status};
use crate::{Agenda, Duration, Instant};
use mail::Mail;

/// An entry of a card on the agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The host's.
    Host(host::Entry),
    /// A transaction may have timed out.
    Timer {
        /// The node.
        node: u32,
    },
}

impl From<host::Entry> for Step {
    fn from(entry: host::Entry) -> Step {
        Step::Host(entry)
    }
}

impl crate::Entry for Step {
    fn component(&self) -> u32 {
        match self {
            Step::Host(entry) => crate::Entry::component(entry),
            Step::Timer { node } => *node,
        }
    }

    /// The kinds of hosts begin at 0x40, behind those of networks.
    fn kind(&self) -> u8 {
        match self {
            Step::Host(entry) => 0x40 + crate::Entry::kind(entry),
            Step::Timer { .. } => 0x80,
        }
    }
}

/// A card with its host, on a network `W`.
pub struct Card<W> {
    number: u32,
    ids: Arc<Ids>,
    host: Host,
    mover: Mover,
    control: Control,
    requester: Requester,
    responder: Responder,
    outgoing: Outgoing,
    served: Served,
    mail: Mail,
    gone: BTreeSet<u32>,
    reports: VecDeque<Report>,
    turn: Turn,
    /// True if something was done since the first part of the turn.
    is_active: bool,
    wire: PhantomData<fn(W)>,
}

/// The packets that a node sends.
#[derive(Debug, Default)]
struct Outgoing {
    /// Requests for which no transaction id is free.
    waiting: VecDeque<(Ticket, Request)>,
    /// Requests that are not over.
    asked: InOrder<Ticket, Asked>,
    next_ticket: u64,
    /// Packets in the send queue, by the network's number.
    sends: InOrder<SendId, Sending>,
    /// Responses that wait for space in the send queue.
    responses: VecDeque<Packet>,
    /// The time of the next time-out on the agenda.
    timer: Option<Instant>,
}

/// The requests that a node's host serves.
#[derive(Debug, Default)]
struct Served {
    packets: InOrder<host::RequestId, Packet>,
    next_request: host::RequestId,
}

/// On whose behalf a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Host(host::Handle),
    Credit,
    Probe,
}

/// A request that is not over.
#[derive(Clone, Copy, Debug)]
struct Asked {
    owner: Owner,
    target: NodeId,
    offset: u64,
    repeat: Repeat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    Request(u8),
    Response,
}

/// The parts of a turn, in their order. A turn is over when no part had anything to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turn {
    #[default]
    HostSends,
    HostReports,
    Requests,
    Packets,
    Responses,
    Incoming,
    Mail,
}

impl Turn {
    fn next(self) -> Turn {
        match self {
            Turn::HostSends => Turn::HostReports,
            Turn::HostReports => Turn::Requests,
            Turn::Requests => Turn::Packets,
            Turn::Packets => Turn::Responses,
            Turn::Responses => Turn::Incoming,
            Turn::Incoming => Turn::Mail,
            Turn::Mail => Turn::HostSends,
        }
    }
}

impl<W> Card<W> {
    /// Makes the card of a node.
    #[must_use]
    pub fn new(number: u32, ids: &Arc<Ids>, host: Host, mover: Mover, times: Times) -> Card<W> {
        Card {
            number,
            host,
            mover,
            control: Control::default(),
            requester: Requester::new(ids.id(number), times),
            responder: Responder::default(),
            outgoing: Outgoing::default(),
            served: Served::default(),
            mail: Mail::default(),
            gone: BTreeSet::new(),
            reports: VecDeque::new(),
            turn: Turn::default(),
            is_active: false,
            ids: Arc::clone(ids),
            wire: PhantomData,
        }
    }

    /// The number of a source, by which memory and driver know it.
    fn number_of(&self, id: NodeId) -> u32 {
        self.ids.number(id).unwrap_or(u32::MAX)
    }

    /// Sends a request through the transaction layer.
    fn ask(&mut self, owner: Owner, request: Request) {
        self.outgoing.next_ticket += 1;
        let ticket = Ticket(self.outgoing.next_ticket);
        let Request { target, offset, repeat, .. } = request;
        self.outgoing.asked.insert(ticket, Asked { owner, target, offset, repeat });
        self.outgoing.waiting.push_back((ticket, request));
    }

    /// Ends a request.
    fn over(&mut self, ticket: Ticket, answer: Answer, agenda: &mut impl Schedule<Step>) {
        let Some(asked) = self.outgoing.asked.remove(ticket) else { return };
        let (outcome, data) = match answer {
            Answer::Answered(status, data) => (Outcome::Done(status.into()), data),
            Answer::NoAnswer => (Outcome::Lost, Vec::new()),
        };
        if let Owner::Host(handle) = asked.owner {
            self.mover.request_ended(self.number_of(asked.target), asked.offset, outcome);
            self.host.finished(handle, outcome, data, &mut Part::of(agenda));
        }
        if outcome == Outcome::Lost && asked.repeat == Repeat::Yes {
            self.give_up(asked.target, agenda);
        }
    }

    /// Gives up a node that does not answer: all requests to it are over.
    fn give_up(&mut self, target: NodeId, agenda: &mut impl Schedule<Step>) {
        let peer = self.number_of(target);
        if !self.gone.insert(peer) {
            return;
        }
        self.control.give_up(target);
        self.reports.push_back(Report::PeerGone { peer });
        if let Some(outbox) = self.mail.outboxes.remove(&peer) {
            let lost = |job| Report::Ended { job, result: Err(Failure::Lost) };
            self.reports.extend(outbox.jobs().map(lost));
        }
        for (ticket, answer) in self.requester.abandon(agenda.now(), target) {
            self.over(ticket, answer, agenda);
        }
    }

    /// Puts the earliest time-out on the agenda.
    fn arm(&mut self, agenda: &mut impl Schedule<Step>) {
        if let Some(at) = self.requester.deadline_before(self.outgoing.timer) {
            self.outgoing.timer = Some(at);
            agenda.schedule(at, Step::Timer { node: self.number });
        }
    }
}

/// The parts of a turn; each returns true if it had something to do.
impl<W: Interconnect<Frame = Packet>> Card<W> {
    /// Takes the host's next packet.
    fn host_sends(&mut self) -> bool {
        let Some(out) = self.host.next_out() else { return false };
        match out {
            Out::Request { handle, to, access, offset, data } => {
                let repeat = self.mover.repeat(to, offset);
                let command = command_of(access, data.len());
                let (target, data) = (self.ids.id(to), packet_data(access, data));
                let request = Request { target, command, offset, data, repeat };
                self.ask(Owner::Host(handle), request);
            }
            Out::Response { request, status, data } => self.respond(request, status.into(), data),
        }
        true
    }

    fn respond(&mut self, request: host::RequestId, status: Status, data: Vec<u8>) {
        let Some(packet) = self.served.packets.remove(request) else { return };
        let Some(command) = packet.command.response() else { return };
        self.outgoing.responses.push_back(Packet {
            target: packet.source,
            source: self.ids.id(self.number),
            command,
            transaction: packet.transaction,
            offset: 0,
            status,
            data,
        });
    }

    /// Acts on the host's next report.
    fn host_reports(&mut self, memory: &mut NodeMemory, agenda: &mut impl Schedule<Step>) -> bool {
        let Some(report) = self.host.next_report() else { return false };
        match report {
            host::Report::Serve(incoming) => self.serve(&incoming, memory, agenda),
            report => match self.mover.report(report, &mut self.host, &mut Part::of(agenda)) {
                Some(Moved::Copied { job }) => self.reports.push_back(Report::Copied { job }),
                Some(Moved::Ended { job, result }) => self.job_ended(job, result),
                None => {}
            },
        }
        true
    }

    fn job_ended(&mut self, job: u64, result: Result<Vec<u8>, Failure>) {
        if let Some((peer, number)) = self.mail.letters.remove(job)
            && result.is_ok()
            && let Some(outbox) = self.mail.outboxes.get_mut(&peer)
        {
            outbox.answered(number);
            self.mail.freed = Some(peer);
        }
        self.reports.push_back(Report::Ended { job, result });
    }

    /// Does a request of another node on memory, after the bus has carried it.
    fn serve(
        &mut self,
        incoming: &Incoming,
        memory: &mut NodeMemory,
        agenda: &mut impl Schedule<Step>,
    ) {
        let request = incoming.request;
        let Some(packet) = self.served.packets.get(request) else { return };
        let source = self.ids.number(packet.source).unwrap_or(u32::MAX);
        let mut space = NodeSpace { control: &mut self.control, memory, source };
        let answer = self.responder.handle(packet, &mut space);
        let (status, data) = match answer {
            Some(answer) => (answer.status, answer.data),
            None => (Status::Normal, Vec::new()),
        };
        self.host.served(request, status.into(), data, &mut Part::of(agenda));
    }

    /// Begins the next request that waits for a transaction id.
    fn begin_request(&mut self, agenda: &mut impl Schedule<Step>) -> bool {
        if !self.requester.has_space() {
            return false;
        }
        let Some((ticket, request)) = self.outgoing.waiting.pop_front() else { return false };
        if self.gone.contains(&self.number_of(request.target)) {
            self.over(ticket, Answer::NoAnswer, agenda);
        } else if let Err(request) = self.requester.begin(agenda.now(), ticket, request) {
            self.outgoing.waiting.push_front((ticket, request));
        }
        true
    }

    /// Sends packets while the network takes them: answers first.
    fn send_packets<E>(&mut self, wire: &mut W, agenda: &mut Agenda<E>) -> bool
    where
        E: From<Step> + From<W::Entry>,
    {
        let mut is_active = false;
        while let Some(packet) = self.outgoing.responses.pop_front() {
            match wire.send(self.number, packet, agenda) {
                Ok(send) => {
                    is_active = true;
                    self.outgoing.sends.insert(send, Sending::Response);
                }
                Err(back) if back.why == Refusal::Full => {
                    self.outgoing.responses.push_front(back.frame);
                    break;
                }
                Err(_) => {}
            }
        }
        while let Some((id, packet)) = self.requester.next_packet() {
            match wire.send(self.number, packet, agenda) {
                Ok(send) => {
                    is_active = true;
                    self.outgoing.sends.insert(send, Sending::Request(id));
                }
                Err(back) if back.why == Refusal::Full => {
                    self.requester.put_back(id);
                    break;
                }
                Err(_) => {
                    if let Some((ticket, answer)) = self.requester.lost(agenda.now(), id) {
                        self.over(ticket, answer, agenda);
                    }
                }
            }
        }
        is_active
    }

    /// Takes the next response of another node.
    fn take_response<E>(&mut self, wire: &mut W, agenda: &mut Agenda<E>) -> bool
    where
        E: From<Step> + From<W::Entry>,
    {
        let Some(packet) = wire.take(self.number, Class::Response, agenda) else { return false };
        if let Some((ticket, answer)) = self.requester.answered(agenda.now(), packet) {
            self.over(ticket, answer, agenda);
        }
        true
    }

    /// Takes the next request of another node, while the host has room.
    fn take_request<E>(&mut self, wire: &mut W, agenda: &mut Agenda<E>) -> bool
    where
        E: From<Step> + From<W::Entry>,
    {
        if !self.host.has_space() {
            return false;
        }
        let Some(packet) = wire.take(self.number, Class::Request, agenda) else { return false };
        if self.control.hears(packet.source) {
            self.served.next_request += 1;
            let request = self.served.next_request;
            let (access, offset) = (access_of(&packet), packet.offset);
            let is_read = matches!(access, Access::Read { .. });
            let data = if is_read { Vec::new() } else { packet.data.clone() };
            self.served.packets.insert(request, packet);
            let incoming = Incoming { request, access, offset, data };
            self.host.incoming(incoming, &mut Part::<_, Step>::of(agenda));
        }
        true
    }
}

impl<W: Interconnect<Frame = Packet>> Adapter for Card<W> {
    type Wire = W;
    type Step = Step;

    fn submit(&mut self, job: Job, agenda: &mut impl Schedule<Step>) {
        let Job { number, to, action, repeat } = job;
        let (offset, action) = match action {
            Action::Message(message) => {
                let outbox = self.mail.outboxes.entry(to).or_default();
                outbox.add(Letter { job: number, message });
                return self.write_mail(to, agenda);
            }
            Action::Write { offset, data, word: _ } => (offset, mover::Action::Write(data)),
            Action::Read { offset, bytes } => (offset, mover::Action::Read(bytes)),
            Action::FetchAdd { offset, add } => (offset, mover::Action::FetchAdd(add)),
            Action::CompareSwap { offset, expected, desired } => {
                (offset, mover::Action::CompareSwap(expected, desired))
            }
        };
        let job = mover::Job { number, to, offset, action, repeat };
        self.mover.submit(job, &mut self.host, &mut Part::of(agenda));
    }

    fn handle(&mut self, step: Step, agenda: &mut impl Schedule<Step>) {
        match step {
            Step::Host(entry) => self.host.handle(entry, &mut Part::of(agenda)),
            Step::Timer { .. } => {
                self.outgoing.timer = None;
                for (ticket, answer) in self.requester.expire(agenda.now()) {
                    self.over(ticket, answer, agenda);
                }
            }
        }
    }

    /// Reads a register of the peer: a dead peer does not answer.
    fn probe(&mut self, peer: u32) {
        let request = Request {
            target: self.ids.id(peer),
            command: Command::ReadSelected,
            offset: REGISTERS_AT,
            data: vec![4],
            repeat: Repeat::Yes,
        };
        self.ask(Owner::Probe, request);
    }

    fn send_ended(&mut self, send: SendId, end: SendEnd, agenda: &mut impl Schedule<Step>) {
        // A lost response needs no action: the requester asks again.
        let Some(Sending::Request(id)) = self.outgoing.sends.remove(send) else { return };
        let ended = match end {
            SendEnd::Done => self.requester.echoed(agenda.now(), id),
            SendEnd::Lost => self.requester.lost(agenda.now(), id),
        };
        if let Some((ticket, answer)) = ended {
            self.over(ticket, answer, agenda);
        }
    }

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
            if let Some(peer) = self.mail.freed.take() {
                self.write_mail(peer, agenda);
            }
            let is_active = match self.turn {
                Turn::HostSends => self.host_sends(),
                Turn::HostReports => self.host_reports(memory, agenda),
                Turn::Requests => self.begin_request(agenda),
                Turn::Packets => self.send_packets(wire, agenda),
                Turn::Responses => self.take_response(wire, agenda),
                Turn::Incoming => self.take_request(wire, agenda),
                Turn::Mail => self.read_mail(agenda),
            };
            self.is_active |= is_active;
            // Packets are sent once a turn: what the network refused waits for its next report.
            if is_active && self.turn != Turn::Packets {
                continue;
            }
            self.turn = self.turn.next();
            if self.turn == Turn::HostSends && !std::mem::take(&mut self.is_active) {
                self.arm(agenda);
                return None;
            }
        }
    }

    fn die(&mut self) {
        self.outgoing.waiting.clear();
        self.outgoing.responses.clear();
    }

    fn compute(&mut self, time: Duration, agenda: &mut impl Schedule<Step>) {
        self.host.submit(host::Call::Compute(time), u64::MAX, &mut Part::of(agenda));
    }

    fn poll_notice(&self) -> Duration {
        self.host.config().cpu.poll_notice
    }

    fn counts(&self) -> Counts {
        Counts { requester: self.requester.counts(), responder: self.responder.counts() }
    }

    fn transactions_open(&self) -> usize {
        self.requester.open() + self.outgoing.waiting.len()
    }
}
