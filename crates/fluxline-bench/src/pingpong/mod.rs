//! Ping-pong on NetPIPE's schedule, with its variants: messages, streams, both ways at once,
//! integrity, a cold cache. Over any fabric, and over plain TCP as NetPIPE's own module does it.
//!
//! [`schedule`] has the sizes and repeats, [`exchange`] the two ends on a fabric, `tcp` those on
//! TCP, `sweep` the whole run over the schedule.
//! Source of the method: NetPIPE 3.7.1, netpipe.c.

pub mod exchange;
pub mod netpipe;
pub mod schedule;
mod sweep;
pub(crate) mod tcp;

use serde::{Deserialize, Serialize};

use crate::environment::Service;
use crate::kind::{ExperimentKind, Links};
use crate::role::TrialKind;

/// The exchange of one repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A message there, and one back.
    PingPong,
    /// A message there.
    Stream,
    /// A message each way at once.
    Bidirectional,
}

/// The operation that carries a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// A put with a notification.
    Put,
    /// A message into a buffer that the other side posted.
    Message,
}

/// The task of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The exchange of a repeat.
    pub mode: Mode,
    /// The operation.
    pub way: Way,
    /// Size of a message \[byte\].
    pub bytes: u64,
    /// The number of repeats in a trial.
    pub repeats: u64,
    /// The number of trials; the shortest counts.
    pub trials: u32,
    /// True: each message lies elsewhere in memory, and the cache is filled with other data before.
    pub cold: bool,
    /// True: every byte is written before and compared after; such a task is not timed.
    pub checked: bool,
    /// A trial that lasts longer is cut short, and its repeats are counted \[ms\]; 0: never.
    pub limit_ms: u64,
}

/// The measurement of one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Time of a repeat, of each trial \[s\].
    pub seconds: Vec<f64>,
    /// Of single round trips: p50, p99, p99.9, the longest \[ns\]; `None` in the other modes.
    pub repeat_ns: Option<[u64; 4]>,
    /// Bytes compared and found equal.
    pub compared_bytes: u64,
}

impl Measured {
    /// The shortest trial \[s\].
    #[must_use]
    pub fn least(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The longest trial \[s\].
    #[must_use]
    pub fn most(&self) -> f64 {
        self.seconds.iter().copied().fold(0.0, f64::max)
    }
}

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
        about: "Half round trips of messages into buffers that the receiver posts.",
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
        links: Links::Fabrics,
        by_default: false,
        seconds: [10, 60],
        run: |environment, plan, into| sweep::run(environment, plan, into, &sweep::COLD),
    },
    ExperimentKind {
        name: "integrity",
        about: "Every word of every message is written before and compared after, there and back, \
                on the sizes of NetPIPE -i. No times are taken.",
        links: Links::Fabrics,
        by_default: true,
        seconds: [3, 10],
        run: |environment, plan, into| sweep::check(environment, plan, into),
    },
];

/// The trials of this folder.
pub const TRIALS: &[&TrialKind] = &[&exchange::TRIAL];

/// The services of this folder.
pub const SERVICES: &[&Service] = &[&tcp::SERVICE];

#[cfg(test)]
mod tests;
