//! The time at which a datagram of a file is due: pacing as a function of time, without a clock.

use fluxline_core::{Moment, Span};

/// The speed at which a file is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Speed {
    /// With the gaps between datagrams as they were recorded.
    Recorded,
    /// This many datagrams per second; 0 or less: as fast as possible.
    Rate(f64),
    /// As fast as possible.
    #[default]
    Full,
}

/// Computes the wait before each datagram.
#[derive(Clone, Debug)]
pub struct Pace {
    speed: Speed,
    began: Option<(Moment, Moment)>,
    released: u64,
}

impl Pace {
    /// Makes a pace that begins with the first datagram.
    #[must_use]
    pub fn new(speed: Speed) -> Pace {
        Pace { speed, began: None, released: 0 }
    }

    /// Makes a pace that began at `began`, with a datagram of time `first`.
    #[must_use]
    pub fn since(speed: Speed, first: Moment, began: Moment) -> Pace {
        Pace { began: Some((first, began)), ..Pace::new(speed) }
    }

    /// Returns the wait of the datagram of time `recorded` at `now`; `None`: it is due, and counts
    /// as sent. A datagram recorded before the first is due at once.
    pub fn due(&mut self, recorded: Moment, now: Moment) -> Option<Span> {
        let (first, began) = *self.began.get_or_insert((recorded, now));
        let at = match self.speed {
            Speed::Full => now,
            Speed::Recorded => began + recorded.since(first),
            Speed::Rate(rate) if rate > 0.0 => {
                began + Span::from_ns((self.released as f64 / rate * 1e9) as u64)
            }
            Speed::Rate(_) => now,
        };
        let wait = at.since(now);
        if wait == Span::ZERO {
            self.released += 1;
            return None;
        }
        Some(wait)
    }
}
