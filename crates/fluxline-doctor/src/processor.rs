//! Cores: how fast they are when a burst begins, how deep they sleep, who else runs on them.

use std::collections::BTreeMap;

use super::check::Check;
use super::files::{Files, cores_of};
use super::load::Load;
use super::rule::{Needs, Rule};
use super::setting::Action;

/// Longest wake-up of a core \[us\]. Assumed: beyond it a sleeping core is the largest part of the
/// latency of a packet; C1 and C1E of x86 are below, C6 is at or above.
const WAKE_UP_US_MAX: u64 = 50;
/// Share of time that the hypervisor may take away \[percent\]. Assumed.
const STEAL_PERCENT_MAX: f64 = 1.0;
/// Clocks that are read without a system call. Source: arch/x86 vdso, arm64 arch_sys_counter.
const FAST_CLOCKS: [&str; 5] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "timebase"];
/// Reading a slow clock \[s\]. Assumed: HPET and ACPI timers take about a microsecond.
const SLOW_CLOCK_SECONDS: f64 = 1e-6;

static GOVERNOR: Rule = Rule {
    name: "governor",
    title: "CPU governor",
    why: "A core that must speed up first is late for the start of a burst.",
    limit: "performance on all cores",
    source: "Linux Documentation/admin-guide/pm/cpufreq.rst; ESnet fasterdata",
    remedy: "scaling_governor",
    needs: Needs::Nothing,
};
static IDLE: Rule = Rule {
    name: "idle-states",
    title: "idle states",
    why: "A core in deep sleep takes the first packet only after this time.",
    limit: "none enabled that takes more than 50 us to leave",
    source: "Linux Documentation/admin-guide/pm/cpuidle.rst; the limit is assumed",
    remedy: "cpuidle/state…/disable (costs power)",
    needs: Needs::Nothing,
};
static CLOCK: Rule = Rule {
    name: "clocksource",
    title: "clock source",
    why: "The kernel stamps packets with the time; a slow clock costs a microsecond each.",
    limit: "tsc, or the hypervisor's or ARM's that need no system call",
    source: "Linux Documentation/timers/timekeeping.rst",
    remedy: "current_clocksource",
    needs: Needs::Nothing,
};
static SIBLINGS: Rule = Rule {
    name: "smt",
    title: "SMT siblings",
    why: "Two threads share a core: a pinned reader gets half of it when its sibling works.",
    limit: "pinned threads on different physical cores",
    source: "Linux Documentation/ABI/stable/sysfs-devices-system-cpu, thread_siblings_list",
    remedy: "other core numbers in the experiment",
    needs: Needs::Nothing,
};
static ISOLATION: Rule = Rule {
    name: "isolated-cores",
    title: "isolated cores",
    why: "On other cores the scheduler runs other programs beside a pinned reader.",
    limit: "the pinned cores, where latency counts",
    source: "Linux Documentation/admin-guide/kernel-parameters.txt, isolcpus",
    remedy: "kernel parameter isolcpus= (needs a restart)",
    needs: Needs::Nothing,
};
static STEAL: Rule = Rule {
    name: "steal",
    title: "time stolen by the hypervisor",
    why: "While another guest has the core, this host takes no packets.",
    limit: "at most 1 % since boot",
    source: "proc_stat(5), steal; the limit is assumed",
    remedy: "dedicated cores for this guest (at the hypervisor)",
    needs: Needs::Nothing,
};

pub(super) const RULES: &[&Rule] = &[&GOVERNOR, &IDLE, &CLOCK, &SIBLINGS, &ISOLATION, &STEAL];

/// One state of sleep of one core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleState {
    /// Its folder: `/sys/devices/system/cpu/cpu0/cpuidle/state3`.
    pub path: String,
    /// The driver's name of the state.
    pub name: String,
    /// The time that leaving it takes \[us\].
    pub latency_us: u64,
    /// Somebody switched it off.
    pub disabled: bool,
}

