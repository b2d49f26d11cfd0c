//! The one place that judges a model by the facts of a paper.

use super::fact::Finding;
use super::parameter::Parameter;

/// The judgement of a fact: exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The model agrees, and no parameter was chosen from the fact.
    Predicted,
    /// The model agrees, and a parameter was chosen from the fact: agreement proves nothing.
    Calibrated,
    /// The model disagrees.
    Missed,
}

impl Verdict {
    /// All verdicts, in the order of the columns.
    pub const ALL: [Verdict; 3] = [Verdict::Predicted, Verdict::Calibrated, Verdict::Missed];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Predicted => "predicted",
            Verdict::Calibrated => "calibrated",
            Verdict::Missed => "missed",
        }
    }
}

/// A judged fact.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The fact and the model's number.
    pub finding: Finding,
    /// The deviation from the published range, as a fraction of its nearer end.
    pub deviation: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// The parameters that were chosen from the fact, as `machine: name`.
    pub chosen: Vec<String>,
}

impl Judged {
    /// Judges a fact. Whether it is calibrated follows from the parameters alone, so a fact cannot
    /// be a calibration and a prediction.
    #[must_use]
    pub fn of(finding: Finding, parameters: &[Parameter]) -> Judged {
        let from_it = parameters.iter().filter(|one| one.chosen_from(finding.fact));
        let chosen: Vec<String> = from_it.map(Parameter::full_name).collect();
        let verdict = match (finding.holds(), chosen.is_empty()) {
            (false, _) => Verdict::Missed,
            (true, true) => Verdict::Predicted,
            (true, false) => Verdict::Calibrated,
        };
        Judged { finding, deviation: finding.deviation(), verdict, chosen }
    }
}
