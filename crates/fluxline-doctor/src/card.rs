//! Facts about network interfaces: files of /sys/class/net, and the answers of drivers.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::files::Files;
use fluxline::host::{ethtool, interface};

/// One network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// Its number, as rules and routes know it.
    pub index: Option<u32>,
    /// Its MTU \[byte\].
    pub mtu: u64,
    /// Its operational state is `up`, or unknown with a carrier (as of veth and tunnels).
    pub up: bool,
    /// The speed that the link reports \[Mb/s\].
    pub speed_mbits: Option<u64>,
    /// Both ways at once.
    pub full_duplex: Option<bool>,
    /// It is of a device (a card, a virtual machine's), not made by the kernel alone.
    pub is_device: bool,
    /// Name of its device, as interrupts call it where not by the interface's name.
    pub device: Option<String>,
    /// Numbers of its interrupts, where the bus says them.
    pub interrupts: Vec<u64>,
    /// Receive queues: the cores that each is spread to (RPS), as the mask is written.
    pub rps: Vec<String>,
    /// NAPI runs in threads of its own.
    pub threaded: Option<bool>,
    /// Own addresses.
    pub addresses: Vec<IpAddr>,
    /// Receive descriptors in use and possible.
    pub ring: Option<InUse>,
    /// Receive queues in use and possible.
    pub channels: Option<InUse>,
    /// The time that it gathers packets \[us\], and whether it adapts that itself.
    pub coalescing: Option<(u32, bool)>,
    /// The kernel joins packets of one sender.
    pub gro: Option<bool>,
    /// The card checks checksums.
    pub receive_checksum: Option<bool>,
    /// The driver's own counters of drops that are not zero, by name.
    pub drops: BTreeMap<String, u64>,
}

/// A number in use, and the number possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// In use.
    pub now: u32,
    /// The largest possible value.
    pub max: u32,
}

impl Card {
    /// All interfaces but loopback.
    pub(super) fn read_all(files: &Files) -> BTreeMap<String, Card> {
        let names = files.names("/sys/class/net").into_iter().filter(|name| name != "lo");
        names.map(|name| (name.clone(), Card::read(files, &name))).collect()
    }

    pub(super) fn read(files: &Files, name: &str) -> Card {
        let at = |file: &str| format!("/sys/class/net/{name}/{file}");
        let state = files.text(&at("operstate")).unwrap_or_default();
        let carrier = files.number(&at("carrier")) == Some(1);
        let queues = files.names(&at("queues")).into_iter().filter(|name| name.starts_with("rx-"));
        let device = files.link_name(&at("device"));
        let numbers = files.names(&at("device/msi_irqs"));
        Card {
            index: files.number(&at("ifindex")).and_then(|index| index.try_into().ok()),
            mtu: files.number(&at("mtu")).unwrap_or(0),
            up: state == "up" || (state == "unknown" && carrier),
            // -1 or nothing where the link is down or has no speed.
            speed_mbits: files.number(&at("speed")).filter(|speed| *speed > 0),
            full_duplex: files
                .text(&at("duplex"))
                .filter(|word| word != "unknown")
                .map(|word| word == "full"),
            is_device: device.is_some(),
            device,
            interrupts: numbers.iter().filter_map(|name| name.parse().ok()).collect(),
            rps: queues
                .filter_map(|queue| files.text(&at(&format!("queues/{queue}/rps_cpus"))))
                .collect(),
            threaded: files.number(&at("threaded")).map(|value| value != 0),
            ..Card::default()
        }
    }

    /// Returns the speed of the link \[bit/s\].
    pub(super) fn speed_bits(&self) -> Option<u64> {
        self.speed_mbits.map(|mbits| mbits.saturating_mul(1_000_000))
    }

    /// Asks the driver for what no file says.
    pub(super) fn ask_driver(&mut self, name: &str) {
        let in_use = |ring: ethtool::CardRing| InUse { now: ring.now, max: ring.max };
        let there = |in_use: &InUse| in_use.max > 0;
        self.ring = ethtool::ring(name).ok().map(in_use).filter(there);
        self.channels = ethtool::channels(name).ok().map(in_use).filter(there);
        self.coalescing = ethtool::coalescing(name).ok().map(|of| (of.us, of.adaptive));
        self.gro = ethtool::gro(name).ok();
        self.receive_checksum = ethtool::receive_checksum(name).ok();
        let all = ethtool::statistics(name).unwrap_or_default();
        self.drops = all.into_iter().filter(|(name, count)| *count > 0 && is_drop(name)).collect();
    }
}

/// Returns true if a driver's counter counts received packets that were lost. Drivers name them
/// freely; assumed from the names of ixgbe, i40e, ice, mlx5, bnxt, ena, virtio_net: drop, miss,
/// discard, no buffer, overflow.
fn is_drop(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let lost = ["drop", "miss", "discard", "no_buf", "nobuf", "out_of_buffer", "overflow"];
    // What an XDP program throws away is thrown away on purpose.
    let other = ["tx", "xdp", "cache"];
    lost.iter().any(|word| name.contains(word)) && !other.iter().any(|word| name.contains(word))
}

/// Asks the kernel for the interfaces' addresses.
pub(super) fn ask_addresses(cards: &mut BTreeMap<String, Card>) {
    for entry in interface::addresses().unwrap_or_default() {
        if let Some(card) = cards.get_mut(&entry.name) {
            card.addresses.push(entry.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_lost_packets_are_found_by_their_names() {
        for name in
            ["rx_dropped", "rx_missed_errors", "rx_out_of_buffer", "rx0_drops", "rx_discards_phy"]
        {
            assert!(is_drop(name), "{name}");
        }
        for name in ["tx_dropped", "rx_xdp_drops", "rx_packets", "rx_cache_miss"] {
            assert!(!is_drop(name), "{name}");
        }
    }
}
