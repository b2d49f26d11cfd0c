//! Filters of Python: functions, and compiled functions by their address.

use std::sync::Arc;

use fluxline::compiled::CompiledFilter;
use fluxline_daq::event::{EventBatch, EventStatus};
use fluxline_daq::ledger::BatchFate;
use fluxline_run::filter::{CompiledEvents, Decisions};
use fluxline_run::{Decision, Filter, RunSource};
use pyo3::prelude::*;

use crate::decode::{ClosedEvents, Decoding};
use crate::fault::Fault;

/// Returns the filter that the caller gave, if any: a function that takes `ClosedEvents`, or the
/// address of a compiled one.
pub fn of(
    function: Option<Py<PyAny>>,
    address: Option<usize>,
    decoding: &Arc<Decoding>,
) -> Result<Option<Box<dyn Filter>>, Fault> {
    if let Some(address) = address {
        return Ok(Some(Box::new(CompiledEvents::new(compiled(address)?))));
    }
    let decoding = Arc::clone(decoding);
    Ok(function.map(|function| Box::new(PythonFilter { function, decoding }) as Box<dyn Filter>))
}

/// Makes a filter of an address.
#[allow(unsafe_code, reason = "the address of a compiled function cannot be checked")]
fn compiled(address: usize) -> Result<CompiledFilter, Fault> {
    // SAFETY: the manual of `fl.acquire` says what the function at this address must be, and that
    // it must live as long as the run; Python keeps the object that the address came from.
    let filter = unsafe { CompiledFilter::from_address(address, 0) };
    filter.ok_or_else(|| Fault::input("the address of the filter is 0"))
}

/// A function that takes a batch, and returns a decision for each row with the first reason of a
/// failure: `(bytes, str | None)`, where 0 rejects, 1 keeps, and 2 says that it failed.
struct PythonFilter {
    function: Py<PyAny>,
    decoding: Arc<Decoding>,
}

impl PythonFilter {
    fn ask(&self, py: Python<'_>, batch: &EventBatch) -> PyResult<(Vec<u8>, Option<String>)> {
        let events = ClosedEvents::of(batch, BatchFate::NotRecorded, &self.decoding)?;
        self.function.call1(py, (events,))?.extract(py)
    }
}

impl Filter for PythonFilter {
    fn add_source(&mut self, source: &RunSource) {
        self.decoding.add_source(source);
    }

    fn decide(&mut self, batch: &EventBatch, decisions: &mut Decisions) {
        if batch.events.iter().all(|row| row.status == EventStatus::Late) {
            return;
        }
        // `None`: the interpreter is about to end, and must not be waited for.
        match Python::try_attach(|py| self.ask(py, batch)) {
            None => decisions.fail_all(|| "the interpreter has ended".to_owned()),
            Some(Err(error)) => decisions.fail_all(|| error.to_string()),
            Some(Ok((rows, _))) if rows.len() != batch.events.len() => {
                let (came, of) = (rows.len(), batch.events.len());
                decisions.fail_all(|| format!("it returned {came} decisions for {of} rows"));
            }
            Some(Ok((rows, reason))) => {
                let reason = reason.unwrap_or_default();
                for (row, decision) in rows.into_iter().enumerate() {
                    match decision {
                        0 => decisions.set(row, Decision::Reject),
                        1 => decisions.set(row, Decision::Keep),
                        _ => decisions.fail(row, || reason.clone()),
                    }
                }
            }
        }
    }
}
