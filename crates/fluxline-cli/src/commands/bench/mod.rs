//! `fluxline bench`: measures a link, or peers beside ours, or is the other side, or compares two
//! reports.

mod compare;
mod measure;
mod peers;
mod report;
mod rings;
mod save;
mod serve;
mod simulated;

use fluxline_bench::environment::Plan;
use fluxline_bench::result::Report;
use fluxline_bench::timer::Timer;
use fluxline_bench::{registry, run};
use serde_json::{Value, json};

use crate::arguments::{BenchArguments, BenchOf};
use crate::failure::Failure;
use crate::run::Stop;
use crate::{say, version};

/// Does what the arguments ask for.
pub fn bench(arguments: &BenchArguments, json: bool) -> Result<(), Failure> {
    if arguments.send {
        return serve::send();
    }
    if arguments.list {
        match arguments.link {
            Some(BenchOf::Peers) => peers::list(json),
            _ => list(json),
        }
        return Ok(());
    }
    if let Some(paths) = &arguments.compare {
        return compare::compare(paths, arguments.report.as_deref(), json);
    }
    if let Some(address) = arguments.serve {
        return serve::serve(address, arguments, &Stop::on_signal());
    }
    match &arguments.link {
        Some(BenchOf::Link(link)) => measure::measure(link, arguments, json),
        Some(BenchOf::Peers) => peers::peers(arguments, json),
        None => Err(Failure::failed("say which link to measure, for example shm://.")),
    }
}

/// A report about nothing yet, of this program and this clock.
fn begin(link: &str, plan: &Plan, environment: Value) -> Report {
    let mut report = run::begin(link, plan, environment);
    report.program = version::PROGRAM.to_owned();
    report.environment["timer"] = json!(Timer::check());
    report
}

/// What `--list` shows of an experiment: name, about, links, by default or not.
type Listed = (&'static str, &'static str, String, bool);

fn list(json: bool) {
    let rings: Listed = (rings::NAME, rings::ABOUT, "shm://".to_owned(), true);
    let of = |entry: &fluxline_bench::kind::ExperimentKind| {
        (entry.name, entry.about, entry.links.text(), entry.by_default)
    };
    let all: Vec<Listed> = std::iter::once(rings).chain(registry::experiments().map(of)).collect();
    if json {
        let document: Vec<Value> = all
            .iter()
            .map(|(name, about, links, by_default)| {
                json!({
                    "name": name, "about": about, "links": links, "by_default": by_default,
                })
            })
            .collect();
        super::print_json(&document.into());
        return;
    }
    for (name, about, links, by_default) in all {
        let asked = if by_default { "" } else { ", when asked for" };
        say!("{name} ({links}{asked})\n    {about}");
    }
}
