//! Ethernet in scenario files and URLs: the same keys.

use serde::{Deserialize, Serialize};

use super::host::HostPart;
use super::url_parts::{Keys, OpenError, UrlFaults, keys_behind};
use crate::Duration;
use crate::net::ethernet::cluster::{self, HostCost};
use crate::net::ethernet::{Config, Faults, Forwarding, Pause, host};

/// The keys of a URL, in the order of the manual.
const KEYS: &str = "nodes, rate, mtu, queue, forwarding, pause, xoff, xon, mark, cable, switch, \
                    cpu-frame, cpu-byte, host, coalescing, coalescing-us, cores, send-buffer, \
                    receive-buffer, driver-queue, ring, backlog, seed, fault, dump";
/// The default number of nodes of a URL. A choice.
const NODES: u32 = 2;
const FAULT: &str = "bits:1e-9 (the chance of a wrong bit on a link), loss:0.01 (of a frame on its \
                     way to a node), host:3@1ms, power:3@1ms, restart:3@2ms, cable:3@1ms or \
                     repair:3@2ms, joined by commas";
const RATE: &str = "a rate such as 100M, 1G, 2.5G, 10G, 25G, 40G or 100G";

/// The behaviour of the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardingName {
    /// A frame is forwarded when all of it has arrived.
    #[default]
    Store,
    /// A frame is forwarded when its header has arrived.
    Cut,
}

/// True or false, as `on` or `off`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Switched {
    /// It is switched on.
    On,
    /// It is switched off.
    #[default]
    Off,
}

/// The links and the switch of an Ethernet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct EthernetPart {
    /// The rate of a link, such as `10G` \[bit/s\].
    pub rate: String,
    /// The longest IP packet of a frame \[byte\].
    pub mtu: u32,
    /// The queue of each port of the switch \[byte\].
    pub queue: u64,
    /// The behaviour of the switch.
    pub forwarding: ForwardingName,
    /// Pause frames.
    pub pause: Switched,
    /// Queued bytes above which the switch stops senders \[byte\].
    pub xoff: Option<u64>,
    /// Queued bytes at which it lets them go on \[byte\].
    pub xon: Option<u64>,
    /// Queued bytes above which it marks frames \[byte\].
    pub mark: Option<u64>,
    /// The length of a cable \[m\].
    pub cable: f64,
    /// The delay of the switch \[ns\].
    pub switch: f64,
}

impl Default for EthernetPart {
    fn default() -> EthernetPart {
        EthernetPart {
            rate: "10G".into(),
            mtu: 1500,
            queue: 512 << 10,
            forwarding: ForwardingName::Store,
            pause: Switched::Off,
            xoff: None,
            xon: None,
            mark: None,
            cable: 2.0,
            switch: 1000.0,
        }
    }
}

/// The delay of a cable \[ps/m\]. Source: light in fibre, an index of 1.5; copper differs by 10 %.
const CABLE_PS_PER_M: f64 = 5000.0;
/// The longest cable \[m\], and the longest delay of a switch \[ns\]. A choice.
const LONGEST: f64 = 1e6;

impl EthernetPart {
    /// Returns the rate of a link \[bit/s\]; 0: it is not readable.
    pub(super) fn bits_per_s(&self) -> u64 {
        rate_of(&self.rate).unwrap_or(0)
    }

    /// Returns the configuration of the network, or the mistake in one sentence.
    pub(super) fn config(&self, nodes: u32, faults: Faults, seed: u64) -> Result<Config, String> {
        if rate_of(&self.rate).is_none() {
            return Err(format!("`ethernet.rate` is {:?}; write {RATE}.", self.rate));
        }
        for (key, value) in [("cable", self.cable), ("switch", self.switch)] {
            if !(0.0..=LONGEST).contains(&value) {
                return Err(format!("`ethernet.{key}` is {value}; write 0 to {LONGEST}."));
            }
        }
        let forwarding = match self.forwarding {
            ForwardingName::Store => Forwarding::StoreAndForward,
            ForwardingName::Cut => Forwarding::CutThrough,
        };
        let network = Config {
            bits_per_s: self.bits_per_s(),
            mtu: self.mtu,
            queue_bytes: self.queue,
            forwarding,
            pause: None,
            mark_bytes: self.mark,
            cable: Duration::from_ps((self.cable * CABLE_PS_PER_M) as u64),
            switch_latency: Duration::from_ps((self.switch * 1e3) as u64),
            faults,
            seed,
            ..Config::new(nodes)
        };
        network.check().map_err(|error| format!("`ethernet`: {error}."))?;
        let pause = self.pause(&network)?;
        let network = Config { pause, ..network };
        network.check().map_err(|error| format!("`ethernet`: {error}."))?;
        Ok(network)
    }

