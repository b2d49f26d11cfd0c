//! Sets of published experiments: for each family of networks, the facts, figures and parameters.

use super::fact::Finding;
use super::figure::Figure;
use super::judge::{Judged, Verdict};
use super::pair::BadStand;
use super::parameter::Parameter;

/// A paper or another document.
#[derive(Debug)]
pub struct Source {
    /// The name that facts use.
    pub name: &'static str,
    /// Authors, title and year.
    pub title: &'static str,
}

/// A statement of a source that the model cannot confirm or deny.
#[derive(Debug)]
pub struct Gap {
    /// The name of the source.
    pub source: &'static str,
    /// The statement.
    pub statement: &'static str,
    /// The reason.
    pub reason: &'static str,
}

/// Variants of a model, each with its numbers, where the sources do not decide.
#[derive(Clone, Debug, PartialEq)]
pub struct Trials {
    /// The question.
    pub title: &'static str,
    /// The conclusion.
    pub text: &'static str,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// One row for each variant.
    pub rows: Vec<Vec<String>>,
}

/// The results of the models of a set.
pub struct Run {
    /// The figures.
    pub figures: Vec<Figure>,
    /// Each fact once, with the model's number.
    pub findings: Vec<Finding>,
    /// The parameters of the models.
    pub parameters: Vec<Parameter>,
    /// Variants of the models.
    pub trials: Vec<Trials>,
}

/// Published experiments with one family of networks, as data, and the models that repeat them.
#[derive(Debug)]
pub struct Set {
    /// The name on the command line.
    pub name: &'static str,
    /// The title.
    pub title: &'static str,
    /// The sources of its facts.
    pub sources: &'static [Source],
    /// Statements of the sources beyond the model.
    pub gaps: &'static [Gap],
    /// Runs the models.
    pub run: fn() -> Result<Run, BadStand>,
}

impl Set {
    /// Runs the models and judges each fact.
    ///
    /// # Errors
    /// [`BadStand`]: a preset is invalid (a defect).
    pub fn compare(&'static self) -> Result<Comparison, BadStand> {
        let Run { figures, findings, parameters, trials } = (self.run)()?;
        let facts = findings.into_iter().map(|finding| Judged::of(finding, &parameters)).collect();
        Ok(Comparison { set: self, figures, facts, parameters, trials })
    }
}

/// The comparison of a set's facts with its models.
#[derive(Debug)]
pub struct Comparison {
    /// The set.
    pub set: &'static Set,
    /// The figures.
    pub figures: Vec<Figure>,
    /// Each fact, judged.
    pub facts: Vec<Judged>,
    /// The parameters of the models.
    pub parameters: Vec<Parameter>,
    /// Variants of the models.
    pub trials: Vec<Trials>,
}

impl Comparison {
    /// Returns the number of facts with a verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.facts.iter().filter(|fact| fact.verdict == verdict).count()
    }

    /// Returns the counts of all verdicts as a sentence.
    #[must_use]
    pub fn verdict(&self) -> String {
        let [predicted, calibrated, missed] = Verdict::ALL.map(|verdict| self.count(verdict));
        format!(
            "{}: of {} published facts {predicted} are predicted, {calibrated} are met by \
             calibration, and {missed} are missed.",
            self.set.name,
            self.facts.len(),
        )
    }
}
