//! Allocation of space in a full receive queue: generations A and B, in two bits of state.
//!
//! Reconstruction (BACKGROUND-M): a refused packet gets the label of the generation that is
//! gathering. While one generation is served, new packets gather in the other.

/// The phase of a producer's try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// First try: gets a label if it is refused.
    #[default]
    DoTry,
    /// Was refused into generation A.
    RetryA,
    /// Was refused into generation B.
    RetryB,
}

impl Phase {
    /// Returns the letter of a refused producer's next phase, for traces.
    pub fn letter(self) -> char {
        match self {
            Phase::DoTry => 'n',
            Phase::RetryA => 'A',
            Phase::RetryB => 'B',
        }
    }
}

/// The answer of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The packet has a slot.
    Accepted,
    /// Refused: try again with this phase.
    Busy(Phase),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    OpenA,
    ServeA,
    OpenB,
    ServeB,
}

/// The state of one receive queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ageing {
    state: State,
    /// Allocation rounds that ended since a member of the served generation was refused.
    quiet_rounds: u8,
}

/// "Toggled twice": one full round (BACKGROUND-M).
const QUIET_ROUNDS: u8 = 2;

impl Ageing {
    /// Answers a try; `space` is true if a slot is free.
    ///
    /// Without space, an open state refuses the other generation's label like a first try: such a
    /// producer was refused two generations ago and served since, so its label is stale. With
    /// space, it is accepted (decided here; the source does not define it).
    pub fn answer(&mut self, phase: Phase, space: bool) -> Answer {
        match self.state {
            State::OpenA | State::OpenB if space => Answer::Accepted,
            State::OpenA => self.begin(State::ServeA),
            State::OpenB => self.begin(State::ServeB),
            State::ServeA => self.serve(phase, Phase::RetryA, Phase::RetryB, space),
            State::ServeB => self.serve(phase, Phase::RetryB, Phase::RetryA, space),
        }
    }

    fn begin(&mut self, state: State) -> Answer {
        *self = Ageing { state, quiet_rounds: 0 };
        Answer::Busy(if state == State::ServeA { Phase::RetryA } else { Phase::RetryB })
    }

    fn serve(&mut self, phase: Phase, served: Phase, gathered: Phase, space: bool) -> Answer {
        if phase != served {
            return Answer::Busy(gathered);
        }
        if space {
            return Answer::Accepted;
        }
        self.quiet_rounds = 0;
        Answer::Busy(served)
    }

    /// Handles the end of an allocation round.
    pub fn round(&mut self) {
        if !self.is_serving() {
            return;
        }
        self.quiet_rounds += 1;
        if self.quiet_rounds >= QUIET_ROUNDS {
            let state = if self.state == State::ServeA { State::OpenB } else { State::OpenA };
            *self = Ageing { state, quiet_rounds: 0 };
        }
    }

    /// Returns true if a generation is being served, so that rounds count.
    pub fn is_serving(&self) -> bool {
        matches!(self.state, State::ServeA | State::ServeB)
    }
}

#[cfg(test)]
mod tests {
    use super::{Ageing, Answer, Phase};

    #[test]
    fn a_newcomer_never_passes_one_who_was_refused_before() {
        let mut queue = Ageing::default();
        assert_eq!(queue.answer(Phase::DoTry, true), Answer::Accepted);
        assert_eq!(queue.answer(Phase::DoTry, false), Answer::Busy(Phase::RetryA));
        assert_eq!(queue.answer(Phase::DoTry, true), Answer::Busy(Phase::RetryB));
        assert_eq!(queue.answer(Phase::RetryA, true), Answer::Accepted);
        assert_eq!(queue.answer(Phase::RetryB, true), Answer::Busy(Phase::RetryB));
        queue.round();
        queue.round();
        assert_eq!(queue.answer(Phase::RetryB, true), Answer::Accepted);
        assert!(!queue.is_serving());
    }

    #[test]
    fn rounds_in_which_a_member_was_refused_do_not_end_the_generation() {
        let mut queue = Ageing::default();
        queue.answer(Phase::DoTry, false);
        for _ in 0..5 {
            queue.round();
            assert_eq!(queue.answer(Phase::RetryA, false), Answer::Busy(Phase::RetryA));
            assert!(queue.is_serving());
        }
    }
}
