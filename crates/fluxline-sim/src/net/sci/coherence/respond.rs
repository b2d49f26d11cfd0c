//! A cache's reaction to another cache's request, at any moment.
//!
//! Caches never wait in a circle, because the cache nearer to memory goes first. A line that wants
//! to leave is not committed until its predecessor has agreed, and obeys that predecessor
//! meanwhile. After that, it answers no requests until its successor is informed.

use super::line::{CacheState, Line, Phase};
use super::message::{Answer, CacheCommand, CacheId};

/// A deliberate mistake, for tests of the checker: it must find each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mistake {
    /// None: the correct protocol.
    #[default]
    None,
    /// A head that is purging lets newcomers attach (compare the blocking states that the
    /// standard's
    /// `CacheTagBasicUpdate` misses, Stern and Dill).
    AttachDuringPurge,
    /// A head that has named its successor to memory still lets that successor leave.
    LeaveDuringPass,
    /// The head does not compare a leaving cache with its successor.
    AnyoneMayLeave,
    /// An invalidated line is not compared with its predecessor.
    AnyoneMayInvalidate,
    /// An invalidated copy is kept.
    KeepsInvalidated,
    /// A head does not invalidate the last copy.
    SparesTheTail,
    /// A line that wants to leave also refuses its predecessor.
    LeaverRefusesAll,
}

impl<D: Clone> Line<D> {
    /// Answers a request of `from`.
    pub fn respond(&mut self, from: CacheId, command: CacheCommand, mistake: Mistake) -> Answer<D> {
        let may = match command {
            CacheCommand::PendValid | CacheCommand::CopyValid => self.may_attach(mistake),
            CacheCommand::Previous(_) => self.may_forget(from, mistake),
            CacheCommand::NextMid(_) | CacheCommand::NextHead { .. } => self.obeys(from, mistake),
            CacheCommand::Invalidate { .. } if mistake == Mistake::AnyoneMayInvalidate => {
                self.state != CacheState::Invalid
            }
            CacheCommand::Invalidate { before } => self.obeys(before, mistake),
        };
        if may { self.obey(from, command, mistake) } else { Answer::null() }
    }

    /// Returns true if a new cache may become head: unless this one, the head, has a request at
    /// memory that only a head may send, or is purging.
    fn may_attach(&self, mistake: Mistake) -> bool {
        let free = match self.phase() {
            None | Some(Phase::Leaving { .. } | Phase::WaitingForHead) => true,
            Some(Phase::Purging { .. }) => mistake == Mistake::AttachDuringPurge,
            Some(_) => false,
        };
        free && self.state.is_head()
    }

    /// Returns true if the successor may leave: unless this one is leaving too, or has a request at
    /// that successor.
    fn may_forget(&self, from: CacheId, mistake: Mistake) -> bool {
        let free = match self.phase() {
            None | Some(Phase::Owning | Phase::WaitingForHead) => true,
            Some(Phase::Passing) => mistake == Mistake::LeaveDuringPass,
            Some(_) => false,
        };
        let known = self.forward == Some(from) || mistake == Mistake::AnyoneMayLeave;
        free && known && self.state != CacheState::Invalid
    }

    /// Returns true if the line obeys its predecessor: it does while it is not committed.
    fn obeys(&self, before: CacheId, mistake: Mistake) -> bool {
        let free = match self.phase() {
            None => true,
            Some(Phase::Leaving { .. }) => mistake != Mistake::LeaverRefusesAll,
            Some(Phase::Left { .. }) => true,
            Some(_) => false,
        };
        let behind = matches!(self.state, CacheState::MidValid | CacheState::TailValid);
        free && behind && self.back == Some(before)
    }

    fn obey(&mut self, from: CacheId, command: CacheCommand, mistake: Mistake) -> Answer<D> {
        let alone = self.forward.is_none();
        match command {
            CacheCommand::PendValid | CacheCommand::CopyValid => {
                self.state = if alone { CacheState::TailValid } else { CacheState::MidValid };
                self.back = Some(from);
                Answer { data: Some(self.data.clone()), ..Answer::done() }
            }
            CacheCommand::Previous(next) => {
                self.forward = next;
                if next.is_none() {
                    self.state = match self.state {
                        CacheState::MidValid => CacheState::TailValid,
                        head => CacheState::head(true, head.is_dirty()),
                    };
                }
                Answer::done()
            }
            CacheCommand::NextMid(before) => {
                self.back = Some(before);
                Answer::done()
            }
            CacheCommand::NextHead { dirty } => {
                (self.state, self.back) = (CacheState::head(alone, dirty), None);
                Answer::done()
            }
            CacheCommand::Invalidate { .. } => {
                let answer = Answer { other: self.forward, ..Answer::done() };
                let spared = mistake == Mistake::SparesTheTail && alone;
                if !spared && mistake != Mistake::KeepsInvalidated {
                    self.forget();
                }
                answer
            }
        }
    }
}
