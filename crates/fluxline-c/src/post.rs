//! Work as a structure: every operation, and several with one call.

use std::ffi::c_void;

use fluxline_core::fabric::{EndpointId, Level, Local, RegionId, RemoteId, Slice, Target, Work};

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
    /// Put and Send without from: the own region that has the bytes. Get: the own region for them.
    pub region: u32,
    /// Put, Get, FetchAdd, CompareSwap: the place in the peer's region.
    pub offset: u64,
    /// The place in the own region.
    pub region_offset: u64,
    /// Put, Send: the bytes, which may be changed at once; NULL: those of the own region, which
    /// must not change until the work is copied.
    pub from: *const c_void,
    /// Put, Get, Send: the number of bytes.
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

    /// Returns the source of a put or a message.
    fn local<'a>(&self) -> Result<Local<'a>, Refused> {
        if self.from.is_null() {
            return Ok(Local::Region(self.slice()));
        }
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        Ok(Local::Bytes(bytes(self.from, count)?))
    }

    fn work<'a>(&self) -> Result<Work<'a>, Refused> {
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
                Work::Put { from: self.local()?, to: at, notify, complete_at }
            }
            FluxlineOperation::Get => Work::Get { from: at, into: self.slice() },
            FluxlineOperation::FetchAdd => Work::FetchAdd { at, add: self.operand },
            FluxlineOperation::CompareSwap => {
                Work::CompareSwap { at, expected: self.expected, desired: self.operand }
            }
            FluxlineOperation::Send => Work::Send { from: self.local()?, complete_at },
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

/// Posts works on a connection, in order. The number of those that were taken is written to
/// *posted; the code and fluxline_error() are those of the first that was not.
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
        let mut taken = 0;
        let result = items(works, count).and_then(|works| {
            for work in works {
                let what = work.work()?;
                let endpoint = EndpointId(endpoint);
                node.fabric().post(endpoint, work.tag, what).map_err(not_posted)?;
                taken += 1;
            }
            Ok(())
        });
        posted.put(taken);
        result
    })
}
