//! The experiments on Myrinet, run on the models of its cards and hosts.

use super::super::pair::BadStand;
use super::super::set::Curve;
use crate::host::{Bus, Chipset, config, preset};
use crate::net::atoll::adapter::host::Times;
use crate::net::myrinet::config::{Card, Fabric};
use crate::net::myrinet::measure::{Streams, Ways, one_way};
use crate::net::myrinet::{Blank, Config, Network, cluster};
use crate::{Duration, Instant};

/// The length of long messages \[bytes\].
const LONG_BYTES: u32 = 1 << 20;
/// Messages of a sender that are under way in a stream.
const OUTSTANDING: u32 = 16;

/// Returns the test bed of GM 2.1: E cards in hosts with GC-LE, one switch.
pub fn e_card() -> Config {
    Config::new(2)
}

/// Returns the same with D cards.
pub fn d_card() -> Config {
    Config { card: Card::d(), ..e_card() }
}

/// Returns the hosts of ATOLL's paper with D cards in a slot of 133 MHz; only ATOLL's card ran at
/// 100 MHz.
pub fn hosts_of_atoll() -> Config {
    d_card()
}

/// Returns the same in the slot of ATOLL's card.
pub fn slot_of_atoll() -> Config {
    Config { bus: Times::pc().dma.bus, ..d_card() }
}

/// Returns the hosts of Turner and Chen: an old card in a slot of PCI 32/33.
pub fn old_card() -> Config {
    let (card, fabric) = (Card::pci64a(), Fabric::myrinet_1280());
    Config { card, fabric, bus: preset::pci_32_33(), ..e_card() }
}

/// Returns the processor time of a call of ATOLL's library on the hosts of its paper.
pub fn call_of_atoll() -> Duration {
    Times::pc().call
}

/// Returns the processor time of a GM call.
pub fn call_of_gm() -> Duration {
    cluster::CALL_GM
}

/// Returns the latency of a message \[us\].
pub fn latency(config: &Config, call: Duration, bytes: u32) -> Result<f64, BadStand> {
    Ok(one_way(config, call, bytes)?.as_us())
}

/// Returns the rate of a stream \[MB/s\].
pub fn stream(config: &Config, bytes: u32, ways: Ways) -> Result<f64, BadStand> {
    let count = (1_u32 << 23).div_ceil(bytes).min(400);
    let streams = Streams { bytes, count, outstanding: OUTSTANDING, call: call_of_gm(), ways };
    Ok(streams.rate(config)?)
}

/// Returns the rate of long messages \[MB/s\].
pub fn long(config: &Config, ways: Ways) -> Result<f64, BadStand> {
    stream(config, LONG_BYTES, ways)
}

/// Returns the size of messages whose stream has half of the rate of long ones.
pub fn half(config: &Config) -> Result<f64, BadStand> {
    let enough = long(config, Ways::One)? / 2.0;
    let (mut less, mut more) = (1, 1 << 14);
    while more - less > 1 {
        let bytes = (less + more) / 2;
        if stream(config, bytes, Ways::One)? < enough { less = bytes } else { more = bytes }
    }
    Ok(f64::from(more))
}

/// Returns the time of a packet without data through a number of switches \[us\].
pub fn through(switches: u32) -> Result<f64, BadStand> {
    Ok(Network::<Blank>::new(e_card())?.zero_load(switches + 1, 0).as_us())
}

/// Returns the latencies of the hosts of ATOLL's paper \[us\], by size.
pub fn latencies() -> Result<Curve, BadStand> {
    let (config, call) = (hosts_of_atoll(), call_of_gm());
    let sizes = (3..=20).map(|bits| 1 << bits);
    Curve::of("D card, PCI-X 133", sizes, |bytes| latency(&config, call, bytes))
}

/// Returns the rates of streams of the E card \[MB/s\], by size.
pub fn streams() -> Result<Curve, BadStand> {
    let sizes = (6..=20).map(|bits| 1 << bits);
    Curve::of("E card, one way", sizes, |bytes| stream(&e_card(), bytes, Ways::One))
}

/// Returns the bus of the host that carries 985 MB/s in both directions together.
pub fn fast_bus() -> config::Bus {
    Chipset::named("melody").map_or(preset::pci_x_133(), Chipset::bus)
}

/// The direction of bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bursts {
    /// Out of memory.
    Read,
    /// Into memory.
    Write,
    /// Both in turn.
    Mixed,
}

/// Returns the rate of bursts of a length \[MB/s\].
pub fn bursts(bus: config::Bus, bytes: u32, bursts: Bursts) -> f64 {
    let mut bus = Bus::new(bus);
    let mut end = Instant::START;
    let count = 32;
    for number in 0..count {
        let is_read = bursts == Bursts::Read || bursts == Bursts::Mixed && number % 2 == 0;
        end = if is_read { bus.read(end, bytes) } else { bus.write(end, bytes) };
    }
    f64::from(bytes) * f64::from(count) / end.since(Instant::START).as_us()
}
