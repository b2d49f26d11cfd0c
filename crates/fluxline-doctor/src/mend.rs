//! Applying what the checks advise, and taking it back.
//!
//! Each change is announced in the state file, with the value found, before it is made: after a
//! crash at any moment `undo` brings back what was there. A setting that has since been changed by
//! somebody else is left alone by default.

use std::io;

use super::check::Check;
use super::journal::{Journal, JournalError};
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
    journal.change(setting, &old, new)?;
    let written = host.write(setting, new);
    let now = host.read(setting).unwrap_or_else(|_| new.clone());
    if now == *new {
        journal.became(setting, &now)?;
        return Ok(step(&old, Outcome::Set));
    }
    if now == old {
        // Nothing happened; the first value stays in the journal if an earlier change is.
        let first = journal.newest_first().into_iter().find(|(other, _)| other == setting);
        match first.is_some_and(|(_, changed)| changed.old == old) {
            true => journal.undone(setting)?,
            false => journal.became(setting, &now)?,
        }
        let refused = || io::Error::other("the host kept its value");
        return Ok(step(&old, Outcome::Failed(written.err().unwrap_or_else(refused))));
    }
    journal.became(setting, &now)?;
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
    for (setting, changed) in journal.newest_first() {
        let new = changed.old.clone();
        let (old, outcome) = match host.read(&setting) {
            Err(error) => (String::new(), Outcome::Failed(error)),
            Ok(now) if now == new => (now, Outcome::Already),
            Ok(now) if !force && !changed.ours.contains(&now) => {
                (now.clone(), Outcome::Foreign(now))
            }
            Ok(now) => (now, restore(host, &setting, &new)),
        };
        if matches!(outcome, Outcome::Set | Outcome::Already) {
            journal.undone(&setting)?;
        }
        if let Outcome::Became(now) = &outcome {
            journal.became(&setting, now)?;
        }
        steps.push(Step { setting, old, new, outcome });
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
