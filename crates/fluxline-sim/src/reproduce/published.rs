//! The files of published experiments: facts, parameters with their origins, figures, in
//! `published/*.toml`. A physicist can read and extend them.

use std::fmt;
use std::ops::RangeInclusive;

use fluxline_toml::{LoadError, Places, TomlText, nearest};
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

/// Largest deviation at which a number counts as reproduced.
pub const NUMBER: f64 = 0.10;
/// Tolerance of a shape or a bound: the model's number is within the published range.
pub const SHAPE: f64 = 0.0;

/// The file of a family of networks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The title.
    pub title: String,
    /// The papers and other documents.
    #[serde(rename = "source")]
    pub sources: Vec<Source>,
    /// Statements of the sources beyond the model.
    #[serde(rename = "gap", default)]
    pub gaps: Vec<Gap>,
    /// The facts, in the order of the page.
    #[serde(rename = "fact")]
    pub facts: Vec<Fact>,
    /// The parameters of the models.
    #[serde(rename = "parameter", default)]
    pub parameters: Vec<Chosen>,
    /// The texts of variants.
    #[serde(rename = "trial", default)]
    pub trials: Vec<Question>,
    /// The figures.
    #[serde(rename = "figure", default)]
    pub figures: Vec<Plate>,
}

/// A paper or another document.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The name that facts use.
    pub name: String,
    /// Authors, title and year.
    pub title: String,
}

/// A statement of a source that the model cannot confirm or deny.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    /// The name of the source.
    pub source: String,
    /// The statement.
    pub statement: String,
    /// The reason.
    pub reason: String,
}

/// A statement of a source, as a number.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    /// A name, unique in all files.
    pub id: String,
    /// The name of its source.
    pub source: String,
    /// The position in the source.
    pub place: String,
    /// The statement; a shape names the number that decides.
    pub statement: String,
    /// The unit; empty for a ratio.
    #[serde(default)]
    pub unit: String,
    /// The published range; a single number has two equal ends.
    #[serde(deserialize_with = "range")]
    pub published: RangeInclusive<f64>,
    /// Largest deviation from the range, as a fraction of its nearer end; 0 for a shape or a bound.
    #[serde(default = "number")]
    pub tolerance: f64,
    /// The fact that has the same measurement in another unit; this one does not count.
    #[serde(rename = "same-as")]
    pub same_as: Option<String>,
    /// The definition or calibration that it follows from, though no parameter names it: no
    /// prediction.
    pub follows: Option<String>,
    /// Its positions in figures. If the model has no number of its own for the fact, it is that of
    /// the first curve at the first position.
    #[serde(rename = "at", default)]
    pub points: Vec<At>,
}

/// A position in a figure.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct At {
    /// The figure.
    pub figure: String,
    /// The position on the horizontal axis.
    pub x: f64,
}

/// A parameter and its origin.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chosen {
    /// The machine or network.
    pub model: String,
    /// The quantity.
    pub name: String,
    /// The value, where the program does not know it.
    pub value: Option<String>,
    /// The origin.
    pub origin: Origin,
    /// The statement, table or page behind it, or the reason for an assumption.
    pub reason: String,
    /// The facts that it was chosen from or that state it: no predictions.
    #[serde(default)]
    pub facts: Vec<String>,
}

/// The origin of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The paper states it.
    Published,
    /// Another published document states it.
    Source,
    /// It was chosen so that the model agrees with facts.
    Calibrated,
    /// It is remembered and unchecked.
    Background,
    /// It has no source.
    Assumed,
}

impl Origin {
    /// All origins.
    pub const ALL: [Origin; 5] = [
        Origin::Published,
        Origin::Source,
        Origin::Calibrated,
        Origin::Background,
        Origin::Assumed,
    ];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Origin::Published => "published",
            Origin::Source => "source",
            Origin::Calibrated => "calibrated",
            Origin::Background => "background",
            Origin::Assumed => "assumed",
        }
    }

    /// Describes the origin.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Origin::Published => "the paper states it",
            Origin::Source => "another published document states it",
            Origin::Calibrated => "chosen so that the model agrees with the facts named",
            Origin::Background => "remembered, unchecked",
            Origin::Assumed => "no source",
        }
    }
}

/// Variants of a model, where the sources do not decide.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The name by which the program gives its rows.
    pub id: String,
    /// The question.
    pub title: String,
    /// The conclusion.
    pub text: String,
    /// The names of the columns.
    pub columns: Vec<String>,
}

/// A published figure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plate {
    /// A short name: `scinet-7`.
    pub id: String,
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
}

/// An axis of a figure.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The quantity.
    pub label: String,
    /// The unit of the quantity.
    pub unit: String,
    /// True if it is logarithmic.
    #[serde(default)]
    pub log: bool,
}

