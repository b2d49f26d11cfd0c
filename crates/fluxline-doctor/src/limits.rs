//! Resources that this process may use: by its container (control groups) and by its limits.
//!
//! Source: Linux Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/; getrlimit(2).

use super::check::{Check, Verdict};
use super::files::{Files, cores_of};
use super::load::Load;
use super::rule::{Needs, Rule};
use super::text;

/// Period of a quota where none is written \[us\]. Source: scheduler/sched-bwc.rst.
const PERIOD_US: u64 = 100_000;
/// Descriptors wanted beyond one per socket. Assumed: files of a run, rings, the terminal.
const DESCRIPTORS_SPARE: u64 = 64;
/// Memory that AF_XDP and huge rings lock \[byte\]. Assumed: one ring of 4096 frames of 4 KiB.
const LOCKED_BYTES_WANTED: u64 = 16 << 20;
/// Deepest nesting of groups that is followed.
const GROUPS_MAX: usize = 32;

static CPU: Rule = Rule {
    name: "cpu-quota",
    title: "container's CPU quota",
    why: "When it is used up, the whole container stops until the next period.",
    limit: "none",
    source: "cgroup-v2.rst, cpu.max; scheduler/sched-bwc.rst",
    remedy: "start the container without a quota (docker: no --cpus)",
    needs: Needs::Nothing,
};
static MEMORY: Rule = Rule {
    name: "memory-limit",
    title: "container's memory limit",
    why: "Beyond it the kernel kills a program of the container; sockets' buffers count.",
    limit: "the most memory that the experiment may use",
    source: "cgroup-v2.rst, memory.max",
    remedy: "a larger limit (docker: --memory), or smaller rings and batches",
    needs: Needs::Nothing,
};
static CORES: Rule = Rule {
    name: "cores-allowed",
    title: "cores allowed",
    why: "A thread cannot be pinned to a core that this process may not use.",
    limit: "the cores that the experiment pins to",
    source: "sched_setaffinity(2), cpuset(7)",
    remedy: "other cores in the experiment, or another cpuset",
    needs: Needs::Nothing,
};
static LOCKED: Rule = Rule {
    name: "memlock",
    title: "locked memory allowed",
    why: "AF_XDP links and large rings lock memory, and fail without it.",
    limit: "at least 16777216 bytes, or unlimited",
    source: "getrlimit(2), RLIMIT_MEMLOCK; one AF_XDP ring of 4096 frames",
    remedy: "ulimit -l, limits.conf, LimitMEMLOCK= of systemd",
    needs: Needs::Nothing,
};
static FILES: Rule = Rule {
    name: "open-files",
    title: "open files allowed",
    why: "Each socket and file takes one; without a free one a run does not start.",
    limit: "the experiment's sockets and 64 more",
    source: "getrlimit(2), RLIMIT_NOFILE",
    remedy: "ulimit -n, LimitNOFILE= of systemd",
    needs: Needs::Nothing,
};

pub(super) const RULES: &[&Rule] = &[&CPU, &MEMORY, &CORES, &LOCKED, &FILES];

/// The limits of this process; `None`: no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Time on all cores per period, and the period \[us\].
    pub quota: Option<(u64, u64)>,
    /// Periods in which the quota was used up, since the group was made.
    pub throttled: u64,
    /// Memory \[byte\].
    pub memory_bytes: Option<u64>,
    /// The cores that it may use.
    pub cores: Vec<usize>,
    /// Locked memory \[byte\]; none: unlimited or not shown.
    pub locked_bytes: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
}

