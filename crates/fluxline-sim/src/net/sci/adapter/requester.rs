//! Transactions of one node as requester: ids, answers, time-outs, repetition.
//!
//! A request is on its way until its send is echoed, and then waits for its answer; a move is done
//! with its echo. What is lost is sent again under the same id, which is harmless for reads and
//! writes; of locks the responder remembers the last one of each id (`responder.rs`). An id that
//! was sent more than once rests after its end, until no answer to an earlier try can still come.
//!
//! The layer is a reconstruction: sci.md 1.2 (64 ids per source), 1.4 (what is answered), 1.9 (what
//! is lost is reported, and repeated by software). Its times are parameters.

use std::collections::VecDeque;

use crate::core::in_order::InOrder;
use crate::fabric::adapter::{Repeat, RequesterCounts};
use crate::net::sci::{Command, NodeId, Packet, Status};
use crate::{Duration, Instant};

/// Ids of one source's requests. Source: 6 bits of the control symbol (BACKGROUND).
pub const TRANSACTIONS: usize = 64;

/// Times of the transaction layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// From the echo of a request to its repetition when no answer came. Assumed: far above any
    /// round trip; the standard has it in a register, in the class of ms.
    pub answer: Duration,
    /// From the news that a send was lost to its repetition; doubles with each try, four times.
    /// Assumed: about one round trip, so that a hot node is not hammered.
    pub again: Duration,
    /// From the first try to giving up. Assumed.
    pub give_up: Duration,
}

impl Default for Times {
    fn default() -> Times {
        Times {
            answer: Duration::from_us(500),
            again: Duration::from_us(5),
            give_up: Duration::from_us(60_000),
        }
    }
}

/// A request to another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The target.
    pub target: NodeId,
    /// The command.
    pub command: Command,
    /// The offset in its 48 bits of address.
    pub offset: u64,
    /// The bytes, where the command has some.
    pub data: Vec<u8>,
    /// The repetition after a loss.
    pub repeat: Repeat,
}

/// The caller's number of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// The end of a request: the responder's verdict with its data, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered; a move: taken by the other node.
    Answered(Status, Vec<u8>),
    /// No answer came, for as long as it was tried.
    NoAnswer,
}

#[derive(Debug)]
struct Open {
    ticket: Ticket,
    request: Request,
    began: Instant,
    tries: u32,
    wait: Wait,
    /// The answer, where it came before the echo.
    early: Option<(Status, Vec<u8>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// In the outbox, or on the ring without an echo.
    Echo,
    /// The request was echoed.
    Answer(Instant),
    /// Lost; to be sent again then.
    Again(Instant),
}

/// The requests of one node that are not over.
#[derive(Debug)]
pub struct Requester {
    node: NodeId,
    times: Times,
    /// By id; few of the ids are in use at a time.
    open: InOrder<u8, Open>,
    free: VecDeque<u8>,
    resting: VecDeque<(Instant, u8)>,
    /// The number of times that an id carried a lock, modulo 8.
    locks: Vec<u8>,
    outbox: VecDeque<u8>,
    /// No deadline is earlier than this.
    no_deadline_before: Instant,
    counts: RequesterCounts,
}

impl Requester {
    /// A node without requests.
    #[must_use]
    pub fn new(node: NodeId, times: Times) -> Requester {
        Requester {
            node,
            times,
            open: InOrder::default(),
            free: (0..TRANSACTIONS as u8).collect(),
            resting: VecDeque::new(),
            locks: vec![0; TRANSACTIONS],
            outbox: VecDeque::new(),
            no_deadline_before: Instant::NEVER,
            counts: RequesterCounts::default(),
        }
    }

    /// Returns true if another request can begin: an id is free.
    #[must_use]
    pub fn has_space(&self) -> bool {
        !self.free.is_empty()
    }

    /// Returns the counts.
    #[must_use]
    pub fn counts(&self) -> RequesterCounts {
        self.counts
    }

    /// Requests that are not over.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Begins a request. Errors: no id is free; the request comes back.
    pub fn begin(&mut self, now: Instant, ticket: Ticket, request: Request) -> Result<(), Request> {
        let Some(id) = self.free.pop_front() else { return Err(request) };
        if matches!(request.command, Command::Lock(_)) {
            self.locks[usize::from(id)] = (self.locks[usize::from(id)] + 1) % 8;
        }
        let wait = Wait::Echo;
        self.open.insert(id, Open { ticket, request, began: now, tries: 1, wait, early: None });
        self.outbox.push_back(id);
        self.counts.begun += 1;
        Ok(())
    }

    /// Returns the next packet to send, with the id under which its end is reported.
    pub fn next_packet(&mut self) -> Option<(u8, Packet)> {
        while let Some(id) = self.outbox.pop_front() {
            if let Some(open) = self.open.get(id) {
                return Some((id, self.packet(id, &open.request)));
            }
        }
        None
    }

    /// A packet that could not be sent now: it stays the next.
    pub fn put_back(&mut self, id: u8) {
        self.outbox.push_front(id);
    }

    fn packet(&self, id: u8, request: &Request) -> Packet {
        let mark = match request.command {
            // A word's offset leaves three bits free. They number the locks of an id, so that the
            // responder distinguishes a repetition from the next lock. An addition of this model.
            Command::Lock(_) => u64::from(self.locks[usize::from(id)]),
            _ => 0,
        };
        Packet {
            target: request.target,
            source: self.node,
            command: request.command,
            transaction: id,
            offset: request.offset | mark,
            status: Status::Normal,
            data: request.data.clone(),
        }
    }

