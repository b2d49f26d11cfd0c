//! Work on peers' memory: puts, gets, atomics, messages, and their order.

use std::ffi::c_void;

use fluxline_core::fabric::{
    EndpointId, Level, Local, PostError, RegionId, RemoteId, Slice, Target, Work,
};

use crate::border::{Refused, bytes, guard, handle};
use crate::{FluxlineCode, FluxlineNode};

/// Writes into a peer's region; the bytes may be changed at once. notify: -1 for none, else a value
/// of 32 bits that the owner gets after the bytes are in place. tag: comes back from
/// fluxline_poll when the put is placed; -1: nothing comes back unless it fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_put(
    node: *mut FluxlineNode,
    endpoint: u32,
    remote: u32,
    offset: u64,
    from: *const c_void,
    count: usize,
    notify: i64,
    tag: i64,
) -> FluxlineCode {
    guard(|| {
        let wrong = |what, value: i64, range| {
            Refused::argument(format_args!("{what} is {value}; give -1 for none, or {range}"))
        };
        let value = match notify {
            -1 => None,
            value => {
                Some(u32::try_from(value).map_err(|_| wrong("notify", value, "0 to 2^32 - 1"))?)
            }
        };
        if tag < -1 {
            return Err(wrong("tag", tag, "0 or more"));
        }
        let work = Work::Put {
            from: Local::Bytes(bytes(from, count)?),
            to: Target { remote: RemoteId(remote), offset },
            notify: value,
            complete_at: (tag >= 0).then_some(Level::Placed),
        };
        handle(node)?.post(endpoint, tag.max(0) as u64, work)
    })
}

/// Reads from a peer's region into an own one; the tag comes back from fluxline_poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_get(
    node: *mut FluxlineNode,
    endpoint: u32,
    remote: u32,
    offset: u64,
    into_region: u32,
    into_offset: u64,
    count: u64,
    tag: u64,
) -> FluxlineCode {
    guard(|| {
        let into = Slice { region: RegionId(into_region), offset: into_offset, bytes: count };
        let from = Target { remote: RemoteId(remote), offset };
        handle(node)?.post(endpoint, tag, Work::Get { from, into })
    })
}

/// Adds to an aligned word of a peer's region; tag and what it was come back from fluxline_poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_fetch_add(
    node: *mut FluxlineNode,
    endpoint: u32,
    remote: u32,
    offset: u64,
    add: u64,
    tag: u64,
) -> FluxlineCode {
    guard(|| {
        let at = Target { remote: RemoteId(remote), offset };
        handle(node)?.post(endpoint, tag, Work::FetchAdd { at, add })
    })
}

/// Replaces an aligned word of a peer's region by desired if it is expected; tag and the word
/// before come back from fluxline_poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_compare_swap(
    node: *mut FluxlineNode,
    endpoint: u32,
    remote: u32,
    offset: u64,
    expected: u64,
    desired: u64,
    tag: u64,
) -> FluxlineCode {
    guard(|| {
        let at = Target { remote: RemoteId(remote), offset };
        handle(node)?.post(endpoint, tag, Work::CompareSwap { at, expected, desired })
    })
}

/// Sends a message to the peer, which has posted a buffer for it; the bytes may be changed at once.
/// The tag comes back from fluxline_poll when the message is in the peer's buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_send(
    node: *mut FluxlineNode,
    endpoint: u32,
    from: *const c_void,
    count: usize,
    tag: u64,
) -> FluxlineCode {
    guard(|| {
        let from = Local::Bytes(bytes(from, count)?);
        let complete_at = Some(Level::Placed);
        handle(node)?.post(endpoint, tag, Work::Send { from, complete_at })
    })
}

/// Posts a part of an own region as the buffer for one message of the peer. The tag comes back from
/// fluxline_poll with the number of bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_receive(
    node: *mut FluxlineNode,
    endpoint: u32,
    region: u32,
    offset: u64,
    count: u64,
    tag: u64,
) -> FluxlineCode {
    guard(|| {
        let into = Slice { region: RegionId(region), offset, bytes: count };
        let node = handle(node)?;
        node.fabric().post_receive(EndpointId(endpoint), tag, into).map_err(not_posted)
    })
}

/// Holds back all work that is posted after it until all work before it is placed. Its tag comes
/// back from fluxline_poll at once; a later post may be FLUXLINE_CODE_FULL until then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_fence(
    node: *mut FluxlineNode,
    endpoint: u32,
    tag: u64,
) -> FluxlineCode {
    guard(|| handle(node)?.post(endpoint, tag, Work::Fence))
}

/// Asks for a completion when all work before it is placed; the tag comes back from fluxline_poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_flush(
    node: *mut FluxlineNode,
    endpoint: u32,
    tag: u64,
) -> FluxlineCode {
    guard(|| handle(node)?.post(endpoint, tag, Work::Flush))
}

/// Returns the code and the sentence of work that was not posted.
pub(crate) fn not_posted(error: PostError) -> Refused {
    match error {
        PostError::Full => Refused::of(FluxlineCode::Full, &error),
        PostError::NotConnected => Refused::of(FluxlineCode::Gone, &error),
        _ => Refused::argument(error),
    }
}
