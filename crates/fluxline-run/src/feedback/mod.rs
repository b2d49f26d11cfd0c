//! The feedback loop of a run, `[loop]`: a function at each builder decides on each closed event,
//! and its decisions are written into the memory of the actuator node.
//!
//! ```text
//!   readouts ──▶ builder-0 ──event──▶ function ──write──▶ ┐
//!   readouts ──▶ builder-1 ──event──▶ function ──write──▶ ┴ actuator-0 ──▶ loop.csv
//! ```
//!
//! `plan.rs` makes the functions: expressions (`values.rs`), a program (`program.rs`), or one of
//! the program that starts the run ([`Decide`]). `decider.rs` asks a function and counts. On real
//! links it works in a thread beside its builder (`worker.rs`), so that a slow function never holds
//! the builder back; in virtual time it works in the builder's own (`inline.rs`). `actuator.rs` is
//! the other end, `part.rs` has the counts of both, `summary.rs` their words. docs/loop.md is the
//! manual.

mod actuator;
mod decider;
mod inline;
mod part;
mod plan;
mod program;
mod summary;
mod values;
mod worker;
mod write;

use std::sync::Arc;

use fluxline_daq::event::EventView;

use crate::filter::RunSource;

pub(crate) use actuator::{Actuator, ActuatorClock};
pub(crate) use decider::{Asked, Decider};
pub(crate) use inline::Inline;
pub(crate) use part::{ActuatorPart, DeciderPart, LeftBehind, LoopParts};
pub(crate) use plan::LoopPlan;
pub use summary::lines;
pub(crate) use worker::{Worker, WorkerHandle};
pub(crate) use write::HEAD_BYTES;

/// Writes of a builder that wait in the actuator's memory.
pub(crate) const RING_SLOTS: u32 = 8;

/// Decides on closed events, one after the other. A panic is caught; the event is then undecided.
pub trait Decide: Send {
    /// Takes note of a source, before the first event with its packets.
    fn add_source(&mut self, source: &RunSource) {
        let _ = source;
    }

    /// Decides on an event: writes the bytes for the actuator into `decision`, which is empty.
    /// With none, nothing is written.
    ///
    /// # Errors
    /// The reason why it failed; the event is undecided, and recorded as any other.
    fn decide(&mut self, event: &EventView<'_>, decision: &mut Vec<u8>) -> Result<(), String>;
}

/// Makes the function of a builder, by the builder's number.
pub type MakeDecide = Arc<dyn Fn(usize) -> Box<dyn Decide> + Send + Sync>;
