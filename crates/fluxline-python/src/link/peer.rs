//! Connections to peers, and their regions.

use std::sync::Arc;

use fluxline_core::fabric::{
    EndpointId, Key, Level, Local, Name, RemoteId, Slice, Target, Work as Posted,
};
use pyo3::prelude::*;

use super::core::{NO_TAG, OWN_TAGS, Shared};
use super::region::Region;
use super::task::{Task, Value, Wake, Work, finish, object};
use crate::buffer::{Input, Lent, Memory};
use crate::fault::Fault;

/// One end of a connection.
#[pyclass(frozen, eq, hash, module = "fluxline")]
pub struct Endpoint {
    shared: Arc<Shared>,
    id: EndpointId,
    peer: Option<String>,
}

impl PartialEq for Endpoint {
    fn eq(&self, other: &Endpoint) -> bool {
        self.id == other.id && Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for Endpoint {}

impl std::hash::Hash for Endpoint {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl Endpoint {
    /// Names a connection of a node.
    pub fn new(shared: &Arc<Shared>, id: EndpointId, peer: Option<String>) -> Endpoint {
        Endpoint { shared: Arc::clone(shared), id, peer }
    }

    fn importing(&self, py: Python<'_>, name: &str, key: u64) -> Result<Work, Fault> {
        let name = Name::parse(name)?;
        let (endpoint, asked) = (self.id, name.clone());
        let id = self.shared.with(py, |core| core.import(endpoint, asked, Key(key)))?;
        let step = move |core: &mut super::core::Core| {
            let Some(bytes) = core.imported(id)? else { return Ok(None) };
            let name = name.as_str().to_owned();
            Ok(Some(Value::Object(Box::new(move |py, shared| {
                let remote = Remote { shared: Arc::clone(shared), endpoint, id, bytes, name };
                Ok(Py::new(py, remote)?.into_any())
            }))))
        };
        Ok(Work::new("the import", step).or_else(move |core| core.abandon_import(id)))
    }

    /// Posts own work and waits for its completion.
    fn posted(
        &self,
        py: Python<'_>,
        what: &'static str,
        work: Posted<'_>,
        value: fn(u64) -> Value,
    ) -> Result<Work, Fault> {
        let tag = self.shared.with(py, |core| core.claim(self.id, work))?;
        Ok(claimed(what, tag, value))
    }

    fn receiving(
        &self,
        py: Python<'_>,
        region: &Region,
        offset: u64,
        count: u64,
    ) -> Result<Work, Fault> {
        let into = Slice { region: region.id_on(&self.shared)?, offset, bytes: count };
        let tag = self.shared.with(py, |core| {
            core.claim_with(|fabric, tag| Ok(fabric.post_receive(self.id, tag, into)?))
        })?;
        Ok(claimed("the message", tag, Value::Number))
    }

    fn result(&self, py: Python<'_>, work: Work, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        object(py, &self.shared, finish(py, &self.shared, work, timeout)?)
    }
}

/// Returns work that is done once its completion is there.
fn claimed(what: &'static str, tag: u64, value: fn(u64) -> Value) -> Work {
    Work::new(what, move |core| Ok(core.claimed(tag)?.map(value)))
        .or_else(move |core| core.abandon(tag))
}

fn nothing(_: u64) -> Value {
    Value::None
}

#[pymethods]
impl Endpoint {
    /// The number of the connection on its node.
    #[getter]
    fn id(&self) -> u32 {
        self.id.0
    }

    /// The peer's name; None where only the number is known.
    #[getter]
    fn peer(&self) -> Option<&str> {
        self.peer.as_deref()
    }

    /// Imports the peer's region of that name, with the key that its owner gave it.
    #[pyo3(
        signature = (name, key, *, timeout = Some(10.0)),
        text_signature = "($self, name, key, *, timeout=10.0)"
    )]
    fn import_region(
        &self,
        py: Python<'_>,
        name: &str,
        key: u64,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        self.result(py, self.importing(py, name, key)?, timeout)
    }

    /// Begins `import_region`.
    fn begin_import_region(&self, py: Python<'_>, name: &str, key: u64) -> PyResult<Task> {
        Ok(Task::new(&self.shared, self.importing(py, name, key)?))
    }

    /// Sends a message into the buffer that the peer posted next, and waits until it is there.
    #[pyo3(
        signature = (data, *, timeout = Some(10.0)),
        text_signature = "($self, data, *, timeout=10.0)"
    )]
    fn send(&self, py: Python<'_>, data: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let data = Input::of("data", data)?;
        let complete_at = Some(Level::Placed);
        let work = Posted::Send { from: Local::Bytes(data.bytes()), complete_at };
        let work = self.posted(py, "the message", work, nothing)?;
        finish(py, &self.shared, work, timeout).map(|_| ())
    }

    /// Begins `send`; the data may be changed at once.
    fn begin_send(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Task> {
        let data = Input::of("data", data)?;
        let complete_at = Some(Level::Placed);
        let work = Posted::Send { from: Local::Bytes(data.bytes()), complete_at };
        Ok(Task::new(&self.shared, self.posted(py, "the message", work, nothing)?))
    }

    /// Gives `count` bytes of an own region to the next message; returns a task of its length.
    fn begin_receive(
        &self,
        py: Python<'_>,
        region: &Region,
        offset: u64,
        count: u64,
    ) -> PyResult<Task> {
        Ok(Task::new(&self.shared, self.receiving(py, region, offset, count)?))
    }

    /// Receives the next message into an own region, and returns its length.
    #[pyo3(
        signature = (region, offset, count, *, timeout = Some(10.0)),
        text_signature = "($self, region, offset, count, *, timeout=10.0)"
    )]
    fn receive(
        &self,
        py: Python<'_>,
        region: &Region,
        offset: u64,
        count: u64,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        self.result(py, self.receiving(py, region, offset, count)?, timeout)
    }

    /// Waits until all earlier work of this connection is placed.
    #[pyo3(
        signature = (*, timeout = Some(10.0)),
        text_signature = "($self, *, timeout=10.0)"
    )]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let work = self.posted(py, "the flush", Posted::Flush, nothing)?;
        finish(py, &self.shared, work, timeout).map(|_| ())
    }

    /// Begins `flush`.
    fn begin_flush(&self, py: Python<'_>) -> PyResult<Task> {
        Ok(Task::new(&self.shared, self.posted(py, "the flush", Posted::Flush, nothing)?))
    }

    /// Ends the connection; its unfinished work completes with an error.
    fn disconnect(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.shared.with(py, |core| Ok(core.fabric.disconnect(self.id)?))?)
    }

    fn __repr__(&self) -> String {
        format!("Endpoint(id={}, peer={:?})", self.id.0, self.peer.as_deref().unwrap_or("?"))
    }
}

