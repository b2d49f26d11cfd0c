//! The parameters of the link models, with their origins.

use super::super::fact::Fact;
use super::super::parameter::{Origin, Parameter, time};
use super::facts;
use crate::net::myrinet::Config;
use crate::net::myrinet::other;

const QSNET: &str = "QsNet II";
const INFINIBAND: &str = "InfiniBand 4X SDR";

static OF_QSNET_BUS: [&Fact; 1] = [&facts::QSNET_RATE];
static OF_QSNET_CARD: [&Fact; 1] = [&facts::QSNET_SHORT];
static OF_INFINIBAND_BUS: [&Fact; 1] = [&facts::INFINIBAND_RATE];
static OF_INFINIBAND_CARD: [&Fact; 1] = [&facts::INFINIBAND_SHORT];

/// Returns the parameters of two configurations.
pub fn parameters(elan: &Config, hca: &Config) -> Vec<Parameter> {
    let mut all = qsnet(elan);
    all.extend(infiniband(hca));
    all
}

fn ns(count: u32) -> String {
    format!("{count} ns")
}

fn bytes(count: u32) -> String {
    format!("{count} B")
}

fn rate(config: &Config) -> String {
    format!("{} MB/s", config.fabric.clock.hertz() / 1_000_000)
}

fn qsnet(config: &Config) -> Vec<Parameter> {
    let (gm, fabric) = (config.gm, config.fabric);
    let of = |name, value| Parameter::new(QSNET, name, value);
    vec![
        of("rate of a link", rate(config)).from(Origin::Source, "1.3 GB/s in each direction"),
        of("bursts out of memory", format!("{} clocks more", config.bus.read_clocks))
            .from(Origin::Calibrated, "906 MB/s in bursts of 2 KB on PCI-X 133")
            .fixed_by(&OF_QSNET_BUS),
        of("the card, at each end", ns(gm.send_cycles))
            .from(Origin::Calibrated, "the rest of 1.22 us")
            .fixed_by(&OF_QSNET_CARD),
        of("a call, at each end", time(other::CALL_QSNET)).from(Origin::Assumed, "a short put"),
        of("data of a packet", bytes(gm.piece_bytes)).from(Origin::Assumed, "as InfiniBand's"),
        of("header of a packet", bytes(fabric.header_bytes)).from(Origin::Assumed, "five words"),
        of("messages stored by the host", format!("up to {} B", gm.inline_bytes))
            .from(Origin::Assumed, "the engine for short puts; its limit"),
        of("a switch", "20 ns".to_string()).from(Origin::Background, "an Elite4"),
        of("from card to link, and back", "50 ns".to_string()).from(Origin::Assumed, "no source"),
        of("credits of a link", bytes(fabric.credit_bytes))
            .from(Origin::Assumed, "many times a round trip; no fact depends on it"),
    ]
}

fn infiniband(config: &Config) -> Vec<Parameter> {
    let (gm, fabric) = (config.gm, config.fabric);
    let of = |name, value| Parameter::new(INFINIBAND, name, value);
    vec![
        of("rate of a link", rate(config))
            .from(Origin::Background, "10 Gb/s of signals, 8 bits of 10"),
        of("bursts out of memory", format!("{} clocks more", config.bus.read_clocks))
            .from(Origin::Calibrated, "841 MB/s in bursts of 2 KB on PCI-X 133")
            .fixed_by(&OF_INFINIBAND_BUS),
        of("the card, at each end", ns(gm.send_cycles))
            .from(Origin::Calibrated, "the rest of 6.8 us")
            .fixed_by(&OF_INFINIBAND_CARD),
        of("a call, at each end", time(other::CALL_INFINIBAND))
            .from(Origin::Background, "1.7 us for sending and receiving"),
        of("data of a packet", bytes(gm.piece_bytes)).from(Origin::Background, "MTU of 2 KB"),
        of("header and CRCs of a packet", bytes(fabric.header_bytes))
            .from(Origin::Background, "LRH 8, BTH 12, ICRC 4, VCRC 2"),
        of("unit of credits", bytes(fabric.grain_bytes)).from(Origin::Background, "64 B"),
        of("credits of a link", bytes(fabric.credit_bytes))
            .from(Origin::Assumed, "many times a round trip; no fact depends on it"),
        of("a switch", "150 ns".to_string()).from(Origin::Background, "100 to 200 ns"),
        of("from card to link, and back", "100 ns".to_string()).from(Origin::Assumed, "no source"),
        of("other packets of a message; an acknowledgement", ns(gm.packet_cycles))
            .from(Origin::Assumed, "no fact depends on it"),
    ]
}
