//! Both sides on real links: two processes, each on a core of its own.

mod far;
mod link;
mod local;
mod near;
mod newcomers;
mod runner;

pub use far::{ServeError, Server};
pub use link::{Link, LinkError};
pub use local::{KEY_VARIABLE, Local};
pub use near::{Near, NearConfig, Progress};

use std::time::Duration;

/// The time that the other side may take for an answer that needs no measuring.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// The time that an end may find nothing to do in the middle of a trial.
const STALL_LIMIT: Duration = Duration::from_secs(10);
