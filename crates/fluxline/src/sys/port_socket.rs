//! Sends many trains to many addresses in one call, and waits, without allocation.
//!
//! Source: Linux man-pages sendmmsg(2), udp(7), ppoll(2).

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::socket::{
    ADDRESS_BYTES, BATCH_MESSAGES, CONTROL_HEAD_BYTES, EMPTY_VECTOR, Socket, emit_address,
    emit_segment_size, empty_headers,
};

/// Ancillary data of one message that is sent \[byte\]: a segment size.
const CONTROL_BYTES: usize = CONTROL_HEAD_BYTES + 8;

/// Messages that a port sends in most calls, at most.
const FEW_MESSAGES: usize = 2;

#[derive(Clone, Copy)]
#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

/// A socket address as the kernel reads it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WireAddress {
    bytes: [u8; ADDRESS_BYTES],
    len: u32,
}

impl WireAddress {
    pub(crate) fn new(address: SocketAddr) -> WireAddress {
        let (bytes, len) = emit_address(address);
        WireAddress { bytes, len }
    }
}

/// One message: a datagram, or a train of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutgoingMessage {
    pub(crate) to: WireAddress,
    /// Its offset in the bytes of all messages.
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// Length of a train's datagrams, of which the last may be shorter; 0: one datagram.
    pub(crate) segment_bytes: usize,
}

impl Socket {
    /// Sends parts of `bytes` without waiting, at most [`BATCH_MESSAGES`] of them.
    ///
    /// Returns the number that the kernel took; an error refers to the first of them.
    pub(crate) fn send_parts(&self, bytes: &[u8], parts: &[OutgoingMessage]) -> io::Result<usize> {
        match parts.len() {
            // To clear the structures of a whole batch costs more than a short message's way.
            ..=FEW_MESSAGES => self.send_at_most::<FEW_MESSAGES>(bytes, parts),
            _ => self.send_at_most::<BATCH_MESSAGES>(bytes, parts),
        }
    }

    fn send_at_most<const MESSAGES: usize>(
        &self,
        bytes: &[u8],
        parts: &[OutgoingMessage],
    ) -> io::Result<usize> {
        let mut headers = empty_headers::<MESSAGES>();
        let mut controls = [Control([0; CONTROL_BYTES]); MESSAGES];
        let mut vectors = [const { EMPTY_VECTOR }; MESSAGES];
        let count = parts.len().min(MESSAGES);
        for (index, part) in parts[..count].iter().enumerate() {
            let own = &bytes[part.start..part.start + part.len];
            vectors[index].iov_base = own.as_ptr().cast_mut().cast();
            vectors[index].iov_len = own.len();
            let header = &mut headers[index].msg_hdr;
            header.msg_name = part.to.bytes.as_ptr().cast_mut().cast();
            header.msg_namelen = part.to.len;
            header.msg_iov = &raw mut vectors[index];
            header.msg_iovlen = 1;
            if part.segment_bytes > 0 {
                let control = &mut controls[index].0;
                header.msg_controllen = emit_segment_size(control, part.segment_bytes);
                header.msg_control = control.as_mut_ptr().cast();
            }
        }
        let fd = self.descriptor.as_raw_fd();
        // SAFETY: the first `count` headers point to vectors and control bytes that live until the
        // end of this function, and to addresses and bytes that the caller lends for the call;
        // the kernel only reads them.
        let sent = unsafe {
            libc::sendmmsg(fd, headers.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT as _)
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Sleeps until the socket is readable (or writable, if requested), or the time has passed;
    /// returns `true` if it is ready. A signal counts as time passed.
    pub(crate) fn wait_ready(&self, writable: bool, timeout: Duration) -> io::Result<bool> {
        let events = if writable { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
        let mut entry = libc::pollfd { fd: self.descriptor.as_raw_fd(), events, revents: 0 };
        let time = libc::timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: `entry` is one writable pollfd; `time` is readable; no signal mask.
        let ready = unsafe { libc::ppoll(&raw mut entry, 1, &raw const time, std::ptr::null()) };
        if ready >= 0 {
            return Ok(ready > 0);
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        }
    }
}