impl Limits {
    pub(super) fn read(files: &Files) -> Limits {
        let status = files.text("/proc/self/status").unwrap_or_default();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let limits = files.text("/proc/self/limits").unwrap_or_default();
        let mut facts = Limits {
            cores: cores_of(allowed.unwrap_or_default()),
            locked_bytes: soft_limit(&limits, "Max locked memory"),
            open_files: soft_limit(&limits, "Max open files"),
            ..Limits::default()
        };
        for line in files.text("/proc/self/cgroup").unwrap_or_default().lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(kinds), Some(path)) = (parts.next(), parts.next()) else { continue };
            facts.read_groups(files, kinds, path);
        }
        facts
    }

    /// Reads a group and those above it; the strictest counts. A container that sees only its own
    /// part of the tree has its limits at the top of it.
    fn read_groups(&mut self, files: &Files, kinds: &str, path: &str) {
        let of = |kind: &str| kinds.split(',').any(|word| word == kind);
        let mut path = path.trim_end_matches('/');
        for _ in 0..GROUPS_MAX {
            if kinds.is_empty() {
                self.read_version_2(files, &format!("/sys/fs/cgroup{path}"));
            }
            if of("cpu") {
                self.read_version_1_cpu(files, &format!("/sys/fs/cgroup/cpu{path}"));
            }
            if of("memory") {
                let at = format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes");
                // No limit is written as the largest number of pages.
                self.lower_memory(files.number(&at).filter(|bytes| *bytes < 1 << 60));
            }
            let Some((above, _)) = path.rsplit_once('/') else { break };
            path = above;
        }
    }

    fn read_version_2(&mut self, files: &Files, group: &str) {
        let max = files.text(&format!("{group}/cpu.max")).unwrap_or_default();
        let mut words = max.split_ascii_whitespace().map(str::parse);
        if let (Some(Ok(quota)), period) = (words.next(), words.next()) {
            self.lower_quota(quota, period.and_then(Result::ok).unwrap_or(PERIOD_US));
        }
        self.lower_memory(files.number(&format!("{group}/memory.max")));
        self.read_throttled(files, group);
    }

    fn read_version_1_cpu(&mut self, files: &Files, group: &str) {
        // -1 means "no quota"; `number` returns `None` for it.
        if let Some(quota) = files.number(&format!("{group}/cpu.cfs_quota_us")) {
            let period = files.number(&format!("{group}/cpu.cfs_period_us"));
            self.lower_quota(quota, period.unwrap_or(PERIOD_US));
        }
        self.read_throttled(files, group);
    }

    fn read_throttled(&mut self, files: &Files, group: &str) {
        let stat = files.text(&format!("{group}/cpu.stat")).unwrap_or_default();
        let times = stat.lines().find_map(|line| line.strip_prefix("nr_throttled "));
        let times = times.and_then(|word| word.trim().parse().ok()).unwrap_or(0);
        self.throttled = self.throttled.max(times);
    }

    fn lower_quota(&mut self, quota: u64, period: u64) {
        let share = |(quota, period): (u64, u64)| quota as f64 / period.max(1) as f64;
        if self.quota.is_none_or(|known| share((quota, period)) < share(known)) {
            self.quota = Some((quota, period));
        }
    }

    fn lower_memory(&mut self, bytes: Option<u64>) {
        self.memory_bytes = match (self.memory_bytes, bytes) {
            (Some(known), Some(new)) => Some(known.min(new)),
            (known, new) => known.or(new),
        };
    }

    pub(super) fn judge(&self, load: Option<&Load>, checks: &mut Vec<Check>) {
        checks.push(self.judge_quota(load));
        checks.push(self.judge_memory(load));
        checks.extend(self.judge_cores(load));
        checks.extend(self.judge_locked(load));
        checks.extend(self.judge_files(load));
    }

    fn judge_quota(&self, load: Option<&Load>) -> Check {
        let Some((quota, period)) = self.quota else { return Check::new(&CPU, "none") };
        let share = quota as f64 / period.max(1) as f64;
        let found = format!(
            "{share:.2} cores in periods of {}; used up {} times",
            text::seconds(period as f64 * 1e-6),
            self.throttled
        );
        // All allowed cores at work use the quota up soonest; the rest of the period they stand.
        let cores = self.cores.len().max(1) as f64;
        let stands = (period as f64 * (1.0 - share / cores)).max(0.0) * 1e-6;
        let effect = load.filter(|_| stands > 0.0).map(|load| {
            format!(
                "It may stand still for {}; {} meanwhile.",
                text::seconds(stands),
                load.while_away(stands)
            )
        });
        let verdict = match (stands > 0.0, self.throttled) {
            (false, _) => Verdict::Good,
            (true, 0) => Verdict::Warn,
            (true, _) => Verdict::Bad,
        };
        Check::new(&CPU, found).verdict(verdict).effect(effect).advise(
            "start the container without a CPU quota (docker: no --cpus; use --cpuset-cpus)",
        )
    }

    fn judge_memory(&self, load: Option<&Load>) -> Check {
        let Some(limit) = self.memory_bytes else { return Check::new(&MEMORY, "none") };
        let needed = load.map_or(0, |load| load.memory_bytes);
        let effect = load.map(|_| format!("It may come to use {}.", text::bytes(needed as f64)));
        Check::new(&MEMORY, text::bytes(limit as f64))
            .verdict(if needed > limit { Verdict::Bad } else { Verdict::Good })
            .effect(effect)
            .advise("a larger limit (docker: --memory), or smaller rings and batches")
    }

    fn judge_cores(&self, load: Option<&Load>) -> Option<Check> {
        if self.cores.is_empty() {
            return None;
        }
        let pinned: &[usize] = load.map_or(&[], |load| &load.cores);
        let denied: Vec<String> = pinned
            .iter()
            .filter(|core| !self.cores.contains(core))
            .map(ToString::to_string)
            .collect();
        let effect = (!denied.is_empty())
            .then(|| format!("Its thread on core {} cannot be pinned.", denied.join(",")));
        let list: Vec<String> = self.cores.iter().map(ToString::to_string).collect();
        let found = match list.as_slice() {
            [first, .., last] if list.len() > 8 => format!("{} of {first} to {last}", list.len()),
            list => list.join(","),
        };
        let verdict = if denied.is_empty() { Verdict::Good } else { Verdict::Bad };
        Some(
            Check::new(&CORES, found)
                .verdict(verdict)
                .effect(effect)
                .advise("choose other cores in the experiment, or change the cpuset"),
        )
    }

    /// No source of an experiment locks memory; programs of the library may.
    fn judge_locked(&self, load: Option<&Load>) -> Option<Check> {
        let bytes = self.locked_bytes.filter(|_| load.is_none())?;
        Some(
            Check::new(&LOCKED, text::bytes(bytes as f64))
                .warn_if(bytes < LOCKED_BYTES_WANTED)
                .advise("ulimit -l unlimited"),
        )
    }

    fn judge_files(&self, load: Option<&Load>) -> Option<Check> {
        let files = self.open_files?;
        let sockets: u64 =
            load.into_iter().flat_map(Load::socket_streams).map(|stream| stream.sockets).sum();
        let needed = sockets.saturating_add(DESCRIPTORS_SPARE);
        Some(
            Check::new(&FILES, files.to_string())
                .verdict(if files < needed { Verdict::Bad } else { Verdict::Good })
                .effect(load.map(|_| format!("It opens {sockets} sockets.")))
                .advise(format!("ulimit -n {needed}")),
        )
    }
}

/// The soft limit of a line of /proc/self/limits; none where it is unlimited or not there.
fn soft_limit(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}
