//! Processor time: of each core, and of one thread.
//!
//! The kernel counts ticks; two readings and their difference give shares. A trial of 0.25 s
//! has 25 ticks per core, so shares are known to some 4 %. After 2 s they are known to 0.5 %.
//! Source: Linux man-pages proc_stat(5), proc_pid_stat(5).

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

/// Ticks a second of all counters here. Source: USER_HZ, 100 on each architecture but Alpha.
const TICKS_PER_S: f64 = 100.0;
/// The kinds of time of a core: programs, the kernel on their behalf, interrupts and the work that
/// they defer, the hypervisor's other guests, nothing.
const KINDS: [&str; 5] = ["user", "system", "interrupts", "steal", "idle"];

/// The time of a core since boot, by kind \[tick\].
pub type CoreTicks = [u64; 5];

/// Returns the counters of each core: `cpuN` lines of /proc/stat, with user, nice, system, idle,
/// iowait, irq, softirq and steal. Other and broken lines are left out.
#[must_use]
pub fn parse_cores(text: &str) -> BTreeMap<usize, CoreTicks> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let core = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        let mut next = || words.next()?.parse::<u64>().ok();
        let (user, nice, system, idle) = (next()?, next()?, next()?, next()?);
        // Kernels before 2.6.11 have fewer columns.
        let [iowait, irq, softirq, steal] = [(); 4].map(|()| next().unwrap_or(0));
        let idle = idle.saturating_add(iowait);
        Some((core, [user.saturating_add(nice), system, irq.saturating_add(softirq), steal, idle]))
    };
    text.lines().filter_map(line).collect()
}

/// The load of a core by kind: shares of the time between two readings, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreLoad {
    /// Its number.
    pub core: usize,
    /// Time of programs.
    pub user: f64,
    /// The kernel on their behalf.
    pub system: f64,
    /// Hardware interrupts, and the work that they defer.
    pub interrupts: f64,
    /// Time that the hypervisor gave to others.
    pub steal: f64,
    /// Idle, or waiting for a disk.
    pub idle: f64,
}

impl CoreLoad {
    /// Returns the busy share.
    #[must_use]
    pub fn busy(&self) -> f64 {
        (1.0 - self.idle).max(0.0)
    }

    /// Writes its parts from 3 % on, the largest first: `system 88 %, interrupts 10 %`.
    #[must_use]
    pub fn words(&self) -> String {
        let shares = [self.user, self.system, self.interrupts, self.steal];
        let mut parts: Vec<(&str, f64)> = KINDS.into_iter().zip(shares).collect();
        parts.retain(|&(_, share)| share >= 0.03);
        parts.sort_by(|a, b| b.1.total_cmp(&a.1));
        let words: Vec<String> =
            parts.iter().map(|(name, share)| format!("{name} {:.0} %", 100.0 * share)).collect();
        if words.is_empty() { "idle".to_owned() } else { words.join(", ") }
    }
}

/// Shares between two readings; cores that are not in both, or did not tick, are left out.
#[must_use]
pub fn loads(
    before: &BTreeMap<usize, CoreTicks>,
    after: &BTreeMap<usize, CoreTicks>,
) -> Vec<CoreLoad> {
    let load = |(&core, now): (&usize, &CoreTicks)| {
        let then = before.get(&core)?;
        // Idle and steal may go back by a tick on some kernels.
        let mut ticks = *now;
        ticks.iter_mut().zip(then).for_each(|(now, then)| *now = now.saturating_sub(*then));
        let sum = ticks.iter().fold(0_u64, |sum, &part| sum.saturating_add(part));
        let [user, system, interrupts, steal, idle] = ticks.map(|ticks| ticks as f64 / sum as f64);
        (sum > 0).then_some(CoreLoad { core, user, system, interrupts, steal, idle })
    };
    after.iter().filter_map(load).collect()
}

/// A reading of the host's cores; empty where /proc is hidden. Cost: one file.
#[must_use]
pub fn read_cores() -> BTreeMap<usize, CoreTicks> {
    parse_cores(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// Reads the processor time of a `stat` file of a process or thread, columns 14 and 15 \[s\]. Its
/// second column is a name in brackets, which may contain brackets and blanks.
#[must_use]
pub fn parse_thread(text: &str) -> Option<f64> {
    let (_, rest) = text.rsplit_once(')')?;
    // What follows the name begins with column 3.
    let mut words = rest.split_ascii_whitespace().skip(14 - 3);
    let mut ticks = || words.next()?.parse::<u64>().ok();
    Some(ticks()?.saturating_add(ticks()?) as f64 / TICKS_PER_S)
}

/// The calling thread's time so far \[s\]; zero where /proc is hidden. Cost: one file.
#[must_use]
pub fn read_thread() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    parse_thread(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  100 0 100 1000 0 0 0 0 0 0\n\
        cpu0 50 5 50 400 10 1 20 3 0 0\n\
        cpu1 50 5 50 500 0 0 0 0 0 0\n\
        intr 5 6 7\nctxt 9\nprocs_running 1\n";
    const AFTER: &str = "cpu  200 0 200 2000 0 0 0 0 0 0\n\
        cpu0 60 10 90 410 15 3 50 11 0 0\n\
        cpu1 50 5 50 500 0 0 0 0 0 0\n\
        cpu2 1 1 1 1 1 1 1 1 0 0\n";

    #[test]
    fn shares_of_a_core_are_those_of_the_difference_and_sum_to_one() {
        let loads = loads(&parse_cores(BEFORE), &parse_cores(AFTER));
        assert_eq!(loads.len(), 1, "cpu1 did not tick, cpu2 is new: {loads:?}");
        // 10 user, 5 nice, 40 system, 2 irq, 30 softirq, 8 steal, 10 + 5 idle: 110 ticks.
        let CoreLoad { core, user, system, interrupts, steal, idle } = loads[0];
        assert_eq!(core, 0);
        for (share, ticks) in
            [(user, 15.0), (system, 40.0), (interrupts, 32.0), (steal, 8.0), (idle, 15.0)]
        {
            assert!((share - ticks / 110.0).abs() < 1e-12, "{share}");
        }
        assert_eq!(loads[0].words(), "system 36 %, interrupts 29 %, user 14 %, steal 7 %");
    }

    #[test]
    fn garbage_cut_lines_and_counters_that_go_back_are_no_time() {
        for text in ["", "cpu", "cpux 1 2 3 4", "cpu0", "cpu0 1 2 3", "cpu0 1 -2 3 4", "\0\u{fffd}"]
        {
            assert!(parse_cores(text).is_empty(), "{text:?}");
        }
        let old = parse_cores("cpu7 1 2 3 18446744073709551615 1\n");
        assert_eq!(old[&7][4], u64::MAX, "an old kernel's line");
        let [before, after] = ["cpu0 9 0 0 90 0 0 0 5", "cpu0 19 0 0 89 0 0 0 5"].map(parse_cores);
        let loads = loads(&before, &after);
        assert_eq!((loads[0].user, loads[0].idle), (1.0, 0.0));
        for text in ["", "1 (a) R", ") ) )", "1 (a) R 1 1 1 1 1 1 1 1 1 1 x y"] {
            assert_eq!(parse_thread(text), None, "{text:?}");
        }
        let text = "42 (a) b (9 9) R 1 2 3 4 5 6 7 8 9 10 250 75 0 0 20 0 1 0 5";
        assert_eq!(parse_thread(text), Some(3.25));
    }
}
