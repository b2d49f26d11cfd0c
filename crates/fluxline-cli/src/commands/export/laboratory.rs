//! Formats that the Python package writes: HDF5 and NeXus.

use std::process::{Command, Stdio};

use crate::export_arguments::{ExportArguments, ExportKind};
use crate::failure::{Ending, Failure};

/// The environment variable that names another Python.
const PYTHON: &str = "FLUXLINE_PYTHON";

/// Runs `python3 -m fluxline.export` with the same choice of rows and columns.
pub fn export(arguments: &ExportArguments) -> Result<Ending, Failure> {
    let (kind, ending) = match arguments.to {
        ExportKind::Nexus => ("nexus", "nxs"),
        _ => ("hdf5", "h5"),
    };
    if let Some(flag) = unknown_flag(arguments) {
        return Err(Failure::input(format_args!(
            "--to {kind} does not have {flag}; choose events with --events, or another format."
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
    let inside = || arguments.run.join(format!("export.{ending}"));
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
    if arguments.overwrite {
        command.arg("--overwrite");
    }
    let status = command.status();
    match status {
        Ok(status) if status.success() => Ok(Ending::Well),
        Ok(status) => Err(Failure::failed(format_args!(
            "the export by {python} failed ({status}); its reason is above."
        ))),
        Err(error) => Err(Failure::failed(format_args!("{python} could not be started: {error}."))),
    }
}

fn has_package(python: &str) -> bool {
    let mut find = Command::new(python);
    find.args(["-c", "import fluxline.export"]).stdout(Stdio::null()).stderr(Stdio::null());
    find.status().is_ok_and(|status| status.success())
}

/// Returns a flag that the Python package does not have.
fn unknown_flag(arguments: &ExportArguments) -> Option<&'static str> {
    [
        (arguments.since.is_some(), "--since"),
        (arguments.until.is_some(), "--until"),
        (arguments.no_join, "--no-join"),
        (arguments.raw, "--raw"),
    ]
    .into_iter()
    .find_map(|(given, flag)| given.then_some(flag))
}
