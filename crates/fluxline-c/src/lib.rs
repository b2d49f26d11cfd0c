//! The C library: the programming model, push rings and acquisitions, for C and C++.
//!
//! A thin layer: handles are boxes, identifiers are numbers, failures are codes with a sentence in
//! `fluxline_error`. No panic crosses it: what panics becomes `FLUXLINE_CODE_DEFECT`. The header
//! `include/fluxline.h` is made from this file.
//!
//! All pointers are the caller's promise: a null handle is refused, a wrong one cannot be noticed.
#![allow(unsafe_code, reason = "the border to C is made of pointers")]
#![allow(clippy::missing_safety_doc, reason = "the safety of all calls is stated above, for C")]

mod border;
mod capabilities;
mod completion;
mod link;
mod peers;
mod post;
mod rings;
mod run;
mod work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{CString, c_char, c_void};

use fluxline_core::Span;
use fluxline_core::fabric::push::Rings;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, RegionId, RemoteId, Rights, Work,
};

use border::{Out, OutAll, Refused, bytes, bytes_mut, guard, handle, make, make_all, name, text};
pub use capabilities::*;
pub use completion::*;
use link::Link;
pub use peers::*;
pub use post::*;
pub use rings::*;
pub use run::*;
pub use work::*;

/// The result of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FluxlineCode {
    /// As asked.
    Done = 0,
    /// Nothing there yet; try again.
    Nothing = 1,
    /// The queue or ring is full; poll or wait, then try again.
    Full = 2,
    /// An argument is wrong; fluxline_error() says which.
    Argument = 3,
    /// The link, the host or the peer refused; fluxline_error() says why.
    Refused = 4,
    /// Nothing came in time.
    Timeout = 5,
    /// The other side has gone: it has closed, or its process has died.
    Gone = 6,
    /// A defect of the library; please report it.
    Defect = 7,
}

/// Completions kept while a call waits for another one, at most; the others wait in the link.
const KEPT_MAX: usize = 4096;

/// Rights of a region: peers may write it.
pub const FLUXLINE_PUT: u32 = 1;
/// Rights of a region: peers may read it.
pub const FLUXLINE_GET: u32 = 2;
/// Rights of a region: peers may add to its words and swap them.
pub const FLUXLINE_ATOMIC: u32 = 4;

/// A node on a link.
pub struct FluxlineNode {
    link: Link,
    /// Completions that came while a call waited for another one.
    kept: VecDeque<Completion>,
    rings: Rings,
    /// Imports whose completions fluxline_poll returns.
    imports_begun: BTreeSet<RemoteId>,
    /// The peers of open connections.
    peers: BTreeMap<EndpointId, CString>,
}

/// The sentence of this thread's last failure; valid until its next call.
#[unsafe(no_mangle)]
pub extern "C" fn fluxline_error() -> *const c_char {
    border::error()
}

/// Opens a node and writes it to *node. The URL names the link: `shm://GROUP/NODE` for processes of
/// this host, `udp://ADDRESS[:PORT][/NAME]` with an own address for Ethernet, or
/// `xdp://INTERFACE[:PORT][/NAME]` for the same past the kernel's network stack, or
/// `sim:sci/WORLD/NODE?nodes=N` for a simulated network in virtual time, each node on a thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_open(
    url: *const c_char,
    node: *mut *mut FluxlineNode,
) -> FluxlineCode {
    guard(|| {
        let node = Out::new(node)?;
        let link = Link::open(text(url)?)?;
        make(node, FluxlineNode::new(link));
        Ok(())
    })
}

/// Opens `count` nodes (1 to 64) at the one address of a `udp://` or `xdp://` URL, each for a thread
/// of its own, and writes them to the array `nodes`. Each connection belongs to one of
/// them. Each is closed by itself; the others go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_open_threads(
    url: *const c_char,
    count: u32,
    nodes: *mut *mut FluxlineNode,
) -> FluxlineCode {
    guard(|| {
        let nodes = OutAll::new(nodes, count as usize)?;
        let links = Link::open_threads(text(url)?, count as usize)?;
        make_all(nodes, links.into_iter().map(FluxlineNode::new));
        Ok(())
    })
}

