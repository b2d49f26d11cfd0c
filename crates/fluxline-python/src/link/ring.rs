//! Both ends of a push ring, for arrays.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::core::{Core, Shared};
use super::rings::Batch;
use super::task::{Task, Value, Wake, Work, finish};
use crate::buffer::{I64, Input, Output, U8};
use crate::fault::Fault;

/// The end of a push ring that reads.
#[pyclass(frozen, module = "fluxline._fluxline")]
pub struct Receiver {
    shared: Arc<Shared>,
    number: u32,
}

impl Receiver {
    /// Names a ring of a node.
    pub fn new(shared: &Arc<Shared>, number: u32) -> Receiver {
        Receiver { shared: Arc::clone(shared), number }
    }

    fn reading(&self, mut batch: Batch) -> Work {
        let number = self.number;
        let step = move |core: &mut Core| {
            let Core { rings, fabric, .. } = core;
            let count = rings.read(&mut **fabric, number, &mut batch)?;
            Ok((count > 0).then_some(Value::Number(count as u64)))
        };
        Work::new("the ring", step).woken_by(Wake::Receiver(number))
    }
}

/// Checks the caller's arrays.
fn batch(
    data: &Bound<'_, PyAny>,
    ends: &Bound<'_, PyAny>,
    stamps: Option<&Bound<'_, PyAny>>,
) -> Result<Batch, Fault> {
    let data = Output::of("data", U8, data)?;
    let ends = Output::of("ends", I64, ends)?;
    let stamps = stamps.map(|stamps| Output::of("stamps", I64, stamps)).transpose()?;
    let batch = Batch { data, ends, stamps };
    match batch.limit() {
        0 => Err(Fault::input("ends or stamps has no elements; pass arrays for some records")),
        _ => Ok(batch),
    }
}

#[pymethods]
impl Receiver {
    /// Fills the arrays with records, and returns their number: `data` (uint8) with their bytes,
    /// `ends` (int64) with the end of each in `data`, `stamps` (int64) with the sender's times.
    /// Waits for the first record. When the sender has gone and all is read, it raises Gone.
    #[pyo3(signature = (data, ends, stamps = None, *, timeout = None))]
    fn read_into(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        ends: &Bound<'_, PyAny>,
        stamps: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<u64> {
        let work = self.reading(batch(data, ends, stamps)?);
        match finish(py, &self.shared, work, timeout)? {
            Value::Number(count) => Ok(count),
            _ => Ok(0),
        }
    }

    /// Begins `read_into`.
    #[pyo3(signature = (data, ends, stamps = None))]
    fn begin_read_into(
        &self,
        data: &Bound<'_, PyAny>,
        ends: &Bound<'_, PyAny>,
        stamps: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Task> {
        Ok(Task::new(&self.shared, self.reading(batch(data, ends, stamps)?)))
    }

    /// Returns the counters of this end.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        counters(py, &self.shared, self.number)
    }

    /// Ends the ring; its sender finds the receiver gone.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.shared.with(py, |core| {
            let Core { rings, fabric, .. } = core;
            rings.end_receiver(&mut **fabric, self.number);
            Ok(())
        })?)
    }
}

/// The end of a push ring that writes.
#[pyclass(frozen, module = "fluxline")]
pub struct Sender {
    shared: Arc<Shared>,
    number: u32,
}

impl Sender {
    /// Names a ring of a node.
    pub fn new(shared: &Arc<Shared>, number: u32) -> Sender {
        Sender { shared: Arc::clone(shared), number }
    }

    /// Pushes records one after the other, from the first that was not pushed yet.
    fn pushing(&self, data: Input, record_bytes: usize, stamp: Option<u64>) -> Work {
        let (number, mut at) = (self.number, 0);
        let step = move |core: &mut Core| {
            let Core { rings, fabric, .. } = core;
            let bytes = data.bytes();
            while at == 0 || at < bytes.len() {
                let record = bytes.get(at..at + record_bytes).unwrap_or_default();
                match rings.push(&mut **fabric, number, stamp, record) {
                    Err(fault) if fault.is_full() => return Ok(None),
                    pushed => pushed?,
                }
                at += record_bytes.max(1);
            }
            Ok(Some(Value::None))
        };
        Work::new("room in the ring", step).woken_by(Wake::Room)
    }
}

