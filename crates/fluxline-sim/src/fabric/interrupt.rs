//! Numbered interrupts that one node of a cluster raises at another.
//!
//! ```text
//!   always      answered, so repeated until it is there
//!   when null   counts up a word: raises only when the old value was null
//! ```
//!
//! Dolphin's cards did the second for a store through a "conditional interrupt" map \[S3\]. A
//! trigger that comes while its interrupt is on its way to the processor does not raise another
//! one. It is counted, and the program gets the number of triggers with the interrupt. So no
//! trigger is lost.

use std::collections::{BTreeMap, VecDeque};

use crate::host::Status;

/// Interrupts of one node. A choice.
pub const INTERRUPTS_MAX: u32 = 4096;

/// The condition under which a trigger raises an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Unless one of the same number is on its way to the processor. When the answer to a trigger
    /// is lost it is repeated, and counts twice.
    Always,
    /// Only if the program has taken all earlier triggers of this kind. Each counts once, whatever
    /// is lost.
    WhenNull,
}

/// A report to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptReport {
    /// An interrupt of its own node.
    Raised {
        /// The number.
        number: u32,
        /// Triggers since the last report: at least 1.
        triggers: u64,
    },
    /// A trigger at another node is over.
    Triggered {
        /// The number that `Interrupts::trigger` returned.
        trigger: u64,
        /// The result.
        result: Result<(), TriggerError>,
    },
}

/// A reason why a trigger failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TriggerError {
    /// The node has no interrupt of that number.
    #[error("the node has no such interrupt: create it there first")]
    NoSuchInterrupt,
    /// The node did not answer.
    #[error("the node does not answer: the interrupt may or may not have arrived")]
    NoAnswer,
}

/// A reason why an interrupt cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterruptError {
    /// The number.
    #[error("interrupt {number} does not exist: numbers are 0 to {}", INTERRUPTS_MAX - 1)]
    Number {
        /// The number.
        number: u32,
    },
    /// The node.
    #[error("node {node} cannot be interrupted: name another node, of 0 to {last}")]
    Node {
        /// The node.
        node: usize,
        /// The last.
        last: usize,
    },
    /// The network has none.
    #[error("nodes of this network have no remote interrupts: use sim:sci, or a put that notifies")]
    Unsupported,
    /// It is there already.
    #[error("interrupt {number} was created before: use it, or remove it first")]
    Taken {
        /// The number.
        number: u32,
    },
}

/// The counts of the triggers that arrived at a node. arrived = raised + coalesced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterruptCounts {
    /// Triggers that came.
    pub arrived: u64,
    /// Those that interrupted the processor.
    pub raised: u64,
    /// Those that found their interrupt raised, or their word not null.
    pub coalesced: u64,
    /// Triggers that were reported to the program.
    pub taken: u64,
    /// Triggers of numbers that do not exist.
    pub refused: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// Unconditional triggers not yet reported to the program.
    written: u64,
    /// Conditional ones: the word.
    word: u64,
    /// True if an interrupt is on its way to the processor.
    is_signalled: bool,
    /// True if a report to the program is under way.
    is_waiting: bool,
}

/// The interrupts of one node.
#[derive(Debug, Default)]
pub struct Lines {
    lines: BTreeMap<u32, Line>,
    /// To be signalled to the processor.
    signals: VecDeque<u32>,
    /// Reports that wait for the program.
    waiting: VecDeque<u32>,
    counts: InterruptCounts,
}

impl Lines {
    /// Makes an interrupt that others can trigger.
    pub fn create(&mut self, number: u32) -> Result<(), InterruptError> {
        if number >= INTERRUPTS_MAX {
            return Err(InterruptError::Number { number });
        }
        if self.lines.contains_key(&number) {
            return Err(InterruptError::Taken { number });
        }
        self.lines.insert(number, Line::default());
        Ok(())
    }

    /// Removes an interrupt and its unreported triggers. Returns true if it existed.
    pub fn remove(&mut self, number: u32) -> bool {
        self.waiting.retain(|&other| other != number);
        self.signals.retain(|&other| other != number);
        self.lines.remove(&number).is_some()
    }