/// Cores, their clocks and their sleep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// The number of cores per frequency governor.
    pub governors: BTreeMap<String, usize>,
    /// Files of the governors that are not `performance`.
    pub slow_governors: Vec<String>,
    /// The states of sleep of all cores.
    pub idle: Vec<IdleState>,
    /// The clock in use, and those that could be.
    pub clock: Option<(String, Vec<String>)>,
    /// Siblings of each core that has any, itself among them.
    pub siblings: BTreeMap<usize, Vec<usize>>,
    /// Cores that the scheduler leaves alone.
    pub isolated: Vec<usize>,
    /// Time of all cores since boot, and what the hypervisor took of it \[tick\].
    pub ticks: Option<(u64, u64)>,
}

const CPU: &str = "/sys/devices/system/cpu";

impl Processor {
    pub(super) fn read(files: &Files) -> Processor {
        let mut facts = Processor {
            isolated: cores_of(&files.text(&format!("{CPU}/isolated")).unwrap_or_default()),
            clock: read_clock(files),
            ticks: read_ticks(&files.text("/proc/stat").unwrap_or_default()),
            ..Processor::default()
        };
        let is_core = |name: &String| {
            name.strip_prefix("cpu").is_some_and(|rest| rest.parse::<usize>().is_ok())
        };
        for core in files.names(CPU).into_iter().filter(is_core) {
            facts.read_core(files, &core);
        }
        facts
    }

    fn read_core(&mut self, files: &Files, core: &str) {
        let governor = format!("{CPU}/{core}/cpufreq/scaling_governor");
        if let Some(word) = files.text(&governor) {
            if word != "performance" {
                self.slow_governors.push(governor);
            }
            *self.governors.entry(word).or_default() += 1;
        }
        let idle = format!("{CPU}/{core}/cpuidle");
        for state in files.names(&idle).into_iter().filter(|name| name.starts_with("state")) {
            let path = format!("{idle}/{state}");
            let Some(latency_us) = files.number(&format!("{path}/latency")) else { continue };
            let name = files.text(&format!("{path}/name")).unwrap_or_default();
            let disabled = files.number(&format!("{path}/disable")) == Some(1);
            self.idle.push(IdleState { path, name, latency_us, disabled });
        }
        let siblings = files.text(&format!("{CPU}/{core}/topology/thread_siblings_list"));
        let siblings = cores_of(&siblings.unwrap_or_default());
        if let Some(number) = core[3..].parse().ok().filter(|_| siblings.len() > 1) {
            self.siblings.insert(number, siblings);
        }
    }

    pub(super) fn judge(&self, load: Option<&Load>, checks: &mut Vec<Check>) {
        checks.push(self.judge_governor());
        checks.extend(self.judge_idle(load));
        checks.extend(self.judge_clock(load));
        checks.extend(self.judge_siblings(load));
        checks.extend(self.judge_isolation(load));
        checks.extend(self.judge_steal());
    }

    fn judge_governor(&self) -> Check {
        let list: Vec<String> =
            self.governors.iter().map(|(name, cores)| format!("{name} on {cores} cores")).collect();
        let found = match list.as_slice() {
            [] => "none shown: a virtual machine, or a fixed clock".into(),
            list => list.join(", "),
        };
        let set = |path: &String| Action::file(path.clone(), "performance");
        let slow = !self.slow_governors.is_empty();
        let actions = self.slow_governors.iter().map(set).collect();
        Check::new(&GOVERNOR, found).warn_if(slow).mend(actions)
    }

    fn judge_idle(&self, load: Option<&Load>) -> Option<Check> {
        let enabled = || self.idle.iter().filter(|state| !state.disabled);
        let deepest = enabled().max_by_key(|state| state.latency_us)?;
        let effect = load.map(|load| {
            let seconds = deepest.latency_us as f64 * 1e-6;
            format!("{} while a core wakes up.", load.while_away(seconds))
        });
        let deep = enabled().filter(|state| state.latency_us > WAKE_UP_US_MAX);
        let actions: Vec<Action> =
            deep.map(|state| Action::file(format!("{}/disable", state.path), 1)).collect();
        let found = format!("down to {}, {} us to leave", deepest.name, deepest.latency_us);
        Some(Check::new(&IDLE, found).warn_if(!actions.is_empty()).effect(effect).mend(actions))
    }

