//! Variants where the sources do not decide, and predictions for other hosts and cards.

use super::super::pair::BadStand;
use super::super::set::Trials;
use super::facts;
use super::model::{self, Bursts};
use crate::host::{CHIPSETS, preset};
use crate::net::myrinet::Config;
use crate::net::myrinet::config::Card;
use crate::net::myrinet::measure::Ways;

/// Runs all variants.
pub fn all() -> Result<Vec<Trials>, BadStand> {
    Ok(vec![calls()?, hosts()?, cards()?])
}

fn calls() -> Result<Trials, BadStand> {
    let (atoll, gm) = (model::call_of_atoll(), model::call_of_gm());
    let at_133 = model::d_card();
    let variants = [
        ("hosts of ATOLL's paper (the preset)", model::hosts_of_atoll(), atoll),
        ("the same with GM's own call", model::hosts_of_atoll(), gm),
        ("the same call, PCI-X 133 of a GC-LE", at_133, atoll),
    ];
    let mut rows = Vec::new();
    for (name, config, call) in variants {
        let mut row = vec![name.to_string()];
        for (fact, bytes) in facts::LATENCIES.iter().zip(super::super::atoll::SIZES) {
            let finding = fact.model(model::latency(&config, call, bytes)?);
            let mark = if finding.holds() { "" } else { " (missed)" };
            row.push(format!("{:.2}{mark}", finding.model));
        }
        rows.push(row);
    }
    let columns = ["hosts", "8 B, us", "64 B", "256 B", "1 KB", "8 KB", "256 KB"];
    Ok(Trials {
        title: "Myrinet: what did a call cost on the hosts of ATOLL's paper?",
        text: "ATOLL's latency of 8 B fixes the processor time of a call on these hosts. The same \
               time for GM predicts the Myrinet column. GM's own number, from a faster processor \
               and a test program of its makers, is far too short for it.",
        columns: columns.map(str::to_string).to_vec(),
        rows,
    })
}

fn hosts() -> Result<Trials, BadStand> {
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
    let columns = [
        "host",
        "machine",
        "out of memory, MB/s",
        "into memory, MB/s",
        "mixed, MB/s",
        "E card one way, MB/s",
        "both ways, MB/s",
        "8 B, us",
    ];
    Ok(Trials {
        title: "Myrinet: what do other hosts change?",
        text: "The overhead of bursts of each host follows from its published rates (behind \
               \"of\"). The rates and latencies of the E card on it are predictions.",
        columns: columns.map(str::to_string).to_vec(),
        rows,
    })
}

fn cards() -> Result<Trials, BadStand> {
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
    let columns = ["card", "8 B, us", "one way, MB/s", "both ways, MB/s", "half of the rate at, B"];
    Ok(Trials {
        title: "Myrinet: what do other cards of the family change?",
        text: "Only the clock of the LANai, the ports and the bus differ. The program of the \
               LANai takes the same cycles on all of them.",
        columns: columns.map(str::to_string).to_vec(),
        rows,
    })
}
