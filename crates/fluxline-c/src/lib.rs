//! The C library: the programming model and push rings, for C and C++.
//!
//! A thin layer: handles are boxes, identifiers are numbers, failures are codes with a sentence in
//! `fluxline_error`. No panic crosses it: what panics becomes `FLUXLINE_CODE_DEFECT`. The header
//! `include/fluxline.h` is made from this file.
//!
//! All pointers are the caller's promise: a null handle is refused, a wrong one cannot be noticed.
#![allow(unsafe_code, reason = "the border to C is made of pointers")]
#![allow(clippy::missing_safety_doc, reason = "the safety of all calls is stated above, for C")]

mod border;
mod link;
mod rings;
mod work;

use std::collections::VecDeque;
use std::ffi::{c_char, c_void};

use fluxline_core::Span;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Operation, RegionId, Reliability, Rights, Status,
    Work,
};

use border::{Out, Refused, bytes, bytes_mut, guard, handle, make, name, text};
use link::Link;
use rings::Rings;
pub use rings::*;
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

/// A completion, from fluxline_poll.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FluxlineKind {
    /// Work posted with a tag is done; see status.
    Completed = 0,
    /// A peer's put with a notification is in place.
    Notified = 1,
    /// A peer has connected.
    Connected = 2,
    /// A connection is over; see status.
    Broken = 3,
    /// A message is in a buffer of fluxline_receive; see status.
    Received = 4,
}

/// Something that became of posted work, or came from a peer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FluxlineCompletion {
    /// The kind of completion.
    pub kind: FluxlineKind,
    /// The connection.
    pub endpoint: u32,
    /// Completed, Received: the caller's tag.
    pub tag: u64,
    /// Completed, Received, Broken: 0 is well; fluxline_status_name has the others.
    pub status: u32,
    /// Notified: which own region.
    pub region: u32,
    /// Notified: where the bytes begin.
    pub offset: u64,
    /// Notified, Received: the number of bytes.
    pub bytes: u64,
    /// Notified: the peer's value. Completed: the word before the operation, for atomics.
    pub value: u64,
}

/// Completions kept while a call waits for another one, at most; the others wait in the link.
const KEPT_MAX: usize = 4096;

/// Rights of a region: peers may write it.
pub const FLUXLINE_PUT: u32 = 1;
/// Rights of a region: peers may read it.
pub const FLUXLINE_GET: u32 = 2;
/// Rights of a region: peers may add to its words and swap them.
pub const FLUXLINE_ATOMIC: u32 = 4;

/// Connections: work is done once and in order, or the connection breaks.
pub const FLUXLINE_RELIABLE: u32 = 0;
/// Connections: loss is counted, and nothing is repeated.
pub const FLUXLINE_UNRELIABLE: u32 = 1;

/// A node on a link.
pub struct FluxlineNode {
    link: Link,
    /// Completions that came while a call waited for another one.
    kept: VecDeque<Completion>,
    rings: Rings,
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
        make(node, FluxlineNode { link, kept: VecDeque::new(), rings: Rings::default() });
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

/// Connects to a node and waits until it has accepted; the connection is written to *endpoint. The
/// peer is a node's name on shm:// and sim:, and `ADDRESS[:PORT]` on udp:// and xdp://.
/// reliability: FLUXLINE_RELIABLE or FLUXLINE_UNRELIABLE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_connect(
    node: *mut FluxlineNode,
    peer: *const c_char,
    reliability: u32,
    timeout_ms: u32,
    endpoint: *mut u32,
) -> FluxlineCode {
    guard(|| {
        let (endpoint, node) = (Out::new(endpoint)?, handle(node)?);
        let reliability = match reliability {
            FLUXLINE_RELIABLE => Reliability::Reliable,
            FLUXLINE_UNRELIABLE => Reliability::Unreliable,
            other => {
                let what =
                    format_args!("reliability {other} is not FLUXLINE_RELIABLE or _UNRELIABLE");
                return Err(Refused::argument(what));
            }
        };
        let endpoint_id = node.fabric().connect(text(peer)?, reliability).map_err(Refused::host)?;
        let status = node.wait(timeout_ms, |what| match *what {
            Completion::Connected { endpoint, .. } if endpoint == endpoint_id => Some(Status::Done),
            Completion::Broken { endpoint, status } if endpoint == endpoint_id => Some(status),
            _ => None,
        });
        if status.is_err() {
            node.forget(endpoint_id);
        }
        border::done(status?)?;
        endpoint.put(endpoint_id.0);
        Ok(())
    })
}

