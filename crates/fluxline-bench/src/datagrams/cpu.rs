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

/// The time of a core since boot, by kind \[tick\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreTicks {
    /// Time of programs.
    pub user: u64,
    /// Programs of low priority.
    pub nice: u64,
    /// The kernel on their behalf.
    pub system: u64,
    /// Hardware interrupts.
    pub irq: u64,
    /// Work deferred by interrupts: receiving and forwarding of packets.
    pub softirq: u64,
    /// Time that the hypervisor gave to others while this core wanted to run.
    pub steal: u64,
    /// Idle, or waiting for a disk.
    pub idle: u64,
}

impl CoreTicks {
    fn columns(&self) -> [u64; 7] {
        [self.user, self.nice, self.system, self.irq, self.softirq, self.steal, self.idle]
    }

    /// One `cpuN` line: user nice system idle iowait irq softirq steal; guests are in user.
    fn parse(words: &mut dyn Iterator<Item = &str>) -> Option<CoreTicks> {
        let mut next = || words.next()?.parse::<u64>().ok();
        let (user, nice, system, idle) = (next()?, next()?, next()?, next()?);
        // Kernels before 2.6.11 have fewer columns.
        let mut or_zero = || next().unwrap_or(0);
        let (iowait, irq, softirq, steal) = (or_zero(), or_zero(), or_zero(), or_zero());
        let idle = idle.saturating_add(iowait);
        Some(CoreTicks { user, nice, system, irq, softirq, steal, idle })
    }
}

/// Returns the counters of each core. Other and broken lines are left out.
#[must_use]
pub fn parse_cores(text: &str) -> BTreeMap<usize, CoreTicks> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let core = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        Some((core, CoreTicks::parse(&mut words)?))
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
    /// Programs of low priority.
    pub nice: f64,
    /// The kernel on their behalf.
    pub system: f64,
    /// Hardware interrupts.
    pub irq: f64,
    /// Work deferred by interrupts.
    pub softirq: f64,
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

    /// Hardware interrupts, and the work that they defer \[share\].
    #[must_use]
    pub fn interrupts(&self) -> f64 {
        self.irq + self.softirq
    }

    /// The parts with their names, in the order in which they are shown.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, f64); 7] {
        [
            ("user", self.user),
            ("nice", self.nice),
            ("system", self.system),
            ("irq", self.irq),
            ("softirq", self.softirq),
            ("steal", self.steal),
            ("idle", self.idle),
        ]
    }
}

/// Shares between two readings; cores that are not in both, or did not tick, are left out.
#[must_use]
pub fn loads(
    before: &BTreeMap<usize, CoreTicks>,
    after: &BTreeMap<usize, CoreTicks>,
) -> Vec<CoreLoad> {
    let load = |(&core, now): (&usize, &CoreTicks)| {
        let then = before.get(&core)?.columns();
        // Idle and steal may go back by a tick on some kernels.
        let mut ticks = now.columns();
        ticks.iter_mut().zip(then).for_each(|(now, then)| *now = now.saturating_sub(then));
        let sum = ticks.iter().fold(0_u64, |sum, &part| sum.saturating_add(part));
        let share = |index: usize| ticks[index] as f64 / sum as f64;
        (sum > 0).then(|| CoreLoad {
            core,
            user: share(0),
            nice: share(1),
            system: share(2),
            irq: share(3),
            softirq: share(4),
            steal: share(5),
            idle: share(6),
        })
    };
    after.iter().filter_map(load).collect()
}

/// A reading of the host's cores; empty where /proc is hidden. Cost: one file.
#[must_use]
pub fn read_cores() -> BTreeMap<usize, CoreTicks> {
    parse_cores(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// Processor time of a thread \[s\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadTime {
    /// In the program.
    pub user_s: f64,
    /// In the kernel.
    pub system_s: f64,
}

impl ThreadTime {
    /// Returns the time used since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &ThreadTime) -> ThreadTime {
        ThreadTime {
            user_s: (self.user_s - earlier.user_s).max(0.0),
            system_s: (self.system_s - earlier.system_s).max(0.0),
        }
    }

    /// Adds the user's and the system's share \[s\].
    #[must_use]
    pub fn sum_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}

