//! Inspection of packets between the card and the socket: rules, connection tracking.

mod judge;
mod ruleset;

use std::io;

use super::check::{Check, Verdict};
use super::files::Files;
use super::load::Load;
use super::rule::{Needs, Rule};
use super::setting::Action;
use super::text;
use judge::Met;
pub use ruleset::Ruleset;

/// From this share of the table on, new senders may find no room \[percent\]. Assumed.
const FULL_PERCENT: u64 = 80;
/// Rules that a packet may pass without harm. Assumed: each costs some ten nanoseconds.
const RULES_FEW: u64 = 50;
/// From this rate on, looking each packet up costs the core that takes them too much \[Hz\].
/// Assumed: some hundred nanoseconds each, a hundredth of a core.
const TRACKED_HZ_MAX: f64 = 100_000.0;
/// Entries a table is given where it is too full, at least.
const ENTRIES_WANTED: u64 = 262_144;

static TRACKING: Rule = Rule {
    name: "conntrack",
    title: "connection tracking",
    why: "Each packet is looked up in a table; when it is full, new senders are dropped.",
    limit: "off for sensors' ports from 100 kHz on; the table less than 80 % full",
    source: "Linux Documentation/networking/nf_conntrack-sysctl.rst",
    remedy: "sysctl net.netfilter.nf_conntrack_max; a `notrack` rule",
    needs: Needs::Sockets,
};
static RULESET: Rule = Rule {
    name: "firewall",
    title: "firewall rules",
    why: "A rule that drops a sensor's port is silent; many rules cost time per packet.",
    limit: "at most 50 (assumed), and none that drops the experiment's ports",
    source: "nft(8), iptables(8)",
    remedy: "`nft list ruleset` shows them",
    needs: Needs::Sockets,
};

pub(super) const RULES: &[&Rule] = &[&RULESET, &TRACKING];

/// The file of rules of a captured host: the output of `nft -j list ruleset`.
pub(super) const RULES_FILE: &str = "/fluxline/nft.json";

/// The rules of this host for that file; none where they are not shown.
pub(super) fn rules_as_text() -> Option<String> {
    ruleset::list().ok()
}

/// Rules and connection tracking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Firewall {
    /// Connections tracked now, and most possible; none: not loaded.
    pub tracked: Option<(u64, u64)>,
    /// Rules of nf_tables; none: not known.
    pub rules: Option<Ruleset>,
    /// The reason why the rules could not be read.
    pub unread: Option<String>,
    /// Tables of the older iptables that are loaded.
    pub old_tables: Vec<String>,
}

impl Firewall {
    /// Returns the number of rules of nf_tables; none: not known.
    #[must_use]
    pub fn rule_count(&self) -> Option<u64> {
        self.rules.as_ref().map(Ruleset::count)
    }

    pub(super) fn read(files: &Files) -> Firewall {
        let of = |name: &str| files.number(&format!("/proc/sys/net/netfilter/nf_conntrack_{name}"));
        let tables = ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"];
        let old = tables.iter().filter_map(|path| files.text(path));
        let mut firewall = Firewall {
            tracked: of("count").zip(of("max")),
            old_tables: old
                .flat_map(|text| text.lines().map(ToOwned::to_owned).collect::<Vec<_>>())
                .collect(),
            ..Firewall::default()
        };
        if let Some(text) = files.text(RULES_FILE).filter(|_| !files.is_this_host()) {
            firewall.take(&text, RULES_FILE);
        }
        firewall
    }

    pub(super) fn ask_kernel(&mut self) {
        match ruleset::list() {
            Ok(text) => self.take(&text, "the output of `nft -j list ruleset`"),
            Err(error) => {
                self.unread = Some(match error.kind() {
                    io::ErrorKind::PermissionDenied => "cannot be read without root".into(),
                    io::ErrorKind::NotFound => "cannot be read: nft is not installed".into(),
                    _ => format!("cannot be read: {error}"),
                });
            }
        }
    }

    fn take(&mut self, json: &str, origin: &str) {
        self.rules = Ruleset::parse(json);
        if self.rules.is_none() {
            self.unread = Some(format!("{origin} is not understood"));
        }
    }

