//! The experiments on ATOLL, run on the models of its chip and hosts.

use super::super::pair::BadStand;
use super::super::set::Curve;
use crate::host::{Bus, config, preset};
use crate::net::atoll::adapter::host::{Hosts, Mode, Times, Transfer, one_way};
use crate::net::atoll::{Config, Grid, Network, Parcel, Wiring};
use crate::{Agenda, Clock, Duration, Instant, Model};

/// The clock of the published table \[MHz\].
pub const TABLE_MHZ: u64 = 243;
/// The clock of the chip in all other statements \[MHz\].
pub const CHIP_MHZ: u64 = 250;
/// The bursts of the chip on PCI 64/66 \[byte\]. Calibrated on 400 MB/s of four processes.
pub const PCI_BURST_BYTES: u32 = 2048;

fn config(wiring: Wiring, megahertz: u64) -> Config {
    Config { clock: Clock::from_hertz(megahertz * 1_000_000), ..Config::new(wiring) }
}

/// Returns two chips with a direct cable.
pub fn pair(megahertz: u64) -> Result<Config, BadStand> {
    let grid = Grid { columns: 2, rows: 1, is_torus: false };
    Ok(config(Wiring::grid(grid)?, megahertz))
}

/// Returns the latency of a message between two hosts \[us\].
pub fn latency(megahertz: u64, bytes: u32, mode: Mode) -> Result<f64, BadStand> {
    Ok(one_way(&pair(megahertz)?, Times::pc(), bytes, mode)?.as_us())
}

/// Returns the rate of a ping-pong as NetPIPE prints it: its megabits are 2^20 bits.
pub fn megabits(bytes: u32, us: f64) -> f64 {
    f64::from(bytes) * 8.0 / us / 1.048_576
}

/// Returns the curve of latencies at the table's clock \[us\], by size.
pub fn latencies() -> Result<Curve, BadStand> {
    let name = format!("{TABLE_MHZ} MHz, DMA");
    let sizes = (3..=20).map(|bits| 1 << bits);
    Curve::of(&name, sizes, |bytes| latency(TABLE_MHZ, bytes, Mode::Dma))
}

/// Returns the bus of a PCI 64/66 host with bursts of a length.
pub fn pci_64_66(burst_bytes: u32) -> config::Bus {
    let (read_burst_bytes, write_burst_bytes) = (burst_bytes, burst_bytes);
    config::Bus { read_burst_bytes, write_burst_bytes, ..preset::pci_64_66() }
}

/// Processes of one node that send to the others at once.
#[derive(Clone, Copy, Debug)]
pub struct Senders {
    /// The processes, 1 to 4.
    pub processes: u8,
    /// The bus of each host.
    pub bus: config::Bus,
    /// The length of a message \[byte\].
    pub bytes: u32,
}

impl Senders {
    /// Returns the rate of all processes together \[MB/s\].
    pub fn rate(self) -> Result<f64, BadStand> {
        let mut times = Times::pc();
        times.dma.bus = self.bus;
        let mut hosts = Hosts::new(config(Wiring::full(5)?, CHIP_MHZ), times)?;
        let mut agenda = Agenda::default();
        let count = (40 << 16) / self.bytes.min(1 << 16);
        for _ in 0..count {
            for port in 0..self.processes {
                let (to, mode) = (u32::from(port) + 1, Mode::Dma);
                let transfer = Transfer { from: 0, to, port, bytes: self.bytes, mode };
                hosts.begin(transfer, &mut agenda)?;
            }
        }
        while let Some(entry) = agenda.take(Instant::NEVER) {
            hosts.handle(entry, &mut agenda);
        }
        let ends = std::iter::from_fn(|| hosts.next_finished()).map(|end| end.at);
        let us = ends.max().unwrap_or(Instant::START).since(Instant::START).as_us();
        Ok(f64::from(count) * f64::from(self.processes) * f64::from(self.bytes) / us)
    }
}

