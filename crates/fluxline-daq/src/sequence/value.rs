//! Values of a setting: numbers and words of a TOML file, and ranges of numbers.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// Most digits behind the point of a number in a range.
const DIGITS_MAX: usize = 17;
/// The share of a step by which the last value may be beyond the end, for sums that are rounded.
const BEYOND: f64 = 1e-6;

/// A number of a TOML file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer.
    Integer(i64),
    /// A number with a point or an exponent.
    Real(f64),
}

/// A value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Number(Number),
    /// A word.
    Word(String),
}

impl fmt::Display for Number {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(value) => write!(out, "{value}"),
            Number::Real(value) => write!(out, "{value}"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(value) => write!(out, "{value}"),
            Value::Word(word) => out.write_str(word),
        }
    }
}

/// Reads a number, and a word where those are allowed.
struct ValueVisitor {
    takes_words: bool,
}

impl Visitor<'_> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.takes_words { "a number or a word in quotes" } else { "a number" })
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(Number::Integer(value)))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        match value.is_finite() {
            true => Ok(Value::Number(Number::Real(value))),
            false => Err(E::custom(format_args!("{value} cannot be set; write a number"))),
        }
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Value, E> {
        match self.takes_words {
            true => Ok(Value::Word(word.to_owned())),
            false => Err(E::invalid_type(de::Unexpected::Str(word), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
        from.deserialize_any(ValueVisitor { takes_words: true })
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Number, D::Error> {
        match from.deserialize_any(ValueVisitor { takes_words: false })? {
            Value::Number(number) => Ok(number),
            Value::Word(word) => {
                Err(de::Error::invalid_type(de::Unexpected::Str(&word), &"a number"))
            }
        }
    }
}

impl Number {
    fn real(self) -> f64 {
        match self {
            Number::Integer(value) => value as f64,
            Number::Real(value) => value,
        }
    }

    /// Returns the number of digits behind its point.
    fn digits(self) -> usize {
        match self {
            Number::Integer(_) => 0,
            Number::Real(_) => {
                let text = self.to_string();
                text.split_once('.').map_or(1, |(_, digits)| digits.len()).min(DIGITS_MAX)
            }
        }
    }
}

/// Returns the values from `from` to `to`, both included if the steps meet them, as texts with as
/// many digits as the numbers have.
///
/// Errors: a sentence, also about more than `most` values.
pub fn range(from: Number, to: Number, step: Number, most: usize) -> Result<Vec<String>, String> {
    let (first, last, each) = (from.real(), to.real(), step.real());
    let is_way = each != 0.0 && (last == first || (last > first) == (each > 0.0));
    if !is_way {
        return Err(format!("step = {step} never leads from {from} to {to}; write another step."));
    }
    let count = (last - first) / each;
    // Not a number, where the ends are beyond all reals apart.
    if !(count.is_finite() && count < most as f64) {
        return Err(format!(
            "from {from} to {to} by {step} are more than {most} values; write a larger step."
        ));
    }
    let count = (count + BEYOND).floor() as i64;
    if let (Number::Integer(from), Number::Integer(step)) = (from, step) {
        let value = |at| i128::from(from) + i128::from(at) * i128::from(step);
        return Ok((0..=count).map(|at: i64| value(at).to_string()).collect());
    }
    let digits = from.digits().max(step.digits());
    let value = |at| first + at as f64 * each;
    Ok((0..=count).map(|at| format!("{:.digits$}", value(at))).collect())
}
