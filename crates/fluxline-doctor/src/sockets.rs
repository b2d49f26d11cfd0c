//! The kernel's queues between a card and a program: backlog, budget, socket buffers.
//!
//! Source of meanings: Linux Documentation/admin-guide/sysctl/net.rst, networking/ip-sysctl.rst.

use std::collections::BTreeMap;

use super::check::{Check, Verdict};
use super::files::Files;
use super::load::{Load, Stream};
use super::rule::{Needs, Rule};
use super::setting::Action;
use super::text;

/// Receive buffer wanted \[byte\]: 64 MiB hold half a second of 1 Gb/s, 50 ms of 10 Gb/s.
const RMEM_MAX_WANTED: u64 = 64 << 20;
/// Below this a burst of some milliseconds at 10 Gb/s is lost \[byte\].
const RMEM_MAX_LEAST: u64 = 8 << 20;
/// The default of Linux \[byte\]; a smaller value was set by somebody.
const RMEM_DEFAULT_WANTED: u64 = 212_992;
/// Packets that a core may queue before it drops; Linux ships with 1000.
const BACKLOG_WANTED: u64 = 10_000;
/// Packets of one round of a core's receive work; Linux ships with 300. Source: kernel.rs, column
/// time_squeeze; the number is four times the default of Linux (assumed).
const BUDGET_WANTED: u64 = 1_200;
/// A buffer that lasts so long bridges what a busy host does to a reader \[s\]. DERIVED: 64 MiB at
/// 10 Gb/s.
const LASTS_WANTED_SECONDS: f64 = 0.05;
/// A buffer that lasts shorter is lost to one time slice of another program \[s\]. BACKGROUND: the
/// scheduler's base slice is about 3 ms, the timer's tick 1 to 10 ms.
const LASTS_LEAST_SECONDS: f64 = 0.005;
/// Page that the `*_mem` values count in \[byte\]. Assumed: x86 and most of ARM.
const PAGE_BYTES: u64 = 4096;
/// Memory wanted for pieces of IP packets \[byte\]. Source: the default of Linux, ip-sysctl.rst.
const FRAGMENTS_WANTED: u64 = 4 << 20;

static RMEM_MAX: Rule = Rule {
    name: "rmem-max",
    title: "net.core.rmem_max",
    why: "The largest receive buffer of a program; a burst beyond it is lost.",
    limit: "at least 67108864 bytes; with an experiment: 50 ms of its packets",
    source: "ESnet fasterdata, host tuning; 64 MiB hold 50 ms of 10 Gb/s",
    remedy: "sysctl",
    needs: Needs::Sockets,
};
static RMEM_DEFAULT: Rule = Rule {
    name: "rmem-default",
    title: "net.core.rmem_default",
    why: "The buffer of programs that set none; fluxline sets its own.",
    limit: "at least 212992 bytes",
    source: "the default of Linux",
    remedy: "sysctl",
    needs: Needs::Sockets,
};
static BACKLOG: Rule = Rule {
    name: "backlog",
    title: "net.core.netdev_max_backlog",
    why: "A core's queue before UDP (loopback, veth, RPS); packets beyond it are lost.",
    limit: "at least 10000 packets",
    source: "Linux Documentation/networking/scaling.rst; ESnet fasterdata",
    remedy: "sysctl",
    needs: Needs::Sockets,
};
static BUDGET: Rule = Rule {
    name: "budget",
    title: "net.core.netdev_budget",
    why: "A core that runs out of budget leaves packets in the card's ring until its next round.",
    limit: "1200 packets where cores were squeezed since boot",
    source: "sysctl/net.rst: raise it while time_squeeze grows; four times the default of Linux",
    remedy: "sysctl",
    needs: Needs::Cards,
};
static UDP_MEMORY: Rule = Rule {
    name: "udp-mem",
    title: "net.ipv4.udp_mem",
    why: "Memory of all UDP sockets together; beyond it every socket drops.",
    limit: "the buffers that the experiment sets",
    source: "networking/ip-sysctl.rst; udp(7)",
    remedy: "sysctl",
    needs: Needs::Sockets,
};
static FRAGMENTS: Rule = Rule {
    name: "ip-fragments",
    title: "net.ipv4.ipfrag_high_thresh",
    why: "Memory for IP fragments; beyond it they are dropped.",
    limit: "at least 4194304 bytes",
    source: "the default of Linux (ip-sysctl.rst)",
    remedy: "sysctl; better: datagrams no longer than the MTU",
    needs: Needs::Cards,
};
static BUSY_POLL: Rule = Rule {
    name: "busy-poll",
    title: "net.core.busy_read and busy_poll",
    why: "Sockets that busy-poll save the interrupt's latency, and cost a whole core.",
    limit: "0 unless latency counts; sockets can ask for themselves (busy-poll-us)",
    source: "sysctl/net.rst",
    remedy: "`busy-poll-us` in the experiment",
    needs: Needs::Sockets,
};
static REVERSE_PATH: Rule = Rule {
    name: "rp-filter",
    title: "net.ipv4.conf.all.rp_filter",
    why: "The strict filter drops packets of senders that this host would answer another way.",
    limit: "0 or 2 (loose)",
    source: "networking/ip-sysctl.rst, RFC 3704 section 2",
    remedy: "sysctl, loose mode",
    needs: Needs::Cards,
};

