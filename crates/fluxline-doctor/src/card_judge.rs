//! Requirements on a network interface that sensors send to.

use super::card::Card;
use super::check::{Check, Verdict};
use super::load::Load;
use super::rule::{Needs, Rule};
use super::setting::{Action, Setting};
use super::text;

/// MTU of jumbo frames \[byte\]. Source: what switches and cards agree on (ESnet fasterdata).
const MTU_JUMBO: u64 = 9_000;
/// MTU of Ethernet \[byte\]. Source: RFC 894.
const MTU_ETHERNET: u64 = 1_500;
/// Heads of IPv4 and UDP \[byte\]. Source: RFC 791, RFC 768.
const HEADS_BYTES: u64 = 28;
/// Longest time that a card may gather packets \[us\]. Assumed: larger is more than a time stamp of
/// arrival should be wrong by, and at 10 Gb/s some hundred frames.
const COALESCING_US_MAX: u32 = 100;
/// The recommended value \[us\]. Assumed: 20 000 interrupts per second at most.
const COALESCING_US_WANTED: u32 = 50;
/// Share of a link that may be planned for. Assumed: heads, gaps and bursts need the rest.
const LINK_SHARE: f64 = 0.9;

static MTU: Rule = Rule {
    name: "mtu",
    title: "MTU",
    why: "A frame longer than the MTU is dropped by the card; small frames cost more CPU.",
    limit: "9000 bytes where boards send jumbo frames, else 1500",
    source: "RFC 894; ESnet fasterdata",
    remedy: "`ip link set … mtu` (switches and boards must agree)",
    needs: Needs::Cards,
};
static SPEED: Rule = Rule {
    name: "link-speed",
    title: "link",
    why: "Packets beyond the rate are lost in the switch, and this host does not count them.",
    limit: "full duplex; with an experiment: its rate in 90 % of the speed",
    source: "assumed: headers, gaps and bursts need the rest",
    remedy: "cable, optics, switch port; `ethtool` shows what was agreed",
    needs: Needs::Cards,
};
static RING: Rule = Rule {
    name: "ring",
    title: "receive ring",
    why: "While the core is busy elsewhere, packets wait in the card's ring or are missed.",
    limit: "the card's maximum",
    source: "ESnet fasterdata; ethtool(8) -G",
    remedy: "ethtool -G (the link may go down for a moment)",
    needs: Needs::Cards,
};
static COALESCING: Rule = Rule {
    name: "coalescing",
    title: "interrupt coalescing",
    why: "The card gathers packets for this time before it interrupts: latency.",
    limit: "at most 100 us, or adaptive",
    source: "assumed; ethtool(8) -C",
    remedy: "ethtool -C",
    needs: Needs::Cards,
};
static GRO: Rule = Rule {
    name: "gro",
    title: "GRO",
    why: "Without it each datagram passes the kernel alone; trains cost much less CPU time.",
    limit: "on",
    source: "docs/benchmarks.md; networking/segmentation-offloads.rst",
    remedy: "ethtool -K",
    needs: Needs::Cards,
};
static CHECKSUM: Rule = Rule {
    name: "rx-checksum",
    title: "receive checksum offload",
    why: "Without it a core reads every byte once more.",
    limit: "on where the card can",
    source: "networking/checksum-offloads.rst",
    remedy: "ethtool -K",
    needs: Needs::Cards,
};
pub(super) static THREADED: Rule = Rule {
    name: "threaded-napi",
    title: "threaded NAPI",
    why: "A thread per queue takes the packets: it competes with a pinned reader on its core.",
    limit: "off, or its threads on other cores than the experiment is pinned to",
    source: "Linux Documentation/networking/napi.rst",
    remedy: "taskset of the threads napi/…, or /sys/class/net/…/threaded",
    needs: Needs::Cards,
};

pub(super) const RULES: &[&Rule] = &[&SPEED, &MTU, &RING, &COALESCING, &GRO, &CHECKSUM, &THREADED];

impl Card {
    pub(super) fn judge(&self, name: &str, load: Option<&Load>, checks: &mut Vec<Check>) {
        checks.extend(self.judge_speed(name, load));
        checks.push(self.judge_mtu(name, load));
        checks.extend(self.judge_ring(name, load));
        checks.extend(self.judge_coalescing(name, load));
        // GRO and checksums of interfaces without a device have no card to relieve.
        if self.is_device {
            checks.extend(self.judge_gro(name));
            checks.extend(self.judge_checksum(name));
        }
    }

