//! Nodes: one access to a link.

use std::sync::Arc;

use fluxline_core::fabric::push::Sender as RingSender;
use fluxline_core::fabric::push::{Receiver as RingReceiver, RingAddress, RingPlan};
use fluxline_core::fabric::{self, Key, Name, Reliability};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::completion;
use super::core::{Core, Shared};
use super::peer::Endpoint;
use super::region::Region;
use super::ring::{Receiver, Sender};
use super::task::{Task, Value, Work, checked, finish, object, seconds_to_deadline};
use crate::fault::Fault;

/// An access to a link. One thread at a time uses it; another one waits for its turn.
#[pyclass(frozen, subclass, module = "fluxline._fluxline")]
pub struct Node {
    shared: Arc<Shared>,
}

impl Node {
    fn connecting(
        &self,
        py: Python<'_>,
        peer: &str,
        timeout: f64,
        is_reliable: bool,
    ) -> Result<Work, Fault> {
        let reliability = if is_reliable { Reliability::Reliable } else { Reliability::Unreliable };
        let span = checked(timeout)?;
        let attempt = self.shared.with(py, |core| Ok(core.connect(peer, reliability, span)))?;
        let peer = peer.to_owned();
        let step = move |core: &mut Core| {
            let Some(id) = core.connected(attempt)? else { return Ok(None) };
            let peer = peer.clone();
            Ok(Some(Value::Object(Box::new(move |py, shared| {
                Ok(Py::new(py, Endpoint::new(shared, id, Some(peer)))?.into_any())
            }))))
        };
        Ok(Work::new("the connection", step).or_else(move |core| core.abandon_connect(attempt)))
    }

    fn accepting() -> Work {
        let is_wanted =
            |what: &fabric::Completion| matches!(what, fabric::Completion::Connected { .. });
        Work::new("a peer", move |core| {
            let Some(fabric::Completion::Connected { endpoint, peer, .. }) =
                core.next_of(is_wanted)
            else {
                return Ok(None);
            };
            Ok(Some(Value::Object(Box::new(move |py, shared| {
                Ok(Py::new(py, Endpoint::new(shared, endpoint, Some(peer)))?.into_any())
            }))))
        })
    }

    fn coming() -> Work {
        Work::new("a completion", |core| {
            let Some(what) = core.next() else { return Ok(None) };
            Ok(Some(Value::Object(Box::new(move |py, shared| {
                completion::object(py, shared, what)
            }))))
        })
    }

    fn sending(&self, py: Python<'_>, peer: &str, name: &str, key: u64) -> Result<Work, Fault> {
        let to = RingAddress { peer: peer.to_owned(), name: Name::parse(name)?, key: Key(key) };
        let number = self.shared.with(py, |core| {
            let now = core.fabric.now();
            let ring = RingSender::open(&mut *core.fabric, to, now)?;
            Ok(core.rings.add_sender(ring))
        })?;
        let step = move |core: &mut Core| {
            let ring = core.rings.sender(number)?;
            if let Some(ended) = ring.ended() {
                core.rings.end_sender(&mut *core.fabric, number);
                return Err(ended.into());
            }
            let is_open = ring.is_open();
            Ok(is_open.then(|| {
                Value::Object(Box::new(move |py, shared| {
                    Ok(Py::new(py, Sender::new(shared, number))?.into_any())
                }))
            }))
        };
        let end = move |core: &mut Core| {
            let Core { rings, fabric, .. } = core;
            rings.end_sender(&mut **fabric, number);
        };
        Ok(Work::new("the ring's receiver", step).or_else(end))
    }

    fn result(&self, py: Python<'_>, work: Work, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        object(py, &self.shared, finish(py, &self.shared, work, timeout)?)
    }
}

#[pymethods]
impl Node {
    /// Opens a node on the link that the URL names. A node of a simulated world waits until all
    /// nodes of the world are open, each in a thread of its own.
    #[new]
    fn new(py: Python<'_>, url: String) -> PyResult<Node> {
        let fabric = py.detach(|| fluxline::open(&url)).map_err(Fault::from)?;
        Ok(Node { shared: Arc::new(Shared::new(url, fabric)) })
    }

    /// The URL that the node was opened by.
    #[getter]
    fn url(&self) -> &str {
        &self.shared.url
    }

