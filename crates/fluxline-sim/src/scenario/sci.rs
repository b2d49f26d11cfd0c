//! The configuration of a scenario's SCI network.

use super::network::RetryName;
use super::{CommandName, Kind, Scenario};
use crate::Clock;
use crate::net::sci::messages::{Largest, Messages, Style};
use crate::net::sci::{Bus, Config, Faults, Retry, Topology};

/// Wait of a plain retry \[symbols\]. Assumed: until the next symbol.
const RETRY_SYMBOLS: u64 = 1;

impl Scenario {
    /// Returns the carrier of messages on an SCI network.
    pub(super) fn sci_messages(&self) -> Messages {
        let style = match self.traffic.command {
            CommandName::Move => Style::Move,
            CommandName::Write => Style::Write,
        };
        Messages::new(style, Largest::of(self.network.packet_bytes).unwrap_or_default())
    }

    /// Returns the configuration of an SCI network.
    pub(super) fn sci_config(&self, seed: u64) -> Config {
        let part = &self.network;
        let topology = match part.kind {
            Kind::SciTorus => Topology::Torus { sizes: part.sides() },
            Kind::SciSwitch => Topology::Switch { ringlets: part.ringlets() },
            _ => Topology::Ring { nodes: part.node_count() as u32 },
        };
        let preset = part.preset.network(topology.clone());
        let clock = part.link_mb_s.map_or(preset.clock, |mb_s| clock(mb_s * 1e6));
        let base = Config { clock, ..preset }.on(topology);
        let rate =
            |bus: Bus| part.bus_mb_s.map_or(bus.bytes_per_second, |mb_s| (mb_s * 1e6) as u64);
        let receive = part.receive_queue;
        Config {
            pass_symbols: part.pass_symbols.unwrap_or(base.pass_symbols),
            cable_symbols: part.cable_symbols.unwrap_or(base.cable_symbols),
            flow_control: part.flow_control,
            retry: match part.retry {
                RetryName::Aged => Retry::Aged,
                RetryName::Plain => Retry::Plain { delay: RETRY_SYMBOLS },
            },
            send_queue: part.send_queue.unwrap_or(base.send_queue),
            unacknowledged: part.unacknowledged.unwrap_or(base.unacknowledged),
            request_queue: receive.unwrap_or(base.request_queue),
            response_queue: receive.unwrap_or(base.response_queue),
            bus: base.bus.map(|bus| Bus { bytes_per_second: rate(bus), ..bus }),
            faults: Faults { bit_error_rate: self.faults.bit_error_rate, seed },
            ..base
        }
    }
}

/// The clock of a link: a symbol has two bytes.
fn clock(bytes_per_s: f64) -> Clock {
    Clock::from_hertz((bytes_per_s / 2.0).max(1.0) as u64)
}
