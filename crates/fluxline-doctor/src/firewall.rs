//! Inspection of packets between the card and the socket: rules, connection tracking.
//!
//! A rule may drop a datagram by its sender, a rate, a map or another chain. So
//! rules are counted and not evaluated: the advice is the kernel's own trace, which names the rule
//! that each real datagram meets.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::check::{Check, Verdict};
use super::files::Files;
use super::load::Load;
use super::rule::{Needs, Rule};
use super::setting::Action;
use super::text;

/// From this share of the table on, new senders may find no room \[percent\]. Assumed.
const FULL_PERCENT: u64 = 80;
/// Rules that a packet may pass without harm. Assumed: each costs some ten nanoseconds.
const RULES_FEW: u64 = 50;
/// From this rate on, looking each packet up costs the core that takes them too much \[Hz\].
/// Assumed: some hundred nanoseconds each, a hundredth of a core.
const TRACKED_HZ_MAX: f64 = 100_000.0;
/// Entries a table is given where it is too full, at least.
const ENTRIES_WANTED: u64 = 262_144;
/// Programs that print the rules: on the path, or where Debian installs it for root.
const PROGRAMS: [&str; 2] = ["nft", "/usr/sbin/nft"];

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
    limit: "at most 50 (assumed); with an experiment: none that may drop its ports",
    source: "nft(8), iptables(8)",
    remedy: "the kernel's trace (`nft monitor trace`) names the rule that a packet meets",
    needs: Needs::Sockets,
};

pub(super) const RULES: &[&Rule] = &[&RULESET, &TRACKING];

/// The rules of nf_tables, as far as the checks need them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ruleset {
    /// The number of rules.
    pub count: u64,
    /// A rule or a policy drops something, or asks another chain, a map or a program.
    pub may_drop: bool,
    /// A rule asks for the state of connections.
    pub uses_tracking: bool,
    /// A rule keeps packets out of connection tracking.
    pub has_notrack: bool,
}

impl Ruleset {
    /// Reads the rules that `nft -j list ruleset` printed; `None`: this is not its output.
    #[must_use]
    pub fn parse(json: &str) -> Option<Ruleset> {
        const MAY_DROP: [&str; 8] =
            ["drop", "reject", "jump", "goto", "vmap", "queue", "redirect", "dnat"];
        let document: Value = serde_json::from_str(json).ok()?;
        let objects = document.get("nftables")?.as_array()?;
        let mut ruleset = Ruleset::default();
        for object in objects {
            let policy = object.get("chain").and_then(|chain| chain.get("policy"));
            ruleset.may_drop |= policy.and_then(Value::as_str) == Some("drop");
            let Some(rule) = object.get("rule") else { continue };
            ruleset.count += 1;
            ruleset.uses_tracking |= has_key(rule, &["ct"]);
            ruleset.has_notrack |= has_key(rule, &["notrack"]);
            ruleset.may_drop |= has_key(rule, &MAY_DROP);
        }
        Some(ruleset)
    }
}

fn has_key(value: &Value, keys: &[&str]) -> bool {
    match value {
        Value::Object(map) => {
            map.iter().any(|(key, value)| keys.contains(&key.as_str()) || has_key(value, keys))
        }
        Value::Array(list) => list.iter().any(|value| has_key(value, keys)),
        _ => false,
    }
}

