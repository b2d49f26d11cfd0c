//! Ends and marks of inputs: times up to which everything was taken.

use super::summary::SourceState;
use super::{Builder, Moment};

impl Builder {
    /// Records that everything that arrived by input `input` before `mark` was taken. From now on,
    /// only marks and packets move the clock of this input, and its sources are silent by its marks
    /// alone.
    pub fn mark_input(&mut self, input: u16, mark: Moment) {
        self.inputs.mark(input, mark);
    }

    /// Lets the time of the run move the clock of input `input` again: its sources become silent
    /// with the time.
    pub fn unmark_input(&mut self, input: u16) {
        self.inputs.unmark(input);
    }

    /// Returns true when input `input` has ended.
    #[must_use]
    pub fn is_input_ended(&self, input: u16) -> bool {
        self.inputs.is_ended(input)
    }

    /// Ends input `input`: from now on no event waits for its sources, and the packets that their
    /// counters lack are lost.
    pub fn end_input(&mut self, input: u16) {
        self.inputs.end(input);
        for number in 0..self.members.count() {
            let seen = self
                .members
                .get(number)
                .is_some_and(|its| its.input == input && its.state != SourceState::Unseen);
            if seen {
                self.members.set_state(number, SourceState::Ended);
                self.members.know(number).lines.iter_mut().for_each(|line| line.end());
            }
        }
        self.open.blocker = None;
        self.settle_by_time();
    }
}
