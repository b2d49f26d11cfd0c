//! The way of a message between memory and a card that fetches and writes data by itself.

use super::bus::Bus;
use super::config;
use crate::{Duration, Instant};

/// The use of the bus by messages: a descriptor and a doorbell, the data, a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageDma {
    /// The bus.
    pub bus: config::Bus,
    /// A descriptor of a message \[bytes\].
    pub descriptor_bytes: u32,
    /// The first part of a message that the card reads before the message starts \[bytes\].
    pub first_bytes: u32,
    /// The status that the card copies into memory \[bytes\].
    pub status_bytes: u32,
}

/// A message that goes out of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its length \[bytes\].
    pub bytes: u32,
    /// The time in which the link sends it. All of it is in the card before the end of this time.
    pub sending: Duration,
}

/// The times of a message that goes out of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The doorbell has been rung, and the processor goes on.
    pub rung: Instant,
    /// The link can start.
    pub start: Instant,
}

impl MessageDma {
    /// Rings the doorbell at `begin`; the card reads the descriptor and the data.
    pub fn fetch(&self, bus: &mut Bus, begin: Instant, message: Outgoing) -> Departure {
        let bytes = message.bytes.max(1);
        let rung = bus.store(begin, 8, Duration::ZERO);
        let known = bus.read(rung, self.descriptor_bytes);
        let busy = bus.busy();
        let last = bus.read(known, bytes);
        let took = bus.busy() - busy;
        let first_clocks =
            self.bus.read_clocks + bytes.min(self.first_bytes).div_ceil(self.bus.width_bytes);
        let rest = took - bus.clocks(u64::from(first_clocks)).min(took);
        let first = Instant::from_ps(last.as_ps() - rest.as_ps());
        Departure { rung, start: first.max(message.start_before(last)) }
    }

    /// Writes a message that has come whole, and its status; returns the time at which a processor
    /// sees the status. Earlier bursts were written while the message came.
    pub fn land(&self, bus: &mut Bus, now: Instant, bytes: u32) -> Instant {
        let there = bus.write(now, bytes.max(1).min(self.bus.write_burst_bytes));
        bus.write(there, self.status_bytes)
    }
}

impl Outgoing {
    /// Returns the earliest start of a link that must not run dry before `last`, when all data is
    /// in the card.
    #[must_use]
    pub fn start_before(self, last: Instant) -> Instant {
        Instant::from_ps(last.as_ps().saturating_sub(self.sending.as_ps()))
    }
}
