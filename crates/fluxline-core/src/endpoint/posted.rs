//! Posted work, and the frames that it is cut into.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::even_cut::{OperationHeaders, OwnHeaders, even_frame_bytes, even_part};
use crate::Moment;
use crate::fabric::{Memory, Operation, RemoteId, Status};
use crate::roce::header::{AETH_BYTES, BTH_BYTES, IMMEDIATE_BYTES, RETH_BYTES};
use crate::roce::{
    AtomicEth, Body, ICRC_BYTES, Psn, Reth, SendPart, Transport, UnsummedPacket, WritePart,
};

/// The bytes of a put or a message.
pub(super) enum PayloadSource {
    Bytes(Vec<u8>),
    Memory(Arc<dyn Memory>, u64),
    Gather(Vec<Piece>),
}

/// A piece of own memory in a gather.
pub(super) struct Piece {
    pub memory: Arc<dyn Memory>,
    pub offset: u64,
    pub bytes: u64,
}

/// The reason why a read of the memory of posted work cannot fail. Zeros in its place would reach
/// the peer with a valid check sum.
const CHECKED: &str = "the memory was checked when the work was posted, and a region never shrinks";

impl PayloadSource {
    /// Copies the bytes from `at` on. The memory was checked when the work was posted.
    pub fn copy(&self, at: u64, into: &mut [u8]) {
        match self {
            PayloadSource::Bytes(bytes) => {
                let start = at as usize;
                into.copy_from_slice(&bytes[start..start + into.len()]);
            }
            PayloadSource::Memory(memory, offset) => {
                memory.read(offset + at, into).expect(CHECKED);
            }
            PayloadSource::Gather(pieces) => copy_pieces(pieces, at, into),
        }
    }
}

/// Copies bytes of pieces that lie one after the other, from `at` on.
fn copy_pieces(pieces: &[Piece], mut at: u64, mut into: &mut [u8]) {
    for piece in pieces {
        let bytes = piece.bytes.saturating_sub(at).min(into.len() as u64) as usize;
        let (part, rest) = into.split_at_mut(bytes);
        if bytes > 0 {
            piece.memory.read(piece.offset + at, part).expect(CHECKED);
        }
        (at, into) = (at.saturating_sub(piece.bytes), rest);
    }
}

impl PayloadSource {
    /// Copies the bytes from `at` on into a packet; returns the sum of the packet.
    pub fn copy_summed(&self, at: u64, packet: UnsummedPacket<'_>) -> u32 {
        if let PayloadSource::Memory(memory, offset) = self {
            return memory.read_summed(offset + at, packet).expect(CHECKED);
        }
        let UnsummedPacket { state, bytes, payload, sum } = packet;
        self.copy(at, &mut bytes[payload]);
        sum(state, bytes)
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
    /// The length of each of its frames, if all are equal \[byte\].
    pub even_frame_bytes: Option<u32>,
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
    /// Equal frames leave as trains, and the peer takes any length of frames.
    pub in_trains: bool,
}

/// The next frame of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextPart {
    pub part: FramePart,
    /// Its payload \[byte\].
    pub bytes: u64,
    /// The number of frames, this one included, that follow with the same part and payload.
    pub alike: u64,
}

/// The lengths of the extended headers of an operation \[byte\].
#[derive(Clone, Copy)]
struct ExtendedBytes {
    /// In each frame.
    each: usize,
    /// In the first frame alone.
    first: usize,
    /// In the last frame alone.
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

    /// Returns the extended headers of an operation's frames; `None`: it has no payload to cut.
    fn extended(&self, posted: &Posted) -> Option<ExtendedBytes> {
        match &posted.request {
            Request::Put { notify: None, .. } if self.transport == Transport::Unreliable => {
                // Each frame is a write of its own, so that a lost one affects no other.
                Some(ExtendedBytes { each: RETH_BYTES, first: 0, last: 0 })
            }
            Request::Put { notify, .. } => {
                let last = if notify.is_some() { IMMEDIATE_BYTES } else { 0 };
                Some(ExtendedBytes { each: 0, first: RETH_BYTES, last })
            }
            Request::Send { .. } => Some(ExtendedBytes { each: 0, first: 0, last: 0 }),
            _ => None,
        }
    }

    /// Returns the length that makes all frames of an operation equal, if that is of use.
    #[inline]
    pub fn even_frame_bytes(&self, posted: &Posted) -> Option<u32> {
        if posted.bytes < self.frame_bytes as u64 / 2 {
            return None; // one frame
        }
        let extended = self.extended(posted).filter(|_| self.in_trains)?;
        let headers = OperationHeaders {
            each_bytes: (BTH_BYTES + extended.each + ICRC_BYTES) as u64,
            once_bytes: (extended.first + extended.last) as u64,
        };
        let bytes = even_frame_bytes(self.frame_bytes as u64, posted.bytes, headers)?;
        u32::try_from(bytes).ok()
    }

    /// Returns the next frame of an operation.
    #[inline]
    pub fn next_part(&self, posted: &Posted) -> NextPart {
        let rest = posted.bytes - posted.cut;
        match (self.extended(posted), posted.even_frame_bytes) {
            (Some(extended), Some(bytes)) => self.even_part(posted, &extended, u64::from(bytes)),
            (Some(extended), None) => self.part(posted, &extended),
            (None, _) => {
                let bytes = match posted.request {
                    Request::Get { .. } => rest.min(self.payload(AETH_BYTES)),
                    _ => 0,
                };
                NextPart { part: FramePart::Only, bytes, alike: 1 }
            }
        }
    }

    #[inline]
    fn part(&self, posted: &Posted, extended: &ExtendedBytes) -> NextPart {
        let ExtendedBytes { each, first, last } = *extended;
        let rest = posted.bytes - posted.cut;
        if each > 0 {
            let whole = self.payload(each);
            let alike = (rest / whole.max(1)).max(1);
            return NextPart { part: FramePart::Only, bytes: rest.min(whole), alike };
        }
        let (part, bytes) = match posted.cut == 0 {
            true if rest <= self.payload(first + last) => (FramePart::Only, rest),
            true => (FramePart::First, rest.min(self.payload(first))),
            false if rest <= self.payload(last) => (FramePart::Last, rest),
            false => (FramePart::Middle, rest.min(self.payload(0))),
        };
        let alike = match part {
            // At least one byte stays for the last frame.
            FramePart::Middle => ((rest - 1) / bytes).max(1),
            _ => 1,
        };
        NextPart { part, bytes, alike }
    }

    fn even_part(&self, posted: &Posted, extended: &ExtendedBytes, frame_bytes: u64) -> NextPart {
        let begins = posted.cut == 0;
        let own = OwnHeaders {
            first_bytes: if begins { extended.first as u64 } else { 0 },
            last_bytes: extended.last as u64,
        };
        let content_bytes = frame_bytes - (BTH_BYTES + extended.each + ICRC_BYTES) as u64;
        let even = even_part(content_bytes, posted.bytes - posted.cut, own);
        let bytes = even.payload_bytes;
        if extended.each > 0 {
            return NextPart { part: FramePart::Only, bytes, alike: even.alike };
        }
        match (begins, even.frames_left == 1) {
            (true, true) => NextPart { part: FramePart::Only, bytes, alike: 1 },
            (true, false) => NextPart { part: FramePart::First, bytes, alike: 1 },
            (false, true) => NextPart { part: FramePart::Last, bytes, alike: 1 },
            (false, false) => {
                let alike = even.alike.min(even.frames_left - 1);
                NextPart { part: FramePart::Middle, bytes, alike }
            }
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
