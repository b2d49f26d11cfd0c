//! `fluxline sim run`: every load of a scenario, on all cores, and the results.

use std::num::NonZeroUsize;
use std::path::Path;

use fluxline_sim::core::trace::Trace;
use fluxline_sim::report::{self, Results, Stage};
use fluxline_sim::scenario::Scenario;
use serde_json::json;

use super::{dump, parquet};
use crate::failure::Failure;
use crate::sim_arguments::SimRunArguments;
use crate::{files, inform, progress, say, say_text};

/// Entries in a trace at most: some 80 MB.
const TRACE_RECORDS_MAX: u64 = 1_000_000;

/// Simulates, prints, and writes the report.
///
/// Nothing is written before all is computed: Ctrl-C may end the program at any moment.
pub fn run(arguments: &SimRunArguments, json: bool) -> Result<(), Failure> {
    let (name, scenario) = load(arguments)?;
    if let Some(folder) = &arguments.report {
        files::folder(folder)?;
    }
    if let Some(file) = &arguments.trace {
        trace(&scenario, arguments.trace_us, file)?;
    }
    let dumped = dump::write(&scenario, arguments)?;
    let threads = arguments.threads.and_then(|count| NonZeroUsize::new(count as usize));
    let results = simulate(&scenario, threads, json)?;
    let page = report::page(&name, &scenario, &results);
    let document = json!({
        "fluxline": env!("CARGO_PKG_VERSION"), "scenario": scenario, "results": results,
    });
    if let Some(folder) = &arguments.report {
        write(folder, &page.html(), &document, &results)?;
    }
    if json {
        crate::commands::print_json(&document);
        return Ok(());
    }
    say_text!("{}", page.text());
    if let Some(folder) = &arguments.report {
        say!("\nreport: {}", folder.join("report.html").display());
    }
    dumped.iter().for_each(dump::Dumped::say);
    Ok(())
}

/// Writes the trace of the first load.
fn trace(scenario: &Scenario, us: f64, file: &Path) -> Result<(), Failure> {
    if !(us > 0.0 && us <= 1e6) {
        return Err(Failure::failed("--trace-us takes microseconds above 0, up to 1000000."));
    }
    let load = scenario.run.loads.first().copied().unwrap_or(1.0);
    let mut bytes = Vec::new();
    let mut trace = Trace::new(&mut bytes, TRACE_RECORDS_MAX);
    scenario.trace(load, us, &mut trace).map_err(Failure::failed)?;
    let written = trace.finish().map_err(|error| Failure::failed(format!("a trace: {error}.")))?;
    files::write(file, &bytes)?;
    if written.skipped > 0 {
        let (records, all) = (written.records, written.records + written.skipped);
        inform!("fluxline: the trace has the first {records} of {all} entries.");
    }
    Ok(())
}

/// Loads the scenario with the overrides of the command line; returns its name, too.
fn load(arguments: &SimRunArguments) -> Result<(String, Scenario), Failure> {
    let path = &arguments.scenario;
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::input(format_args!("{name} cannot be read: {error}.")))?;
    let mut scenario = Scenario::parse(&name, &text).map_err(Failure::input)?;
    if arguments.quick {
        scenario = scenario.quick();
    }
    scenario.seed = arguments.seed.unwrap_or(scenario.seed);
    let stem = path.file_stem().map_or(name, |stem| stem.to_string_lossy().into_owned());
    Ok((stem, scenario))
}

fn simulate(
    scenario: &Scenario,
    threads: Option<NonZeroUsize>,
    quiet: bool,
) -> Result<Results, Failure> {
    let bar = progress::bar(report::stages(scenario), quiet);
    let results = report::simulate(scenario, threads, |stage| match stage {
        Stage::Points(done) => bar.set_position(done as u64),
        Stage::Saturation => bar.set_message("looking for saturation"),
    });
    bar.finish_and_clear();
    results.map_err(Failure::failed)
}

fn write(
    folder: &Path,
    html: &str,
    document: &serde_json::Value,
    results: &Results,
) -> Result<(), Failure> {
    for table in report::tables(results) {
        let bytes = parquet::bytes(table.columns)?;
        files::write(&folder.join(format!("{}.parquet", table.name)), &bytes)?;
    }
    files::write(&folder.join("results.json"), format!("{document:#}\n").as_bytes())?;
    files::write(&folder.join("report.html"), html.as_bytes())
}
