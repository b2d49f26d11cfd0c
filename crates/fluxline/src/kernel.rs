//! The places where the kernel lost packets: its counters before and after a run.
//!
//! A socket counts only packets that reached it. Packets also die in the card (no free descriptor),
//! in softnet (a core's backlog was full) and in UDP (bad checksum, full buffer, no socket). These
//! counters belong to the host, not to this program: other programs' losses are in them too.
//! Source: Linux Documentation/admin-guide/sysctl/net.rst, Documentation/networking/statistics.rst;
//! net/core/net-procfs.c for the columns of softnet_stat.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fluxline_core::counters! {
    /// Drops of the host outside this program's sockets; since boot, or between two snapshots.
    pub struct HostDrops {
        nic_dropped [Sum "packet"] "Packets that interfaces dropped: no buffer, or no reader"
            => "`ethtool -G <interface> rx 4096`; see `ip -s -s link`.";
        nic_missed [Sum "packet"] "Packets that cards missed: no free descriptor (rx_missed_errors)"
            => "`ethtool -G <interface> rx 4096`; move the interrupt to a free core.";
        nic_fifo [Sum "packet"] "Packets lost in cards' FIFOs (rx_fifo_errors, rx_over_errors)"
            => "The bus or the core is too slow: check PCIe width and interrupts.";
        nic_errors [Sum "packet"] "Damaged packets (rx_errors)"
            => "Check cables, optics and MTU; see `ethtool -S <interface>`.";
        softnet_dropped [Sum "packet"] "Packets dropped because a core's backlog was full"
            => "`sudo sysctl -w net.core.netdev_max_backlog=250000`";
        softnet_squeezed [Sum "time"] "Times that a core ran out of budget with packets left"
            => "`sudo sysctl -w net.core.netdev_budget=1200`; nothing is lost yet.";
        udp_received [Sum "datagram"] "Datagrams that UDP delivered, of all programs" => "";
        udp_no_port [Sum "datagram"] "Datagrams to ports without a listener"
            => "Check the sender's port; start the receiver first.";
        udp_errors [Sum "datagram"] "Datagrams that UDP dropped otherwise (InErrors)"
            => "See `nstat -az | grep Udp`.";
        udp_buffer_full [Sum "datagram"] "Datagrams dropped at full socket buffers (RcvbufErrors)"
            => "`sudo sysctl -w net.core.rmem_max=67108864`, or a faster reader.";
        udp_bad_checksum [Sum "datagram"] "Datagrams with a wrong UDP checksum (InCsumErrors)"
            => "The sender computes it wrongly: send checksum 0 (IPv4) or correct it.";
    }
}

/// The host's counters since boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelSnapshot {
    /// The totals, loopback included.
    pub drops: HostDrops,
    /// Drops of each interface: the sum of its `nic_*` counters \[packet\].
    pub interfaces: BTreeMap<String, u64>,
}

impl KernelSnapshot {
    /// Reads /proc and /sys. Files that cannot be read (a container may hide them) count as zero.
    ///
    /// Cost: about ten small files; not for the hot path.
    #[must_use]
    pub fn take() -> KernelSnapshot {
        KernelSnapshot::read(Path::new("/"))
    }

    /// Reads the same files below `root`: a copy of another host's.
    #[must_use]
    pub fn read(root: &Path) -> KernelSnapshot {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let mut snapshot = KernelSnapshot::default();
        let drops = &mut snapshot.drops;
        (drops.softnet_dropped, drops.softnet_squeezed) =
            parse_softnet(&text("proc/net/softnet_stat"));
        for udp in [parse_snmp(&text("proc/net/snmp")), parse_snmp6(&text("proc/net/snmp6"))] {
            drops.merge(&udp);
        }
        let Ok(interfaces) = fs::read_dir(root.join("sys/class/net")) else { return snapshot };
        for interface in interfaces.flatten() {
            let name = interface.file_name().to_string_lossy().into_owned();
            let counter = |counter: &str| -> u64 {
                let path = interface.path().join("statistics").join(counter);
                fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
            };
            let own = HostDrops {
                nic_dropped: counter("rx_dropped"),
                nic_missed: counter("rx_missed_errors"),
                // Drivers use one or the other, or both for the same packet.
                nic_fifo: counter("rx_fifo_errors").max(counter("rx_over_errors")),
                nic_errors: counter("rx_errors"),
                ..HostDrops::default()
            };
            let sum = [own.nic_dropped, own.nic_missed, own.nic_fifo, own.nic_errors];
            snapshot.interfaces.insert(name, sum.into_iter().fold(0, u64::saturating_add));
            snapshot.drops.merge(&own);
        }
        snapshot
    }

    /// Returns the counts since `earlier`. A counter that went back (an interface was taken away)
    /// counts as nothing; an interface that is new counts from zero.
    #[must_use]
    pub fn since(&self, earlier: &KernelSnapshot) -> KernelSnapshot {
        let mut drops = HostDrops::default();
        for ((row, now), (_, before)) in self.drops.rows().zip(earlier.drops.rows()) {
            drops.set(row.name, now.saturating_sub(before));
        }
        let interfaces = self.interfaces.iter().map(|(name, &now)| {
            let before = earlier.interfaces.get(name).copied().unwrap_or(0);
            (name.clone(), now.saturating_sub(before))
        });
        KernelSnapshot { drops, interfaces: interfaces.collect() }
    }
}

