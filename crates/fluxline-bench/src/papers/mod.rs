//! Puts and gets, stores against descriptors, many to one, and a soak.
//!
//! `put-get` and `rate` use a [`flow`]: operations of one kind and size, in batches with one
//! doorbell each. `stores` computes meanwhile, and `soak` mixes all operations: these have near
//! ends of their own. Source of the questions: Richter and Ohlenroth 1999 (SCINET); Trams 1999.

pub mod floor;
pub mod flow;
pub mod incast;
mod operations;
mod show;
pub mod soak;
pub mod stores;

use crate::environment::Service;
use crate::kind::{ExperimentKind, Links};
use crate::role::TrialKind;

/// The experiments of this folder.
pub const EXPERIMENTS: &[ExperimentKind] = &[
    ExperimentKind {
        name: "put-get",
        about: "Put against get by block size: the time of one at a time, and the throughput of \
                many under way (SCINET, figures 7 and 8).",
        links: Links::Fabrics,
        by_default: true,
        seconds: [5, 40],
        run: operations::put_get,
    },
    ExperimentKind {
        name: "rate",
        about: "Operations per second: small gets, and small puts, each with a notification or \
                many with one.",
        links: Links::Fabrics,
        by_default: true,
        seconds: [2, 10],
        run: operations::rate,
    },
    ExperimentKind {
        name: "stores",
        about: "Stores by the processor against descriptors, by size: the time that a transfer \
                takes from a thread that computes meanwhile (Trams). --save keeps the size from \
                which descriptors take less.",
        links: Links::Fabrics,
        by_default: false,
        seconds: [5, 40],
        run: stores::run,
    },
    ExperimentKind {
        name: "incast",
        about: "1, 2, 4, 8, ... nodes put into one node at once: the throughput, and how evenly \
                they share it. Not on xdp://, where an interface has one node.",
        links: Links::Schemes(&["shm", "udp"]),
        by_default: false,
        seconds: [5, 30],
        run: incast::run,
    },
    ExperimentKind {
        name: "soak",
        about: "Random operations from the seed for as long as --seconds says. Every byte is \
                compared, both ledgers must agree, and the resident memory must stay flat.",
        links: Links::Fabrics,
        by_default: false,
        seconds: [10, 10],
        run: soak::run,
    },
];

/// The trials of this folder.
pub const TRIALS: &[&TrialKind] = &[&flow::TRIAL, &stores::TRIAL, &soak::TRIAL];

/// The services of this folder.
pub const SERVICES: &[&Service] = &[&incast::SERVICE];
#[cfg(test)]
mod tests;
