//! The requests of agents and managers to their node.

use super::letter::{Body, Letter};
use super::record::Event;
use crate::Duration;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Sends a letter on its way.
    Post(Letter),
    /// Wakes the agent or the manager later.
    Wake(Wake),
    /// Gives the content of a letter to the manager of this node, if there is one.
    ForManager(Body),
    /// Begins a manager on this node.
    Begin,
    /// Ends the manager of this node.
    StandDown,
    /// The table changed, or sending was stopped or allowed.
    Routes,
    /// Adds an event to the log.
    Record(Event),
}

/// A wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// The wait.
    pub after: Duration,
    /// The reason.
    pub why: Why,
}

/// The reason of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A link of the agent has been up for long enough.
    Held(u8),
    /// A probe may be overdue.
    Probe(u32),
    /// The answer of an agent in a round may be overdue.
    Answer {
        /// The number of the round.
        round: u32,
        /// The id of the node.
        id: u32,
    },
    /// The wait for further news is over; the number identifies the wait.
    News(u32),
    /// The routes are computed.
    Planned(u32),
}

impl Act {
    /// Makes a wake-up.
    #[must_use]
    pub fn wake(after: Duration, why: Why) -> Act {
        Act::Wake(Wake { after, why })
    }
}
