//! Losses since boot, and their places: the past shows which of the other checks matter.
//!
//! Of the past, and perhaps of other programs: a hint, not a judgement.

use std::collections::BTreeMap;

use super::card::Card;
use super::check::Check;
use super::concern;
use super::files::Files;
use super::load::Load;
use super::rule::{Needs, Rule};
use super::setting::Action;
use super::sockets::Sockets;
use super::softnet::{Softnet, softnet};
use fluxline::kernel::KernelSnapshot;

/// Ten times what is wanted at first: it was not enough. Source: kernel.rs, softnet_dropped.
const BACKLOG_AFTER_DROPS: u64 = 250_000;
/// As sockets.rs wants it.
const RMEM_MAX_WANTED: u64 = 64 << 20;

static SOFTNET: Rule = Rule {
    name: "softnet-drops",
    title: "softnet drops since boot",
    why: "Packets beyond a core's backlog; no socket counter shows them.",
    limit: "0",
    source: "/proc/net/softnet_stat, second column",
    remedy: "sysctl net.core.netdev_max_backlog",
    needs: Needs::Sockets,
};
static BUFFER_ERRORS: Rule = Rule {
    name: "udp-buffer-errors",
    title: "UDP receive buffer errors since boot",
    why: "Datagrams beyond some program's socket buffer.",
    limit: "0",
    source: "/proc/net/snmp, Udp RcvbufErrors",
    remedy: "sysctl net.core.rmem_max, a faster reader",
    needs: Needs::Sockets,
};
static CHECKSUMS: Rule = Rule {
    name: "udp-checksums",
    title: "UDP checksum errors since boot",
    why: "Datagrams that arrived damaged, or whose sender computes wrong checksums.",
    limit: "0",
    source: "/proc/net/snmp, Udp InCsumErrors",
    remedy: "fix the sender, or let it send checksum 0 (IPv4)",
    needs: Needs::Sockets,
};
static REASSEMBLY: Rule = Rule {
    name: "reassembly-errors",
    title: "IP reassembly failures since boot",
    why: "Fragmented datagrams that lost a fragment: one lost fragment loses the datagram.",
    limit: "0",
    source: "/proc/net/snmp, Ip ReasmFails",
    remedy: "datagrams no longer than the MTU",
    needs: Needs::Cards,
};
static CARD_DROPS: Rule = Rule {
    name: "card-drops",
    title: "drops since boot",
    why: "Packets that the card or its driver dropped before the kernel saw them.",
    limit: "0",
    source: "/sys/class/net/*/statistics, and the driver's own (ethtool -S)",
    remedy: "the ring, the interrupts' cores; `ethtool -S` names the place",
    needs: Needs::Cards,
};

pub(super) const RULES: &[&Rule] =
    &[&CARD_DROPS, &SOFTNET, &BUFFER_ERRORS, &CHECKSUMS, &REASSEMBLY];

/// Drops since boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// The counters of a run's report.
    pub kernel: KernelSnapshot,
    /// By core, in their order.
    pub softnet: Vec<Softnet>,
    /// Datagrams that could not be put together from their pieces.
    pub reassembly_failed: u64,
}

/// A counter of /proc/net/snmp by protocol and name: a line of names, a line of values.
fn snmp(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(protocol)?.strip_prefix(':')?;
        Some(rest.split_ascii_whitespace())
    });
    let at = lines.next()?.position(|word| word == name)?;
    lines.next()?.nth(at)?.parse().ok()
}

impl Losses {
    pub(super) fn read(files: &Files) -> Losses {
        let text = files.text("/proc/net/snmp").unwrap_or_default();
        Losses {
            kernel: KernelSnapshot::read(&files.path("/")),
            softnet: softnet(files),
            reassembly_failed: snmp(&text, "Ip", "ReasmFails").unwrap_or(0),
        }
    }

    pub(super) fn judge(&self, sockets: &Sockets, checks: &mut Vec<Check>) {
        let drops = &self.kernel.drops;
        let limit = sockets.sysctl.get("core.netdev_max_backlog").copied().unwrap_or(0);
        let backlog = Action::sysctl("net.core.netdev_max_backlog", BACKLOG_AFTER_DROPS);
        let backlog = if limit < BACKLOG_AFTER_DROPS { vec![backlog] } else { Vec::new() };
        let cores = self.softnet.iter().enumerate().filter(|(_, core)| core.dropped > 0);
        let on: Vec<String> = cores.map(|(number, _)| number.to_string()).collect();
        let mut softnet = since_boot(&SOFTNET, drops.softnet_dropped);
        if !on.is_empty() {
            softnet.found = format!("{} on core {}", softnet.found, on.join(", "));
        }
        checks.push(softnet.mend(backlog));
        let limit = sockets.sysctl.get("core.rmem_max").copied().unwrap_or(u64::MAX);
        let buffer = Action::sysctl("net.core.rmem_max", RMEM_MAX_WANTED);
        let buffer = if limit < RMEM_MAX_WANTED { vec![buffer] } else { Vec::new() };
        checks.push(
            since_boot(&BUFFER_ERRORS, drops.udp_buffer_full)
                .mend(buffer)
                .advise("ss -uam  # whose buffer is full: the reader is too slow"),
        );
        checks.push(
            since_boot(&CHECKSUMS, drops.udp_bad_checksum)
                .advise("nstat -az UdpInCsumErrors  # grows while which sender sends?"),
        );
        checks.push(
            since_boot(&REASSEMBLY, self.reassembly_failed)
                .advise("nstat -az IpReasmFails IpReasmTimeout"),
        );
    }

    /// Judges the drops of each interface.
    pub(super) fn judge_cards(
        &self,
        cards: &BTreeMap<String, Card>,
        load: Option<&Load>,
        checks: &mut Vec<Check>,
    ) {
        let none = BTreeMap::new();
        for (name, card) in cards.iter().filter(|(name, _)| concern::concerns(cards, name, load)) {
            let dropped = self.kernel.interfaces.get(name).copied().unwrap_or(0);
            let own = if card.up { &card.drops } else { &none };
            if dropped == 0 && own.is_empty() {
                continue;
            }
            let mut check =
                since_boot(&CARD_DROPS, dropped.max(own.values().copied().max().unwrap_or(0)));
            if !own.is_empty() {
                let worst: Vec<String> =
                    own.iter().take(3).map(|(name, count)| format!("{name} {count}")).collect();
                check.found = format!("{} ({})", check.found, worst.join(", "));
            }
            checks.push(
                check.of(name).advise(format!("ethtool -S {name} | grep -iE 'drop|miss|err'")),
            );
        }
    }
}

fn since_boot(rule: &'static Rule, dropped: u64) -> Check {
    Check::new(rule, dropped.to_string()).warn_if(dropped > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "Ip: Forwarding ReasmReqds ReasmFails\nIp: 1 7 3\nIpExt: a\nIpExt: 9\n";

    #[test]
    fn snmp_is_read_by_name_and_cut_anywhere_does_no_harm() {
        assert_eq!(snmp(SNMP, "Ip", "ReasmFails"), Some(3));
        assert_eq!(snmp(SNMP, "Ip", "Other"), None);
        for end in 0..SNMP.len() {
            let _ = snmp(&SNMP[..end], "Ip", "ReasmFails");
        }
    }
}
