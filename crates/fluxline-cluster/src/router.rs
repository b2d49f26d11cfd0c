//! The way of a packet: the partition that stores it, by the hash of its event's key.

use fluxline_core::{Moment, planted};
use fluxline_daq::builder::{Mode, Scope, WindowClock};
use fluxline_packet::{Description, Parsed};

use crate::followed::Window;

/// The partition that stores a packet, and the packet's window.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The partition.
    pub partition: u32,
    /// The window, where windows make the events.
    pub window: Option<Window>,
}

/// The partition of each packet.
#[derive(Clone, Copy, Debug)]
pub struct Router {
    mode: Mode,
    partitions: u64,
    /// The bits of a key that all packets with keys carry.
    key_mask: u64,
}

impl Router {
    /// Makes the router for these descriptions.
    #[must_use]
    pub fn new(mode: Mode, partitions: u32, descriptions: &[Description]) -> Router {
        let types = descriptions.iter().flat_map(Description::packet_types);
        let bits = types.filter_map(|packet| packet.event.as_ref()).map(|event| event.bits);
        let narrowest = bits.filter(|bits| (1..64).contains(bits)).min();
        let key_mask = narrowest.map_or(u64::MAX, |bits| (1 << bits) - 1);
        Router { mode, partitions: u64::from(partitions.max(1)), key_mask }
    }

    /// Returns the partition that stores a packet, and its window.
    #[must_use]
    pub fn target(&self, source_key: u64, parsed: &Parsed, time: Moment) -> Target {
        let of_source = mix(source_key);
        let window = self.window(parsed, time);
        let group = match (self.mode, parsed.event) {
            (Mode::Key(Scope::Global), Some(key)) => mix(key & self.key_mask),
            (Mode::Key(Scope::PerSource), Some(key)) => mix((key & self.key_mask) ^ of_source),
            (Mode::Packet | Mode::Key(_), _) => of_source,
            (Mode::Window { .. }, _) => window.map_or(of_source, |window| mix(window.number)),
        };
        let group = match planted!(16) && parsed.event.is_some_and(|key| key % 64 == 63) {
            true => group ^ (source_key & 1),
            false => group,
        };
        Target { partition: (group % self.partitions) as u32, window }
    }

    fn window(&self, parsed: &Parsed, time: Moment) -> Option<Window> {
        let Mode::Window { width, clock, .. } = self.mode else { return None };
        let by_sensor = clock == WindowClock::Sensor;
        let time_ns = if by_sensor { parsed.sensor_time_ns } else { Some(time.as_ns()) };
        time_ns.map(|ns| Window { number: ns / width.as_ns().max(1), by_sensor })
    }

    /// Returns true when partitions must follow the packets of the others.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        self.partitions > 1 && self.mode != Mode::Packet
    }
}

/// Returns a number in which each bit depends on each bit of `value`. Source: the finalizer of
/// SplitMix64 (Steele, Lea, Flood, 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}
