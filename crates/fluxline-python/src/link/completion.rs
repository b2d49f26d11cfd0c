//! Completions: what `Node.poll` and `Node.next` return.

use std::sync::Arc;

use fluxline_core::fabric;
use fluxline_core::fabric::{Operation, Reliability, Status};
use pyo3::prelude::*;

use super::core::{OWN_TAGS, Shared};
use super::peer::Endpoint;
use super::region::Region;

/// Something that happened on a node. Match its kinds: `case Completion.Notified(value=7):`.
#[pyclass(frozen, module = "fluxline")]
pub enum Completion {
    /// Posted work is done or failed; `tag` is `None` if the program gave no tag.
    Done {
        endpoint: Py<Endpoint>,
        tag: Option<u64>,
        operation: String,
        ok: bool,
        status: String,
        value: u64,
    },
    /// A peer's put with a notification is in place.
    Notified {
        endpoint: Py<Endpoint>,
        region: Option<Py<Region>>,
        offset: u64,
        bytes: u64,
        value: u32,
    },
    /// A peer has connected.
    Connected { endpoint: Py<Endpoint>, peer: String, reliable: bool },
    /// A connection has ended.
    Broken { endpoint: Py<Endpoint>, status: String },
    /// Something that this version of the package does not know.
    Other { text: String },
}

/// Returns a completion as an object of Python.
pub fn object(
    py: Python<'_>,
    shared: &Arc<Shared>,
    what: fabric::Completion,
) -> PyResult<Py<PyAny>> {
    let endpoint = |id, peer| Py::new(py, Endpoint::new(shared, id, peer));
    let made = match what {
        fabric::Completion::Done { endpoint: id, tag, operation, status, value } => {
            Completion::Done {
                endpoint: endpoint(id, None)?,
                tag: (tag < OWN_TAGS).then_some(tag),
                operation: name(operation).to_owned(),
                ok: status == Status::Done,
                status: status.to_string(),
                value,
            }
        }
        fabric::Completion::Notified { endpoint: id, region, offset, bytes, value } => {
            Completion::Notified {
                endpoint: endpoint(id, None)?,
                region: Region::of(py, shared, region)?,
                offset,
                bytes,
                value,
            }
        }
        fabric::Completion::Connected { endpoint: id, peer, reliability } => {
            Completion::Connected {
                endpoint: endpoint(id, Some(peer.clone()))?,
                peer,
                reliable: reliability == Reliability::Reliable,
            }
        }
        fabric::Completion::Broken { endpoint: id, status } => {
            Completion::Broken { endpoint: endpoint(id, None)?, status: status.to_string() }
        }
        other => Completion::Other { text: format!("{other:?}") },
    };
    Ok(made.into_pyobject(py)?.into_any().unbind())
}

fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::Put => "put",
        Operation::Get => "get",
        Operation::FetchAdd => "fetch_add",
        Operation::CompareSwap => "compare_swap",
        Operation::Send => "send",
        Operation::Receive => "receive",
        Operation::Fence => "fence",
        Operation::Flush => "flush",
        _ => "other",
    }
}