    pub(super) fn judge(&self, load: Option<&Load>, checks: &mut Vec<Check>) {
        let met = self.rules.as_ref().zip(load).map(|(rules, load)| judge::meet(rules, load));
        checks.push(self.judge_rules(load, met.as_ref()));
        checks.extend(self.judge_tracking(load, met.as_ref()));
    }

    fn judge_rules(&self, load: Option<&Load>, met: Option<&Met>) -> Check {
        let count = self.rule_count();
        let mut found = match (count, &self.unread) {
            (_, Some(why)) => why.clone(),
            (Some(0), None) => "none".to_owned(),
            (Some(count), None) => format!("{count} of nf_tables"),
            (None, None) => "none shown by this host".to_owned(),
        };
        if !self.old_tables.is_empty() {
            found.push_str(&format!("; iptables: {}", self.old_tables.join(", ")));
        }
        let of_ports = met.map_or(Verdict::Good, |met| met.verdict);
        let unknown = self.unread.is_some() || !self.old_tables.is_empty();
        let few = if count > Some(RULES_FEW) || unknown { Verdict::Warn } else { Verdict::Good };
        let effect = match (of_ports, self.unread.is_some(), self.old_tables.as_slice()) {
            (Verdict::Good, true, _) => {
                load.map(|_| "Whether its ports get through is not known.".to_owned())
            }
            (Verdict::Good, false, [_, ..]) => load.map(|_| {
                let tables = self.old_tables.join(", ");
                format!("Not understood: the older iptables ({tables}) may drop its ports.")
            }),
            _ => {
                let says = |_: &&Met| count > Some(0) || of_ports > Verdict::Good;
                met.filter(says).map(|met| met.effect.clone())
            }
        };
        let check = Check::new(&RULESET, found).verdict(few.max(of_ports)).effect(effect);
        if let Some(remedy) = met.and_then(|met| met.remedy.clone()) {
            return check.advise(remedy);
        }
        match self.old_tables.is_empty() {
            true => check.advise("sudo nft -a list ruleset  # do the ports get through?"),
            false => check.advise("sudo iptables-legacy-save -c  # which counters grow?"),
        }
    }

    fn judge_tracking(&self, load: Option<&Load>, met: Option<&Met>) -> Option<Check> {
        let (count, max) = self.tracked?;
        let is_used = self.rules.as_ref().is_some_and(Ruleset::uses_tracking);
        if max == 0 || (count == 0 && !is_used) {
            return Some(Check::new(&TRACKING, "loaded, tracks nothing"));
        }
        let check = Check::new(&TRACKING, format!("{count} of {max} entries"));
        if met.is_some_and(|met| met.untracked) {
            let effect = "Its datagrams are kept out of it (notrack).";
            return Some(check.effect(Some(effect.to_owned())));
        }
        let percent = count.saturating_mul(100) / max;
        let senders: u64 =
            load.into_iter().flat_map(Load::socket_streams).map(|stream| stream.senders).sum();
        let effect = load.map(|load| {
            let rate = text::hertz(load.packets_per_second());
            format!("{senders} senders more in the table; {rate} look-ups.")
        });
        let full = percent >= FULL_PERCENT || count.saturating_add(senders) > max;
        let busy = load.is_none_or(|load| load.packets_per_second() >= TRACKED_HZ_MAX);
        let wanted = ENTRIES_WANTED.max(max.saturating_mul(4));
        let action = Action::sysctl("net.netfilter.nf_conntrack_max", wanted);
        let check = check.warn_if(busy).effect(effect);
        let check = if full { check.verdict(Verdict::Bad).mend(vec![action]) } else { check };
        Some(check.advise(notrack(load)))
    }
}

/// The commands that keep an experiment's ports out of connection tracking.
fn notrack(load: Option<&Load>) -> String {
    let ports = load.map(judge::ports_of).unwrap_or_default();
    let ports = match ports.is_empty() {
        true => "PORT".to_owned(),
        false => judge::ports_of_nft(&ports).replace('\'', ""),
    };
    format!(
        "sudo nft 'add table inet fluxline; add chain inet fluxline early {{ type filter hook \
         prerouting priority raw; }}; add rule inet fluxline early udp dport {ports} notrack'"
    )
}
