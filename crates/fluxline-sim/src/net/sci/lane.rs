//! Sends that wait at a ring port: one lane for each class and priority, and one for events.

use std::collections::VecDeque;

use super::ageing::Phase;
use super::go::NEVER;
use super::link::{Loss, Priority, SendId};
use super::{Command, NodeId, Packet};

/// A send from its acceptance by the port until its end.
#[derive(Debug)]
pub struct Send {
    pub id: SendId,
    /// The packet, until it is accepted at the other end.
    pub packet: Option<Packet>,
    pub source: NodeId,
    pub target: NodeId,
    /// The ring port that sends.
    pub from: u32,
    /// The ring port that takes it off.
    pub port: u32,
    pub lane: usize,
    pub symbols: u32,
    pub is_event: bool,
    /// The number of a strobe, which the nodes on its path note.
    pub strobe: Option<u64>,
    /// Waits of a strobe so far: first here, then in bypass FIFOs \[symbols\].
    pub delayed: u64,
    pub waited: u64,
    /// True if it came from another ringlet: then its end is not reported to a sender.
    pub passing: bool,
    pub phase: Phase,
    /// Earliest start; [`NEVER`] while it is on the ringlet.
    pub ready: u64,
    /// Tick of the last start.
    pub started: u64,
    /// Circulations that ended since the last start.
    pub age: u32,
    /// Number of starts.
    pub attempts: u32,
    /// True if it was refused, and the allocation toggle waits at its port until it is tried again.
    pub owed: bool,
    /// True if its end is known, or was already reported (an event that is still on its way).
    pub ended: bool,
    /// The reason of the loss, if the send is lost.
    pub loss: Option<Loss>,
}

/// Lanes of a port: requests and responses, low and high; events.
pub const LANES: usize = 5;
/// The lane of events. Events have one priority and need the low go bit. They do not wait for an
/// echo, so their window is never full.
pub const EVENTS: usize = 4;

pub fn lane_of(command: Command, priority: Priority) -> usize {
    if command.is_event() {
        return EVENTS;
    }
    usize::from(command.is_response()) + 2 * usize::from(priority == Priority::High)
}

pub fn is_response(lane: usize) -> bool {
    lane % 2 == 1
}

pub fn is_high(lane: usize) -> bool {
    lane >= 2 && lane != EVENTS
}

/// Sends of one class and priority at one port, by their handles in the pool.
#[derive(Debug, Default)]
pub struct Lane {
    pub unsent: VecDeque<u32>,
    /// Sends that are on their way, or refused and waiting for a retry.
    pub unacknowledged: Vec<u32>,
    /// The tick from which the slot of an acknowledged send may be used again.
    pub window_at: u64,
    /// Number of all sends that hold a slot.
    pub held: u32,
}

/// Values under small numbers that are reused.
#[derive(Debug)]
pub struct Pool<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Pool<T> {
    pub fn add(&mut self, thing: T) -> u32 {
        if let Some(handle) = self.free.pop() {
            self.slots[handle as usize] = Some(thing);
            return handle;
        }
        self.slots.push(Some(thing));
        (self.slots.len() - 1) as u32
    }

    pub fn get(&self, handle: u32) -> Option<&T> {
        self.slots.get(handle as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        self.slots.get_mut(handle as usize)?.as_mut()
    }

    pub fn remove(&mut self, handle: u32) -> Option<T> {
        let thing = self.slots.get_mut(handle as usize)?.take();
        if thing.is_some() {
            self.free.push(handle);
        }
        thing
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }
}

impl Lane {
    /// Returns true if a send waits for its first start or, after a refusal, for the next one.
    /// Otherwise all sends are on their way and [`first`](Lane::first) finds none.
    pub fn may_start(&self, sends: &Pool<Send>) -> bool {
        let refused = |&handle| sends.get(handle).is_some_and(|send| send.ready != NEVER);
        !self.unsent.is_empty() || self.unacknowledged.iter().any(refused)
    }

    /// Returns the send that may start first, with its earliest tick. Of the sends that may start
    /// by `now`, it is one for which the allocation toggle waits, or else the oldest. If none may
    /// start by `now`, it is the one that is ready first.
    pub fn first(&self, sends: &Pool<Send>, window: usize, now: u64) -> Option<(u32, u64)> {
        let mut best: Option<(u64, bool, u64, u32)> = None;
        let mut look = |handle: u32, from: u64| {
            let Some(send) = sends.get(handle) else { return };
            let ready = send.ready.max(from);
            let key = (ready.max(now), !send.owed, send.id.0, handle);
            if ready != NEVER && best.is_none_or(|best| key < best) {
                best = Some(key);
            }
        };
        self.unacknowledged.iter().for_each(|&handle| look(handle, 0));
        let unsent = self.unsent.front().filter(|_| self.unacknowledged.len() < window);
        if let Some(&handle) = unsent {
            look(handle, self.window_at);
        }
        best.map(|(ready, _, _, handle)| (handle, ready))
    }
}
