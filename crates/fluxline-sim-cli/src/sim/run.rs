//! `fluxline sim run`: every load of a scenario, on all cores, and the results.

use std::num::NonZeroUsize;
use std::path::Path;

use fluxline_report::Page;
use fluxline_serve::StaticPage;
use fluxline_sim::core::trace::Trace;
use fluxline_sim::report::{self, Columns, Stage};
use fluxline_sim::scenario::{Refused, Scenario};
use fluxline_sim::topo;
use serde_json::json;

use super::parquet::Note;
use super::{dump, parquet};
use crate::failure::Failure;
use crate::served::{self, NamedPage};
use crate::sim_arguments::SimRunArguments;
use crate::topo::map_page;
use crate::{files, inform, progress, say, say_text};

/// Entries in a trace at most: some 80 MB.
const TRACE_RECORDS_MAX: u64 = 1_000_000;

/// The results of a run, ready to be printed and written.
struct Computed {
    page: Page,
    document: serde_json::Value,
    tables: Vec<Columns>,
    notes: Vec<Note>,
}

/// Simulates, prints, and writes the report.
///
/// Nothing is written before all is computed: Ctrl-C may end the program at any moment.
pub fn run(arguments: &SimRunArguments, json: bool) -> Result<(), Failure> {
    let Loaded { name, scenario } = load(arguments)?;
    if let Some(folder) = &arguments.report {
        files::folder(folder)?;
    }
    if let Some(file) = &arguments.trace {
        trace(&scenario, arguments.trace_us, file)?;
    }
    let dumped = dump::write(&scenario, arguments)?;
    let threads = arguments.threads.and_then(|count| NonZeroUsize::new(count as usize));
    let computed = match scenario.variants.is_empty() {
        true => compute(&name, &scenario, threads, json)?,
        false => compute_sweep(&name, &scenario, threads, json)?,
    };
    let text = computed.page.text();
    let pages = arguments.page.serve.map(|_| pages(&name, &scenario, &computed.page));
    if json {
        crate::output::print_json(&computed.document);
    }
    if let Some(folder) = &arguments.report {
        write(folder, computed)?;
    }
    if !json {
        say_text!("{text}");
        if let Some(folder) = &arguments.report {
            say!("\nreport: {}", folder.join("report.html").display());
        }
        dumped.iter().for_each(dump::Dumped::say);
    }
    match (arguments.page.config(), pages) {
        (Some(config), Some(pages)) => served::pages(&config, pages),
        _ => Ok(()),
    }
}

/// Returns the pages of a simulation: its report, and its map over time where there is one.
fn pages(name: &str, scenario: &Scenario, report: &Page) -> Vec<NamedPage> {
    let page = StaticPage { path: "/".to_owned(), html: report.html() };
    let mut pages = vec![NamedPage { name: "report", page }];
    match topo::survey(scenario, &topo::Options::of(scenario)) {
        Ok(survey) => pages.push(map_page("/map", &topo::page(name, &survey))),
        Err(error) => inform!("no map: {error}"),
    }
    pages
}

/// Measures a scenario without a sweep.
fn compute(
    name: &str,
    scenario: &Scenario,
    threads: Option<NonZeroUsize>,
    quiet: bool,
) -> Result<Computed, Failure> {
    let results = with_bar(scenario, quiet, |stage| report::simulate(scenario, threads, stage))?;
    let tables = report::tables(&results);
    let document = json!({
        "fluxline": env!("CARGO_PKG_VERSION"), "seed": scenario.seed,
        "fingerprint": results.fingerprint, "units": report::units(&tables),
        "scenario": scenario, "results": results,
    });
    let page = report::page(name, scenario, &results);
    Ok(Computed { page, document, tables, notes: notes(scenario, &results.fingerprint) })
}

/// Measures every value of a sweep.
fn compute_sweep(
    name: &str,
    scenario: &Scenario,
    threads: Option<NonZeroUsize>,
    quiet: bool,
) -> Result<Computed, Failure> {
    let swept = with_bar(scenario, quiet, |stage| report::sweep(scenario, threads, stage))?;
    let tables = report::sweep_tables(&swept);
    let run =
        |one: &report::Swept<'_>| json!({ "value": one.variant.value, "results": one.results });
    let runs: Vec<serde_json::Value> = swept.iter().map(run).collect();
    let prints: Vec<&str> = swept.iter().map(|one| one.results.fingerprint.as_str()).collect();
    let document = json!({
        "fluxline": env!("CARGO_PKG_VERSION"), "seed": scenario.seed, "fingerprints": prints,
        "units": report::units(&tables), "scenario": scenario,
        "sweep": { "key": scenario.sweep_key(), "runs": runs },
    });
    let page = report::sweep_page(name, scenario, &swept);
    Ok(Computed { page, document, notes: notes(scenario, &prints.join(" ")), tables })
}

/// Returns the notes that every table carries.
fn notes(scenario: &Scenario, fingerprint: &str) -> Vec<Note> {
    let scenario_json = serde_json::to_string(scenario).unwrap_or_default();
    vec![
        Note { key: "fluxline", value: env!("CARGO_PKG_VERSION").to_owned() },
        Note { key: "seed", value: scenario.seed.to_string() },
        Note { key: "fingerprint", value: fingerprint.to_owned() },
        Note { key: "scenario", value: scenario_json },
    ]
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

/// A scenario and its name.
struct Loaded {
    name: String,
    scenario: Scenario,
}

/// Loads the scenario with the overrides of the command line.
fn load(arguments: &SimRunArguments) -> Result<Loaded, Failure> {
    let path = &arguments.scenario;
    let mut scenario = Scenario::load(path).map_err(Failure::input)?;
    if arguments.quick {
        scenario = scenario.quick();
    }
    if let Some(seed) = arguments.seed {
        scenario = scenario.with_seed(seed);
    }
    let stem = path.file_stem().unwrap_or(path.as_os_str());
    Ok(Loaded { name: stem.to_string_lossy().into_owned(), scenario })
}

/// Runs a simulation with a progress bar.
fn with_bar<T>(
    scenario: &Scenario,
    quiet: bool,
    simulate: impl FnOnce(&mut (dyn FnMut(Stage) + Send)) -> Result<T, Refused>,
) -> Result<T, Failure> {
    let bar = progress::bar(report::stages(scenario), quiet);
    let results = simulate(&mut |stage| match stage {
        Stage::Points(done) => bar.set_position(done as u64),
        Stage::Saturation => bar.set_message("looking for saturation"),
    });
    bar.finish_and_clear();
    results.map_err(Failure::failed)
}

fn write(folder: &Path, computed: Computed) -> Result<(), Failure> {
    let Computed { page, document, tables, notes } = computed;
    for table in tables {
        let bytes = parquet::bytes(table.columns, &notes)?;
        files::write(&folder.join(format!("{}.parquet", table.name)), &bytes)?;
    }
    files::write(&folder.join("results.json"), format!("{document:#}\n").as_bytes())?;
    files::write(&folder.join("report.html"), page.html().as_bytes())
}
