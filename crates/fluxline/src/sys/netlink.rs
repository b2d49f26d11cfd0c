//! Netlink sockets: requests and answers as bytes, which other modules parse.
//!
//! Source: Linux man-pages netlink(7), rtnetlink(7).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;

/// A netlink socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct KernelSocket {
    file: File,
}

impl KernelSocket {
    /// Opens a socket for interfaces, routes and neighbours.
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

    /// Sends a request; on return, the kernel has answered it or begun to.
    pub(crate) fn send(&self, request: &[u8]) -> io::Result<()> {
        (&self.file).write_all(request)
    }

    /// Receives one datagram of an answer; fails with `WouldBlock` if no datagram waits. Never
    /// waits.
    pub(crate) fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(into)
    }
}
