//! NetPIPE's schedule: its sizes, and the number of repeats of each.
//!
//! Sizes are every power of two and one and a half times it. Each has a neighbour below and above
//! (the perturbation), which shows steps at boundaries of lines, pages and frames. The repeats of a
//! size follow from the time of the one before, so that a trial lasts as long as planned.
//! Source: NetPIPE 3.7.1, netpipe.c, main loop and TRIALS, RUNTM, STOPTM, NSAMP.

/// Trials of a size. Source: netpipe.h, TRIALS.
pub const TRIALS: u32 = 3;
/// The planned time of a trial \[s\]. Source: netpipe.h, RUNTM.
pub const TRIAL_SECONDS: f64 = 0.10;
/// A repeat that takes longer is the last \[s\]. Source: netpipe.h, STOPTM.
const STOP_SECONDS: f64 = 1.0;
/// Sizes at most. Source: netpipe.h, NSAMP, and the main loop's margin of 3.
const SIZES_MAX: u32 = 8000 - 3;
/// Repeats at most: on virtual time a repeat may cost nothing. Chosen.
const REPEATS_MAX: f64 = 1e7;

/// The parameters of the schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The first size \[byte\].
    pub first: u64,
    /// No size is taken up beyond this one \[byte\].
    pub last: u64,
    /// The distance of the neighbours \[byte\]; 0: no neighbours.
    pub perturbation: u64,
    /// The planned time of a trial \[s\].
    pub trial_seconds: f64,
    /// The repeats of every size, as NetPIPE -n; `None`: by the planned time.
    pub repeats: Option<u64>,
}

impl Config {
    /// NetPIPE's, where nothing is asked for. Source: netpipe.h, MAXINT and the default of -p.
    #[must_use]
    pub fn netpipe() -> Config {
        let (first, last, repeats) = (1, 10_000_000, None);
        Config { first, last, perturbation: 3, trial_seconds: TRIAL_SECONDS, repeats }
    }
}

/// The schedule, size by size.
pub struct Schedule {
    config: Config,
    /// From one middle size to the next \[byte\].
    step: u64,
    /// The middle size \[byte\].
    middle: u64,
    /// The number of middle sizes so far, as NetPIPE counts them.
    turn: u64,
    /// The neighbour that comes next; `None`: the middle is new.
    neighbour: Option<i64>,
    /// The size before \[byte\].
    before: u64,
    sizes: u32,
}

impl Schedule {
    /// At the first size.
    #[must_use]
    pub fn new(config: Config) -> Schedule {
        let first = config.first.max(1);
        let is_one = first == 1;
        let step = if is_one { 1 } else { first / 2 };
        let (turn, neighbour) = (u64::from(!is_one), None);
        Schedule { config, step, middle: first, turn, neighbour, before: first, sizes: 0 }
    }

    /// The next size \[byte\] and its repeats, when a repeat of the one before (of the first size:
    /// of a first look) took `seconds`; `None`: it was the last.
    pub fn next(&mut self, seconds: f64) -> Option<(u64, u64)> {
        if self.neighbour.is_none() {
            if self.sizes >= SIZES_MAX || seconds >= STOP_SECONDS || self.middle > self.config.last
            {
                return None;
            }
            if self.turn > 2 && !self.turn.is_multiple_of(2) {
                self.step *= 2;
            }
        }
        let apart = self.config.perturbation as i64;
        let has_neighbours = apart > 0 && self.step > self.config.perturbation + 1;
        let neighbour = self.neighbour.unwrap_or(if has_neighbours { -apart } else { 0 });
        // By the size before, and how much longer this one may take: NetPIPE's own estimate.
        let longer = self.before as f64 / (self.before as f64 - self.step as f64 + 1.0);
        let repeats = self.config.trial_seconds / (longer * seconds);
        let repeats = repeats.clamp(f64::from(TRIALS), REPEATS_MAX) as u64;
        let repeats = self.config.repeats.unwrap_or(repeats);
        let bytes = self.middle.saturating_add_signed(neighbour);
        self.sizes += 1;
        self.before = bytes;
        let next = neighbour + if has_neighbours { apart } else { apart + 1 };
        if next <= apart {
            self.neighbour = Some(next);
        } else {
            self.neighbour = None;
            self.middle += self.step;
            self.turn += 1;
        }
        Some((bytes, repeats))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link of 5 us and 200 MB/s.
    fn seconds(bytes: u64) -> f64 {
        5e-6 + bytes as f64 / 200e6
    }

    fn all(config: Config) -> Vec<(u64, u64)> {
        let mut schedule = Schedule::new(config);
        let mut last = seconds(config.first);
        let next = || {
            let (bytes, repeats) = schedule.next(last)?;
            last = seconds(bytes);
            Some((bytes, repeats))
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn sizes_and_repeats_are_netpipes() {
        let all = all(Config::netpipe());
        assert_eq!(all.len(), 124);
        let golden = [
            (1, 19980),
            (2, 19980),
            (3, 19960),
            (4, 13293),
            (6, 14940),
            (8, 9940),
            (12, 12400),
            (13, 8234),
            (16, 9112),
            (19, 11072),
            (21, 12396),
            (24, 13059),
            (27, 13834),
            (29, 8655),
        ];
        assert_eq!(all[..golden.len()], golden);
        for one in
            [(1021, 3808), (1024, 4943), (1027, 4950), (65_533, 132), (65_536, 150), (1_048_576, 9)]
        {
            assert!(all.contains(&one), "{one:?} in {all:?}");
        }
        assert_eq!(all[123], (8_388_611, 3));
        let sizes: Vec<u64> = all[121..].iter().map(|(bytes, _)| *bytes).collect();
        assert_eq!(sizes, [8_388_605, 8_388_608, 8_388_611]);
    }

    #[test]
    fn without_neighbours_there_are_46_sizes_and_from_5_those_of_integrity() {
        let plain = all(Config { perturbation: 0, ..Config::netpipe() });
        assert_eq!(plain.len(), 46);
        let integrity = all(Config { first: 5, perturbation: 0, ..Config::netpipe() });
        let sizes: Vec<u64> = integrity.iter().map(|(bytes, _)| *bytes).collect();
        assert_eq!(sizes[..9], [5, 7, 9, 13, 17, 25, 33, 49, 65]);
        assert_eq!(sizes.last(), Some(&8_388_609));
    }

    #[test]
    fn a_slow_link_ends_the_schedule_and_one_that_costs_nothing_does_not_repeat_for_ever() {
        let mut schedule = Schedule::new(Config::netpipe());
        assert_eq!(schedule.next(0.999), Some((1, 3)));
        assert_eq!(schedule.next(1.0), None);
        let mut schedule = Schedule::new(Config::netpipe());
        let (_, repeats) = schedule.next(0.0).expect("a size");
        assert!(repeats <= REPEATS_MAX as u64);
    }
}
