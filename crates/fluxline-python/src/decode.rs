//! Events of a running acquisition as typed tables, with the columns of `fluxline.Run`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arrow_array::cast::AsArray;
use fluxline_daq::event::{EventBatch, EventStatus};
use fluxline_daq::experiment::Experiment;
use fluxline_daq::formats;
use fluxline_daq::ledger::BatchFate;
use fluxline_daq::record::{Join, RecordedBatch, Recorder, RecorderConfig, RunFolder, SourceLine};
use fluxline_export::typed::{Selection, TypedBatches, TypedRun};
use fluxline_run::RunSource;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::Batches;
use crate::fault::{Class, Fault};

/// Decodes the events of one run.
pub struct Decoding {
    /// The folder with descriptions and sources; set when the run has started.
    folder: OnceLock<PathBuf>,
    /// Of a run that records nothing.
    scratch: Mutex<Option<Scratch>>,
    /// The input's part of the lines of sources.
    lines: Vec<SourceLine>,
    readers: Mutex<BTreeMap<Wanted, Reader>>,
}

/// A table with its columns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    table: String,
    columns: Option<Vec<String>>,
}

/// A decoder that knows the sources below a number.
struct Reader {
    sources: u32,
    batches: TypedBatches,
}

/// A folder of descriptions and sources, for a run that records nothing.
struct Scratch {
    recorder: Recorder,
    sources: u32,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.recorder.folder().path());
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Decoding {
    /// Prepares the decoding of an experiment's events.
    pub fn new(experiment: &Experiment) -> Result<Arc<Decoding>, Fault> {
        let mut lines = Vec::new();
        let mut scratch = None;
        if !experiment.record.enabled {
            scratch = Some(Scratch { recorder: scratch_recorder(experiment)?, sources: 0 });
        }
        for source in &experiment.sources {
            let loaded = formats::load(&source.format, &source.parameters).map_err(Fault::input)?;
            lines.push(SourceLine {
                source: 0,
                name: source.name.clone(),
                format: loaded.description.name().to_owned(),
                parameters: source.parameters.clone(),
                port: None,
                details: serde_json::Map::new(),
            });
        }
        Ok(Arc::new(Decoding {
            folder: OnceLock::new(),
            scratch: Mutex::new(scratch),
            lines,
            readers: Mutex::default(),
        }))
    }

    /// Sets the folder of the run; None: it records nothing.
    pub fn set_folder(&self, folder: Option<&Path>) -> Result<(), Fault> {
        let scratch = locked(&self.scratch);
        let folder = folder.or_else(|| scratch.as_ref().map(|of| of.recorder.folder().path()));
        let folder = folder.ok_or_else(|| Fault::new(Class::Run, "the run has no folder"))?;
        let _ = self.folder.set(folder.to_path_buf());
        Ok(())
    }

    /// Takes note of a source, for a run that records nothing.
    pub fn add_source(&self, source: &RunSource) {
        let mut scratch = locked(&self.scratch);
        let (Some(scratch), Some(line)) =
            (scratch.as_mut(), self.lines.get(usize::from(source.input)))
        else {
            return;
        };
        if source.number >= scratch.sources {
            let (number, name) = (source.number, source.label.clone());
            let line = SourceLine { source: number, name, ..line.clone() };
            let _ = scratch.recorder.write_source(&line);
            scratch.sources = number + 1;
        }
    }

    fn run(&self) -> Result<TypedRun, Fault> {
        // A filter may be asked before the call that starts the run has returned.
        Ok(TypedRun::open(self.folder.wait(), Join::Nothing)?)
    }

    /// Decodes a batch as a table.
    fn decode(&self, wanted: Wanted, events: &ClosedEvents) -> Result<Batches, Fault> {
        let mut readers = locked(&self.readers);
        let known = readers.get(&wanted).is_some_and(|reader| reader.sources >= events.sources);
        if !known {
            let columns = wanted.columns.clone();
            let selection = Selection { columns, ..Selection::default() };
            let batches = self.run()?.batches(&wanted.table, &selection)?;
            readers.insert(wanted.clone(), Reader { sources: events.sources, batches });
        }
        let Some(reader) = readers.get_mut(&wanted) else {
            return Err(Fault::new(Class::Run, "the table cannot be decoded"));
        };
        let mut rows = Vec::new();
        for batch in &events.batches {
            rows.extend(reader.batches.decode(batch)?);
        }
        Ok(Batches::new(reader.batches.schema(), Box::new(rows.into_iter().map(Ok)), None))
    }
}

