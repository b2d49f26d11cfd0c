//! The list of the runs in a folder, as `fluxline runs --json` has it.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array};
use fluxline_core::Moment;
use fluxline_run::runs::{RunFilter, RunVerdict, list};
use pyo3::prelude::*;
use serde_json::Value;

use crate::arrow::Batch;
use crate::fault::{Class, Fault};

/// The type of a column.
enum Kind {
    Text,
    Count,
    Number,
    Flag,
    Texts,
}

/// The columns, by the keys of the JSON.
const COLUMNS: [(&str, Kind); 24] = [
    ("name", Kind::Text),
    ("path", Kind::Text),
    ("experiment", Kind::Text),
    ("shot", Kind::Count),
    ("began_ns", Kind::Count),
    ("start", Kind::Text),
    ("ended_ns", Kind::Count),
    ("seconds", Kind::Number),
    ("events", Kind::Count),
    ("incomplete", Kind::Count),
    ("lost", Kind::Count),
    ("bytes", Kind::Count),
    ("verdict", Kind::Text),
    ("status", Kind::Count),
    ("sentence", Kind::Text),
    ("tags", Kind::Texts),
    ("comment", Kind::Text),
    ("comment_by", Kind::Text),
    ("comment_at_ns", Kind::Count),
    ("notes", Kind::Texts),
    ("fault", Kind::Text),
    ("marks_fault", Kind::Text),
    ("archived_at", Kind::Text),
    ("files_removed", Kind::Flag),
];

/// Lists the runs in a folder; the options are those of `fluxline runs`.
#[pyfunction]
#[pyo3(signature = (folder, *, search, tags, since_ns, until_ns, status, sort, reverse, limit))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python, all of them required")]
pub fn list_runs(
    py: Python<'_>,
    folder: PathBuf,
    search: Option<String>,
    tags: Vec<String>,
    since_ns: Option<u64>,
    until_ns: Option<u64>,
    status: Vec<String>,
    sort: &str,
    reverse: bool,
    limit: Option<usize>,
) -> PyResult<Batch> {
    let [since, until] = [since_ns, until_ns].map(|ns| ns.map(Moment::from_ns));
    let verdicts = status.iter().map(|word| of_word("status", word));
    let verdicts = verdicts.collect::<Result<Vec<RunVerdict>, Fault>>()?;
    let sort = of_word("sort", sort)?;
    let filter = RunFilter { search, tags, since, until, verdicts, sort, reverse, limit };
    let listed = py.detach(|| {
        let listed = list(&folder, &filter).map_err(Fault::input)?;
        Ok::<_, Fault>(listed.rows.iter().map(|row| row.document(&folder)).collect::<Vec<_>>())
    })?;
    let columns = COLUMNS.iter().map(|(name, kind)| (*name, column(&listed, name, kind), true));
    let rows = RecordBatch::try_from_iter_with_nullable(columns);
    Ok(Batch::new(rows.map_err(|error| Fault::new(Class::Run, error))?))
}

/// Reads a word of an argument, as the command line has it.
fn of_word<T: serde::de::DeserializeOwned>(argument: &str, word: &str) -> Result<T, Fault> {
    serde_json::from_value(word.into()).map_err(|error| {
        Fault::input(format_args!("{argument}={word:?} is not one of the words: {error}"))
    })
}

fn column(rows: &[Value], name: &str, kind: &Kind) -> ArrayRef {
    let values = rows.iter().map(|row| &row[name]);
    match kind {
        Kind::Text => Arc::new(values.map(Value::as_str).collect::<StringArray>()),
        Kind::Count => Arc::new(values.map(Value::as_u64).collect::<UInt64Array>()),
        Kind::Number => Arc::new(values.map(Value::as_f64).collect::<Float64Array>()),
        Kind::Flag => Arc::new(values.map(Value::as_bool).collect::<BooleanArray>()),
        Kind::Texts => {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for value in values {
                let texts = value.as_array().into_iter().flatten();
                texts.for_each(|text| lists.values().append_option(text.as_str()));
                lists.append(true);
            }
            Arc::new(lists.finish())
        }
    }
}
