//! Ping-pong on NetPIPE's schedule, with its variants: messages, streams, both ways at once,
//! integrity, a cold cache. Over any fabric, and over plain TCP as NetPIPE's own module does it.
//!
//! [`schedule`] has the sizes and repeats, [`exchange`] the two ends on a fabric, `tcp` those on
//! TCP, `sweep` the whole run over the schedule.
//! Source of the method: NetPIPE 3.7.1, netpipe.c.

mod buffer;
pub mod exchange;
pub mod netpipe;
pub mod schedule;
mod sweep;
mod task;
pub(crate) mod tcp;

pub use sweep::BEST_MEAN;
pub use task::{Measured, Mode, Task, Way};

use crate::environment::Service;
use crate::kind::{ExperimentKind, Links};
use crate::role::TrialKind;

/// The experiments of this folder.
pub const EXPERIMENTS: &[ExperimentKind] = &[
    ExperimentKind {
        name: "pingpong",
        about: "Half round trips on NetPIPE's schedule of sizes: puts with a notification there \
                and back (over tcp://: blocking sockets). Percentiles are of single trips, the \
                mean is of the best of three trials, as NetPIPE prints it.",
        links: Links::FabricsAnd(&["tcp"]),
        by_default: true,
        seconds: [10, 60],
        run: |environment, plan, into| sweep::run(environment, plan, into, &sweep::PING_PONG),
    },
    ExperimentKind {
        name: "messages",
        about: "Half round trips of messages into buffers that the receiver posts, up to the \
                longest message of the link.",
        links: Links::Fabrics,
        by_default: false,
        seconds: [10, 60],
        run: |environment, plan, into| sweep::run(environment, plan, into, &sweep::MESSAGES),
    },
    ExperimentKind {
        name: "stream",
        about: "One side sends, the other receives and takes the time, as NetPIPE -s.",
        links: Links::FabricsAnd(&["tcp"]),
        by_default: true,
        seconds: [5, 30],
        run: |environment, plan, into| sweep::run(environment, plan, into, &sweep::STREAM),
    },
    ExperimentKind {
        name: "bidirectional",
        about: "Both sides send at once and then receive, as NetPIPE -2; rates add both sides.",
        links: Links::FabricsAnd(&["tcp"]),
        by_default: false,
        seconds: [5, 30],
        run: |environment, plan, into| sweep::run(environment, plan, into, &sweep::BIDIRECTIONAL),
    },
    ExperimentKind {
        name: "cold",
        about: "Half round trips with a cold cache, as NetPIPE -I: each message lies elsewhere in \
                a pool of 10 MB, and another 10 MB are touched before each trial.",
        links: Links::FabricsAnd(&["tcp"]),
        by_default: false,
        seconds: [10, 60],
        run: |environment, plan, into| sweep::run(environment, plan, into, &sweep::COLD),
    },
    ExperimentKind {
        name: "integrity",
        about: "Every word of every message is written before and compared after, there and back, \
                on the sizes and with the repeats of NetPIPE -i. Times are not reported.",
        links: Links::FabricsAnd(&["tcp"]),
        by_default: true,
        seconds: [3, 10],
        run: |environment, plan, into| sweep::run(environment, plan, into, &sweep::INTEGRITY),
    },
];

/// The trials of this folder.
pub const TRIALS: &[&TrialKind] = &[&exchange::TRIAL];

/// The services of this folder.
pub const SERVICES: &[&Service] = &[&tcp::SERVICE];

#[cfg(test)]
mod tests;
