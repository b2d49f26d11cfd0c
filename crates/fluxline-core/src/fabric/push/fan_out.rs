//! One sender, several receivers: each has a ring and credits of its own.
//!
//! Each record carries its number, so that a receiver knows what has passed it by: the records
//! before it joined, and those that found its ring full where it may miss some.

use alloc::vec::Vec;

use super::{Broken, PushRefused, Record, RingAddress, Rings, Sender, SenderId};
use crate::fabric::Fabric;
use crate::{Moment, Span};

/// Time between two tries to open the ring of a branch that has ended.
const RENEW_EVERY: Span = Span::from_ms(20);

/// The treatment of a receiver whose ring has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// The sender waits for it: it misses no record from its joining to its end.
    Waits,
    /// Records pass it by, and are counted, while its ring or the queue of its connection has no
    /// room: it never holds the others back.
    Misses,
}

/// A receiver of a [`FanOut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BranchId(pub u32);

/// The state of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchState {
    /// It takes records now.
    pub is_open: bool,
    /// Records that its ring has taken.
    pub pushed: u64,
    /// Records that passed it by: before it joined, after it had gone, or while its ring was full.
    pub missed: u64,
    /// The reason why it will never take one; `None`: it does, or is tried again.
    pub refused: Option<PushRefused>,
}

/// Records from one program to several receivers.
///
/// Receivers join when they come, and again when they come back. One that dies holds a sender that
/// waits for it until the link notices its death. Nothing here blocks.
/// [`Node`](crate::fabric::node::Node) has calls that wait.
///
/// Law: for each branch, `pushed` + `missed` = records of the fan-out since the branch was added.
#[derive(Default)]
pub struct FanOut {
    branches: Vec<Branch>,
    /// The number of the next record.
    number: u64,
    /// The last record, while a branch still waits for room for it.
    kept: Vec<u8>,
}

struct Branch {
    to: RingAddress,
    lag: Lag,
    sender: Option<SenderId>,
    /// No try to open it before.
    not_before: Moment,
    /// The last record is still to be pushed.
    owes: bool,
    state: BranchState,
}

impl FanOut {
    /// Returns a fan-out without receivers.
    #[must_use]
    pub fn new() -> FanOut {
        FanOut::default()
    }

    /// Adds a receiver, which may come later. It gets the records that are pushed from its joining
    /// on.
    pub fn add(&mut self, to: RingAddress, lag: Lag) -> BranchId {
        let state = BranchState { is_open: false, pushed: 0, missed: 0, refused: None };
        let (sender, not_before, owes) = (None, Moment::default(), false);
        self.branches.push(Branch { to, lag, sender, not_before, owes, state });
        BranchId(self.branches.len() as u32 - 1)
    }

    /// Returns the state of a branch, as of the last call of [`FanOut::progress`].
    ///
    /// # Panics
    /// For a branch of another fan-out.
    #[must_use]
    pub fn state(&self, branch: BranchId) -> &BranchState {
        &self.branches[branch.0 as usize].state
    }