/// Ends a connection, or one that fluxline_connect has not waited for; its imported regions end
/// with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_disconnect(
    node: *mut FluxlineNode,
    endpoint: u32,
) -> FluxlineCode {
    guard(|| handle(node)?.fabric().disconnect(EndpointId(endpoint)).map_err(Refused::gone))
}

/// Imports a peer's region by name and key; its number is written to *remote, its size to *size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_import(
    node: *mut FluxlineNode,
    endpoint: u32,
    region_name: *const c_char,
    key: u64,
    timeout_ms: u32,
    remote: *mut u32,
    size: *mut u64,
) -> FluxlineCode {
    guard(|| {
        let (remote, size, node) = (Out::new(remote)?, Out::new(size)?, handle(node)?);
        let region_name = name(region_name)?;
        let import = node.fabric().import(EndpointId(endpoint), region_name, Key(key));
        let import = import.map_err(Refused::argument)?;
        let completion = node.wait(timeout_ms, |what| match *what {
            Completion::Imported { remote, status, bytes } if remote == import => {
                Some((status, bytes))
            }
            _ => None,
        });
        if completion.is_err() {
            node.link.release(import);
        }
        let (status, found) = completion?;
        border::done(status)?;
        size.put(found);
        remote.put(import.0);
        Ok(())
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
            if let Some(of_c) = completion_of_c(&what) {
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
    /// Returns the next completion of the link that is not a push ring's.
    fn poll_link(&mut self) -> Option<Completion> {
        let FluxlineNode { link, rings, .. } = self;
        let now = link.fabric().now();
        rings.turn(link.fabric(), now);
        while let Some(what) = link.fabric().poll(now) {
            let what = rings.hear(what);
            rings.turn(link.fabric(), now);
            if what.is_some() {
                return what;
            }
        }
        None
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

    /// Ends a connection whose set-up took too long; `fluxline_poll` does not report it.
    fn forget(&mut self, endpoint: EndpointId) {
        if self.fabric().disconnect(endpoint).is_err() {
            return; // it is over already
        }
        while let Some(what) = self.poll_link() {
            match what {
                Completion::Broken { endpoint: of, .. } if of == endpoint => return,
                Completion::Connected { endpoint: of, .. } if of == endpoint => {}
                what => self.kept.push_back(what),
            }
        }
    }

    fn post(&mut self, endpoint: u32, tag: u64, work: Work<'_>) -> Result<(), Refused> {
        self.fabric().post(EndpointId(endpoint), tag, work).map_err(work::not_posted)
    }

    fn fabric(&mut self) -> &mut dyn Fabric {
        self.link.fabric()
    }
}

/// A completion in the layout of C; `None` for those that C programs do not get.
fn completion_of_c(what: &Completion) -> Option<FluxlineCompletion> {
    let blank = |kind, endpoint: EndpointId| FluxlineCompletion {
        kind,
        endpoint: endpoint.0,
        tag: 0,
        status: 0,
        region: 0,
        offset: 0,
        bytes: 0,
        value: 0,
    };
    Some(match *what {
        Completion::Done { endpoint, tag, operation: Operation::Receive, status, value } => {
            let (status, bytes) = (status.number(), value);
            FluxlineCompletion { tag, status, bytes, ..blank(FluxlineKind::Received, endpoint) }
        }
        Completion::Done { endpoint, tag, status, value, .. } => {
            let status = status.number();
            FluxlineCompletion { tag, status, value, ..blank(FluxlineKind::Completed, endpoint) }
        }
        Completion::Notified { endpoint, region, offset, bytes, value } => FluxlineCompletion {
            region: region.0,
            offset,
            bytes,
            value: value.into(),
            ..blank(FluxlineKind::Notified, endpoint)
        },
        Completion::Connected { endpoint, .. } => blank(FluxlineKind::Connected, endpoint),
        Completion::Broken { endpoint, status } => {
            FluxlineCompletion { status: status.number(), ..blank(FluxlineKind::Broken, endpoint) }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
