//! `fluxline topo`: the map of a simulated network, as tables, HTML, SVG or JSON.

use std::path::Path;

use fluxline_report::Page;
use fluxline_serve::StaticPage;
use fluxline_sim::scenario::Scenario;
use fluxline_sim::topo::{self, Options, Survey};
use serde_json::json;

use crate::failure::Failure;
use crate::served::{self, NamedPage};
use crate::topo_arguments::TopoArguments;
use crate::{files, say, say_text};

/// A network and its name.
struct Loaded {
    name: String,
    scenario: Scenario,
}

/// Simulates, prints, and writes the map.
pub fn topo(arguments: &TopoArguments, json: bool) -> Result<(), Failure> {
    let Loaded { name, scenario } = load(arguments)?;
    let usual = Options::of(&scenario);
    let options = Options {
        load: arguments.load.unwrap_or(usual.load),
        us: arguments.us.unwrap_or(usual.us),
        steps: arguments.steps,
        route: arguments.route,
    };
    let survey = topo::survey(&scenario, &options).map_err(Failure::failed)?;
    let page = topo::page(&name, &survey);
    if let Some(file) = &arguments.svg {
        let svg = topo::drawing(&survey).svg(arguments.at.map(|us| interval(&survey, us)));
        files::write(file, svg.as_bytes())?;
    }
    if let Some(file) = &arguments.html {
        files::write(file, page.html().as_bytes())?;
    }
    if json {
        let version = env!("CARGO_PKG_VERSION");
        crate::output::print_json(&json!({ "fluxline": version, "name": name, "map": survey }));
    } else {
        say_text!("{}", page.text());
        for file in [&arguments.svg, &arguments.html].into_iter().flatten() {
            say!("\nmap: {}", file.display());
        }
    }
    match arguments.page.config() {
        Some(config) => served::pages(&config, vec![map_page("/", &page)]),
        None => Ok(()),
    }
}

/// Returns the map as a page of a server.
pub fn map_page(path: &str, page: &Page) -> NamedPage {
    NamedPage { name: "map", page: StaticPage { path: path.to_owned(), html: page.html() } }
}

/// Returns the index of the interval at a time.
fn interval(survey: &Survey, us: f64) -> usize {
    let before = survey.intervals.iter().take_while(|interval| interval.to_us < us);
    before.count().min(survey.intervals.len().saturating_sub(1))
}

/// Loads a scenario from a file or a URL.
fn load(arguments: &TopoArguments) -> Result<Loaded, Failure> {
    let given = &arguments.network;
    let (name, scenario) = if given.starts_with("sim:") {
        (given.clone(), Scenario::of_url(given).map_err(|error| Failure::input(sentence(&error)))?)
    } else {
        let path = Path::new(given);
        let scenario = Scenario::load(path).map_err(Failure::input)?;
        let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let has_title = !scenario.title.is_empty();
        (if has_title { scenario.title.clone() } else { stem }, scenario)
    };
    // Of a sweep, the first value.
    let scenario = match arguments.seed {
        Some(seed) => scenario.with_seed(seed),
        None => scenario,
    };
    Ok(Loaded { name, scenario })
}

fn sentence(error: &dyn std::fmt::Display) -> String {
    format!("{error}.")
}
