//! What experiments produce: plain data, the machine-readable document.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the document's schema; a reader refuses others.
pub const SCHEMA: u32 = 1;

/// A whole run of `fluxline bench`: what `report.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The link's URL.
    pub link: String,
    /// The command line.
    pub command: Vec<String>,
    /// The program's version and commit.
    pub program: String,
    /// Seconds since 1970 when it began.
    pub began_s: u64,
    /// The seed of everything random.
    pub seed: u64,
    /// Machine, processor, kernel, governor, clock, interfaces, sysctls: both sides.
    pub environment: Value,
    /// What was measured, in order.
    pub experiments: Vec<Experiment>,
}

/// Why a report could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file.
    #[error("{path}: {source}")]
    File {
        /// Its path.
        path: String,
        /// What the host said.
        source: std::io::Error,
    },
    /// It is something else.
    #[error("{path} is no report of `fluxline bench` ({why}); give the report.json of one")]
    Shape {
        /// Its path.
        path: String,
        /// Why.
        why: String,
    },
    /// It is of another release.
    #[error("{path} has version {found} of the report, this program reads {SCHEMA}; measure again")]
    Schema {
        /// Its path.
        path: String,
        /// What it has.
        found: u64,
    },
}

/// Why bytes are no report.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// Not JSON, or of another shape.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Of another release.
    #[error("version {found} of the report")]
    Schema {
        /// What it has.
        found: u64,
    },
}

impl Report {
    /// Reads a report.json. Errors: [`ReadError`], a sentence each.
    pub fn read(path: &std::path::Path) -> Result<Report, ReadError> {
        let name = || path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| ReadError::File { path: name(), source })?;
        let shape =
            |error: serde_json::Error| ReadError::Shape { path: name(), why: error.to_string() };
        Report::parse(text.as_bytes()).map_err(|error| match error {
            ParseError::Json(error) => shape(error),
            ParseError::Schema { found } => ReadError::Schema { path: name(), found },
        })
    }

    /// Reads the bytes of a report.json. Errors: [`ParseError`].
    pub fn parse(bytes: &[u8]) -> Result<Report, ParseError> {
        let document: Value = serde_json::from_slice(bytes)?;
        match document["schema"].as_u64() {
            Some(found) if found != u64::from(SCHEMA) => Err(ParseError::Schema { found }),
            _ => Ok(serde_json::from_value(document)?),
        }
    }

    /// Whether anything was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.experiments.iter().all(Experiment::is_empty)
    }
}

/// One experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Its name on the command line: `pingpong`, `lossfree`.
    pub name: String,
    /// What it measures and how, a sentence or two.
    pub about: String,
    /// Curves.
    pub series: Vec<Series>,
    /// Single numbers.
    pub facts: Vec<Fact>,
    /// Numbers of several contenders, to be held against ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contests: Vec<Contest>,
    /// On which cores its senders and receivers ran, where it has such.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placements: Vec<Placement>,
    /// What limits the result; empty: not known.
    pub limit: String,
    /// Why it ended early; empty: it did not.
    pub incomplete: String,
}

impl Experiment {
    /// Nothing measured yet.
    #[must_use]
    pub fn new(name: &str, about: &str) -> Experiment {
        Experiment {
            name: name.to_owned(),
            about: about.to_owned(),
            series: Vec::new(),
            facts: Vec::new(),
            contests: Vec::new(),
            placements: Vec::new(),
            limit: String::new(),
            incomplete: String::new(),
        }
    }

    /// Drops samples that are no numbers: JSON has no word for them.
    pub fn keep_numbers(&mut self) {
        for series in &mut self.series {
            for point in &mut series.points {
                point.samples.retain(|sample| sample.is_finite());
            }
            series.points.retain(|point| point.x.is_finite() && !point.samples.is_empty());
        }
        for fact in &mut self.facts {
            fact.samples.retain(|sample| sample.is_finite());
            fact.beside = fact.beside.take().filter(|(_, value)| value.is_finite());
        }
        self.facts.retain(|fact| !fact.samples.is_empty());
        for contest in &mut self.contests {
            contest.samples.retain(|sample| sample.is_finite());
            contest.lost.retain(|sample| sample.is_finite());
        }
    }

    /// Whether anything was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.series.iter().all(|series| series.points.is_empty())
    }
}

/// A curve: samples against one quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name: `half round trip`.
    pub label: String,
    /// What the samples are taken at: `message`.
    pub x_label: String,
    /// `B`.
    pub x_unit: String,
    /// What is measured: `latency`.
    pub y_label: String,
    /// `us`, `Gb/s`.
    pub y_unit: String,
    /// The samples, x ascending.
    pub points: Vec<Point>,
}

/// All that was measured at one x: repetitions, not only their median.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// One number a repetition.
    pub samples: Vec<f64>,
}

/// A single number with its repetitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// What it is.
    pub label: String,
    /// Its unit.
    pub unit: String,
    /// One number a repetition.
    pub samples: Vec<f64>,
    /// The floor or peer that was measured in the same run, and its name.
    pub beside: Option<(String, f64)>,
}

/// Where a part of an experiment ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// `sender 1 of 2`, `receiver`.
    pub who: String,
    /// `process` or `thread`.
    pub what: String,
    /// The cores that it was allowed while it ran.
    pub cores: Vec<usize>,
}

impl Placement {
    /// Its cores: `core 3`, `cores 0, 1`.
    #[must_use]
    pub fn on(&self) -> String {
        let cores: Vec<String> = self.cores.iter().map(usize::to_string).collect();
        let plural = if cores.len() == 1 { "" } else { "s" };
        format!("core{plural} {}", cores.join(", "))
    }
}

/// What one contender measured of one cell, each round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contest {
    /// `half round trip`.
    pub quantity: String,
    /// `shm`.
    pub path: String,
    /// Size of a message, or a datagram's payload \[byte\].
    pub bytes: u64,
    /// `us`, `Gb/s`.
    pub unit: String,
    /// Who.
    pub contender: String,
    /// Whether that is Fluxline.
    pub is_ours: bool,
    /// Whether its work is equal to ours; else it is shown and not ranked.
    pub is_equal: bool,
    /// One number a round.
    pub samples: Vec<f64>,
    /// Lost of what was sent \[%\], each round; empty where nothing may be lost.
    pub lost: Vec<f64>,
    /// What in its work is not as in ours.
    pub note: String,
    /// Why it has no number in some round; empty: it has one in all.
    pub failed: String,
}

impl Contest {
    /// Whether both are of the same cell.
    #[must_use]
    pub fn is_same_cell(&self, other: &Contest) -> bool {
        (&self.quantity, &self.path, self.bytes) == (&other.quantity, &other.path, other.bytes)
    }
}
