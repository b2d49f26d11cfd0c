//! The counters of a host outside its sockets, read before and after a trial.

use std::collections::BTreeMap;
use std::fs;

use fluxline::kernel::KernelSnapshot;

use super::cpu::{self, CoreLoad, CoreTicks};

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
}

impl Reading {
    /// Reads the counters; hidden ones count as zero.
    #[must_use]
    pub fn take() -> Reading {
        let snmp = fs::read_to_string("/proc/net/snmp").unwrap_or_default();
        Reading {
            cores: cpu::read_cores(),
            kernel: KernelSnapshot::take(),
            queue_drops: send_errors(&snmp),
            transmit_drops: transmit_drops(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_drops_of_the_sender_are_read_by_name() {
        let snmp = "Udp: InDatagrams SndbufErrors X\nUdp: 5 17 9\nUdpLite: SndbufErrors\n";
        assert_eq!(send_errors(snmp), 17);
        for garbage in ["", "Udp:", "Udp: SndbufErrors\nUdp:", "Udp: SndbufErrors\nUdp: x"] {
            assert_eq!(send_errors(garbage), 0, "{garbage:?}");
        }
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
