//! QsNet II and InfiniBand as link models: bandwidth, latency, overhead of packets, credits.
//!
//! Their cards have the parts of a Myrinet card: a processor for tokens, fetches over the bus,
//! packets, acknowledged connections. Only the numbers differ, so each cycle of the processor is a
//! nanosecond here.

use super::config::{Card, Config, Fabric, Gm};
use crate::host::{config::Bus, preset};
use crate::{Clock, Duration};

/// The rate of an InfiniBand link of four lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// 8 Gb/s of data.
    Sdr,
    /// 16 Gb/s.
    Ddr,
    /// 32 Gb/s.
    Qdr,
    /// 54.3 Gb/s.
    Fdr,
}

impl Rate {
    /// Returns the data of a link \[MB/s\]. Background.
    #[must_use]
    pub fn mb_s(self) -> u64 {
        match self {
            Rate::Sdr => 1_000,
            Rate::Ddr => 2_000,
            Rate::Qdr => 4_000,
            Rate::Fdr => 6_790,
        }
    }

    /// Returns the name of the bus that hosts of the time had.
    #[must_use]
    pub fn usual_bus(self) -> &'static str {
        match self {
            Rate::Sdr => "gc-le",
            Rate::Ddr => "pcie-x8",
            Rate::Qdr => "pcie2-x8",
            Rate::Fdr => "pcie3-x8",
        }
    }
}

/// Times of a link \[ns\].
struct Delays {
    switch: u64,
    end: u64,
    /// From a free place to the sender's knowledge of it.
    credit: u64,
}

/// Returns a link of a rate \[MB/s\].
fn link(mb_s: u64, delays: &Delays) -> Fabric {
    let clocks = |ns: u64| ((ns * mb_s).div_ceil(1000)) as u32;
    Fabric {
        clock: Clock::from_hertz(mb_s * 1_000_000),
        switch_clocks: clocks(delays.switch),
        end_clocks: clocks(delays.end),
        stop_clocks: clocks(delays.credit),
        cable: Duration::from_ns(25), // assumed: 5 m of copper
        ..Fabric::myrinet_2000()
    }
}

/// A processor whose cycles are nanoseconds.
const CARD: Card = Card { lanai: Clock::from_hertz(1_000_000_000), ports: 1 };

/// Returns the bus of a card that has several reads under way: a read costs it fewer clocks.
fn with_reads_ahead(bus: Bus, read_clocks: u32) -> Bus {
    Bus { read_clocks: bus.read_clocks.min(read_clocks), ..bus }
}

/// InfiniBand: a card of a host with a rate and a bus.
#[must_use]
pub fn infiniband(nodes: u32, rate: Rate, bus: Bus) -> Config {
    let delays = Delays {
        switch: 150, // background: 100 to 200 ns
        end: 100,    // assumed
        credit: 20,  // assumed
    };
    Config {
        card: CARD,
        // Calibrated: 841 MB/s on GC-LE are 68 clocks for each 2 KB.
        bus: with_reads_ahead(bus, 68),
        fabric: Fabric {
            header_bytes: 26,     // background: LRH 8, BTH 12, ICRC 4, VCRC 2
            grain_bytes: 64,      // background: the unit of credits
            credit_bytes: 16_384, // assumed
            ..link(rate.mb_s(), &delays)
        },
        gm: Gm {
            piece_bytes: 2048,    // background: MTU
            send_cycles: 1925,    // calibrated: 6.8 us; half of it assumed
            receive_cycles: 1925, // the other half
            record_cycles: 0,     // assumed: the card does not wait
            packet_cycles: 100,   // assumed
            ack_cycles: 100,      // assumed
            ..Gm::gm_2()
        },
        ..Config::new(nodes)
    }
}

/// QsNet II: Elan4 cards. Short messages are stored into the card.
#[must_use]
pub fn qsnet2(nodes: u32, bus: Bus) -> Config {
    let delays = Delays {
        switch: 20, // background: Elite4
        end: 50,    // assumed
        credit: 10, // assumed
    };
    Config {
        card: CARD,
        // Calibrated: 906 MB/s on PCI-X 133 are 45 clocks for each 2 KB.
        bus: with_reads_ahead(bus, 45),
        fabric: Fabric {
            header_bytes: 40,    // assumed
            credit_bytes: 4_096, // assumed
            ..link(1_300, &delays)
        },
        gm: Gm {
            piece_bytes: 2048,   // assumed
            inline_bytes: 256,   // assumed: short puts
            send_cycles: 155,    // calibrated: 1.22 us; half of it assumed
            receive_cycles: 155, // the other half
            record_cycles: 0,    // assumed: the card does not wait
            packet_cycles: 50,   // assumed
            ack_cycles: 50,      // assumed
            ..Gm::gm_2()
        },
        ..Config::new(nodes)
    }
}

/// Processor time of a call with InfiniBand: 1.7 us for sending and receiving. Background.
pub const CALL_INFINIBAND: Duration = Duration::from_ns(850);
/// Processor time of a call with QsNet II. Assumed.
pub const CALL_QSNET: Duration = Duration::from_ns(200);
/// The bus of the hosts that were measured with QsNet II: PCI-X 133. Assumed: that of a GC-LE.
#[must_use]
pub fn bus_of_qsnet() -> Bus {
    preset::pci_x_133()
}
