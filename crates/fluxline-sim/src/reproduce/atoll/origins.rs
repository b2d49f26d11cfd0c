//! The parameters of the models of ATOLL, with their origins.

use super::super::fact::Fact;
use super::super::parameter::{Origin, Parameter, time};
use super::{facts, model};
use crate::net::atoll::Config;
use crate::net::atoll::adapter::host::Times;

const CHIP: &str = "ATOLL chip";
const HOST: &str = "PC with GC-LE";
const NETWORK: &str = "16 nodes";

static OF_CALL: [&Fact; 1] = [&facts::LATENCIES[0]];
/// The first part moves these rows by 0.2 us. That of 64 B is shorter than it, and that of 256 KB
/// does not show it.
static OF_FIRST_PART: [&Fact; 6] = [
    &facts::LATENCIES[2],
    &facts::LATENCIES[3],
    &facts::LATENCIES[4],
    &facts::RATES[2],
    &facts::RATES[3],
    &facts::RATES[4],
];
static OF_OVERHEAD: [&Fact; 1] = [&facts::ONE_SENDER];
static OF_BURSTS: [&Fact; 1] = [&facts::FOUR_SENDERS];
static OF_HOP: [&Fact; 1] = [&facts::HOP];
static OF_WIRING: [&Fact; 2] = [&facts::BISECTION, &facts::LONGEST];

/// Returns the parameters of a configuration.
pub fn parameters(config: &Config, times: &Times) -> Vec<Parameter> {
    let mut all = chip(config);
    all.extend(links(config));
    all.extend(host(times));
    all
}

fn chip(config: &Config) -> Vec<Parameter> {
    let of = |name, value| Parameter::new(CHIP, name, value);
    vec![
        of("clock", format!("{} MHz in the table, else {}", model::TABLE_MHZ, model::CHIP_MHZ))
            .from(Origin::Published, "the paper's table, and its text"),
        of("a hop", format!("{} clocks", config.hop_clocks))
            .from(Origin::Published, "24 to 27 clocks")
            .fixed_by(&OF_HOP),
        of("header of a message", format!("{} B", config.header_bytes))
            .from(Origin::Assumed, "one word of the host interface"),
        of("messages that wait at a host port", config.queue_messages.to_string())
            .from(Origin::Assumed, "descriptors; no fact depends on it"),
        of("bursts on PCI 64/66", format!("{} B", model::PCI_BURST_BYTES))
            .from(Origin::Calibrated, "400 MB/s of four processes")
            .fixed_by(&OF_BURSTS),
        Parameter::new(NETWORK, "wiring", "torus of 4 x 4".to_string())
            .from(
                Origin::Published,
                "the paper names grid and torus; a grid has 4 links and 6 hops",
            )
            .fixed_by(&OF_WIRING),
    ]
}

fn links(config: &Config) -> Vec<Parameter> {
    let of = |name, value| Parameter::new(CHIP, name, value);
    let bytes = |bytes: u32| format!("{bytes} B");
    vec![
        of("payload of a link packet", bytes(config.packet_bytes))
            .from(Origin::Published, "link packets of 64 B"),
        of("overhead of a link packet", format!("{} symbols", config.overhead_symbols))
            .from(Origin::Calibrated, "221 of 250 MB/s are 64 of 72.4 symbols")
            .fixed_by(&OF_OVERHEAD),
        of("cable", time(config.cable)).from(Origin::Background, "5 m (published) of 5 ns"),
        of("buffer of an input", bytes(config.fifo_bytes))
            .from(Origin::Assumed, "twice the packets that arrive after a stop"),
        of("go below", bytes(config.go_bytes)).from(Origin::Assumed, "half of the buffer"),
        of("retransmission buffer", format!("{} packets", config.window))
            .from(Origin::Assumed, "2 to 3 packets fill a round trip"),
        of("acknowledgement", format!("{} clocks", config.ack_clocks))
            .from(Origin::Assumed, "check of the CRC; no fact depends on it"),
        of("stop and go", format!("{} clocks", config.stop_clocks))
            .from(Origin::Assumed, "twice 6; no fact depends on it"),
    ]
}

fn host(times: &Times) -> Vec<Parameter> {
    let of = |name, value| Parameter::new(HOST, name, value);
    let bytes = |bytes: u32| format!("{bytes} B");
    let bus = times.bus;
    let burst = |bytes: u32, clocks: u32| format!("{bytes} B with {clocks} clocks more");
    vec![
        of("a call, at each end", time(times.call))
            .from(Origin::Calibrated, "8 bytes in 4.88 us")
            .fixed_by(&OF_CALL),
        of("first part that the chip reads", bytes(times.first_bytes))
            .from(Origin::Calibrated, "chosen with these rows in view; 64 B would be 0.2 us less")
            .fixed_by(&OF_FIRST_PART),
        of("bus", format!("PCI-X, {} MHz", bus.clock.hertz() / 1_000_000))
            .from(Origin::Published, "PCI-X, 100 MHz times 8 B"),
        of("bursts out of memory", burst(bus.read_burst_bytes, bus.read_clocks))
            .from(Origin::Source, "Myricom's measurement of an IBM HS20 at 100 MHz"),
        of("bursts into memory", burst(bus.write_burst_bytes, bus.write_clocks))
            .from(Origin::Source, "Myricom's measurement of an IBM HS20 at 100 MHz"),
        of("descriptor", bytes(times.descriptor_bytes)).from(Origin::Assumed, "four words"),
        of("status", bytes(times.status_bytes)).from(Origin::Assumed, "a cache line"),
        of("burst of stores by PIO", bytes(times.store_bytes))
            .from(Origin::Background, "write combining of a Xeon"),
    ]
}
