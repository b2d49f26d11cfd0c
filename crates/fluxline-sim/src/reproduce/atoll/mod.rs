//! ATOLL: its latencies and rates between two hosts, its hops, and the processes of one node.

mod model;
mod trials;

pub(super) use model::megabits;

use super::page::time;
use super::pair::BadStand;
use super::set::{Facts, Number, Run};
use crate::host::Chipset;
use crate::net::atoll::adapter::host::{Mode, Times};
use model::{CHIP_MHZ, Senders, TABLE_MHZ};

/// Runs all models.
pub(super) fn run(_: &Facts) -> Result<Run, BadStand> {
    let latencies = model::latencies()?;
    let rates = latencies.map(|bytes, us| megabits(bytes as u32, us));
    let figures = vec![("atoll-latency", vec![latencies]), ("atoll-rate", vec![rates])];
    Ok(Run { numbers: numbers()?, figures, trials: trials::all()? })
}

fn numbers() -> Result<Vec<Number>, BadStand> {
    let wiring = model::sixteen()?;
    let bus = Times::pc().dma.bus;
    let rate = |processes, bus, bytes| Senders { processes, bus, bytes }.rate();
    let one = rate(1, bus, 1 << 16)?;
    let pci = model::pci_64_66(model::PCI_BURST_BYTES);
    let fastest = Chipset::named("melody").map_or(bus, Chipset::bus);
    let filled = rate(4, fastest, 1 << 16)? / rate(1, fastest, 1 << 16)? / 4.0;
    Ok(vec![
        ("atoll-hop", model::hop_clocks()?),
        ("atoll-bisection", model::bisection(&wiring)),
        ("atoll-longest", model::longest(&wiring)?),
        ("atoll-sender", one),
        ("atoll-few-kb", rate(1, bus, 4096)? / one),
        ("atoll-senders", rate(4, pci, 1 << 16)?),
        ("atoll-links", filled),
        ("atoll-pio", model::latency(CHIP_MHZ, 8, Mode::Pio)?),
    ])
}

/// Returns the value of a parameter.
pub(super) fn value(_: &str, name: &str) -> Option<String> {
    let (config, times) = (model::pair(TABLE_MHZ).ok()?, Times::pc());
    let bus = times.dma.bus;
    let bytes = |bytes: u32| format!("{bytes} B");
    let clocks = |clocks: u32| format!("{clocks} clocks");
    let burst = |bytes: u32, clocks: u32| format!("{bytes} B with {clocks} clocks more");
    Some(match name {
        "clock" => format!("{TABLE_MHZ} MHz in the table, else {CHIP_MHZ}"),
        "a hop" => clocks(config.hop_clocks),
        "header of a message" => bytes(config.header_bytes),
        "messages that wait at a host port" => config.queue_messages.to_string(),
        "bursts on PCI 64/66" => bytes(model::PCI_BURST_BYTES),
        "payload of a link packet" => bytes(config.packet_bytes),
        "overhead of a link packet" => format!("{} symbols", config.overhead_symbols),
        "cable" => time(config.cable),
        "buffer of an input" => bytes(config.fifo_bytes),
        "go below" => bytes(config.go_bytes),
        "retransmission buffer" => format!("{} packets", config.window),
        "acknowledgement" => clocks(config.ack_clocks),
        "stop and go" => clocks(config.stop_clocks),
        "a call, at each end" => time(times.call),
        "first part that the chip reads" => bytes(times.dma.first_bytes),
        "bus" => format!("PCI-X, {} MHz", bus.clock.hertz() / 1_000_000),
        "bursts out of memory" => burst(bus.read_burst_bytes, bus.read_clocks),
        "bursts into memory" => burst(bus.write_burst_bytes, bus.write_clocks),
        "descriptor" => bytes(times.dma.descriptor_bytes),
        "status" => bytes(times.dma.status_bytes),
        "burst of stores by PIO" => bytes(times.store_bytes),
        _ => return None,
    })
}
