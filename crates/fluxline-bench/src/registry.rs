//! The table of all experiments, trials and services, by name.
//!
//! Both sides of a control connection have this table, so a name is enough to order a trial.

use serde_json::Value;

use crate::Error;
use crate::environment::Service;
use crate::kind::ExperimentKind;
use crate::role::{Role, Side, TrialKind};
use crate::{collectives, datagrams, load, papers, pingpong};

const EXPERIMENTS: &[&[ExperimentKind]] = &[
    pingpong::EXPERIMENTS,
    collectives::EXPERIMENTS,
    load::EXPERIMENTS,
    datagrams::EXPERIMENTS,
    papers::EXPERIMENTS,
];
const TRIALS: &[&[&TrialKind]] =
    &[pingpong::TRIALS, collectives::TRIALS, load::TRIALS, papers::TRIALS];
const SERVICES: &[&[&Service]] = &[pingpong::SERVICES, datagrams::SERVICES, papers::SERVICES];

/// Lists all experiments in the order in which they run.
pub fn experiments() -> impl Iterator<Item = &'static ExperimentKind> {
    EXPERIMENTS.iter().copied().flatten()
}

/// Returns the service of that name.
#[must_use]
pub fn service(name: &str) -> Option<&'static Service> {
    SERVICES.iter().copied().flatten().copied().find(|service| service.name == name)
}

/// Makes one end of a trial. Errors: no such trial, parameters that make no sense.
pub fn role(name: &str, parameters: &Value, side: Side) -> Result<Box<dyn Role>, Error> {
    let found = TRIALS.iter().copied().flatten().find(|trial| trial.name == name);
    let found = found.ok_or_else(|| Error::Input(format!("unknown trial {name:?}")))?;
    (found.make)(parameters, side)
}
