//! Plots over the whole run: `[[plot]]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Experiment;
use super::problem::Problem;
use crate::filter::{EventExpression, FilterInput, PacketExpressions};

/// Most plots of an experiment.
pub const PLOTS_MAX: usize = 100;
/// Most bins of all plots together, so that plots.json stays below 64 MiB, the most that is read
/// back: a bin of a profile with a reference has 130 bytes of text at most.
pub const BINS_MAX: u64 = 500_000;
/// The greatest limit of a range: sums of squares of such values are finite.
pub const VALUE_MAX: f64 = 1e140;

/// A plot that is filled over the whole run.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plot {
    /// Its name.
    pub name: String,
    /// Its kind, which decides on the other keys.
    pub kind: PlotKind,
    /// The number on its first axis, for each packet or sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// The number on its second axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<String>,
    /// A condition on each packet or sample.
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
    /// A condition on each event, as of `[filter] keep`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<String>,
    /// Number of bins of `x`, or most bins of time.
    #[serde(default = "bins")]
    pub bins: u32,
    /// The start of the first bin of `x`, and the end of the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// Number of bins of `y`.
    #[serde(default = "bins")]
    pub y_bins: u32,
    /// The start of the first bin of `y`, and the end of the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y_range: Option<[f64; 2]>,
    /// The bins of `x` have equal ratios, not widths.
    #[serde(default)]
    pub log: bool,
    /// The folder of an earlier run, whose plot of this name is shown too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<PathBuf>,
}

fn bins() -> u32 {
    100
}

/// The kind of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlotKind {
    /// Counts by `x`.
    Histogram,
    /// The mean of `y` by `x`.
    Profile,
    /// Counts by `x` and `y`.
    Image,
    /// Mean, least and greatest `x` by time.
    Trace,
    /// Counts by time.
    Rate,
}

impl PlotKind {
    /// Returns its word, with the article.
    fn words(self) -> &'static str {
        match self {
            PlotKind::Histogram => "a histogram",
            PlotKind::Profile => "a profile",
            PlotKind::Image => "an image",
            PlotKind::Trace => "a trace",
            PlotKind::Rate => "a rate",
        }
    }

    /// Returns true for plots by time, whose range follows the run.
    #[must_use]
    pub fn is_of_time(self) -> bool {
        matches!(self, PlotKind::Trace | PlotKind::Rate)
    }
}

/// The compiled expressions of a plot.
#[derive(Clone, Debug)]
pub struct PlotExpressions {
    /// `x`, `y` and `where`.
    pub packets: PacketExpressions,
    /// `events`.
    pub events: Option<EventExpression>,
}

impl Plot {
    /// Returns its number of bins.
    #[must_use]
    pub fn bins_in_all(&self) -> u64 {
        let rows = if self.kind == PlotKind::Image { self.y_bins } else { 1 };
        u64::from(self.bins) * u64::from(rows)
    }

    /// Compiles its expressions over the packets of these inputs.
    ///
    /// # Errors
    /// The key and one sentence.
    pub fn compile(&self, inputs: &[FilterInput<'_>]) -> Result<PlotExpressions, Problem> {
        let wrong = |key: &str, error: &str| {
            let error = error.trim_end_matches('.');
            Problem::at(key, format!("plot `{}`: `{key}`, {error}.", self.name))
        };
        let numbers: Vec<&str> = self.x.iter().chain(&self.y).map(String::as_str).collect();
        let keys = ["x", "y"].into_iter().take(numbers.len()).chain(["where"]);
        let packets = PacketExpressions::compile(&numbers, self.cut.as_deref(), inputs);
        let packets = packets.map_err(|error| {
            wrong(keys.into_iter().nth(error.number).unwrap_or("x"), &error.sentence)
        })?;
        let events = self.events.as_deref().map(|text| EventExpression::compile(text, inputs));
        let events = events.transpose().map_err(|error| wrong("events", &error))?;
        Ok(PlotExpressions { packets, events })
    }

    /// Checks its keys, without its expressions.
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.name.trim().is_empty() || self.name.len() > 100 {
            return Err(Problem::at("name", "a plot's `name` has 1 to 100 bytes."));
        }
        self.check_keys()?;
        let is_image = self.kind == PlotKind::Image;
        self.check_bins("bins", self.bins)?;
        if is_image {
            self.check_bins("y-bins", self.y_bins)?;
        }
        if let Some(range) = self.range {
            self.check_range("range", range, self.bins, self.log)?;
        }
        if let Some(range) = self.y_range {
            self.check_range("y-range", range, self.y_bins, false)?;
        }
        Ok(())
    }

