//! Connections to peers, and their regions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fluxline_core::fabric::{
    EndpointId, Key, Level, Local, Name, RemoteId, Slice, Target, Work as Posted,
};
use pyo3::prelude::*;

use super::core::{NO_TAG, OWN_TAGS, Shared};
use super::region::Region;
use super::task::{Task, Value, Wake, Work, finish, object};
use crate::buffer::{Input, Lent, Memory};
use crate::fault::Fault;

/// A connection of a node, and the work that is posted on it.
#[derive(Clone)]
struct Connection {
    shared: Arc<Shared>,
    id: EndpointId,
}

impl Connection {
    /// Posts own work; the returned work is done once its completion is there.
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

    /// Waits for the result of work.
    fn result(&self, py: Python<'_>, work: Work, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        object(py, &self.shared, finish(py, &self.shared, work, timeout)?)
    }

    /// Waits for work without a result.
    fn wait(&self, py: Python<'_>, work: Work, timeout: Option<f64>) -> PyResult<()> {
        finish(py, &self.shared, work, timeout).map(|_| ())
    }

    /// Makes a task of work.
    fn task(&self, work: Work) -> Task {
        Task::new(&self.shared, work)
    }
}

/// One end of a connection.
#[pyclass(frozen, eq, hash, module = "fluxline")]
pub struct Endpoint {
    connection: Connection,
    peer: Option<String>,
}

impl PartialEq for Endpoint {
    fn eq(&self, other: &Endpoint) -> bool {
        let (one, other) = (&self.connection, &other.connection);
        one.id == other.id && Arc::ptr_eq(&one.shared, &other.shared)
    }
}

impl Eq for Endpoint {}

impl std::hash::Hash for Endpoint {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.connection.id.hash(state);
    }
}

impl Endpoint {
    /// Names a connection of a node.
    pub fn new(shared: &Arc<Shared>, id: EndpointId, peer: Option<String>) -> Endpoint {
        Endpoint { connection: Connection { shared: Arc::clone(shared), id }, peer }
    }

    fn importing(&self, py: Python<'_>, name: &str, key: u64) -> Result<Work, Fault> {
        let name = Name::parse(name)?;
        let (connection, asked) = (self.connection.clone(), name.clone());
        let Connection { shared, id: endpoint } = &connection;
        let id = shared.with(py, |core| core.import(*endpoint, asked, Key(key)))?;
        let step = move |core: &mut super::core::Core| {
            let Some(bytes) = core.imported(id)? else { return Ok(None) };
            let (name, connection) = (name.as_str().to_owned(), connection.clone());
            Ok(Some(Value::Object(Box::new(move |py, _| {
                let remote = Remote { connection, id, bytes, name };
                Ok(Py::new(py, remote)?.into_any())
            }))))
        };
        Ok(Work::new("the import", step).or_else(move |core| core.abandon_import(id)))
    }

    fn sending(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> Result<Work, Fault> {
        let data = Input::of("data", data)?;
        let complete_at = Some(Level::Placed);
        let work = Posted::Send { from: Local::Bytes(data.bytes()), complete_at };
        self.connection.posted(py, "the message", work, nothing)
    }

    fn flushing(&self, py: Python<'_>) -> Result<Work, Fault> {
        self.connection.posted(py, "the flush", Posted::Flush, nothing)
    }

    fn receiving(
        &self,
        py: Python<'_>,
        region: &Region,
        offset: u64,
        count: u64,
    ) -> Result<Work, Fault> {
        let Connection { shared, id } = &self.connection;
        let into = Slice { region: region.id_on(shared)?, offset, bytes: count };
        let tag = shared.with(py, |core| {
            core.claim_with(|fabric, tag| Ok(fabric.post_receive(*id, tag, into)?))
        })?;
        Ok(claimed("the message", tag, Value::Number))
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
        self.connection.id.0
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
        self.connection.result(py, self.importing(py, name, key)?, timeout)
    }

    /// Begins `import_region`.
    fn begin_import_region(&self, py: Python<'_>, name: &str, key: u64) -> PyResult<Task> {
        Ok(self.connection.task(self.importing(py, name, key)?))
    }

    /// Sends a message into the buffer that the peer posted next, and waits until it is there.
    #[pyo3(
        signature = (data, *, timeout = Some(10.0)),
        text_signature = "($self, data, *, timeout=10.0)"
    )]
    fn send(&self, py: Python<'_>, data: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        self.connection.wait(py, self.sending(py, data)?, timeout)
    }

    /// Begins `send`; the data may be changed at once.
    fn begin_send(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Task> {
        Ok(self.connection.task(self.sending(py, data)?))
    }

    /// Gives `count` bytes of an own region to the next message; returns a task of its length.
    fn begin_receive(
        &self,
        py: Python<'_>,
        region: &Region,
        offset: u64,
        count: u64,
    ) -> PyResult<Task> {
        Ok(self.connection.task(self.receiving(py, region, offset, count)?))
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
        self.connection.result(py, self.receiving(py, region, offset, count)?, timeout)
    }

    /// Waits until all earlier work of this connection is placed.
    #[pyo3(
        signature = (*, timeout = Some(10.0)),
        text_signature = "($self, *, timeout=10.0)"
    )]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.connection.wait(py, self.flushing(py)?, timeout)
    }

    /// Begins `flush`.
    fn begin_flush(&self, py: Python<'_>) -> PyResult<Task> {
        Ok(self.connection.task(self.flushing(py)?))
    }

    /// Ends the connection; its unfinished work completes with an error.
    fn disconnect(&self, py: Python<'_>) -> PyResult<()> {
        let Connection { shared, id } = &self.connection;
        Ok(shared.with(py, |core| Ok(core.fabric.disconnect(*id)?))?)
    }

    fn __repr__(&self) -> String {
        let peer = self.peer.as_deref().unwrap_or("?");
        format!("Endpoint(id={}, peer={peer:?})", self.connection.id.0)
    }
}

