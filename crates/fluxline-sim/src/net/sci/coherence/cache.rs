//! The requester's side: the next request of an operation, and the effect of an answer.

use super::line::{CacheState, Line, Operation, Phase};
use super::message::{Answer, CacheCommand, CacheId, Request};
use super::message::{MemoryCommand, MemoryState};

/// The next step of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress<D> {
    /// Sends this request and waits for its answer.
    Sends(Request<D>),
    /// Waits for a request of another cache.
    Waits,
    /// Is in a state that the protocol excludes.
    Defect(&'static str),
    /// The operation is done.
    Done {
        /// The operation.
        operation: Operation<D>,
        /// The present data of the line, if the cache has it; a load reads this.
        value: Option<D>,
    },
}

impl<D: Clone> Line<D> {
    /// Begins an operation.
    ///
    /// # Panics
    /// When an operation is in progress: a cache has one at a time per line.
    pub fn begin(&mut self, me: CacheId, operation: Operation<D>) -> Progress<D> {
        assert!(self.doing.is_none(), "one operation at a time for a line");
        // A placeholder that marks the operation; `proceed` replaces it.
        self.doing = Some((operation, Phase::Joining));
        self.proceed(me)
    }

    /// Continues the operation from the present state.
    pub fn proceed(&mut self, me: CacheId) -> Progress<D> {
        use CacheState as S;
        let Some((operation, _)) = self.doing.clone() else { return Progress::Waits };
        match (&operation, self.state) {
            (Operation::Load, S::Invalid) => self.join(MemoryCommand::CacheFresh),
            (Operation::Load, _) => self.done(),
            (Operation::Store(_), S::Invalid) => self.join(MemoryCommand::CacheDirty),
            (Operation::Store(value), S::OnlyDirty) => {
                self.data = value.clone();
                self.done()
            }
            (Operation::Store(_), S::OnlyFresh | S::HeadFresh) => {
                self.ask_memory(Phase::Owning, MemoryCommand::ListToGone, None, None)
            }
            (Operation::Store(_), S::HeadDirty) => self.purge(me, me),
            (Operation::Delete | Operation::Flush { alone: true }, S::Invalid) => self.done(),
            (Operation::Flush { .. }, S::Invalid) => self.join(MemoryCommand::AttachToList),
            (Operation::Delete | Operation::Flush { .. }, S::OnlyFresh | S::OnlyDirty) => {
                if let Some((Operation::Flush { alone }, _)) = &mut self.doing {
                    *alone = true;
                }
                let data = self.state.is_dirty().then(|| self.data.clone());
                self.ask_memory(Phase::Returning, MemoryCommand::ListToHome, None, data)
            }
            (Operation::Delete | Operation::Flush { alone: true }, S::HeadFresh | S::HeadDirty) => {
                self.ask_memory(Phase::Passing, MemoryCommand::PassHead, self.forward, None)
            }
            (Operation::Flush { .. }, S::HeadFresh | S::HeadDirty) => self.purge(me, me),
            (_, S::MidValid | S::TailValid) => self.leave(),
        }
    }

    /// Takes the answer to the request under way.
    pub fn answered(&mut self, me: CacheId, answer: Answer<D>) -> Progress<D> {
        let Some(phase) = self.phase() else { return Progress::Waits };
        match phase {
            Phase::Joining if answer.nullified => self.proceed(me),
            Phase::Joining => self.joined(me, answer),
            Phase::Attaching { to, copy, command } => self.attached(me, to, copy, command, answer),
            Phase::Leaving { to } => self.left(me, to, answer.nullified),
            Phase::Unlinking if answer.nullified => self.unlink(),
            Phase::Unlinking => self.gone(me),
            Phase::Passing | Phase::Owning | Phase::Returning if answer.nullified => {
                self.set(Phase::WaitingForHead);
                Progress::Waits
            }
            Phase::Passing => self.crown(),
            Phase::Crowning if answer.nullified => self.crown(),
            Phase::Crowning => self.gone(me),
            Phase::Owning => {
                self.state = CacheState::head(self.forward.is_none(), true);
                self.proceed(me)
            }
            Phase::Returning => {
                self.forget();
                self.done()
            }
            Phase::Purging { target, before } if answer.nullified => self.purge_one(target, before),
            Phase::Purging { target, .. } => self.purged(me, target, answer.other),
            Phase::WaitingForHead | Phase::Left { .. } => Progress::Waits,
        }
    }

    /// Continues a waiting operation after another cache's request has changed the state.
    pub fn resume(&mut self, me: CacheId) -> Progress<D> {
        match self.phase() {
            Some(Phase::WaitingForHead) if !self.state.is_head() => self.proceed(me),
            Some(Phase::Left { by }) if self.back == Some(by) => self.left(me, by, false),
            _ => Progress::Waits,
        }
    }

