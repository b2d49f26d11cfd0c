//! A finding of a rule: the reason for an alarm.

use fluxline_daq::experiment::Severity;

/// Something that is not normal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: String,
    /// The source, counter or place that it is about; empty: the run.
    pub about: String,
    /// Its importance.
    pub severity: Severity,
    /// One clause on what is not normal.
    pub sentence: String,
    /// Advice for the person who sees it.
    pub advice: String,
}

impl Finding {
    /// Returns the name of its alarm.
    pub fn name(&self) -> String {
        match self.about.is_empty() {
            true => self.rule.clone(),
            false => format!("{}/{}", self.rule, self.about),
        }
    }

    pub fn new(
        rule: &str,
        about: &str,
        severity: Severity,
        sentence: String,
        advice: &str,
    ) -> Finding {
        let (rule, about, advice) = (rule.to_owned(), about.to_owned(), advice.to_owned());
        Finding { rule, about, severity, sentence, advice }
    }
}
