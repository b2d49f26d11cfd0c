//! Variants where the sources do not decide, and predictions for other hosts and cards.

use super::super::pair::BadStand;
use super::super::set::Facts;
use super::model::{self, Bursts};
use crate::host::{CHIPSETS, preset};
use crate::net::myrinet::Config;
use crate::net::myrinet::config::Card;
use crate::net::myrinet::measure::Ways;

/// The rows of variants.
type Rows = Vec<Vec<String>>;

/// Runs all variants.
pub fn all(facts: &Facts) -> Result<Vec<(&'static str, Rows)>, BadStand> {
    Ok(vec![("calls", calls(facts)?), ("hosts", hosts()?), ("cards", cards()?)])
}

fn calls(facts: &Facts) -> Result<Rows, BadStand> {
    let (atoll, gm) = (model::call_of_atoll(), model::call_of_gm());
    let variants = [
        ("GM's own call (the preset)", model::hosts_of_atoll(), gm),
        ("the call of ATOLL's library", model::hosts_of_atoll(), atoll),
        ("the same in the slot of ATOLL's card", model::slot_of_atoll(), atoll),
    ];
    let mut rows = Vec::new();
    for (name, config, call) in variants {
        let mut row = vec![name.to_string()];
        for bytes in [8, 64, 256, 1024, 8192, 262_144] {
            let us = model::latency(&config, call, bytes)?;
            row.push(facts.shown(&format!("myrinet-us-{bytes}"), us));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn hosts() -> Result<Rows, BadStand> {
    let mut rows = Vec::new();
    for chipset in &CHIPSETS {
        let bus = chipset.bus();
        let config = Config { bus, ..model::e_card() };
        let rate = |bursts| format!("{:.0}", model::bursts(bus, 4096, bursts));
        rows.push(vec![
            chipset.name.to_string(),
            chipset.machine.to_string(),
            format!("{} of {:.0}", rate(Bursts::Read), chipset.read_mb_s),
            format!("{} of {:.0}", rate(Bursts::Write), chipset.write_mb_s),
            rate(Bursts::Mixed),
            format!("{:.0}", model::long(&config, Ways::One)?),
            format!("{:.0}", model::long(&config, Ways::Both)?),
            format!("{:.2}", model::latency(&config, model::call_of_gm(), 8)?),
        ]);
    }
    Ok(rows)
}

fn cards() -> Result<Rows, BadStand> {
    let pci64c = Config { card: Card::pci64c(), bus: preset::pci_64_66(), ..model::e_card() };
    let mut rows = Vec::new();
    for (name, config) in [
        ("E, PCI-X 133", model::e_card()),
        ("D, PCI-X 133", model::d_card()),
        ("PCI64C, PCI 64/66", pci64c),
        ("PCI64A, PCI 32/33", model::old_card()),
    ] {
        rows.push(vec![
            name.to_string(),
            format!("{:.2}", model::latency(&config, model::call_of_gm(), 8)?),
            format!("{:.0}", model::long(&config, Ways::One)?),
            format!("{:.0}", model::long(&config, Ways::Both)?),
            format!("{:.0}", model::half(&config)?),
        ]);
    }
    Ok(rows)
}
