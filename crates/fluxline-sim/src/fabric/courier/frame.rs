//! Frames of couriers.

use crate::fabric::adapter::Action;
use crate::host::Status;

/// Bytes of a frame besides its data: kind, three numbers of 16 bits and two of 8, address. A
/// choice.
const HEADER_BYTES: u64 = 16;

/// A frame of couriers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The sender.
    pub source: u32,
    /// The receiver.
    pub target: u32,
    /// The number of the request; an inquiry or an answer has none.
    pub request: u64,
    /// The number of the sender's oldest request to the receiver that is not over.
    pub oldest: u64,
    /// The requests of the receiver up to this number are done.
    pub done: u64,
    /// The number of the sender's last inquiry at the receiver.
    pub inquiry: u32,
    /// The number of the receiver's last inquiry that has come.
    pub heard: u32,
    /// True if the sender wants to know what is done.
    pub asks: bool,
    /// The content.
    pub body: Body,
}

/// The content of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A request.
    Ask(Action),
    /// A request for a sign of life.
    Ping,
    /// Asks what is done: an answer is overdue.
    Inquiry,
    /// Those results of requests that are more than "done".
    Answer(Vec<Kept>),
    /// A message of generated traffic, of this number of bytes; it is not answered.
    Load(u32),
}

/// A result that is kept until its requester has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The number of the request.
    pub request: u64,
    /// The bytes that were read, or the reason of a refusal.
    pub result: Result<Vec<u8>, Status>,
}

impl Body {
    /// Returns the length of its data \[byte\].
    pub(super) fn data_bytes(&self) -> u64 {
        match self {
            Body::Ask(Action::Write { data, word, .. }) => {
                (data.len() + word.as_ref().map_or(0, Vec::len)) as u64
            }
            Body::Ask(Action::Message(message)) => message.len() as u64,
            Body::Answer(kept) => {
                let read = |kept: &Kept| kept.result.as_ref().map_or(0, Vec::len) as u64;
                kept.iter().map(read).sum()
            }
            Body::Load(bytes) => u64::from(*bytes),
            Body::Ask(_) | Body::Ping | Body::Inquiry => 0,
        }
    }

    /// Returns the length of the request or of what it brings back, if that is more \[byte\].
    pub(super) fn bytes_both_ways(&self) -> u64 {
        match self {
            Body::Ask(Action::Read { bytes, .. }) => HEADER_BYTES + bytes,
            _ => HEADER_BYTES + self.data_bytes(),
        }
    }

    /// Returns true for an answer with results.
    pub(super) fn has_results(&self) -> bool {
        matches!(self, Body::Answer(kept) if !kept.is_empty())
    }

    /// Returns true if the request brings something back, so that no other is under way with it.
    pub(super) fn brings_back(&self) -> bool {
        match self {
            Body::Ask(Action::Write { .. } | Action::Message(_)) => false,
            Body::Ask(_) => true,
            _ => false,
        }
    }
}

impl Frame {
    /// Makes a frame whose header is filled in when it leaves.
    pub(super) fn new(source: u32, target: u32, request: u64, body: Body) -> Frame {
        let (inquiry, heard) = (0, 0);
        Frame { source, target, request, oldest: 0, done: 0, inquiry, heard, asks: false, body }
    }

    /// Returns the length on the network \[byte\].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        HEADER_BYTES + self.body.data_bytes()
    }

    pub(super) fn bus_bytes(&self) -> u32 {
        u32::try_from(self.bytes()).unwrap_or(u32::MAX)
    }
}
