//! Notices a world that stands still, in real time and in virtual time.

use std::time::Duration;

use fluxline_core::{Moment, Span};

/// The step in which sleeping threads count real time.
pub const STEP: Duration = Duration::from_secs(1);
/// A turn that lasts longer than this many steps is reported.
const STEPS_MAX: u32 = 5;
/// The virtual time without any completion after which the world is reported.
const QUIET: Span = Span::from_ms(60_000);

/// The steps of one turn, as one sleeping thread counts them.
#[derive(Debug, Default)]
struct Counted {
    turn: u64,
    sleeper: usize,
    steps: u32,
}

/// The course of a world.
#[derive(Debug, Default)]
pub struct Watch {
    /// The present turn.
    turn: u64,
    counted: Counted,
    is_reported: bool,
    progress: u64,
    progress_at: Moment,
    is_quiet_reported: bool,
}

impl Watch {
    /// Notes that another turn begins.
    pub fn turn_begins(&mut self) {
        self.turn += 1;
    }

    /// Counts a step of a sleeping thread; returns true once, when a turn lasts too long.
    pub fn is_stuck(&mut self, sleeper: usize) -> bool {
        if self.counted.turn != self.turn {
            self.counted = Counted { turn: self.turn, sleeper, steps: 0 };
        }
        self.counted.steps += u32::from(self.counted.sleeper == sleeper);
        let is_stuck = self.counted.steps >= STEPS_MAX && !self.is_reported;
        self.is_reported |= is_stuck;
        is_stuck
    }

    /// Notes the completions so far; returns true once, when there was none for long.
    pub fn is_quiet(&mut self, now: Moment, progress: u64) -> bool {
        if progress != self.progress {
            (self.progress, self.progress_at) = (progress, now);
        }
        let is_quiet = now.since(self.progress_at) >= QUIET && !self.is_quiet_reported;
        self.is_quiet_reported |= is_quiet;
        is_quiet
    }
}

/// Says that a program does not end its turn.
pub fn stuck(world: &str, node: &str) -> String {
    let seconds = STEP.as_secs() * u64::from(STEPS_MAX);
    format!(
        "node {node:?} of world {world:?} has run for {seconds} s without a poll or a wait, and \
         the other nodes wait for it; let it poll, and let it block nowhere else"
    )
}

/// Says that programs wait for something that does not come.
pub fn quiet(world: &str, now: Moment, waiting: &[&str]) -> String {
    format!(
        "world {world:?}: nothing was completed in the {QUIET} of virtual time before {} s; {} \
         wait for something that no node does",
        now.as_ns() / 1_000_000_000,
        waiting.join(", ")
    )
}
