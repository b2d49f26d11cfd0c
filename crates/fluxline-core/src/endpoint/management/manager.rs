//! The states of all managed connections of a node.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::entry::{Entry, State};
use super::mad::{Ids, MAD_BYTES, Mad, Message, Queue, RejectReason, Rep, Req, gid_of};
use crate::fabric::{EndpointId, Reliability};
use crate::{Moment, Span};

/// A message without an answer is repeated after this time.
const REPEAT_AFTER: Span = Span::from_ms(500);
/// A message is sent this many times at most.
const TRIES_MAX: u32 = 10;
/// A program decides about a request within this time; a connection that is over is remembered for
/// it.
const KEPT_FOR: Span = Span::from_ms(10_000);
/// The longest patience that a peer may ask for.
const PATIENCE_MAX: Span = Span::from_ms(10_000);
/// The code of the patience that this end asks for: 4.096 us times 2^20, 4.3 s.
const PATIENCE_CODE: u8 = 20;
/// Requests and acceptances without a confirmation, at most; of one address.
const HALF_OPEN_MAX: usize = 64;
const HALF_OPEN_PER_ADDRESS_MAX: usize = 16;
/// Connections that are remembered when they are over, at most.
const OVER_MAX: usize = 256;
/// Datagrams that wait to be sent, at most. A peer repeats a message whose answer was dropped.
const OUTBOX_MAX: usize = 256;

/// A datagram to be sent.
pub struct Outgoing {
    pub to: IpAddr,
    pub mad: Box<[u8; MAD_BYTES]>,
}

/// A request for a connection that waits for the program's decision.
pub struct Asked {
    /// The identifier of this end.
    pub own_id: u32,
    pub peer: IpAddr,
    pub req: Req,
    pub reliability: Reliability,
}

/// A change of a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer accepted.
    Accepted { endpoint: EndpointId, theirs: Queue, private_data: Vec<u8> },
    /// The peer refused, or did not answer.
    Refused { endpoint: EndpointId, reason: RejectReason },
    /// The peer ended the connection.
    Left { endpoint: EndpointId },
}

/// A call to a peer.
pub struct Call {
    pub endpoint: EndpointId,
    pub own_id: u32,
    pub peer: IpAddr,
    pub req: Req,
}

/// The managed connections of a node.
#[derive(Default)]
pub struct Manager {
    ports: Vec<u16>,
    entries: Vec<Entry>,
    outbox: VecDeque<Outgoing>,
    asked: VecDeque<Asked>,
    events: VecDeque<Event>,
    /// The code of the largest path MTU; 0: none.
    mtu_code_max: u8,
    /// Datagrams that fit no connection.
    pub stray: u64,
    /// Requests that were refused.
    pub refused: u64,
}

impl Manager {
    /// Accepts requests for a port.
    pub fn listen(&mut self, port: u16, mtu_code_max: u8) {
        self.mtu_code_max = mtu_code_max;
        if !self.ports.contains(&port) {
            self.ports.push(port);
        }
    }

    /// Returns true when datagrams are expected.
    pub fn is_used(&self) -> bool {
        !self.ports.is_empty() || !self.entries.is_empty()
    }

    /// Returns the next request, for the program to decide.
    pub fn next_asked(&mut self) -> Option<Asked> {
        self.asked.pop_front()
    }

    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub fn next_outgoing(&mut self) -> Option<Outgoing> {
        self.outbox.pop_front()
    }

    // ---- the program ----

    /// Accepts a request; returns the peer's queue. `None`: it is over meanwhile.
    pub fn accept(
        &mut self,
        now: Moment,
        own_id: u32,
        endpoint: EndpointId,
        rep: Rep,
    ) -> Option<Queue> {
        let entry = self.asked_entry(own_id)?;
        entry.state = State::Replied;
        (entry.endpoint, entry.own) = (Some(endpoint), Some(rep.queue));
        let theirs = entry.theirs;
        self.send_repeated(now, own_id, Message::Rep(rep));
        theirs
    }

    /// Refuses a request.
    pub fn reject(&mut self, now: Moment, own_id: u32, reason: RejectReason) {
        let Some(entry) = self.asked_entry(own_id) else { return };
        entry.state = State::Over;
        self.refused += 1;
        self.send_repeated(now, own_id, Message::Rej(reason));
        self.set_due(own_id, now + KEPT_FOR);
    }