    fn set(&mut self, phase: Phase) {
        if let Some((_, at)) = &mut self.doing {
            *at = phase;
        }
    }

    fn done(&mut self) -> Progress<D> {
        let value = (self.state != CacheState::Invalid).then(|| self.data.clone());
        match self.doing.take() {
            Some((operation, _)) => Progress::Done { operation, value },
            None => Progress::Waits,
        }
    }

    fn ask_memory(
        &mut self,
        phase: Phase,
        command: MemoryCommand,
        next: Option<CacheId>,
        data: Option<D>,
    ) -> Progress<D> {
        self.set(phase);
        Progress::Sends(Request::Memory { command, next, data })
    }

    fn ask_cache(&mut self, phase: Phase, to: CacheId, command: CacheCommand) -> Progress<D> {
        self.set(phase);
        Progress::Sends(Request::Cache { to, command })
    }

    fn join(&mut self, command: MemoryCommand) -> Progress<D> {
        self.ask_memory(Phase::Joining, command, None, None)
    }

    fn joined(&mut self, me: CacheId, answer: Answer<D>) -> Progress<D> {
        let Some((operation, _)) = &self.doing else { return Progress::Waits };
        let command = match operation {
            Operation::Store(_) => MemoryCommand::CacheDirty,
            Operation::Flush { .. } => MemoryCommand::AttachToList,
            Operation::Load | Operation::Delete => MemoryCommand::CacheFresh,
        };
        if let Some(data) = answer.data {
            self.data = data;
        }
        match (answer.found, answer.other) {
            (Some(MemoryState::Home) | None, _) if command == MemoryCommand::AttachToList => {
                self.done()
            }
            (found, Some(head)) => self.attach(head, found == Some(MemoryState::Gone), command),
            (_, None) => {
                self.state = CacheState::head(true, command == MemoryCommand::CacheDirty);
                self.proceed(me)
            }
        }
    }

    fn attach(&mut self, to: CacheId, copy: bool, command: MemoryCommand) -> Progress<D> {
        let asked = if copy { CacheCommand::CopyValid } else { CacheCommand::PendValid };
        self.ask_cache(Phase::Attaching { to, copy, command }, to, asked)
    }

    fn attached(
        &mut self,
        me: CacheId,
        to: CacheId,
        copy: bool,
        command: MemoryCommand,
        answer: Answer<D>,
    ) -> Progress<D> {
        if answer.nullified {
            return self.attach(to, copy, command);
        }
        if let (true, Some(data)) = (copy, answer.data) {
            self.data = data;
        }
        self.state = CacheState::head(false, copy || command == MemoryCommand::CacheDirty);
        (self.forward, self.back) = (Some(to), None);
        self.proceed(me)
    }

    fn leave(&mut self) -> Progress<D> {
        match self.back {
            Some(before) => {
                let phase = Phase::Leaving { to: before };
                self.ask_cache(phase, before, CacheCommand::Previous(self.forward))
            }
            None => Progress::Defect("a line that is not head has a predecessor"),
        }
    }

    fn left(&mut self, me: CacheId, by: CacheId, nullified: bool) -> Progress<D> {
        if nullified {
            // By now the predecessor may have changed, or this line may be head, or invalid.
            return self.proceed(me);
        }
        if self.back != Some(by) {
            self.set(Phase::Left { by });
            return Progress::Waits;
        }
        if self.forward.is_none() { self.gone(me) } else { self.unlink() }
    }

    fn unlink(&mut self) -> Progress<D> {
        match (self.forward, self.back) {
            (Some(next), Some(before)) => {
                self.ask_cache(Phase::Unlinking, next, CacheCommand::NextMid(before))
            }
            _ => Progress::Defect("a line in the middle has two neighbours"),
        }
    }

    fn gone(&mut self, me: CacheId) -> Progress<D> {
        self.forget();
        self.proceed(me)
    }

    fn crown(&mut self) -> Progress<D> {
        let dirty = self.state.is_dirty();
        match self.forward {
            Some(next) => self.ask_cache(Phase::Crowning, next, CacheCommand::NextHead { dirty }),
            None => Progress::Defect("a head of several has a successor"),
        }
    }

    fn purge(&mut self, me: CacheId, before: CacheId) -> Progress<D> {
        match self.forward {
            Some(target) => self.purge_one(target, before),
            None => {
                self.state = CacheState::head(true, self.state.is_dirty());
                self.proceed(me)
            }
        }
    }

    fn purge_one(&mut self, target: CacheId, before: CacheId) -> Progress<D> {
        let phase = Phase::Purging { target, before };
        self.ask_cache(phase, target, CacheCommand::Invalidate { before })
    }

    fn purged(&mut self, me: CacheId, target: CacheId, next: Option<CacheId>) -> Progress<D> {
        self.forward = next;
        self.purge(me, target)
    }
}
