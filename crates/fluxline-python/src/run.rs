//! Recorded runs.

use std::ops::Range;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use fluxline_core::Moment;
use fluxline_daq::record::{FolderError, Join, ReadReport, RunFolder};
use fluxline_export::typed::{Selection, TypedBatches, TypedRun};
use pyo3::prelude::*;

use crate::arrow::{Batches, Schema};
use crate::fault::{self, Class, Fault};

/// Returns a time as nanoseconds since 1970; the syntax is that of `fluxline export --since`.
#[pyfunction]
pub fn parse_time(text: &str) -> PyResult<u64> {
    Ok(fluxline_export::typed::parse_time(text).map_err(Fault::input)?.as_ns())
}

/// A run folder; `fluxline.Run` is the class for users.
#[pyclass(frozen, module = "fluxline._fluxline")]
pub struct RunReader {
    run: TypedRun,
}

#[pymethods]
impl RunReader {
    /// Opens a run, finished or not. Reads the small files of the folder only.
    #[new]
    #[pyo3(signature = (path, *, join_late = true))]
    fn new(py: Python<'_>, path: PathBuf, join_late: bool) -> PyResult<RunReader> {
        let join = if join_late { Join::Late } else { Join::Nothing };
        let run = py.detach(|| TypedRun::open(&path, join)).map_err(Fault::from)?;
        Ok(RunReader { run })
    }

    /// The path of the folder.
    #[getter]
    fn path(&self) -> PathBuf {
        self.run.path().to_path_buf()
    }

    /// The names of the tables.
    #[getter]
    fn tables(&self) -> Vec<String> {
        self.run.tables().iter().map(|table| table.name.clone()).collect()
    }

    /// A sentence for each source or description that cannot be used.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.run.notes().to_vec()
    }

    /// Returns the sources as JSON.
    fn sources_json(&self) -> PyResult<String> {
        let json = serde_json::to_string(self.run.sources());
        Ok(json.map_err(|error| Fault::new(Class::Run, error))?)
    }

    /// Returns run.json; of a run that was killed early there may be none.
    fn info_json(&self, py: Python<'_>) -> PyResult<String> {
        let read = || RunFolder::open(self.run.path()).and_then(|folder| folder.read_run());
        let info = py.detach(read).map_err(|error| Fault::new(Class::Run, error))?;
        Ok(info.to_string())
    }

    /// Returns the packet descriptions that can be read as JSON: texts by file name.
    fn descriptions_json(&self, py: Python<'_>) -> PyResult<String> {
        let read = || {
            let folder = RunFolder::open(self.run.path())?;
            let names = folder.formats().unwrap_or_default().into_iter();
            let texts = names.filter_map(|name| {
                let text = folder.read_format(&name).ok()?;
                Some((format!("{name}.toml"), text.into()))
            });
            Ok::<_, FolderError>(texts.collect::<serde_json::Map<_, _>>())
        };
        let texts = py.detach(read).map_err(|error| Fault::new(Class::Run, error))?;
        Ok(serde_json::Value::Object(texts).to_string())
    }

    /// Returns the columns of a table.
    fn schema(&self, table: &str) -> PyResult<Schema> {
        Ok(Schema::new(self.run.table(table).map_err(Fault::from)?.schema.clone()))
    }

    /// Begins to read a table.
    #[pyo3(signature = (table, *, columns, sources, events, since_ns, until_ns, rows_max))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python, all of them required")]
    fn batches(
        &self,
        py: Python<'_>,
        table: &str,
        columns: Option<Vec<String>>,
        sources: Option<Vec<String>>,
        events: Option<[u64; 2]>,
        since_ns: Option<u64>,
        until_ns: Option<u64>,
        rows_max: Option<usize>,
    ) -> PyResult<Batches> {
        if rows_max == Some(0) {
            return Err(Fault::input("batch is 0; give the rows of a batch at most").into());
        }
        let events = events.map(|[start, end]| Range { start, end });
        let [since, until] = [since_ns, until_ns].map(|ns| ns.map(Moment::from_ns));
        let selection = Selection { columns, sources, events, since, until };
        let reader = py.detach(|| self.run.batches(table, &selection)).map_err(Fault::from)?;
        let schema = reader.schema();
        let path = self.run.path().to_path_buf();
        let reader = Box::new(Whole { reader, path, ended: false });
        Ok(Batches::new(schema, reader, rows_max))
    }
}

/// Batches of a run; at their end, a warning where recorded data could not be read.
struct Whole {
    reader: TypedBatches,
    path: PathBuf,
    ended: bool,
}

impl Iterator for Whole {
    type Item = Result<RecordBatch, Fault>;

    fn next(&mut self) -> Option<Result<RecordBatch, Fault>> {
        if self.ended {
            return None;
        }
        if let Some(batch) = self.reader.next() {
            return Some(batch.map_err(Fault::from));
        }
        self.ended = true;
        let sentence = damage_of(&self.path, self.reader.report())?;
        Python::attach(|py| fault::warn(py, &sentence)).err().map(Err)
    }
}

/// Returns a sentence on recorded data that could not be read.
fn damage_of(path: &Path, report: &ReadReport) -> Option<String> {
    let (damages, missing) = (report.damages.len(), report.batches_missing);
    let unreadable = report.unreadable.len();
    if damages == 0 && missing == 0 && unreadable == 0 {
        return None;
    }
    Some(format!(
        "{}: recorded data is missing in these rows: {damages} damaged places, {missing} batches \
         missing, {unreadable} unreadable files; `fluxline inspect` names them",
        path.display()
    ))
}