    /// Checks that it has the keys that its kind needs, and no others.
    fn check_keys(&self) -> Result<(), Problem> {
        use PlotKind::{Histogram, Image, Profile};
        let kind = self.kind;
        let is_curve = matches!(kind, Histogram | Profile);
        let keys = [
            ("x", self.x.is_some(), kind != PlotKind::Rate, "x = \"amplitude\""),
            ("y", self.y.is_some(), matches!(kind, Profile | Image), "y = \"amplitude\""),
            ("range", self.range.is_some(), is_curve || kind == Image, "range = [0, 4096]"),
            ("y-range", self.y_range.is_some(), kind == Image, "y-range = [0, 4096]"),
        ];
        for (key, is_there, is_wanted, example) in keys {
            let text = match (is_there, is_wanted) {
                (false, true) => format!("has no `{key}`; write for example {example}."),
                (true, false) => format!("which has no `{key}`; remove it."),
                _ => continue,
            };
            let path = if is_there { key } else { "" };
            let between = if is_there { "," } else { " and" };
            let text = format!("plot `{}` is {}{between} {text}", self.name, kind.words());
            return Err(Problem::at(path, text));
        }
        let only = [
            ("log", self.log, is_curve),
            ("reference", self.reference.is_some(), is_curve),
            ("y-bins", self.y_bins != bins(), matches!(kind, Image)),
        ];
        for (key, is_there, is_possible) in only {
            if is_there && !is_possible {
                let kind = kind.words();
                let text =
                    format!("plot `{}` is {kind}, which has no `{key}`; remove it.", self.name);
                return Err(Problem::at(key, text));
            }
        }
        Ok(())
    }

    fn check_bins(&self, key: &str, bins: u32) -> Result<(), Problem> {
        let least = if self.kind.is_of_time() { 2 } else { 1 };
        match bins >= least && u64::from(bins) <= BINS_MAX {
            true => Ok(()),
            false => {
                let name = &self.name;
                let text = format!("plot `{name}`: `{key} = {bins}`; write {least} to {BINS_MAX}.");
                Err(Problem::at(key, text))
            }
        }
    }

    fn check_range(
        &self,
        key: &str,
        [low, high]: [f64; 2],
        bins: u32,
        log: bool,
    ) -> Result<(), Problem> {
        let limit = VALUE_MAX;
        let bins = f64::from(bins);
        let remedy = if !(-limit..=limit).contains(&low) || !(-limit..=limit).contains(&high) {
            "write numbers from -1e140 to 1e140"
        } else if low >= high {
            "write the lower limit first"
        } else if log && low <= 0.0 {
            "bins of equal ratios (`log`) need a range above 0"
        } else if log && (high / low).ln() / bins < 1e-12
            || !log && (high - low) / bins < 1e-12 * low.abs().max(high.abs())
        {
            "the bins are too narrow for 64-bit numbers; write fewer bins or a wider range"
        } else {
            return Ok(());
        };
        let text = format!("plot `{}`: `{key} = [{low:?}, {high:?}]`; {remedy}.", self.name);
        Err(Problem::at(key, text))
    }
}

impl Experiment {
    /// Checks the plots, without their expressions.
    pub(super) fn check_plots(&self) -> Result<(), Problem> {
        check_plots(&self.plots)
    }
}

/// Checks plots, without their expressions; the path of a mistake begins at `plot`.
///
/// # Errors
/// The key and one sentence.
pub fn check_plots(plots: &[Plot]) -> Result<(), Problem> {
    if plots.len() > PLOTS_MAX {
        let text = format!("there are {} plots; write at most {PLOTS_MAX}.", plots.len());
        return Err(Problem::at("plot", text));
    }
    for (number, plot) in plots.iter().enumerate() {
        let table = format!("plot.{number}");
        plot.check().map_err(|problem| problem.below(&table))?;
        if plots[..number].iter().any(|other| other.name == plot.name) {
            let text = format!("two plots are named `{}`; give each `name` once.", plot.name);
            return Err(Problem::at(format!("{table}.name"), text));
        }
    }
    let bins: u64 = plots.iter().map(Plot::bins_in_all).sum();
    if bins > BINS_MAX {
        let text = format!("the plots have {bins} bins in all; write at most {BINS_MAX}.");
        return Err(Problem::at("plot", text));
    }
    Ok(())
}
