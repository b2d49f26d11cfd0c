//! Other programs that took processor time while a benchmark ran.
//!
//! Two processes that spin on two cores lose a core to any third program, and their numbers then
//! describe the scheduler. So the report names these programs and the time that they took. The
//! processes of the host are read before and after each experiment, never during one: a snapshot
//! takes some milliseconds.
//! Source: proc_pid_stat(5); Linux Documentation/scheduler/sched-stats.rst.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// The kernel's clock ticks per second. Source: USER_HZ, 100 on every architecture that Linux
/// still supports.
const TICKS_PER_SECOND: f64 = 100.0;
/// The parent of all kernel threads.
const KTHREADD: u32 = 2;
/// This many programs are named.
const PROGRAMS_MAX: usize = 4;
/// A program that took less is not named \[share of a core\].
const NAMED_LEAST: f64 = 0.01;
/// From here on a machine is busy: others took this share of a core. Chosen: a twentieth of a
/// core is more than the daemons of an idle host take.
const BUSY_LEAST: f64 = 0.05;
/// The same for the time that the measuring thread waited for its core \[share of the time\].
const WAITED_LEAST: f64 = 0.01;

/// The processor time of other programs during a benchmark.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Busy {
    /// The time of the benchmark \[s\].
    pub seconds: f64,
    /// Processor time of other programs \[cores\].
    pub others: f64,
    /// The largest of them.
    pub programs: Vec<Program>,
    /// The share of the time that the measuring thread waited for its core.
    pub waited: f64,
}

/// A program and its processor time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The name of its process.
    pub process: String,
    /// Its processor time, with that of the processes it started \[cores\].
    pub cores: f64,
}

impl Busy {
    /// Returns true if the numbers of the benchmark are in doubt.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.others >= BUSY_LEAST || self.waited >= WAITED_LEAST
    }

    /// Says in one sentence what took the cores. `None`: the machine was idle.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        if !self.is_busy() {
            return None;
        }
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let named: Vec<String> = self
            .programs
            .iter()
            .map(|program| format!("{} {}", program.process, percent(program.cores)))
            .collect();
        let named =
            if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
        let waited = if self.waited >= WAITED_LEAST {
            format!(
                ", and the measuring thread waited for its core {} of the time",
                percent(self.waited)
            )
        } else {
            String::new()
        };
        Some(format!(
            "This machine was busy: other programs took {} of a core{named}{waited}.",
            percent(self.others)
        ))
    }
}

/// Watches the processor time of other programs.
pub struct Watch {
    began: Instant,
    waited_ns: u64,
    seen: BTreeMap<u32, Process>,
    /// Processor time by name \[ticks\].
    taken: BTreeMap<String, u64>,
}

impl Watch {
    /// Starts now, in the thread that measures.
    #[must_use]
    pub fn start() -> Watch {
        Watch {
            began: Instant::now(),
            waited_ns: waited_ns(),
            seen: processes(),
            taken: BTreeMap::new(),
        }
    }

    /// Adds the time of the others since the last look. Cost: some milliseconds.
    pub fn look(&mut self) {
        let now = processes();
        for (name, ticks) in taken(&self.seen, &now) {
            *self.taken.entry(name).or_default() += ticks;
        }
        self.seen = now;
    }

    /// Looks once more, and sums up.
    #[must_use]
    pub fn finish(mut self) -> Busy {
        self.look();
        let seconds = self.began.elapsed().as_secs_f64().max(1e-9);
        let cores = |ticks: u64| ticks as f64 / TICKS_PER_SECOND / seconds;
        let mut programs: Vec<Program> = self
            .taken
            .iter()
            .map(|(process, ticks)| Program { process: process.clone(), cores: cores(*ticks) })
            .collect();
        programs.sort_by(|one, other| other.cores.total_cmp(&one.cores));
        programs.truncate(PROGRAMS_MAX);
        programs.retain(|program| program.cores >= NAMED_LEAST);
        let waited = waited_ns().saturating_sub(self.waited_ns) as f64 / 1e9 / seconds;
        Busy { seconds, others: cores(self.taken.values().sum()), programs, waited }
    }
}

