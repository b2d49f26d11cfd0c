//! Connections to peers, and imports of their regions.

use std::ffi::{CString, c_char, c_void};

use fluxline_core::Span;
use fluxline_core::fabric::connect::{Connector, NoConnection};
use fluxline_core::fabric::{Completion, EndpointId, ImportError, Key, Reliability, RemoteId};

use crate::border::{self, Out, Refused, guard, handle, name, text};
use crate::{FluxlineCode, FluxlineNode};

/// The longest sleep while a peer is to be tried again.
const CONNECT_PAUSE: Span = Span::from_ms(1);

/// Connections: work is done once and in order, or the connection breaks.
pub const FLUXLINE_RELIABLE: u32 = 0;
/// Connections: loss is counted, and nothing is repeated.
pub const FLUXLINE_UNRELIABLE: u32 = 1;

/// Connects to a node and waits until it has accepted; the connection is written to *endpoint. A
/// peer that is not there yet is tried again until timeout_ms have passed. The peer is a node's name on shm:// and sim:, and `ADDRESS[:PORT]` on udp:// and xdp://.
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
        let (place, node) = (Out::new(endpoint)?, handle(node)?);
        let peer = text(peer)?;
        let endpoint = node.connect_wait(peer, reliability_of(reliability)?, timeout_ms)?;
        node.peers.insert(endpoint, name_of_c(peer));
        place.put(endpoint.0);
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
        let import = node.import(endpoint, region_name, key)?;
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

/// Begins a connection; its number is written to *endpoint. fluxline_poll returns
/// FLUXLINE_KIND_CONNECTED or FLUXLINE_KIND_BROKEN with it. Arguments as in fluxline_connect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_begin_connect(
    node: *mut FluxlineNode,
    peer: *const c_char,
    reliability: u32,
    endpoint: *mut u32,
) -> FluxlineCode {
    guard(|| {
        let (endpoint, node) = (Out::new(endpoint)?, handle(node)?);
        let reliability = reliability_of(reliability)?;
        let begun = node.fabric().connect(text(peer)?, reliability).map_err(Refused::host)?;
        endpoint.put(begun.0);
        Ok(())
    })
}

/// Begins an import; its number is written to *remote. fluxline_poll returns
/// FLUXLINE_KIND_IMPORTED with it, a status and the region's size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_begin_import(
    node: *mut FluxlineNode,
    endpoint: u32,
    region_name: *const c_char,
    key: u64,
    remote: *mut u32,
) -> FluxlineCode {
    guard(|| {
        let (remote, node) = (Out::new(remote)?, handle(node)?);
        let import = node.import(endpoint, region_name, key)?;
        node.imports_begun.insert(import);
        remote.put(import.0);
        Ok(())
    })
}

/// Returns the name or address of a connection's peer. It is valid until fluxline_poll returns
/// FLUXLINE_KIND_BROKEN with the connection. NULL: the connection is not known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_peer(node: *mut FluxlineNode, endpoint: u32) -> *const c_char {
    let peer = handle(node).ok().and_then(|node| node.peers.get(&EndpointId(endpoint)));
    peer.map_or(std::ptr::null(), |peer| peer.as_ptr())
}

/// Maps a peer's region into this process, where the link can (shm://): stores through *address
/// change the peer's memory. The rights must be FLUXLINE_PUT and FLUXLINE_GET. It is valid until
/// the connection ends. FLUXLINE_CODE_REFUSED: use fluxline_put and fluxline_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_window(
    node: *mut FluxlineNode,
    remote: u32,
    address: *mut *mut c_void,
    size: *mut u64,
) -> FluxlineCode {
    guard(|| {
        let (address, size, node) = (Out::new(address)?, Out::new(size)?, handle(node)?);
        let window = node.fabric().window(RemoteId(remote)).map_err(Refused::argument)?;
        let none = || Refused::host("this link maps no regions of peers; use puts and gets");
        let window = window.ok_or_else(none)?;
        let rights = "a window needs the rights to put and to get";
        let first = window.address().ok_or_else(|| Refused::host(rights))?;
        size.put(window.bytes());
        address.put(first.as_ptr().cast());
        Ok(())
    })
}

fn reliability_of(number: u32) -> Result<Reliability, Refused> {
    match number {
        FLUXLINE_RELIABLE => Ok(Reliability::Reliable),
        FLUXLINE_UNRELIABLE => Ok(Reliability::Unreliable),
        other => Err(Refused::argument(format_args!(
            "reliability {other} is not FLUXLINE_RELIABLE or _UNRELIABLE"
        ))),
    }
}

fn name_of_c(peer: &str) -> CString {
    CString::new(peer).unwrap_or_default()
}

impl FluxlineNode {
    /// Connects to a peer that may come later.
    fn connect_wait(
        &mut self,
        peer: &str,
        reliability: Reliability,
        timeout_ms: u32,
    ) -> Result<EndpointId, Refused> {
        let until = self.fabric().now() + Span::from_ms(timeout_ms.into());
        let mut connector = Connector::new(peer, reliability, until);
        loop {
            self.drive();
            for what in std::mem::take(&mut self.kept) {
                self.kept.extend(connector.handle(what));
            }
            match connector.progress(self.fabric()) {
                Ok(Some(endpoint)) => return Ok(endpoint),
                Ok(None) => {
                    let soon = self.fabric().now() + CONNECT_PAUSE;
                    self.fabric().wait(until.min(soon));
                }
                Err(late @ NoConnection::Late { .. }) => {
                    return Err(Refused::of(FluxlineCode::Timeout, &late));
                }
                Err(refused) => return Err(Refused::host(refused)),
            }
        }
    }

    fn import(
        &mut self,
        endpoint: u32,
        region_name: *const c_char,
        key: u64,
    ) -> Result<RemoteId, Refused> {
        let region_name = name(region_name)?;
        let import = self.fabric().import(EndpointId(endpoint), region_name, Key(key));
        import.map_err(|error| match error {
            ImportError::NotConnected => Refused::gone(error),
            error => Refused::argument(error),
        })
    }

    /// Keeps the names of peers, from their connection to its end. Returns false for the end of an
    /// import that no call waits for any more.
    pub(crate) fn is_for_program(&mut self, completion: Completion) -> bool {
        match completion {
            Completion::Connected { endpoint, peer, .. } => {
                self.peers.insert(endpoint, name_of_c(&peer));
            }
            Completion::Broken { endpoint, .. } => {
                self.peers.remove(&endpoint);
            }
            Completion::Imported { remote, .. } => return self.imports_begun.remove(&remote),
            _ => {}
        }
        true
    }
}
