//! The endpoints of a node: their states, and the queue pairs that lead to them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use super::connection::Connection;
use super::frames::SETUP_PAIR;
use super::handshake::{Calling, Leaving};
use super::numbered::Numbered;
use crate::fabric::EndpointId;
use crate::port::Member;
use crate::roce::QueuePair;

/// Low bits of a queue pair's ordinal that find its connection.
const PAIR_BITS: u32 = 10;
const PAIRS: usize = 1 << PAIR_BITS;
/// All numbers of queue pairs.
const NUMBERS: u32 = 1 << 24;
/// The most endpoints: two fewer than queue pairs, of which 0 and 1 are reserved.
pub(super) const ENDPOINTS_MAX: u32 = PAIRS as u32 - 2;

/// The state of an endpoint.
pub(super) enum EndpointState {
    Calling(Box<Calling>),
    Open(Box<Connection>),
    Leaving(Box<Leaving>),
    /// The endpoint is between two of these states.
    Between,
}

/// A queue pair and its endpoint.
#[derive(Clone, Copy)]
struct PairEntry {
    pair: QueuePair,
    endpoint: EndpointId,
}

/// All endpoints of a node.
pub(super) struct Endpoints {
    states: Numbered<EndpointState>,
    /// Entries by the low bits of the queue pair's ordinal.
    pairs: Vec<Option<PairEntry>>,
    member: Member,
    /// Endpoints that are not over.
    living: Vec<EndpointId>,
    turn: usize,
}

impl Endpoints {
    pub fn new(member: Member) -> Endpoints {
        Endpoints {
            states: Numbered::default(),
            pairs: alloc::vec![None; PAIRS],
            member,
            living: Vec::new(),
            turn: 0,
        }
    }

    /// Returns all endpoints that are not over.
    #[inline]
    pub fn living(&self) -> &[EndpointId] {
        &self.living
    }

    /// Returns memory slots in use, for tests of growth.
    #[cfg(test)]
    pub fn slots(&self) -> usize {
        self.states.slots()
    }

    #[inline]
    pub fn state(&self, endpoint: EndpointId) -> Option<&EndpointState> {
        self.states.get(endpoint.0)
    }

    #[inline]
    pub fn state_mut(&mut self, endpoint: EndpointId) -> Option<&mut EndpointState> {
        self.states.get_mut(endpoint.0)
    }

    /// Returns the endpoint's connection, if it is open.
    #[inline]
    pub fn open(&self, endpoint: EndpointId) -> Option<&Connection> {
        match self.states.get(endpoint.0) {
            Some(EndpointState::Open(open)) => Some(open),
            _ => None,
        }
    }

    /// Returns the endpoint's connection, if it is open.
    #[inline]
    pub fn open_mut(&mut self, endpoint: EndpointId) -> Option<&mut Connection> {
        match self.states.get_mut(endpoint.0) {
            Some(EndpointState::Open(open)) => Some(open),
            _ => None,
        }
    }

    /// Returns all open connections.
    pub fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.states.iter().filter_map(|(_, state)| match state {
            EndpointState::Open(open) => Some(&**open),
            _ => None,
        })
    }

    /// Returns all open connections.
    pub fn connections_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.states.values_mut().filter_map(|state| match state {
            EndpointState::Open(open) => Some(&mut **open),
            _ => None,
        })
    }

    /// Returns the number of the next round of sending, which begins with another endpoint of
    /// [`Endpoints::living`] each time.
    pub fn next_turn(&mut self) -> usize {
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }

    // ---- life ----

    /// Adds an endpoint. [`Endpoints::set`] must set its state next.
    pub fn add(&mut self) -> EndpointId {
        let endpoint = EndpointId(self.states.add(EndpointState::Between));
        self.living.push(endpoint);
        endpoint
    }

    pub fn set(&mut self, endpoint: EndpointId, state: EndpointState) {
        if let Some(of) = self.states.get_mut(endpoint.0) {
            *of = state;
        }
    }

    /// Takes the state out, to be replaced by [`Endpoints::set`].
    pub fn take(&mut self, endpoint: EndpointId) -> Option<EndpointState> {
        let state = self.states.get_mut(endpoint.0)?;
        Some(mem::replace(state, EndpointState::Between))
    }

    /// Removes an endpoint that is over. Its number is never reused, its queue pair may be.
    pub fn remove(&mut self, endpoint: EndpointId) {
        self.states.remove(endpoint.0);
        self.living.retain(|&of| of != endpoint);
        for entry in &mut self.pairs {
            if entry.is_some_and(|of| of.endpoint == endpoint) {
                *entry = None;
            }
        }
    }

    // ---- queue pairs ----

    /// Gives the endpoint a free queue pair. It is made from `random`, so it cannot be guessed.
    pub fn new_pair(&mut self, random: u32, endpoint: EndpointId) -> Option<QueuePair> {
        let start = random as usize % PAIRS;
        let index = (start..PAIRS)
            .chain(0..start)
            .find(|&index| index > SETUP_PAIR.get() as usize && self.pairs[index].is_none())?;
        let block = (random >> PAIR_BITS) % (NUMBERS / (PAIRS as u32 * self.member.count()));
        let ordinal = block << PAIR_BITS | index as u32;
        let pair = QueuePair::new(ordinal * self.member.count() + self.member.index());
        self.pairs[index] = Some(PairEntry { pair, endpoint });
        Some(pair)
    }

    /// Gives the endpoint this queue pair. Returns false when it is taken.
    pub fn take_pair(&mut self, pair: QueuePair, endpoint: EndpointId) -> bool {
        let index = self.pair_index(pair);
        let entry = &mut self.pairs[index];
        let is_free = entry.is_none() && pair != SETUP_PAIR && pair.get() != 0;
        if is_free {
            *entry = Some(PairEntry { pair, endpoint });
        }
        is_free
    }

    #[inline]
    fn pair_index(&self, pair: QueuePair) -> usize {
        self.member.ordinal(pair.get()) as usize % PAIRS
    }

    /// Returns the endpoint of a queue pair.
    #[inline]
    pub fn find(&self, pair: QueuePair) -> Option<EndpointId> {
        let entry = self.pairs[self.pair_index(pair)]?;
        (entry.pair == pair).then_some(entry.endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_gives_pairs_of_its_own_until_all_are_taken() {
        let mut draw = crate::random::Draw::new(11);
        for count in [1, 2, 3, 64] {
            for member in Member::all(count) {
                let mut endpoints = Endpoints::new(member);
                let mut given = alloc::collections::BTreeSet::new();
                for endpoint in 0..ENDPOINTS_MAX {
                    let random = draw.below(1 << 32) as u32;
                    let pair = endpoints.new_pair(random, EndpointId(endpoint)).expect("free");
                    assert!(member.owns(pair.get()) && pair.get() > 1 && given.insert(pair.get()));
                    assert_eq!(endpoints.find(pair), Some(EndpointId(endpoint)));
                }
                assert_eq!(endpoints.new_pair(7, EndpointId(5000)), None);
            }
        }
    }
}
