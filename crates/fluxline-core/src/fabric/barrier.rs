//! Counters and barriers that several nodes share, made of `fetch_add`.
//!
//! A counter is one word in a region of one node, to which all nodes add. SCI clusters synchronised
//! in this way: by an atomic on a remote word, whose owner need not run. No call waits: a party
//! arrives, then asks whether all have arrived.
//! Source: the fetch-and-add barrier is the central-counter barrier of J. M. Mellor-Crummey and
//! M. L. Scott, "Algorithms for Scalable Synchronization on Shared-Memory Multiprocessors", 1991;
//! here the counter only grows, so that no party resets it.

use super::Fabric;
use super::error::PostError;
use super::region::Target;
use super::work::{Completion, EndpointId, Operation, Status, Work};

/// A word that several nodes add to, in a peer's region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The connection to its owner.
    pub endpoint: EndpointId,
    /// The address of the word; its offset is a multiple of 8.
    pub at: Target,
}

impl Counter {
    /// Adds to the counter; the completion with this tag has the old value.
    ///
    /// Errors: [`PostError`]. Cost: one operation.
    pub fn add(self, fabric: &mut dyn Fabric, tag: u64, add: u64) -> Result<(), PostError> {
        fabric.post(self.endpoint, tag, Work::FetchAdd { at: self.at, add })
    }

    /// Returns the old value or the failure, if the completion ends this counter's operation `tag`.
    #[must_use]
    pub fn answer(self, tag: u64, completion: &Completion) -> Option<Result<u64, Status>> {
        match *completion {
            Completion::Done {
                endpoint,
                tag: of,
                operation: Operation::FetchAdd,
                status,
                value,
            } if endpoint == self.endpoint && of == tag => {
                Some(if status.is_done() { Ok(value) } else { Err(status) })
            }
            _ => None,
        }
    }
}

/// The phase of a party of a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The party is between two barriers.
    Away,
    /// The party's arrival is posted.
    Arriving,
    /// The party has arrived and reads the count again and again. `asked`: a read is posted.
    Waiting { asked: bool },
}

/// One party's view of a barrier of several nodes.
///
/// Each party calls [`Barrier::arrive`], then [`Barrier::poll`] until all have arrived. It gives
/// every completion of its endpoint to [`Barrier::take`]. Cost: one operation to arrive, and one
/// for each read of the count.
#[derive(Clone, Debug)]
pub struct Barrier {
    counter: Counter,
    tag: u64,
    parties: u64,
    /// The number of times that this party has passed.
    passed: u64,
    phase: Phase,
    seen: u64,
}

impl Barrier {
    /// Returns a barrier of `parties` (at least 1) on a word that was zero. No other operation may
    /// use `tag`.
    #[must_use]
    pub fn new(counter: Counter, parties: u64, tag: u64) -> Barrier {
        Barrier { counter, tag, parties: parties.max(1), passed: 0, phase: Phase::Away, seen: 0 }
    }

    /// Posts the arrival of this party. Does nothing when it has arrived already.
    pub fn arrive(&mut self, fabric: &mut dyn Fabric) -> Result<(), PostError> {
        if self.phase == Phase::Away {
            self.counter.add(fabric, self.tag, 1)?;
            self.phase = Phase::Arriving;
        }
        Ok(())
    }

    /// Returns true when all have arrived; the barrier is then ready for the next round. Otherwise
    /// it reads the count again, once its last read is answered.
    pub fn poll(&mut self, fabric: &mut dyn Fabric) -> Result<bool, PostError> {
        if let Phase::Waiting { asked } = self.phase {
            if self.seen >= (self.passed + 1).wrapping_mul(self.parties) {
                self.passed += 1;
                self.phase = Phase::Away;
                return Ok(true);
            }
            if !asked {
                self.counter.add(fabric, self.tag, 0)?;
                self.phase = Phase::Waiting { asked: true };
            }
        }
        Ok(false)
    }

    /// Takes a completion. `Some`: it was this barrier's; the error is the status of a failure.
    pub fn take(&mut self, completion: &Completion) -> Option<Result<(), Status>> {
        let answer = self.counter.answer(self.tag, completion)?;
        Some(answer.map(|before| {
            let own = u64::from(self.phase == Phase::Arriving);
            self.seen = self.seen.max(before + own);
            self.phase = Phase::Waiting { asked: false };
        }))
    }
}