/// A peer's region.
#[pyclass(frozen, module = "fluxline")]
pub struct Remote {
    shared: Arc<Shared>,
    endpoint: EndpointId,
    id: RemoteId,
    bytes: u64,
    name: String,
}

impl Remote {
    fn at(&self, offset: u64) -> Target {
        Target { remote: self.id, offset }
    }

    fn putting(
        &self,
        py: Python<'_>,
        data: Input,
        offset: u64,
        notify: Option<u32>,
        tag: Option<u64>,
    ) -> Result<Option<Work>, Fault> {
        if tag.is_some_and(|tag| tag >= OWN_TAGS) {
            return Err(Fault::input("the tag is too large; give a number below 2^63"));
        }
        let (endpoint, to) = (self.endpoint, self.at(offset));
        let mut put = move |core: &mut super::core::Core| {
            let work = Posted::Put {
                from: Local::Bytes(data.bytes()),
                to,
                notify,
                complete_at: tag.map(|_| Level::Placed),
            };
            match core.fabric.post(endpoint, tag.unwrap_or(NO_TAG), work).map_err(Fault::from) {
                Err(fault) if fault.is_full() => Ok(None),
                posted => posted.map(|()| Some(Value::None)),
            }
        };
        match self.shared.with(py, &mut put)? {
            Some(_) => Ok(None),
            None => Ok(Some(Work::new("the put", put).woken_by(Wake::Link))),
        }
    }

    fn posted(
        &self,
        py: Python<'_>,
        what: &'static str,
        work: Posted<'_>,
        value: fn(u64) -> Value,
    ) -> Result<Work, Fault> {
        let tag = self.shared.with(py, |core| core.claim(self.endpoint, work))?;
        Ok(claimed(what, tag, value))
    }