    /// Returns true if an interrupt exists.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        self.lines.contains_key(&number)
    }

    /// A trigger came; returns the old value of the word, 0 for an unconditional one.
    ///
    /// # Errors
    /// [`Status::Address`]: the node has no interrupt of that number.
    pub fn trigger(&mut self, number: u32, condition: Condition) -> Result<u64, Status> {
        let Some(line) = self.lines.get_mut(&number) else {
            self.counts.refused += 1;
            return Err(Status::Address);
        };
        let (before, signals) = match condition {
            Condition::Always => {
                line.written += 1;
                (0, !line.is_signalled)
            }
            Condition::WhenNull => {
                line.word += 1;
                (line.word - 1, line.word == 1 && !line.is_signalled)
            }
        };
        self.arrived(number, signals);
        Ok(before)
    }

    fn arrived(&mut self, number: u32, signals: bool) {
        self.counts.arrived += 1;
        if signals {
            self.counts.raised += 1;
            self.signals.push_back(number);
        } else {
            self.counts.coalesced += 1;
        }
        if let Some(line) = self.lines.get_mut(&number) {
            line.is_signalled |= signals;
        }
    }

    /// The next interrupt for the processor.
    pub fn next_signal(&mut self) -> Option<u32> {
        self.signals.pop_front()
    }

    /// The operating system has brought an interrupt to the program.
    pub fn seen(&mut self, number: u32) {
        let Some(line) = self.lines.get_mut(&number) else { return };
        line.is_signalled = false;
        if line.written + line.word > 0 && !std::mem::replace(&mut line.is_waiting, true) {
            self.waiting.push_back(number);
        }
    }

    /// Returns the next report, which takes all triggers that arrived.
    pub fn next_raised(&mut self) -> Option<InterruptReport> {
        let number = self.waiting.pop_front()?;
        let line = self.lines.get_mut(&number)?;
        let triggers = line.written + line.word;
        (line.written, line.word, line.is_waiting) = (0, 0, false);
        self.counts.taken += triggers;
        Some(InterruptReport::Raised { number, triggers })
    }

    /// Returns the counts.
    pub fn counts(&self) -> InterruptCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::{Condition, InterruptError, InterruptReport, Lines};
    use crate::host::Status;

    fn lines() -> Lines {
        let mut lines = Lines::default();
        lines.create(7).expect("a number");
        lines
    }

    #[test]
    fn a_conditional_interrupt_is_raised_by_the_first_of_many_and_tells_how_many() {
        let mut lines = lines();
        for before in 0..5 {
            assert_eq!(lines.trigger(7, Condition::WhenNull), Ok(before));
        }
        assert_eq!((lines.next_signal(), lines.next_signal()), (Some(7), None));
        lines.seen(7);
        assert_eq!(lines.trigger(7, Condition::WhenNull), Ok(5), "seen, but not taken");
        assert_eq!(lines.next_raised(), Some(InterruptReport::Raised { number: 7, triggers: 6 }));
        assert_eq!(lines.next_raised(), None);
        assert_eq!(lines.trigger(7, Condition::WhenNull), Ok(0), "null again");
        assert_eq!(lines.next_signal(), Some(7));
        let counts = lines.counts();
        assert_eq!((counts.arrived, counts.raised, counts.coalesced, counts.taken), (7, 2, 5, 6));
    }

    #[test]
    fn an_unconditional_one_is_raised_again_as_soon_as_the_processor_has_it() {
        let mut lines = lines();
        (0..3).for_each(|_| _ = lines.trigger(7, Condition::Always).expect("it exists"));
        assert_eq!((lines.next_signal(), lines.next_signal()), (Some(7), None));
        lines.seen(7);
        lines.trigger(7, Condition::Always).expect("it exists");
        assert_eq!(lines.next_signal(), Some(7), "although the program has not looked");
        lines.seen(7);
        assert_eq!(lines.next_raised(), Some(InterruptReport::Raised { number: 7, triggers: 4 }));
        assert_eq!(lines.next_raised(), None);
    }

    /// Triggers are taken while a signal is on its way: that signal then finds none and must not
    /// report zero triggers.
    #[test]
    fn an_interrupt_that_comes_after_its_triggers_were_taken_tells_nothing() {
        let mut lines = lines();
        lines.trigger(7, Condition::Always).expect("it exists");
        lines.seen(7);
        lines.trigger(7, Condition::Always).expect("it exists");
        assert_eq!(lines.next_raised(), Some(InterruptReport::Raised { number: 7, triggers: 2 }));
        lines.seen(7);
        assert_eq!(lines.next_raised(), None);
    }

    #[test]
    fn what_is_no_interrupt_is_refused_with_its_reason() {
        let mut lines = lines();
        assert_eq!(lines.create(7), Err(InterruptError::Taken { number: 7 }));
        assert_eq!(lines.create(4096), Err(InterruptError::Number { number: 4096 }));
        assert!(lines.remove(7) && !lines.remove(7));
        assert_eq!(lines.trigger(7, Condition::Always), Err(Status::Address));
        assert_eq!((lines.counts().refused, lines.counts().arrived), (1, 0));
    }
}
