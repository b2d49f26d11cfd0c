//! Work as a structure: every operation, and several with one call.

use std::ffi::c_void;

use fluxline_core::fabric::{
    EndpointId, Level, Local, Post, RegionId, RemoteId, Slice, Target, Work,
};

use crate::border::{Out, Refused, bytes, guard, handle, items};
use crate::work::not_posted;
use crate::{FluxlineCode, FluxlineNode, FluxlineOperation};

/// The progress at which work completes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FluxlineLevel {
    /// Only a failure is reported. Gets, atomics, fences and flushes always complete.
    Never = 0,
    /// The source may be used again; the link has taken responsibility.
    Copied = 1,
    /// The bytes are in the peer's memory.
    Placed = 2,
}

/// A part of an own region.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FluxlineSlice {
    /// The region.
    pub region: u32,
    /// The place of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// Work for fluxline_post. Zeros are the defaults; fields of other operations are ignored.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FluxlineWork {
    /// The operation: FLUXLINE_OPERATION_PUT and so on.
    pub operation: u32,
    /// Put, Send: when it completes: FLUXLINE_LEVEL_NEVER, _COPIED or _PLACED.
    pub complete_at: u32,
    /// Comes back in the completion.
    pub tag: u64,
    /// Put, Get, FetchAdd, CompareSwap: the peer's region.
    pub remote: u32,
    /// Put: 1 to notify the owner.
    pub notify: u32,
    /// Put: the value of the notification.
    pub value: u32,
    /// Put and Send without from and pieces: the own region that has the bytes. Get: the own region
    /// for them.
    pub region: u32,
    /// Put, Get, FetchAdd, CompareSwap: the place in the peer's region.
    pub offset: u64,
    /// The place in the own region.
    pub region_offset: u64,
    /// Put, Send: the bytes, which may be changed at once; NULL: those of the own region, which
    /// must not change until the work is copied.
    pub from: *const c_void,
    /// Put, Send without from: parts of own regions whose bytes follow one another; at most
    /// pieces_max of fluxline_capabilities. NULL: one part.
    pub pieces: *const FluxlineSlice,
    /// Put, Send: the number of pieces.
    pub piece_count: u64,
    /// Put, Get, Send: the number of bytes; not for pieces.
    pub count: u64,
    /// FetchAdd: the addend. CompareSwap: the new value.
    pub operand: u64,
    /// CompareSwap: the value that the word must have.
    pub expected: u64,
}

impl FluxlineWork {
    fn slice(&self) -> Slice {
        let (region, offset) = (RegionId(self.region), self.region_offset);
        Slice { region, offset, bytes: self.count }
    }

    /// Returns the pieces of a gather.
    fn pieces(&self) -> Result<Vec<Slice>, Refused> {
        let count = if self.pieces.is_null() { 0 } else { self.piece_count };
        let pieces = items(self.pieces, usize::try_from(count).unwrap_or(usize::MAX))?;
        let slice = |of: &FluxlineSlice| Slice {
            region: RegionId(of.region),
            offset: of.offset,
            bytes: of.bytes,
        };
        Ok(pieces.iter().map(slice).collect())
    }

    /// Returns the source of a put or a message; `pieces` are its own.
    fn local<'a>(&self, pieces: &'a [Slice]) -> Result<Local<'a>, Refused> {
        if self.from.is_null() && !self.pieces.is_null() {
            return Ok(Local::Gather(pieces));
        }
        if self.from.is_null() {
            return Ok(Local::Region(self.slice()));
        }
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        Ok(Local::Bytes(bytes(self.from, count)?))
    }

    fn work<'a>(&self, pieces: &'a [Slice]) -> Result<Work<'a>, Refused> {
        let at = Target { remote: RemoteId(self.remote), offset: self.offset };
        let complete_at = level(self.complete_at)?;
        let notify = (self.notify != 0).then_some(self.value);
        let operation = FluxlineOperation::ALL.get(self.operation as usize);
        let unknown = || {
            let number = self.operation;
            Refused::argument(format_args!("operation {number} is not one of FluxlineOperation"))
        };
        Ok(match *operation.ok_or_else(unknown)? {
            FluxlineOperation::Put => {
                Work::Put { from: self.local(pieces)?, to: at, notify, complete_at }
            }
            FluxlineOperation::Get => Work::Get { from: at, into: self.slice() },
            FluxlineOperation::FetchAdd => Work::FetchAdd { at, add: self.operand },
            FluxlineOperation::CompareSwap => {
                Work::CompareSwap { at, expected: self.expected, desired: self.operand }
            }
            FluxlineOperation::Send => Work::Send { from: self.local(pieces)?, complete_at },
            FluxlineOperation::Fence => Work::Fence,
            FluxlineOperation::Flush => Work::Flush,
            FluxlineOperation::None => return Err(Refused::argument("the work has no operation")),
            FluxlineOperation::Receive => {
                return Err(Refused::argument("buffers are posted by fluxline_receive"));
            }
        })
    }
}

/// Returns the level of this number.
fn level(number: u32) -> Result<Option<Level>, Refused> {
    const NEVER: u32 = FluxlineLevel::Never as u32;
    const COPIED: u32 = FluxlineLevel::Copied as u32;
    const PLACED: u32 = FluxlineLevel::Placed as u32;
    match number {
        NEVER => Ok(None),
        COPIED => Ok(Some(Level::Copied)),
        PLACED => Ok(Some(Level::Placed)),
        other => {
            Err(Refused::argument(format_args!("complete_at {other} is not one of FluxlineLevel")))
        }
    }
}

/// Posts works on a connection, in order; the peer is woken once for all of them. The number of
/// those that were taken is written to *posted; the code and fluxline_error() are those of the
/// first that was not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_post(
    node: *mut FluxlineNode,
    endpoint: u32,
    works: *const FluxlineWork,
    count: usize,
    posted: *mut usize,
) -> FluxlineCode {
    guard(|| {
        let (posted, node) = (Out::new(posted)?, handle(node)?);
        let (taken, result) = match items(works, count) {
            Ok(works) => node.post_all(EndpointId(endpoint), works),
            Err(refused) => (0, Err(refused)),
        };
        posted.put(taken);
        result
    })
}

impl FluxlineNode {
    /// Posts works up to the first that is refused; returns the number of those before it.
    fn post_all(
        &mut self,
        endpoint: EndpointId,
        works: &[FluxlineWork],
    ) -> (usize, Result<(), Refused>) {
        let pieces: Result<Vec<_>, _> = works.iter().map(FluxlineWork::pieces).collect();
        let pieces = match pieces {
            Ok(pieces) => pieces,
            Err(refused) => return (0, Err(refused)),
        };
        let (mut posts, mut wrong) = (Vec::with_capacity(works.len()), Ok(()));
        for (work, pieces) in works.iter().zip(&pieces) {
            match work.work(pieces) {
                Ok(what) => posts.push(Post { tag: work.tag, work: what }),
                Err(refused) => {
                    wrong = Err(refused);
                    break;
                }
            }
        }
        match self.fabric().post_all(endpoint, &posts) {
            Ok(()) => (posts.len(), wrong),
            Err(batch) => (batch.accepted, Err(not_posted(batch.error))),
        }
    }
}
