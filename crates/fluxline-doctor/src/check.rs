//! One thing looked at, and how it came out.

use super::rule::Rule;
use super::setting::Action;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As wanted, or nothing can be wanted.
    Good,
    /// May lose packets under load, or adds latency.
    Warn,
    /// Will lose packets, or has.
    Bad,
}

impl Verdict {
    /// The word for it in tables and documents.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Good => "good",
            Verdict::Warn => "warn",
            Verdict::Bad => "bad",
        }
    }
}

/// One thing looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The rule that it is of.
    pub rule: &'static Rule,
    /// The name: the rule's title, and the interface.
    pub name: String,
    /// The value found, with unit.
    pub found: String,
    /// The value wanted, with unit.
    pub wanted: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The effect on the experiment in one sentence; `None` without an experiment or an effect.
    pub effect: Option<String>,
    /// The command that mends it; none where it is good or no command helps.
    pub remedy: Option<String>,
    /// The actions of `apply`: the same as the command, or none where a person must act.
    pub actions: Vec<Action>,
}

impl Check {
    /// A check that came out good.
    pub(super) fn new(rule: &'static Rule, found: impl Into<String>) -> Check {
        Check {
            rule,
            name: rule.title.to_owned(),
            found: found.into(),
            wanted: rule.limit.to_owned(),
            verdict: Verdict::Good,
            effect: None,
            remedy: None,
            actions: Vec::new(),
        }
    }

    /// About this interface.
    pub(super) fn of(mut self, interface: &str) -> Check {
        self.name = format!("{} of {interface}", self.rule.title);
        self
    }

    pub(super) fn wanted(mut self, wanted: impl Into<String>) -> Check {
        self.wanted = wanted.into();
        self
    }

    pub(super) fn verdict(mut self, verdict: Verdict) -> Check {
        self.verdict = verdict;
        self
    }

    /// A warning where it is so.
    pub(super) fn warn_if(self, is_so: bool) -> Check {
        match is_so {
            true => self.verdict(Verdict::Warn),
            false => self,
        }
    }

    pub(super) fn effect(mut self, effect: Option<String>) -> Check {
        self.effect = effect;
        self
    }

    /// Adds the actions that fix a failed check, and their commands.
    pub(super) fn mend(mut self, actions: Vec<Action>) -> Check {
        if self.verdict != Verdict::Good && !actions.is_empty() {
            self.remedy = Some(commands(&actions));
            self.actions = actions;
        }
        self
    }

    /// Adds advice to a person; `apply` ignores it.
    pub(super) fn advise(mut self, command: impl Into<String>) -> Check {
        if self.verdict != Verdict::Good && self.remedy.is_none() {
            self.remedy = Some(command.into());
        }
        self
    }

    /// Returns the reason for the rule.
    #[must_use]
    pub fn why(&self) -> &'static str {
        self.rule.why
    }
}

/// The commands of all actions; those that set many files to one value are said as one.
fn commands(actions: &[Action]) -> String {
    const ALL_SHOWN: usize = 2;
    if actions.len() <= ALL_SHOWN {
        return actions.iter().map(Action::command).collect::<Vec<_>>().join(" && ");
    }
    let paths: Vec<&str> = actions.iter().filter_map(Action::path).collect();
    let one_value = actions.iter().all(|action| action.value == actions[0].value);
    if one_value && paths.len() == actions.len() {
        return format!("echo {} | sudo tee {}", actions[0].value, paths.join(" "));
    }
    actions.iter().map(Action::command).collect::<Vec<_>>().join(" && ")
}
