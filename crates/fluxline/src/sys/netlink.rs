//! A route netlink socket: requests and answers as bytes, taken apart elsewhere.
//!
//! Source: Linux man-pages netlink(7), rtnetlink(7).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;

/// A conversation with the kernel about interfaces, routes and neighbours, of the network
/// namespace of the thread that began it.
#[derive(Debug)]
pub(crate) struct RouteSocket {
    file: File,
}

impl RouteSocket {
    pub(crate) fn open() -> io::Result<RouteSocket> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers.
        let descriptor = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `descriptor` was just opened and belongs to nobody else.
        Ok(RouteSocket { file: unsafe { File::from_raw_fd(descriptor) } })
    }

    /// Sends a request; the kernel has answered it, or begun to, when this returns.
    pub(crate) fn send(&self, request: &[u8]) -> io::Result<()> {
        (&self.file).write_all(request)
    }

    /// One datagram of an answer; `WouldBlock` when there is none. Never waits.
    pub(crate) fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(into)
    }
}
