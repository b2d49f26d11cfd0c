//! The cores that take a card's packets out of its rings, and anything that moves them about.

use std::collections::BTreeMap;

use super::card::Card;
use super::card_judge::THREADED;
use super::check::Check;
use super::files::{Files, cores_of};
use super::load::Load;
use super::rule::{Needs, Rule};
use super::setting::Action;
use super::text;

/// From this number of cores on, one receive queue is worth spreading. Assumed: with fewer, the
/// reader and the queue occupy all cores.
const CORES_TO_SPREAD: usize = 4;

static AFFINITY: Rule = Rule {
    name: "irq-cores",
    title: "interrupts",
    why: "A core that takes packets from the card cannot read sockets: the reader waits for it.",
    limit: "on other cores than the experiment is pinned to; queues on different cores",
    source: "Linux Documentation/core-api/irq/irq-affinity.rst, networking/scaling.rst",
    remedy: "/proc/irq/…/smp_affinity_list",
    needs: Needs::Cards,
};
static RPS: Rule = Rule {
    name: "rps",
    title: "receive packet steering",
    why: "One queue is one core's work; RPS gives other cores the part above the driver.",
    limit: "on where there is one queue and four cores or more",
    source: "Linux Documentation/networking/scaling.rst, RPS",
    remedy: "/sys/class/net/…/queues/rx-…/rps_cpus",
    needs: Needs::Cards,
};
static QUEUES: Rule = Rule {
    name: "queues",
    title: "receive queues",
    why: "Senders are spread over the queues; a queue is one core's work.",
    limit: "as many as the card has, up to the cores",
    source: "Linux Documentation/networking/scaling.rst, RSS",
    remedy: "ethtool -L (the link may go down for a moment)",
    needs: Needs::Cards,
};
static BALANCER: Rule = Rule {
    name: "irqbalance",
    title: "irqbalance",
    why: "It moves interrupts while packets come, also onto cores that read sockets.",
    limit: "not running where threads are pinned",
    source: "irqbalance(1), --banirq and IRQBALANCE_BANNED_CPULIST",
    remedy: "stop it, or keep it off those cores",
    needs: Needs::Cards,
};

pub(super) const RULES: &[&Rule] = &[&QUEUES, &AFFINITY, &RPS, &BALANCER];

/// One interrupt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interrupt {
    /// The name: `eth0-rx-3`, `virtio2-input.0`.
    pub name: String,
    /// The number of times that each core took it since boot.
    pub counts: Vec<u64>,
    /// Cores that may take it.
    pub allowed: Vec<usize>,
}

/// Interrupts of devices, and who moves them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interrupts {
    /// By number.
    pub lines: BTreeMap<u64, Interrupt>,
    /// irqbalance runs.
    pub balancer: bool,
    /// Cores that are there.
    pub cores: Vec<usize>,
    /// Threads that take packets (threaded NAPI): name, and the cores that they may run on.
    pub receivers: Vec<(String, Vec<usize>)>,
}

/// The state of the kernel's per-core packet backlog since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backlog {
    /// Every packet found room and time.
    Sufficed,
    /// Packets were dropped, or the kernel ran out of its time for them.
    Overflowed,
}

impl Interrupts {
    /// The interrupts alone, without who moves them.
    pub(super) fn read_lines(files: &Files) -> Interrupts {
        let mut lines = parse(&files.text("/proc/interrupts").unwrap_or_default());
        for (number, line) in &mut lines {
            let list = files.text(&format!("/proc/irq/{number}/smp_affinity_list"));
            line.allowed = cores_of(&list.unwrap_or_default());
        }
        Interrupts { lines, ..Interrupts::default() }
    }

    pub(super) fn read(files: &Files) -> Interrupts {
        let mut facts = Interrupts {
            cores: cores_of(&files.text("/sys/devices/system/cpu/online").unwrap_or_default()),
            ..Interrupts::read_lines(files)
        };
        let is_number = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
        for process in files.names("/proc").into_iter().filter(is_number) {
            facts.read_process(files, &process);
        }
        facts
    }

    fn read_process(&mut self, files: &Files, process: &str) {
        let name = files.text(&format!("/proc/{process}/comm")).unwrap_or_default();
        self.balancer |= name == "irqbalance";
        if name.starts_with("napi/") {
            let status = files.text(&format!("/proc/{process}/status")).unwrap_or_default();
            let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            self.receivers.push((name, cores_of(list.unwrap_or_default())));
        }
    }

