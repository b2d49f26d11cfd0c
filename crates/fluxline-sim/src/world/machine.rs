//! One node: its host, its adapter's transactions, its memory and its driver, joined.

use std::collections::{BTreeMap, VecDeque};

use super::address::{CREDIT_AT, REGISTERS_AT};
use super::driver::{Driver, Hands};
use super::entry::{Entry, PROBE_EVERY};
use super::interrupt::{InterruptCounts, InterruptReport, Lines};
use super::message::Taken;
use super::mover::Mover;
use super::requester;
use super::requester::{Repeat, Request, Requester, RequesterCounts, Ticket, Times};
use super::responder::{Responder, ResponderCounts};
use super::space::NodeSpace;
use super::wire::{Queue, Sent, Wire};
use crate::host::{self, Access, Host, Incoming, Out, Outcome, Report};
use crate::net::sci::adapter::{access_of, command_of, packet_data};
use crate::net::sci::{Command, NodeId, Packet, Status};
use crate::{Agenda, Instant};

use fluxline_core::fabric::EndpointId;

/// Messages read between two acknowledgements to their sender: a quarter of the mailbox.
const CREDIT_EVERY: u32 = 8;

/// A node.
pub struct Machine {
    /// Its address.
    pub id: NodeId,
    alive: bool,
    number: u32,
    host: Host,
    mover: Mover,
    space: NodeSpace,
    requester: Requester,
    responder: Responder,
    /// The driver: its program's requests and completions.
    pub driver: Driver,
    outgoing: Outgoing,
    served: Served,
    watch: Watch,
}

/// The packets that a node sends.
#[derive(Debug, Default)]
struct Outgoing {
    /// Requests for which no transaction id is free.
    waiting: VecDeque<(Ticket, Request)>,
    /// Requests that are not over.
    asked: BTreeMap<Ticket, Asked>,
    next_ticket: u64,
    /// Packets in the send queue, by the wire's number.
    sends: BTreeMap<u64, Sending>,
    /// Responses that wait for space in the send queue.
    responses: VecDeque<Packet>,
    /// The time of the next time-out on the agenda.
    timer: Option<Instant>,
}

/// The requests that a node's host serves.
#[derive(Debug, Default)]
struct Served {
    packets: BTreeMap<host::RequestId, Packet>,
    next_request: host::RequestId,
}

/// The attention of a node to its peers.
#[derive(Debug, Default)]
struct Watch {
    /// True if a probe is on the agenda.
    is_probing: bool,
    /// The number of messages of each peer that were acknowledged to the peer.
    credited: BTreeMap<NodeId, u32>,
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

/// The counts of a node's adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// As requester.
    pub requester: RequesterCounts,
    /// As responder.
    pub responder: ResponderCounts,
}

impl Machine {
    /// A node at rest.
    #[must_use]
    pub fn new(number: usize, ids: &[NodeId], host: Host, mover: Mover, times: Times) -> Machine {
        Machine {
            id: ids[number],
            alive: true,
            number: number as u32,
            mover,
            space: NodeSpace::default(),
            requester: Requester::new(ids[number], times),
            responder: Responder::default(),
            driver: Driver::new(number, ids, host.config().cpu.poll_notice),
            host,
            outgoing: Outgoing::default(),
            served: Served::default(),
            watch: Watch::default(),
        }
    }

    /// Returns the memory that others can reach.
    #[must_use]
    pub fn space(&self) -> &NodeSpace {
        &self.space
    }

