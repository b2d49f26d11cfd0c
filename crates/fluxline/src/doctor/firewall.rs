//! What looks at packets between the card and the socket: rules, connection tracking.

use super::check::{Check, Verdict};
use super::files::Files;
use super::load::Load;
use super::rule::{Needs, Rule};
use super::setting::Action;
use super::text;
use crate::sys::netfilter;

/// From this share of the table on, new senders may find no room \[percent\]. Assumed.
const FULL_PERCENT: u64 = 80;
/// Rules that a packet may pass without harm. Assumed: each costs some ten nanoseconds.
const RULES_FEW: u64 = 50;
/// Entries a table is given where it is too full, at least.
const ENTRIES_WANTED: u64 = 262_144;

static TRACKING: Rule = Rule {
    name: "conntrack",
    title: "connection tracking",
    why: "Each packet is looked up in a table; when it is full, new senders are dropped.",
    limit: "off for sensors' ports; the table less than 80 % full",
    source: "Linux Documentation/networking/nf_conntrack-sysctl.rst",
    remedy: "sysctl net.netfilter.nf_conntrack_max; a `notrack` rule",
    needs: Needs::Sockets,
};
static RULESET: Rule = Rule {
    name: "firewall",
    title: "firewall rules",
    why: "A rule that drops a sensor's port drops it in silence; many rules cost time per packet.",
    limit: "at most 50 (assumed), and none that drops the experiment's ports",
    source: "nft(8), iptables(8)",
    remedy: "`nft list ruleset` shows them",
    needs: Needs::Sockets,
};

pub(super) const RULES: &[&Rule] = &[&RULESET, &TRACKING];

/// Rules and connection tracking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Firewall {
    /// Connections tracked now, and most possible; none: not loaded.
    pub tracked: Option<(u64, u64)>,
    /// Rules of nf_tables; none: not known.
    pub rules: Option<u64>,
    /// The rules could not be read without root.
    pub needs_root: bool,
    /// Tables of the older iptables that are loaded.
    pub old_tables: Vec<String>,
}

impl Firewall {
    pub(super) fn read(files: &Files) -> Firewall {
        let of = |name: &str| files.number(&format!("/proc/sys/net/netfilter/nf_conntrack_{name}"));
        let tables = ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"];
        let old = tables.iter().filter_map(|path| files.text(path));
        Firewall {
            tracked: of("count").zip(of("max")),
            old_tables: old
                .flat_map(|text| text.lines().map(ToOwned::to_owned).collect::<Vec<_>>())
                .collect(),
            ..Firewall::default()
        }
    }

    pub(super) fn ask_kernel(&mut self) {
        match netfilter::rules() {
            Ok(rules) => self.rules = Some(rules),
            Err(error) => self.needs_root = error.kind() == std::io::ErrorKind::PermissionDenied,
        }
    }

    pub(super) fn judge(&self, load: Option<&Load>, checks: &mut Vec<Check>) {
        checks.push(self.judge_rules(load));
        checks.extend(self.judge_tracking(load));
    }

    fn judge_rules(&self, load: Option<&Load>) -> Check {
        let mut found = match (self.rules, self.needs_root) {
            (Some(0), _) => "none".to_owned(),
            (Some(rules), _) => format!("{rules} of nf_tables"),
            (None, true) => "cannot be read without root".to_owned(),
            (None, false) => "none shown by this host".to_owned(),
        };
        if !self.old_tables.is_empty() {
            found.push_str(&format!("; iptables: {}", self.old_tables.join(", ")));
        }
        let rules = self.rules.unwrap_or(0);
        let effect = load.filter(|_| rules > 0).map(|load| {
            let rate = text::hertz(load.packets_per_second());
            format!("Up to {rules} rules are asked for each of its packets, {rate}.")
        });
        let there = rules > RULES_FEW || !self.old_tables.is_empty();
        Check::new(&RULESET, found)
            .warn_if(there || (self.needs_root && self.rules.is_none()))
            .effect(effect)
            .advise("sudo nft list ruleset  # do the experiment's ports get through?")
    }

    fn judge_tracking(&self, load: Option<&Load>) -> Option<Check> {
        let (count, max) = self.tracked?;
        if max == 0 || count == 0 {
            return Some(Check::new(&TRACKING, "loaded, tracks nothing"));
        }
        let percent = count.saturating_mul(100) / max;
        let senders: u64 =
            load.into_iter().flat_map(Load::socket_streams).map(|stream| stream.senders).sum();
        let effect = load.map(|load| {
            let rate = text::hertz(load.packets_per_second());
            format!("{senders} senders more in the table; {rate} look-ups.")
        });
        let full = percent >= FULL_PERCENT || count.saturating_add(senders) > max;
        let wanted = ENTRIES_WANTED.max(max.saturating_mul(4));
        let action = Action::sysctl("net.netfilter.nf_conntrack_max", wanted);
        Some(
            Check::new(&TRACKING, format!("{count} of {max} entries"))
                .verdict(if full { Verdict::Bad } else { Verdict::Warn })
                .effect(effect)
                .mend(if full { vec![action] } else { Vec::new() })
                .advise("nft add rule inet raw prerouting udp dport PORT notrack"),
        )
    }
}
