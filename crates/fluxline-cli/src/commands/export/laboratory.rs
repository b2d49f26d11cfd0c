//! Formats that the Python package writes: HDF5 and NeXus.

use std::process::{Command, Output, Stdio};

use fluxline_core::Moment;

use crate::export_arguments::{ExportArguments, ExportKind};
use crate::failure::{Ending, Failure, FailureKind};

/// The environment variable that names another Python.
const PYTHON: &str = "FLUXLINE_PYTHON";

/// The name before the sentences of the Python package.
const SPEAKER: &str = "fluxline.export: ";

/// Runs `python3 -m fluxline.export` with the same choice of rows and columns.
pub fn export(arguments: &ExportArguments, json: bool) -> Result<Ending, Failure> {
    let (kind, extension) = match arguments.to {
        ExportKind::Nexus => ("nexus", "nxs"),
        _ => ("hdf5", "h5"),
    };
    if let Some(flag) = unknown_flag(arguments) {
        return Err(Failure::input(format_args!(
            "--to {kind} does not have {flag}; leave it out, or choose another format."
        )));
    }
    let python = std::env::var(PYTHON).unwrap_or_else(|_| "python3".to_owned());
    if !has_package(&python) {
        return Err(Failure::input(format_args!(
            "--to {kind} needs Fluxline's Python package, which {python} does not have; install \
             it as crates/fluxline-python/README.md says, with h5py, or name another Python by \
             {PYTHON}."
        )));
    }
    let inside = || arguments.run.join(format!("export.{extension}"));
    let out = arguments.into.clone().unwrap_or_else(inside);
    let mut command = Command::new(&python);
    command.args(["-m", "fluxline.export"]).arg(&arguments.run).args(["--to", kind]).arg(out);
    for (flag, names) in [("--columns", &arguments.columns), ("--sources", &arguments.sources)] {
        if let Some(names) = names {
            command.args([flag, &names.join(",")]);
        }
    }
    if let Some(events) = &arguments.events {
        command.args(["--events", &format!("{}..{}", events.start, events.end)]);
    }
    for (flag, time) in [("--since", arguments.since), ("--until", arguments.until)] {
        if let Some(time) = time {
            command.args([flag, &seconds(time)]);
        }
    }
    for (flag, given) in [("--overwrite", arguments.overwrite), ("--json", json)] {
        if given {
            command.arg(flag);
        }
    }
    if json {
        command.stderr(Stdio::piped()); // its sentence becomes this command's
    }
    let output = command.stdout(Stdio::inherit()).spawn();
    let output = output.and_then(std::process::Child::wait_with_output);
    let output = output.map_err(|error| {
        Failure::failed(format_args!("{python} could not be started: {error}."))
    })?;
    ending(&python, &output, json)
}

/// Returns a time as both halves of the export read it, to the nanosecond.
fn seconds(time: Moment) -> String {
    format!("{}.{:09}", time.as_ns() / 1_000_000_000, time.as_ns() % 1_000_000_000)
}

/// Returns the end of an export by the status of the Python package, which is that of this program.
fn ending(python: &str, output: &Output, json: bool) -> Result<Ending, Failure> {
    let kind = match output.status.code() {
        Some(0) => return Ok(Ending::Well),
        Some(3) => FailureKind::Input,
        Some(8) => FailureKind::Files,
        _ => FailureKind::Failed,
    };
    if !json {
        // Its sentence is on standard error already.
        return Ok(Ending::Failed(kind));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let sentence = said.lines().rev().find_map(|line| line.strip_prefix(SPEAKER));
    let message = match sentence {
        Some(sentence) => sentence.to_owned(),
        None => {
            let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
            format!("the export by {python} ended with {} ({last}).", output.status)
        }
    };
    let failure = Failure { kind, message };
    failure.say(json);
    Ok(Ending::Failed(kind))
}

fn has_package(python: &str) -> bool {
    let mut find = Command::new(python);
    find.args(["-c", "import fluxline.export"]).stdout(Stdio::null()).stderr(Stdio::null());
    find.status().is_ok_and(|status| status.success())
}

/// Returns a flag that the Python package does not have.
fn unknown_flag(arguments: &ExportArguments) -> Option<&'static str> {
    [(arguments.no_join, "--no-join"), (arguments.raw, "--raw")]
        .into_iter()
        .find_map(|(given, flag)| given.then_some(flag))
}
