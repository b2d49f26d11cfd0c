//! The machines of the papers. Each has one set of numbers for all of its figures.
//!
//! Marks of a constant: *published* (in the paper), *source* (in another published document),
//! *calibrated* (chosen to reproduce the named figure's number, which therefore proves nothing),
//! *background* (remembered, unchecked), *assumed*. docs/fidelity.md has the table.

use super::config::{
    Bus, Card, Combining, Config, Control, Cpu, Engine, Posting, Software, Translation,
};
use crate::{Clock, Duration};

/// PCI, 32 bits at 33.3 MHz.
///
/// 13 clocks for 32 B of stores are 82 MB/s, the rate that Trams assumes (background: 4 to 5 clocks
/// of overhead; which of these: calibrated on that rate). 19 clocks for 64 B out of memory are 112
/// MB/s, about 30 MB/s above stores (calibrated on the difference in Trams).
#[must_use]
pub fn pci_32_33() -> Bus {
    Bus {
        clock: Clock::from_hertz(33_333_333),
        width_bytes: 4,
        // Assumed: four words, the posting buffer of chip sets of the time.
        store_burst_bytes: 16,
        posted_bursts: 4,
        store_clocks: 5,
        // Assumed: a store's overhead plus the turn-around of the bus.
        load_clocks: 6,
        // Assumed: PCI lets a refused master pause at least 2 clocks.
        retry_clocks: 3,
        write_burst_bytes: 64,
        // Background: 4 to 6 clocks for a burst of 64 B.
        write_clocks: 5,
        // Assumed: a block of the card's engine.
        read_burst_bytes: 64,
        read_clocks: 3,
    }
}

/// PCI, 64 bits at 66.7 MHz. Source: Myrinet cards: 256 B bursts cost 84 clocks besides their data
/// in the slow direction (out of memory), 44 in the fast one.
#[must_use]
pub fn pci_64_66() -> Bus {
    Bus {
        clock: Clock::from_hertz(66_666_667),
        width_bytes: 8,
        store_burst_bytes: 32,
        write_burst_bytes: 512,
        write_clocks: 44,
        read_burst_bytes: 512,
        read_clocks: 85,
        ..pci_32_33()
    }
}

/// PCI-X at 100 MHz. Source: IBM HS20: 4 KB bursts, 60 clocks of overhead out of memory, 10 into
/// it.
#[must_use]
pub fn pci_x_100() -> Bus {
    Bus {
        clock: Clock::from_hertz(100_000_000),
        write_burst_bytes: 4096,
        write_clocks: 10,
        read_burst_bytes: 4096,
        read_clocks: 60,
        ..pci_64_66()
    }
}

/// PCI-X at 133 MHz behind a GC-LE. Source: Myricom: 4 KB bursts, 188 clocks of overhead out of
/// memory, 11 into it.
#[must_use]
pub fn pci_x_133() -> Bus {
    Bus { clock: Clock::from_hertz(133_333_333), write_clocks: 11, read_clocks: 188, ..pci_x_100() }
}

/// PCI Express of a rate \[MB/s\]. Source: 20 bytes of overhead for each packet, completions of
/// reads with 64 bytes. Background: 128 bytes of payload. The round trip of a read is part of the
/// card's time.
#[must_use]
pub fn pcie(mb_s: u64) -> Bus {
    let overhead = 3; // 20 bytes in words of 8
    Bus {
        clock: Clock::from_hertz(mb_s * 125_000),
        store_clocks: overhead,
        write_burst_bytes: 128,
        write_clocks: overhead,
        read_burst_bytes: 64,
        read_clocks: overhead,
        ..pci_64_66()
    }
}

/// The time of the card's DMA engine for a block of 64 B besides the bus: calibrated on the 45 MB/s
/// that SCINET gives as the most of both stands. Trams blames the engine as well and gives no
/// number: assumed to be the same engine.
const ENGINE_BLOCK: Duration = Duration::from_ns(850);

/// A card of the first generation on 32-bit PCI: 8 write and 8 read streams of 64 B (published).
fn card() -> Card {
    Card {
        streams: 8,
        stream_bytes: 64,
        claim: Duration::ZERO,
        // Assumed: longer than a gap between stores, shorter than human reaction.
        gather_timeout: Duration::from_us(10),
        posting: Posting::Write,
        prefetch: true,
        // Background: 0.4 to 0.6 us through bridge and link controller, without the internal bus;
        // the value in this range is calibrated on figure 9's 12 MB/s.
        out_latency: Duration::from_ns(430),
        in_latency: Duration::from_ns(430),
        // Assumed: as fast as the link controller, 200 MB/s (published).
        internal_mb_per_s: 200,
        // Assumed: as many as streams.
        incoming_slots: 8,
        // Source: PSB-64's data sheet has up to 4096 entries in the card's own memory. A cache of
        // 16 entries and the cost of a miss are assumed.
        translation: Translation { entries: 16, page_bytes: 4096, miss: Duration::from_ns(300) },
    }
}

