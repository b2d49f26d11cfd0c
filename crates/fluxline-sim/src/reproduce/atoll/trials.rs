//! Predictions for other clocks, and variants where the sources do not decide.

use super::super::pair::BadStand;
use super::model::{self, CHIP_MHZ, Part, Senders, TABLE_MHZ};
use crate::host::{Chipset, preset};
use crate::net::atoll::adapter::host::Mode;

/// The rows of variants.
type Rows = Vec<Vec<String>>;

/// Runs all variants.
pub fn all() -> Result<Vec<(&'static str, Rows)>, BadStand> {
    Ok(vec![("clocks", clocks()?), ("parts", parts()?), ("senders", senders()?)])
}

fn clocks() -> Result<Rows, BadStand> {
    let mut rows = Vec::new();
    for megahertz in [125, 175, 200, TABLE_MHZ, CHIP_MHZ, 300, 400] {
        let mut row = vec![format!("{megahertz} MHz")];
        for bytes in [8, 256, 1024, 262_144] {
            row.push(format!("{:.2}", model::latency(megahertz, bytes, Mode::Dma)?));
        }
        row.push(format!("{:.2}", model::latency(megahertz, 8, Mode::Pio)?));
        let megabits = model::megabits(262_144, model::latency(megahertz, 262_144, Mode::Dma)?);
        row.push(format!("{megabits:.0}"));
        rows.push(row);
    }
    Ok(rows)
}

fn parts() -> Result<Rows, BadStand> {
    let short = model::parts(TABLE_MHZ, 8)?;
    let long = model::parts(TABLE_MHZ, 262_144)?;
    let us = |part: &Part| format!("{:.3}", part.time.as_us());
    let row = |(short, long): (&Part, &Part)| {
        let scales = if short.is_of_chip { "yes" } else { "no" };
        vec![short.name.to_string(), us(short), us(long), scales.to_string()]
    };
    Ok(short.iter().zip(&long).map(row).collect())
}

fn senders() -> Result<Rows, BadStand> {
    let bursts = |bytes| (format!("PCI 64/66, bursts of {bytes} B"), model::pci_64_66(bytes));
    let mut buses: Vec<_> = [512, 1024, 2048, 4096].map(bursts).to_vec();
    buses.push(("PCI-X 100, HS20".to_string(), preset::pci_x_100()));
    buses.push(("PCI-X 133, GC-LE".to_string(), preset::pci_x_133()));
    let melody = Chipset::named("melody").map(|of| ("PCI-X 133, AMD 8131".to_string(), of.bus()));
    buses.extend(melody);
    let mut rows = Vec::new();
    for (name, bus) in buses {
        let mut row = vec![name];
        for processes in [1, 4] {
            let rate = Senders { processes, bus, bytes: 1 << 16 }.rate()?;
            row.push(format!("{rate:.0}"));
        }
        rows.push(row);
    }
    Ok(rows)
}
