//! `--apply` and `--undo`: prints each change when it is made.

use std::path::{Path, PathBuf};

use fluxline_doctor::{
    Action, Check, Files, Journal, JournalError, Outcome, Step, boot_of, is_root,
};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::say;

/// A host to change, and the file that records its changes.
pub struct Place {
    /// The host.
    pub files: Files,
    /// The state file.
    pub state: PathBuf,
    /// Print one document instead of lines.
    pub json: bool,
}

impl Place {
    /// Opens a host for changes. Errors: this process is not root, and the host is this one.
    pub fn new(root: &Path, state: Option<&PathBuf>, json: bool) -> Result<Place, Failure> {
        let files = Files::below(root);
        if files.is_this_host() && !is_root() {
            return Err(Failure::failed(
                "a host's settings are changed as root only; run it with sudo.",
            ));
        }
        let state = state.cloned().unwrap_or_else(|| files.state_file());
        Ok(Place { files, state, json })
    }

    /// Applies the remedies of these checks.
    pub fn apply(&self, checks: &[Check]) -> Result<(), Failure> {
        let plan = fluxline_doctor::plan(checks);
        if plan.is_empty() {
            return self.end(&[]);
        }
        let mut journal = Journal::open(&self.state, &boot_of(&self.files)).map_err(failed)?;
        let mut steps = Vec::new();
        for action in &plan {
            let done =
                fluxline_doctor::apply(&self.files, &mut journal, std::slice::from_ref(action));
            for step in done.map_err(failed)? {
                self.print(&step, Some(action));
                steps.push(step);
            }
        }
        journal.close().map_err(failed)?;
        self.end(&steps)
    }

    /// Restores the earlier values.
    pub fn undo(&self, force: bool) -> Result<(), Failure> {
        let journal = Journal::open_existing(&self.state, &boot_of(&self.files));
        let Some(mut journal) = journal.map_err(failed)? else {
            return Err(Failure::input(format_args!(
                "there is nothing to undo: {} is not there.",
                self.state.display()
            )));
        };
        let is_void = journal.is_void();
        let steps = fluxline_doctor::undo(&self.files, &mut journal, force).map_err(failed)?;
        for step in &steps {
            self.print(step, None);
        }
        journal.close().map_err(failed)?;
        if is_void && !self.json {
            say!("the host was restarted since: that has taken the changes back");
            return Ok(());
        }
        self.end(&steps)
    }

    fn print(&self, step: &Step, action: Option<&Action>) {
        if self.json {
            return;
        }
        let Step { setting, old, new, outcome } = step;
        match outcome {
            Outcome::Set => say!("set     {setting}: {old} -> {new}"),
            Outcome::Became(now) => say!("set     {setting}: {old} -> {now} (of {new})"),
            Outcome::Already => say!("is so   {setting}: {new}"),
            Outcome::Foreign(now) => {
                say!("left    {setting}: {now} was set by somebody else; --force makes it {new}");
            }
            Outcome::Failed(error) => {
                say!("failed  {setting}: {error}");
                if let Some(action) = action {
                    say!("        by hand: {}", action.command());
                }
            }
        }
    }

    /// Prints the summary. Errors: a change could not be made.
    fn end(&self, steps: &[Step]) -> Result<(), Failure> {
        let state = self.state.exists().then(|| self.state.display().to_string());
        if self.json {
            let changes: Vec<Value> = steps.iter().map(document).collect();
            crate::output::print_json(&json!({ "changes": changes, "state": state }));
        } else if steps.is_empty() {
            say!("nothing to change");
        } else if let Some(state) = &state {
            say!("the earlier values are in {state}");
        }
        let is_undone =
            |step: &&Step| matches!(step.outcome, Outcome::Failed(_) | Outcome::Foreign(_));
        match steps.iter().filter(is_undone).count() {
            0 => Ok(()),
            1 => Err(Failure::failed("1 change was not made; see above why.")),
            count => {
                Err(Failure::failed(format_args!("{count} changes were not made; see above why.")))
            }
        }
    }
}

fn document(step: &Step) -> Value {
    let (outcome, now, error) = match &step.outcome {
        Outcome::Set => ("set", None, None),
        Outcome::Became(now) => ("set", Some(now), None),
        Outcome::Already => ("already", None, None),
        Outcome::Foreign(now) => ("foreign", Some(now), None),
        Outcome::Failed(error) => ("failed", None, Some(error.to_string())),
    };
    json!({
        "setting": step.setting.to_string(),
        "old": step.old,
        "new": step.new,
        "outcome": outcome,
        "now": now,
        "error": error,
    })
}

fn failed(error: JournalError) -> Failure {
    Failure::failed(format_args!("{error}."))
}