    /// Returns the counts of its adapter.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts { requester: self.requester.counts(), responder: self.responder.counts() }
    }

    /// Requests that are not over.
    #[must_use]
    pub fn transactions_open(&self) -> usize {
        self.requester.open() + self.outgoing.waiting.len()
    }

    /// The node's processor and adapter stop: it takes packets, and answers none.
    pub fn die(&mut self) {
        self.alive = false;
        self.outgoing.waiting.clear();
        self.outgoing.responses.clear();
    }

    /// The driver with the parts it works with.
    pub fn hands<'a>(&'a mut self, agenda: &'a mut Agenda<Entry>) -> (&'a mut Driver, Hands<'a>) {
        let Machine { driver, space, mover, host, .. } = self;
        driver.set_now(agenda.now());
        (driver, Hands { space, mover, host, agenda })
    }

    /// Returns its interrupts.
    pub fn interrupts(&mut self) -> &mut Lines {
        &mut self.space.interrupts
    }

    /// Returns the counts of the triggers that arrived.
    #[must_use]
    pub fn interrupt_counts(&self) -> InterruptCounts {
        self.space.interrupts.counts()
    }

    /// The next interrupt for the program, or the next trigger of its own that is over.
    pub fn next_interrupt(&mut self) -> Option<InterruptReport> {
        self.space.interrupts.next_raised().or_else(|| self.driver.next_triggered())
    }

    /// Charges the processor for stores through windows.
    pub fn compute(&mut self, time: crate::Duration, agenda: &mut Agenda<Entry>) {
        self.host.submit(host::Call::Compute(time), u64::MAX, agenda);
    }

    /// An entry of the host is due.
    pub fn host_due(&mut self, entry: host::Entry, agenda: &mut Agenda<Entry>) {
        if self.alive {
            self.host.handle(entry, agenda);
        }
    }

    /// A message has waited for its buffer.
    pub fn no_buffer(&mut self, endpoint: u32, agenda: &mut Agenda<Entry>) {
        if self.alive {
            let (driver, mut hands) = self.hands(agenda);
            driver.no_buffer(&mut hands, EndpointId(endpoint));
        }
    }

    /// A transaction may have timed out.
    pub fn timer(&mut self, agenda: &mut Agenda<Entry>) {
        self.outgoing.timer = None;
        if self.alive {
            for (ticket, outcome) in self.requester.expire(agenda.now()) {
                self.over(ticket, outcome, agenda);
            }
        }
    }

    /// Reads a register of each peer: a dead peer does not answer.
    pub fn probe(&mut self) {
        self.watch.is_probing = false;
        if !self.alive {
            return;
        }
        for peer in self.driver.peers() {
            let request = Request {
                target: peer,
                command: Command::ReadSelected,
                offset: REGISTERS_AT,
                data: vec![4],
                repeat: Repeat::Yes,
            };
            self.ask(Owner::Probe, request);
        }
    }

    fn ask(&mut self, owner: Owner, request: Request) {
        self.outgoing.next_ticket += 1;
        let ticket = Ticket(self.outgoing.next_ticket);
        let Request { target, offset, repeat, .. } = request;
        self.outgoing.asked.insert(ticket, Asked { owner, target, offset, repeat });
        self.outgoing.waiting.push_back((ticket, request));
    }

    /// The network has taken a send.
    pub fn send_done(&mut self, send: u64, agenda: &mut Agenda<Entry>) {
        if let Some(Sending::Request(id)) = self.outgoing.sends.remove(&send)
            && let Some((ticket, outcome)) = self.requester.echoed(agenda.now(), id)
        {
            self.over(ticket, outcome, agenda);
        }
    }

    /// Handles a send that the network lost. A lost response needs no action: the requester asks
    /// again.
    pub fn send_lost(&mut self, send: u64, agenda: &mut Agenda<Entry>) {
        if let Some(Sending::Request(id)) = self.outgoing.sends.remove(&send)
            && let Some((ticket, outcome)) = self.requester.lost(agenda.now(), id)
        {
            self.over(ticket, outcome, agenda);
        }
    }

    /// A request is over.
    fn over(&mut self, ticket: Ticket, outcome: requester::Outcome, agenda: &mut Agenda<Entry>) {
        let Some(asked) = self.outgoing.asked.remove(&ticket) else { return };
        let (ended, data) = match outcome {
            requester::Outcome::Answered(status, data) => (Outcome::Done(status.into()), data),
            requester::Outcome::NoAnswer => (Outcome::Lost, Vec::new()),
        };
        let lost = ended == Outcome::Lost;
        if let Owner::Host(handle) = asked.owner {
            self.mover.request_ended(asked.target, asked.offset, ended);
            self.host.finished(handle, ended, data, agenda);
        }
        if lost && asked.repeat == Repeat::Yes {
            self.give_up(asked.target, agenda);
        }
    }

    /// A node does not answer: all that waits for it is over.
    fn give_up(&mut self, peer: NodeId, agenda: &mut Agenda<Entry>) {
        if self.driver.is_gone(peer) {
            return;
        }
        let (driver, mut hands) = self.hands(agenda);
        driver.peer_gone(&mut hands, peer);
        for (ticket, outcome) in self.requester.abandon(agenda.now(), peer) {
            self.over(ticket, outcome, agenda);
        }
    }

    /// Does what follows at this moment.
    pub fn settle(&mut self, wire: &mut Wire, agenda: &mut Agenda<Entry>) {
        if !self.alive {
            for queue in [Queue::Requests, Queue::Responses] {
                while wire.take(self.number as usize, queue, agenda).is_some() {}
            }
            return;
        }
        loop {
            let mut active = self.take_from_host(agenda);
            active |= self.begin_requests(agenda);
            active |= self.send_packets(wire, agenda);
            active |= self.take_from_wire(wire, agenda);
            active |= self.read_mail(agenda);
            if !active {
                break;
            }
        }
        self.arm(agenda);
    }

    fn take_from_host(&mut self, agenda: &mut Agenda<Entry>) -> bool {
        let mut active = false;
        while let Some(out) = self.host.next_out() {
            active = true;
            match out {
                Out::Request { handle, to, access, offset, data } => {
                    let target = NodeId(to as u16);
                    let repeat = self.mover.repeat(target, offset);
                    let command = command_of(access, data.len());
                    let data = packet_data(access, data);
                    let request = Request { target, command, offset, data, repeat };
                    self.ask(Owner::Host(handle), request);
                }
                Out::Response { request, status, data } => {
                    self.respond(request, status.into(), data)
                }
            }
        }
        while let Some(report) = self.host.next_report() {
            active = true;
            match report {
                Report::Serve(incoming) => self.serve(incoming, agenda),
                Report::Interrupted { number } => {
                    self.space.interrupts.seen(number as u32);
                    self.driver.interrupted();
                }
                report => {
                    let moved = self.mover.report(report, &mut self.host, agenda);
                    if let Some(moved) = moved {
                        let (driver, mut hands) = self.hands(agenda);
                        driver.moved(&mut hands, moved);
                    }
                }
            }
        }
        active
    }

    /// The bus has carried a request of another node: it is done on memory.
    fn serve(&mut self, incoming: Incoming, agenda: &mut Agenda<Entry>) {
        let request = incoming.request;
        let Some(packet) = self.served.packets.get(&request) else { return };
        let answer = self.responder.handle(packet, &mut self.space);
        while let Some(number) = self.space.interrupts.next_signal() {
            self.host.interrupt(u64::from(number), agenda);
        }
        let (status, data) = match answer {
            Some(answer) => (answer.status, answer.data),
            None => (Status::Normal, Vec::new()),
        };
        self.host.served(request, status.into(), data, agenda);
    }

    fn respond(&mut self, request: host::RequestId, status: Status, data: Vec<u8>) {
        let Some(packet) = self.served.packets.remove(&request) else { return };
        let Some(command) = packet.command.response() else { return };
        self.outgoing.responses.push_back(Packet {
            target: packet.source,
            source: self.id,
            command,
            transaction: packet.transaction,
            offset: 0,
            status,
            data,
        });
    }

    fn begin_requests(&mut self, agenda: &mut Agenda<Entry>) -> bool {
        let mut active = false;
        while self.requester.has_space() {
            let Some((ticket, request)) = self.outgoing.waiting.pop_front() else { break };
            active = true;
            if self.driver.is_gone(request.target) {
                self.over(ticket, requester::Outcome::NoAnswer, agenda);
            } else if let Err(request) = self.requester.begin(agenda.now(), ticket, request) {
                self.outgoing.waiting.push_front((ticket, request));
            }
        }
        active
    }

    fn send_packets(&mut self, wire: &mut Wire, agenda: &mut Agenda<Entry>) -> bool {
        let (node, mut active) = (self.number as usize, false);
        while let Some(packet) = self.outgoing.responses.pop_front() {
            match wire.send(node, packet.clone(), agenda) {
                Sent::As(send) => {
                    active |= self.outgoing.sends.insert(send, Sending::Response).is_none();
                }
                Sent::Full => {
                    self.outgoing.responses.push_front(packet);
                    break;
                }
                Sent::Lost => {}
            }
        }
        while let Some((id, packet)) = self.requester.next_packet() {
            match wire.send(node, packet, agenda) {
                Sent::As(send) => {
                    active |= self.outgoing.sends.insert(send, Sending::Request(id)).is_none();
                }
                Sent::Full => {
                    self.requester.put_back(id);
                    break;
                }
                Sent::Lost => {
                    if let Some((ticket, outcome)) = self.requester.lost(agenda.now(), id) {
                        self.over(ticket, outcome, agenda);
                    }
                }
            }
        }
        active
    }

    fn take_from_wire(&mut self, wire: &mut Wire, agenda: &mut Agenda<Entry>) -> bool {
        let (node, mut active) = (self.number as usize, false);
        while let Some(packet) = wire.take(node, Queue::Responses, agenda) {
            active = true;
            if let Some((ticket, outcome)) = self.requester.answered(agenda.now(), packet) {
                self.over(ticket, outcome, agenda);
            }
        }
        while self.host.has_space() {
            let Some(packet) = wire.take(node, Queue::Requests, agenda) else { break };
            active = true;
            if !self.space.hears(packet.source) {
                continue;
            }
            self.served.next_request += 1;
            let request = self.served.next_request;
            let (access, offset) = (access_of(&packet), packet.offset);
            let is_read = matches!(access, Access::Read { .. });
            let data = if is_read { Vec::new() } else { packet.data.clone() };
            let incoming = Incoming { request, access, offset, data };
            self.served.packets.insert(request, packet);
            self.host.incoming(incoming, agenda);
        }
        active
    }

    /// Reads messages of other drivers, and acknowledges them.
    fn read_mail(&mut self, agenda: &mut Agenda<Entry>) -> bool {
        let mut active = false;
        while let Some(source) = self.space.next_rung() {
            active = true;
            loop {
                match self.space.mailbox(source).take() {
                    Taken::Nothing => break,
                    Taken::Unreadable => {}
                    Taken::Message(message) => {
                        let (driver, mut hands) = self.hands(agenda);
                        driver.message(&mut hands, source, message);
                    }
                }
            }
            let (driver, mut hands) = self.hands(agenda);
            driver.write_mail(&mut hands, source);
            self.credit(source);
        }
        active
    }

    fn credit(&mut self, source: NodeId) {
        let read = self.space.mailbox(source).read();
        let reported = self.watch.credited.entry(source).or_default();
        if read.wrapping_sub(*reported) < CREDIT_EVERY {
            return;
        }
        *reported = read;
        let request = Request {
            target: source,
            command: Command::WriteSelected,
            offset: CREDIT_AT + u64::from(self.id.0) * 8,
            data: read.to_le_bytes().to_vec(),
            repeat: Repeat::Yes,
        };
        self.ask(Owner::Credit, request);
    }

    /// Puts the earliest time-out and the next probe on the agenda.
    fn arm(&mut self, agenda: &mut Agenda<Entry>) {
        let node = self.number;
        let due = self.requester.deadline();
        if let Some(at) = due.filter(|&at| self.outgoing.timer.is_none_or(|armed| at < armed)) {
            self.outgoing.timer = Some(at);
            agenda.schedule(at, Entry::Timer { node });
        }
        if !self.watch.is_probing && !self.driver.peers().is_empty() {
            self.watch.is_probing = true;
            agenda.schedule_after(PROBE_EVERY, Entry::Probe { node });
        }
    }
}