/// SCINET's stand A: PentiumPro 200 MHz, 440FX, Linux 2.0.30, own driver, moves of 64 B.
#[must_use]
pub fn test_stand_a() -> Config {
    Config {
        cpu: Cpu {
            call: Duration::from_ns(100),
            word_bytes: 4,
            // Assumed: 6 clocks of the 66.7 MHz processor bus for a store to device memory.
            store_word: Duration::from_ns(90),
            combining: None,
            slow_down_percent: 15,
            poll_notice: Duration::from_ns(200),
        },
        bus: pci_32_33(),
        // Published: DMOVE64. The stream is free at once: Dolphin's header on such maps.
        card: Card { posting: Posting::Move, ..card() },
        engine: Engine {
            // Assumed: the next descriptor can be written while one is under way.
            control: Control::Registers { depth: 2 },
            // Calibrated on figure 7: half the maximum at 64 B.
            kick: Duration::from_ns(2_840),
            start: Duration::from_ns(300),
            block: ENGINE_BLOCK,
            writes_outstanding: 8,
            // Calibrated on figure 7: with 2, writes are 2.4 times as fast as reads.
            reads_outstanding: 1,
        },
        software: Software {
            // The sum of the next two and the kick: calibrated on figure 8 (10 us set-up).
            kernel_entry: Duration::from_ns(2_950),
            kernel_return: Duration::from_ns(2_000),
            // Background: 10 to 30 us from interrupt to program.
            interrupt: Duration::from_us(15),
            // Assumed: one load over PCI.
            status_read: Duration::from_ns(500),
            check: Duration::from_us(5),
        },
    }
}

/// SCINET's stand B: Pentium 100 MHz, Windows NT 4.0, the same cards with Dolphin's driver; with
/// `streams` (1, 2, 4 or 8) combined write streams.
#[must_use]
pub fn test_stand_b(streams: u32) -> Config {
    Config {
        cpu: Cpu {
            // Assumed: 20 clocks of the processor for loop and call.
            call: Duration::from_ns(200),
            word_bytes: 4,
            // 6 clocks of the 66.7 MHz processor bus per word are 44 MB/s (calibrated on figure
            // 13's maximum, 45 MB/s).
            store_word: Duration::from_ns(90),
            combining: None,
            slow_down_percent: 15,
            poll_notice: Duration::from_ns(200),
        },
        bus: pci_32_33(),
        card: Card {
            streams,
            // Calibrated on figure 13's 34 MB/s above 512 B.
            claim: Duration::from_ns(800),
            ..card()
        },
        engine: Engine {
            control: Control::Registers { depth: 1 },
            kick: Duration::from_ns(2_840),
            start: Duration::from_ns(300),
            block: ENGINE_BLOCK,
            writes_outstanding: 8,
            reads_outstanding: 1,
        },
        software: Software {
            // Background: NT's entry into a driver; no figure depends on it.
            kernel_entry: Duration::from_us(5),
            kernel_return: Duration::from_us(5),
            interrupt: Duration::from_us(30),
            status_read: Duration::from_ns(500),
            // Calibrated on figure 10: 11 to 12 us with the check.
            check: Duration::from_ns(8_700),
        },
    }
}

/// Trams: Pentium II 350 MHz, 440BX, D310 (LC-2).
#[must_use]
pub fn trams() -> Config {
    Config {
        cpu: Cpu {
            call: Duration::from_ns(50),
            word_bytes: 4,
            // Assumed: 4 clocks to load a word from memory and put it into a combining buffer.
            store_word: Duration::from_ns(11),
            // Source: Pentium II: 32 B. Four of them: background. Linger: assumed.
            combining: Some(Combining { bytes: 32, buffers: 4, linger: Duration::from_us(1) }),
            // Published: in the worst case.
            slow_down_percent: 15,
            poll_notice: Duration::from_ns(200),
        },
        bus: pci_32_33(),
        // Background: the second generation's internal bus has 64 bits at 50 MHz.
        card: Card { internal_mb_per_s: 400, ..card() },
        engine: Engine {
            // Source: chained DMA (PSB-64's data sheet). The size: assumed.
            control: Control::List { bytes: 32 },
            // Assumed: four register writes.
            kick: Duration::from_ns(1_000),
            // Calibrated on the 7 us of a packet without data.
            start: Duration::from_ns(2_850),
            block: ENGINE_BLOCK,
            writes_outstanding: 8,
            reads_outstanding: 1,
        },
        software: Software {
            // Published: 4.5 us more on entry, about 3 us more to return.
            kernel_entry: Duration::from_ns(4_500),
            kernel_return: Duration::from_ns(3_000),
            // Background: 10 to 30 us from interrupt to program.
            interrupt: Duration::from_us(15),
            status_read: Duration::from_ns(400),
            check: Duration::from_us(3),
        },
    }
}
