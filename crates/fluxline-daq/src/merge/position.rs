//! How far an input has come: the position of its newest packet in the order of events.

use fluxline_proto::description::{Description, Parsed};

use crate::builder::{Mode, Scope, WindowClock};
use crate::readout::Accepted;

/// A place in the order of events; the same in all inputs of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// How often the keys had begun anew.
    pub generation: u32,
    /// The key, or the time of a sensor \[ns\], unwrapped to 64 bits.
    pub key: u64,
}

/// The number that puts packets of all inputs into one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderedBy {
    /// The event key.
    Key,
    /// The sensor's time.
    SensorTime,
    /// None: events do not join packets of several inputs, or join them by the time of arrival.
    Nothing,
}

impl OrderedBy {
    /// Returns the order that a way of building events needs.
    #[must_use]
    pub fn of(mode: Mode) -> OrderedBy {
        match mode {
            Mode::Key(Scope::Global) => OrderedBy::Key,
            Mode::Window { clock: WindowClock::Sensor, .. } => OrderedBy::SensorTime,
            Mode::Packet | Mode::Key(Scope::PerSource) | Mode::Window { .. } => OrderedBy::Nothing,
        }
    }

    /// Returns whether packets of `description` have that number.
    #[must_use]
    pub fn has_positions(self, description: &Description) -> bool {
        let mut types = description.packet_types().iter();
        match self {
            OrderedBy::Key => types.any(|packet| packet.event.is_some()),
            OrderedBy::SensorTime => types.any(|packet| packet.timestamp.is_some()),
            OrderedBy::Nothing => false,
        }
    }

    /// Returns the newest position after one more packet.
    #[must_use]
    pub fn advance(
        self,
        newest: Option<Position>,
        accepted: &Accepted,
        parsed: &Parsed,
    ) -> Option<Position> {
        let (value, bits) = match self {
            OrderedBy::Key => (parsed.event, accepted.event_bits),
            OrderedBy::SensorTime => (parsed.sensor_time_ns, 64),
            OrderedBy::Nothing => (None, 64),
        };
        let Some(value) = value else { return newest };
        let before = newest.map_or(value, |position| position.key);
        let shift = 64 - u32::from(bits.clamp(1, 64));
        let ahead = (value.wrapping_sub(before) << shift) as i64 >> shift;
        let key = before.wrapping_add(ahead as u64);
        newest.max(Some(Position { generation: 0, key }))
    }
}
