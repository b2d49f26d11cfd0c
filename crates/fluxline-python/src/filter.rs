//! Filters of Python: functions, and compiled functions by their address.

use std::sync::Arc;

use fluxline::compiled::CompiledFilter;
use fluxline_daq::event::{EventBatch, EventRow, EventStatus};
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

/// Times that a function is asked again for parts of a batch on which it failed.
const ASKED_AGAIN_MAX: usize = 64;

/// A function that takes a batch, and returns a decision for each row with the first reason of a
/// failure: `(bytes, str | None)`, where 0 rejects, 1 keeps, and 2 says that it failed.
struct PythonFilter {
    function: Py<PyAny>,
    decoding: Arc<Decoding>,
}

/// A part of a batch, for which the function is asked by itself.
struct Part {
    batch: EventBatch,
    /// The rows that these events have in the whole batch.
    rows: Vec<usize>,
}

impl Part {
    /// Returns the events of a batch, without its late fragments.
    fn events_of(batch: &EventBatch) -> Part {
        let is_event = |row: &EventRow| row.status != EventStatus::Late;
        let stays: Vec<bool> = batch.events.iter().map(is_event).collect();
        Part { batch: batch.clone(), rows: (0..stays.len()).collect() }.cut(&stays)
    }

    /// Returns the events that stay.
    fn cut(mut self, stays: &[bool]) -> Part {
        self.batch.retain(stays);
        let mut all = stays.iter();
        self.rows.retain(|_| all.next().copied().unwrap_or(false));
        self
    }

    /// Returns both halves.
    fn halves(self) -> [Part; 2] {
        let middle = self.rows.len() / 2;
        let first: Vec<bool> = (0..self.rows.len()).map(|row| row < middle).collect();
        let second: Vec<bool> = first.iter().map(|is_first| !is_first).collect();
        let other = Part { batch: self.batch.clone(), rows: self.rows.clone() };
        [self.cut(&first), other.cut(&second)]
    }
}

impl PythonFilter {
    fn ask(&self, py: Python<'_>, batch: &EventBatch) -> PyResult<(Vec<u8>, Option<String>)> {
        let events = ClosedEvents::of(batch, BatchFate::NotRecorded, &self.decoding)?;
        self.function.call1(py, (events,))?.extract(py)
    }

    /// Asks for the decisions on a batch whose events are these rows of the whole one, and sets
    /// them. Returns the exception of the function.
    fn decide_rows(
        &self,
        batch: &EventBatch,
        rows: &[usize],
        decisions: &mut Decisions,
    ) -> Option<String> {
        // `None`: the interpreter is about to end, and must not be waited for.
        match Python::try_attach(|py| self.ask(py, batch)) {
            None => decisions.fail_all(|| "the interpreter has ended".to_owned()),
            Some(Err(error)) => return Some(error.to_string()),
            Some(Ok((answers, _))) if answers.len() != rows.len() => {
                let (came, of) = (answers.len(), rows.len());
                let reason = || format!("it returned {came} decisions for {of} rows");
                rows.iter().for_each(|row| decisions.fail(*row, reason));
            }
            Some(Ok((answers, reason))) => {
                let reason = reason.unwrap_or_default();
                for (row, answer) in rows.iter().zip(answers) {
                    match answer {
                        0 => decisions.set(*row, Decision::Reject),
                        1 => decisions.set(*row, Decision::Keep),
                        _ => decisions.fail(*row, || reason.clone()),
                    }
                }
            }
        }
        None
    }

    /// Asks again for halves of a part on which the function failed, until single events are left.
    fn decide_halves(&self, failed: Part, reason: &str, decisions: &mut Decisions) {
        let mut asked = 0;
        let mut failing = vec![failed];
        while let Some(part) = failing.pop() {
            if part.rows.len() == 1 || asked + 2 > ASKED_AGAIN_MAX {
                part.rows.iter().for_each(|row| decisions.fail(*row, || reason.to_owned()));
                continue;
            }
            for half in part.halves() {
                asked += 1;
                if self.decide_rows(&half.batch, &half.rows, decisions).is_some() {
                    failing.push(half);
                }
            }
        }
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
        let rows: Vec<usize> = (0..batch.events.len()).collect();
        if let Some(reason) = self.decide_rows(batch, &rows, decisions) {
            self.decide_halves(Part::events_of(batch), &reason, decisions);
        }
    }
}
