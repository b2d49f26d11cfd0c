//! The results of experiments as plain data: the document for programs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::statistics::median;

/// The version of the document's layout. A reader takes this one and [`SCHEMA_OLDEST`].
pub const SCHEMA: u32 = 2;
/// The oldest version that is still read.
pub const SCHEMA_OLDEST: u32 = 1;

/// A whole run of `fluxline bench`, as `report.json` holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of the layout, [`SCHEMA`].
    pub schema: u32,
    /// The link's URL.
    pub link: String,
    /// The command line.
    pub command: Vec<String>,
    /// The program's version and commit.
    pub program: String,
    /// The start \[s since 1970\].
    pub began_s: u64,
    /// The seed of everything random.
    pub seed: u64,
    /// Machine, processor, kernel, governor, clock, interfaces, sysctls: both sides.
    pub environment: Value,
    /// The experiments, in order.
    pub experiments: Vec<Experiment>,
}

/// The reason why a report cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// Its path.
        path: String,
        /// The host's error.
        source: std::io::Error,
    },
    /// The file is not a report.
    #[error("{path} is not a report of `fluxline bench` ({why}); give a report.json")]
    Shape {
        /// Its path.
        path: String,
        /// The parser's error.
        why: String,
    },
    /// The report is of another release.
    #[error(
        "{path} has version {found} of the report; this program reads {SCHEMA_OLDEST} to {SCHEMA}; measure again"
    )]
    Schema {
        /// Its path.
        path: String,
        /// Its version.
        found: u64,
    },
}

/// A reason why bytes are not a report.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// Not JSON, or of another shape.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Of another release.
    #[error("version {found} of the report")]
    Schema {
        /// The version found.
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
            Some(found) if !(u64::from(SCHEMA_OLDEST)..=u64::from(SCHEMA)).contains(&found) => {
                Err(ParseError::Schema { found })
            }
            _ => Ok(serde_json::from_value(document)?),
        }
    }

    /// Returns true if nothing was measured.
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
    /// At most two sentences: the quantity and the method.
    pub about: String,
    /// Details of the method, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The curves.
    pub series: Vec<Series>,
    /// The single numbers.
    pub facts: Vec<Fact>,
    /// The limit of the result, one line for each quantity; empty: not known.
    pub limit: String,
    /// The reason why it ended early; empty: it did not.
    pub incomplete: String,
}

impl Experiment {
    /// Makes an empty experiment.
    #[must_use]
    pub fn new(name: &str, about: &str) -> Experiment {
        Experiment {
            name: name.to_owned(),
            about: about.to_owned(),
            notes: Vec::new(),
            series: Vec::new(),
            facts: Vec::new(),
            limit: String::new(),
            incomplete: String::new(),
        }
    }

    /// Removes samples that are not finite: JSON cannot hold them.
    pub fn keep_numbers(&mut self) {
        for series in &mut self.series {
            for point in &mut series.points {
                point.samples.retain(|sample| sample.is_finite());
            }
            series.points.retain(|point| point.x.is_finite() && !point.samples.is_empty());
        }
        self.series.retain(|series| !series.points.is_empty());
        for fact in &mut self.facts {
            fact.samples.retain(|sample| sample.is_finite());
            if let Some(beside) = &mut fact.beside {
                beside.samples.retain(|sample| sample.is_finite());
            }
            fact.beside = fact.beside.take().filter(|beside| !beside.samples.is_empty());
        }
        self.facts.retain(|fact| !fact.samples.is_empty());
    }

    /// Returns true if nothing was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.series.iter().all(|series| series.points.is_empty())
    }
}

/// A curve: samples against one quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The name: `half round trip`.
    pub label: String,
    /// The quantity on the horizontal axis: `message`.
    pub x_label: String,
    /// Its unit: `B`.
    pub x_unit: String,
    /// The quantity on the vertical axis: `latency`.
    pub y_label: String,
    /// `us`, `Gb/s`.
    pub y_unit: String,
    /// The points, x ascending.
    pub points: Vec<Point>,
}

/// The name and the unit of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis<'a> {
    /// The quantity.
    pub label: &'a str,
    /// Its unit; empty: a plain number.
    pub unit: &'a str,
}

/// Makes an axis.
#[must_use]
pub const fn axis<'a>(label: &'a str, unit: &'a str) -> Axis<'a> {
    Axis { label, unit }
}

impl Series {
    /// Makes a curve.
    #[must_use]
    pub fn new(label: &str, x: Axis<'_>, y: Axis<'_>, points: Vec<Point>) -> Series {
        Series {
            label: label.to_owned(),
            x_label: x.label.to_owned(),
            x_unit: x.unit.to_owned(),
            y_label: y.label.to_owned(),
            y_unit: y.unit.to_owned(),
            points,
        }
    }
}

/// The samples at one x: every repetition, not only the median.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The position on the horizontal axis.
    pub x: f64,
    /// One number for each repetition.
    pub samples: Vec<f64>,
}

/// A single number with its repetitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// The quantity, for people.
    pub label: String,
    /// Its unit.
    pub unit: String,
    /// One number for each repetition.
    pub samples: Vec<f64>,
    /// A floor or a peer from the same run.
    pub beside: Option<Beside>,
}

/// A floor or a peer that a fact is compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "BesideDocument")]
pub struct Beside {
    /// Its name.
    pub label: String,
    /// One number for each repetition of the fact, or one for all.
    pub samples: Vec<f64>,
}

/// The layouts of [`Beside`]; version 1 of the document has a pair.
#[derive(Deserialize)]
#[serde(untagged)]
enum BesideDocument {
    Second { label: String, samples: Vec<f64> },
    First(String, f64),
}

impl From<BesideDocument> for Beside {
    fn from(document: BesideDocument) -> Beside {
        match document {
            BesideDocument::Second { label, samples } => Beside { label, samples },
            BesideDocument::First(label, value) => Beside { label, samples: vec![value] },
        }
    }
}

impl Beside {
    /// Returns `None` without a sample.
    #[must_use]
    pub fn of(label: &str, samples: Vec<f64>) -> Option<Beside> {
        (!samples.is_empty()).then(|| Beside { label: label.to_owned(), samples })
    }

    /// Returns the median.
    #[must_use]
    pub fn value(&self) -> f64 {
        median(&self.samples).unwrap_or(f64::NAN)
    }
}

impl Fact {
    /// Makes a fact with nothing beside it.
    #[must_use]
    pub fn new(label: impl Into<String>, unit: &str, samples: Vec<f64>) -> Fact {
        Fact { label: label.into(), unit: unit.to_owned(), samples, beside: None }
    }

    /// Puts a floor or a peer beside it, if there is one.
    #[must_use]
    pub fn beside(self, label: &str, value: Option<f64>) -> Fact {
        Fact { beside: value.and_then(|value| Beside::of(label, vec![value])), ..self }
    }

    /// Returns the ratio to its floor or peer: the median of each repetition's ratio, if both have
    /// equally many samples.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let beside = self.beside.as_ref()?;
        if self.samples.len() != beside.samples.len() {
            return Some(median(&self.samples)? / beside.value());
        }
        let both = self.samples.iter().zip(&beside.samples);
        median(&both.map(|(value, floor)| value / floor).collect::<Vec<f64>>())
    }
}
