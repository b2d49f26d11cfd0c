//! What in this host will lose packets, and the command that mends it.
//!
//! Kernel defaults are made for web servers, not for boards that push at line rate and never
//! repeat. Each check compares one setting with what a DAQ wants. Reading (`HostFacts::read`) and
//! judging (`HostFacts::judge`) are apart, so that judging is tested on the facts of any host.
//! Source of the limits: Linux Documentation/networking/scaling.rst, ESnet fasterdata host tuning.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::kernel::KernelSnapshot;
use crate::sys::host;

/// Receive buffer wanted \[byte\]: 64 MiB hold half a second of 1 Gb/s, 50 ms of 10 Gb/s.
const RMEM_MAX_WANTED: u64 = 64 << 20;
/// Below this a burst of some milliseconds at 10 Gb/s is lost \[byte\].
const RMEM_MAX_LEAST: u64 = 8 << 20;
/// What Linux ships with \[byte\]; less was set by somebody.
const RMEM_DEFAULT_WANTED: u64 = 212_992;
/// Packets that a core may queue before it drops; Linux ships with 1000.
const BACKLOG_WANTED: u64 = 10_000;
/// MTU of jumbo frames \[byte\].
const MTU_JUMBO: u64 = 9_000;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As wanted, or nothing can be wanted.
    Good,
    /// May lose packets under load.
    Warn,
    /// Will lose packets, or has.
    Bad,
}

/// One thing looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    /// What was found, with unit.
    pub found: String,
    /// What is wanted, with unit.
    pub wanted: String,
    /// How it came out.
    pub verdict: Verdict,
    /// Why it matters, one sentence.
    pub why: &'static str,
    /// The command that mends it; none where it is good or no command helps.
    pub remedy: Option<String>,
}

/// One network interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its MTU \[byte\].
    pub mtu: u64,
    /// Its operational state is `up`.
    pub up: bool,
    /// Receive descriptors in use and possible; none where the driver does not say.
    pub ring: Option<RingSize>,
}

/// Receive descriptors of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSize {
    /// In use.
    pub now: u32,
    /// Possible.
    pub max: u32,
}

/// What was read of a host, before judgement. Absent: the host does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Values of /proc/sys/net/core by name.
    pub sysctl: BTreeMap<String, u64>,
    /// How many cores have which CPU frequency governor.
    pub governors: BTreeMap<String, usize>,
    /// The interfaces but loopback, by name.
    pub interfaces: BTreeMap<String, Interface>,
    /// Drops since boot.
    pub kernel: KernelSnapshot,
}

/// Reads this host and judges it. Cost: some dozens of small files.
#[must_use]
pub fn checks() -> Vec<Check> {
    HostFacts::read().judge()
}

impl HostFacts {
    /// Reads this host.
    #[must_use]
    pub fn read() -> HostFacts {
        let mut facts = HostFacts::read_files(Path::new("/"));
        for (name, interface) in &mut facts.interfaces {
            interface.ring = host::receive_ring(name).map(|(now, max)| RingSize { now, max });
        }
        facts.kernel = KernelSnapshot::take();
        facts
    }

    fn read_files(root: &Path) -> HostFacts {
        let mut facts = HostFacts::default();
        for name in ["rmem_max", "rmem_default", "netdev_max_backlog"] {
            if let Some(value) = number(&root.join("proc/sys/net/core").join(name)) {
                facts.sysctl.insert(name.to_owned(), value);
            }
        }
        for core in entries(&root.join("sys/devices/system/cpu")) {
            let path = root.join("sys/devices/system/cpu").join(core);
            if let Ok(governor) = fs::read_to_string(path.join("cpufreq/scaling_governor")) {
                *facts.governors.entry(governor.trim().to_owned()).or_default() += 1;
            }
        }
        for name in entries(&root.join("sys/class/net")).filter(|name| name != "lo") {
            let path = root.join("sys/class/net").join(&name);
            let state = fs::read_to_string(path.join("operstate")).unwrap_or_default();
            let mtu = number(&path.join("mtu")).unwrap_or(0);
            let interface = Interface { mtu, up: state.trim() == "up", ring: None };
            facts.interfaces.insert(name, interface);
        }
        facts
    }

    /// Judges the facts, worst first.
    #[must_use]
    pub fn judge(&self) -> Vec<Check> {
        let mut checks = self.judge_settings();
        checks.push(self.judge_governor());
        for (name, interface) in self.interfaces.iter().filter(|(_, interface)| interface.up) {
            checks.push(judge_mtu(name, interface.mtu));
            checks.extend(interface.ring.map(|ring| judge_ring(name, ring)));
        }
        checks.extend(self.judge_drops());
        checks.sort_by_key(|check| std::cmp::Reverse(check.verdict));
        checks
    }

