//! The counters of a host outside its sockets, read before and after a trial.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};

use fluxline::kernel::KernelSnapshot;
use fluxline_doctor::{Interrupt, Through};

use super::cpu::{self, CoreLoad, CoreTicks};

/// The least share of a card's interrupts of a core that counts as taking them: single ones come
/// anywhere. (assumed)
const TAKES: f64 = 0.05;

/// A reading of one host. Cost: some thirty small files; not while datagrams flow.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    cores: BTreeMap<usize, CoreTicks>,
    kernel: KernelSnapshot,
    /// Datagrams that UDP accepted and a queue of this host dropped, without an error to the
    /// sender.
    queue_drops: u64,
    /// Frames that interfaces did not send.
    transmit_drops: BTreeMap<String, u64>,
    /// Interrupts of the card that leads to the other side.
    interrupts: BTreeMap<u64, Interrupt>,
}

impl Reading {
    /// Reads the counters; hidden ones count as zero. `through`: the path of the datagrams.
    #[must_use]
    pub fn take(through: &Through) -> Reading {
        let snmp = fs::read_to_string("/proc/net/snmp").unwrap_or_default();
        Reading {
            cores: cpu::read_cores(),
            kernel: KernelSnapshot::take(),
            queue_drops: send_errors(&snmp),
            transmit_drops: transmit_drops(),
            interrupts: match through {
                Through::Interface(name) => fluxline_doctor::interrupts_of(name),
                _ => BTreeMap::new(),
            },
        }
    }

    /// The cores that took the card's interrupts since an earlier reading, ascending.
    #[must_use]
    pub fn interrupted_since(&self, earlier: &Reading) -> Vec<usize> {
        let mut taken: BTreeMap<usize, u64> = BTreeMap::new();
        for (number, line) in &self.interrupts {
            let then = earlier.interrupts.get(number).map_or(&[][..], |line| &line.counts);
            for (core, now) in line.counts.iter().enumerate() {
                let then = then.get(core).copied().unwrap_or(0);
                *taken.entry(core).or_default() += now.saturating_sub(then);
            }
        }
        let all: u64 = taken.values().sum();
        taken.retain(|_, count| *count > 0 && *count as f64 >= TAKES * all as f64);
        taken.into_keys().collect()
    }

    /// Returns the loads of the cores since an earlier reading.
    #[must_use]
    pub fn loads_since(&self, earlier: &Reading) -> Vec<CoreLoad> {
        cpu::loads(&earlier.cores, &self.cores)
    }

    /// Losses on the sending side since an earlier reading, by place.
    #[must_use]
    pub fn sending_since(&self, earlier: &Reading) -> Vec<(String, u64)> {
        let queue = self.queue_drops.saturating_sub(earlier.queue_drops);
        let mut places = vec![("sender's queue".to_owned(), queue)];
        for (name, &now) in &self.transmit_drops {
            let then = earlier.transmit_drops.get(name).copied().unwrap_or(0);
            places.push((format!("sender's interface {name}"), now.saturating_sub(then)));
        }
        places.retain(|(_, count)| *count > 0);
        places
    }

    /// Losses on the receiving side since an earlier reading, sockets apart, by place.
    #[must_use]
    pub fn receiving_since(&self, earlier: &Reading) -> Vec<(String, u64)> {
        let since = self.kernel.since(&earlier.kernel);
        let mut places = vec![("backlog (softnet)".to_owned(), since.drops.softnet_dropped)];
        let interfaces = since.interfaces.iter();
        places.extend(interfaces.map(|(name, &count)| (format!("interface {name}"), count)));
        places.push(("wrong checksum".to_owned(), since.drops.udp_bad_checksum));
        places.push(("UDP, other".to_owned(), since.drops.udp_errors));
        places.retain(|(_, count)| *count > 0);
        places
    }
}

