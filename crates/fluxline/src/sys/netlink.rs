//! Netlink sockets: requests and answers as bytes, taken apart elsewhere.
//!
//! Source: Linux man-pages netlink(7), rtnetlink(7).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;

/// A conversation with a part of the kernel, of the network namespace of the thread that began it.
#[derive(Debug)]
pub(crate) struct KernelSocket {
    file: File,
}

impl KernelSocket {
    /// About interfaces, routes and neighbours.
    pub(crate) fn route() -> io::Result<KernelSocket> {
        KernelSocket::open(libc::NETLINK_ROUTE)
    }

    fn open(protocol: libc::c_int) -> io::Result<KernelSocket> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers.
        let descriptor = unsafe { libc::socket(libc::AF_NETLINK, kind, protocol) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `descriptor` was just opened and belongs to nobody else.
        Ok(KernelSocket { file: unsafe { File::from_raw_fd(descriptor) } })
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