    /// The interrupts of a card: by number where its bus says them, else by name.
    pub(super) fn of<'a>(
        &'a self,
        name: &'a str,
        card: &'a Card,
    ) -> impl Iterator<Item = (u64, &'a Interrupt)> {
        let belongs = move |number: u64, line: &Interrupt| {
            let begins = |prefix: &str| {
                line.name.strip_prefix(prefix).is_some_and(|rest| {
                    rest.is_empty() || !rest.starts_with(|next: char| next.is_ascii_alphanumeric())
                })
            };
            card.interrupts.contains(&number)
                || begins(name)
                || card.device.as_deref().is_some_and(begins)
        };
        let pairs = self.lines.iter().map(|(number, line)| (*number, line));
        // A line that never came is of a queue that is not used, or of configuration.
        pairs.filter(move |(number, line)| {
            belongs(*number, line) && line.counts.iter().any(|count| *count > 0)
        })
    }

    pub(super) fn judge(
        &self,
        name: &str,
        card: &Card,
        load: Option<&Load>,
        checks: &mut Vec<Check>,
    ) {
        checks.extend(self.judge_affinity(name, card, load));
        checks.extend(self.judge_queues(name, card, load));
        checks.extend(self.judge_threads(name, card, load));
    }

    fn judge_affinity(&self, name: &str, card: &Card, load: Option<&Load>) -> Option<Check> {
        let lines: Vec<(u64, &Interrupt)> = self.of(name, card).collect();
        let mut on: Vec<usize> =
            lines.iter().flat_map(|(_, line)| line.allowed.iter().copied()).collect();
        on.sort_unstable();
        on.dedup();
        if on.is_empty() {
            return None;
        }
        let pinned: &[usize] = load.map_or(&[], |load| &load.cores);
        let shared: Vec<usize> = on.iter().copied().filter(|core| pinned.contains(core)).collect();
        let free: Vec<String> = self
            .cores
            .iter()
            .filter(|core| !pinned.contains(core))
            .map(ToString::to_string)
            .collect();
        let effect = (!shared.is_empty()).then(|| {
            format!("Threads of the experiment are pinned to core {}, too.", list(&shared))
        });
        let touched =
            lines.iter().filter(|(_, line)| line.allowed.iter().any(|core| pinned.contains(core)));
        let actions: Vec<Action> = match free.is_empty() {
            true => Vec::new(),
            false => touched
                .map(|(number, _)| {
                    let path = format!("/proc/irq/{number}/smp_affinity_list");
                    Action::file(path, free.join(","))
                })
                .collect(),
        };
        let found = format!("{} on core {}", lines.len(), list(&on));
        Some(
            Check::new(&AFFINITY, found)
                .of(name)
                .warn_if(!shared.is_empty())
                .effect(effect)
                .mend(actions),
        )
    }

    fn judge_threads(&self, name: &str, card: &Card, load: Option<&Load>) -> Option<Check> {
        /// Of a longer name a thread's name has no more. Source: TASK_COMM_LEN, less `napi/`.
        const NAME_BYTES: usize = 10;
        if !card.threaded? {
            let check = Check::new(&THREADED, "off").of(name);
            let effect = "The cores of its interrupts take its packets (see `interrupts`).";
            return Some(check.effect(load.map(|_| effect.to_owned())));
        }
        let begin: String = format!("napi/{name}-").chars().take(5 + NAME_BYTES).collect();
        let own = self.receivers.iter().filter(|(of, _)| of.starts_with(&begin));
        let mut on: Vec<usize> = own.clone().flat_map(|(_, cores)| cores.clone()).collect();
        on.sort_unstable();
        on.dedup();
        let pinned: &[usize] = load.map_or(&[], |load| &load.cores);
        let shared: Vec<usize> = on.iter().copied().filter(|core| pinned.contains(core)).collect();
        let free: Vec<usize> =
            self.cores.iter().copied().filter(|core| !pinned.contains(core)).collect();
        let effect = match (shared.is_empty(), on.is_empty(), pinned.is_empty()) {
            (false, _, _) => format!(
                "They may run on core {}, where threads of the experiment are pinned: each waits \
                 for the other.",
                list(&shared)
            ),
            (_, true, _) => "Its threads are not seen here: they may run anywhere.".to_owned(),
            (_, _, true) => "The scheduler places them; nothing is pinned beside them.".to_owned(),
            _ => {
                "They are kept off the pinned cores, which leaves those to the readers.".to_owned()
            }
        };
        let unknown = on.is_empty() && !pinned.is_empty();
        let apart = format!(
            "for thread in $(pgrep '^napi/{name}-'); do sudo taskset -pc {} $thread; done",
            list(&free)
        );
        let off = format!("echo 0 | sudo tee /sys/class/net/{name}/threaded");
        Some(
            Check::new(&THREADED, format!("on, {} threads", own.count()))
                .of(name)
                .warn_if(!shared.is_empty() || unknown)
                .effect(load.map(|_| effect))
                .advise(if free.is_empty() { off } else { apart }),
        )
    }

    fn judge_queues(&self, name: &str, card: &Card, load: Option<&Load>) -> Option<Check> {
        let channels = card.channels?;
        let wanted = channels.max.min(u32::try_from(self.cores.len()).unwrap_or(u32::MAX)).max(1);
        let senders: u64 =
            load.into_iter().flat_map(Load::card_streams).map(|stream| stream.senders).sum();
        let effect = load.map(|load| {
            let queues = f64::from(channels.now).min(senders.max(1) as f64).max(1.0);
            let each = load.card_packets_per_second() / queues;
            format!(
                "{senders} senders on {} queues: about {} each.",
                channels.now,
                text::hertz(each)
            )
        });
        Some(
            Check::new(&QUEUES, format!("{} of {}", channels.now, channels.max))
                .of(name)
                .warn_if(channels.now < wanted)
                .effect(effect)
                .advise(format!("sudo ethtool -L {name} combined {wanted}")),
        )
    }

    /// Judges receive packet steering of a device; interfaces made by the kernel have no queues.
    pub(super) fn judge_rps(
        &self,
        name: &str,
        card: &Card,
        backlog: Backlog,
        load: Option<&Load>,
    ) -> Option<Check> {
        let first = card.rps.first().filter(|_| card.is_device)?;
        let is_off = |mask: &String| mask.chars().all(|digit| digit == '0' || digit == ',');
        let off = card.rps.iter().all(is_off);
        let busy = backlog == Backlog::Overflowed;
        let alone = card.rps.len() == 1 && self.cores.len() >= CORES_TO_SPREAD;
        let pinned: &[usize] = load.map_or(&[], |load| &load.cores);
        let free: Vec<usize> =
            self.cores.iter().copied().filter(|core| !pinned.contains(core)).collect();
        let path = format!("/sys/class/net/{name}/queues/rx-0/rps_cpus");
        let found = match off {
            true => format!("off, {} receive queues", card.rps.len()),
            false => format!("cores {first} (mask)"),
        };
        let effect = load.filter(|_| off && alone).map(|load| {
            format!("One core takes all {}.", text::hertz(load.card_packets_per_second()))
        });
        Some(
            Check::new(&RPS, found)
                .of(name)
                .warn_if(off && alone && (busy || load.is_some()))
                .effect(effect)
                .mend(vec![Action::file(path, mask(&free))]),
        )
    }

    pub(super) fn judge_balancer(&self, load: Option<&Load>, checks: &mut Vec<Check>) {
        let pinned: &[usize] = load.map_or(&[], |load| &load.cores);
        let harms = self.balancer && !pinned.is_empty();
        let effect =
            harms.then(|| format!("It may move interrupts to the pinned core {}.", list(pinned)));
        checks.push(
            Check::new(&BALANCER, if self.balancer { "runs" } else { "does not run" })
                .warn_if(harms)
                .effect(effect)
                .advise("sudo systemctl stop irqbalance"),
        );
    }
}

