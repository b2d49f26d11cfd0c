//! Posted work, and the frames that it is cut into.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::Moment;
use crate::fabric::{Memory, Operation, RemoteId, Status};
use crate::roce::header::{AETH_BYTES, BTH_BYTES, IMMEDIATE_BYTES, RETH_BYTES};
use crate::roce::{AtomicEth, Body, ICRC_BYTES, Psn, Reth, SendPart, Transport, WritePart};

/// The bytes of a put or a message.
pub(super) enum PayloadSource {
    Bytes(Vec<u8>),
    Memory(Arc<dyn Memory>, u64),
}

impl PayloadSource {
    /// Copies the bytes from `at` on. The memory was checked when the work was posted.
    pub fn copy(&self, at: u64, into: &mut [u8]) {
        match self {
            PayloadSource::Bytes(bytes) => {
                let start = at as usize;
                into.copy_from_slice(&bytes[start..start + into.len()]);
            }
            PayloadSource::Memory(memory, offset) => {
                if memory.read(offset + at, into).is_err() {
                    into.fill(0); // not reached: a region cannot shrink
                }
            }
        }
    }
}

/// The request that posted work makes of the peer.
pub(super) enum Request {
    Put { from: PayloadSource, key: u32, address: u64, notify: Option<u32> },
    Send { from: PayloadSource },
    Get { into: (Arc<dyn Memory>, u64), key: u32, address: u64 },
    FetchAdd { key: u32, address: u64, add: u64 },
    CompareSwap { key: u32, address: u64, expected: u64, desired: u64 },
    Fence,
    Flush,
}

/// The completion that the program gets of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// Only a failure is reported.
    Failure,
    /// The end is reported, good or bad.
    End,
    /// It has been reported.
    Already,
}

/// Work in the queue.
pub(super) struct Posted {
    pub tag: u64,
    pub request: Request,
    pub report: Report,
    /// The import that it uses, to be marked when the peer has withdrawn it.
    pub remote: Option<RemoteId>,
    /// Bytes to move.
    pub bytes: u64,
    /// Bytes that are already cut into frames.
    pub cut: u64,
    /// All of it is cut into frames.
    pub framed: bool,
    /// Frames that have not arrived.
    pub frames_left: u32,
    pub status: Status,
    pub value: u64,
}

impl Posted {
    pub fn operation(&self) -> Operation {
        match self.request {
            Request::Put { .. } => Operation::Put,
            Request::Send { .. } => Operation::Send,
            Request::Get { .. } => Operation::Get,
            Request::FetchAdd { .. } => Operation::FetchAdd,
            Request::CompareSwap { .. } => Operation::CompareSwap,
            Request::Fence => Operation::Fence,
            Request::Flush => Operation::Flush,
        }
    }

    /// Returns true when nothing is sent for it.
    pub fn is_without_frames(&self) -> bool {
        matches!(self.request, Request::Fence | Request::Flush)
    }

    /// Returns true when each frame of it is done only with an answer of its own.
    pub fn needs_answer(&self) -> bool {
        matches!(
            self.request,
            Request::Get { .. } | Request::FetchAdd { .. } | Request::CompareSwap { .. }
        )
    }
}

/// The position of a frame in its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FramePart {
    First,
    Middle,
    Last,
    Only,
}

/// The state of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameState {
    /// To be sent, for the first time or again.
    Due,
    Flying,
    /// A get, answered before an earlier get; the answer is kept.
    Early,
    /// Received, and kept by the peer until the frames before it have come.
    Held,
    /// Done, and answered where it needs an answer.
    Arrived,
}

/// A frame that has a sequence number.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestFrame {
    /// The operation's number.
    pub of: u64,
    /// Offset of its first byte in the operation.
    pub at: u64,
    pub bytes: u32,
    pub part: FramePart,
    pub state: FrameState,
    /// Sent as an empty write, because the operation was refused.
    pub empty: bool,
    /// The frame is done only with an answer of its own.
    pub needs_answer: bool,
    /// That answer is still missing.
    pub awaits_answer: bool,
    pub tries: u32,
    pub sent: Moment,
    /// Bytes of the peer's receive buffer that it occupies.
    pub cost: u64,
}

