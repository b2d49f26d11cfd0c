//! `fluxline doctor`: finds host settings that lose packets, and fixes them.

use std::path::Path;

use fluxline_doctor::{Check, Files, HostFacts, Load};
use serde_json::json;

use crate::arguments::DoctorArguments;
use crate::doctor::change::Place;
use crate::doctor::{load, table};
use crate::failure::Failure;
use crate::{say, say_text};
use fluxline_daq::experiment::Experiment;

/// Prints the checks, worst first; or applies their remedies, or undoes that.
pub fn doctor(arguments: &DoctorArguments, json: bool) -> Result<(), Failure> {
    if arguments.table {
        say_text!("{}", fluxline_doctor::table());
        return Ok(());
    }
    if let Some(folder) = &arguments.capture {
        return capture(folder, json);
    }
    if !arguments.root.is_dir() {
        return Err(Failure::input(format_args!(
            "--root {} is not a directory.",
            arguments.root.display()
        )));
    }
    let state = arguments.state.as_ref();
    if arguments.undo {
        return Place::new(&arguments.root, state, json)?.undo(arguments.force);
    }
    check_names(&arguments.only)?;
    let mut load = match &arguments.experiment {
        Some(path) => Some(load::load_of(&Experiment::load(path)?, arguments)?),
        None => None,
    };
    let place = match arguments.apply {
        true => Some(Place::new(&arguments.root, state, json)?),
        false => None,
    };
    let checks = judge(arguments, load.as_mut());
    match place {
        Some(place) => place.apply(&checks),
        None if json => {
            super::print_json(&table::document(&checks, load.as_ref()));
            Ok(())
        }
        None => {
            let with = arguments.experiment.as_ref();
            let with = with.map_or(String::new(), |path| format!(" --for {}", path.display()));
            table::print(&checks, load.as_ref(), &with);
            Ok(())
        }
    }
}

/// Copies this host's files, and says what to do with them.
fn capture(folder: &Path, json: bool) -> Result<(), Failure> {
    let shown = folder.display();
    let files = fluxline_doctor::capture(folder).map_err(|error| {
        Failure::input(format_args!(
            "--capture {shown}: {error}; name a directory that does not exist."
        ))
    })?;
    if json {
        super::print_json(&json!({ "folder": shown.to_string(), "files": files }));
    } else {
        say!("{files} files of this host are in {shown}; check them before you send them");
        say!("judge them anywhere with: fluxline doctor --root {shown}");
    }
    Ok(())
}

fn judge(arguments: &DoctorArguments, mut load: Option<&mut Load>) -> Vec<Check> {
    let facts = HostFacts::read(&Files::below(&arguments.root), load.as_deref());
    if let Some(load) = load.as_deref_mut() {
        load.assume(&facts);
    }
    let mut checks = facts.judge(load.as_deref());
    let only = &arguments.only;
    checks.retain(|check| {
        only.is_empty() || only.iter().any(|name| *name == check.rule.name || *name == check.name)
    });
    checks
}

/// Whether each name is a rule's, or a rule's title with what it is about.
fn check_names(names: &[String]) -> Result<(), Failure> {
    let rules = fluxline_doctor::rules();
    let all: Vec<_> = rules.iter().flat_map(|(_, rules)| rules.iter()).collect();
    for name in names {
        if !all.iter().any(|rule| *name == rule.name || name.starts_with(rule.title)) {
            let known: Vec<&str> = all.iter().map(|rule| rule.name).collect();
            return Err(Failure::input(format_args!(
                "--only {name}: unknown check; known checks are {}.",
                known.join(", ")
            )));
        }
    }
    Ok(())
}