/// Cores as a list for people and the kernel: `0,2,3`.
fn list(cores: &[usize]) -> String {
    cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Cores as the kernel writes masks: hexadecimal, words of 32 bits, the highest first.
fn mask(cores: &[usize]) -> String {
    let words = cores.iter().max().map_or(1, |highest| highest / 32 + 1);
    let mut bits = vec![0_u32; words];
    for core in cores {
        bits[core / 32] |= 1 << (core % 32);
    }
    let mut text = bits.iter().rev().map(|word| format!("{word:08x}"));
    let first = text.next().unwrap_or_default();
    let first = first.trim_start_matches('0');
    let first = if first.is_empty() { "0" } else { first };
    std::iter::once(first.to_owned()).chain(text).collect::<Vec<_>>().join(",")
}

/// The numbered lines of /proc/interrupts: a count per core, then words, the name last.
fn parse(text: &str) -> BTreeMap<u64, Interrupt> {
    let cores = text.lines().next().unwrap_or("").split_ascii_whitespace().count();
    let line = |line: &str| {
        let (number, rest) = line.trim().split_once(':')?;
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let counts: Vec<u64> =
            words.iter().take(cores).map_while(|word| word.parse().ok()).collect();
        let name = words.get(counts.len()..)?.last().copied().unwrap_or("").to_owned();
        Some((number.parse().ok()?, Interrupt { name, counts, allowed: Vec::new() }))
    };
    text.lines().skip(1).filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "           CPU0       CPU1\n 24:          1          0  IO-APIC   5-edge  \
        ACPI:Ged\n 38:  0  12729 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\nNMI: 0 0 x\n";

    #[test]
    fn interrupts_are_found_by_name_and_by_number() {
        let mut all = Interrupts { lines: parse(TEXT), ..Interrupts::default() };
        assert_eq!(all.lines.len(), 2);
        assert_eq!(all.lines[&38].counts, [0, 12_729]);
        let card = Card { device: Some("virtio2".into()), ..Card::default() };
        assert_eq!(all.of("eth0", &card).map(|(number, _)| number).collect::<Vec<_>>(), [38]);
        let other = Card { device: Some("virtio".into()), ..Card::default() };
        assert_eq!(all.of("eth0", &other).count(), 0, "virtio2 is not virtio");
        let numbered = Card { interrupts: vec![24], ..Card::default() };
        assert_eq!(all.of("eth0", &numbered).count(), 1);
        all.lines.clear();
        assert_eq!(all.of("eth0", &card).count(), 0);
        for end in 0..TEXT.len() {
            parse(&TEXT[..end]);
        }
    }

    #[test]
    fn masks_are_written_as_the_kernel_writes_them() {
        assert_eq!(mask(&[0, 1]), "3");
        assert_eq!(mask(&[33]), "2,00000000");
        assert_eq!(mask(&[]), "0");
        assert_eq!(mask(&[0, 31, 32]), "1,80000001");
    }
}
