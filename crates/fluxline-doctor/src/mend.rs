//! Applying what the checks advise, and taking it back.
//!
//! Each change is announced in the state file, with the value found, before it is made: after a
//! crash at any moment `undo` brings back what was there. A setting that has since been changed by
//! somebody else is left alone by default.

use std::io;

use super::check::Check;
use super::journal::{Changed, Journal, JournalError};
use super::setting::{Action, Setting, Settings};

/// The result of one change.
#[derive(Debug)]
pub enum Outcome {
    /// It has the wanted value now.
    Set,
    /// The host made another value of it.
    Became(String),
    /// It had the value already.
    Already,
    /// Somebody else changed it: it has this value, and was left alone.
    Foreign(String),
    /// The host refused.
    Failed(io::Error),
}

/// One change that was tried.
#[derive(Debug)]
pub struct Step {
    /// The setting.
    pub setting: Setting,
    /// Its value before; empty where it cannot be read.
    pub old: String,
    /// The value wanted.
    pub new: String,
    /// The result.
    pub outcome: Outcome,
}

/// Returns the changes of `apply` for these checks, each setting once. Where two checks want
/// different numbers of one setting, the larger one is for both.
#[must_use]
pub fn plan<'a>(checks: impl IntoIterator<Item = &'a Check>) -> Vec<Action> {
    let mut plan: Vec<Action> = Vec::new();
    let number = |value: &str| value.parse::<u64>().unwrap_or(0);
    for action in checks.into_iter().flat_map(|check| &check.actions) {
        match plan.iter_mut().find(|known| known.setting == action.setting) {
            Some(known) if number(&known.value) < number(&action.value) => *known = action.clone(),
            Some(_) => {}
            None => plan.push(action.clone()),
        }
    }
    plan
}

/// Makes the changes, in order; one that fails does not keep the others from being tried.
///
/// Done when it returns: each change is in force and in the journal. Errors: the journal cannot be
/// written; then the change that was next has not been made.
pub fn apply(
    host: &dyn Settings,
    journal: &mut Journal,
    actions: &[Action],
) -> Result<Vec<Step>, JournalError> {
    actions.iter().map(|action| apply_one(host, journal, action)).collect()
}

fn apply_one(
    host: &dyn Settings,
    journal: &mut Journal,
    action: &Action,
) -> Result<Step, JournalError> {
    let Action { setting, value: new } = action;
    let step = |old: &str, outcome| Step {
        setting: setting.clone(),
        old: old.into(),
        new: new.clone(),
        outcome,
    };
    let old = match host.read(setting) {
        Ok(old) => old,
        Err(error) => return Ok(step("", Outcome::Failed(error))),
    };
    if old == *new {
        return Ok(step(&old, Outcome::Already));
    }
    let first = journal.first_value(setting, &old);
    journal.record(setting, &first, new)?;
    let written = host.write(setting, new);
    let now = host.read(setting).unwrap_or_else(|_| new.clone());
    if now == *new {
        return Ok(step(&old, Outcome::Set));
    }
    journal.record(setting, &first, &now)?;
    if now == old {
        let refused = || io::Error::other("the host kept its value");
        return Ok(step(&old, Outcome::Failed(written.err().unwrap_or_else(refused))));
    }
    Ok(step(&old, Outcome::Became(now)))
}

/// Brings the first values back, the last change first; what others changed is left alone unless
/// `force`. What could not be brought back stays in the journal.
pub fn undo(
    host: &dyn Settings,
    journal: &mut Journal,
    force: bool,
) -> Result<Vec<Step>, JournalError> {
    let mut steps = Vec::new();
    for Changed { setting, old: first, new: ours } in journal.newest_first() {
        let (old, outcome) = match host.read(&setting) {
            Err(error) => (String::new(), Outcome::Failed(error)),
            Ok(now) if now == first => (now, Outcome::Already),
            Ok(now) if !force && now != ours => (now.clone(), Outcome::Foreign(now)),
            Ok(now) => (now, restore(host, &setting, &first)),
        };
        match &outcome {
            Outcome::Set | Outcome::Already => journal.record(&setting, &first, &first)?,
            Outcome::Became(now) => journal.record(&setting, &first, now)?,
            Outcome::Foreign(_) | Outcome::Failed(_) => {}
        }
        steps.push(Step { setting, old, new: first, outcome });
    }
    Ok(steps)
}

fn restore(host: &dyn Settings, setting: &Setting, value: &str) -> Outcome {
    if let Err(error) = host.write(setting, value) {
        return Outcome::Failed(error);
    }
    match host.read(setting) {
        Ok(now) if now == value => Outcome::Set,
        Ok(now) => Outcome::Became(now),
        Err(error) => Outcome::Failed(error),
    }
}

#[cfg(test)]
mod tests;
