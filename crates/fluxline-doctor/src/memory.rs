//! Memory that packets are put into: shared memory's room, huge pages, what the kernel does to it.

use super::check::{Check, Verdict};
use super::files::Files;
use super::load::Load;
use super::rule::{Needs, Rule};
use super::setting::Action;
use super::text;
use fluxline::host;

/// Shared rings from this size on gain by huge pages \[byte\]. Source: docs/benchmarks.md (copies
/// of some MiB); assumed as a limit.
const HUGE_FROM_BYTES: u64 = 32 << 20;

static SHARED: Rule = Rule {
    name: "dev-shm",
    title: "room in /dev/shm",
    why: "It holds shared memory; a program that touches a page beyond its size is killed.",
    limit: "the experiment's shared rings",
    source: "Linux Documentation/filesystems/tmpfs.rst",
    remedy: "mount -o remount,size=",
    needs: Needs::Shared,
};
static HUGE: Rule = Rule {
    name: "huge-pages",
    title: "free huge pages",
    why: "Large rings in small pages miss the TLB at every packet.",
    limit: "the shared rings of 32 MiB and more, where they ask for huge pages",
    source: "Linux Documentation/admin-guide/mm/hugetlbpage.rst",
    remedy: "sysctl vm.nr_hugepages",
    needs: Needs::Shared,
};
static TRANSPARENT: Rule = Rule {
    name: "transparent-huge-pages",
    title: "transparent huge pages",
    why: "`always` lets the kernel stop a program while it assembles a huge page.",
    limit: "madvise (or never)",
    source: "Linux Documentation/admin-guide/mm/transhuge.rst",
    remedy: "/sys/kernel/mm/transparent_hugepage/enabled",
    needs: Needs::Nothing,
};
static BALANCING: Rule = Rule {
    name: "numa-balancing",
    title: "kernel.numa_balancing",
    why: "It unmaps pages to see who uses them: each page costs the reader a fault.",
    limit: "0 where threads are pinned",
    source: "Linux Documentation/admin-guide/sysctl/kernel.rst",
    remedy: "sysctl",
    needs: Needs::Nothing,
};
static FREE: Rule = Rule {
    name: "memory",
    title: "memory available",
    why: "Without memory the kernel first makes room, or kills a program.",
    limit: "the most memory that the experiment may use",
    source: "proc_meminfo(5), MemAvailable",
    remedy: "smaller rings and batches, or more memory",
    needs: Needs::Nothing,
};

pub(super) const RULES: &[&Rule] = &[&SHARED, &HUGE, &TRANSPARENT, &BALANCING, &FREE];

/// Shared memory, huge pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Free in /dev/shm \[byte\].
    pub shared_free_bytes: Option<u64>,
    /// Huge pages reserved and free, and their size \[byte\].
    pub huge_total: u64,
    /// See above.
    pub huge_free: u64,
    /// See above.
    pub huge_bytes: u64,
    /// `always`, `madvise` or `never`.
    pub transparent: Option<String>,
    /// The kernel moves pages between nodes by itself, and there are nodes.
    pub balancing: Option<bool>,
    /// Memory that programs may still take \[byte\].
    pub available_bytes: Option<u64>,
}

impl Memory {
    pub(super) fn read(files: &Files) -> Memory {
        let text = files.text("/proc/meminfo").unwrap_or_default();
        // In kB, but for counts of pages.
        let of = |name: &str| -> Option<u64> {
            let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            rest.split_ascii_whitespace().next()?.parse().ok()
        };
        let choices = files.text("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        let chosen = choices.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let kilobytes = |name: &str| of(name).map(|value| value.saturating_mul(1024));
        Memory {
            shared_free_bytes: None,
            huge_total: of("HugePages_Total").unwrap_or(0),
            huge_free: of("HugePages_Free").unwrap_or(0),
            huge_bytes: kilobytes("Hugepagesize").unwrap_or(0),
            transparent: chosen.map(|(word, _)| word.to_owned()),
            balancing: files.number("/proc/sys/kernel/numa_balancing").map(|value| value != 0),
            available_bytes: kilobytes("MemAvailable"),
        }
    }

    pub(super) fn ask_kernel(&mut self) {
        self.shared_free_bytes = host::free_bytes(c"/dev/shm").ok();
    }

    pub(super) fn judge(&self, load: Option<&Load>, checks: &mut Vec<Check>) {
        checks.extend(self.judge_shared(load));
        checks.extend(self.judge_huge(load));
        checks.extend(self.judge_transparent());
        checks.extend(self.judge_balancing(load));
        checks.extend(self.judge_available(load));
    }

    fn judge_shared(&self, load: Option<&Load>) -> Option<Check> {
        let free = self.shared_free_bytes?;
        let rings: u64 =
            load.into_iter().flat_map(Load::shared_streams).map(|of| of.buffer_bytes).sum();
        let said = text::bytes(rings as f64);
        let effect = (rings > 0).then(|| format!("Its shared rings take {said}."));
        let size = rings.saturating_mul(2);
        Some(
            Check::new(&SHARED, format!("{} free", text::bytes(free as f64)))
                .verdict(if rings > free { Verdict::Bad } else { Verdict::Good })
                .effect(effect)
                .advise(format!("sudo mount -o remount,size={size} /dev/shm")),
        )
    }

    fn judge_huge(&self, load: Option<&Load>) -> Option<Check> {
        let size = Some(self.huge_bytes).filter(|bytes| *bytes > 0)?;
        let large = |bytes: &u64| *bytes >= HUGE_FROM_BYTES;
        let rings = load.into_iter().flat_map(Load::shared_streams).map(|of| of.buffer_bytes);
        // A ring and its head: one page more.
        let needed: u64 = rings.filter(large).map(|bytes| bytes.div_ceil(size) + 1).sum();
        let found = format!(
            "{} of {} pages of {}",
            self.huge_free,
            self.huge_total,
            text::bytes(size as f64)
        );
        let effect = (needed > 0).then(|| format!("Its large rings would take {needed} of them."));
        let missing = needed.saturating_sub(self.huge_free);
        let action = Action::sysctl("vm.nr_hugepages", self.huge_total.saturating_add(missing));
        // Rings use them only if configured to, so this is a warning at most.
        Some(Check::new(&HUGE, found).warn_if(missing > 0).effect(effect).mend(vec![action]))
    }

    fn judge_transparent(&self) -> Option<Check> {
        let word = self.transparent.as_deref()?;
        let action = Action::file("/sys/kernel/mm/transparent_hugepage/enabled", "madvise");
        Some(Check::new(&TRANSPARENT, word).warn_if(word == "always").mend(vec![action]))
    }

    fn judge_balancing(&self, load: Option<&Load>) -> Option<Check> {
        let on = self.balancing?;
        let pinned = load.is_some_and(|load| !load.cores.is_empty());
        let action = Action::sysctl("kernel.numa_balancing", 0);
        Some(
            Check::new(&BALANCING, if on { "1" } else { "0" })
                .warn_if(on && pinned)
                .mend(vec![action]),
        )
    }

    fn judge_available(&self, load: Option<&Load>) -> Option<Check> {
        let available = self.available_bytes?;
        let needed = load.map_or(0, |load| load.memory_bytes);
        let effect = load.map(|_| format!("It may come to use {}.", text::bytes(needed as f64)));
        Some(
            Check::new(&FREE, text::bytes(available as f64))
                .verdict(if needed > available { Verdict::Bad } else { Verdict::Good })
                .effect(effect)
                .advise("lower ring-slots, bytes-max or batches-max in the experiment"),
        )
    }
}