/// The name and the processor time \[ticks\] of another program's process.
type Process = (String, u64);

/// Computes the time of each program between two snapshots \[ticks\]. Of a process that ended
/// between them, the time since the first one is not known.
fn taken(before: &BTreeMap<u32, Process>, after: &BTreeMap<u32, Process>) -> BTreeMap<String, u64> {
    let mut taken = BTreeMap::new();
    for (number, (name, ticks)) in after {
        let known = before.get(number).map_or(0, |(_, ticks)| *ticks);
        if *ticks > known {
            *taken.entry(name.clone()).or_default() += ticks - known;
        }
    }
    taken
}

/// Reads all processes of the host but those of this program and kernel threads, whose time is
/// mostly our own packets.
fn processes() -> BTreeMap<u32, Process> {
    let executable = |number: u32| fs::read_link(format!("/proc/{number}/exe")).ok();
    let own = executable(std::process::id());
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let others = numbers.filter(|number| own.is_none() || executable(*number) != own);
    let of = |number: u32| {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        Some((number, process(&stat)?))
    };
    others.filter(|number| *number != KTHREADD).filter_map(of).collect()
}

/// Reads a line of /proc/PID/stat; `None`: garbage, or a kernel thread.
fn process(stat: &str) -> Option<Process> {
    let (head, rest) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let parent: u32 = words.get(1)?.parse().ok()?;
    // utime, stime: fields 14 and 15, the third being the first word here.
    let ticks = words.get(11..13)?.iter().filter_map(|word| word.parse::<u64>().ok()).sum();
    (parent != KTHREADD).then(|| (name.to_owned(), ticks))
}

/// Reads the time that this thread has waited for its core \[ns\]; 0: not known.
fn waited_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_is_that_since_the_last_look_and_a_new_process_counts_whole() {
        let of = |name: &str, ticks: u64| (name.to_owned(), ticks);
        let before = [(10, of("cargo", 5)), (11, of("rustc", 300))].into();
        let after = [(10, of("cargo", 25)), (12, of("make", 70))].into();
        assert_eq!(taken(&before, &after), [("cargo".to_owned(), 20), ("make".into(), 70)].into());
    }

    #[test]
    fn a_name_with_blanks_and_brackets_is_read_whole() {
        let stat = "42 (a (b) c) R 7 42 42 0 -1 0 0 0 0 0 11 12 13 14 20 0 1 0 5 6 7";
        assert_eq!(process(stat), Some(("a (b) c".to_owned(), 23)));
        assert_eq!(process("42 (a"), None);
    }

    #[test]
    fn a_program_that_spins_beside_the_benchmark_is_named() {
        // Its parent ends at once, so it is not a child of this process; it ends after a minute.
        let script =
            "sh -c 'i=0; while [ $i -lt 20000000 ]; do i=$((i+1)); done' >/dev/null 2>&1 & echo $!";
        let started = Command::new("sh").args(["-c", script]).output().expect("sh starts");
        let number = String::from_utf8_lossy(&started.stdout).trim().to_owned();
        let mut watch = Watch::start();
        let began = Instant::now();
        while watch.taken.is_empty() && began.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(100));
            watch.look();
        }
        let busy = watch.finish();
        let killed = Command::new("kill").args(["-KILL", &number]).status();
        assert!(killed.is_ok_and(|status| status.success()), "{number}");
        assert!(busy.others > 0.0 && busy.others < 1000.0, "{busy:?}");
    }

    #[test]
    fn a_busy_machine_is_said_with_what_took_the_core_and_an_idle_one_is_not() {
        let busy = Busy {
            seconds: 1.0,
            others: 1.43,
            programs: vec![Program { process: "rustc".into(), cores: 1.2 }],
            waited: 0.31,
        };
        let sentence = busy.sentence().expect("busy");
        assert!(sentence.contains("143 % of a core (rustc 120 %)"), "{sentence}");
        assert!(sentence.contains("31 % of the time"), "{sentence}");
        assert_eq!(Busy { others: 0.01, ..Busy::default() }.sentence(), None);
    }
}
