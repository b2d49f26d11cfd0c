//! The parameters of the models of Myrinet, with their origins.

use super::super::atoll;
use super::super::fact::Fact;
use super::super::parameter::{Origin, Parameter, time};
use super::{facts, model};
use crate::host::preset;
use crate::net::myrinet::Config;
use crate::net::myrinet::config::Card;

const LINKS: &str = "Myrinet-2000";
const CARDS: &str = "cards";
const SOFTWARE: &str = "GM 2";
const HOSTS: &str = "hosts";

static OF_SHORT: [&Fact; 1] = [&facts::SHORT];
static OF_HALF: [&Fact; 1] = [&facts::HALF];
static OF_ENDS: [&Fact; 1] = [&facts::ONE_SWITCH];
static OF_SWITCH: [&Fact; 1] = [&facts::LARGEST_CLOS];
static OF_GC_LE: [&Fact; 2] = [&facts::BUS_READ, &facts::BUS_WRITE];
static OF_PCI: [&Fact; 3] = [&facts::BURST_256, &facts::BURST_512, &facts::BURST_FAST];
static OF_CALL: [&Fact; 1] = [&atoll::LATENCIES[0]];

/// Returns the parameters of a configuration.
pub fn parameters(config: &Config) -> Vec<Parameter> {
    let mut all = links(config);
    all.extend(software(config));
    all.extend(connections(config));
    all.extend(hosts());
    all
}

fn clocks(count: u32) -> String {
    format!("{count} clocks")
}

fn bytes(count: u32) -> String {
    format!("{count} B")
}

fn links(config: &Config) -> Vec<Parameter> {
    let (of, fabric) = (|name, value| Parameter::new(LINKS, name, value), config.fabric);
    let card = |name, card: Card| {
        let ports = if card.ports == 1 { "1 port" } else { "2 ports" };
        Parameter::new(CARDS, name, format!("{} MHz, {ports}", card.lanai.hertz() / 1_000_000))
    };
    vec![
        of("rate of a link", format!("{} MB/s", fabric.clock.hertz() / 1_000_000))
            .from(Origin::Source, "2 Gb/s in each direction"),
        of("cable", time(fabric.cable)).from(Origin::Assumed, "5 m; 6.5 ns/m is published"),
        of("a switch", clocks(fabric.switch_clocks))
            .from(Origin::Calibrated, "0.15 us with its cable: four more switches take 0.6 us")
            .fixed_by(&OF_SWITCH),
        of("from card to link, and back", clocks(fabric.end_clocks))
            .from(Origin::Calibrated, "the rest of 0.5 us through one switch")
            .fixed_by(&OF_ENDS),
        of("header and CRC of a packet", bytes(fabric.header_bytes))
            .from(Origin::Assumed, "six words; a CRC of 8 bits is published"),
        of("part that stop and go act on", bytes(fabric.grain_bytes))
            .from(Origin::Assumed, "no fact depends on it"),
        of("stop and go", clocks(fabric.stop_clocks))
            .from(Origin::Assumed, "as for ATOLL; no fact depends on it"),
        card("LANai 2XP of the E card", Card::e()).from(Origin::Source, "M3F2-PCIXE"),
        card("LANai XP of the D card", Card::d())
            .from(Origin::Background, "M3F-PCIXD; one port is published"),
        card("LANai 7 of the PCI64A card", Card::pci64a())
            .from(Origin::Background, "its links carry 160 MB/s (background)"),
        card("LANai 9 of the PCI64C card", Card::pci64c())
            .from(Origin::Background, "no fact depends on it"),
    ]
}

fn software(config: &Config) -> Vec<Parameter> {
    let (of, gm) = (|name, value| Parameter::new(SOFTWARE, name, value), config.gm);
    let cycles = |count: u32| format!("{count} cycles");
    vec![
        of("from a token to the fetch of its data", cycles(gm.send_cycles))
            .from(Origin::Calibrated, "half of the LANai's part of 5.05 us")
            .fixed_by(&OF_SHORT),
        of("from a packet to the way into memory", cycles(gm.receive_cycles))
            .from(Origin::Calibrated, "the other half; the division is assumed")
            .fixed_by(&OF_SHORT),
        of("from the last fetch to the next token", cycles(gm.record_cycles))
            .from(Origin::Calibrated, "half of the rate at 1486 B")
            .fixed_by(&OF_HALF),
        of("an acknowledgement, at each end", cycles(gm.ack_cycles))
            .from(Origin::Assumed, "a quarter of a packet's"),
        of("data of a packet", bytes(gm.piece_bytes)).from(Origin::Background, "pages of 4 KB"),
        of("send token", bytes(gm.token_bytes)).from(Origin::Assumed, "four words"),
        of("event in the receive queue", bytes(gm.event_bytes))
            .from(Origin::Assumed, "a cache line"),
    ]
}

fn connections(config: &Config) -> Vec<Parameter> {
    let (of, gm) = (|name, value| Parameter::new(SOFTWARE, name, value), config.gm);
    vec![
        of("send tokens of a host", gm.tokens.to_string())
            .from(Origin::Assumed, "no fact depends on it"),
        of("packets under way to a card", gm.window.to_string())
            .from(Origin::Assumed, "many times a round trip; no fact depends on it"),
        of("repetition after", time(gm.resend))
            .from(Origin::Assumed, "longer than any queue; no fact depends on it"),
        of("end of a connection after", time(gm.give_up))
            .from(Origin::Background, "the time of a blocked port"),
    ]
}

fn hosts() -> Vec<Parameter> {
    let of = |name, value| Parameter::new(HOSTS, name, value);
    let (gc_le, pci) = (preset::pci_x_133(), preset::pci_64_66());
    let bursts = |read: u32, write: u32| format!("{read} and {write} clocks");
    vec![
        of("a GM call, at each end", time(model::call_of_gm()))
            .from(Origin::Source, "less than 0.5 us for sending and receiving together"),
        of("a call on the hosts of ATOLL's paper", time(model::call_of_atoll()))
            .from(
                Origin::Calibrated,
                "ATOLL's latency of 8 B: the same hosts, program and polling; that the libraries \
                 take equally long is assumed",
            )
            .fixed_by(&OF_CALL),
        of("bus of the hosts of ATOLL's paper", "PCI-X, 100 MHz".to_string())
            .from(Origin::Source, "as ATOLL's card; bursts as on an IBM HS20"),
        of("bursts of 4 KB on GC-LE, PCI-X 133", bursts(gc_le.read_clocks, gc_le.write_clocks))
            .from(Origin::Calibrated, "clocks beside the data, out of and into memory")
            .fixed_by(&OF_GC_LE),
        of("bursts on PCI 64/66", bursts(pci.read_clocks, pci.write_clocks))
            .from(Origin::Calibrated, "slow direction 84 and 86 clocks, fast direction 44")
            .fixed_by(&OF_PCI),
    ]
}
