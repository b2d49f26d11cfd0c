//! `fluxline bench`: measures a link, serves as the far side, or compares reports and networks.

mod compare;
mod measure;
mod networks;
mod report;
mod save;
mod serve;
mod session;
mod simulated;

use fluxline_bench::registry;
use serde_json::{Value, json};

use crate::bench_arguments::BenchArguments;
use crate::failure::Failure;
use crate::say;
use fluxline_run::Stop;

/// Runs a command of `fluxline bench`.
pub fn bench(arguments: &BenchArguments, json: bool) -> Result<(), Failure> {
    if arguments.list {
        list(json);
        return Ok(());
    }
    if let Some(paths) = &arguments.compare {
        if !networks::are_two_reports(arguments, paths) {
            return networks::compare(paths, arguments, json);
        }
        return compare::compare(paths, arguments.report.as_deref(), json);
    }
    if let Some(address) = arguments.serve {
        return serve::serve(address, arguments, &Stop::on_signal(crate::output::ended_at_once));
    }
    match &arguments.link {
        Some(link) => measure::measure(link, arguments, json),
        None => Err(Failure::failed("say which link to measure, for example shm://.")),
    }
}

fn list(json: bool) {
    if json {
        let document = registry::experiments().map(|kind| {
            json!({
                "name": kind.name, "about": kind.about, "links": kind.links.text(),
                "by_default": kind.by_default,
            })
        });
        crate::output::print_json(&document.collect::<Vec<Value>>().into());
        return;
    }
    for kind in registry::experiments() {
        let asked = if kind.by_default { "" } else { ", only by name" };
        say!("{} ({}{asked})\n    {}", kind.name, kind.links.text(), kind.about);
    }
}
