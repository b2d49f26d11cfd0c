//! Raw UDP datagrams, without any fabric, as a sensor sends them.
//!
//! Two experiments, both against the datagram's size: the throughput of a sender at full speed
//! ([`sweep`]), and the highest loss-free rate ([`lossfree`]). Each has the load of
//! every core on both sides, and the place of each lost datagram. Single datagrams and trains never
//! share a number.

pub mod arrivals;
pub mod collect;
pub mod cpu;
pub mod curves;
pub mod ends;
pub mod far;
pub mod host;
pub mod limit;
pub mod loss;
pub mod lossfree;
pub mod message;
pub mod pace;
pub mod search;
pub mod setting;
pub mod sweep;
pub mod transmit;
pub mod trial;

use crate::Error;
use crate::environment::{Environment, Plan, Service};
use crate::kind::{ExperimentKind, Links};
use crate::result::Experiment;
use ends::Remote;
use setting::Extent;

/// On raw UDP sockets, beside or without a fabric.
const LINKS: Links = Links::Schemes(&["udp"]);

/// The experiments on raw datagrams. Their times are those of [`Extent::quick`] and
/// [`Extent::full`] over loopback (DERIVED: trials times their length).
pub const EXPERIMENTS: &[ExperimentKind] = &[
    ExperimentKind {
        name: sweep::NAME,
        about: sweep::ABOUT,
        links: LINKS,
        by_default: true,
        seconds: [8, 240],
        run: run_sweep,
    },
    ExperimentKind {
        name: lossfree::NAME,
        about: lossfree::ABOUT,
        links: LINKS,
        by_default: true,
        seconds: [24, 1_600],
        run: run_lossfree,
    },
];

/// The services of the far side.
pub const SERVICES: &[&Service] = &[&far::SERVICE];

fn run_sweep(
    environment: &mut dyn Environment,
    plan: &Plan,
    into: &mut Experiment,
) -> Result<(), Error> {
    sweep::run(&mut Remote::new(environment)?, &Extent::of(plan), into)
}

fn run_lossfree(
    environment: &mut dyn Environment,
    plan: &Plan,
    into: &mut Experiment,
) -> Result<(), Error> {
    lossfree::run(&mut Remote::new(environment)?, &Extent::of(plan), into)
}
