//! One end of a connection: what waits in its queue, and what of it is under way.

use std::collections::VecDeque;

use fluxline_core::fabric::{
    AccessError, EndpointId, Level, Local, Operation, PostError, RegionId, Reliability, RemoteId,
    Rights, Slice, Status, Target, Work, total_bytes,
};

use super::address::AddressRange;
use super::memory::NodeMemory;
use crate::Instant;

/// The largest put, get or message \[byte\]. A choice: a second of a slow bus.
pub const OPERATION_BYTES_MAX: u64 = 16 << 20;
/// Operations in an endpoint's queue. A choice.
pub const QUEUE_MAX: u32 = 64;

/// Pieces of one gather. A choice.
pub const PIECES_MAX: u32 = 64;

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The peer was asked.
    Connecting,
    /// It stands.
    Open,
    /// It is over.
    Over,
}

/// An end. What is done is done in the order of posting.
#[derive(Debug)]
pub struct Endpoint {
    /// The phase.
    pub phase: Phase,
    /// The other node.
    pub peer: u32,
    /// The other end.
    pub other: u32,
    /// The reliability.
    pub reliability: Reliability,
    /// Work that has not begun.
    pub queue: VecDeque<Queued>,
    /// Work under way, in the order of posting.
    pub running: VecDeque<Running>,
    /// Own buffers for messages, of which the peer knows.
    pub receives: VecDeque<Receive>,
    /// The peer's buffers for messages.
    pub buffers: VecDeque<AddressRange>,
    /// Own regions that the peer imported over this connection.
    pub granted: Vec<RegionId>,
    /// Since when the first of the queue has been waiting for a buffer.
    pub waits_since: Option<Instant>,
    /// A failure of work that was reported as copied: the next flush reports it.
    pub failed: Option<Status>,
}

/// A buffer for one message.
#[derive(Clone, Copy, Debug)]
pub struct Receive {
    /// The caller's.
    pub tag: u64,
    /// In own memory.
    pub into: Slice,
    /// The same as an address.
    pub place: AddressRange,
}

/// A peer's region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Import {
    /// Over which connection.
    pub endpoint: EndpointId,
    /// The address range at the peer, once it is known.
    pub region: Option<AddressRange>,
    /// The rights to it.
    pub rights: Rights,
}

/// Work in a queue.
#[derive(Debug)]
pub struct Queued {
    /// The caller's.
    pub tag: u64,
    /// The action.
    pub act: Act,
    /// The level of its completion, if it is reported.
    pub level: Option<Level>,
}

/// Work under way.
#[derive(Debug)]
pub struct Running {
    /// The queued work.
    pub queued: Queued,
    /// The job or message on which it waits.
    pub job: u64,
    /// True if it was reported already, as copied.
    pub reported: bool,
}

/// The action, in terms of addresses.
#[derive(Debug)]
pub enum Act {
    /// Writes, then notifies.
    Put { from: Source, to: AddressRange, notify: Option<u32> },
    /// Reads into own memory.
    Get { from: AddressRange, into: Slice },
    /// Adds to a word.
    FetchAdd { at: u64, add: u64 },
    /// Replaces a word.
    CompareSwap { at: u64, expected: u64, desired: u64 },
    /// Sends a message.
    Send { from: Source },
    /// Waits until all earlier work is done.
    Flush,
}

/// The source of a put's bytes.
#[derive(Debug)]
pub enum Source {
    /// From here.
    Bytes(Vec<u8>),
    /// From slices of own regions, one after the other.
    Pieces(Vec<Slice>),
}

impl Source {
    /// Returns their number.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::Pieces(pieces) => total_bytes(pieces),
        }
    }

    /// The bytes. Errors: the region was withdrawn.
    pub fn take(&self, memory: &NodeMemory, most: u64) -> Result<Vec<u8>, Status> {
        let most = self.bytes().min(most) as usize;
        match self {
            Source::Bytes(bytes) => Ok(bytes[..most].to_vec()),
            Source::Pieces(pieces) => {
                let mut bytes = vec![0; most];
                let mut rest = &mut bytes[..];
                for slice in pieces {
                    let count = rest.len().min(slice.bytes as usize);
                    let (into, behind) = rest.split_at_mut(count);
                    let region = memory.region(slice.region).map_err(|_| Status::Withdrawn)?;
                    region.words.read(slice.offset, into).map_err(|_| Status::OutOfRegion)?;
                    rest = behind;
                }
                Ok(bytes)
            }
        }
    }
}

impl Queued {
    /// Returns the operation.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match self.act {
            Act::Put { .. } => Operation::Put,
            Act::Get { .. } => Operation::Get,
            Act::FetchAdd { .. } => Operation::FetchAdd,
            Act::CompareSwap { .. } => Operation::CompareSwap,
            Act::Send { .. } => Operation::Send,
            Act::Flush => Operation::Flush,
        }
    }
}

/// The facts that posted work is checked against.
pub struct Check<'a> {
    /// Own memory.
    pub memory: &'a NodeMemory,
    /// Regions of peers.
    pub imports: &'a [Import],
    /// The endpoint of the post.
    pub endpoint: EndpointId,
    /// The reliability of the endpoint.
    pub reliability: Reliability,
}