    fn judge_settings(&self) -> Vec<Check> {
        let settings = [
            Setting {
                name: "rmem_max",
                unit: "byte",
                wanted: RMEM_MAX_WANTED,
                bad_below: RMEM_MAX_LEAST,
                why: "The largest receive buffer of a program; a burst beyond it is lost.",
            },
            Setting {
                name: "rmem_default",
                unit: "byte",
                wanted: RMEM_DEFAULT_WANTED,
                bad_below: 0,
                why: "The buffer of programs that do not ask; fluxline asks for its own.",
            },
            Setting {
                name: "netdev_max_backlog",
                unit: "packet",
                wanted: BACKLOG_WANTED,
                bad_below: 0,
                why: "A core's queue before UDP (loopback, veth, RPS); what does not fit is lost.",
            },
        ];
        settings.iter().map(|setting| self.judge_setting(setting)).collect()
    }

    fn judge_setting(&self, setting: &Setting) -> Check {
        let &Setting { name, unit, wanted, bad_below, why } = setting;
        let found = self.sysctl.get(name).copied();
        let verdict = match found {
            Some(value) if value >= wanted => Verdict::Good,
            Some(value) if value < bad_below => Verdict::Bad,
            _ => Verdict::Warn,
        };
        let remedy = format!("sudo sysctl -w net.core.{name}={wanted}");
        Check {
            name: format!("net.core.{name}"),
            found: found.map_or("not shown by this host".into(), |value| format!("{value} {unit}")),
            wanted: format!("at least {wanted} {unit}"),
            verdict,
            why,
            remedy: (verdict != Verdict::Good && found.is_some()).then_some(remedy),
        }
    }

    fn judge_governor(&self) -> Check {
        let slow = self.governors.keys().any(|governor| governor != "performance");
        let list: Vec<String> =
            self.governors.iter().map(|(name, cores)| format!("{name} on {cores} cores")).collect();
        Check {
            name: "CPU governor".into(),
            found: match list.as_slice() {
                [] => "none shown: a virtual machine, or a fixed clock".into(),
                list => list.join(", "),
            },
            wanted: "performance on all cores".into(),
            verdict: if slow { Verdict::Warn } else { Verdict::Good },
            why: "A core that first has to speed up is late for the beginning of a burst.",
            remedy: slow.then(|| "sudo cpupower frequency-set -g performance".into()),
        }
    }

    fn judge_drops(&self) -> Vec<Check> {
        let drops = &self.kernel.drops;
        let mut checks = vec![
            since_boot(
                "softnet drops",
                drops.softnet_dropped,
                "Packets that a core's backlog had no room for; no socket counter shows them.",
                format!("sudo sysctl -w net.core.netdev_max_backlog={}", 25 * BACKLOG_WANTED),
            ),
            since_boot(
                "UDP receive buffer errors",
                drops.udp_buffer_full,
                "Datagrams that some program's socket buffer had no room for.",
                format!("sudo sysctl -w net.core.rmem_max={RMEM_MAX_WANTED}"),
            ),
        ];
        for (name, &dropped) in &self.kernel.interfaces {
            if dropped > 0 {
                let remedy = format!("ethtool -S {name} | grep -iE 'drop|miss|err'");
                let why = "Packets that the card or its driver dropped before the kernel saw them.";
                checks.push(since_boot(&format!("drops of {name}"), dropped, why, remedy));
            }
        }
        checks
    }
}

/// What is wanted of one value of /proc/sys/net/core.
struct Setting {
    name: &'static str,
    unit: &'static str,
    wanted: u64,
    bad_below: u64,
    why: &'static str,
}

fn judge_mtu(name: &str, mtu: u64) -> Check {
    let jumbo = mtu >= MTU_JUMBO;
    Check {
        name: format!("MTU of {name}"),
        found: format!("{mtu} byte"),
        wanted: format!("{MTU_JUMBO} byte where boards send jumbo frames, else 1500"),
        verdict: if jumbo || mtu == 1_500 { Verdict::Good } else { Verdict::Warn },
        why: "A frame longer than the MTU is dropped by the card; small frames cost more CPU.",
        remedy: (!jumbo).then(|| format!("sudo ip link set {name} mtu {MTU_JUMBO}")),
    }
}

