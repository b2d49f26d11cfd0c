//! The way to the sensors: the longest packet that passes it whole.

use std::net::IpAddr;

use super::check::{Check, Verdict};
use super::files::Files;
use super::load::Load;
use super::rule::{Needs, Rule};
use fluxline::host;

/// Heads of IPv4 and UDP \[byte\]; IPv6's is 20 longer. Source: RFC 791, RFC 8200, RFC 768.
const HEADS_BYTES: u64 = 28;

static PATH_MTU: Rule = Rule {
    name: "path-mtu",
    title: "path MTU",
    why: "Longer packets are fragmented, or dropped silently on the way.",
    limit: "the experiment's packets with their headers",
    source: "RFC 1191; what this host has learnt (IP_MTU), the way back may differ",
    remedy: "`tracepath` names the narrow place; shorter packets",
    needs: Needs::Cards,
};

pub(super) const RULES: &[&Rule] = &[&PATH_MTU];

/// Routes to the sensors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// The kernel's MTU of the path to each sensor \[byte\]; `None`: no route.
    pub mtus: Vec<(IpAddr, Option<u32>)>,
}

impl Paths {
    /// No file says it.
    pub(super) fn read(_: &Files) -> Paths {
        Paths::default()
    }

    pub(super) fn ask_kernel(&mut self, load: Option<&Load>) {
        let peers = load.into_iter().flat_map(|load| &load.streams).flat_map(|of| &of.peers);
        let mut peers: Vec<IpAddr> = peers.copied().filter(|peer| !peer.is_loopback()).collect();
        peers.sort_unstable();
        peers.dedup();
        self.mtus = peers.into_iter().map(|peer| (peer, host::path_mtu(peer))).collect();
    }

    pub(super) fn judge(&self, load: Option<&Load>, checks: &mut Vec<Check>) {
        for (peer, mtu) in &self.mtus {
            let streams = load.into_iter().flat_map(|load| &load.streams);
            let of = streams.filter(|stream| stream.peers.contains(peer));
            let heads = if peer.is_ipv6() { HEADS_BYTES + 20 } else { HEADS_BYTES };
            let needed = of.map(|stream| stream.packet_bytes + heads).max().unwrap_or(0);
            let check = match mtu {
                None => Check::new(&PATH_MTU, "no route")
                    .verdict(Verdict::Bad)
                    .effect(Some(format!("No answer of this host reaches {peer}.")))
                    .advise(format!("ip route get {peer}")),
                Some(mtu) => Check::new(&PATH_MTU, format!("{mtu} bytes"))
                    .wanted(format!("at least {needed} bytes"))
                    .verdict(if u64::from(*mtu) < needed { Verdict::Bad } else { Verdict::Good })
                    .effect(Some(format!("Its packets are {needed} bytes with their heads.")))
                    .advise(format!("tracepath -n {peer}")),
            };
            checks.push(check.of(&peer.to_string()));
        }
    }
}
