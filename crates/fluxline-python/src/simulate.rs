//! Simulations: scenarios in, tables out.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::{
    Array, ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, Schema};
use fluxline_sim::report::{self, Column, Columns, Field};
use fluxline_sim::scenario::{Refused, Scenario};
use pyo3::prelude::*;
use serde_json::json;

use crate::arrow::Batch;
use crate::fault::{Class, Fault};
use crate::watched::watched;

/// The results of a scenario.
#[pyclass(frozen, get_all, module = "fluxline._fluxline")]
pub struct Simulated {
    /// The document, as `fluxline sim run --json` prints it.
    document: String,
    /// The tables by name.
    tables: HashMap<String, Py<Batch>>,
}

struct Computed {
    document: String,
    tables: Vec<Columns>,
}

/// Simulates a scenario: the text of a file, or its path.
#[pyfunction]
#[pyo3(signature = (text, path, *, is_quick, seed))]
pub fn simulate(
    py: Python<'_>,
    text: Option<String>,
    path: Option<PathBuf>,
    is_quick: bool,
    seed: Option<u64>,
) -> PyResult<Simulated> {
    let scenario = match (&text, &path) {
        (Some(text), _) => Scenario::parse("the scenario", text),
        (None, Some(path)) => Scenario::load(path),
        (None, None) => Err(Refused("no scenario was given".to_owned())),
    };
    let mut scenario = scenario.map_err(fault)?;
    if is_quick {
        scenario = scenario.quick();
    }
    if let Some(seed) = seed {
        scenario = scenario.with_seed(seed);
    }
    let computed = watched(py, move |stop| {
        let stop = Arc::clone(stop);
        // Nobody sees this panic: it ends a computation whose caller has gone.
        compute(&scenario, move || {
            if stop.load(Ordering::Relaxed) {
                resume_unwind(Box::new("interrupted"));
            }
        })
    })?;
    let Computed { document, tables } = computed.map_err(fault)?;
    let mut made = HashMap::new();
    for Columns { name, columns } in tables {
        let rows = batch(columns).map_err(|error| Fault::new(Class::Simulation, error))?;
        made.insert(name.to_owned(), Py::new(py, Batch::new(rows))?);
    }
    Ok(Simulated { document, tables: made })
}

fn fault(refused: Refused) -> Fault {
    Fault::new(Class::Simulation, refused)
}

fn compute(scenario: &Scenario, mut progress: impl FnMut() + Send) -> Result<Computed, Refused> {
    let version = env!("CARGO_PKG_VERSION");
    if !scenario.variants.is_empty() {
        let swept = report::sweep(scenario, None, |_| progress())?;
        let tables = report::sweep_tables(&swept);
        let runs =
            swept.iter().map(|one| json!({ "value": one.variant.value, "results": one.results }));
        let runs: Vec<_> = runs.collect();
        let document = json!({
            "fluxline": version, "seed": scenario.seed, "units": report::units(&tables),
            "scenario": scenario, "sweep": { "key": scenario.sweep_key(), "runs": runs },
        });
        return Ok(Computed { document: document.to_string(), tables });
    }
    let results = report::simulate(scenario, None, |_| progress())?;
    let tables = report::tables(&results);
    let document = json!({
        "fluxline": version, "seed": scenario.seed, "fingerprint": results.fingerprint,
        "units": report::units(&tables), "scenario": scenario, "results": results,
    });
    Ok(Computed { document: document.to_string(), tables })
}

/// Returns columns as rows of Arrow, with units as metadata. NaN becomes null.
fn batch(columns: Vec<Field>) -> Result<RecordBatch, ArrowError> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for Field { name, unit, column } in columns {
        let array: ArrayRef = match column {
            Column::Float(values) => {
                let values = values.into_iter().map(|value| Some(value).filter(|v| v.is_finite()));
                Arc::new(values.collect::<Float64Array>())
            }
            Column::Count(values) => Arc::new(UInt64Array::from(values)),
            Column::Index(values) => Arc::new(UInt32Array::from(values)),
            Column::Text(values) => Arc::new(StringArray::from(values)),
        };
        let field = arrow_schema::Field::new(name, array.data_type().clone(), array.is_nullable());
        let unit = Some(unit).filter(|unit| !unit.is_empty());
        let metadata = unit.map(|unit| ("unit".to_owned(), unit.to_owned()));
        fields.push(field.with_metadata(metadata.into_iter().collect::<HashMap<_, _>>()));
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}