fn judge_ring(name: &str, ring: RingSize) -> Check {
    let small = ring.now < ring.max;
    Check {
        name: format!("receive ring of {name}"),
        found: format!("{} descriptors", ring.now),
        wanted: format!("{} descriptors, the card's maximum", ring.max),
        verdict: if small { Verdict::Warn } else { Verdict::Good },
        why: "While the core is busy elsewhere, packets wait in the card's ring or are missed.",
        remedy: small.then(|| format!("sudo ethtool -G {name} rx {}", ring.max)),
    }
}

fn since_boot(name: &str, dropped: u64, why: &'static str, remedy: String) -> Check {
    Check {
        name: format!("{name} since boot"),
        found: dropped.to_string(),
        wanted: "0".into(),
        // Of the past, and perhaps of another program: a hint, not a judgement.
        verdict: if dropped > 0 { Verdict::Warn } else { Verdict::Good },
        why,
        remedy: (dropped > 0).then_some(remedy),
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Names in a folder; none where it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find<'a>(checks: &'a [Check], name: &str) -> &'a Check {
        checks.iter().find(|check| check.name == name).unwrap()
    }

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_host_as_shipped_is_told_each_command() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "proc/sys/net/core/rmem_max", "212992\n");
        write(root.path(), "proc/sys/net/core/rmem_default", "212992\n");
        write(root.path(), "proc/sys/net/core/netdev_max_backlog", "1000\n");
        write(root.path(), "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
        write(root.path(), "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n");
        write(root.path(), "sys/class/net/eth0/mtu", "1400\n");
        write(root.path(), "sys/class/net/eth0/operstate", "up\n");
        write(root.path(), "sys/class/net/eth1/operstate", "down\n");
        write(root.path(), "sys/class/net/lo/mtu", "65536\n");
        let mut facts = HostFacts::read_files(root.path());
        facts.interfaces.get_mut("eth0").unwrap().ring = Some(RingSize { now: 256, max: 4096 });
        facts.kernel.drops.softnet_dropped = 3;
        facts.kernel.interfaces.insert("eth0".into(), 12);
        let checks = facts.judge();
        assert!(checks.is_sorted_by(|a, b| a.verdict >= b.verdict));
        let remedy = |name: &str| find(&checks, name).remedy.clone().unwrap();
        assert_eq!(find(&checks, "net.core.rmem_max").verdict, Verdict::Bad);
        assert_eq!(remedy("net.core.rmem_max"), "sudo sysctl -w net.core.rmem_max=67108864");
        assert_eq!(find(&checks, "net.core.rmem_default").verdict, Verdict::Good);
        assert!(remedy("net.core.netdev_max_backlog").ends_with("netdev_max_backlog=10000"));
        assert_eq!(
            find(&checks, "CPU governor").found,
            "performance on 1 cores, powersave on 1 cores"
        );
        assert!(remedy("CPU governor").contains("cpupower"));
        assert_eq!(remedy("MTU of eth0"), "sudo ip link set eth0 mtu 9000");
        assert_eq!(remedy("receive ring of eth0"), "sudo ethtool -G eth0 rx 4096");
        assert_eq!(find(&checks, "softnet drops since boot").verdict, Verdict::Warn);
        assert!(remedy("drops of eth0 since boot").contains("ethtool -S eth0"));
        assert!(
            !checks.iter().any(|check| check.name.contains("eth1") || check.name == "MTU of lo")
        );
    }

    #[test]
    fn a_host_that_hides_everything_is_not_accused() {
        let root = tempfile::tempdir().unwrap();
        for check in HostFacts::read_files(root.path()).judge() {
            assert_eq!(check.remedy, None, "{check:?}");
            assert_ne!(check.verdict, Verdict::Bad, "{check:?}");
        }
    }

    #[test]
    fn a_host_made_ready_is_all_good() {
        let sysctl =
            [("rmem_max", 1 << 30), ("rmem_default", 1 << 20), ("netdev_max_backlog", 250_000)];
        let facts = HostFacts {
            sysctl: sysctl.map(|(name, value)| (name.to_owned(), value)).into(),
            governors: [("performance".to_owned(), 8)].into(),
            ..HostFacts::default()
        };
        let checks = facts.judge();
        assert!(checks.iter().all(|check| check.verdict == Verdict::Good), "{checks:?}");
        assert!(checks.iter().all(|check| check.remedy.is_none()), "{checks:?}");
    }

    #[test]
    fn this_host_is_read_without_failing() {
        for check in checks() {
            println!("{check:?}");
            assert!(!check.name.is_empty() && !check.wanted.is_empty());
        }
    }
}
