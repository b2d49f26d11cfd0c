//! Go bits of the idles between two packets, as two ticks instead of one bit per idle.
//!
//! In a run of idles a go bit never falls (a node that has just put out a go idle makes the next
//! one a go idle, too). So the tick of its first go idle describes a run.

/// A tick that never comes.
pub const NEVER: u64 = u64::MAX;

/// Ticks of the first idles whose low and high go bits are set; [`NEVER`]: none is known.
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

    /// Returns the run from `tick` on.
    pub fn from(self, tick: u64) -> Go {
        self.map(|rise| rise.max(tick))
    }

    /// Returns the same run `hop` symbols later.
    pub fn later(self, hop: u64) -> Go {
        self.map(|rise| rise.saturating_add(hop))
    }

    /// Returns the part of the run before `tick`.
    pub fn until(self, tick: u64) -> Go {
        self.map(|rise| if rise < tick { rise } else { NEVER })
    }
}

/// The go bits that a node clears while it empties its bypass FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clears {
    /// The low bit: it sent at low priority.
    Low,
    /// Both: it sent at high priority.
    Both,
}

impl Clears {
    /// Joins two runs: the bits that the node clears come from `cleared`, the others from `other`.
    pub fn split(self, cleared: Go, other: Go) -> Go {
        match self {
            Clears::Low => Go { low: cleared.low, high: other.high },
            Clears::Both => cleared,
        }
    }

    /// Returns the run of the single idle at `tick` before a packet that came at `came`, in a
    /// recovering node whose first go idles came at `first`.
    pub fn recovering(self, first: Go, came: u64, tick: u64) -> Go {
        self.split(Go::NEVER, first.map(|first| if first < came { tick } else { NEVER }))
    }
}
