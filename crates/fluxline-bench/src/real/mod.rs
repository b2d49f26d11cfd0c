//! Both sides on real links: two processes, each on a core of its own.

mod far;
mod link;
mod local;
mod near;
mod newcomers;
mod runner;

pub use far::{ServeError, Server, Until};
pub use link::{Link, LinkError};
pub use local::{KEY_VARIABLE, Local};
pub use near::{Near, NearConfig, Progress};

use std::time::Duration;

/// The limit of the other side's answers, apart from measurements.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// The longest idle time of an end in the middle of a trial.
const STALL_LIMIT: Duration = Duration::from_secs(10);
