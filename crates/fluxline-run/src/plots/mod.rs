//! Plots over the whole run, in a thread beside the recorder.
//!
//! ```text
//!   recorder ──▶ tap: a batch, or "skipped" ──▶ keeper: fills, writes plots.json ──▶ pages
//!       ◀────────────── empty batches ───────────────┘
//! ```
//!
//! The recorder never waits for plots: where the keeper is behind, whole batches are left out and
//! counted. Runs of files alone wait instead, since their input waits too. `tap.rs` is the
//! recorder's end, `keeper.rs` the thread, `shared.rs` what pages see. docs/plots.md is the manual.

mod keeper;
mod shared;
mod tap;
#[cfg(test)]
mod tests;

pub(crate) use keeper::PlotKeeper;
pub use shared::Plots;
pub(crate) use tap::{Pace, PlotTap, QUEUE, tap};
