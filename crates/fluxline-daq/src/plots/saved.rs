//! plots.json of a run folder, read back: for `inspect`, pages and references.

use std::path::Path;

use serde_json::Value;

use super::filled::{Bins, Filled};
use super::reference::Reference;
use crate::experiment::PlotKind;
use crate::record::{Directory, FolderError};

/// The file of the plots of a run.
pub const PLOTS_FILE: &str = "plots.json";

/// Most bins that a page gets; those of further plots are left out of an answer.
pub const SHOWN_BINS_MAX: usize = 200_000;

/// plots.json of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedPlots {
    document: Value,
}

impl SavedPlots {
    /// Reads the plots of a run; `None`: it has none.
    ///
    /// # Errors
    /// The file cannot be read, or is not JSON: damaged by another program, since it is replaced
    /// as a whole.
    pub fn read(folder: &Directory) -> Result<Option<SavedPlots>, String> {
        let bytes = match folder.read(Path::new(PLOTS_FILE)) {
            Ok(bytes) => bytes,
            Err(FolderError::Missing(_)) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let path = folder.path().join(PLOTS_FILE);
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let document: Value = serde_json::from_slice(&bytes).map_err(|error| wrong(&error))?;
        match document["plots"].is_array() {
            true => Ok(Some(SavedPlots { document })),
            false => Err(wrong(&"it has no list `plots`")),
        }
    }

    /// Returns the document, without the bins of those plots that would make too many for a page.
    #[must_use]
    pub fn shown(mut self) -> Value {
        let mut bins = 0;
        for plot in self.document["plots"].as_array_mut().into_iter().flatten() {
            bins += plot["data"]["counts"].as_array().map_or(0, Vec::len);
            if bins > SHOWN_BINS_MAX && plot.is_object() {
                plot["data"] = Value::Null;
            }
        }
        self.document
    }

    /// Returns each plot without its bins: its counts, mean and standard deviation.
    #[must_use]
    pub fn summary(&self) -> Vec<Value> {
        let mut plots = self.document["plots"].as_array().cloned().unwrap_or_default();
        for plot in plots.iter_mut().filter_map(Value::as_object_mut) {
            plot.remove("data");
        }
        plots
    }

    /// Returns one line for each plot: its name, kind, entries, mean and standard deviation, and
    /// what is missing.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let plots = self.document["plots"].as_array().map_or(&[][..], Vec::as_slice);
        let mut lines: Vec<String> = plots.iter().map(line).collect();
        if self.document["ended"] != true && !lines.is_empty() {
            lines.push("the plots are those of a moment before the end of the run".into());
        }
        lines
    }

    /// Returns the reference of a plot with the same name and bins.
    ///
    /// # Errors
    /// The plots differ in axes, bins or kind: a sentence.
    pub fn reference(&self, plot: &Filled, run: &str) -> Result<Reference, String> {
        let wanted = plot.plot();
        let plots = self.document["plots"].as_array().map_or(&[][..], Vec::as_slice);
        let of_name = |one: &&Value| one["name"] == wanted.name.as_str();
        let found = plots.iter().find(of_name).ok_or("it has no plot of this name")?;
        let kind = serde_json::from_value::<PlotKind>(found["kind"].clone()).ok();
        if kind != Some(wanted.kind) {
            return Err("its plot of this name is of another kind".into());
        }
        let axis = match &plot.content().bins {
            Bins::Histogram { axis, .. } | Bins::Profile { axis, .. } => axis,
            _ => return Err("plots of this kind have no reference".into()),
        };
        let data = &found["data"];
        let edges: Vec<f64> = serde_json::from_value(data["edges"].clone()).unwrap_or_default();
        if !are_same(&edges, axis.edges()) {
            return Err("its plot of this name has other bins".into());
        }
        let damaged = |_| "its plot of this name is damaged".to_owned();
        let mut reference = data.clone();
        reference["run"] = run.into();
        let reference: Reference = serde_json::from_value(reference).map_err(damaged)?;
        let has_sums = reference.sums.as_ref().is_none_or(|sums| sums.len() == axis.bins());
        match reference.counts.len() == axis.bins() && has_sums {
            true => Ok(reference),
            false => Err("its plot of this name is damaged".into()),
        }
    }
}

/// Returns true when no edge is apart by more than a millionth of a bin: numbers that were written
/// and read may differ in the last digit.
fn are_same(edges: &[f64], wanted: &[f64]) -> bool {
    let width = |at: usize| match at {
        0 => wanted[1] - wanted[0],
        _ => wanted[at] - wanted[at - 1],
    };
    let is_near = |at: usize| (edges[at] - wanted[at]).abs() <= 1e-6 * width(at);
    edges.len() == wanted.len() && (0..wanted.len()).all(is_near)
}

/// Returns the line of a plot.
fn line(plot: &Value) -> String {
    let (packets, values) = (&plot["packets"], &plot["values"]);
    let count = |of: &Value, key: &str| of[key].as_u64().unwrap_or(0);
    let mut words = format!(
        "{} ({}): {} entries",
        plot["name"].as_str().unwrap_or_default(),
        plot["kind"].as_str().unwrap_or_default(),
        count(values, "entries")
    );
    if let (Some(mean), Some(sd)) = (plot["mean"].as_f64(), plot["sd"].as_f64()) {
        words += &format!(", mean {}, sd {}", number(mean), number(sd));
    }
    for (key, text) in [
        ("underflow", "below the range"),
        ("overflow", "above it"),
        ("not_a_number", "without a number"),
    ] {
        if count(values, key) > 0 {
            words += &format!(", {} {text}", count(values, key));
        }
    }
    let (seen, skipped) = (count(packets, "seen"), count(packets, "skipped"));
    if skipped > 0 {
        words += &format!("; filled from {}", share(seen - skipped.min(seen), seen));
    }
    words
}

/// Returns a share of the packets in words; never 100 % where one is missing.
fn share(part: u64, all: u64) -> String {
    let percent = (part as f64 / all as f64 * 100.0).min(99.9);
    format!("{percent:.1} % of the packets")
}

/// Returns a number with six significant digits.
fn number(value: f64) -> String {
    let magnitude = value.abs();
    match magnitude == 0.0 || (1e-3..1e7).contains(&magnitude) {
        true => {
            let digits = if magnitude > 0.0 { magnitude.log10().floor() as i32 + 1 } else { 1 };
            format!("{value:.*}", (6 - digits).max(0) as usize)
        }
        false => format!("{value:.5e}"),
    }
}
