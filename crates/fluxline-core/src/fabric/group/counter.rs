//! The counter of barriers: a word at rank 0 that all add to. The last one releases the others.

use alloc::collections::VecDeque;

use super::config::COUNTER;
use super::peer::Link;
use super::plan::{Place, others};
use super::wire::Notice;
use super::{COUNTER_TAG, Group, GroupError};
use crate::fabric::barrier::Counter;
use crate::fabric::{Fabric, PostError, Target};

/// The state of the counter, as one rank sees it.
#[derive(Debug, Default)]
pub(super) struct CounterState {
    /// Barriers passed.
    passed: u64,
    /// Releases of other ranks that have come.
    released: u64,
    /// True: the arrival is posted.
    has_arrived: bool,
    /// The number of arrivals before the own one.
    before: Option<u64>,
    /// Ranks to be released.
    to_release: VecDeque<usize>,
}

impl CounterState {
    /// Takes the old value of the counter.
    pub fn counted(&mut self, before: u64) {
        self.before = Some(before);
    }

    /// Takes a release.
    pub fn released(&mut self) {
        self.released += 1;
    }

    fn pass(&mut self) {
        self.passed += 1;
        (self.has_arrived, self.before) = (false, None);
    }
}

impl Group {
    /// Goes on with a barrier by the counter. Returns true when all have arrived.
    pub(super) fn progress_counter(&mut self, fabric: &mut dyn Fabric) -> Result<bool, GroupError> {
        if !self.counter.has_arrived {
            self.counter.has_arrived = self.arrive(fabric)?;
        }
        let size = self.size() as u64;
        if self
            .counter
            .before
            .take_if(|before| *before + 1 == (self.counter.passed + 1) * size)
            .is_some()
        {
            let place = Place { rank: self.config.rank, size: self.size() };
            self.counter.to_release = others(place).into();
            // Nobody releases the last one: it does so itself.
            self.counter.released += 1;
        }
        while let Some(rank) = self.counter.to_release.front().copied() {
            if !self.notify(fabric, rank, Notice::Release)? {
                return Ok(false);
            }
            self.counter.to_release.pop_front();
        }
        let is_over = self.counter.released > self.counter.passed;
        if is_over {
            self.counter.pass();
        }
        Ok(is_over)
    }

    /// Adds one to the counter. Returns false if the queue is full.
    fn arrive(&mut self, fabric: &mut dyn Fabric) -> Result<bool, GroupError> {
        if self.config.rank == 0 {
            let before = self.memory.fetch_add(COUNTER, 1)?;
            self.counter.counted(before);
            return Ok(true);
        }
        let owner = &self.peers[0];
        let (Some(endpoint), Link::Open(remote)) = (owner.endpoint, &owner.link) else {
            return Ok(false);
        };
        let counter = Counter { endpoint, at: Target { remote: *remote, offset: COUNTER } };
        match counter.add(fabric, COUNTER_TAG, 1) {
            Ok(()) => Ok(true),
            Err(PostError::Full | PostError::NotConnected) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