/// The JSON of this network namespace's rules.
///
/// Errors: `NotFound` where `nft` is not installed; `PermissionDenied` without root.
fn list() -> io::Result<String> {
    let ask = |program: &&str| {
        let mut command = Command::new(program);
        command.args(["-j", "list", "ruleset"]).stdin(Stdio::null()).output()
    };
    let is_there = |output: &io::Result<_>| match output {
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    let output = PROGRAMS.iter().map(ask).find(is_there);
    let output = output.unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match message.contains("Operation not permitted") {
        true => Err(io::ErrorKind::PermissionDenied.into()),
        false => Err(io::Error::other(message)),
    }
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
    pub(super) fn read(files: &Files) -> Firewall {
        let of = |name: &str| files.number(&format!("/proc/sys/net/netfilter/nf_conntrack_{name}"));
        let tables = ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"];
        let old: Vec<String> = tables.iter().filter_map(|path| files.text(path)).collect();
        Firewall {
            tracked: of("count").zip(of("max")),
            old_tables: old.iter().flat_map(|text| text.lines()).map(str::to_owned).collect(),
            ..Firewall::default()
        }
    }

    pub(super) fn ask_kernel(&mut self) {
        match list() {
            Ok(text) => {
                self.rules = Ruleset::parse(&text);
                if self.rules.is_none() {
                    self.unread =
                        Some("the output of `nft -j list ruleset` is not understood".into());
                }
            }
            Err(error) => {
                self.unread = Some(match error.kind() {
                    io::ErrorKind::PermissionDenied => "cannot be read without root".into(),
                    io::ErrorKind::NotFound => "cannot be read: nft is not installed".into(),
                    _ => format!("cannot be read: {error}"),
                });
            }
        }
    }

    pub(super) fn judge(&self, load: Option<&Load>, checks: &mut Vec<Check>) {
        checks.push(self.judge_rules(load));
        checks.extend(self.judge_tracking(load));
    }

    fn judge_rules(&self, load: Option<&Load>) -> Check {
        let rules = self.rules.unwrap_or_default();
        let mut found = match (&self.unread, self.rules) {
            (Some(why), _) => why.clone(),
            (None, Some(Ruleset { count: 0, .. })) => "none".to_owned(),
            (None, Some(rules)) => format!("{} of nf_tables", rules.count),
            (None, None) => "none shown by this host".to_owned(),
        };
        if !self.old_tables.is_empty() {
            found.push_str(&format!("; iptables: {}", self.old_tables.join(", ")));
        }
        let is_unknown = self.unread.is_some() || !self.old_tables.is_empty();
        let may_drop = load.is_some() && rules.may_drop;
        let effect = match (is_unknown, may_drop) {
            (true, _) => Some("Whether its ports get through is not known."),
            (false, true) => Some("A rule or a policy may drop its ports; the trace shows it."),
            (false, false) if rules.count > 0 => Some("No rule drops packets."),
            (false, false) => None,
        };
        let effect = load.and(effect).map(str::to_owned);
        let advice = match (self.old_tables.is_empty(), load) {
            (false, _) => "sudo iptables-legacy-save -c  # which counters grow?".to_owned(),
            (true, Some(load)) if may_drop => trace(load),
            (true, _) => "sudo nft -a list ruleset  # do the ports get through?".to_owned(),
        };
        let is_wrong = rules.count > RULES_FEW || is_unknown || may_drop;
        Check::new(&RULESET, found).warn_if(is_wrong).effect(effect).advise(advice)
    }

    fn judge_tracking(&self, load: Option<&Load>) -> Option<Check> {
        let (count, max) = self.tracked?;
        let rules = self.rules.unwrap_or_default();
        if max == 0 || (count == 0 && !rules.uses_tracking) {
            return Some(Check::new(&TRACKING, "loaded, tracks nothing"));
        }
        let check = Check::new(&TRACKING, format!("{count} of {max} entries"));
        let percent = count.saturating_mul(100) / max;
        let senders: u64 =
            load.into_iter().flat_map(Load::socket_streams).map(|stream| stream.senders).sum();
        let is_full = percent >= FULL_PERCENT || count.saturating_add(senders) > max;
        if rules.has_notrack && !is_full {
            let effect = "Rules keep packets out of it (notrack); `nft list ruleset` says which.";
            return Some(check.effect(load.map(|_| effect.to_owned())));
        }
        let effect = load.map(|load| {
            let rate = text::hertz(load.packets_per_second());
            format!("{senders} senders more in the table; {rate} look-ups.")
        });
        let is_busy = load.is_none_or(|load| load.packets_per_second() >= TRACKED_HZ_MAX);
        let wanted = ENTRIES_WANTED.max(max.saturating_mul(4));
        let action = Action::sysctl("net.netfilter.nf_conntrack_max", wanted);
        let check = check.warn_if(is_busy).effect(effect);
        let check = if is_full { check.verdict(Verdict::Bad).mend(vec![action]) } else { check };
        Some(check.advise(notrack(load)))
    }
}

/// The commands that keep an experiment's ports out of connection tracking.
fn notrack(load: Option<&Load>) -> String {
    format!(
        "sudo nft 'add table inet fluxline; add chain inet fluxline early {{ type filter hook \
         prerouting priority raw; }}; add rule inet fluxline early udp dport {} notrack'",
        load.map_or_else(|| "PORT".to_owned(), ports)
    )
}

/// The commands that show which rule each datagram meets, until Ctrl-C.
fn trace(load: &Load) -> String {
    format!(
        "sudo nft 'add table inet fluxline; add chain inet fluxline trace {{ type filter hook \
         prerouting priority -350; }}; add rule inet fluxline trace udp dport {} meta nftrace set \
         1'; sudo nft monitor trace; sudo nft delete table inet fluxline",
        ports(load)
    )
}

/// The experiment's ports as `nft` takes them: `6006`, `{ 6006, 6007 }`.
fn ports(load: &Load) -> String {
    let all = load.socket_streams().flat_map(|stream| &stream.listen).map(SocketAddr::port);
    let all: BTreeSet<u16> = all.filter(|port| *port != 0).collect();
    let words: Vec<String> = all.iter().map(ToString::to_string).collect();
    match words.as_slice() {
        [] => "PORT".to_owned(),
        [one] => one.clone(),
        several => format!("{{ {} }}", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(policy: &str, statements: &str) -> Ruleset {
        let json = format!(
            r#"{{"nftables": [{{"chain": {{"hook": "input", "policy": "{policy}"}}}},
                {{"rule": {{"handle": 4, "expr": {statements}}}}}]}}"#
        );
        Ruleset::parse(&json).expect("JSON of nft")
    }

    #[test]
    fn output_that_is_not_of_nft_is_refused() {
        for text in ["", "[]", "{}", "{\"nftables\": 7}"] {
            assert_eq!(Ruleset::parse(text), None, "{text}");
        }
    }

    #[test]
    fn rules_that_may_drop_or_track_are_known_wherever_the_word_is() {
        let accept = r#"[{"counter": {}}, {"accept": null}]"#;
        assert_eq!(rules("accept", accept), Ruleset { count: 1, ..Ruleset::default() });
        assert!(rules("drop", accept).may_drop, "the policy");
        assert!(rules("accept", r#"[{"match": {}}, {"drop": null}]"#).may_drop);
        assert!(rules("accept", r#"[{"jump": {"target": "sub"}}]"#).may_drop);
        let state = r#"[{"match": {"left": {"ct": {"key": "state"}}}}]"#;
        assert!(rules("accept", state).uses_tracking);
        assert!(rules("accept", r#"[{"notrack": null}]"#).has_notrack);
    }
}