impl Check<'_> {
    /// Takes work that is legal; copies `Local::Bytes`.
    ///
    /// Rights and bounds are held against what the owner said at the import: what is refused here
    /// would be refused by its adapter.
    pub fn take(&self, tag: u64, work: &Work<'_>) -> Result<Queued, PostError> {
        let always = Some(Level::Placed);
        let (act, level) = match *work {
            Work::Put { from, to, notify, complete_at } => {
                let from = self.source(&from)?;
                let to = self.target(to, from.bytes(), |rights| rights.put)?;
                (Act::Put { from, to, notify }, complete_at)
            }
            Work::Get { from, into } => {
                self.answered()?;
                self.local(into)?;
                let from = self.target(from, into.bytes, |rights| rights.get)?;
                (Act::Get { from, into }, always)
            }
            Work::FetchAdd { at, add } => (Act::FetchAdd { at: self.word(at)?, add }, always),
            Work::CompareSwap { at, expected, desired } => {
                (Act::CompareSwap { at: self.word(at)?, expected, desired }, always)
            }
            Work::Send { from, complete_at } => {
                (Act::Send { from: self.source(&from)? }, complete_at)
            }
            Work::Fence | Work::Flush => (Act::Flush, always),
            other => return Err(PostError::Unsupported { operation: other.operation() }),
        };
        Ok(Queued { tag, act, level })
    }

    fn answered(&self) -> Result<(), PostError> {
        match self.reliability {
            Reliability::Reliable => Ok(()),
            Reliability::Unreliable => Err(PostError::Unreliable),
        }
    }

    fn local(&self, slice: Slice) -> Result<(), PostError> {
        self.memory.place(slice).map_err(PostError::Local)?;
        fits(slice.bytes)
    }

    fn source(&self, from: &Local<'_>) -> Result<Source, PostError> {
        match *from {
            Local::Bytes(bytes) => {
                fits(bytes.len() as u64)?;
                Ok(Source::Bytes(bytes.to_vec()))
            }
            Local::Region(slice) => self.local(slice).map(|()| Source::Pieces(vec![slice])),
            Local::Gather(pieces) => {
                let max = PIECES_MAX;
                if pieces.len() > max as usize {
                    return Err(PostError::Pieces { pieces: pieces.len(), max });
                }
                pieces.iter().try_for_each(|piece| self.local(*piece))?;
                fits(from.bytes())?;
                Ok(Source::Pieces(pieces.to_vec()))
            }
            _ => Err(PostError::Source),
        }
    }

    fn word(&self, at: Target) -> Result<u64, PostError> {
        self.answered()?;
        let place = self.target(at, 8, |rights| rights.atomic)?;
        if at.offset.is_multiple_of(8) {
            Ok(place.offset)
        } else {
            Err(PostError::Remote(AccessError::Unaligned { offset: at.offset }))
        }
    }

    fn target(
        &self,
        target: Target,
        bytes: u64,
        right: impl Fn(Rights) -> bool,
    ) -> Result<AddressRange, PostError> {
        let (region, rights) = self.import(target.remote).ok_or(PostError::NotImported)?;
        let offset = target.offset;
        if !right(rights) {
            return Err(PostError::Remote(AccessError::Rights));
        }
        if offset > region.bytes || bytes > region.bytes - offset {
            let error = AccessError::OutOfRegion { offset, bytes, region_bytes: region.bytes };
            return Err(PostError::Remote(error));
        }
        Ok(AddressRange { offset: region.offset + offset, bytes })
    }

    fn import(&self, remote: RemoteId) -> Option<(AddressRange, Rights)> {
        let import = self.imports.get(remote.0 as usize)?;
        let region = import.region.filter(|_| import.endpoint == self.endpoint)?;
        Some((region, import.rights))
    }
}

fn fits(bytes: u64) -> Result<(), PostError> {
    let max = OPERATION_BYTES_MAX;
    if bytes <= max { Ok(()) } else { Err(PostError::TooLong { bytes, max }) }
}

impl Endpoint {
    /// An end that nothing was posted to.
    #[must_use]
    pub fn new(phase: Phase, peer: u32, other: u32, reliability: Reliability) -> Endpoint {
        Endpoint {
            phase,
            peer,
            other,
            reliability,
            queue: VecDeque::new(),
            running: VecDeque::new(),
            receives: VecDeque::new(),
            buffers: VecDeque::new(),
            granted: Vec::new(),
            waits_since: None,
            failed: None,
        }
    }

    /// Returns true if work or a message may still write this own region.
    #[must_use]
    pub fn fills(&self, region: RegionId) -> bool {
        let work = self.queue.iter().chain(self.running.iter().map(|running| &running.queued));
        let gets = work.filter_map(|queued| match queued.act {
            Act::Get { into, .. } => Some(into),
            _ => None,
        });
        gets.chain(self.receives.iter().map(|of| of.into)).any(|into| into.region == region)
    }

    /// Returns true if another piece of work is taken.
    #[must_use]
    pub fn has_space(&self) -> bool {
        self.queue.len() + self.running.len() < QUEUE_MAX as usize
    }
}
