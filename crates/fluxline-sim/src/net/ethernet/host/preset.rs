//! The hosts of published experiments. `published/ethernet.toml` has the origin of each value.

use super::bus::{BusConfig, Pcie};
use super::coalescing::Coalescing;
use super::config::{Buffers, Card, Config, Cores, Costs, Driver};
use crate::Duration;
use crate::host::preset as buses;

const fn ns(ns: u64) -> Duration {
    Duration::from_ns(ns)
}

const fn ps(ps: u64) -> Duration {
    Duration::from_ps(ps)
}

/// Returns Galli's PC: two Xeon processors of four cores at 2.0 GHz, a 10 Gb/s card on PCI Express
/// x8, with `processes` on cores of their own.
#[must_use]
pub fn galli(processes: u32) -> Config {
    let delay = Coalescing::Delay { time: Duration::from_us(25), events: 0 };
    Config {
        costs: Costs {
            user: ns(50),
            send_call: ns(1_320),
            send_frame: ns(500),
            send_byte: ps(672),
            receive_call: ns(500),
            receive_byte: ps(325),
            wake: ns(2_000),
            interrupt: ns(2_000),
            backlog_frame: ns(200),
            softirq: ns(500),
            receive_frame: ns(1_250),
            receive_frame_byte: ps(260),
            clean_frame: ns(300),
        },
        cores: Cores { interrupts: 0, processes: (1..=processes).collect() },
        buffers: Buffers { send_bytes: 1 << 24, receive_bytes: 1 << 24, queue_frames: 1000 },
        driver: Driver::Poll,
        card: Card {
            bus: BusConfig::Pcie(Pcie {
                bytes_per_s: 2_000_000_000,
                overhead_bytes: 20,
                payload_bytes: 128,
                completion_bytes: 128,
                request_bytes: 4096,
                requests: 1,
                latency: ns(650),
            }),
            transmit_slots: 512,
            receive_slots: 512,
            receive_bytes: 512 << 10,
            delay: Duration::ZERO,
            receive: delay,
            transmit: delay,
        },
    }
}

/// Returns the Xeon PC of Li's thesis with Intel's PRO/10GbE LR on PCI-X at 133 MHz.
#[must_use]
pub fn li_ten_gigabit() -> Config {
    Config {
        costs: Costs {
            user: ns(50),
            send_call: ns(2_000),
            send_frame: ns(500),
            send_byte: ps(625),
            receive_call: ns(500),
            receive_byte: ps(625),
            wake: ns(3_500),
            interrupt: ns(3_000),
            backlog_frame: ns(200),
            softirq: ns(500),
            receive_frame: ns(1_250),
            receive_frame_byte: Duration::ZERO,
            clean_frame: ns(300),
        },
        cores: Cores { interrupts: 0, processes: vec![1] },
        buffers: Buffers { send_bytes: 1 << 20, receive_bytes: 1 << 22, queue_frames: 1000 },
        driver: Driver::Backlog { frames: 300 },
        card: Card {
            bus: BusConfig::Parallel(buses::pci_x_133()),
            transmit_slots: 256,
            receive_slots: 512,
            receive_bytes: 256 << 10,
            delay: ns(4_000),
            receive: Coalescing::Off,
            transmit: Coalescing::Off,
        },
    }
}

/// Returns the same PC with SysKonnect's 1 Gb/s card on PCI, 64 bits at 66 MHz.
#[must_use]
pub fn li_syskonnect() -> Config {
    let host = li_ten_gigabit();
    Config { card: Card { bus: BusConfig::Parallel(buses::pci_64_66()), ..host.card }, ..host }
}

/// Returns the same PC with Intel's 1 Gb/s card on PCI, 64 bits at 66 MHz, coalescing on.
#[must_use]
pub fn li_gigabit() -> Config {
    // 64 units of 1.024 us.
    let receive = Coalescing::Delay { time: ps(65_536_000), events: 0 };
    let host = li_syskonnect();
    Config { card: Card { receive, ..host.card }, ..host }
}
