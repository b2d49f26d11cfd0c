//! Parameters of the models, each with its origin.

use super::fact::Fact;
use crate::Duration;

/// The origin of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The paper states it.
    Published,
    /// Another published document states it.
    Source,
    /// It was chosen so that the model agrees with facts.
    Calibrated,
    /// It is remembered and unchecked.
    Background,
    /// It has no source.
    Assumed,
}

impl Origin {
    /// All origins.
    pub const ALL: [Origin; 5] = [
        Origin::Published,
        Origin::Source,
        Origin::Calibrated,
        Origin::Background,
        Origin::Assumed,
    ];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Origin::Published => "published",
            Origin::Source => "source",
            Origin::Calibrated => "calibrated",
            Origin::Background => "background",
            Origin::Assumed => "assumed",
        }
    }

    /// Describes the origin.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Origin::Published => "the paper states it",
            Origin::Source => "another published document states it",
            Origin::Calibrated => "chosen so that the model agrees with the facts named",
            Origin::Background => "remembered, unchecked",
            Origin::Assumed => "no source",
        }
    }
}

/// A parameter of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The machine or network.
    pub machine: &'static str,
    /// The quantity.
    pub name: &'static str,
    /// The value, with its unit.
    pub value: String,
    /// The origin.
    pub origin: Origin,
    /// The statement, table or page behind it, or the reason for an assumption.
    pub reason: &'static str,
    /// The facts that it was chosen from or that state it: no predictions.
    pub facts: &'static [&'static Fact],
}

impl Parameter {
    /// Makes a parameter.
    #[must_use]
    pub fn new(machine: &'static str, name: &'static str, value: String) -> Parameter {
        let (origin, facts): (_, &[_]) = (Origin::Assumed, &[]);
        Parameter { machine, name, value, origin, reason: "", facts }
    }

    /// Sets the origin and the reason.
    #[must_use]
    pub fn from(self, origin: Origin, reason: &'static str) -> Parameter {
        Parameter { origin, reason, ..self }
    }

    /// Sets the facts that the value was chosen from.
    #[must_use]
    pub fn fixed_by(self, facts: &'static [&'static Fact]) -> Parameter {
        Parameter { facts, ..self }
    }

    /// Returns true if the value was chosen from this fact.
    #[must_use]
    pub fn chosen_from(&self, fact: &Fact) -> bool {
        self.facts.iter().any(|one| one.id == fact.id)
    }

    /// Returns `machine: name`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}: {}", self.machine, self.name)
    }
}

/// Writes a duration as a value.
pub(super) fn time(span: Duration) -> String {
    match span.as_ps() {
        ps if ps >= 1_000_000 => format!("{} us", ps as f64 / 1e6),
        ps => format!("{} ns", ps as f64 / 1e3),
    }
}
