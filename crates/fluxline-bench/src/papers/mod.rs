//! The experiments of the papers on today's links.
//!
//! Most of them use a [`flow`]: operations of one kind and size, in batches with one doorbell each.
//! `stores` computes meanwhile, `checked` waits for answers, `connections` and `regions` use many
//! of them, `soak` mixes all operations: these have near ends of their own. Source of the
//! questions: Richter and Ohlenroth 1999 (SCINET), figures 7 to 16; Trams 1999.

pub mod checked;
pub mod crowd;
pub mod fit;
pub mod floor;
pub mod flow;
pub mod incast;
mod many;
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
        about: "Put against get by block size: the time of one at a time, the throughput of many \
                under way, and the set-up time by a fit (SCINET, figures 7 and 8).",
        links: Links::Fabrics,
        by_default: true,
        seconds: [5, 40],
        run: operations::put_get,
    },
    ExperimentKind {
        name: "combining",
        about: "Puts posted 1, 2, 4, 8, ... at a time with one notification and one completion \
                (SCINET, figures 11 to 16). On Ethernet that is one sendmmsg or one train.",
        links: Links::Fabrics,
        by_default: false,
        seconds: [5, 60],
        run: operations::combining,
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
        name: "checked",
        about: "Blocks with and without an end-to-end check in software (SCINET, figures 9 and \
                10). The receiver verifies a CRC32C, and a damaged block is sent again.",
        links: Links::Fabrics,
        by_default: false,
        seconds: [5, 40],
        run: checked::run,
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
        name: "connections",
        about: "1 to 1,000 connections between the two nodes, or as many as the link has: the \
                time to set one up, and notified puts per second over all in turn.",
        links: Links::Fabrics,
        by_default: false,
        seconds: [5, 30],
        run: many::connections,
    },
    ExperimentKind {
        name: "regions",
        about: "1 to 1,000 regions at the far node, or as many as the link has: the time to \
                import one, and notified puts per second to all in turn.",
        links: Links::Fabrics,
        by_default: false,
        seconds: [3, 20],
        run: many::regions,
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
pub const TRIALS: &[&TrialKind] =
    &[&flow::TRIAL, &checked::TRIAL, &stores::TRIAL, &crowd::TRIAL, &soak::TRIAL];

/// The services of this folder.
pub const SERVICES: &[&Service] = &[&incast::SERVICE];
#[cfg(test)]
mod tests;
