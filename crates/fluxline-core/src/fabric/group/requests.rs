//! The open requests of a member: messages to send and to receive.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::error::GroupError;
use super::wire::IDS;
use crate::fabric::Slice;

/// A message that is sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request(pub(super) u32);

/// The sender that a receive accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// This rank.
    Rank(usize),
    /// Any rank; the end of any member ends such a receive.
    Any,
}

impl Source {
    pub(super) fn includes(self, rank: usize) -> bool {
        match self {
            Source::Rank(of) => of == rank,
            Source::Any => true,
        }
    }
}

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its sender's rank.
    pub from: usize,
    /// Its tag.
    pub tag: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The source may be used again. A short message may not have been received yet.
    Sent,
    /// The message is here.
    Received(Message),
}

/// The bytes of a message that is not sent whole.
#[derive(Clone, Debug)]
pub(super) enum Bytes {
    Copy(Vec<u8>),
    Region(Slice),
}

/// A message to send.
#[derive(Clone, Debug)]
pub(super) struct Send {
    pub to: usize,
    pub tag: u64,
    pub bytes: Bytes,
    /// The length \[byte\].
    pub total: u64,
    /// Bytes put so far.
    pub put: u64,
}

impl Send {
    /// Returns true if the source is copied when work is posted.
    pub fn is_copied_at_once(&self) -> bool {
        matches!(self.bytes, Bytes::Copy(_))
    }
}

/// A message to receive.
#[derive(Clone, Debug)]
pub(super) struct Receive {
    pub from: Source,
    pub tag: Option<u64>,
    pub bytes_max: u64,
    /// The message whose pieces arrive; `None`: no message has matched.
    pub filling: Option<Filling>,
}

/// A message whose pieces arrive.
#[derive(Clone, Debug)]
pub(super) struct Filling {
    pub from: usize,
    pub tag: u64,
    pub total: u64,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    Send(Send),
    Receive(Receive),
    Over(Result<Outcome, GroupError>),
}

/// The open requests by identifier, and the receives that no message has matched.
#[derive(Debug)]
pub(super) struct Requests {
    max: usize,
    next: u32,
    open: BTreeMap<u32, State>,
    /// In the order of posting.
    pub waiting: VecDeque<u32>,
}

impl Requests {
    pub fn new(max: usize) -> Requests {
        Requests { max, next: 0, open: BTreeMap::new(), waiting: VecDeque::new() }
    }

    /// Adds a request. Errors: too many.
    pub fn add(&mut self, state: State) -> Result<Request, GroupError> {
        if self.open.len() >= self.max.min(IDS as usize - 1) {
            return Err(GroupError::Requests { max: self.max });
        }
        while self.open.contains_key(&self.next) {
            self.next = (self.next + 1) % IDS;
        }
        let id = self.next;
        self.next = (id + 1) % IDS;
        self.open.insert(id, state);
        Ok(Request(id))
    }

    pub fn state(&mut self, id: u32) -> Option<&mut State> {
        self.open.get_mut(&id)
    }

    pub fn send(&mut self, id: u32) -> Option<&mut Send> {
        match self.open.get_mut(&id) {
            Some(State::Send(send)) => Some(send),
            _ => None,
        }
    }

    pub fn receive(&mut self, id: u32) -> Option<&mut Receive> {
        match self.open.get_mut(&id) {
            Some(State::Receive(receive)) => Some(receive),
            _ => None,
        }
    }

    /// Ends a request.
    pub fn end(&mut self, id: u32, result: Result<Outcome, GroupError>) {
        if let Some(state) = self.open.get_mut(&id) {
            *state = State::Over(result);
        }
    }

    /// Removes a request that is over; `None`: it is not over.
    pub fn take(&mut self, id: u32) -> Option<Result<Outcome, GroupError>> {
        if !matches!(self.open.get(&id)?, State::Over(_)) {
            return None;
        }
        match self.open.remove(&id)? {
            State::Over(result) => Some(result),
            _ => None,
        }
    }

    /// Removes a receive that no message has matched.
    pub fn cancel(&mut self, id: u32) {
        if let Some(at) = self.waiting.iter().position(|waiting| *waiting == id) {
            self.waiting.remove(at);
            self.open.remove(&id);
        }
    }

    pub fn contains(&self, id: u32) -> bool {
        self.open.contains_key(&id)
    }

    /// Ends a send whose source the link has copied.
    pub fn copied(&mut self, rank: usize, id: u32) {
        if self.send(id).is_some_and(|send| send.to == rank && send.put == send.total) {
            self.end(id, Ok(Outcome::Sent));
        }
    }

    /// Ends all requests that depend on a rank.
    pub fn fail(&mut self, rank: usize, error: &GroupError) {
        for state in self.open.values_mut() {
            let depends = match state {
                State::Send(send) => send.to == rank,
                State::Receive(receive) => match &receive.filling {
                    Some(filling) => filling.from == rank,
                    None => receive.from.includes(rank),
                },
                State::Over(_) => false,
            };
            if depends {
                *state = State::Over(Err(error.clone()));
            }
        }
        let open = &self.open;
        self.waiting.retain(|id| matches!(open.get(id), Some(State::Receive(_))));
    }

    /// Returns true if all sends are over.
    pub fn has_no_sends(&self) -> bool {
        !self.open.values().any(|state| matches!(state, State::Send(_)))
    }
}