/// Reads `SndbufErrors` of the `Udp:` lines: a queue was full after the send call had succeeded.
/// Source: Linux net/ipv4/udp.c, udp_send_skb: ENOBUFS is swallowed unless IP_RECVERR is on.
fn send_errors(snmp: &str) -> u64 {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let mut pairs = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
    let found = pairs.find(|(name, _)| *name == "SndbufErrors");
    found.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// Reads `tx_dropped` of each interface. A veth counts frames here that its peer's ring had no room
/// for.
fn transmit_drops() -> BTreeMap<String, u64> {
    let Ok(interfaces) = fs::read_dir("/sys/class/net") else { return BTreeMap::new() };
    let drops = interfaces.flatten().filter_map(|interface| {
        let text = fs::read_to_string(interface.path().join("statistics/tx_dropped")).ok()?;
        Some((interface.file_name().to_string_lossy().into_owned(), text.trim().parse().ok()?))
    });
    drops.collect()
}

/// The number of this boot: two programs with the same share their cores. Empty where hidden.
#[must_use]
pub fn boot() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// Bits per second of the interface that leads to `to`; `None`: no card (loopback, veth), IPv6, or
/// unknown.
#[must_use]
pub fn link_speed(to: IpAddr) -> Option<f64> {
    let IpAddr::V4(to) = to else { return None };
    if to.is_loopback() {
        return None;
    }
    let name = interface_to(&fs::read_to_string("/proc/net/route").ok()?, to)?;
    let folder = std::path::Path::new("/sys/class/net").join(name);
    // Interfaces without a device report a speed, too: veth always has 10 Gb/s.
    if !folder.join("device").exists() {
        return None;
    }
    let megabits: f64 = fs::read_to_string(folder.join("speed")).ok()?.trim().parse().ok()?;
    (megabits > 0.0).then_some(megabits * 1e6)
}

/// Finds the interface of the longest prefix in the text of /proc/net/route. Its columns are name,
/// destination, gateway, flags, three numbers, mask; addresses are hexadecimal words of the host's
/// order.
fn interface_to(routes: &str, to: Ipv4Addr) -> Option<String> {
    let to = u32::from_ne_bytes(to.octets());
    let route = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let hexadecimal = |index: usize| u32::from_str_radix(words.get(index)?, 16).ok();
        let (network, mask) = (hexadecimal(1)?, hexadecimal(7)?);
        (to & mask == network).then(|| (mask.count_ones(), words[0].to_owned()))
    };
    routes.lines().skip(1).filter_map(route).max_by_key(|(bits, _)| *bits).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_leads() {
        let routes = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
            eth0 00000000 0100A8C0 0003 0 0 0 00000000 0 0 0\n\
            veA 00005D0A 00000000 0001 0 0 0 00FFFFFF 0 0 0\nbroken line\n";
        assert_eq!(interface_to(routes, Ipv4Addr::new(10, 93, 0, 2)).as_deref(), Some("veA"));
        assert_eq!(interface_to(routes, Ipv4Addr::new(10, 93, 1, 2)).as_deref(), Some("eth0"));
        assert_eq!(interface_to("", Ipv4Addr::new(10, 93, 1, 2)), None);
        assert_eq!(link_speed(Ipv4Addr::LOCALHOST.into()), None);
    }

    #[test]
    fn silent_drops_of_the_sender_are_read_by_name() {
        let snmp = "Udp: InDatagrams SndbufErrors X\nUdp: 5 17 9\nUdpLite: SndbufErrors\n";
        assert_eq!(send_errors(snmp), 17);
        for garbage in ["", "Udp:", "Udp: SndbufErrors\nUdp:", "Udp: SndbufErrors\nUdp: x"] {
            assert_eq!(send_errors(garbage), 0, "{garbage:?}");
        }
    }

    #[test]
    fn cores_that_take_a_cards_interrupts_differ_from_those_that_took_one_by_chance() {
        let line = |counts: &[u64]| Interrupt { counts: counts.to_vec(), ..Interrupt::default() };
        let before = Reading { interrupts: [(38, line(&[100, 7]))].into(), ..Reading::default() };
        let mut after = before.clone();
        assert_eq!(after.interrupted_since(&before), [0; 0], "nothing came");
        // A queue that had been silent until then, and a core that came late.
        after.interrupts = [(38, line(&[103, 1_007, 0])), (39, line(&[0, 0, 400]))].into();
        assert_eq!(after.interrupted_since(&before), [1, 2]);
        // Counters that went back are a card that was exchanged.
        after.interrupts = [(38, line(&[0, 0]))].into();
        assert_eq!(after.interrupted_since(&before), [0; 0]);
    }

    #[test]
    fn a_quiet_moment_has_no_losses_and_names_only_what_counted() {
        let mut before = Reading::default();
        before.transmit_drops.insert("veA".to_owned(), 5);
        let mut after = before.clone();
        assert!(after.sending_since(&before).is_empty());
        assert!(after.receiving_since(&before).is_empty());
        after.transmit_drops.insert("veA".to_owned(), 8);
        after.queue_drops = 2;
        after.kernel.drops.softnet_dropped = 3;
        let sending = after.sending_since(&before);
        assert_eq!(sending[0], ("sender's queue".to_owned(), 2));
        assert_eq!(sending[1], ("sender's interface veA".to_owned(), 3));
        assert_eq!(after.receiving_since(&before), [("backlog (softnet)".to_owned(), 3)]);
    }
}
