//! Batches of UDP with headers that are prepared once: only the system call remains.
//!
//! Source: Linux man-pages recvmmsg(2), sendmmsg(2), udp(7).

use std::io;
use std::os::fd::AsRawFd;

use super::socket::{BATCH_MESSAGES, EMPTY_VECTOR, Socket, empty_headers, parse_control};
use super::socket::{Message, emit_segment_size};
use crate::ring::SLOT_BYTES_ANY;

/// Room for the control data of one message \[byte\]: one entry of 24, or two.
const CONTROL_BYTES: usize = 48;

#[derive(Clone, Copy)]
#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Messages of equal size with headers that point to them. The vectors are never resized, so the
/// data that the headers point to stays in place, also when the batch itself is moved.
pub(crate) struct Batch {
    room: Vec<u8>,
    message_bytes: usize,
    controls: Vec<Control>,
    /// Only the headers point to these.
    _vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Batch {
    /// `messages` of `message_bytes` each, at most [`BATCH_MESSAGES`].
    fn new(messages: usize, message_bytes: usize) -> Batch {
        let messages = messages.clamp(1, BATCH_MESSAGES);
        // Written, not only allocated, because the first access to a page causes a fault.
        let mut room = vec![1; messages * message_bytes];
        let mut controls = vec![Control([0; CONTROL_BYTES]); messages];
        let mut vectors = vec![EMPTY_VECTOR; messages];
        let mut headers = empty_headers::<BATCH_MESSAGES>().to_vec();
        headers.truncate(messages);
        for (index, header) in headers.iter_mut().enumerate() {
            // SAFETY: each index is below the length of all four vectors.
            unsafe {
                let vector = vectors.as_mut_ptr().add(index);
                (*vector).iov_base = room.as_mut_ptr().add(index * message_bytes).cast();
                (*vector).iov_len = message_bytes;
                header.msg_hdr.msg_iov = vector;
                header.msg_hdr.msg_iovlen = 1;
                header.msg_hdr.msg_control = controls.as_mut_ptr().add(index).cast();
            }
        }
        Batch { room, message_bytes, controls, _vectors: vectors, headers }
    }

    /// Makes a batch for sending; with `segment_bytes` above 0, each message is a train of such
    /// datagrams.
    pub(crate) fn to_send(messages: usize, message_bytes: usize, segment_bytes: usize) -> Batch {
        let mut batch = Batch::new(messages, message_bytes);
        for (header, control) in batch.headers.iter_mut().zip(&mut batch.controls) {
            header.msg_hdr.msg_controllen = if segment_bytes > 0 {
                emit_segment_size(&mut control.0, segment_bytes)
            } else {
                0
            };
        }
        batch
    }

    /// Makes a batch for receiving, with room for any datagram or train in each message.
    pub(crate) fn to_receive() -> Batch {
        Batch::new(BATCH_MESSAGES, SLOT_BYTES_ANY)
    }

    pub(crate) fn messages(&self) -> usize {
        self.headers.len()
    }

    /// Writes bytes at an offset from the first byte of the first message.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= self.room.len()), "inside of the batch");
        // SAFETY: checked above to be inside of `room`; `bytes` is borrowed apart from it.
        unsafe {
            let to = self.room.as_mut_ptr().add(offset);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    /// Sends the first `count` messages on a connected socket, waiting for room in its buffer;
    /// returns their number.
    pub(crate) fn send(&mut self, socket: &Socket, count: usize) -> io::Result<usize> {
        let count = count.min(self.headers.len());
        // SAFETY: the first `count` headers point to vectors, control data and bytes that this
        // batch owns and nobody changes during the call.
        let sent = unsafe {
            let fd = socket.descriptor.as_raw_fd();
            libc::sendmmsg(fd, self.headers.as_mut_ptr(), count as u32, 0)
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Receives messages without waiting; returns their number.
    pub(crate) fn receive(&mut self, socket: &Socket) -> io::Result<usize> {
        for header in &mut self.headers {
            header.msg_hdr.msg_controllen = CONTROL_BYTES;
        }
        let count = self.headers.len() as u32;
        // SAFETY: each header points to a vector, control room and bytes that this batch owns,
        // with their lengths; no address is asked for, and no time-out is given.
        let received = unsafe {
            let fd = socket.descriptor.as_raw_fd();
            let headers = self.headers.as_mut_ptr();
            libc::recvmmsg(fd, headers, count, libc::MSG_DONTWAIT, std::ptr::null_mut())
        };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }

    /// Returns message `index` of the last received batch, and the size of its datagrams \[byte\].
    pub(crate) fn message(&self, index: usize) -> (&[u8], usize) {
        let header = &self.headers[index];
        let bytes = (header.msg_len as usize).min(self.message_bytes);
        // SAFETY: `index` is below the number of messages (checked by the line above), each of
        // which has `message_bytes` of `room`, all written since `Batch::new`.
        let bytes = unsafe {
            let first = self.room.as_ptr().add(index * self.message_bytes);
            std::slice::from_raw_parts(first, bytes)
        };
        let mut message = Message::EMPTY;
        let control = header.msg_hdr.msg_controllen.min(CONTROL_BYTES);
        parse_control(&self.controls[index].0[..control], &mut message);
        let segment =
            if message.segment_bytes == 0 { bytes.len() } else { message.segment_bytes as usize };
        (bytes, segment.max(1))
    }
}
