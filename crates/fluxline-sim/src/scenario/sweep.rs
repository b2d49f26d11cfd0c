//! A sweep: one key takes several values, and each value is a scenario of its own.

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::Scenario;
use super::effect::Wrong;
use super::keys::{self, KEYS};

/// Most values of a sweep.
const VALUES_MAX: usize = 200;

/// A key that takes several values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SweepPart {
    /// The path of the key, such as `network.nodes`; empty: no sweep.
    pub key: String,
    /// The values.
    pub values: Vec<Value>,
    /// The first value of a range.
    pub from: Option<Value>,
    /// The end of the range.
    pub to: Option<Value>,
    /// The distance of the values.
    pub step: Option<Value>,
}

/// One scenario of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// The value of the key, as in the file.
    pub value: String,
    /// The scenario.
    pub scenario: Scenario,
}

impl Scenario {
    /// Returns the path of the key that a sweep changes; empty: no sweep.
    #[must_use]
    pub fn sweep_key(&self) -> &str {
        &self.sweep.key
    }
}

impl SweepPart {
    /// Returns the values.
    pub(super) fn values(&self) -> Result<Vec<Value>, Wrong> {
        self.check_key()?;
        let values = match (&self.from, &self.to, &self.step) {
            (None, None, None) => self.values.clone(),
            (Some(from), Some(to), Some(step)) => range(from, to, step)?,
            _ => return wrong("sweep", "a range needs `from`, `to` and `step`; write all three."),
        };
        match values.len() {
            0 => wrong("sweep", "the sweep has no value; write `values = [..]`, or a range."),
            count if count > VALUES_MAX => {
                wrong("sweep", &format!("the sweep has {count} values; at most {VALUES_MAX}."))
            }
            _ => Ok(values),
        }
    }

    fn check_key(&self) -> Result<(), Wrong> {
        let (part, name) = split(&self.key);
        if part != "sweep" && keys::find(part, name).is_some() {
            return Ok(());
        }
        let paths: Vec<String> = KEYS.iter().map(super::Key::path).collect();
        let near = fluxline_toml::nearest(&self.key, paths.iter().map(String::as_str));
        let hint = near.map_or_else(
            || "write a path such as `network.nodes`.".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        wrong("sweep.key", &format!("`sweep.key` is {:?}, which is not a key; {hint}", self.key))
    }
}

/// Writes a value as text, without the quotes of a name.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}

fn wrong<T>(path: &str, sentence: &str) -> Result<T, Wrong> {
    Err(Wrong { path: path.to_owned(), sentence: sentence.to_owned() })
}

/// Splits a path into its part and its name; `node.0.load` is the load of the first node table.
fn split(path: &str) -> (&str, &str) {
    match path.split_once('.') {
        Some((part, rest)) => match rest.split_once('.') {
            Some((number, name)) if number.parse::<usize>().is_ok() => (part, name),
            _ => (part, rest),
        },
        None => ("", path),
    }
}

fn number(path: &str, value: &Value) -> Result<f64, Wrong> {
    let number = match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) if number.is_finite() => *number,
        _ => return wrong(path, &format!("`{path}` is {}; write a number.", shown(value))),
    };
    Ok(number)
}

/// Returns the values of a range; they are whole numbers if all of its numbers are.
fn range(from: &Value, to: &Value, step: &Value) -> Result<Vec<Value>, Wrong> {
    let is_whole = [from, to, step].into_iter().all(Value::is_integer);
    let (from, to) = (number("sweep.from", from)?, number("sweep.to", to)?);
    let step = number("sweep.step", step)?;
    if step <= 0.0 || to < from {
        return wrong("sweep.step", "`sweep.step` must be above 0, and `to` at least `from`.");
    }
    // A tenth of a step beyond the end, because 0.1 + 0.1 + 0.1 is above 0.3.
    let count = ((to - from) / step + 0.1).floor();
    if count >= VALUES_MAX as f64 {
        return wrong("sweep.step", &format!("the sweep has more than {VALUES_MAX} values."));
    }
    let value = |at: u32| {
        let value = from + f64::from(at) * step;
        // 0.1 + 2 * 0.1 is shown as 0.3: twelve digits count.
        let round = format!("{value:.11e}").parse().unwrap_or(value);
        if is_whole { Value::Integer(value as i64) } else { Value::Float(round) }
    };
    Ok((0..=count as u32).map(value).collect())
}

/// Returns a file with another value of one key, and without its sweep.
pub(super) fn with(file: &Table, key: &str, value: &Value) -> Result<Table, Wrong> {
    let mut changed = file.clone();
    changed.remove("sweep");
    let Some((part, rest)) = key.split_once('.') else {
        changed.insert(key.to_owned(), value.clone());
        return Ok(changed);
    };
    let (index, name) = match rest.split_once('.') {
        Some((index, name)) => (index.parse::<usize>().ok(), name),
        None => (None, rest),
    };
    let table = changed.entry(part).or_insert_with(|| Value::Table(Table::new()));
    let table = match (table, index) {
        (Value::Table(table), None) => Some(table),
        (Value::Array(items), Some(at)) => items.get_mut(at).and_then(Value::as_table_mut),
        _ => None,
    };
    let Some(table) = table else {
        return wrong(
            "sweep.key",
            &format!(
                "`sweep.key` is {key:?}; write the number of a table, as in `node.0.load` for the \
                 first [[node]]."
            ),
        );
    };
    table.insert(name.to_owned(), value.clone());
    Ok(changed)
}