/// Makes a folder with the descriptions of an experiment, which is removed at the end.
fn scratch_recorder(experiment: &Experiment) -> Result<Recorder, Fault> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("fluxline-{}-{number}", std::process::id());
    let fault = |error: &dyn std::fmt::Display| Fault::new(Class::Run, error);
    let path = std::env::temp_dir().join(name);
    let folder = RunFolder::create(&path).map_err(|error| fault(&error))?;
    for source in &experiment.sources {
        let loaded = formats::load(&source.format, &source.parameters).map_err(Fault::input)?;
        folder
            .write_format(loaded.description.name(), &loaded.text)
            .map_err(|error| fault(&error))?;
    }
    folder.write_run(&serde_json::json!({ "state": "running" })).map_err(|error| fault(&error))?;
    Ok(Recorder::open(folder, RecorderConfig::default()))
}

/// A batch of closed events; `fluxline.Events` is the class for users.
#[pyclass(frozen, module = "fluxline._fluxline")]
pub struct ClosedEvents {
    batches: Vec<RecordedBatch>,
    rows: usize,
    late: Vec<u8>,
    /// One more than the highest number of a source.
    sources: u32,
    fate: &'static str,
    decoding: Arc<Decoding>,
}

impl ClosedEvents {
    /// Copies a batch.
    pub fn of(
        batch: &EventBatch,
        fate: BatchFate,
        decoding: &Arc<Decoding>,
    ) -> Result<ClosedEvents, Fault> {
        let fate = match fate {
            BatchFate::Recorded => "recorded",
            BatchFate::Failed => "failed",
            BatchFate::NotRecorded => "counted",
            BatchFate::Filtered => "filtered",
        };
        let is_late = |status| u8::from(status == EventStatus::Late);
        Ok(ClosedEvents {
            batches: RecordedBatch::of_events(batch)
                .map_err(|error| Fault::new(Class::Run, error))?,
            rows: batch.events.len(),
            late: batch.events.iter().map(|row| is_late(row.status)).collect(),
            sources: batch.packets.iter().map(|row| row.source + 1).max().unwrap_or(0),
            fate,
            decoding: Arc::clone(decoding),
        })
    }
}

#[pymethods]
impl ClosedEvents {
    fn __len__(&self) -> usize {
        self.rows
    }

    /// The fate of the batch: recorded, failed or counted.
    #[getter]
    fn fate(&self) -> &'static str {
        self.fate
    }

    /// For each row 1 if it is a late fragment, else 0.
    #[getter]
    fn late(&self) -> &[u8] {
        &self.late
    }

    /// The bytes of each packet of the events, in order.
    #[getter]
    fn packets<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        let mut all = Vec::new();
        for batch in &self.batches {
            let packets = batch.packets();
            let bytes = packets.column_by_name("data").and_then(|of| of.as_binary_opt::<i32>());
            let bytes = bytes.into_iter().flatten().flatten();
            all.extend(bytes.map(|bytes| PyBytes::new(py, bytes)));
        }
        all
    }

    /// The names of the tables.
    #[getter]
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let run = py.detach(|| self.decoding.run())?;
        Ok(run.tables().iter().map(|table| table.name.clone()).collect())
    }

    /// Decodes the batch as a table; events are numbered from 0.
    #[pyo3(signature = (table, columns))]
    fn table(
        &self,
        py: Python<'_>,
        table: String,
        columns: Option<Vec<String>>,
    ) -> PyResult<Batches> {
        Ok(py.detach(|| self.decoding.decode(Wanted { table, columns }, self))?)
    }
}