pub(super) const RULES: &[&Rule] = &[
    &BACKLOG,
    &BUDGET,
    &RMEM_MAX,
    &RMEM_DEFAULT,
    &UDP_MEMORY,
    &FRAGMENTS,
    &REVERSE_PATH,
    &BUSY_POLL,
];

/// Values of /proc/sys/net by name: `core.rmem_max`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sockets {
    /// Single numbers.
    pub sysctl: BTreeMap<&'static str, u64>,
    /// Minimum, pressure and maximum of all UDP sockets' memory \[page\].
    pub udp_memory: Option<[u64; 3]>,
    /// Times that cores ran out of budget since boot.
    pub squeezed: u64,
}

const NUMBERS: [&str; 8] = [
    "core.rmem_max",
    "core.rmem_default",
    "core.netdev_max_backlog",
    "core.netdev_budget",
    "core.busy_poll",
    "core.busy_read",
    "ipv4.ipfrag_high_thresh",
    "ipv4.conf.all.rp_filter",
];

impl Sockets {
    pub(super) fn read(files: &Files) -> Sockets {
        let of = |name: &str| files.number(&format!("/proc/sys/net/{}", name.replace('.', "/")));
        let memory = files.text("/proc/sys/net/ipv4/udp_mem").unwrap_or_default();
        let memory: Vec<u64> =
            memory.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
        Sockets {
            sysctl: NUMBERS.into_iter().filter_map(|name| Some((name, of(name)?))).collect(),
            udp_memory: memory.try_into().ok(),
            squeezed: super::softnet::softnet(files).iter().map(|core| core.squeezed).sum(),
        }
    }

    fn get(&self, name: &str) -> Option<u64> {
        self.sysctl.get(name).copied()
    }

    pub(super) fn judge(&self, load: Option<&Load>, checks: &mut Vec<Check>) {
        checks.push(self.judge_rmem_max(load));
        let default =
            self.at_least(&RMEM_DEFAULT, "core.rmem_default", RMEM_DEFAULT_WANTED, "bytes");
        checks.push(default);
        checks.push(self.judge_backlog(load));
        checks.extend(self.judge_budget(load));
        checks.extend(self.judge_udp_memory(load));
        checks.push(self.judge_fragments(load));
        checks.extend(self.judge_reverse_path(load));
        checks.extend(self.judge_busy_poll(load));
    }

    /// Checks that a number is at least `wanted`; a number that the host does not show gives a
    /// warning without a remedy.
    fn at_least(&self, rule: &'static Rule, name: &str, wanted: u64, unit: &str) -> Check {
        let found = self.get(name);
        let text = found.map_or("not shown by this host".into(), |value| format!("{value} {unit}"));
        let action = Action::sysctl(&format!("net.{name}"), wanted);
        Check::new(rule, text)
            .wanted(format!("at least {wanted} {unit}"))
            .warn_if(found.is_none_or(|value| value < wanted))
            .mend(found.map(|_| action).into_iter().collect())
    }

    fn judge_rmem_max(&self, load: Option<&Load>) -> Check {
        let found = self.get("core.rmem_max");
        let asked = load.into_iter().flat_map(Load::socket_streams).map(|of| of.buffer_bytes).max();
        let wanted = RMEM_MAX_WANTED.max(asked.unwrap_or(0));
        let mut check = self.at_least(&RMEM_MAX, "core.rmem_max", wanted, "bytes");
        let Some(found) = found else { return check };
        let Some(load) = load else {
            if found < RMEM_MAX_LEAST {
                check.verdict = Verdict::Bad;
            }
            return check;
        };
        let lasts = |stream: &Stream| stream.lasts_seconds(stream.buffer_bytes.min(found));
        let worst = load.socket_streams().min_by(|a, b| lasts(a).total_cmp(&lasts(b)));
        let Some(stream) = worst else { return check };
        let (granted, lasts) = (stream.buffer_bytes.min(found), lasts(stream));
        let verdict = match lasts {
            lasts if lasts < LASTS_LEAST_SECONDS => Verdict::Bad,
            lasts if lasts < LASTS_WANTED_SECONDS => Verdict::Warn,
            _ => Verdict::Good,
        };
        let from_here = granted < stream.buffer_bytes;
        if verdict == Verdict::Good || !from_here {
            (check.actions, check.remedy) = (Vec::new(), None);
        }
        check.verdict = verdict;
        if !from_here {
            // The experiment asks for less than the host would give: no setting of the host's.
            let more = (stream.bytes_per_second() * LASTS_WANTED_SECONDS) as u64;
            let more = more.div_ceil(1 << 20) << 20;
            let name = &stream.name;
            check = check.advise(format!("in `{name}`: receive-buffer-bytes = {more}"));
        }
        check.effect(Some(format!(
            "{} of `{}` fill {} in {}; a reader away for longer loses packets.",
            stream.describe(),
            stream.name,
            text::bytes(granted as f64 * stream.sockets.max(1) as f64),
            text::seconds(lasts)
        )))
    }