    /// Returns the thresholds of pause frames.
    fn pause(&self, network: &Config) -> Result<Option<Pause>, String> {
        if self.pause == Switched::Off {
            if self.xoff.is_some() || self.xon.is_some() {
                return Err("`ethernet.xoff` and `ethernet.xon` have no effect without pause = \
                            \"on\"; add it, or leave them out."
                    .into());
            }
            return Ok(None);
        }
        let xoff_bytes = match (self.xoff, network.lossless_pause()) {
            (Some(xoff), _) => xoff,
            (None, Some(pause)) => pause.xoff_bytes,
            (None, None) => {
                let senders = u64::from(network.nodes - 1);
                let least = senders * network.headroom_bytes() + 1;
                return Err(format!(
                    "`ethernet.queue` of {} bytes may lose frames although pause is on: {senders} \
                     senders need {least}; write that, or a threshold of your own in \
                     `ethernet.xoff`.",
                    self.queue
                ));
            }
        };
        Ok(Some(Pause { xoff_bytes, xon_bytes: self.xon.unwrap_or(xoff_bytes / 2) }))
    }
}

/// Reads a rate such as `2.5G`.
fn rate_of(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match unit {
        "M" => 1e6,
        "G" => 1e9,
        _ => return None,
    };
    let rate = number.parse::<f64>().ok()? * unit;
    (1.0..=1e15).contains(&rate).then_some(rate as u64)
}

/// Returns true if a URL is for an Ethernet.
pub(super) fn is_ethernet(url: &str) -> bool {
    url.split('?').next() == Some("sim:ethernet")
}

/// Returns the keys of a URL.
pub(super) fn ethernet_keys(url: &str) -> Result<Keys<'_>, OpenError> {
    keys_behind(url, "sim:ethernet", KEYS)
}

/// The cluster of a URL, with its number of nodes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Described {
    pub nodes: u32,
    pub seed: u64,
    pub part: EthernetPart,
    pub config: cluster::Config,
}

/// Reads the URL of a cluster on Ethernet.
pub(super) fn describe(url: &str) -> Result<Described, OpenError> {
    let keys = ethernet_keys(url)?;
    let usual = EthernetPart::default();
    let whole = "a whole number of bytes";
    let bytes = |key| keys.find(key).map(|_| keys.number(key, 0, whole)).transpose();
    let nodes = keys.number("nodes", NODES.into(), "2 to 4096")?;
    let nodes = u32::try_from(nodes).map_err(|_| keys.refused("nodes", "2 to 4096"))?;
    let seed = keys.number("seed", 1, "a whole number")?;
    let mtu = keys.number("mtu", usual.mtu.into(), "156 to 9216")?;
    let part = EthernetPart {
        rate: keys.find("rate").unwrap_or(&usual.rate).to_owned(),
        mtu: u32::try_from(mtu).map_err(|_| keys.refused("mtu", "156 to 9216"))?,
        queue: keys.number("queue", usual.queue, whole)?,
        forwarding: match keys.find("forwarding") {
            None | Some("store") => ForwardingName::Store,
            Some("cut") => ForwardingName::Cut,
            Some(_) => return Err(keys.refused("forwarding", "store or cut")),
        },
        pause: match keys.find("pause") {
            None | Some("off") => Switched::Off,
            Some("on") => Switched::On,
            Some(_) => return Err(keys.refused("pause", "on or off")),
        },
        xoff: bytes("xoff")?,
        xon: bytes("xon")?,
        mark: bytes("mark")?,
        cable: keys.amount("cable", usual.cable, "a length in metres")?,
        switch: keys.amount("switch", usual.switch, "a time in nanoseconds")?,
    };
    let UrlFaults { bits, loss, list } = keys.faults(FAULT)?;
    let random = Faults { bit_error_rate: bits, loss };
    let network = part.config(nodes, random, seed).map_err(OpenError::Ethernet)?;
    let ps = |key| keys.amount(key, 0.0, "a time in nanoseconds");
    let span = |ns: f64| Duration::from_ps((ns * 1e3) as u64);
    let host = HostCost { frame: span(ps("cpu-frame")?), byte: span(ps("cpu-byte")?) };
    let machine = machine(&keys, mtu, host)?;
    let config = cluster::Config { host, machine, faults: list, ..cluster::Config::new(network) };
    Ok(Described { nodes, seed, part, config })
}

