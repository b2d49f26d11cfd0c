//! The configuration of a scenario's SCI network.

use super::network::{Preset, RetryName};
use super::{Kind, Scenario};
use crate::Clock;
use crate::net::sci::{Bus, Config, Faults, Retry, Topology};

/// Wait of a plain retry \[symbols\]. Assumed: until the next symbol.
const RETRY_SYMBOLS: u64 = 1;
/// Delay from a bus to the queue behind it \[symbols\]. Assumed: a few clocks of the bus.
const BUS_SYMBOLS: u64 = 16;

impl Scenario {
    /// Returns the configuration of an SCI network.
    pub(super) fn sci_config(&self, seed: u64) -> Config {
        let part = &self.network;
        let nodes = part.node_count() as u32;
        let of_preset = match part.preset {
            Preset::Standard => Config::ring,
            Preset::Lc1 => Config::lc1,
            Preset::Lc2 => Config::lc2,
            Preset::Lc3 => Config::lc3,
        };
        let topology = match part.kind {
            Kind::SciTorus => Topology::Torus { sizes: vec![part.side; part.dimensions as usize] },
            Kind::SciSwitch => Topology::Switch { ports: part.ports, per_ringlet: part.nodes },
            _ => Topology::Ring { nodes },
        };
        // The switch is a node of its own.
        let all = nodes + u32::from(part.kind == Kind::SciSwitch);
        let base = of_preset(all);
        let bytes_per_second = (part.bus_mb_s * 1e6) as u64;
        let bus = Bus { bytes_per_second, delay: BUS_SYMBOLS };
        let receive = part.receive_queue;
        Config {
            topology,
            clock: part.link_mb_s.map_or(base.clock, |mb_s| clock(mb_s * 1e6)),
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
            bus: if part.kind == Kind::SciRing { base.bus } else { Some(bus) },
            faults: Faults { bit_error_rate: self.faults.bit_error_rate, seed },
            ..base
        }
    }
}

/// The clock of a link: a symbol has two bytes.
fn clock(bytes_per_s: f64) -> Clock {
    Clock::from_hertz((bytes_per_s / 2.0).max(1.0) as u64)
}
