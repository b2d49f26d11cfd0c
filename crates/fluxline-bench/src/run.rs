//! A whole run: one experiment after the other, and a report that keeps every result, also after
//! an error.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::Error;
use crate::environment::{Environment, Plan};
use crate::host::busy;
use crate::kind::ExperimentKind;
use crate::real::Link;
use crate::registry;
use crate::result::{Experiment, Report, SCHEMA};

/// Chooses the experiments of a link: those named, or the default ones.
///
/// Errors: an unknown name, or an experiment that this link cannot run.
pub fn choose(only: &[String], link: &Link) -> Result<Vec<&'static ExperimentKind>, Error> {
    let scheme = link.scheme();
    let fits = |entry: &&ExperimentKind| entry.links.include(scheme, link.has_fabric());
    if only.is_empty() {
        return Ok(registry::experiments().filter(|one| one.by_default && fits(one)).collect());
    }
    let mut chosen = Vec::new();
    for name in only {
        let found = registry::experiments().find(|entry| entry.name == *name);
        let Some(entry) = found else {
            let names: Vec<&str> = registry::experiments().map(|entry| entry.name).collect();
            let problem = format!("unknown experiment {name:?}; known are {}", names.join(", "));
            return Err(Error::Input(problem));
        };
        if !fits(&entry) {
            let on = entry.links.text();
            let problem = format!("{name} is not possible on {scheme}://; it is on {on}");
            return Err(Error::Input(problem));
        }
        chosen.push(entry);
    }
    Ok(chosen)
}

/// Starts an empty report. Its program is this library's version; a caller that knows the commit
/// replaces it.
#[must_use]
pub fn begin(link: &str, plan: &Plan, environment: Value) -> Report {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Report {
        schema: SCHEMA,
        link: link.to_owned(),
        command: std::env::args().collect(),
        program: concat!("fluxline ", env!("CARGO_PKG_VERSION")).to_owned(),
        began_s: since.as_secs(),
        seed: plan.seed,
        environment,
        experiments: Vec::new(),
    }
}

/// Runs experiments and adds their results to the report, also those measured before an error.
/// Returns the error that ended the run; errors of single experiments are in the report.
pub fn run(
    environment: &mut dyn Environment,
    plan: &Plan,
    entries: &[&ExperimentKind],
    report: &mut Report,
) -> Result<(), Error> {
    // In virtual time it does not matter what else the machine does.
    let mut watch = environment.is_real().then(busy::Watch::start);
    let ended = run_all(environment, plan, entries, report, &mut watch);
    if let Some(watch) = watch {
        report.environment["busy"] = json!(watch.finish());
    }
    ended
}

fn run_all(
    environment: &mut dyn Environment,
    plan: &Plan,
    entries: &[&ExperimentKind],
    report: &mut Report,
    watch: &mut Option<busy::Watch>,
) -> Result<(), Error> {
    for (at, entry) in entries.iter().enumerate() {
        let mut experiment = Experiment::new(entry.name, entry.about);
        let ended = (entry.run)(environment, plan, &mut experiment);
        if let Err(error) = &ended {
            experiment.incomplete = error.to_string();
        }
        experiment.keep_numbers();
        report.experiments.push(experiment);
        watch.iter_mut().for_each(busy::Watch::look);
        if let Err(error) = ended
            && error.ends_session()
        {
            skip(&entries[at + 1..], report);
            return Err(error);
        }
    }
    Ok(())
}

/// Adds experiments to the report that did not run.
pub fn skip(entries: &[&ExperimentKind], report: &mut Report) {
    for entry in entries {
        let mut experiment = Experiment::new(entry.name, entry.about);
        experiment.incomplete = "not run: the benchmark had ended".to_owned();
        report.experiments.push(experiment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_chosen_by_link_and_name_or_refused_with_what_there_is() {
        let names = |only: &[&str], link: &str| {
            let link = Link::parse(link).expect("a link");
            let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
            let chosen = choose(&only, &link)?;
            Ok::<_, Error>(chosen.iter().map(|entry| entry.name).collect::<Vec<_>>())
        };
        let udp = names(&[], "udp://127.0.0.1").expect("some");
        assert!(udp.contains(&"pingpong") && udp.contains(&"load"), "{udp:?}");
        assert!(!names(&[], "tcp://127.0.0.1").expect("some").contains(&"load"));
        assert_eq!(names(&["cold"], "shm://").expect("one"), ["cold"]);
        let error = names(&["pinpong"], "shm://").expect_err("none").to_string();
        assert!(error.contains("pingpong"), "{error}");
        let error = names(&["load"], "tcp://127.0.0.1").expect_err("none").to_string();
        assert!(error.contains("load is not possible on tcp://"), "{error}");
    }

    #[test]
    fn no_two_experiments_trials_or_services_have_one_name() {
        let names: Vec<&str> = registry::experiments().map(|entry| entry.name).collect();
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }
}