/// Sums (dropped, time_squeeze) of /proc/net/softnet_stat: one line per core, hexadecimal.
fn parse_softnet(text: &str) -> (u64, u64) {
    let column = |line: &str, index: usize| -> u64 {
        let word = line.split_ascii_whitespace().nth(index);
        word.and_then(|word| u64::from_str_radix(word, 16).ok()).unwrap_or(0)
    };
    text.lines().fold((0, 0), |(dropped, squeezed), line| {
        (dropped + column(line, 1), squeezed + column(line, 2))
    })
}

/// The `Udp:` lines of /proc/net/snmp: one of names, one of values.
fn parse_snmp(text: &str) -> HostDrops {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
        return HostDrops::default();
    };
    udp_counters(names.split_ascii_whitespace().zip(values.split_ascii_whitespace()))
}

/// The `Udp6…` lines of /proc/net/snmp6: name and value on each.
fn parse_snmp6(text: &str) -> HostDrops {
    udp_counters(text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("Udp6")?.split_ascii_whitespace();
        Some((words.next()?, words.next()?))
    }))
}

fn udp_counters<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> HostDrops {
    let mut drops = HostDrops::default();
    for (name, value) in pairs {
        let field = match name {
            "InDatagrams" => &mut drops.udp_received,
            "NoPorts" => &mut drops.udp_no_port,
            "InErrors" => &mut drops.udp_errors,
            "RcvbufErrors" => &mut drops.udp_buffer_full,
            "InCsumErrors" => &mut drops.udp_bad_checksum,
            _ => continue,
        };
        *field = value.parse().unwrap_or(0);
    }
    // The kernel counts the two others in InErrors as well; here each drop has one place.
    let elsewhere = drops.udp_buffer_full.saturating_add(drops.udp_bad_checksum);
    drops.udp_errors = drops.udp_errors.saturating_sub(elsewhere);
    drops
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "Ip: Forwarding DefaultTTL\nIp: 1 64\n\
        Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors X\n\
        Udp: 131 7 30 132 20 0 4 0\n\
        UdpLite: InDatagrams NoPorts\nUdpLite: 9 9\n";

    #[test]
    fn snmp_is_read_by_name_and_each_drop_has_one_place() {
        let drops = parse_snmp(SNMP);
        assert_eq!((drops.udp_received, drops.udp_no_port), (131, 7));
        assert_eq!((drops.udp_buffer_full, drops.udp_bad_checksum, drops.udp_errors), (20, 4, 6));
        let six = "Ip6InReceives  5\nUdp6InDatagrams  9\nUdp6RcvbufErrors\t3\nUdp6InErrors 3\n\
                   UdpLite6InErrors 8\n";
        let drops = parse_snmp6(six);
        assert_eq!((drops.udp_received, drops.udp_buffer_full, drops.udp_errors), (9, 3, 0));
    }

    #[test]
    fn softnet_columns_are_hexadecimal_and_summed_over_cores() {
        let text = "0000ffff 00000010 00000001 0 0\n00000001 0000000a 00000002\nbroken\n\n";
        assert_eq!(parse_softnet(text), (26, 3));
    }

    #[test]
    fn texts_cut_anywhere_never_panic() {
        for end in 0..SNMP.len() {
            let _ =
                (parse_snmp(&SNMP[..end]), parse_snmp6(&SNMP[end..]), parse_softnet(&SNMP[end..]));
        }
    }

    #[test]
    fn a_difference_names_the_interface_that_dropped() {
        let root = tempfile::tempdir().unwrap();
        let statistics = root.path().join("sys/class/net/eth7/statistics");
        fs::create_dir_all(&statistics).unwrap();
        fs::write(statistics.join("rx_dropped"), "5\n").unwrap();
        let before = KernelSnapshot::read(root.path());
        fs::write(statistics.join("rx_dropped"), "9\n").unwrap();
        fs::write(statistics.join("rx_missed_errors"), "2\n").unwrap();
        fs::write(statistics.join("rx_errors"), "not a number\n").unwrap();
        let drops = KernelSnapshot::read(root.path()).since(&before);
        assert_eq!(drops.interfaces["eth7"], 6);
        assert_eq!((drops.drops.nic_dropped, drops.drops.nic_missed), (4, 2));
        assert_eq!(before.since(&KernelSnapshot::read(root.path())).interfaces["eth7"], 0);
    }

    #[test]
    fn this_host_can_be_read() {
        let before = KernelSnapshot::take();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        let mut byte = [0];
        socket.recv(&mut byte).unwrap();
        let counted = KernelSnapshot::take().since(&before);
        if before.drops.udp_received == 0 && counted.drops.udp_received == 0 {
            println!("skipped: this host hides /proc/net/snmp");
            return;
        }
        assert!(counted.drops.udp_received >= 1);
    }
}