impl Published {
    /// Reads a file.
    ///
    /// # Errors
    /// The line, the key, and what to write.
    pub fn read(file: &str, text: &str) -> Result<Published, LoadError> {
        let source = TomlText { file, text };
        let read: Published = toml::from_str(text).map_err(|error| source.toml_error(&error))?;
        match read.mistake() {
            Some((path, message)) => Err(source.error(Places::of(text).value(&path), message)),
            None => Ok(read),
        }
    }

    /// Finds a name that the file does not define, or a range that cannot be.
    fn mistake(&self) -> Option<(String, String)> {
        let sources: Vec<&str> = self.sources.iter().map(|source| source.name.as_str()).collect();
        let figures: Vec<&str> = self.figures.iter().map(|figure| figure.id.as_str()).collect();
        for (number, gap) in self.gaps.iter().enumerate() {
            if !sources.contains(&gap.source.as_str()) {
                let path = format!("gap.{number}.source");
                return Some((path, unknown("source", &gap.source, &sources)));
            }
        }
        for (number, fact) in self.facts.iter().enumerate() {
            if !sources.contains(&fact.source.as_str()) {
                let path = format!("fact.{number}.source");
                return Some((path, unknown("source", &fact.source, &sources)));
            }
            for (at, point) in fact.points.iter().enumerate() {
                if !figures.contains(&point.figure.as_str()) {
                    let path = format!("fact.{number}.at.{at}.figure");
                    return Some((path, unknown("figure", &point.figure, &figures)));
                }
            }
            let others = self.facts.iter().filter(|other| other.same_as.is_none());
            let others: Vec<&str> = others.map(|other| other.id.as_str()).collect();
            if let Some(same) = fact.same_as.as_deref().filter(|same| !others.contains(same)) {
                let path = format!("fact.{number}.same-as");
                return Some((path, unknown("fact", same, &others)));
            }
            if self.facts[..number].iter().any(|before| before.id == fact.id) {
                let message = format!("the fact `{}` is there twice; rename one", fact.id);
                return Some((format!("fact.{number}.id"), message));
            }
            let (least, most) = (fact.published.start(), fact.published.end());
            if least.is_nan() || most.is_nan() || least > most {
                let message =
                    format!("{least} to {most} is not a range; write the least number first");
                return Some((format!("fact.{number}.published"), message));
            }
            if !(0.0..1.0).contains(&fact.tolerance) {
                let message = format!("a tolerance of {} is not a fraction", fact.tolerance);
                return Some((format!("fact.{number}.tolerance"), message));
            }
        }
        None
    }

    /// Finds the fact of a parameter that no file has, by the names of all facts.
    pub(super) fn unknown_fact(&self, file: &str, text: &str, all: &[&str]) -> Option<LoadError> {
        for (number, parameter) in self.parameters.iter().enumerate() {
            for (at, fact) in parameter.facts.iter().enumerate() {
                if !all.contains(&fact.as_str()) {
                    let span = Places::of(text).value(&format!("parameter.{number}.facts.{at}"));
                    let message = unknown("fact", fact, all);
                    return Some(TomlText { file, text }.error(span, message));
                }
            }
        }
        None
    }
}

fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("the {what} `{name}` is unknown; did you mean `{near}`?"),
        None => format!("the {what} `{name}` is unknown; write its [[{what}]]"),
    }
}

impl Fact {
    /// Returns true for a shape or a bound.
    #[must_use]
    pub fn is_shape(&self) -> bool {
        self.tolerance == SHAPE
    }

    /// Returns the value that is farthest from the published range.
    #[must_use]
    pub fn worst(&self, values: impl IntoIterator<Item = f64>) -> f64 {
        let far = |value: &f64| self.deviation(*value).abs();
        let values = values.into_iter();
        values.max_by(|one, other| far(one).total_cmp(&far(other))).unwrap_or(f64::NAN)
    }

    /// Returns the deviation from the published range, as a fraction of its nearer end; inside: 0.
    #[must_use]
    pub fn deviation(&self, model: f64) -> f64 {
        let near = model.clamp(*self.published.start(), *self.published.end());
        if near == 0.0 { model } else { (model - near) / near }
    }
}

fn number() -> f64 {
    NUMBER
}

/// Reads a number, or a list of the least and the most number.
fn range<'de, D: Deserializer<'de>>(from: D) -> Result<RangeInclusive<f64>, D::Error> {
    struct Range;
    impl<'de> Visitor<'de> for Range {
        type Value = RangeInclusive<f64>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a number, or the least and the most in brackets: [2.0, 3.0]")
        }

        fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
            Ok(number..=number)
        }

        fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
            Ok(number as f64..=number as f64)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut next = |at| {
                let wrong =
                    || serde::de::Error::invalid_length(at, &self as &dyn serde::de::Expected);
                list.next_element::<f64>()?.ok_or_else(wrong)
            };
            let (least, most) = (next(0)?, next(1)?);
            match list.next_element::<f64>()? {
                None => Ok(least..=most),
                Some(_) => Err(serde::de::Error::invalid_length(3, &Range)),
            }
        }
    }
    from.deserialize_any(Range)
}
