//! Push rings, puts and wake-ups on shared memory, beside the floors of the machine.
//!
//! The problem: a rate of 200 million records a second says little without the limits of the two
//! cores. The idea: both are measured in the same round. First the floors run between two threads
//! of the near process. The far process sleeps, since spinning would take a core. Then near and far
//! meet on shared memory. Near orders tasks through a push ring ([`order`]), so that no order waits
//! for the control connection.

mod bare;
mod floors;
mod node;
pub mod order;
pub mod pair;
mod round;
mod rows;
mod watch;
mod worker;

pub use rows::percentile;

use crate::environment::Service;
use crate::kind::{ExperimentKind, Links};

/// The experiments of this folder.
pub const EXPERIMENTS: &[ExperimentKind] = &[ExperimentKind {
    name: "rings",
    about: "Push rings, puts and wake-ups between two processes, beside the floors of the machine \
            from the same rounds.",
    links: Links::Schemes(&["shm"]),
    by_default: true,
    seconds: [5, 15],
    run: round::run,
}];

/// The services of this folder.
pub const SERVICES: &[&Service] = &[&worker::SERVICE];