/// The longest frames and payloads of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// A frame with all headers \[byte\].
    pub frame_bytes: usize,
    /// A payload: the path MTU of a peer of the standard, else no limit \[byte\].
    pub payload_bytes: usize,
    pub transport: Transport,
}

/// The lengths of the extended headers in the first and in the last frame of an operation
/// \[byte\].
#[derive(Clone, Copy)]
struct ExtendedBytes {
    first: usize,
    last: usize,
}

/// The terms that both ends of a connection agreed on.
pub(super) struct Terms {
    pub shape: Shape,
    pub first: Psn,
    pub credit_bytes: u64,
    pub frame_cost: u64,
    pub bytes_per_s: u64,
}

impl Shape {
    /// The payload that fits after extended headers of `extended_bytes`; a multiple of 4.
    #[inline]
    fn payload(&self, extended_bytes: usize) -> u64 {
        let headers = BTH_BYTES + extended_bytes + ICRC_BYTES;
        (self.frame_bytes.saturating_sub(headers) & !3).min(self.payload_bytes) as u64
    }

    /// Returns the bytes of an answer that fit one frame.
    pub fn answer_bytes(&self) -> usize {
        self.payload(AETH_BYTES) as usize
    }

    /// Returns the next part of an operation and its payload \[byte\].
    #[inline]
    pub fn next_part(&self, posted: &Posted) -> (FramePart, u64) {
        let rest = posted.bytes - posted.cut;
        match &posted.request {
            Request::Get { .. } => (FramePart::Only, rest.min(self.payload(AETH_BYTES))),
            Request::Put { notify: None, .. } if self.transport == Transport::Unreliable => {
                // Each frame is a write of its own, so that a lost one affects no other.
                (FramePart::Only, rest.min(self.payload(RETH_BYTES)))
            }
            Request::Put { notify, .. } => {
                let last = if notify.is_some() { IMMEDIATE_BYTES } else { 0 };
                self.part(posted, ExtendedBytes { first: RETH_BYTES, last })
            }
            Request::Send { .. } => self.part(posted, ExtendedBytes { first: 0, last: 0 }),
            _ => (FramePart::Only, 0),
        }
    }

    #[inline]
    fn part(&self, posted: &Posted, extended: ExtendedBytes) -> (FramePart, u64) {
        let ExtendedBytes { first, last } = extended;
        let rest = posted.bytes - posted.cut;
        match posted.cut == 0 {
            true if rest <= self.payload(first + last) => (FramePart::Only, rest),
            true => (FramePart::First, rest.min(self.payload(first))),
            false if rest <= self.payload(last) => (FramePart::Last, rest),
            false => (FramePart::Middle, rest.min(self.payload(0))),
        }
    }
}

/// Returns the headers that are specific to a frame's operation.
pub(super) fn body(transport: Transport, posted: &Posted, frame: &RequestFrame) -> Body {
    if frame.empty {
        let nothing = Reth { address: 0, key: 0, bytes: 0 };
        return Body::Write(transport, WritePart::Only(nothing, None));
    }
    match posted.request {
        Request::Put { key, address, notify, .. } => {
            let reth = |bytes: u64| Reth { address: address + frame.at, key, bytes: bytes as u32 };
            let part = match frame.part {
                FramePart::First => WritePart::First(reth(posted.bytes)),
                FramePart::Middle => WritePart::Middle,
                FramePart::Last => WritePart::Last(notify),
                FramePart::Only => WritePart::Only(reth(u64::from(frame.bytes)), notify),
            };
            Body::Write(transport, part)
        }
        Request::Get { key, address, .. } => {
            Body::ReadRequest(Reth { address: address + frame.at, key, bytes: frame.bytes })
        }
        Request::FetchAdd { key, address, add } => {
            Body::FetchAdd(AtomicEth { address, key, swap_or_add: add, compare: 0 })
        }
        Request::CompareSwap { key, address, expected, desired } => {
            Body::CompareSwap(AtomicEth { address, key, swap_or_add: desired, compare: expected })
        }
        Request::Send { .. } | Request::Fence | Request::Flush => Body::Send(
            transport,
            match frame.part {
                FramePart::First => SendPart::First,
                FramePart::Middle => SendPart::Middle,
                FramePart::Last => SendPart::Last(None),
                FramePart::Only => SendPart::Only(None),
            },
        ),
    }
}