/// Ends a node, its regions, rings and connections. Finish its senders first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_close(node: *mut FluxlineNode) {
    border::end(node);
}

/// Makes a region of zero bytes; its number is written to *region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_register(
    node: *mut FluxlineNode,
    bytes: u64,
    region: *mut u32,
) -> FluxlineCode {
    guard(|| {
        let region = Out::new(region)?;
        let made = handle(node)?.fabric().register(bytes).map_err(Refused::host)?;
        region.put(made.0);
        Ok(())
    })
}

/// Ends a region: peers' later work on it fails, and its name and memory are given back. Push
/// rings are ended by fluxline_receiver_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_withdraw(node: *mut FluxlineNode, region: u32) -> FluxlineCode {
    guard(|| handle(node)?.fabric().withdraw(RegionId(region)).map_err(Refused::argument))
}

/// Lets peers that show the key import the region under that name; rights: FLUXLINE_PUT and so on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_export(
    node: *mut FluxlineNode,
    region: u32,
    region_name: *const c_char,
    key: u64,
    rights: u32,
) -> FluxlineCode {
    guard(|| {
        let known = FLUXLINE_PUT | FLUXLINE_GET | FLUXLINE_ATOMIC;
        if rights & !known != 0 {
            let what = format_args!("rights {rights} are more than FLUXLINE_PUT, _GET and _ATOMIC");
            return Err(Refused::argument(what));
        }
        let has = |right| rights & right != 0;
        let rights =
            Rights { put: has(FLUXLINE_PUT), get: has(FLUXLINE_GET), atomic: has(FLUXLINE_ATOMIC) };
        let grant = Grant { rights, key: Key(key) };
        let region_name = name(region_name)?;
        handle(node)?.fabric().export(RegionId(region), region_name, grant).map_err(Refused::host)
    })
}

/// Copies from an own region into memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_read(
    node: *mut FluxlineNode,
    region: u32,
    offset: u64,
    into: *mut c_void,
    count: usize,
) -> FluxlineCode {
    guard(|| {
        let memory = handle(node)?.fabric().memory(RegionId(region)).map_err(Refused::argument)?;
        memory.read(offset, bytes_mut(into, count)?).map_err(Refused::argument)
    })
}

/// Returns the address and the size of an own region. The memory is the region's own: peers write
/// it at any time. It is valid until the region is withdrawn or the node is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_memory(
    node: *mut FluxlineNode,
    region: u32,
    address: *mut *mut c_void,
    size: *mut u64,
) -> FluxlineCode {
    guard(|| {
        let (address, size) = (Out::new(address)?, Out::new(size)?);
        let memory = handle(node)?.fabric().memory(RegionId(region)).map_err(Refused::argument)?;
        let first = memory.address().ok_or_else(|| Refused::host("the region has no address"))?;
        size.put(memory.bytes());
        address.put(first.as_ptr().cast());
        Ok(())
    })
}

/// Copies into an own region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_write(
    node: *mut FluxlineNode,
    region: u32,
    offset: u64,
    from: *const c_void,
    count: usize,
) -> FluxlineCode {
    guard(|| {
        let memory = handle(node)?.fabric().memory(RegionId(region)).map_err(Refused::argument)?;
        memory.write(offset, bytes(from, count)?).map_err(Refused::argument)
    })
}

/// Returns the sentence of a completion's status; never NULL, valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn fluxline_status_name(status: u32) -> *const c_char {
    border::status_name(status)
}

