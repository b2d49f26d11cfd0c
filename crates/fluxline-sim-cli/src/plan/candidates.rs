//! `candidates.toml`: the links that a plan compares, and the hosts of their nodes.

use std::path::{Path, PathBuf};

use fluxline_toml::{LoadError, Places, TomlText};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;

/// Most candidates of a file, and most counts in a list.
const CANDIDATES_MAX: usize = 64;
const COUNTS_MAX: usize = 8;

/// A file of candidates.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "candidate")]
    candidates: Vec<Candidate>,
}

/// A link, and the nodes on it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Candidate {
    /// Its name in the answer.
    pub name: String,
    /// `sim:NETWORK?KEYS`, or the path of a report of `fluxline bench`, relative to the file.
    pub link: String,
    /// The rate of payload into or out of a node \[MB/s\].
    pub link_mb_s: Option<f64>,
    /// The source of that number.
    pub link_source: Option<String>,
    /// Numbers of readouts to try.
    #[serde(default = "one")]
    pub readouts: Vec<u32>,
    /// Numbers of builders to try.
    #[serde(default = "one")]
    pub builders: Vec<u32>,
    /// The host of every node.
    #[serde(default)]
    pub host: Host,
    /// A price, which the answer repeats.
    pub price: Option<f64>,
}

/// The costs of a host; those left out have no bound.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Host {
    /// Time of a core for a packet \[ns\].
    pub packet_ns: f64,
    /// Time of a core for a byte \[ns\].
    pub byte_ns: f64,
    /// Rate of the memory bus \[MB/s\].
    pub memory_mb_s: Option<f64>,
    /// Number of times that a byte crosses the memory bus.
    pub memory_passes: Option<f64>,
    /// Rate of the disk of each builder \[MB/s\].
    pub disk_mb_s: Option<f64>,
    /// The source of these numbers.
    pub source: Option<String>,
}

fn one() -> Vec<u32> {
    vec![1]
}

impl Candidate {
    /// Returns true when its link can be simulated.
    pub fn is_simulated(&self) -> bool {
        self.link.starts_with("sim:")
    }

    /// Returns the mistake of a candidate: its key, and a sentence.
    fn mistake(&self) -> Option<(&'static str, String)> {
        let Candidate { name, host, .. } = self;
        let positive = [
            ("link-mb-s", self.link_mb_s),
            ("host.memory-mb-s", host.memory_mb_s),
            ("host.memory-passes", host.memory_passes),
            ("host.disk-mb-s", host.disk_mb_s),
            ("price", self.price.map(|price| price + f64::MIN_POSITIVE)),
        ];
        let is_wrong = |of: &&(&str, Option<f64>)| of.1.is_some_and(|v| !(v > 0.0 && v < 1e15));
        if let Some((key, Some(value))) = positive.iter().find(is_wrong) {
            return Some((
                key,
                format!("candidate `{name}`: {key} = {value}; write a number above 0."),
            ));
        }
        let costs = [("host.packet-ns", host.packet_ns), ("host.byte-ns", host.byte_ns)];
        if let Some((key, value)) = costs.iter().find(|of| !(0.0..=1e9).contains(&of.1)) {
            return Some((key, format!("candidate `{name}`: {key} = {value}; write 0 to 1e9.")));
        }
        for (key, counts) in [("readouts", &self.readouts), ("builders", &self.builders)] {
            let fits = |count: &u32| (1..=1024).contains(count);
            if counts.is_empty() || counts.len() > COUNTS_MAX || !counts.iter().all(fits) {
                let text = format!(
                    "candidate `{name}`: {key} takes 1 to {COUNTS_MAX} numbers from 1 to 1024, \
                     such as [1, 2, 4]."
                );
                return Some((key, text));
            }
        }
        if self.link_mb_s.is_some() && self.link_source.is_none() {
            let text =
                format!("candidate `{name}`: link-mb-s needs its source; write link-source.");
            return Some(("link-mb-s", text));
        }
        let has_costs = host.packet_ns > 0.0
            || host.byte_ns > 0.0
            || host.memory_mb_s.is_some()
            || host.disk_mb_s.is_some();
        if has_costs && host.source.is_none() {
            let text = format!("candidate `{name}`: the numbers of a host need their source.");
            return Some(("host", text));
        }
        None
    }
}

/// Reads a file of candidates; a mistake names file, line and what to write.
pub fn load(path: &Path) -> Result<Vec<Candidate>, Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::input(format_args!("{name} cannot be read: {error}.")))?;
    let source = TomlText { file: &name, text: &text };
    let file: File = toml::from_str(&text).map_err(|error| said(&source.toml_error(&error)))?;
    let mut candidates = file.candidates;
    let at = |number: usize, key: &str, text: String| {
        let place = Places::of(source.text).value(&format!("candidate.{number}.{key}"));
        Err(said(&source.error(place, text)))
    };
    if candidates.is_empty() || candidates.len() > CANDIDATES_MAX {
        return at(0, "name", format!("write 1 to {CANDIDATES_MAX} [[candidate]] tables."));
    }
    for (number, of) in candidates.iter().enumerate() {
        if let Some((key, text)) = of.mistake() {
            return at(number, key, text);
        }
        if candidates[..number].iter().any(|other| other.name == of.name) {
            return at(number, "name", format!("two candidates are named `{}`.", of.name));
        }
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    for of in candidates.iter_mut().filter(|of| !of.is_simulated()) {
        let report = folder.join(&of.link);
        if of.link_mb_s.is_none() {
            of.link_mb_s = Some(measured(&report)?);
            of.link_source = Some(format!("the largest rate in {}", of.link));
        }
    }
    Ok(candidates)
}

fn said(error: &LoadError) -> Failure {
    let sentence = error.to_string();
    let end = if sentence.ends_with('.') { "" } else { "." };
    Failure::input(format_args!("{}\n{sentence}{end}", error.excerpt()))
}

/// Returns the largest median rate in a report of `fluxline bench` \[MB/s\].
fn measured(report: &PathBuf) -> Result<f64, Failure> {
    let name = report.display();
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::input(format_args!(
            "{name} is not a report of `fluxline bench`: {why}; a link is sim:NETWORK?KEYS, or the \
             path of a report.json."
        ))
    };
    let bytes = std::fs::read(report).map_err(|error| wrong(&error))?;
    let document: Value = serde_json::from_slice(&bytes).map_err(|error| wrong(&error))?;
    let list = |of: &Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
    let mut rates = Vec::new();
    for experiment in list(&document, "experiments") {
        for series in list(&experiment, "series").iter().filter(|of| of["y_unit"] == "Gb/s") {
            rates.extend(list(series, "points").iter().filter_map(|of| median(&of["samples"])));
        }
        let facts = list(&experiment, "facts");
        rates.extend(
            facts.iter().filter(|of| of["unit"] == "Gb/s").filter_map(|of| median(&of["samples"])),
        );
    }
    let largest = rates.into_iter().reduce(f64::max).filter(|rate| *rate > 0.0);
    largest.map(|gbps| gbps * 125.0).ok_or_else(|| wrong(&"it has no rate in Gb/s"))
}

fn median(samples: &Value) -> Option<f64> {
    let mut samples: Vec<f64> = samples.as_array()?.iter().filter_map(Value::as_f64).collect();
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied()
}
