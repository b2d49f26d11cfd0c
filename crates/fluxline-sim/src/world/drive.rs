//! Runs programs in virtual time: each program with work to do runs, then time advances.

use std::collections::{BTreeMap, BTreeSet};

use fluxline_core::Moment;
use fluxline_core::fabric::Fabric;

use super::moments::{instant, moment};
use super::{Cluster, Node, NodeState};

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
    /// it asked for, and is not called while its node is dead.
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

/// The course of the programs.
struct Course {
    /// The programs of each node.
    of_node: BTreeMap<u32, Vec<usize>>,
    wishes: Vec<Step>,
    /// The number of starts of each program's node.
    starts: Vec<u32>,
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
        let starts = vec![0; programs.len()];
        Course { of_node, wishes, starts, named: BTreeSet::new(), open }
    }

    /// Calls a program, and takes its next wish. That of a dead node is done; that of a node that
    /// has started again begins anew.
    fn call(&mut self, index: usize, program: &mut Program<'_>, node: NodeState, now: Moment) {
        let is_new = std::mem::replace(&mut self.starts[index], node.starts) != node.starts;
        if is_new && self.wishes[index] == Step::Done {
            (self.wishes[index], self.open) = (Step::Wait, self.open + 1);
        }
        if self.wishes[index] == Step::Done {
            // A node whose program is done still answers its peers.
            while node.is_alive && program.fabric.poll(now).is_some() {}
            return;
        }
        let wish = if node.is_alive { (program.step)(program.fabric, now) } else { Step::Done };
        self.wish(index, wish);
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

    /// Returns the programs of these nodes, and those whose moment has come. `is_called` has those
    /// that are called although they are done.
    fn ready(
        &self,
        woken: &BTreeSet<u32>,
        now: Moment,
        is_called: impl Fn(usize) -> bool,
    ) -> BTreeSet<usize> {
        let woken = woken.iter().filter_map(|node| self.of_node.get(node)).flatten().copied();
        let named = self.named.range(..=(now, usize::MAX)).map(|of| of.1);
        let is_ready = |&program: &usize| self.wishes[program] != Step::Done || is_called(program);
        woken.chain(named).filter(is_ready).collect()
    }
}

impl Cluster {
    /// Runs programs until all are done or their nodes crashed; returns the time of the end.
    ///
    /// The program of a node that starts again is called again, done or not: see
    /// [`Cluster::starts`]. A restart after the end of all programs is too late.
    ///
    /// Errors: [`Stalled`], when none can go on: all wait, and nothing is on its way.
    pub fn drive(&self, programs: &mut [Program<'_>]) -> Result<Moment, Stalled> {
        let mut now = self.now();
        let mut course = Course::new(programs);
        let mut ready: BTreeSet<usize> = (0..programs.len()).collect();
        let (mut progress, mut since) = (0, instant(now));
        loop {
            for index in ready {
                let program = &mut programs[index];
                let node = self.world.lock().look(program.fabric.index());
                course.call(index, program, node, now);
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
                let is_quiet = instant(now).since(since) > world.patience() && named.is_none();
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
                let is_called = |index: usize| {
                    let node = programs[index].fabric.index();
                    world.answers_by_polling() || world.look(node).starts != course.starts[index]
                };
                ready = course.ready(&woken, now, is_called);
            }
        }
    }
}
