//! Runs programs in virtual time: each program with work to do runs, then time advances.

use fluxline_core::Moment;
use fluxline_core::fabric::Fabric;

use super::Cluster;
use super::moments::{instant, moment};
use crate::Duration;

/// The next wish of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: it is done.
    Done,
    /// Runs again when its node has a completion or can take work again.
    Wait,
    /// Runs again under the same conditions, and in any case at this moment. A program that polls
    /// memory names the moment.
    Until(Moment),
}

/// A program at its node.
pub struct Program<'a> {
    /// The node.
    pub fabric: &'a mut dyn Fabric,
    /// The program: it polls the node and posts, and never waits. It may be called more often than
    /// it asked for.
    pub step: &'a mut dyn FnMut(&mut dyn Fabric, Moment) -> Step,
}

/// Nothing will ever happen again, and some programs are not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "nothing will happen any more at {} ns: the programs {waiting:?} wait for something that \
     nobody does", at.as_ns()
)]
pub struct Stalled {
    /// The time at which it was clear.
    pub at: Moment,
    /// The indices of the waiting programs.
    pub waiting: Vec<usize>,
}

/// After so long without any progress there will be none: longer than every time-out of the model
/// together (`Times::give_up`, between probes, for a buffer).
const QUIET: Duration = Duration::from_us(400_000);

impl Cluster {
    /// Runs programs until all are done; says when that was.
    ///
    /// Errors: [`Stalled`], when none can go on: all wait, and nothing is on its way.
    pub fn drive(&self, programs: &mut [Program<'_>]) -> Result<Moment, Stalled> {
        let mut now = self.now();
        let mut wants = vec![Step::Wait; programs.len()];
        let mut progress = 0;
        let mut since = instant(now);
        loop {
            for (program, want) in programs.iter_mut().zip(&mut wants) {
                if *want != Step::Done {
                    *want = (program.step)(program.fabric, now);
                }
            }
            let waiting = || (0..).zip(&wants).filter(|of| *of.1 != Step::Done).map(|of| of.0);
            if waiting().next().is_none() {
                return Ok(now);
            }
            let until = wants.iter().filter_map(|want| match want {
                Step::Until(moment) => Some(*moment),
                _ => None,
            });
            let until = until.min();
            loop {
                let mut world = self.world.lock();
                let (due, due_program) = (world.next_at().map(moment), world.next_due_after(now));
                let quiet = instant(now).since(since) > QUIET && until.is_none();
                let next = due.into_iter().chain(due_program).chain(until).min();
                let Some(next) = next.filter(|_| !quiet) else {
                    return Err(Stalled { at: now, waiting: waiting().collect() });
                };
                now = now.max(next);
                world.run_until(instant(now));
                let done = world.progress();
                if done != progress {
                    (progress, since) = (done, instant(now));
                    break;
                }
                if due_program.into_iter().chain(until).any(|at| at <= now) {
                    break;
                }
            }
        }
    }
}