/// Reads columns 14 and 15 of a `stat` file of a process or thread. Its second column is a name in
/// brackets, which may contain brackets and blanks.
#[must_use]
pub fn parse_thread(text: &str) -> Option<ThreadTime> {
    let (_, rest) = text.rsplit_once(')')?;
    // What follows the name begins with column 3.
    let mut words = rest.split_ascii_whitespace().skip(14 - 3);
    let mut seconds = || Some(words.next()?.parse::<u64>().ok()? as f64 / TICKS_PER_S);
    Some(ThreadTime { user_s: seconds()?, system_s: seconds()? })
}

/// The calling thread's time so far; zero where /proc is hidden. Cost: one file.
#[must_use]
pub fn read_thread() -> ThreadTime {
    let text = fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    parse_thread(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

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
        let load = loads[0];
        assert_eq!(load.core, 0);
        for ((name, share), ticks) in
            load.parts().into_iter().zip([10.0, 5.0, 40.0, 2.0, 30.0, 8.0, 15.0])
        {
            assert!((share - ticks / 110.0).abs() < 1e-12, "{name}: {share}");
        }
        let sum: f64 = load.parts().iter().map(|(_, share)| share).sum();
        assert!((sum - 1.0).abs() < 1e-12 && (load.busy() - 95.0 / 110.0).abs() < 1e-12);
    }

    #[test]
    fn a_counter_that_goes_back_is_no_time() {
        let [before, after] = ["cpu0 9 0 0 90 0 0 0 5", "cpu0 19 0 0 89 0 0 0 5"].map(parse_cores);
        let loads = loads(&before, &after);
        assert_eq!((loads[0].user, loads[0].idle), (1.0, 0.0));
    }

    #[test]
    fn garbage_and_cut_lines_are_left_out() {
        for text in ["", "cpu", "cpux 1 2 3 4", "cpu0", "cpu0 1 2 3", "cpu0 1 -2 3 4", "\0\u{fffd}"]
        {
            assert!(parse_cores(text).is_empty(), "{text:?}");
        }
        // An old kernel's line, and numbers at the end of the range.
        let old = parse_cores("cpu7 1 2 3 18446744073709551615 1\n");
        assert_eq!(old[&7].idle, u64::MAX);
        let none = parse_cores("cpu7 0 0 0 0");
        assert!(loads(&none, &none).is_empty());
        assert!((loads(&none, &old)[0].idle - 1.0).abs() < 1e-9);
        for text in ["", "1 (a) R", ") ) )", "1 (a) R 1 1 1 1 1 1 1 1 1 1 x y"] {
            assert_eq!(parse_thread(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_thread_is_read_behind_any_name() {
        let text = "42 (a) b (9 9) R 1 2 3 4 5 6 7 8 9 10 250 75 0 0 20 0 1 0 5";
        assert_eq!(parse_thread(text), Some(ThreadTime { user_s: 2.5, system_s: 0.75 }));
    }

    #[test]
    fn a_thread_that_spins_is_seen_on_its_core() {
        let (cores, thread) = (read_cores(), read_thread());
        let start = Instant::now();
        // Until two ticks were counted: a busy machine may need longer than a quiet one.
        while read_thread().since(&thread).sum_s() < 0.02 {
            assert!(start.elapsed() < Duration::from_secs(20), "no tick in 20 s");
        }
        let used = read_thread().since(&thread);
        assert!(used.sum_s() >= 0.02 && used.sum_s() < 20.0, "{used:?}");
        let loads = loads(&cores, &read_cores());
        assert!(loads.iter().any(|load| load.busy() > 0.0), "{loads:?}");
    }
}
