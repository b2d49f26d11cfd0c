//! Predictions for other clocks, and variants where the sources do not decide.

use super::super::pair::BadStand;
use super::super::set::Trials;
use super::model::{self, CHIP_MHZ, Part, Senders, TABLE_MHZ};
use crate::host::{Chipset, preset};
use crate::net::atoll::adapter::host::Mode;

/// Runs all variants.
pub fn all() -> Result<Vec<Trials>, BadStand> {
    Ok(vec![clocks()?, parts()?, senders()?])
}

fn clocks() -> Result<Trials, BadStand> {
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
    let columns =
        ["clock", "8 B, us", "256 B, us", "1 KB, us", "256 KB, us", "8 B by PIO, us", "Mb/s"];
    Ok(Trials {
        title: "ATOLL: what does another clock of the chip change?",
        text: "The same chip was also measured at another clock, with numbers that no source \
               here gives. The clock drives crossbars and links. It does not drive the \
               processor, the bus and the cable. So short messages hardly change, and the rate \
               of long ones is proportional to the clock until the bus limits it. The last column \
               is the rate of 256 KB.",
        columns: columns.map(str::to_string).to_vec(),
        rows,
    })
}

fn parts() -> Result<Trials, BadStand> {
    let short = model::parts(TABLE_MHZ, 8)?;
    let long = model::parts(TABLE_MHZ, 262_144)?;
    let us = |part: &Part| format!("{:.3}", part.time.as_us());
    let row = |(short, long): (&Part, &Part)| {
        let scales = if short.is_of_chip { "yes" } else { "no" };
        vec![short.name.to_string(), us(short), us(long), scales.to_string()]
    };
    let columns = ["part", "8 B, us", "256 KB, us", "scales with the chip's clock"];
    Ok(Trials {
        title: "ATOLL: which delays scale with the clock?",
        text: "The parts of a message by DMA at 243 MHz. They follow each other, and their sum is \
               the latency. The delay of the cable is constant, but it is rounded up to clocks.",
        columns: columns.map(str::to_string).to_vec(),
        rows: short.iter().zip(&long).map(row).collect(),
    })
}

fn senders() -> Result<Trials, BadStand> {
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
    let columns = ["bus", "one process, MB/s", "four processes, MB/s"];
    Ok(Trials {
        title: "ATOLL: how long are the bursts of the chip?",
        text: "400 MB/s of four processes on PCI 64/66 are published, the length of bursts is not. \
               The bursts of 512 B of a Myrinet card give little more than one process. Bursts \
               of 2 KB fit, and are calibrated. On PCI-X, the host decides.",
        columns: columns.map(str::to_string).to_vec(),
        rows,
    })
}
