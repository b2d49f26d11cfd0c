//! The far end of a trial whose near end puts numbered messages.
//!
//! It checks their order, answers them, and is done at the near end's word ([`END`]). Trials differ
//! in the answer only ([`Answers`]): none, an echo, or a verdict about the data.

use fluxline_core::Moment;
use fluxline_core::fabric::{Completion, Fabric};
use serde_json::Value;

use super::{END, Role, Site, Step, Transfer};
use crate::Error;

/// Completions handled, and answers begun, in one step at most.
const STEP_MAX: u32 = 64;

/// The answer to a message.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// A message of any length.
    Message(Transfer),
    /// A word: a notification with one byte ([`Site::note`]).
    Word(u32),
}

impl Answer {
    /// Posts as much as the queue takes; `true`: everything is posted. Errors: refused.
    fn step(&mut self, site: &Site, fabric: &mut dyn Fabric) -> Result<bool, Error> {
        match self {
            Answer::Message(transfer) => transfer.step(site, fabric),
            Answer::Word(word) => site.note(fabric, *word),
        }
    }
}

/// The far end's decision about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Accepted, without an answer.
    Silent,
    /// Accepted, with an answer.
    Accepted,
    /// Rejected, with an answer; the near end sends it again under the same number.
    Rejected,
}

/// The part of a far end in which trials differ.
pub trait Answers {
    /// The largest number of answers owed. While as many are owed, no message is taken.
    const OWED_MAX: u64 = u64::MAX;

    /// Takes the next message in order. Errors: its memory cannot be read.
    fn arrived(&mut self, site: &Site, number: u32) -> Result<Arrival, Error>;

    /// Makes the next answer that is owed; `None`: this far end never answers.
    fn answer(&mut self, site: &Site) -> Option<Answer> {
        let _ = site;
        None
    }

    /// Returns the measurement. `accepted` messages arrived whole.
    fn outcome(&mut self, accepted: u64) -> Value {
        let _ = accepted;
        Value::Null
    }
}

/// The answers of a far end whose memory is written without its help: none.
pub struct Silence;

impl Answers for Silence {
    fn arrived(&mut self, _: &Site, _: u32) -> Result<Arrival, Error> {
        Ok(Arrival::Silent)
    }
}

/// Polls its link, checks that the messages arrive in order, and answers them until [`END`].
pub struct FarEnd<A> {
    answers: A,
    /// The number of messages that must have arrived at the end; `None`: any.
    expected: Option<u64>,
    accepted: u64,
    /// Answers that are not posted whole.
    owed: u64,
    /// The first of them, once it is begun.
    going: Option<Answer>,
    ends: bool,
}

impl FarEnd<Silence> {
    /// Expects this many messages, numbered from 0.
    #[must_use]
    pub fn silent(expected: u64) -> FarEnd<Silence> {
        FarEnd { expected: Some(expected), ..FarEnd::answering(Silence) }
    }
}

impl<A: Answers> FarEnd<A> {
    /// Answers any number of messages, numbered from 0.
    #[must_use]
    pub fn answering(answers: A) -> FarEnd<A> {
        FarEnd { answers, expected: None, accepted: 0, owed: 0, going: None, ends: false }
    }

    fn notified(&mut self, site: &Site, number: u32) -> Result<(), Error> {
        if number == END {
            self.ends = true;
            return Ok(());
        }
        let next = self.accepted % u64::from(END);
        if u64::from(number) != next {
            let what = format!("message {number} came instead of {next}");
            return Err(Error::Defect { what });
        }
        let arrival = self.answers.arrived(site, number)?;
        self.owed += u64::from(arrival != Arrival::Silent);
        self.accepted += u64::from(arrival != Arrival::Rejected);
        Ok(())
    }

    /// Posts answers that are owed; returns true if one was posted whole.
    fn answer(&mut self, site: &Site, fabric: &mut dyn Fabric) -> Result<bool, Error> {
        let mut worked = false;
        for _ in 0..STEP_MAX {
            if let Some(going) = &mut self.going {
                if !going.step(site, fabric)? {
                    break;
                }
                (self.going, self.owed, worked) = (None, self.owed - 1, true);
            }
            if self.owed == 0 {
                break;
            }
            self.going = self.answers.answer(site);
        }
        Ok(worked)
    }

    fn check_count(&self) -> Result<(), Error> {
        match self.expected {
            Some(expected) if self.accepted != expected => {
                let what = format!("{} of {expected} messages came", self.accepted);
                Err(Error::Defect { what })
            }
            _ => Ok(()),
        }
    }
}

impl<A: Answers> Role for FarEnd<A> {
    fn step(&mut self, site: &Site, fabric: &mut dyn Fabric, now: Moment) -> Result<Step, Error> {
        let mut worked = false;
        for _ in 0..STEP_MAX {
            if self.owed >= A::OWED_MAX {
                break;
            }
            let Some(completion) = site.poll(fabric, now)? else { break };
            worked = true;
            if let Completion::Notified { value, .. } = completion
                && let Some(number) = site.noticed(value)
            {
                self.notified(site, number)?;
            }
        }
        worked |= self.answer(site, fabric)?;
        if self.ends && self.owed == 0 {
            self.check_count()?;
            return Ok(Step::Done);
        }
        Ok(Step::worked_if(worked))
    }

    fn outcome(&mut self) -> Value {
        self.answers.outcome(self.accepted)
    }
}