    /// The send of `id` was echoed: a move is over, others wait for their answer.
    pub fn echoed(&mut self, now: Instant, id: u8) -> Option<(Ticket, Outcome)> {
        let open = self.open.get_mut(id)?;
        if let Some((status, data)) = open.early.take() {
            return Some(self.end(now, id, Outcome::Answered(status, data)));
        }
        if open.request.command.response().is_none() {
            return Some(self.end(now, id, Outcome::Answered(Status::Normal, Vec::new())));
        }
        let due = now + self.times.answer;
        open.wait = Wait::Answer(due);
        self.no_deadline_before = self.no_deadline_before.min(due);
        None
    }

    /// Handles the loss of the send of `id`, also if no node took it.
    pub fn lost(&mut self, now: Instant, id: u8) -> Option<(Ticket, Outcome)> {
        let open = self.open.get_mut(id)?;
        if let Some((status, data)) = open.early.take() {
            return Some(self.end(now, id, Outcome::Answered(status, data)));
        }
        if open.request.repeat == Repeat::No {
            return Some(self.end(now, id, Outcome::NoAnswer));
        }
        let due = now + self.times.again.times(1 << (open.tries - 1).min(4));
        open.wait = Wait::Again(due);
        self.no_deadline_before = self.no_deadline_before.min(due);
        None
    }

    /// A response came.
    ///
    /// Before the echo of the latest try nothing is over: as long as a copy may be on its way, it
    /// could overtake what the caller does next.
    pub fn answered(&mut self, now: Instant, packet: Packet) -> Option<(Ticket, Outcome)> {
        let id = packet.transaction;
        let waiting = self.open.get(id);
        let fits = waiting.is_some_and(|open| {
            open.request.target == packet.source
                && open.request.command.response() == Some(packet.command)
        });
        if !fits {
            self.counts.stray += 1;
            return None;
        }
        let open = self.open.get_mut(id)?;
        if open.wait == Wait::Echo && !self.outbox.contains(&id) {
            open.early = Some((packet.status, packet.data));
            return None;
        }
        Some(self.end(now, id, Outcome::Answered(packet.status, packet.data)))
    }

    fn end(&mut self, now: Instant, id: u8, outcome: Outcome) -> (Ticket, Outcome) {
        let open = self.open.remove(id).expect("the caller has looked at it");
        self.outbox.retain(|&other| other != id);
        let clean = open.tries == 1 && outcome != Outcome::NoAnswer;
        if clean {
            self.free.push_back(id);
        } else {
            // An answer to another try may still be on its way, for as long as one may take.
            let due = now + self.times.answer;
            self.resting.push_back((due, id));
            self.no_deadline_before = self.no_deadline_before.min(due);
        }
        match outcome {
            Outcome::Answered(..) => self.counts.answered += 1,
            Outcome::NoAnswer => self.counts.given_up += 1,
        }
        (open.ticket, outcome)
    }

    /// Returns the next time at which [`Requester::expire`] has work.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let waits = self.open.values().filter_map(|open| match open.wait {
            Wait::Echo => None,
            Wait::Answer(at) | Wait::Again(at) => Some(at),
        });
        waits.chain(self.resting.front().map(|of| of.0)).min()
    }

    /// Returns the next deadline if it is before `armed`; `None` of `armed` is the end of time. It
    /// looks at the requests only if a deadline may be so early.
    pub fn deadline_before(&mut self, armed: Option<Instant>) -> Option<Instant> {
        let armed = armed.unwrap_or(Instant::NEVER);
        if self.no_deadline_before >= armed {
            return None;
        }
        let due = self.deadline();
        self.no_deadline_before = due.unwrap_or(Instant::NEVER);
        due.filter(|&due| due < armed)
    }

    /// Sends again what is due, gives up what was tried for too long, and lets ids be used again.
    pub fn expire(&mut self, now: Instant) -> Vec<(Ticket, Outcome)> {
        while self.resting.front().is_some_and(|&(until, _)| until <= now) {
            self.free.extend(self.resting.pop_front().map(|of| of.1));
        }
        let mut ended = Vec::new();
        for id in self.open.keys().collect::<Vec<u8>>() {
            let Some(open) = self.open.get_mut(id) else { continue };
            let due = match open.wait {
                Wait::Echo => continue,
                Wait::Answer(at) | Wait::Again(at) => at <= now,
            };
            if !due {
                continue;
            }
            if open.request.repeat == Repeat::No || now.since(open.began) >= self.times.give_up {
                ended.push(self.end(now, id, Outcome::NoAnswer));
                continue;
            }
            (open.wait, open.tries) = (Wait::Echo, open.tries.saturating_add(1));
            self.outbox.push_back(id);
            self.counts.repeated += 1;
        }
        ended
    }

    /// Ends all requests to a node that is gone.
    pub fn abandon(&mut self, now: Instant, target: NodeId) -> Vec<(Ticket, Outcome)> {
        let to_it = |id: &u8| self.open.get(*id).is_some_and(|of| of.request.target == target);
        let ids: Vec<u8> = self.open.keys().filter(to_it).collect();
        ids.into_iter().map(|id| self.end(now, id, Outcome::NoAnswer)).collect()
    }
}
