//! A core of a processor: interrupts before the softirq before processes.
//!
//! Work of a higher level interrupts work of a lower one, which goes on afterwards where it was. A
//! core counts its time by kind, as the kernel does: user, system, irq, softirq.

use std::collections::VecDeque;

pub use crate::core::split::Split;
use crate::{Duration, Instant};

/// The level of some work; a higher one comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A process.
    Process,
    /// A softirq.
    Softirq,
    /// An interrupt handler.
    Interrupt,
}

/// The number of levels.
const LEVELS: usize = 3;

/// Some work, and the task that follows it.
#[derive(Clone, Copy, Debug)]
pub struct Job<T> {
    /// The level.
    pub level: Level,
    /// The time that it takes, by kind.
    pub time: Split,
    /// The task at its end.
    pub task: T,
}

/// A job with the rest of its time.
#[derive(Debug)]
struct Begun<T> {
    job: Job<T>,
    left: Duration,
}

/// A core.
#[derive(Debug)]
pub struct Core<T> {
    queues: [VecDeque<Begun<T>>; LEVELS],
    /// The level at work.
    level: Option<usize>,
    /// The time from which the present job has run.
    since: Instant,
    /// The end of the present job; `NEVER`: none.
    done_at: Instant,
    used: Split,
}

impl<T> Default for Core<T> {
    fn default() -> Core<T> {
        Core {
            queues: std::array::from_fn(|_| VecDeque::new()),
            level: None,
            since: Instant::START,
            done_at: Instant::NEVER,
            used: Split::default(),
        }
    }
}

impl<T> Core<T> {
    /// Adds a job behind those of its level; returns the end of the job that now runs, if it
    /// changed.
    pub fn add(&mut self, job: Job<T>, now: Instant) -> Option<Instant> {
        let level = job.level as usize;
        self.queues[level].push_back(Begun { left: job.time.total(), job });
        if self.level.is_some_and(|present| present >= level) {
            return None;
        }
        self.pause(now);
        Some(self.resume(now))
    }

    /// Ends the present job if its end is now. Ask for [`Core::done_at`] afterwards.
    pub fn finish(&mut self, now: Instant) -> Option<T> {
        if self.done_at != now {
            return None;
        }
        let Begun { job, .. } = self.queues[self.level?].pop_front()?;
        self.used.add(&job.time);
        self.resume(now);
        Some(job.task)
    }

    /// Returns the end of the present job; `NEVER`: none.
    #[must_use]
    pub fn done_at(&self) -> Instant {
        self.done_at
    }

    /// Returns the time used by finished jobs since the start.
    #[must_use]
    pub fn used(&self) -> Split {
        self.used
    }

    /// Makes an idle core that has used some time before.
    #[must_use]
    pub fn after(used: Split) -> Core<T> {
        Core { used, ..Core::default() }
    }

    fn pause(&mut self, now: Instant) {
        let front = self.level.and_then(|level| self.queues[level].front_mut());
        if let Some(begun) = front {
            begun.left = begun.left - now.since(self.since);
        }
    }

    /// Runs the first job of the highest level; returns its end.
    fn resume(&mut self, now: Instant) -> Instant {
        self.level = (0..LEVELS).rev().find(|&level| !self.queues[level].is_empty());
        let front = self.level.and_then(|level| self.queues[level].front());
        self.since = now;
        self.done_at = front.map_or(Instant::NEVER, |begun| now + begun.left);
        self.done_at
    }
}

#[cfg(test)]
mod tests {
    use super::{Core, Job, Level, Split};
    use crate::{Duration, Instant};

    fn at(ns: u64) -> Instant {
        Instant::from_ps(1000 * ns)
    }

    fn job(level: Level, ns: u64, task: char) -> Job<char> {
        let span = Duration::from_ns(ns);
        let time = match level {
            Level::Process => Split { system: span, ..Split::default() },
            Level::Softirq => Split { softirq: span, ..Split::default() },
            Level::Interrupt => Split { irq: span, ..Split::default() },
        };
        Job { level, time, task }
    }

    #[test]
    fn a_higher_level_interrupts_and_the_rest_follows() {
        let mut core = Core::default();
        assert_eq!(core.add(job(Level::Process, 100, 'p'), at(0)), Some(at(100)));
        assert_eq!(core.add(job(Level::Softirq, 50, 's'), at(40)), Some(at(90)));
        assert_eq!(core.add(job(Level::Process, 10, 'q'), at(50)), None);
        assert_eq!(core.add(job(Level::Interrupt, 5, 'i'), at(60)), Some(at(65)));
        assert_eq!(core.finish(at(64)), None);
        let mut order = Vec::new();
        while core.done_at() != Instant::NEVER {
            let now = core.done_at();
            order.push((core.finish(now), now));
        }
        let expected = [('i', 65), ('s', 95), ('p', 155), ('q', 165)];
        assert_eq!(order, expected.map(|(task, ns)| (Some(task), at(ns))));
        let used = core.used();
        assert_eq!((used.system, used.softirq), (Duration::from_ns(110), Duration::from_ns(50)));
        assert_eq!(used.total(), Duration::from_ns(165));
    }
}