/// A peer's region.
#[pyclass(frozen, module = "fluxline")]
pub struct Remote {
    connection: Connection,
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
        let Connection { shared, id: endpoint } = self.connection.clone();
        let to = self.at(offset);
        let mut put = move |core: &mut super::core::Core| {
            let work = Posted::Put {
                from: Local::Bytes(data.bytes()),
                to,
                notify,
                complete_at: tag.map(|_| Level::Placed),
            };
            match core.post(endpoint, tag.unwrap_or(NO_TAG), work) {
                Err(fault) if fault.is_full() => Ok(None),
                posted => posted.map(|()| Some(Value::None)),
            }
        };
        match shared.with(py, &mut put)? {
            Some(_) => Ok(None),
            None => Ok(Some(Work::new("the put", put).woken_by(Wake::Link))),
        }
    }

    /// Returns a put that is done once the bytes are in the region; a full queue delays it.
    fn placing(
        &self,
        py: Python<'_>,
        data: Input,
        offset: u64,
        notify: Option<u32>,
    ) -> Result<Work, Fault> {
        let Connection { shared, id: endpoint } = self.connection.clone();
        let to = self.at(offset);
        let posted = Arc::new(AtomicU64::new(0)); // own tags are above 2^63
        let abandoned = Arc::clone(&posted);
        let mut step = move |core: &mut super::core::Core| {
            let tag = posted.load(Ordering::Relaxed);
            if tag != 0 {
                return Ok(core.claimed(tag)?.map(nothing));
            }
            let from = Local::Bytes(data.bytes());
            let work = Posted::Put { from, to, notify, complete_at: Some(Level::Placed) };
            match core.claim(endpoint, work) {
                Err(fault) if !fault.is_full() => return Err(fault),
                Err(_) => {}
                Ok(tag) => posted.store(tag, Ordering::Relaxed),
            }
            Ok(None)
        };
        shared.with(py, &mut step)?;
        let abandon = move |core: &mut super::core::Core| {
            core.abandon(abandoned.load(Ordering::Relaxed));
        };
        Ok(Work::new("the put", step).or_else(abandon))
    }

    fn adding(&self, py: Python<'_>, offset: u64, add: u64) -> Result<Work, Fault> {
        let work = Posted::FetchAdd { at: self.at(offset), add };
        self.connection.posted(py, "the atomic", work, Value::Number)
    }

    fn swapping(
        &self,
        py: Python<'_>,
        offset: u64,
        expected: u64,
        desired: u64,
    ) -> Result<Work, Fault> {
        let work = Posted::CompareSwap { at: self.at(offset), expected, desired };
        self.connection.posted(py, "the atomic", work, Value::Number)
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
        let region = into.id_on(&self.connection.shared)?;
        let into = Slice { region, offset: into_offset, bytes };
        let work = Posted::Get { from: self.at(offset), into };
        self.connection.posted(py, "the get", work, nothing)
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
            Some(work) => self.connection.wait(py, work, timeout),
        }
    }

    /// Begins to write an array into the region; the task is done once the bytes are there.
    /// Until then the array must not change.
    #[pyo3(signature = (data, offset = 0, *, notify = None))]
    fn begin_put(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        offset: u64,
        notify: Option<u32>,
    ) -> PyResult<Task> {
        let data = Input::of("data", data)?;
        Ok(self.connection.task(self.placing(py, data, offset, notify)?))
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
        self.connection.wait(py, work, timeout)
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
        Ok(self.connection.task(self.getting(py, into, offset, into_offset, count)?))
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
        self.connection.result(py, self.adding(py, offset, add)?, timeout)
    }

    /// Begins `fetch_add`.
    #[pyo3(signature = (offset, add = 1))]
    fn begin_fetch_add(&self, py: Python<'_>, offset: u64, add: u64) -> PyResult<Task> {
        Ok(self.connection.task(self.adding(py, offset, add)?))
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
        self.connection.result(py, self.swapping(py, offset, expected, desired)?, timeout)
    }

    /// Begins `compare_swap`.
    fn begin_compare_swap(
        &self,
        py: Python<'_>,
        offset: u64,
        expected: u64,
        desired: u64,
    ) -> PyResult<Task> {
        Ok(self.connection.task(self.swapping(py, offset, expected, desired)?))
    }

    /// Maps the region into this process, where the link can: stores change the peer's memory.
    fn window(&self, py: Python<'_>) -> PyResult<Memory> {
        let window = self.connection.shared.with(py, |core| Ok(core.fabric.window(self.id)?))?;
        let none = "this link maps no regions of peers; use put and get";
        let window = window.ok_or_else(|| Fault::link(none))?;
        Ok(Memory::new(Lent::new(window)))
    }

    fn __repr__(&self) -> String {
        let (name, endpoint) = (&self.name, self.connection.id.0);
        format!("Remote(name={name:?}, bytes={}, endpoint={endpoint})", self.bytes)
    }
}