/// Writes a file descriptor to *descriptor that is readable when something arrived, for epoll and
/// its kin; do not read or close it. Sleep no longer than fluxline_deadline_ms, then call
/// fluxline_poll until it has nothing. FLUXLINE_CODE_REFUSED: this link has none; use
/// fluxline_wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_descriptor(
    node: *mut FluxlineNode,
    descriptor: *mut i32,
) -> FluxlineCode {
    guard(|| {
        let (descriptor, node) = (Out::new(descriptor)?, handle(node)?);
        let none = || Refused::host("this link has no descriptor; use fluxline_wait");
        descriptor.put(node.fabric().descriptor().ok_or_else(none)?);
        Ok(())
    })
}

/// Writes the time until fluxline_poll has work although nothing arrives [ms, rounded up] to
/// *deadline_ms; -1: never.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_deadline_ms(
    node: *mut FluxlineNode,
    deadline_ms: *mut i64,
) -> FluxlineCode {
    guard(|| {
        let (place, node) = (Out::new(deadline_ms)?, handle(node)?);
        let now = node.fabric().now();
        let left = node.fabric().deadline().map(|at| at.since(now));
        place.put(left.map_or(-1, |left| left.as_ns().div_ceil(1_000_000) as i64));
        Ok(())
    })
}

/// The next thing that happened, written to *completion; FLUXLINE_CODE_NOTHING: nothing new. Call
/// it regularly: connections of peers are taken up in here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_poll(
    node: *mut FluxlineNode,
    completion: *mut FluxlineCompletion,
) -> FluxlineCode {
    guard(|| {
        let (completion, node) = (Out::new(completion)?, handle(node)?);
        loop {
            let Some(what) = node.kept.pop_front().or_else(|| node.poll_link()) else {
                return Err(Refused::nothing());
            };
            let Some(of_c) = FluxlineCompletion::of(&what) else { continue };
            if node.is_for_program(what) {
                completion.put(of_c);
                return Ok(());
            }
        }
    })
}

/// Sleeps until fluxline_poll has something, at most timeout_ms of the link's time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_wait(node: *mut FluxlineNode, timeout_ms: u32) -> FluxlineCode {
    guard(|| {
        let node = handle(node)?;
        if node.kept.is_empty() {
            let until = node.fabric().now() + Span::from_ms(timeout_ms.into());
            node.fabric().wait(until);
        }
        Ok(())
    })
}

impl FluxlineNode {
    fn new(link: Link) -> FluxlineNode {
        FluxlineNode {
            link,
            kept: VecDeque::new(),
            rings: Rings::default(),
            imports_begun: BTreeSet::new(),
            peers: BTreeMap::new(),
        }
    }

    /// Returns the next completion of the link that is not a push ring's.
    fn poll_link(&mut self) -> Option<Completion> {
        let FluxlineNode { link, rings, .. } = self;
        rings.poll(link.fabric())
    }

    /// Drives the link and the rings; completions of others are kept for `fluxline_poll`.
    fn drive(&mut self) {
        while self.kept.len() < KEPT_MAX
            && let Some(what) = self.poll_link()
        {
            self.kept.push_back(what);
        }
    }

    /// Polls until `wanted` accepts something; all else is kept for `fluxline_poll`.
    fn wait<T>(
        &mut self,
        timeout_ms: u32,
        wanted: impl Fn(&Completion) -> Option<T>,
    ) -> Result<T, Refused> {
        let until = self.fabric().now() + Span::from_ms(timeout_ms.into());
        loop {
            while self.kept.len() < KEPT_MAX
                && let Some(what) = self.poll_link()
            {
                if let Some(found) = wanted(&what) {
                    return Ok(found);
                }
                self.kept.push_back(what);
            }
            if self.fabric().now() >= until {
                return Err(Refused::timeout(timeout_ms));
            }
            self.fabric().wait(until);
        }
    }

    fn post(&mut self, endpoint: u32, tag: u64, work: Work<'_>) -> Result<(), Refused> {
        self.fabric().post(EndpointId(endpoint), tag, work).map_err(work::not_posted)
    }

    fn fabric(&mut self) -> &mut dyn Fabric {
        self.link.fabric()
    }
}

#[cfg(test)]
mod tests;
