//! A node's estimate of the global time, from its own clock and the times that strobes carry.

use super::local::{GlobalTime, LocalTime};

/// The reaction of a node to strobes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// It continues from the last strobe at its own clock's rate. Its error grows until the next
    /// one.
    Step,
    /// It continues at the rate between the last two strobes. A constant drift leaves no error; a
    /// wrong stamp causes up to twice its own error.
    #[default]
    Rate,
}

/// One moment in local and global time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fix {
    /// The time shown by the node's own clock.
    pub local: LocalTime,
    /// The time carried by the strobe.
    pub global: GlobalTime,
}

/// One node's estimate of the global time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Follower {
    discipline: Discipline,
    last: Option<Fix>,
    before: Option<Fix>,
}

impl Follower {
    /// Makes an estimate without any strobe yet.
    #[must_use]
    pub fn new(discipline: Discipline) -> Follower {
        Follower { discipline, last: None, before: None }
    }

    /// Takes the time of a strobe. A strobe whose local time is not later than the last one's is
    /// ignored.
    pub fn set(&mut self, fix: Fix) {
        if self.last.is_none_or(|last| last.local < fix.local) {
            self.before = self.last.replace(fix);
        }
    }

    /// Returns true if it has had all the strobes that its discipline needs.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        match self.discipline {
            Discipline::Step => self.last.is_some(),
            Discipline::Rate => self.before.is_some(),
        }
    }

    /// Returns the global time at which the own clock shows `local`; `None` before the first
    /// strobe.
    #[must_use]
    pub fn global(&self, local: LocalTime) -> Option<GlobalTime> {
        let last = self.last?;
        let counted_ps = local.ps - last.local.ps;
        let passed_ps = match self.before.filter(|_| self.discipline == Discipline::Rate) {
            None => counted_ps,
            Some(before) => {
                let (counts_ps, is_ps) =
                    (last.local.ps - before.local.ps, last.global.ps - before.global.ps);
                (counted_ps * is_ps).div_euclid(counts_ps)
            }
        };
        Some(GlobalTime { ps: last.global.ps + passed_ps })
    }
}

#[cfg(test)]
mod tests {
    use super::{Discipline, Fix, Follower};
    use crate::net::sci::clock::local::{GlobalTime, LocalTime};

    fn fix(local_ps: i128, global_ps: i128) -> Fix {
        Fix { local: LocalTime { ps: local_ps }, global: GlobalTime { ps: global_ps } }
    }

    fn global(follower: &Follower, local_ps: i128) -> Option<i128> {
        follower.global(LocalTime { ps: local_ps }).map(|time| time.ps)
    }

    #[test]
    fn nobody_knows_the_time_before_the_first_strobe() {
        assert_eq!(global(&Follower::new(Discipline::Step), 5), None);
    }

    #[test]
    fn the_rate_of_two_strobes_carries_a_clock_that_is_a_tenth_fast() {
        let mut follower = Follower::new(Discipline::Rate);
        follower.set(fix(100, 1000));
        assert_eq!((global(&follower, 150), follower.is_settled()), (Some(1050), false));
        follower.set(fix(1200, 2000));
        assert_eq!((global(&follower, 2300), follower.is_settled()), (Some(3000), true));
        let mut follower = Follower::new(Discipline::Step);
        follower.set(fix(100, 1000));
        follower.set(fix(1200, 2000));
        assert_eq!(global(&follower, 2300), Some(3100));
    }

    #[test]
    fn a_strobe_that_is_not_later_than_the_last_changes_nothing() {
        let mut follower = Follower::new(Discipline::Rate);
        follower.set(fix(100, 1000));
        follower.set(fix(100, 9000));
        follower.set(fix(50, 9000));
        assert_eq!(global(&follower, 101), Some(1001));
    }
}
