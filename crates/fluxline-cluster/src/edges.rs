//! The two ends of the edges between readout nodes and builders, whatever carries the records.
//!
//! ```text
//!   readout 0 ──lane 0──▶ ┐              Outlets: one end for each builder
//!   readout 1 ──lane 1──▶ ┴ builder 0    Inlets: one lane for each readout
//! ```
//!
//! An edge keeps the order of its records and loses none while both ends live. It holds as many as
//! it has room for: a builder that is slow holds its readouts back.

use std::sync::Arc;

use fluxline_core::{Moment, Span};

/// The fate of a record that was offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offered {
    /// The edge has it.
    Taken,
    /// Not taken: the edge has no room now; offer the record again.
    Full,
    /// The builder has gone for good, for this reason; the record is lost.
    Gone(String),
}

/// The ends of a readout node: one for each builder, by number.
pub trait Outlets: Send {
    /// Offers a record to builder number `to`. It may wait in the edge until [`Self::progress`].
    fn offer(&mut self, to: u32, record: &[u8]) -> Offered;

    /// Drives the edges, and shows all offered records to the builders. Never waits.
    fn progress(&mut self);

    /// Takes the next message of builder number `from`, on links that have a way back.
    fn hear(&mut self, _from: u32) -> Taking {
        Taking::Empty
    }

    /// Returns true once this node itself has crashed, on a simulated link.
    fn has_crashed(&self) -> bool {
        false
    }

    /// Returns the first builder that cannot be reached yet, and why; `None`: all are there.
    fn waits_for(&mut self) -> Option<(usize, String)> {
        None
    }

    /// Sleeps until an edge may have room, at most `most`.
    fn rest(&mut self, most: Span);

    /// Ends the edges behind the last record; true once each builder can take all of them, or has
    /// gone. Until then: call it again.
    fn finish(&mut self) -> bool;
}

/// The result of taking from a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taking {
    /// The oldest record.
    Record(Arc<[u8]>),
    /// No record has come.
    Empty,
    /// The readout has gone, and all its records were taken.
    Gone,
}

/// The ends of a builder: one lane for each readout, by number.
pub trait Inlets: Send {
    /// Takes the oldest record of lane number `from`.
    fn take(&mut self, from: usize) -> Taking;

    /// Drives the edges. Never waits.
    fn progress(&mut self);

    /// Offers a message to readout number `to`, on links that have a way back.
    fn answer(&mut self, _to: u32, _message: &[u8]) -> Offered {
        Offered::Gone("the link has no way back".to_owned())
    }

    /// Ends the ways back; true once each readout can take all messages, or has gone.
    fn end_answers(&mut self) -> bool {
        true
    }

    /// Returns true once this node itself has crashed, on a simulated link.
    fn has_crashed(&self) -> bool {
        false
    }

    /// Returns the time of the link; 0 where queues are the link.
    fn link_time(&self) -> Moment {
        Moment::default()
    }

    /// Returns the first readout that has not sent a record yet; `None`: all have, or ended.
    fn waits_for(&mut self) -> Option<usize> {
        None
    }

    /// Lets this time of a simulated link pass for work; on real links, work takes its own.
    fn spend(&mut self, _work: Span) {}

    /// Sleeps until a lane may have a record, at most `most`.
    fn rest(&mut self, most: Span);
}
