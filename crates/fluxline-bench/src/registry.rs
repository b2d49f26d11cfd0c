//! All experiments, trials and services by name: what both sides of a control connection know.

use serde_json::Value;

use crate::Trouble;
use crate::result::Experiment;
use crate::role::{Role, Side};
use crate::stage::{Plan, Service, Stage};
use crate::{datagrams, load, papers, pingpong};

/// Which links an experiment runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Every link that has a fabric: real or simulated.
    Fabrics,
    /// The links of these schemes, by raw sockets or otherwise without a fabric.
    Schemes(&'static [&'static str]),
    /// Every link with a fabric, and those of these schemes.
    FabricsAnd(&'static [&'static str]),
}

impl Links {
    /// Whether a link of this scheme is one of them.
    #[must_use]
    pub fn include(self, scheme: &str, has_fabric: bool) -> bool {
        match self {
            Links::Fabrics => has_fabric,
            Links::Schemes(schemes) => schemes.contains(&scheme),
            Links::FabricsAnd(schemes) => has_fabric || schemes.contains(&scheme),
        }
    }

    /// As people write it.
    #[must_use]
    pub fn text(self) -> String {
        let of = |schemes: &[&str]| schemes.join("://, ") + "://";
        match self {
            Links::Fabrics => "shm://, udp://, xdp://, sim:".to_owned(),
            Links::Schemes(schemes) => of(schemes),
            Links::FabricsAnd(schemes) => format!("shm://, udp://, xdp://, sim:, {}", of(schemes)),
        }
    }
}

/// One experiment.
pub struct Entry {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures and how, a sentence or two.
    pub about: &'static str,
    /// Where.
    pub links: Links,
    /// Whether it runs when `--only` does not say which.
    pub by_default: bool,
    /// About how long it takes \[s\]: with `--quick`, and without, one round.
    pub seconds: [u32; 2],
    /// Runs it. What it has filled in when it fails is kept, and marked incomplete.
    pub run: fn(&mut dyn Stage, &Plan, &mut Experiment) -> Result<(), Trouble>,
}

/// Makes one end of a trial from its parameters.
pub type Make = fn(&Value, Side) -> Result<Box<dyn Role>, Trouble>;

/// A kind of trial: makes the roles of both ends from its parameters.
pub struct Trial {
    /// Its name between the two sides.
    pub name: &'static str,
    /// Makes one end. Errors: parameters that make no sense.
    pub make: Make,
}

/// The folders of experiments; each adds its own three lists here.
const EXPERIMENTS: &[&[Entry]] =
    &[pingpong::EXPERIMENTS, load::EXPERIMENTS, datagrams::EXPERIMENTS, papers::EXPERIMENTS];
const TRIALS: &[&[Trial]] = &[pingpong::TRIALS, load::TRIALS, papers::TRIALS];
const SERVICES: &[&[Service]] = &[pingpong::SERVICES, datagrams::SERVICES, papers::SERVICES];

/// All experiments, in the order in which they run.
pub fn experiments() -> impl Iterator<Item = &'static Entry> {
    EXPERIMENTS.iter().copied().flatten()
}

/// The kind of trial of that name.
#[must_use]
pub fn trial(name: &str) -> Option<&'static Trial> {
    TRIALS.iter().copied().flatten().find(|trial| trial.name == name)
}

/// The service of that name.
#[must_use]
pub fn service(name: &str) -> Option<&'static Service> {
    SERVICES.iter().copied().flatten().find(|service| service.name == name)
}

/// Makes one end of a trial. Errors: no such trial, parameters that make no sense.
pub fn role(name: &str, parameters: &Value, side: Side) -> Result<Box<dyn Role>, Trouble> {
    let found = trial(name).ok_or_else(|| Trouble::Input(format!("there is no trial {name:?}")))?;
    (found.make)(parameters, side)
}
