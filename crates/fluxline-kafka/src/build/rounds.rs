//! The rounds of a builder on a partition: steps, and what is due between them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::log::Log;
use super::worker::{Output, Step, WorkError, Worker};

/// Time between two looks at what is due, however many records come.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Rounds of a builder.
#[derive(Debug)]
pub struct Rounds {
    looked: Instant,
}

impl Default for Rounds {
    fn default() -> Rounds {
        Rounds { looked: Instant::now() }
    }
}

/// The result of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// The step.
    pub step: Step,
    /// Counts are due for publication.
    pub is_look: bool,
}

impl Rounds {
    /// Does a step. Lets events go on without the dead readout nodes, when no record is here, and
    /// four times a second in any case: with many living nodes, there is always a record. A node
    /// that came back meanwhile is waited for all the same.
    ///
    /// Errors: as [`Worker::step`].
    pub fn step(
        &mut self,
        worker: &mut Worker,
        log: &mut impl Log,
        output: &mut (impl Output + ?Sized),
        dead: impl FnOnce() -> BTreeSet<u16>,
    ) -> Result<Round, WorkError> {
        let step = worker.step(log, output)?;
        let is_look = self.looked.elapsed() >= LOOK_EVERY;
        if is_look {
            self.looked = Instant::now();
        }
        if step != Step::Over && (is_look || step == Step::Idle) {
            worker.leave_out(log, &dead())?;
        }
        Ok(Round { step, is_look })
    }
}