/// Reads the PC of every node.
fn machine(keys: &Keys<'_>, mtu: u64, cost: HostCost) -> Result<Option<host::Config>, OpenError> {
    let part = HostPart::of_url(keys)?;
    if let Some(key) = part.idle_key(keys) {
        let problem = format!("{key} has no effect without host; write host=pci-e, for example");
        return Err(OpenError::Ethernet(problem));
    }
    let machine = part.config(mtu as u32).map_err(OpenError::Ethernet)?;
    if machine.is_some() && !cost.is_zero() {
        let problem = "host, and cpu-frame or cpu-byte, both describe the hosts; leave one out";
        return Err(OpenError::Ethernet(problem.into()));
    }
    Ok(machine)
}

#[cfg(test)]
mod tests {
    use super::{describe, rate_of};
    use crate::net::ethernet::Forwarding;
    use crate::world::Cluster;

    #[test]
    fn rates_are_read_with_their_unit() {
        let known = [("10G", 10_000_000_000), ("2.5G", 2_500_000_000), ("100M", 100_000_000)];
        for (text, rate) in known {
            assert_eq!(rate_of(text), Some(rate));
        }
        for wrong in ["", "G", "10", "10g", "-1G", "NaNG", "1e99G", "\u{fc}", "10\u{fc}"] {
            assert_eq!(rate_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_keys_of_a_url_are_in_the_configuration() {
        let usual = describe("sim:ethernet").expect("right");
        assert_eq!((usual.nodes, usual.seed), (2, 1));
        let url = "sim:ethernet?nodes=4&rate=100G&mtu=9000&queue=1000000&forwarding=cut&pause=on&\
                   xoff=400000&mark=200000&cable=10&switch=300&cpu-frame=250&cpu-byte=0.1&seed=9&\
                   fault=bits:1e-9,loss:0.01,cable:3@1ms";
        let found = describe(url).expect("right");
        let network = &found.config.network;
        assert_eq!((network.nodes, network.mtu, network.seed), (4, 9000, 9));
        assert_eq!(network.forwarding, Forwarding::CutThrough);
        assert_eq!(network.pause.map(|of| (of.xoff_bytes, of.xon_bytes)), Some((400_000, 200_000)));
        assert_eq!((network.cable.as_ps(), network.switch_latency.as_ps()), (50_000, 300_000));
        assert_eq!(network.byte_time().as_ps(), 80);
        assert_eq!(
            (found.config.host.frame.as_ps(), found.config.host.byte.as_ps()),
            (250_000, 100)
        );
        assert_eq!((network.faults.bit_error_rate, network.faults.loss), (1e-9, 0.01));
        assert_eq!(found.config.faults.len(), 1);
    }

    #[test]
    fn a_wrong_url_is_answered_with_one_sentence_that_says_what_to_write() {
        for (url, says) in [
            ("sim:ethernets", "write sim:sci"),
            ("sim:ethernet?", "its keys are nodes, rate"),
            ("sim:ethernet?model=lc2", "its keys are nodes, rate"),
            ("sim:ethernet?nodes=2&nodes=2", "nodes is given twice"),
            ("sim:ethernet?nodes=1", "2 to 4096 nodes"),
            ("sim:ethernet?nodes=99999999999", "2 to 4096"),
            ("sim:ethernet?rate=10", "a rate such as 100M"),
            ("sim:ethernet?rate=3G", "write 100M"),
            ("sim:ethernet?mtu=60", "an MTU of 60 bytes"),
            ("sim:ethernet?mtu=100", "write 156 or more"),
            ("sim:ethernet?queue=1000", "holds no frame of 1518"),
            ("sim:ethernet?queue=-1", "a whole number of bytes"),
            ("sim:ethernet?forwarding=fast", "store or cut"),
            ("sim:ethernet?pause=maybe", "on or off"),
            ("sim:ethernet?xoff=1000", "no effect without pause"),
            ("sim:ethernet?pause=on&nodes=100", "99 senders need"),
            ("sim:ethernet?pause=on&xoff=100&xon=200", "not above the XOFF threshold"),
            ("sim:ethernet?pause=on&xoff=99999999", "at most the queue"),
            ("sim:ethernet?cable=-1", "a length in metres"),
            ("sim:ethernet?switch=NaN", "a time in nanoseconds"),
            ("sim:ethernet?cpu-frame=inf", "a time in nanoseconds"),
            ("sim:ethernet?fault=loss:1", "loss:0.01"),
            ("sim:ethernet?fault=fire:1@1ms", "restart:3@2ms"),
            ("sim:ethernet?fault=host:2@1ms", "nodes are 0 to 1"),
            ("sim:ethernet?fault=cut:0-1@1ms", "no links between routers"),
            ("sim:ethernet?dump=no/such/folder/x.pcapng", "name a file that does not exist yet"),
        ] {
            let error = Cluster::open(url).err().map(|error| error.to_string());
            let error = error.unwrap_or_default();
            assert!(error.contains(says) && !error.contains('\n'), "{url}: {error}");
        }
    }
}
