//! Runs programs in virtual time: each program with work to do runs, then time advances.

use std::collections::{BTreeMap, BTreeSet};

use fluxline_core::Moment;
use fluxline_core::fabric::Fabric;

use super::moments::{instant, moment};
use super::{Cluster, Node};
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
    pub fabric: &'a mut Node,
    /// The program: it polls the node and posts, and never waits. It may be called more often than
    /// it asked for, and is not called any more when its node crashes.
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

/// The programs that are not done.
struct Course {
    /// The programs of each node.
    of_node: BTreeMap<u32, Vec<usize>>,
    wishes: Vec<Step>,
    /// The moments that programs named.
    named: BTreeSet<(Moment, usize)>,
    /// The number of programs that are not done.
    open: usize,
}

impl Course {
    fn new(programs: &[Program<'_>]) -> Course {
        let mut of_node: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (index, program) in programs.iter().enumerate() {
            of_node.entry(program.fabric.index() as u32).or_default().push(index);
        }
        let (wishes, open) = (vec![Step::Wait; programs.len()], programs.len());
        Course { of_node, wishes, named: BTreeSet::new(), open }
    }

    /// Takes the next wish of a program.
    fn wish(&mut self, program: usize, wish: Step) {
        if let Step::Until(moment) = self.wishes[program] {
            self.named.remove(&(moment, program));
        }
        match wish {
            Step::Until(moment) => _ = self.named.insert((moment, program)),
            Step::Done => self.open -= 1,
            Step::Wait => {}
        }
        self.wishes[program] = wish;
    }

    /// Returns the programs that are not done.
    fn waiting(&self) -> Vec<usize> {
        let open = (0..).zip(&self.wishes).filter(|of| *of.1 != Step::Done);
        open.map(|of| of.0).collect()
    }

    /// Returns the programs of these nodes, and those whose moment has come.
    fn ready(&self, woken: &BTreeSet<u32>, now: Moment) -> BTreeSet<usize> {
        let woken = woken.iter().filter_map(|node| self.of_node.get(node)).flatten().copied();
        let named = self.named.range(..=(now, usize::MAX)).map(|of| of.1);
        woken.chain(named).filter(|&program| self.wishes[program] != Step::Done).collect()
    }
}

impl Cluster {
    /// Runs programs until all are done or their nodes crashed; returns the time of the end.
    ///
    /// Errors: [`Stalled`], when none can go on: all wait, and nothing is on its way.
    pub fn drive(&self, programs: &mut [Program<'_>]) -> Result<Moment, Stalled> {
        let mut now = self.now();
        let mut course = Course::new(programs);
        let mut ready: BTreeSet<usize> = (0..programs.len()).collect();
        let (mut progress, mut since) = (0, instant(now));
        loop {
            for program in ready {
                let Program { fabric, step } = &mut programs[program];
                let is_alive = self.world.lock().look(fabric.index()).is_alive;
                let wish = if is_alive { step(*fabric, now) } else { Step::Done };
                course.wish(program, wish);
            }
            if course.open == 0 {
                return Ok(now);
            }
            ready = BTreeSet::new();
            while ready.is_empty() {
                let mut world = self.world.lock();
                let named = course.named.first().map(|of| of.0);
                let event = world.next_at().map(moment);
                let due = world.next_due_after(now);
                let is_quiet = instant(now).since(since) > QUIET && named.is_none();
                let next = event.into_iter().chain(due).chain(named).min();
                let Some(next) = next.filter(|_| !is_quiet) else {
                    return Err(Stalled { at: now, waiting: course.waiting() });
                };
                now = now.max(next);
                world.run_until(instant(now));
                if world.progress() != progress {
                    (progress, since) = (world.progress(), instant(now));
                }
                let woken = world.take_woken(now);
                ready = course.ready(&woken, now);
            }
        }
    }
}