#[pymethods]
impl Sender {
    /// Copies a record into the ring, and waits while it has no room. The receiver sees it after
    /// `publish`, or when a batch is full. The records of a ring all have a time stamp, or none.
    #[pyo3(
        signature = (data, *, stamp = None, timeout = Some(10.0)),
        text_signature = "($self, data, *, stamp=None, timeout=10.0)"
    )]
    fn push(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        stamp: Option<u64>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let data = Input::of("data", data)?;
        let bytes = data.bytes().len();
        finish(py, &self.shared, self.pushing(data, bytes, stamp), timeout).map(|_| ())
    }

    /// The number of records that earlier senders have published; None: the receiver does not
    /// count. A program that counts its records from 0 pushes from there on.
    #[getter]
    fn resumes_from(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(self.shared.with(py, |core| Ok(core.rings.sender(self.number)?.resumes_from()))?)
    }

    /// Pushes a record and publishes it; waits while the ring has no room.
    #[pyo3(
        signature = (data, *, stamp = None, timeout = Some(10.0)),
        text_signature = "($self, data, *, stamp=None, timeout=10.0)"
    )]
    fn push_wait(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        stamp: Option<u64>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        self.push(py, data, stamp, timeout)?;
        self.publish(py)
    }

    /// Pushes each row of a two-dimensional array as a record, and publishes them.
    #[pyo3(
        signature = (rows, *, stamp = None, timeout = Some(10.0)),
        text_signature = "($self, rows, *, stamp=None, timeout=10.0)"
    )]
    fn push_rows(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        stamp: Option<u64>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let data = Input::of("rows", rows)?;
        let Some(row_bytes) = data.row_bytes() else {
            let wrong =
                "rows is not two-dimensional, or a row is empty; reshape it to (records, n)";
            return Err(Fault::input(wrong).into());
        };
        if !data.bytes().is_empty() {
            finish(py, &self.shared, self.pushing(data, row_bytes, stamp), timeout)?;
        }
        self.publish(py)
    }

    /// Shows all records to the receiver.
    fn publish(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.shared.with(py, |core| {
            let Core { rings, fabric, .. } = core;
            rings.sender(self.number)?.publish(&mut **fabric)?;
            core.drive();
            Ok(())
        })?)
    }

    /// Publishes the rest, waits until it is in the receiver's memory, and ends the sender.
    #[pyo3(
        signature = (*, timeout = Some(10.0)),
        text_signature = "($self, *, timeout=10.0)"
    )]
    fn finish(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let number = self.number;
        let step = move |core: &mut Core| {
            let Core { rings, fabric, .. } = core;
            let is_over = rings.sender(number)?.finish(&mut **fabric)?;
            Ok(is_over.then_some(Value::None))
        };
        let work = Work::new("the end of the ring", step).woken_by(Wake::Room);
        let finished = finish(py, &self.shared, work, timeout);
        self.close(py)?;
        finished.map(|_| ())
    }

    /// Ends the sender without waiting: the last records may be lost.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.shared.with(py, |core| {
            let Core { rings, fabric, .. } = core;
            rings.end_sender(&mut **fabric, self.number);
            Ok(())
        })?)
    }

    /// Returns the counters of this end.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        counters(py, &self.shared, self.number)
    }
}

fn counters<'py>(py: Python<'py>, shared: &Shared, number: u32) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    let found = shared.with(py, |core| Ok(core.rings.counters(number).cloned()))?;
    for (row, value) in found.iter().flat_map(|counters| counters.rows()) {
        all.set_item(row.name, value)?;
    }
    Ok(all)
}
