//! Completions in the layout of C.

use fluxline_core::fabric::{Completion, EndpointId, Operation, Reliability};

use crate::{FLUXLINE_RELIABLE, FLUXLINE_UNRELIABLE};

/// The kind of a completion.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FluxlineKind {
    /// Posted work is done; see operation and status.
    Completed = 0,
    /// A peer's put with a notification is in place.
    Notified = 1,
    /// A peer has connected, or has accepted; fluxline_peer has its name.
    Connected = 2,
    /// A connection is over; see status.
    Broken = 3,
    /// A message is in a buffer of fluxline_receive; see status.
    Received = 4,
    /// The import of fluxline_begin_import has ended; see status.
    Imported = 5,
}

/// The kind of work: what FluxlineWork asks for, and what a completion reports.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FluxlineOperation {
    /// No operation.
    None = 0,
    /// Writes into a peer's region.
    Put = 1,
    /// Reads from a peer's region into an own one.
    Get = 2,
    /// Adds to a word of a peer's region.
    FetchAdd = 3,
    /// Replaces a word of a peer's region if it has the expected value.
    CompareSwap = 4,
    /// Sends a message into a buffer of the peer.
    Send = 5,
    /// Receives a message; posted by fluxline_receive.
    Receive = 6,
    /// Holds back later work until all earlier work is placed.
    Fence = 7,
    /// Completes when all earlier work is placed.
    Flush = 8,
}

impl FluxlineOperation {
    /// Every operation, in the order of its number.
    pub(crate) const ALL: [FluxlineOperation; 9] = [
        FluxlineOperation::None,
        FluxlineOperation::Put,
        FluxlineOperation::Get,
        FluxlineOperation::FetchAdd,
        FluxlineOperation::CompareSwap,
        FluxlineOperation::Send,
        FluxlineOperation::Receive,
        FluxlineOperation::Fence,
        FluxlineOperation::Flush,
    ];

    fn of(operation: Operation) -> FluxlineOperation {
        match operation {
            Operation::Put => FluxlineOperation::Put,
            Operation::Get => FluxlineOperation::Get,
            Operation::FetchAdd => FluxlineOperation::FetchAdd,
            Operation::CompareSwap => FluxlineOperation::CompareSwap,
            Operation::Send => FluxlineOperation::Send,
            Operation::Receive => FluxlineOperation::Receive,
            Operation::Fence => FluxlineOperation::Fence,
            Operation::Flush => FluxlineOperation::Flush,
            _ => FluxlineOperation::None,
        }
    }
}

/// A completion, from fluxline_poll.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FluxlineCompletion {
    /// The kind of completion.
    pub kind: FluxlineKind,
    /// Completed, Received: the kind of work.
    pub operation: FluxlineOperation,
    /// The connection; not for Imported.
    pub endpoint: u32,
    /// Completed, Received, Broken, Imported: 0 is well; fluxline_status_name has the others.
    pub status: u32,
    /// Completed, Received: the caller's tag.
    pub tag: u64,
    /// Notified: which own region.
    pub region: u32,
    /// Imported: the peer's region.
    pub remote: u32,
    /// Notified: where the bytes begin.
    pub offset: u64,
    /// Notified, Received: the number of bytes. Imported: the region's size.
    pub bytes: u64,
    /// Notified: the peer's value. Completed: the word before the operation, for atomics.
    /// Connected: FLUXLINE_RELIABLE or FLUXLINE_UNRELIABLE.
    pub value: u64,
}

impl FluxlineCompletion {
    /// Returns a completion of this kind, with zeros.
    fn blank(kind: FluxlineKind) -> FluxlineCompletion {
        let operation = FluxlineOperation::None;
        let (endpoint, status, tag, region) = (0, 0, 0, 0);
        let (remote, offset, bytes, value) = (0, 0, 0, 0);
        FluxlineCompletion {
            kind,
            operation,
            endpoint,
            status,
            tag,
            region,
            remote,
            offset,
            bytes,
            value,
        }
    }

    fn at(kind: FluxlineKind, endpoint: EndpointId) -> FluxlineCompletion {
        FluxlineCompletion { endpoint: endpoint.0, ..FluxlineCompletion::blank(kind) }
    }

    /// Returns the completion for C; `None` for kinds that this version does not know.
    pub(crate) fn of(completion: &Completion) -> Option<FluxlineCompletion> {
        let at = FluxlineCompletion::at;
        Some(match *completion {
            Completion::Done { endpoint, tag, operation: Operation::Receive, status, value } => {
                let (status, operation) = (status.number(), FluxlineOperation::Receive);
                let blank = at(FluxlineKind::Received, endpoint);
                FluxlineCompletion { operation, tag, status, bytes: value, ..blank }
            }
            Completion::Done { endpoint, tag, operation, status, value } => {
                let (status, operation) = (status.number(), FluxlineOperation::of(operation));
                let blank = at(FluxlineKind::Completed, endpoint);
                FluxlineCompletion { operation, tag, status, value, ..blank }
            }
            Completion::Notified { endpoint, region, offset, bytes, value } => {
                let (region, value) = (region.0, value.into());
                let blank = at(FluxlineKind::Notified, endpoint);
                FluxlineCompletion { region, offset, bytes, value, ..blank }
            }
            Completion::Connected { endpoint, reliability, .. } => {
                let value = match reliability {
                    Reliability::Reliable => FLUXLINE_RELIABLE,
                    Reliability::Unreliable => FLUXLINE_UNRELIABLE,
                };
                let blank = at(FluxlineKind::Connected, endpoint);
                FluxlineCompletion { value: value.into(), ..blank }
            }
            Completion::Broken { endpoint, status } => {
                let blank = at(FluxlineKind::Broken, endpoint);
                FluxlineCompletion { status: status.number(), ..blank }
            }
            Completion::Imported { remote, status, bytes } => {
                let (remote, status) = (remote.0, status.number());
                let blank = FluxlineCompletion::blank(FluxlineKind::Imported);
                FluxlineCompletion { remote, status, bytes, ..blank }
            }
            _ => return None,
        })
    }
}