    fn asked_entry(&mut self, own_id: u32) -> Option<&mut Entry> {
        self.entry(own_id).filter(|entry| entry.state == State::Asked)
    }

    /// Asks a peer for a connection.
    pub fn call(&mut self, now: Moment, call: Call) {
        let Call { endpoint, own_id, peer, req } = call;
        self.entries.push(Entry {
            state: State::Calling,
            ids: Ids { own: own_id, theirs: 0 },
            peer,
            endpoint: Some(endpoint),
            transaction: u64::from(own_id),
            own: Some(req.queue),
            theirs: None,
            last: None,
            tries: 0,
            due: now,
        });
        self.send_repeated(now, own_id, Message::Req(req));
    }

    /// Tells the peer that this end has ended a connection.
    pub fn leave(&mut self, now: Moment, endpoint: EndpointId) {
        let open = self.entries.iter_mut().find(|of| {
            of.endpoint == Some(endpoint) && matches!(of.state, State::Open | State::Replied)
        });
        let Some(entry) = open else { return };
        let (own_id, pair) = (entry.ids.own, entry.theirs.map(|theirs| theirs.pair));
        entry.state = State::Leaving;
        entry.transaction = entry.transaction.wrapping_add(1);
        match pair {
            Some(pair) => self.send_repeated(now, own_id, Message::Dreq(pair)),
            None => self.forget(own_id),
        }
    }

    // ---- datagrams ----

    /// Takes a datagram; `random` makes the identifier of a new connection.
    pub fn take(&mut self, now: Moment, peer: IpAddr, bytes: &[u8; MAD_BYTES], random: u32) {
        let Some(mad) = Mad::parse(bytes) else {
            self.stray += 1;
            return;
        };
        let Mad { transaction, ids, message } = mad;
        let found = self.entries.iter().find(|entry| entry.is_named(peer, ids));
        let own_id = found.map(|entry| entry.ids.own);
        match (message, own_id) {
            (Message::Req(req), _) => {
                self.take_req(now, peer, Asking { transaction, ids, req, random })
            }
            (Message::Rep(rep), Some(own_id)) => self.take_rep(own_id, ids.own, rep),
            (Message::Rtu, Some(own_id)) => self.take_rtu(own_id),
            (Message::Mra { time_code }, Some(own_id)) => self.take_mra(now, own_id, time_code),
            (Message::Rej(reason), _) => self.take_rej(now, peer, ids, reason),
            (Message::Drep, Some(own_id)) => self.take_drep(now, own_id),
            (Message::Dreq(pair), Some(own_id)) => {
                let own = self.entry(own_id).and_then(|entry| entry.own);
                match own.is_some_and(|own| own.pair == pair) {
                    true => self.take_dreq(now, own_id, transaction),
                    false => self.stray += 1,
                }
            }
            (Message::Dreq(_), None) => {
                // The connection is forgotten: the peer learns that it is over.
                self.stray += 1;
                let ids = Ids { own: ids.theirs, theirs: ids.own };
                self.send(peer, &Mad { transaction, ids, message: Message::Drep });
            }
            _ => self.stray += 1,
        }
    }

    fn take_req(&mut self, now: Moment, peer: IpAddr, asking: Asking) {
        let Asking { transaction, ids, req, random } = asking;
        let known = self.entries.iter().find(|entry| {
            entry.peer == peer && entry.ids.theirs == ids.own && entry.transaction == transaction
        });
        if let Some(known) = known {
            let own_id = known.ids.own;
            match known.state {
                State::Asked => {
                    let ids = known.ids;
                    let message = Message::Mra { time_code: PATIENCE_CODE };
                    self.send(peer, &Mad { transaction, ids, message });
                }
                _ => self.send_again(own_id),
            }
            return;
        }
        let is_taken = self.entry(random).is_some() || random == 0;
        let ids = Ids { own: random, theirs: ids.own };
        if let Err(reason) = self.check(peer, &req, is_taken) {
            self.refused += 1;
            self.send(peer, &Mad { transaction, ids, message: Message::Rej(reason) });
            return;
        }
        let reliability = req.reliability.unwrap_or(Reliability::Reliable);
        self.entries.push(Entry {
            state: State::Asked,
            ids,
            peer,
            endpoint: None,
            transaction,
            own: None,
            theirs: Some(req.queue),
            last: None,
            tries: 0,
            due: now + KEPT_FOR,
        });
        self.asked.push_back(Asked { own_id: random, peer, req, reliability });
    }

