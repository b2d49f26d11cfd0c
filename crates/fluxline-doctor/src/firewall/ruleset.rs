//! The rules of nf_tables, from the JSON that `nft -j list ruleset` prints.
//!
//! Only what a port meets is kept: base chains on the path of a received datagram, and of each
//! rule its verdict and whether the destination port alone decides it. Source: libnftables-json(5).

use std::io;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Programs that print the rules: on the path, or where Debian installs it for root.
const PROGRAMS: [&str; 2] = ["nft", "/usr/sbin/nft"];
/// Hooks that a received datagram passes, in order. Source: nft(8), "ADDRESS FAMILIES".
const HOOKS: [&str; 3] = ["ingress", "prerouting", "input"];

/// The verdict of a rule, as far as a datagram's way depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Accept,
    Drop,
    /// Keeps it out of connection tracking; the next rule is asked.
    NoTrack,
    /// Another chain, a map of verdicts, a queue to a program: either may happen.
    Elsewhere,
}

/// The datagrams that a rule decides on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Applies {
    /// Every one.
    Always,
    /// Those to ports in these ranges, first and last.
    Ports(Vec<(u16, u16)>),
    /// It depends on more than the port.
    Unclear,
}

/// A rule that decides something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// Its number in its table, as `nft -a list ruleset` prints it.
    pub(super) handle: u64,
    pub(super) applies: Applies,
    pub(super) decision: Decision,
}

/// A base chain on the path of a received datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// Family, table and chain, as `nft` takes them.
    pub(super) name: String,
    /// `ip`, `ip6`, `inet`, `netdev` or `bridge`.
    pub(super) family: String,
    /// Datagrams that reach its end are dropped.
    pub(super) policy_drops: bool,
    pub(super) rules: Vec<Rule>,
    /// Place among the hooks, then priority: smaller is asked earlier.
    order: (usize, i64),
}

/// The rules of nf_tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruleset {
    /// In the order in which a datagram meets them.
    pub(super) chains: Vec<Chain>,
    count: u64,
    uses_tracking: bool,
}

impl Ruleset {
    /// Reads the rules that `nft -j list ruleset` printed; `None`: this is not its output.
    #[must_use]
    pub fn parse(json: &str) -> Option<Ruleset> {
        let document: Value = serde_json::from_str(json).ok()?;
        let objects = document.get("nftables")?.as_array()?;
        let mut chains: Vec<Chain> =
            objects.iter().filter_map(|object| chain_of(object.get("chain")?)).collect();
        let rules: Vec<&Value> = objects.iter().filter_map(|object| object.get("rule")).collect();
        for rule in &rules {
            let name = name_of(rule, "chain");
            if let Some(chain) = chains.iter_mut().find(|chain| Some(&chain.name) == name.as_ref())
            {
                chain.rules.extend(rule_of(rule));
            }
        }
        chains.sort_by_key(|chain| chain.order);
        let count = rules.len() as u64;
        Some(Ruleset { chains, count, uses_tracking: rules.iter().any(|rule| has_ct(rule)) })
    }

    /// Returns the number of rules, on any path.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns true if a rule asks for the state of connections.
    #[must_use]
    pub fn uses_tracking(&self) -> bool {
        self.uses_tracking
    }
}

/// The JSON of this network namespace's rules.
///
/// Errors: `NotFound` where `nft` is not installed; `PermissionDenied` without root.
pub(super) fn list() -> io::Result<String> {
    let mut output = Err(io::ErrorKind::NotFound.into());
    for program in PROGRAMS {
        let mut command = Command::new(program);
        output = command.args(["-j", "list", "ruleset"]).stdin(Stdio::null()).output();
        if !matches!(&output, Err(error) if error.kind() == io::ErrorKind::NotFound) {
            break;
        }
    }
    let output = output?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match message.contains("Operation not permitted") {
        true => Err(io::ErrorKind::PermissionDenied.into()),
        false => Err(io::Error::other(message)),
    }
}

fn name_of(object: &Value, key: &str) -> Option<String> {
    let word = |key: &str| object.get(key)?.as_str();
    Some(format!("{} {} {}", word("family")?, word("table")?, word(key)?))
}

