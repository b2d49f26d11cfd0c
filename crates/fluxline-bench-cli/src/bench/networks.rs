//! `fluxline bench --compare` of links, stored reports and published curves: one page for all.

use std::path::{Path, PathBuf};

use fluxline_bench::networks::{self, Network};
use fluxline_bench::real::Link;
use fluxline_bench::result::Report;

use super::measure;
use crate::bench_arguments::{BenchArguments, BenchLink};
use crate::failure::Failure;
use crate::output::print_json;
use crate::{files, say};

/// A network to be shown.
enum Source {
    /// A link, which is measured now.
    Link(BenchLink),
    /// The network of a stored report.
    Stored(Network),
}

/// Returns true if the sources are two stored reports, whose differences are asked for.
pub fn are_two_reports(arguments: &BenchArguments, sources: &[PathBuf]) -> bool {
    let is_file = |source: &PathBuf| !is_url(source);
    arguments.curves.is_empty()
        && arguments.output.is_none()
        && sources.len() == 2
        && sources.iter().all(is_file)
}

/// Measures the links, reads the rest, and shows all on one page.
pub fn compare(sources: &[PathBuf], arguments: &BenchArguments, json: bool) -> Result<(), Failure> {
    // All is read before anything is measured: a wrong word costs no minute.
    let sources = sources.iter().map(|source| parse(source)).collect::<Result<Vec<_>, _>>()?;
    let curves = arguments.curves.iter().map(|curve| read_curves(curve));
    let curves = curves.collect::<Result<Vec<Vec<Network>>, Failure>>()?;
    let mut networks = Vec::new();
    for source in sources {
        networks.push(match source {
            Source::Link(link) => measured(&link, arguments, json)?,
            Source::Stored(network) => network,
        });
    }
    networks.extend(curves.into_iter().flatten());
    let page = networks::page(&networks);
    if let Some(file) = &arguments.output {
        files::write(file, page.html().as_bytes())?;
    }
    if let Some(folder) = &arguments.report {
        files::folder(folder)?;
        files::write(&folder.join("compare.html"), page.html().as_bytes())?;
        let document = format!("{:#}\n", networks::document(&networks));
        files::write(&folder.join("compare.json"), document.as_bytes())?;
    }
    if json {
        print_json(&networks::document(&networks));
    } else {
        networks::table(&networks).text().lines().for_each(|line| say!("{line}"));
    }
    Ok(())
}

fn is_url(source: &Path) -> bool {
    let text = source.to_string_lossy();
    text.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_lowercase())
    })
}

fn parse(source: &Path) -> Result<Source, Failure> {
    if !is_url(source) {
        return stored(source).map(Source::Stored);
    }
    let text = source.to_string_lossy();
    let url = if text == "shm:" { "shm://" } else { &*text };
    let link = Link::parse(url).map_err(|error| Failure::input(format_args!("{url}: {error}.")))?;
    Ok(Source::Link(BenchLink { url: url.to_owned(), link }))
}

fn measured(link: &BenchLink, arguments: &BenchArguments, quiet: bool) -> Result<Network, Failure> {
    let named = |failure: Failure| {
        let message = format!("{}: {}", link.url, failure.message);
        Failure { message, ..failure }
    };
    let report =
        measure::report(link, arguments, &["pingpong".to_owned()], quiet).map_err(named)?;
    network(&report, &link.url)
}

fn stored(path: &Path) -> Result<Network, Failure> {
    let report = Report::read(path).map_err(|error| Failure::input(format_args!("{error}.")))?;
    network(&report, &path.display().to_string())
}

fn network(report: &Report, name: &str) -> Result<Network, Failure> {
    Network::of_report(report).ok_or_else(|| {
        Failure::input(format_args!(
            "{name} has no times of the experiment pingpong; measure with --only pingpong."
        ))
    })
}

/// Reads `FILE` or `FILE:NAME,NAME`.
fn read_curves(given: &str) -> Result<Vec<Network>, Failure> {
    let whole = (given, Vec::new());
    let (file, names) = match given.rsplit_once(':') {
        Some((file, names)) if !Path::new(given).exists() => {
            (file, names.split(',').map(str::trim).collect())
        }
        _ => whole,
    };
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::input(format_args!("{file} cannot be read: {error}.")))?;
    networks::read_curves(file, &text, &names)
        .map_err(|error| Failure::input(format_args!("{error}.")))
}
