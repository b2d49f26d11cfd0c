//! The rules' treatment of an experiment's ports: let through, dropped, or undecidable.
//!
//! Rules that depend on more than the port are not evaluated: a chain that has one is judged "may",
//! and the advice is the kernel's own trace, which names the rule that a real datagram meets.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use super::ruleset::{Applies, Chain, Decision, Ruleset};
use crate::check::Verdict;
use crate::load::Load;

/// The effects of the rules on an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Met {
    /// The worst of it.
    pub(super) verdict: Verdict,
    /// One sentence.
    pub(super) effect: String,
    /// The command that lets its ports through, or shows the rule that drops them.
    pub(super) remedy: Option<String>,
    /// All of its ports are kept out of connection tracking.
    pub(super) untracked: bool,
}

/// The fate of datagrams to a port.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate<'a> {
    Passes,
    MayBeDropped {
        chain: &'a Chain,
    },
    /// `rule`: its handle; none: the chain's policy.
    Dropped {
        chain: &'a Chain,
        rule: Option<u64>,
    },
}

/// The experiment's ports, judged by the rules.
pub(super) fn meet(rules: &Ruleset, load: &Load) -> Met {
    let ports = ports_of(load);
    let chains: Vec<&Chain> =
        rules.chains.iter().filter(|chain| concerns(&chain.family, load)).collect();
    let fates: Vec<(u16, Fate<'_>)> =
        ports.iter().map(|port| (*port, fate(&chains, *port))).collect();
    let untracked = !ports.is_empty() && ports.iter().all(|port| is_untracked(&chains, *port));
    let those = |wanted: fn(&Fate<'_>) -> bool| -> BTreeSet<u16> {
        fates.iter().filter(|(_, fate)| wanted(fate)).map(|(port, _)| *port).collect()
    };
    let dropped = those(|fate| matches!(fate, Fate::Dropped { .. }));
    let unsure = those(|fate| matches!(fate, Fate::MayBeDropped { .. }));
    let ports = if dropped.is_empty() { &unsure } else { &dropped };
    let worst = fates.iter().find(|(port, _)| ports.contains(port)).map(|(_, fate)| fate);
    let words = list(ports, 8);
    let (verdict, effect, remedy) = match worst {
        None | Some(Fate::Passes) => (Verdict::Good, "No rule drops its ports.".to_owned(), None),
        Some(Fate::Dropped { chain, rule }) => {
            let by = match rule {
                Some(handle) => format!("Rule {handle} of chain {}", chain.name),
                None => format!("The policy of chain {}", chain.name),
            };
            let ports = ports_of_nft(ports);
            let command = format!("sudo nft insert rule {} udp dport {ports} accept", chain.name);
            (Verdict::Bad, format!("{by} drops port {words}."), Some(command))
        }
        Some(Fate::MayBeDropped { chain }) => {
            let effect = format!(
                "Chain {} may drop port {words}: that depends on more than the port.",
                chain.name
            );
            (Verdict::Warn, effect, Some(trace(ports)))
        }
    };
    Met { verdict, effect, remedy, untracked }
}

/// Walks the chains; the first that surely or perhaps drops the port decides.
fn fate<'a>(chains: &[&'a Chain], port: u16) -> Fate<'a> {
    let mut perhaps = None;
    for chain in chains {
        match fate_in(chain, port) {
            Fate::Passes => {}
            Fate::MayBeDropped { chain } => perhaps = perhaps.or(Some(chain)),
            Fate::Dropped { chain, rule } => return Fate::Dropped { chain, rule },
        }
    }
    perhaps.map_or(Fate::Passes, |chain| Fate::MayBeDropped { chain })
}

fn fate_in(chain: &Chain, port: u16) -> Fate<'_> {
    // Chains of netdev and bridge are for interfaces that the experiment may not use.
    let is_for_all = matches!(chain.family.as_str(), "ip" | "ip6" | "inet");
    let (mut may_accept, mut may_drop) = (!is_for_all, false);
    for rule in &chain.rules {
        let is_sure = match &rule.applies {
            Applies::Always => true,
            Applies::Ports(ranges) => {
                if !ranges.iter().any(|(first, last)| (*first..=*last).contains(&port)) {
                    continue;
                }
                true
            }
            Applies::Unclear => false,
        };
        match (rule.decision, is_sure) {
            (Decision::NoTrack, _) => {}
            (Decision::Accept, true) if may_drop => return Fate::MayBeDropped { chain },
            (Decision::Accept, true) => return Fate::Passes,
            (Decision::Drop, true) if may_accept => return Fate::MayBeDropped { chain },
            (Decision::Drop, true) => return Fate::Dropped { chain, rule: Some(rule.handle) },
            (Decision::Accept, false) => may_accept = true,
            (Decision::Drop, false) => may_drop = true,
            (Decision::Elsewhere, _) => (may_accept, may_drop) = (true, true),
        }
    }
    match (chain.policy_drops, may_accept, may_drop) {
        (true, false, _) => Fate::Dropped { chain, rule: None },
        (true, true, _) | (false, _, true) => Fate::MayBeDropped { chain },
        (false, _, false) => Fate::Passes,
    }
}

fn is_untracked(chains: &[&Chain], port: u16) -> bool {
    chains.iter().flat_map(|chain| &chain.rules).any(|rule| {
        rule.decision == Decision::NoTrack
            && match &rule.applies {
                Applies::Always => true,
                Applies::Ports(ranges) => {
                    ranges.iter().any(|(first, last)| (*first..=*last).contains(&port))
                }
                Applies::Unclear => false,
            }
    })
}

/// Returns true if a chain of that family may meet the experiment's datagrams.
fn concerns(family: &str, load: &Load) -> bool {
    let mut addresses = load.socket_streams().flat_map(|stream| &stream.listen).map(SocketAddr::ip);
    match family {
        "ip6" => addresses.any(|address| address.is_ipv6()),
        // A socket for any IPv6 address takes IPv4 as well.
        "ip" => addresses.any(|address: IpAddr| address.is_ipv4() || address.is_unspecified()),
        _ => true,
    }
}

/// The commands that show which rule each datagram meets, until Ctrl-C.
fn trace(ports: &BTreeSet<u16>) -> String {
    let ports = ports_of_nft(ports).replace('\'', "");
    format!(
        "sudo nft 'add table inet fluxline; add chain inet fluxline trace {{ type filter hook \
         prerouting priority -350; }}; add rule inet fluxline trace udp dport {ports} meta \
         nftrace set 1'; sudo nft monitor trace; sudo nft delete table inet fluxline"
    )
}

/// The experiment's ports.
pub(super) fn ports_of(load: &Load) -> BTreeSet<u16> {
    let all = load.socket_streams().flat_map(|stream| &stream.listen);
    all.map(SocketAddr::port).filter(|port| *port != 0).collect()
}

/// As `nft` takes them: `6006`, `'{ 6006, 6007 }'` quoted for a shell.
pub(super) fn ports_of_nft(ports: &BTreeSet<u16>) -> String {
    match ports.len() {
        1 => list(ports, 1),
        _ => format!("'{{ {} }}'", list(ports, usize::MAX)),
    }
}

fn list(ports: &BTreeSet<u16>, shown: usize) -> String {
    let all: Vec<String> = ports.iter().take(shown).map(ToString::to_string).collect();
    let more = if ports.len() > shown { ", …" } else { "" };
    format!("{}{more}", all.join(", "))
}
