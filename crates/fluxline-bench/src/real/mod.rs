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

/// The limit of the other side's answers, apart from measurements. A dead process closes its
/// connection at once. Minutes, since a kernel that removes network namespaces lets others wait.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// The longest idle time of an end in the middle of a trial, or while it finds the other.
const STALL_LIMIT: Duration = Duration::from_secs(60);