    /// Returns the number of records pushed so far, which is the number of the next one.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.number
    }

    /// Copies a record into the ring of each branch; they see it after [`FanOut::publish`].
    ///
    /// Errors: `Full`, while a branch that the sender waits for has no room for the record before
    /// this one; `TooLong`. Then this record was pushed to none. Cost: one copy for each branch.
    pub fn push(
        &mut self,
        rings: &mut Rings,
        fabric: &mut dyn Fabric,
        bytes: &[u8],
    ) -> Result<(), PushRefused> {
        if !self.progress(rings, fabric) {
            return Err(PushRefused::Full);
        }
        for branch in &mut self.branches {
            let max = branch.open_sender(rings).map_or(usize::MAX, |of| of.record_bytes_max());
            let whole = bytes.len() + size_of::<u64>();
            if whole > max {
                return Err(PushRefused::TooLong { bytes: whole, max });
            }
        }
        let number = self.number;
        self.number += 1;
        let mut is_kept = false;
        for branch in &mut self.branches {
            branch.owes = true;
            branch.offer(rings, fabric, number, bytes);
            is_kept |= branch.owes;
        }
        if is_kept {
            self.kept.clear();
            self.kept.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Opens rings, and pushes what branches still owe. Returns true when none owes a record.
    pub fn progress(&mut self, rings: &mut Rings, fabric: &mut dyn Fabric) -> bool {
        let (mut is_settled, last) = (true, self.number.wrapping_sub(1));
        for branch in &mut self.branches {
            branch.join(rings, fabric);
            if branch.owes {
                branch.offer(rings, fabric, last, &self.kept);
            }
            is_settled &= !branch.owes;
        }
        is_settled
    }

    /// Shows all records to the receivers; call once per batch.
    pub fn publish(&mut self, rings: &mut Rings, fabric: &mut dyn Fabric) {
        for branch in &mut self.branches {
            if let Some(sender) = branch.open_sender(rings) {
                let _ = sender.publish(fabric); // an end is kept, and the branch joins anew
            }
        }
    }

    /// Publishes all records and ends the senders; returns true once all are in the memory of the
    /// receivers that are there. Until then: poll the rings, and call it again.
    pub fn finish(&mut self, rings: &mut Rings, fabric: &mut dyn Fabric) -> bool {
        let owes = self.branches.iter().any(|branch| branch.owes);
        if owes && !self.progress(rings, fabric) {
            return false;
        }
        for branch in &mut self.branches {
            let sender = branch.sender.and_then(|id| rings.sender(id));
            // Until its connection is over: a receiver that does not hear of the end sees a death.
            if sender.map(|sender| sender.finish(fabric)) != Some(Ok(false)) {
                branch.end(rings, fabric);
            }
        }
        self.branches.iter().all(|branch| branch.sender.is_none())
    }
}

impl Branch {
    /// The sender, unless it has ended or is not open yet.
    fn open_sender<'a>(&self, rings: &'a mut Rings) -> Option<&'a mut Sender> {
        rings.sender(self.sender?).filter(|sender| sender.was_open())
    }

    /// Opens a ring where there is none, and gives up one that has ended.
    fn join(&mut self, rings: &mut Rings, fabric: &mut dyn Fabric) {
        if let Some(id) = self.sender {
            let ended = rings.sender(id).map_or(Some(PushRefused::Finished), |of| of.ended());
            if let Some(why) = ended {
                let is_final = !matches!(why, PushRefused::ConsumerGone | PushRefused::Finished);
                self.state.refused = is_final.then_some(why);
                self.end(rings, fabric);
                self.not_before = fabric.now() + RENEW_EVERY;
            }
        }
        let now = fabric.now();
        if self.sender.is_none() && self.state.refused.is_none() && now >= self.not_before {
            self.not_before = now + RENEW_EVERY;
            let opened = Sender::open(fabric, self.to.clone(), now);
            self.sender = opened.ok().map(|sender| rings.add_sender(sender));
        }
        let sender = self.sender.and_then(|id| rings.sender(id));
        self.state.is_open = sender.is_some_and(|sender| sender.is_open());
    }

    fn offer(&mut self, rings: &mut Rings, fabric: &mut dyn Fabric, number: u64, bytes: &[u8]) {
        let sender = self.sender.and_then(|id| rings.sender(id)).filter(|of| of.is_open());
        let number = Moment::from_ns(number); // the word before the bytes
        let pushed = sender.map(|sender| sender.push_stamped(fabric, number, bytes));
        match pushed {
            Some(Ok(())) => self.state.pushed += 1,
            Some(Err(PushRefused::Full)) if self.lag == Lag::Waits => return,
            _ => self.state.missed += 1,
        }
        self.owes = false;
    }

    fn end(&mut self, rings: &mut Rings, fabric: &mut dyn Fabric) {
        if let Some(id) = self.sender.take() {
            rings.end_sender(fabric, id);
        }
        self.state.is_open = false;
    }
}

/// The count of a receiver of a fan-out: what it has got, and what has passed it by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Follower {
    next: Option<u64>,
    missed: u64,
    restarts: u64,
}

impl Follower {
    /// Takes the next record of the ring; returns its number, and its bytes as they were pushed.
    ///
    /// Errors: [`Broken`], for a record that no fan-out has pushed.
    pub fn take<'a>(&mut self, record: Record<'a>) -> Result<(u64, Record<'a>), Broken> {
        let (number, rest) = record.split_word().ok_or(Broken)?;
        match self.next {
            Some(next) if number < next => self.restarts += 1,
            Some(next) => self.missed += number - next,
            None => {}
        }
        self.next = Some(number.checked_add(1).ok_or(Broken)?);
        Ok((number, rest))
    }

    /// Returns the records that have passed this receiver by since its first one. Those before are
    /// its number.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns how many times the numbers began anew: another sender had taken over.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.restarts
    }
}