    /// Returns the reason why a request cannot be shown to the program.
    fn check(&self, peer: IpAddr, req: &Req, is_taken: bool) -> Result<(), RejectReason> {
        let half_open = || self.entries.iter().filter(|entry| entry.is_half_open());
        let of_address = half_open().filter(|entry| entry.peer == peer).count();
        match req {
            _ if !self.ports.contains(&req.port) => Err(RejectReason::NO_SERVICE),
            Req { reliability: None, .. } => Err(RejectReason::TRANSPORT),
            _ if req.from != gid_of(peer) => Err(RejectReason::GID),
            _ if req.mtu_code == 0 || req.mtu_code > self.mtu_code_max => {
                Err(RejectReason::PATH_MTU)
            }
            _ if is_taken
                || half_open().count() >= HALF_OPEN_MAX
                || of_address >= HALF_OPEN_PER_ADDRESS_MAX =>
            {
                Err(RejectReason::NO_RESOURCES)
            }
            _ => Ok(()),
        }
    }

    fn take_rep(&mut self, own_id: u32, their_id: u32, rep: Rep) {
        let Some(entry) = self.entry(own_id) else { return };
        let Rep { queue, private_data } = rep;
        match (entry.state, entry.endpoint) {
            (State::Calling, Some(endpoint)) => {
                entry.state = State::Open;
                entry.ids.theirs = their_id;
                entry.theirs = Some(queue);
                entry.last = None;
                self.events.push_back(Event::Accepted { endpoint, theirs: queue, private_data });
            }
            (State::Open, _) => {}
            _ => {
                self.stray += 1;
                return;
            }
        }
        // The confirmation may have been lost: it is sent for each acceptance.
        let Some(entry) = self.entry(own_id) else { return };
        let mad = Mad { transaction: entry.transaction, ids: entry.ids, message: Message::Rtu };
        let peer = entry.peer;
        self.send(peer, &mad);
    }

    fn take_rtu(&mut self, own_id: u32) {
        let Some(entry) = self.entry(own_id) else { return };
        if entry.state == State::Replied {
            entry.state = State::Open;
        }
    }

    fn take_mra(&mut self, now: Moment, own_id: u32, time_code: u8) {
        let Some(entry) = self.entry(own_id) else { return };
        if matches!(entry.state, State::Calling | State::Replied | State::Leaving) {
            let patience = Span::from_ns(4096_u64 << time_code.min(31));
            entry.due = now + patience.min(PATIENCE_MAX).max(REPEAT_AFTER);
        }
    }

    fn take_rej(&mut self, now: Moment, peer: IpAddr, ids: Ids, reason: RejectReason) {
        // A peer that gives up its request may not know the identifier of this end.
        let found = self.entries.iter_mut().find(|entry| {
            let is_unnamed = ids.theirs == 0 && entry.ids.theirs == ids.own;
            entry.is_named(peer, ids) || (is_unnamed && entry.peer == peer && entry.is_half_open())
        });
        let Some(entry) = found else {
            self.stray += 1;
            return;
        };
        let (state, own_id, endpoint) = (entry.state, entry.ids.own, entry.endpoint);
        match (state, endpoint) {
            (State::Calling, Some(endpoint)) => {
                self.events.push_back(Event::Refused { endpoint, reason });
            }
            (State::Replied, Some(endpoint)) => self.events.push_back(Event::Left { endpoint }),
            (State::Asked, _) => self.asked.retain(|asked| asked.own_id != own_id),
            _ => return,
        }
        self.close(now, own_id);
    }

    fn take_dreq(&mut self, now: Moment, own_id: u32, transaction: u64) {
        let Some(entry) = self.entry(own_id) else { return };
        let (peer, state, ids, endpoint) = (entry.peer, entry.state, entry.ids, entry.endpoint);
        let mad = Mad { transaction, ids, message: Message::Drep };
        if let (State::Open | State::Replied, Some(endpoint)) = (state, endpoint) {
            self.events.push_back(Event::Left { endpoint });
        }
        if matches!(state, State::Open | State::Replied | State::Leaving) {
            self.close(now, own_id);
        }
        self.send(peer, &mad);
    }