/// Returns the clocks by which one more chip delays a message, without its cable.
pub fn hop_clocks() -> Result<f64, BadStand> {
    let grid = Grid { columns: 3, rows: 1, is_torus: false };
    let config = config(Wiring::grid(grid)?, CHIP_MHZ);
    let (clock, cable) = (config.clock, config.cable_clocks());
    let network = Network::<Parcel>::new(config)?;
    let time = |links| clock.tick_from(Instant::START + network.zero_load(links, 8));
    Ok((time(2) - time(1) - cable) as f64)
}

/// Returns 16 nodes as the paper wires them: the ends of rows and columns are joined.
pub fn sixteen() -> Result<Wiring, BadStand> {
    Ok(Wiring::grid(Grid { columns: 4, rows: 4, is_torus: true })?)
}

/// Returns the least number of cables between two halves of 16 nodes.
pub fn bisection(wiring: &Wiring) -> f64 {
    let halves = (0..1_u32 << 16).filter(|half| half.count_ones() == 8);
    let cuts = halves.map(|half| wiring.cut(|node| half & 1 << node != 0));
    cuts.min().map_or(0.0, f64::from)
}

/// Returns the hops of the longest path.
pub fn longest(wiring: &Wiring) -> Result<f64, BadStand> {
    let network = Network::<Parcel>::new(config(wiring.clone(), CHIP_MHZ))?;
    let nodes = wiring.nodes();
    let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| [from, to]));
    let links = pairs.filter_map(|[from, to]| network.links_between(from, to));
    Ok(links.max().map_or(0.0, f64::from))
}

/// A part of the latency of a message by DMA.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The step.
    pub name: &'static str,
    /// Its time.
    pub time: Duration,
    /// True if the chip's clock scales it.
    pub is_of_chip: bool,
}

/// Returns the parts of a message's latency over a direct cable; they follow each other.
pub fn parts(megahertz: u64, bytes: u32) -> Result<[Part; 8], BadStand> {
    let config = pair(megahertz)?;
    let times = Times::pc();
    let dma = times.dma;
    let host = |name, time| Part { name, time, is_of_chip: false };
    let chip = |name, time| Part { name, time, is_of_chip: true };
    let bus =
        |work: &dyn Fn(&mut Bus) -> Instant| work(&mut Bus::new(dma.bus)).since(Instant::START);
    let start = Instant::START;
    let first = bytes.min(dma.first_bytes);
    let burst = bytes.min(dma.bus.write_burst_bytes);
    let network = Network::<Parcel>::new(config.clone())?;
    let wires = config.clock.span(2 * u64::from(config.hop_clocks) + config.cable_clocks());
    let symbols = network.zero_load(1, bytes).as_ps() - wires.as_ps();
    Ok([
        host("the sender's call", times.call),
        host("the doorbell", bus(&|bus| bus.store(start, 8, Duration::ZERO))),
        host("the descriptor", bus(&|bus| bus.read(start, dma.descriptor_bytes))),
        host("the first part of the data", bus(&|bus| bus.read(start, first))),
        chip("two chips and the cable", wires),
        chip("the symbols of the message", Duration::from_ps(symbols)),
        host("the last burst and the status into memory", {
            let data = bus(&|bus| bus.write(start, burst));
            data + bus(&|bus| bus.write(start, dma.status_bytes))
        }),
        host("the receiver's call", times.call),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_message_add_up_to_its_latency() {
        for megahertz in [125, 200, 243, 250] {
            for bytes in [8, 64, 256, 1024, 262_144] {
                let parts = parts(megahertz, bytes).expect("two chips");
                let sum: f64 = parts.iter().map(|part| part.time.as_us()).sum();
                let whole = latency(megahertz, bytes, Mode::Dma).expect("two chips");
                // The chip begins at its next clock.
                assert!((sum - whole).abs() < 0.010, "{bytes} B at {megahertz}: {sum}, {whole}");
            }
        }
    }
}
