//! Demonstrates: ATOLL's hosts and links beside the published figures, and a prediction for other
//! clocks. One number is calibrated, the latency of 8 bytes at 243 MHz; all others follow.
//!
//! `cargo run --release -p fluxline-sim --example reproduce_atoll`

use std::error::Error;

use fluxline_sim::host::{config, preset};
use fluxline_sim::net::atoll::adapter::host::{Hosts, Mode, Times, Transfer, one_way};
use fluxline_sim::net::atoll::{Config, Grid, Wiring};
use fluxline_sim::{Agenda, Clock, Instant, Model};

/// A row of the published table at 243 MHz.
struct Row {
    bytes: u32,
    us: f64,
    megabits: f64,
}

const PUBLISHED: [Row; 6] = [
    Row { bytes: 8, us: 4.88, megabits: 9.4 },
    Row { bytes: 64, us: 5.46, megabits: 90.0 },
    Row { bytes: 256, us: 6.72, megabits: 290.0 },
    Row { bytes: 1024, us: 11.11, megabits: 703.0 },
    Row { bytes: 8192, us: 48.76, megabits: 1281.0 },
    Row { bytes: 262_144, us: 1237.85, megabits: 1615.0 },
];

fn config(wiring: Wiring, megahertz: u64) -> Config {
    Config { clock: Clock::from_hertz(megahertz * 1_000_000), ..Config::new(wiring) }
}

fn pair(megahertz: u64) -> Result<Config, Box<dyn Error>> {
    let wiring = Wiring::grid(Grid { columns: 2, rows: 1, is_torus: false })?;
    Ok(config(wiring, megahertz))
}

fn latency(megahertz: u64, bytes: u32, mode: Mode) -> Result<f64, Box<dyn Error>> {
    Ok(one_way(&pair(megahertz)?, Times::pc(), bytes, mode)?.as_us())
}

/// Megabits of NetPIPE are 2^20 bits.
fn megabits(bytes: u32, us: f64) -> f64 {
    f64::from(bytes) * 8.0 / us / 1.048_576
}

fn table() -> Result<(), Box<dyn Error>> {
    println!("243 MHz, DMA       latency [us]              throughput [Mb/s]");
    println!("   bytes    model    paper            model    paper");
    for Row { bytes, us, megabits: rate } in PUBLISHED {
        let model = latency(243, bytes, Mode::Dma)?;
        let model_rate = megabits(bytes, model);
        let (off, rate_off) = (100.0 * (model / us - 1.0), 100.0 * (model_rate / rate - 1.0));
        println!(
            "{bytes:8} {model:8.2} {us:8.2} {off:+6.1} % {model_rate:8.1} {rate:8.1} {rate_off:+6.1} %"
        );
    }
    println!("The rate of the first row, 9.4 Mb/s, is that of 6 bytes in 4.88 us.");
    Ok(())
}

fn clocks() -> Result<(), Box<dyn Error>> {
    println!("\nPredicted latency by DMA [us]; PIO in brackets");
    for megahertz in [125, 200, 243, 250] {
        print!("{megahertz:4} MHz:");
        for bytes in [8, 1024, 262_144] {
            print!("  {bytes} B {:.2}", latency(megahertz, bytes, Mode::Dma)?);
        }
        println!(" (8 B {:.2})", latency(megahertz, 8, Mode::Pio)?);
    }
    Ok(())
}

/// Returns the rate at which processes of one node send to the others \[MB/s\].
fn senders(processes: u8, bus: config::Bus) -> Result<f64, Box<dyn Error>> {
    let times = Times { bus, ..Times::pc() };
    let mut hosts = Hosts::new(config(Wiring::full(5)?, 250), times)?;
    let mut agenda = Agenda::default();
    let (count, bytes) = (40, 1 << 16);
    for _ in 0..count {
        for port in 0..processes {
            let to = u32::from(port) + 1;
            hosts.begin(Transfer { from: 0, to, port, bytes, mode: Mode::Dma }, &mut agenda)?;
        }
    }
    while let Some(entry) = agenda.take(Instant::NEVER) {
        hosts.handle(entry, &mut agenda);
    }
    let last = std::iter::from_fn(|| hosts.next_finished()).map(|end| end.at).max();
    let us = last.ok_or("no message arrived")?.since(Instant::START).as_us();
    Ok(f64::from(count) * f64::from(processes) * f64::from(bytes) / us)
}

fn main() -> Result<(), Box<dyn Error>> {
    table()?;
    clocks()?;
    println!("\nMessages of 64 KiB from one node [MB/s]; published: 221, and 400 on PCI 64/66");
    let two_kilobytes =
        config::Bus { read_burst_bytes: 2048, write_burst_bytes: 2048, ..preset::pci_64_66() };
    for (name, bus) in [
        ("PCI-X 133", preset::pci_x_133()),
        ("PCI-X 100", preset::pci_x_100()),
        ("PCI 64/66, bursts of 512 bytes", preset::pci_64_66()),
        ("PCI 64/66, bursts of 2 KiB (assumed)", two_kilobytes),
    ] {
        println!("{name}: {:.0} by one process, {:.0} by four", senders(1, bus)?, senders(4, bus)?);
    }
    Ok(())
}