    fn judge_clock(&self, load: Option<&Load>) -> Option<Check> {
        let (now, available) = self.clock.as_ref()?;
        let fast = FAST_CLOCKS.contains(&now.as_str());
        let better = available.iter().find(|name| FAST_CLOCKS.contains(&name.as_str()));
        let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let effect = load.filter(|_| !fast).map(|load| {
            let share = load.packets_per_second() * SLOW_CLOCK_SECONDS * 100.0;
            format!("One time stamp per packet costs about {share:.0} % of a core.")
        });
        Some(
            Check::new(&CLOCK, now.clone())
                .warn_if(!fast)
                .effect(effect)
                .mend(better.map(|name| Action::file(path, name)).into_iter().collect())
                .advise("dmesg | grep -i tsc  # why the kernel does not trust it"),
        )
    }

    fn judge_siblings(&self, load: Option<&Load>) -> Option<Check> {
        if self.siblings.is_empty() {
            return None;
        }
        let pinned: &[usize] = load.map_or(&[], |load| &load.cores);
        let both = pinned.iter().find_map(|core| {
            let siblings = self.siblings.get(core)?;
            let other = siblings.iter().find(|other| *other != core && pinned.contains(other))?;
            Some((*core, *other))
        });
        let effect = both.map(|(one, other)| {
            format!("Its threads on core {one} and core {other} share one physical core.")
        });
        Some(
            Check::new(&SIBLINGS, format!("{} cores have one", self.siblings.len()))
                .warn_if(both.is_some())
                .effect(effect)
                .advise("lscpu -e=CPU,CORE  # then choose cores of different CORE numbers"),
        )
    }

    fn judge_isolation(&self, load: Option<&Load>) -> Option<Check> {
        let pinned: &[usize] = load.map_or(&[], |load| &load.cores);
        let list = |cores: &[usize]| cores.iter().map(ToString::to_string).collect::<Vec<_>>();
        let shared: Vec<usize> =
            pinned.iter().copied().filter(|core| !self.isolated.contains(core)).collect();
        let effect = (!shared.is_empty()).then(|| {
            format!("Other programs may run on its pinned core {}.", list(&shared).join(","))
        });
        let found = match self.isolated.as_slice() {
            [] => "none".to_owned(),
            cores => list(cores).join(","),
        };
        let advice = format!("kernel parameter isolcpus={}, then restart", list(pinned).join(","));
        Some(
            Check::new(&ISOLATION, found).warn_if(!shared.is_empty()).effect(effect).advise(advice),
        )
    }

    fn judge_steal(&self) -> Option<Check> {
        let (all, stolen) = self.ticks.filter(|(all, _)| *all > 0)?;
        let percent = stolen as f64 * 100.0 / all as f64;
        Some(
            Check::new(&STEAL, format!("{percent:.1} %"))
                .warn_if(percent > STEAL_PERCENT_MAX)
                .advise("give this guest cores of its own (at the hypervisor)"),
        )
    }
}

fn read_clock(files: &Files) -> Option<(String, Vec<String>)> {
    let at =
        |file: &str| files.text(&format!("/sys/devices/system/clocksource/clocksource0/{file}"));
    let available = at("available_clocksource").unwrap_or_default();
    Some((
        at("current_clocksource")?,
        available.split_ascii_whitespace().map(ToOwned::to_owned).collect(),
    ))
}

/// All time and stolen time of /proc/stat's first line: user nice system idle iowait irq softirq
/// steal, then guest times, which are in user's. Source: proc_stat(5).
fn read_ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> =
        line.split_ascii_whitespace().take(8).filter_map(|word| word.parse().ok()).collect();
    let stolen = *ticks.get(7)?;
    Some((sum(&ticks), stolen))
}

fn sum(ticks: &[u64]) -> u64 {
    ticks.iter().fold(0, |sum: u64, tick| sum.saturating_add(*tick))
}
