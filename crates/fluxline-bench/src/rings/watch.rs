//! Checks, while an end spins, that the other end lives and that nobody interrupted.

use std::time::{Duration, Instant};

use crate::environment::Conversation;
use crate::{Error, Stop};

/// Fruitless polls between two checks: some milliseconds.
const CHECK_POLLS: u32 = 1 << 20;
/// The two ends find each other on shared memory within this time.
const MEET_LIMIT: Duration = Duration::from_secs(10);
/// Between two attempts to find the other end.
const MEET_NAP: Duration = Duration::from_micros(200);

/// Watches the other end by the control connection.
pub struct Watch<'a> {
    conversation: &'a mut dyn Conversation,
    stop: Stop,
    polls: u32,
}

impl<'a> Watch<'a> {
    /// Watches until `stop` is set.
    pub fn new(conversation: &'a mut dyn Conversation, stop: Stop) -> Watch<'a> {
        Watch { conversation, stop, polls: 0 }
    }

    /// Reports that `done` steps of `all` are done, and what comes next.
    pub fn progress(&mut self, done: usize, all: usize, what: &str) {
        self.conversation.progress(done, all, what);
    }

    /// Called for every fruitless poll. Cost: an addition.
    #[inline]
    pub fn spin(&mut self) -> Result<(), Error> {
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(CHECK_POLLS) { self.check() } else { Ok(()) }
    }

    /// Checks at once. Errors: interrupted, or the other end is gone or failed. Cost: a system
    /// call.
    #[cold]
    pub fn check(&mut self) -> Result<(), Error> {
        self.stop.check()?;
        match self.conversation.receive(Duration::ZERO)? {
            None => Ok(()),
            // The one word after the meeting: see `pair::with_far`.
            Some(_) => Err(Error::Input("the near side gave up".to_owned())),
        }
    }

    /// Asks again and again until there is an answer. Errors: none within 10 s.
    pub fn until<T>(
        &mut self,
        mut ask: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let began = Instant::now();
        while began.elapsed() < MEET_LIMIT {
            if let Some(found) = ask()? {
                return Ok(found);
            }
            self.check()?;
            std::thread::sleep(MEET_NAP);
        }
        let what = "finding the other side on shared memory".to_owned();
        Err(Error::Stalled { what, seconds: MEET_LIMIT.as_secs() })
    }
}
