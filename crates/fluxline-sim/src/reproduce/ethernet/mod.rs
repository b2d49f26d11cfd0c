//! Ethernet hosts: Galli's streams at 10 Gb/s, and Li's round trips.

mod galli;
mod li;
mod trials;

use super::page::time;
use super::pair::BadStand;
use super::set::{Facts, Run};
use crate::Duration;
use crate::net::ethernet::host::{BusConfig, Coalescing, Config, Costs, Driver, preset};

/// Runs all models.
pub(super) fn run(_: &Facts) -> Result<Run, BadStand> {
    let mut run = Run { trials: trials::all()?, ..Run::default() };
    galli::run(&mut run)?;
    li::run(&mut run)?;
    Ok(run)
}

/// Returns the value of a parameter.
pub(super) fn value(model: &str, name: &str) -> Option<String> {
    let is_galli = model == "Galli's PCs";
    let host = if is_galli { preset::galli(1) } else { preset::li_ten_gigabit() };
    cost(&host.costs, name).or_else(|| if is_galli { galli(&host, name) } else { li(&host, name) })
}

fn cost(costs: &Costs, name: &str) -> Option<String> {
    let byte = |span: Duration| Some(format!("{} ps/B", span.as_ps()));
    let span = match name {
        "program around a call" => costs.user,
        "call to send" => costs.send_call,
        "further fragment" => costs.send_frame,
        "call to receive" => costs.receive_call,
        "wake-up of a process" => costs.wake,
        "interrupt" => costs.interrupt,
        "start of a softirq" => costs.softirq,
        "received frame" => costs.receive_frame,
        "frame into the backlog" => costs.backlog_frame,
        "freeing of a sent frame" => costs.clean_frame,
        "copy to send" | "copy at each end" => return byte(costs.send_byte),
        "copy to receive" => return byte(costs.receive_byte),
        "pages of a received frame" => return byte(costs.receive_frame_byte),
        _ => return None,
    };
    Some(time(span))
}

fn coalescing(of: Coalescing) -> String {
    match of {
        Coalescing::Off => "off".to_string(),
        Coalescing::Delay { time: span, .. } => format!("delay of {}", time(span)),
        Coalescing::Throttle { gap } => format!("gap of {}", time(gap)),
    }
}

fn galli(host: &Config, name: &str) -> Option<String> {
    let Config { buffers, cores, card, .. } = host;
    let BusConfig::Pcie(bus) = card.bus else { return None };
    let bytes = |bytes: u64| format!("{bytes} B");
    Some(match name {
        "cores" => format!("core {} for the card, one for each process", cores.interrupts),
        "send buffer" => bytes(buffers.send_bytes),
        "receive buffer" => bytes(buffers.receive_bytes),
        "driver queue" => format!("{} frames", buffers.queue_frames),
        "PCI Express x8" => format!("{} GB/s", bus.bytes_per_s as f64 / 1e9),
        "overhead of a TLP" => format!("{} B", bus.overhead_bytes),
        "data of a TLP" => format!("{} and {} B", bus.payload_bytes, bus.completion_bytes),
        "read request" => format!("{} B", bus.request_bytes),
        "outstanding requests" => bus.requests.to_string(),
        "latency of a read" => time(bus.latency),
        "slots of the rings" => format!("{} and {}", card.transmit_slots, card.receive_slots),
        "buffer of the card" => format!("{} B", card.receive_bytes),
        "delay of the card" => time(card.delay),
        "coalescing" => coalescing(card.receive),
        _ => return None,
    })
}

fn li(host: &Config, name: &str) -> Option<String> {
    Some(match name {
        "backlog" => match host.driver {
            Driver::Poll => "none".to_string(),
            Driver::Backlog { frames } => format!("{frames} frames"),
        },
        "delay of each card" => time(host.card.delay),
        "coalescing, 10 Gb/s and SysKonnect" => coalescing(host.card.receive),
        "coalescing, Intel 1 Gb/s" => coalescing(preset::li_gigabit().card.receive),
        _ => return None,
    })
}
