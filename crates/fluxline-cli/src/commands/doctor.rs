//! `fluxline doctor`: finds host settings that lose packets, and fixes them.

use fluxline_doctor::{Check, Files, HostFacts, Load, Stated};

use crate::arguments::DoctorArguments;
use crate::doctor::change::Place;
use crate::doctor::table;
use crate::failure::Failure;
use crate::say_text;
use fluxline_daq::experiment::Experiment;

/// Fastest rate of one sender that is believed \[Hz\]: shortest frames on 400 Gb/s.
const RATE_MAX_HZ: f64 = 1e9;

/// Prints the checks, worst first; or applies their remedies, or undoes that.
pub fn doctor(arguments: &DoctorArguments, json: bool) -> Result<(), Failure> {
    if arguments.table {
        say_text!("{}", fluxline_doctor::table());
        return Ok(());
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
        Some(path) => {
            let experiment = Experiment::load(path)?;
            Some(fluxline_doctor::load_of(&experiment, &stated(arguments)?)?)
        }
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

/// Checks and returns the options for values that the experiment lacks.
fn stated(arguments: &DoctorArguments) -> Result<Stated, Failure> {
    if let Some(rate) = arguments.rate.filter(|rate| !(*rate > 0.0 && *rate <= RATE_MAX_HZ)) {
        return Err(Failure::input(format_args!(
            "--rate {rate} is out of range; write packets per second, above 0 and up to 1e9."
        )));
    }
    for (flag, value) in [("senders", arguments.senders), ("packet-bytes", arguments.packet_bytes)]
    {
        if value.is_some_and(|value| !(1..=1 << 20).contains(&value)) {
            return Err(Failure::input(format_args!("--{flag}: write 1 to 1048576.")));
        }
    }
    let DoctorArguments { rate, senders, packet_bytes, .. } = *arguments;
    Ok(Stated { rate_hz: rate, senders, packet_bytes })
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

/// Checks that each name is that of a rule, or begins with the title of one.
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