    fn getting(
        &self,
        py: Python<'_>,
        into: &Region,
        offset: u64,
        into_offset: u64,
        count: Option<u64>,
    ) -> Result<Work, Fault> {
        let bytes = count.unwrap_or(self.bytes.saturating_sub(offset));
        let into = Slice { region: into.id_on(&self.shared)?, offset: into_offset, bytes };
        let work = Posted::Get { from: self.at(offset), into };
        self.posted(py, "the get", work, nothing)
    }

    fn result(&self, py: Python<'_>, work: Work, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        object(py, &self.shared, finish(py, &self.shared, work, timeout)?)
    }
}

#[pymethods]
impl Remote {
    fn __len__(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }

    /// The name of the region.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Writes an array into the region; it may be changed at once. With `notify`, the owner gets
    /// this value after the bytes are in place. With `tag`, a completion follows. A full queue is
    /// waited for.
    #[pyo3(
        signature = (data, offset = 0, *, notify = None, tag = None, timeout = Some(10.0)),
        text_signature = "($self, data, offset=0, *, notify=None, tag=None, timeout=10.0)"
    )]
    fn put(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        offset: u64,
        notify: Option<u32>,
        tag: Option<u64>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let data = Input::of("data", data)?;
        match self.putting(py, data, offset, notify, tag)? {
            None => Ok(()),
            Some(work) => finish(py, &self.shared, work, timeout).map(|_| ()),
        }
    }

    /// Reads into an own region, and waits until the bytes are there.
    #[pyo3(
        signature = (into, *, offset = 0, into_offset = 0, count = None, timeout = Some(10.0)),
        text_signature = "($self, into, *, offset=0, into_offset=0, count=None, timeout=10.0)"
    )]
    fn get(
        &self,
        py: Python<'_>,
        into: &Region,
        offset: u64,
        into_offset: u64,
        count: Option<u64>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let work = self.getting(py, into, offset, into_offset, count)?;
        finish(py, &self.shared, work, timeout).map(|_| ())
    }

    /// Begins `get`.
    #[pyo3(signature = (into, *, offset = 0, into_offset = 0, count = None))]
    fn begin_get(
        &self,
        py: Python<'_>,
        into: &Region,
        offset: u64,
        into_offset: u64,
        count: Option<u64>,
    ) -> PyResult<Task> {
        Ok(Task::new(&self.shared, self.getting(py, into, offset, into_offset, count)?))
    }

    /// Adds to a word of the region, and returns the old value.
    #[pyo3(
        signature = (offset, add = 1, *, timeout = Some(10.0)),
        text_signature = "($self, offset, add=1, *, timeout=10.0)"
    )]
    fn fetch_add(
        &self,
        py: Python<'_>,
        offset: u64,
        add: u64,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        let work = Posted::FetchAdd { at: self.at(offset), add };
        self.result(py, self.posted(py, "the atomic", work, Value::Number)?, timeout)
    }

    /// Begins `fetch_add`.
    #[pyo3(signature = (offset, add = 1))]
    fn begin_fetch_add(&self, py: Python<'_>, offset: u64, add: u64) -> PyResult<Task> {
        let work = Posted::FetchAdd { at: self.at(offset), add };
        Ok(Task::new(&self.shared, self.posted(py, "the atomic", work, Value::Number)?))
    }

    /// Replaces a word of the region if it is `expected`, and returns the old value.
    #[pyo3(
        signature = (offset, expected, desired, *, timeout = Some(10.0)),
        text_signature = "($self, offset, expected, desired, *, timeout=10.0)"
    )]
    fn compare_swap(
        &self,
        py: Python<'_>,
        offset: u64,
        expected: u64,
        desired: u64,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        let work = Posted::CompareSwap { at: self.at(offset), expected, desired };
        self.result(py, self.posted(py, "the atomic", work, Value::Number)?, timeout)
    }

    /// Maps the region into this process, where the link can: stores change the peer's memory.
    fn window(&self, py: Python<'_>) -> PyResult<Memory> {
        let window = self.shared.with(py, |core| Ok(core.fabric.window(self.id)?))?;
        let none = "this link maps no regions of peers; use put and get";
        let window = window.ok_or_else(|| Fault::link(none))?;
        Ok(Memory::new(Lent::new(window)))
    }

    fn __repr__(&self) -> String {
        format!("Remote(name={:?}, bytes={}, endpoint={})", self.name, self.bytes, self.endpoint.0)
    }
}