    fn judge_backlog(&self, load: Option<&Load>) -> Check {
        let name = "core.netdev_max_backlog";
        let check = self.at_least(&BACKLOG, name, BACKLOG_WANTED, "packet");
        let Some((load, packets)) = load.zip(self.get(name)) else { return check };
        let lasts = packets as f64 / load.packets_per_second().max(1.0);
        let said = text::count(packets as f64);
        let effect = format!(
            "{said} packets are queued in {}, if one core takes them.",
            text::seconds(lasts)
        );
        if lasts < LASTS_LEAST_SECONDS {
            return check.effect(Some(effect));
        }
        let limit = check.wanted;
        Check::new(&BACKLOG, check.found).wanted(limit).effect(Some(effect))
    }

    fn judge_budget(&self, load: Option<&Load>) -> Option<Check> {
        let found = self.get("core.netdev_budget")?;
        let squeezed = self.squeezed > 0 && found < BUDGET_WANTED;
        let text = format!("{found} packets; squeezed {} times since boot", self.squeezed);
        let effect = load.map(|load| {
            let lasts = found as f64 / load.packets_per_second().max(1.0);
            format!("A round takes {} of the experiment's packets.", text::seconds(lasts))
        });
        let action = Action::sysctl("net.core.netdev_budget", BUDGET_WANTED);
        Some(Check::new(&BUDGET, text).warn_if(squeezed).effect(effect).mend(vec![action]))
    }

    fn judge_udp_memory(&self, load: Option<&Load>) -> Option<Check> {
        let [low, pressure, max] = self.udp_memory?;
        let room = max.saturating_mul(PAGE_BYTES);
        // A socket is charged up to twice what it asks for (socket(7), SO_RCVBUF).
        let charged = |of: &Stream| of.buffer_bytes.saturating_mul(of.sockets).saturating_mul(2);
        let asked: u64 = load.into_iter().flat_map(Load::socket_streams).map(charged).sum();
        let wanted = asked.div_ceil(PAGE_BYTES);
        let effect = (asked > 0).then(|| {
            format!(
                "The experiment's sockets may take {} of {}.",
                text::bytes(asked as f64),
                text::bytes(room as f64)
            )
        });
        let value = format!("{low} {pressure} {wanted}");
        Some(
            Check::new(&UDP_MEMORY, format!("{} for all sockets", text::bytes(room as f64)))
                .verdict(if asked > room { Verdict::Bad } else { Verdict::Good })
                .effect(effect)
                .mend(vec![Action::sysctl("net.ipv4.udp_mem", value)]),
        )
    }

    fn judge_fragments(&self, load: Option<&Load>) -> Check {
        let effect = load.map(|load| {
            let longest = load.card_streams().map(|of| of.packet_bytes).max().unwrap_or(0);
            format!("Its longest packet is {}; see the MTU.", text::bytes(longest as f64))
        });
        let name = "ipv4.ipfrag_high_thresh";
        let mut check = self.at_least(&FRAGMENTS, name, FRAGMENTS_WANTED, "bytes").effect(effect);
        if self.get(name).is_none() {
            check.verdict = Verdict::Good;
        }
        check
    }

    fn judge_reverse_path(&self, load: Option<&Load>) -> Option<Check> {
        let found = self.get("ipv4.conf.all.rp_filter")?;
        let text = match found {
            0 => "0: off",
            1 => "1: strict",
            _ => "2: loose",
        };
        let effect = load.filter(|_| found == 1).map(|_| {
            "Sensors whose addresses are not routed through the interface they send to are not \
             heard at all."
                .to_owned()
        });
        let action = Action::sysctl("net.ipv4.conf.all.rp_filter", 2);
        Some(Check::new(&REVERSE_PATH, text).warn_if(found == 1).effect(effect).mend(vec![action]))
    }

    fn judge_busy_poll(&self, load: Option<&Load>) -> Option<Check> {
        let (read, poll) = (self.get("core.busy_read")?, self.get("core.busy_poll")?);
        let asks = load.into_iter().flat_map(Load::socket_streams).filter(|of| of.busy_poll_us > 0);
        let effect = asks.map(|of| {
            format!("`{}` asks for {} us itself (needs CAP_NET_ADMIN).", of.name, of.busy_poll_us)
        });
        let check = Check::new(&BUSY_POLL, format!("{read} us and {poll} us"));
        Some(check.effect(effect.last()))
    }
}
