//! Go bits of the idles between two packets, as two ticks instead of one bit per idle.
//!
//! In a run of idles a go bit never falls (a node that has just put out a go idle makes the next
//! one go too), so a run is told by the tick of its first go idle.

/// A tick that does not come.
pub const NEVER: u64 = u64::MAX;

/// Tick of the first idle whose low, or high, go bit is set; [`NEVER`]: none as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Go {
    pub low: u64,
    pub high: u64,
}

impl Go {
    pub const NEVER: Go = Go { low: NEVER, high: NEVER };

    pub const fn at(tick: u64) -> Go {
        Go { low: tick, high: tick }
    }

    pub fn map(self, with: impl Fn(u64) -> u64) -> Go {
        Go { low: with(self.low), high: with(self.high) }
    }

    pub fn join(self, other: Go, with: impl Fn(u64, u64) -> u64) -> Go {
        Go { low: with(self.low, other.low), high: with(self.high, other.high) }
    }

    /// Not before `tick`.
    pub fn from(self, tick: u64) -> Go {
        self.map(|rise| rise.max(tick))
    }

    /// The same run `hop` symbols further on.
    pub fn later(self, hop: u64) -> Go {
        self.map(|rise| rise.saturating_add(hop))
    }

    /// Returns the rest of the run before `tick`.
    pub fn until(self, tick: u64) -> Go {
        self.map(|rise| if rise < tick { rise } else { NEVER })
    }
}

/// The go bits that a node clears while it empties its bypass FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clears {
    /// The low bit: it sent as one of the fair.
    Low,
    /// Both: it sent at high priority.
    Both,
}

impl Clears {
    /// The bits that the node clears of one run, the other ones of another.
    pub fn split(self, cleared: Go, other: Go) -> Go {
        match self {
            Clears::Low => Go { low: cleared.low, high: other.high },
            Clears::Both => cleared,
        }
    }

    /// The run of the one idle at `tick` before a packet that came at `came`, in a node that
    /// recovers and saw go idles at `first`.
    pub fn recovering(self, first: Go, came: u64, tick: u64) -> Go {
        self.split(Go::NEVER, first.map(|first| if first < came { tick } else { NEVER }))
    }
}
