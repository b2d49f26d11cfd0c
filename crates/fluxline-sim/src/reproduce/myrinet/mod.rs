//! Myrinet with GM: cards, switches, the buses of hosts, and the Myrinet column of ATOLL's paper.

mod model;
mod trials;

use super::atoll::megabits;
use super::page::time;
use super::pair::BadStand;
use super::set::{Facts, Number, Run};
use crate::host::preset;
use crate::net::myrinet::Config;
use crate::net::myrinet::config::Card;
use crate::net::myrinet::measure::Ways;
use model::Bursts;

/// Runs all models.
pub(super) fn run(facts: &Facts) -> Result<Run, BadStand> {
    let latencies = model::latencies()?;
    let rates = latencies.map(|bytes, us| megabits(bytes as u32, us));
    let figures = vec![
        ("myrinet-latency", vec![latencies]),
        ("myrinet-rate", vec![rates]),
        ("gm-streams", vec![model::streams()?]),
    ];
    Ok(Run { numbers: numbers()?, figures, trials: trials::all(facts)? })
}

fn numbers() -> Result<Vec<Number>, BadStand> {
    let (e, d, call) = (model::e_card(), model::d_card(), model::call_of_gm());
    let old = model::old_card();
    let fast = Config { bus: model::fast_bus(), ..e.clone() };
    let (gc_le, pci) = (preset::pci_x_133(), preset::pci_64_66());
    Ok(vec![
        ("gm-short", model::latency(&e, call, 8)?),
        ("gm-one-way", model::long(&e, Ways::One)?),
        ("gm-both-ways", model::long(&e, Ways::Both)?),
        ("gm-half", model::half(&e)?),
        ("gm-switch", model::through(1)?),
        ("gm-clos", model::through(5)?),
        ("gm-first", model::latency(&d, call, 8)?),
        ("gm-d-both-ways", model::long(&d, Ways::Both)?),
        ("gm-e-both-ways", model::long(&fast, Ways::Both)?),
        ("gm1-short", model::latency(&old, call, 8)?),
        ("gm1-rate", megabits(1 << 23, model::latency(&old, call, 1 << 23)?)),
        ("pci-x-read", model::bursts(gc_le, 4096, Bursts::Read)),
        ("pci-x-write", model::bursts(gc_le, 4096, Bursts::Write)),
        ("pci-x-mixed", model::bursts(gc_le, 4096, Bursts::Mixed)),
        ("pci-256", model::bursts(pci, 256, Bursts::Read)),
        ("pci-512", model::bursts(pci, 512, Bursts::Read)),
        ("pci-512-fast", model::bursts(pci, 512, Bursts::Write)),
    ])
}

/// Returns the value of a parameter.
pub(super) fn value(_: &str, name: &str) -> Option<String> {
    let config = model::e_card();
    let (gm, fabric) = (config.gm, config.fabric);
    let clocks = |count: u32| format!("{count} clocks");
    let cycles = |count: u32| format!("{count} cycles");
    let bytes = |count: u32| format!("{count} B");
    let card = |card: Card| {
        let ports = if card.ports == 1 { "1 port" } else { "2 ports" };
        format!("{} MHz, {ports}", card.lanai.hertz() / 1_000_000)
    };
    let (gc_le, pci) = (preset::pci_x_133(), preset::pci_64_66());
    let bursts = |read: u32, write: u32| format!("{read} and {write} clocks");
    Some(match name {
        "rate of a link" => format!("{} MB/s", fabric.clock.hertz() / 1_000_000),
        "cable" => time(fabric.cable),
        "a switch" => clocks(fabric.switch_clocks),
        "from card to link, and back" => clocks(fabric.end_clocks),
        "header and CRC of a packet" => bytes(fabric.header_bytes),
        "part that stop and go act on" => bytes(fabric.grain_bytes),
        "stop and go" => clocks(fabric.stop_clocks),
        "LANai 2XP of the E card" => card(Card::e()),
        "LANai XP of the D card" => card(Card::d()),
        "LANai 7 of the PCI64A card" => card(Card::pci64a()),
        "LANai 9 of the PCI64C card" => card(Card::pci64c()),
        "from a token to the fetch of its data" => cycles(gm.send_cycles),
        "from a packet to the way into memory" => cycles(gm.receive_cycles),
        "from the last fetch to the next token" => cycles(gm.record_cycles),
        "an acknowledgement, at each end" => cycles(gm.ack_cycles),
        "data of a packet" => bytes(gm.piece_bytes),
        "send token" => bytes(gm.token_bytes),
        "event in the receive queue" => bytes(gm.event_bytes),
        "send tokens of a host" => gm.tokens.to_string(),
        "packets under way to a card" => gm.window.to_string(),
        "repetition after" => time(gm.resend),
        "end of a connection after" => time(gm.give_up),
        "a GM call, at each end" => time(model::call_of_gm()),
        "bursts of 4 KB on GC-LE, PCI-X 133" => bursts(gc_le.read_clocks, gc_le.write_clocks),
        "bursts on PCI 64/66" => bursts(pci.read_clocks, pci.write_clocks),
        _ => return None,
    })
}
