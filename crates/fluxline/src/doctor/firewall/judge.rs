//! The rules as an experiment meets them: which of its datagrams they keep from it.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use super::packet::Datagram;
use super::ruleset::Ruleset;
use super::walk::{End, Fate, Perhaps, chain_name, fate};
use crate::doctor::check::Verdict;
use crate::doctor::facts::HostFacts;
use crate::doctor::load::{Load, Stream};

/// Most kinds of datagrams that are walked through the rules: ports, interfaces, senders.
const DATAGRAMS_MAX: usize = 4096;
/// The number of the loopback interface. Source: net/core/dev.c, LOOPBACK_IFINDEX.
const LOOPBACK_INDEX: u32 = 1;

/// What the rules do to an experiment.
#[derive(Clone, Debug, Default)]
pub(super) struct Met {
    /// The worst of it.
    pub(super) verdict: Option<Verdict>,
    /// In words.
    pub(super) effect: String,
    /// What lets its datagrams through.
    pub(super) remedy: Option<String>,
    /// Most rules that look at one of its datagrams.
    pub(super) asked: u64,
    /// All of them are kept out of connection tracking.
    pub(super) untracked: bool,
}

/// Walks every kind of datagram of an experiment through the rules.
pub(super) fn meet(rules: &Ruleset, facts: &HostFacts, load: &Load) -> Met {
    let all: Vec<(Datagram, Fate)> = datagrams(facts, load)
        .into_iter()
        .map(|datagram| {
            let fate = fate(rules, &datagram);
            (datagram, fate)
        })
        .collect();
    let lost: Vec<_> = all.iter().filter(|(_, fate)| verdict(fate) == Verdict::Bad).collect();
    let unsure: Vec<_> = all.iter().filter(|(_, fate)| verdict(fate) == Verdict::Warn).collect();
    let asked = all.iter().map(|(_, fate)| fate.asked).max().unwrap_or(0);
    let mut met = Met {
        verdict: all.iter().map(|(_, fate)| verdict(fate)).max(),
        effect: format!("Its datagrams get through; at most {asked} rules look at one."),
        remedy: None,
        asked,
        untracked: !all.is_empty() && all.iter().all(|(_, fate)| fate.untracked),
    };
    let worst = if lost.is_empty() { &unsure } else { &lost };
    if let Some((datagram, fate)) = worst.first() {
        met.effect = sentence(datagram, fate);
        let ports = ports(worst.iter().map(|(datagram, _)| datagram));
        if ports.len() > 1 {
            met.effect.push_str(&format!(" So do ports {}.", list(&ports, 8)));
        }
        met.remedy = remedy(fate, &ports);
    }
    met
}

/// What comes to the experiment's sockets, through each interface that it may come through.
fn datagrams(facts: &HostFacts, load: &Load) -> BTreeSet<Datagram> {
    let mut all = BTreeSet::new();
    for stream in load.socket_streams() {
        for at in &stream.listen {
            for datagram in datagrams_to(facts, stream, *at) {
                if all.len() == DATAGRAMS_MAX {
                    return all;
                }
                all.insert(datagram);
            }
        }
    }
    all
}

fn datagrams_to(facts: &HostFacts, stream: &Stream, at: SocketAddr) -> Vec<Datagram> {
    let to = at.ip();
    let port = Some(at.port()).filter(|port| *port != 0);
    let of = |interface: &str, index, to: Option<IpAddr>, from: Option<IpAddr>, is_v6| Datagram {
        interface: interface.to_owned(),
        index,
        is_v6,
        from,
        to,
        port,
    };
    if to.is_loopback() {
        return vec![of("lo", Some(LOOPBACK_INDEX), Some(to), Some(to), to.is_ipv6())];
    }
    let mut all = Vec::new();
    for (name, card) in facts.cards.iter().filter(|(_, card)| card.up) {
        if !facts.carries(name, stream, to) {
            continue;
        }
        // A socket for any IPv6 address takes IPv4 as well.
        let families: &[bool] = match to {
            IpAddr::V6(to) if to.is_unspecified() => &[false, true],
            to if to.is_ipv6() => &[true],
            _ => &[false],
        };
        for &is_v6 in families {
            let own = card.addresses.iter().copied().find(|own| own.is_ipv6() == is_v6);
            let to = Some(to).filter(|to| !to.is_unspecified()).or(own);
            let peers = || stream.peers.iter().copied().filter(|peer| peer.is_ipv6() == is_v6);
            all.extend(peers().map(|from| of(name, card.index, to, Some(from), is_v6)));
            if peers().next().is_none() {
                all.push(of(name, card.index, to, None, is_v6));
            }
        }
    }
    all
}

fn verdict(fate: &Fate) -> Verdict {
    match (&fate.lost, fate.perhaps.is_empty()) {
        (None, true) => Verdict::Good,
        (Some(_), true) => Verdict::Bad,
        (_, false) => Verdict::Warn,
    }
}

/// One sentence: what, by which rule, on what it depends.
fn sentence(datagram: &Datagram, fate: &Fate) -> String {
    let port = match datagram.port {
        Some(port) => format!("What is sent to port {port} through {}", datagram.interface),
        None => format!("What is sent to it through {}", datagram.interface),
    };
    let word = |end: End| match end {
        End::Accepted => "let through",
        End::Dropped => "dropped",
        End::Refused => "refused",
        End::Elsewhere => "sent elsewhere",
    };
    let depends = |perhaps: &Perhaps| match perhaps.on.iter().find(|on| on.starts_with("not ")) {
        Some(what) => what.clone(),
        None => format!("that depends on {}", perhaps.on.join(" and ")),
    };
    match (&fate.lost, fate.perhaps.first()) {
        (Some((end, place)), None) => {
            let place = place.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("{port} is {} by {place}.", word(*end))
        }
        (Some((end, place)), Some(perhaps)) => {
            let place = place.as_ref().map(ToString::to_string).unwrap_or_default();
            let (end, by) = (word(*end), &perhaps.place);
            format!(
                "{port} is {end} by {place}, if not {} by {by}: {}.",
                word(perhaps.end),
                depends(perhaps)
            )
        }
        (None, Some(perhaps)) => {
            let (end, by) = (word(perhaps.end), &perhaps.place);
            format!("{port} may be {end} by {by}: {}.", depends(perhaps))
        }
        (None, None) => String::new(),
    }
}

/// A rule before all others of the hook's chain that lets these ports through.
fn remedy(fate: &Fate, ports: &BTreeSet<u16>) -> Option<String> {
    let place = match &fate.lost {
        Some((_, place)) => place.as_ref(),
        None => fate.perhaps.first().map(|perhaps| &perhaps.place),
    }?;
    if ports.is_empty() {
        return None;
    }
    let chain = chain_name(&place.base);
    Some(format!("sudo nft insert rule {chain} udp dport {} accept", ports_of_nft(ports)))
}

/// The ports that are known.
pub(super) fn ports<'a>(datagrams: impl Iterator<Item = &'a Datagram>) -> BTreeSet<u16> {
    datagrams.filter_map(|datagram| datagram.port).collect()
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