/// `None`: not a base chain, or not on the path.
fn chain_of(chain: &Value) -> Option<Chain> {
    let hook = chain.get("hook")?.as_str()?;
    Some(Chain {
        name: name_of(chain, "name")?,
        family: chain.get("family")?.as_str()?.to_owned(),
        policy_drops: chain.get("policy").and_then(Value::as_str) == Some("drop"),
        rules: Vec::new(),
        order: (
            HOOKS.iter().position(|name| *name == hook)?,
            chain.get("prio").and_then(Value::as_i64).unwrap_or(0),
        ),
    })
}

/// `None`: it decides nothing.
fn rule_of(rule: &Value) -> Option<Rule> {
    let statements = rule.get("expr")?.as_array()?;
    let mut applies = Applies::Always;
    for statement in statements {
        let (key, value) = statement.as_object()?.iter().next()?;
        let decision = match key.as_str() {
            "accept" => Decision::Accept,
            "drop" | "reject" => Decision::Drop,
            "notrack" => Decision::NoTrack,
            "jump" | "goto" | "vmap" | "queue" | "dup" | "fwd" | "tproxy" | "redirect" | "dnat" => {
                Decision::Elsewhere
            }
            "return" => return None,
            "counter" | "log" | "comment" | "mangle" => continue,
            "match" if applies == Applies::Always => {
                applies = ports_of(value).map_or(Applies::Unclear, Applies::Ports);
                continue;
            }
            // A second condition, a limit, a set that is changed: more than the port.
            _ => {
                applies = Applies::Unclear;
                continue;
            }
        };
        return Some(Rule { handle: rule.get("handle")?.as_u64()?, applies, decision });
    }
    None
}

/// The ports of a condition that is about the destination port only.
fn ports_of(condition: &Value) -> Option<Vec<(u16, u16)>> {
    let field = condition.get("left")?.get("payload")?;
    let protocol = field.get("protocol")?.as_str()?;
    let is_port = matches!(protocol, "udp" | "th") && field.get("field")? == "dport";
    if !is_port || condition.get("op")? != "==" {
        return None;
    }
    let right = condition.get("right")?;
    match right.get("set").and_then(Value::as_array) {
        Some(elements) => elements.iter().map(range_of).collect(),
        None => Some(vec![range_of(right)?]),
    }
}

fn range_of(ports: &Value) -> Option<(u16, u16)> {
    let port = |value: &Value| u16::try_from(value.as_u64()?).ok();
    match ports.get("range").and_then(Value::as_array).map(Vec::as_slice) {
        Some([first, last]) => Some((port(first)?, port(last)?)),
        Some(_) => None,
        None => port(ports).map(|port| (port, port)),
    }
}

fn has_ct(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.iter().any(|(key, value)| key == "ct" || has_ct(value)),
        Value::Array(list) => list.iter().any(has_ct),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_is_not_of_nft_is_refused_and_strange_rules_are_unclear() {
        assert_eq!(Ruleset::parse(""), None);
        assert_eq!(Ruleset::parse("[]"), None);
        let base = r#"{"chain": {"family": "ip", "table": "t", "name": "c", "hook": "input"}}"#;
        let rule = |statements: &str| {
            let place = r#""family": "ip", "table": "t", "chain": "c", "handle": 4"#;
            format!(r#"{{"nftables": [{base}, {{"rule": {{{place}, "expr": {statements}}}}}]}}"#)
        };
        let applies = |statements: &str| {
            let rules = Ruleset::parse(&rule(statements)).expect("JSON of nft");
            rules.chains[0].rules.first().map(|rule| rule.applies.clone())
        };
        let port = r#"{"match": {"op": "==", "right": 7,
            "left": {"payload": {"protocol": "udp", "field": "dport"}}}}"#;
        assert_eq!(applies(&format!(r#"[{port}, {{"drop": null}}]"#)), Some(ports(7)));
        assert_eq!(applies(&format!(r#"[{port}, {port}, {{"drop": null}}]"#)), Some(unclear()));
        assert_eq!(applies(r#"[{"unheard of": 3}, {"drop": null}]"#), Some(unclear()));
        assert_eq!(applies(r#"[{"counter": {}}]"#), None);
        assert_eq!(applies(r#"[7, {"drop": null}]"#), None);
    }

    fn ports(port: u16) -> Applies {
        Applies::Ports(vec![(port, port)])
    }

    fn unclear() -> Applies {
        Applies::Unclear
    }
}