    /// The time of the link [ns]: the host's, or virtual time.
    #[getter]
    fn now_ns(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.shared.with(py, |core| Ok(core.fabric.now().as_ns()))?)
    }

    /// The capabilities of the link.
    #[getter]
    fn capabilities<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let link = self.shared.with(py, |core| Ok(*core.fabric.capabilities()))?;
        let all = PyDict::new(py);
        all.set_item("link", link.link)?;
        all.set_item("operation_bytes_max", link.operation_bytes_max)?;
        all.set_item("message_bytes_max", link.message_bytes_max)?;
        all.set_item("region_bytes_max", link.region_bytes_max)?;
        all.set_item("regions_max", link.regions_max)?;
        all.set_item("endpoints_max", link.endpoints_max)?;
        all.set_item("queue_max", link.queue_max)?;
        all.set_item("windows", link.windows)?;
        all.set_item("atomics", link.atomics)?;
        all.set_item("ordered", link.ordered)?;
        all.set_item("crossover_bytes", link.crossover_bytes)?;
        all.set_item("death_noticed_within_s", link.death_noticed_within.as_ns() as f64 / 1e9)?;
        Ok(all)
    }

    /// Returns the counters of this node's work.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.shared.with(py, |core| Ok(core.fabric.counters().clone()))?;
        let all = PyDict::new(py);
        for (row, value) in counters.rows() {
            all.set_item(row.name, value)?;
        }
        Ok(all)
    }

    /// Makes a region of zero bytes.
    fn register(&self, py: Python<'_>, bytes: u64) -> PyResult<Py<Region>> {
        Region::register(py, &self.shared, bytes)
    }

    /// Connects to a node, and tries again while it is not there.
    #[pyo3(signature = (peer, *, timeout = 10.0, reliable = true))]
    fn connect(
        &self,
        py: Python<'_>,
        peer: &str,
        timeout: f64,
        reliable: bool,
    ) -> PyResult<Py<PyAny>> {
        self.result(py, self.connecting(py, peer, timeout, reliable)?, None)
    }

    /// Begins `connect`.
    #[pyo3(signature = (peer, *, timeout = 10.0, reliable = true))]
    fn begin_connect(
        &self,
        py: Python<'_>,
        peer: &str,
        timeout: f64,
        reliable: bool,
    ) -> PyResult<Task> {
        Ok(Task::new(&self.shared, self.connecting(py, peer, timeout, reliable)?))
    }

    /// Returns the next connection that a peer has opened.
    #[pyo3(signature = (*, timeout = None))]
    fn accept(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        self.result(py, Node::accepting(), timeout)
    }

    /// Begins `accept`.
    fn begin_accept(&self) -> Task {
        Task::new(&self.shared, Node::accepting())
    }

    /// Returns the next completion, or None. Call it regularly: peers are accepted in here.
    fn poll(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let what = self.shared.with(py, |core| {
            core.drive();
            Ok(core.next())
        })?;
        what.map(|what| completion::object(py, &self.shared, what)).transpose()
    }

    /// Waits for the next completion.
    #[pyo3(signature = (*, timeout = None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        self.result(py, Node::coming(), timeout)
    }

    /// Begins `next`.
    fn begin_next(&self) -> Task {
        Task::new(&self.shared, Node::coming())
    }

    /// Sleeps until there is a completion, for some seconds at most. Returns true if there is one.
    fn wait(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        checked(timeout)?;
        let waiting = Work::new("a completion", |core| Ok(core.has_next().then_some(Value::None)));
        let is_timeout =
            |error: &PyErr| error.is_instance_of::<pyo3::exceptions::PyTimeoutError>(py);
        match finish(py, &self.shared, waiting, Some(timeout)) {
            Err(error) if is_timeout(&error) => Ok(false),
            waited => waited.map(|_| true),
        }
    }

    /// The descriptor that is readable when something arrived, for select and its kin; None: the
    /// link has none. Sleep no longer than `deadline`, then poll.
    #[getter]
    fn descriptor(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        Ok(self.shared.with(py, |core| Ok(core.fabric.descriptor()))?)
    }

    /// The time until the link has work although nothing arrives [s]; None: never.
    #[getter]
    fn deadline(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        Ok(self.shared.with(py, |core| Ok(seconds_to_deadline(core)))?)
    }

    /// Makes a push ring for at least `slots` records of `slot_bytes`.
    #[pyo3(signature = (name, key, *, slots = 1024, slot_bytes = 1500))]
    fn receiver(
        &self,
        py: Python<'_>,
        name: &str,
        key: u64,
        slots: u32,
        slot_bytes: u32,
    ) -> PyResult<Receiver> {
        let name = Name::parse(name).map_err(Fault::from)?;
        let plan = RingPlan::new(name, Key(key), slots, slot_bytes);
        // The memory of a large ring takes a while.
        let number = py.detach(|| {
            self.shared.with_detached(|core| {
                let ring = RingReceiver::open(&mut *core.fabric, &plan)?;
                Ok(core.rings.add_receiver(ring))
            })
        })?;
        Ok(Receiver::new(&self.shared, number))
    }

    /// Opens the sending end of a peer's push ring, and waits until the peer has let it in.
    #[pyo3(
        signature = (peer, name, key, *, timeout = Some(10.0)),
        text_signature = "($self, peer, name, key, *, timeout=10.0)"
    )]
    fn sender(
        &self,
        py: Python<'_>,
        peer: &str,
        name: &str,
        key: u64,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        self.result(py, self.sending(py, peer, name, key)?, timeout)
    }

    /// Begins `sender`.
    fn begin_sender(&self, py: Python<'_>, peer: &str, name: &str, key: u64) -> PyResult<Task> {
        Ok(Task::new(&self.shared, self.sending(py, peer, name, key)?))
    }

    /// Ends the node, its regions, rings and connections. Arrays of its regions stay valid.
    fn close(&self, py: Python<'_>) {
        self.shared.close(py);
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) {
        self.shared.close(py);
    }

    fn __repr__(&self) -> String {
        format!("Node({:?})", self.shared.url)
    }
}
