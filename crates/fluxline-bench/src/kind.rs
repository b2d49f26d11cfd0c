//! The row by which an experiment is listed, chosen and run.
//!
//! A room of experiments fills in rows; [`crate::registry`] joins the rows of all rooms. A room
//! never imports the registry.

use crate::Error;
use crate::environment::{Environment, Plan};
use crate::result::Experiment;

/// The links that an experiment runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Every link that has a fabric: real or simulated.
    Fabrics,
    /// The links of these schemes, with or without a fabric.
    Schemes(&'static [&'static str]),
    /// Every link with a fabric, and those of these schemes.
    FabricsAnd(&'static [&'static str]),
}

impl Links {
    /// Returns true if a link of this scheme is included.
    #[must_use]
    pub fn include(self, scheme: &str, has_fabric: bool) -> bool {
        match self {
            Links::Fabrics => has_fabric,
            Links::Schemes(schemes) => schemes.contains(&scheme),
            Links::FabricsAnd(schemes) => has_fabric || schemes.contains(&scheme),
        }
    }

    /// Returns the list of links for people.
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

/// One experiment: its name, its links, and the function that runs it.
pub struct ExperimentKind {
    /// The name on the command line.
    pub name: &'static str,
    /// One or two sentences: the quantity and the method.
    pub about: &'static str,
    /// The links that it runs on.
    pub links: Links,
    /// True if it runs without being named by `--only`.
    pub by_default: bool,
    /// The approximate time of one round \[s\]: with `--quick`, and without.
    pub seconds: [u32; 2],
    /// Runs it. Results measured before an error are kept and marked incomplete.
    pub run: fn(&mut dyn Environment, &Plan, &mut Experiment) -> Result<(), Error>,
}