    fn judge_speed(&self, name: &str, load: Option<&Load>) -> Option<Check> {
        let bits = self.speed_bits()?;
        let half = self.full_duplex == Some(false);
        let duplex = if half { ", half duplex" } else { "" };
        // Each packet has its heads, and 24 bytes of preamble, gap and check sequence on the wire.
        const WIRE_BYTES: u64 = HEADS_BYTES + 14 + 24;
        let of = |load: &Load| -> f64 {
            let bytes = load.card_streams().map(|stream| {
                stream.packets_per_second() * (stream.packet_bytes + WIRE_BYTES) as f64
            });
            bytes.sum::<f64>() * 8.0
        };
        // A rate that was taken from the link's speed says nothing about it.
        let stated = load.filter(|load| load.assumptions.is_empty()).map(of);
        let full = stated.is_some_and(|wanted| wanted > bits as f64 * LINK_SHARE);
        let effect = stated.map(|wanted| {
            format!("The experiment needs {} of {}.", text::bits(wanted), text::bits(bits as f64))
        });
        Some(
            Check::new(&SPEED, format!("{}{duplex}", text::bits(bits as f64)))
                .of(name)
                .verdict(if half || full { Verdict::Bad } else { Verdict::Good })
                .effect(effect)
                .advise(format!("ethtool {name}  # what was agreed, and what each side offers")),
        )
    }

    fn judge_mtu(&self, name: &str, load: Option<&Load>) -> Check {
        let mtu = self.mtu;
        let longest =
            load.into_iter().flat_map(Load::card_streams).max_by_key(|of| of.packet_bytes);
        let needed = longest.map_or(0, |stream| stream.packet_bytes + HEADS_BYTES);
        let check = Check::new(&MTU, format!("{mtu} bytes")).of(name);
        let action = Action::file(format!("/sys/class/net/{name}/mtu"), MTU_JUMBO);
        let Some(stream) = longest else {
            // A tunnel or a network may need it so: only an experiment is a reason to change it.
            return check.warn_if(mtu < MTU_JUMBO && mtu != MTU_ETHERNET).advise(action.command());
        };
        let fits = needed <= mtu;
        let effect = match fits {
            true => format!("Packets of `{}` are {needed} bytes with their heads.", stream.name),
            false => format!(
                "Packets of `{}` are {needed} bytes with their heads: one that is not cut into \
                 pieces is dropped here; of one that is, each lost piece loses it whole.",
                stream.name
            ),
        };
        let verdict = match (fits, stream.is_size_assumed) {
            (true, _) => Verdict::Good,
            (false, true) => Verdict::Warn,
            (false, false) => Verdict::Bad,
        };
        let check =
            check.wanted(format!("at least {needed} bytes")).verdict(verdict).effect(Some(effect));
        match (needed <= MTU_JUMBO, stream.is_size_assumed) {
            (true, false) => check.mend(vec![action]),
            (true, true) => check.advise(action.command()),
            (false, _) => check.advise("send datagrams of at most 8972 bytes"),
        }
    }

    fn judge_ring(&self, name: &str, load: Option<&Load>) -> Option<Check> {
        let ring = self.ring?;
        let effect = load.map(|load| {
            let lasts = f64::from(ring.now) / load.card_packets_per_second().max(1.0);
            let slots = text::count(ring.now.into());
            format!("{slots} descriptors hold {} of its packets.", text::seconds(lasts))
        });
        let setting = Setting::Ring(name.to_owned());
        Some(
            Check::new(&RING, format!("{} descriptors", ring.now))
                .of(name)
                .wanted(format!("{} descriptors, the card's maximum", ring.max))
                .warn_if(ring.now < ring.max)
                .effect(effect)
                .mend(vec![Action { setting, value: ring.max.to_string() }]),
        )
    }

    fn judge_coalescing(&self, name: &str, load: Option<&Load>) -> Option<Check> {
        let (us, adaptive) = self.coalescing?;
        let effect = load.map(|load| {
            let seconds = f64::from(us) * 1e-6;
            let packets = load.card_packets_per_second() * seconds;
            format!(
                "Adds up to {} to each packet; {} come meanwhile.",
                text::seconds(seconds),
                text::count(packets)
            )
        });
        let found = format!("{us} us{}", if adaptive { ", adaptive" } else { "" });
        let setting = Setting::Coalescing(name.to_owned());
        Some(
            Check::new(&COALESCING, found)
                .of(name)
                .warn_if(us > COALESCING_US_MAX && !adaptive)
                .effect(effect)
                .mend(vec![Action { setting, value: COALESCING_US_WANTED.to_string() }]),
        )
    }

    fn judge_gro(&self, name: &str) -> Option<Check> {
        let on = self.gro?;
        let setting = Setting::Gro(name.to_owned());
        Some(
            Check::new(&GRO, if on { "on" } else { "off" })
                .of(name)
                .warn_if(!on)
                .mend(vec![Action { setting, value: "1".into() }]),
        )
    }

    fn judge_checksum(&self, name: &str) -> Option<Check> {
        let on = self.receive_checksum?;
        Some(
            Check::new(&CHECKSUM, if on { "on" } else { "off" })
                .of(name)
                .warn_if(!on)
                .advise(format!("sudo ethtool -K {name} rx on")),
        )
    }
}
