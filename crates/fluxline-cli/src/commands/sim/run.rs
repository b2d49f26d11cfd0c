//! `fluxline sim run`: every load of a scenario, on all cores, and what came out.

use std::num::NonZeroUsize;
use std::path::Path;

use fluxline_sim::Fingerprint;
use fluxline_sim::scenario::{Measured, Scenario};
use fluxline_sim::sweep::{Progress, WarmUp, run_all};
use fluxline_sim::trace::Trace;
use serde_json::json;

use super::arguments::SimRunArguments;
use super::point::{Latency, Point, Results, Saturation};
use super::{dump, links, report, tables};
use crate::failure::Failure;
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

/// The scenario with what the command line overrides, and its name.
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
    let loads = match scenario.traffic.window {
        0 => scenario.run.loads.clone(),
        // A closed loop has one point, whatever the loads.
        _ => vec![1.0],
    };
    let bar = progress::bar(loads.len() as u64 + u64::from(scenario.run.saturation), quiet);
    let tell = |progress: Progress| bar.set_position(progress.done as u64);
    let measured = run_all(&loads, threads, |&load| scenario.measure(load), tell);
    let mut points = Vec::new();
    let mut print = Fingerprint::default();
    for (&load, measured) in loads.iter().zip(measured) {
        let measured = measured.map_err(|problem| fault(load, &problem))?;
        print.join(measured.outcome.fingerprint);
        points.push(point(scenario, load, &measured));
    }
    let mut saturation = None;
    if scenario.run.saturation {
        bar.set_message("looking for saturation");
        let found = scenario.saturation().map_err(Failure::failed)?;
        saturation = Some(Saturation { stable: found.followed, saturated: found.not_followed });
    }
    bar.finish_and_clear();
    Ok(Results { points, saturation, fingerprint: print.to_string() })
}

fn fault(load: f64, problem: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format_args!("at load {load}: {problem}"))
}

fn point(scenario: &Scenario, load: f64, measured: &Measured) -> Point {
    let Measured { outcome, lost } = measured;
    let mega = |bytes_per_s: f64| bytes_per_s / 1e6;
    let is_closed = scenario.traffic.window > 0;
    let offered = outcome.offered_bytes_per_s;
    let latency = Latency {
        mean: outcome.latency_ns.mean / 1e3,
        half_width: Some(outcome.latency_ns.half_width / 1e3).filter(|half| half.is_finite()),
        p50: outcome.p50.as_us(),
        p99: outcome.p99.as_us(),
        p999: outcome.p99_9.as_us(),
        max: outcome.max.as_us(),
    };
    let buckets = outcome.histogram.buckets();
    Point {
        load: if is_closed { offered / scenario.link_bytes_per_s() } else { load },
        offered_mb_s: mega(offered),
        accepted_mb_s: mega(outcome.accepted_bytes_per_s),
        latency_us: Some(latency).filter(|_| outcome.messages > 0),
        messages: outcome.messages,
        lost: *lost,
        nodes_mb_s: outcome.per_node_bytes_per_s.iter().map(|&rate| mega(rate)).collect(),
        jain: outcome.fairness().jain,
        warm_up_us: outcome.warm_up.as_us(),
        measured_us: outcome.measured.as_us(),
        is_rising: outcome.warm_up_end == WarmUp::CutShort,
        links: links::grids(scenario, &outcome.links),
        histogram: buckets.map(|(largest, count)| (largest.as_us(), count)).collect(),
        entries: outcome.entries,
        hops: outcome.hops,
        fingerprint: outcome.fingerprint.to_string(),
    }
}

fn write(
    folder: &Path,
    html: &str,
    document: &serde_json::Value,
    results: &Results,
) -> Result<(), Failure> {
    for (name, bytes) in tables::all(results)? {
        files::write(&folder.join(name), &bytes)?;
    }
    files::write(&folder.join("results.json"), format!("{document:#}\n").as_bytes())?;
    files::write(&folder.join("report.html"), html.as_bytes())
}