    fn take_drep(&mut self, now: Moment, own_id: u32) {
        if self.entry(own_id).is_some_and(|entry| entry.state == State::Leaving) {
            self.close(now, own_id);
        }
    }

    // ---- time ----

    /// Repeats messages, and gives up those without an answer.
    pub fn on_time(&mut self, now: Moment) {
        let due = |entry: &&Entry| entry.state != State::Open && entry.due <= now;
        let all: Vec<u32> = self.entries.iter().filter(due).map(|entry| entry.ids.own).collect();
        for own_id in all {
            self.entry_on_time(now, own_id);
        }
    }

    fn entry_on_time(&mut self, now: Moment, own_id: u32) {
        let Some(entry) = self.entry(own_id) else { return };
        let (state, endpoint) = (entry.state, entry.endpoint);
        let is_given_up = entry.tries >= TRIES_MAX;
        match (state, endpoint) {
            (State::Over, _) => return self.forget(own_id),
            (State::Asked, _) => {
                self.asked.retain(|asked| asked.own_id != own_id);
                return self.reject(now, own_id, RejectReason::TIMEOUT);
            }
            _ if !is_given_up => {
                entry.due = now + REPEAT_AFTER;
                return self.send_again(own_id);
            }
            (State::Calling, Some(endpoint)) => {
                let reason = RejectReason::TIMEOUT;
                self.events.push_back(Event::Refused { endpoint, reason });
            }
            (State::Replied, Some(endpoint)) => self.events.push_back(Event::Left { endpoint }),
            _ => {}
        }
        self.close(now, own_id);
    }

    /// Returns when [`Manager::on_time`] has work.
    pub fn deadline(&self) -> Option<Moment> {
        let waiting = self.entries.iter().filter(|entry| entry.state != State::Open);
        waiting.map(|entry| entry.due).min()
    }

    // ---- entries ----

    /// Returns the connection with the identifier of this end.
    fn entry(&mut self, own_id: u32) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.ids.own == own_id)
    }

    fn set_due(&mut self, own_id: u32, due: Moment) {
        if let Some(entry) = self.entry(own_id) {
            entry.due = due;
        }
    }

    /// Remembers a connection that is over.
    fn close(&mut self, now: Moment, own_id: u32) {
        if let Some(entry) = self.entry(own_id) {
            entry.state = State::Over;
            entry.last = None;
            entry.due = now + KEPT_FOR;
        }
        let over = |entry: &Entry| entry.state == State::Over;
        if self.entries.iter().filter(|entry| over(entry)).count() > OVER_MAX
            && let Some(oldest) = self.entries.iter().position(over)
        {
            self.entries.remove(oldest);
        }
    }

    fn forget(&mut self, own_id: u32) {
        self.entries.retain(|entry| entry.ids.own != own_id);
    }

    /// Returns the number of connections that are kept, for tests of growth.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.entries.len() + self.asked.len() + self.outbox.len() + self.events.len()
    }

    // ---- sending ----

    /// Sends a message that is repeated until it is answered.
    fn send_repeated(&mut self, now: Moment, own_id: u32, message: Message) {
        let Some(entry) = self.entry(own_id) else { return };
        let mad = Mad { transaction: entry.transaction, ids: entry.ids, message };
        entry.last = Some(Box::new(mad.emit()));
        (entry.tries, entry.due) = (0, now + REPEAT_AFTER);
        self.send_again(own_id);
    }

    fn send_again(&mut self, own_id: u32) {
        let Some(entry) = self.entry(own_id) else { return };
        let (to, Some(mad)) = (entry.peer, entry.last.clone()) else { return };
        entry.tries += 1;
        self.queue(Outgoing { to, mad });
    }

    fn send(&mut self, to: IpAddr, mad: &Mad) {
        self.queue(Outgoing { to, mad: Box::new(mad.emit()) });
    }

    fn queue(&mut self, outgoing: Outgoing) {
        if self.outbox.len() < OUTBOX_MAX {
            self.outbox.push_back(outgoing);
        }
    }
}

/// A request as it came.
struct Asking {
    transaction: u64,
    ids: Ids,
    req: Req,
    random: u32,
}
