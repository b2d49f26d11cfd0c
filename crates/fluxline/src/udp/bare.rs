//! The bare loop: batched UDP without any processing, for comparison.
//!
//! Headers are prepared once, the caller handles errors, nothing is counted, and the receiver reads
//! only lengths. Compare a rate with the rate of the bare loop in the same run.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::bind::{self, BindError, refused};
use super::receiver::ask_buffer;
use crate::sys::bare::Batch;
use crate::sys::socket::{self, Flag, Socket, Until};

/// Send buffer \[byte\], as [`super::SenderConfig`] asks for.
const SEND_BUFFER_BYTES: i32 = 4 << 20;

/// A connected socket with a batch of equal datagrams, or of trains of them.
pub struct BareSender {
    socket: Socket,
    batch: Batch,
    datagram_bytes: usize,
    train: usize,
}

impl BareSender {
    /// Prepares `messages` of `train` datagrams each; a train of 1 is a single datagram.
    ///
    /// Errors: [`BindError`]. The kernel refuses trains above 65,507 bytes at the first call.
    pub fn open(
        destination: SocketAddr,
        datagram_bytes: usize,
        train: usize,
        messages: usize,
    ) -> Result<BareSender, BindError> {
        let socket =
            Socket::new(destination.ip()).map_err(refused("open a socket", destination))?;
        if socket.set(Flag::SendBufferForce, SEND_BUFFER_BYTES).is_err() {
            socket
                .set(Flag::SendBuffer, SEND_BUFFER_BYTES)
                .map_err(refused("size the send buffer", destination))?;
        }
        socket.connect(destination).map_err(refused("find a route", destination))?;
        let segment = if train > 1 { datagram_bytes } else { 0 };
        let train = train.max(1);
        let batch = Batch::to_send(messages, datagram_bytes * train, segment);
        Ok(BareSender { socket, batch, datagram_bytes, train })
    }

    /// Returns the number of datagrams of a whole batch.
    #[must_use]
    pub fn datagrams(&self) -> usize {
        self.batch.messages() * self.train
    }

    /// Writes the first bytes of datagram `index` of the batch.
    ///
    /// # Panics
    /// When `bytes` does not fit the batch.
    pub fn write(&mut self, index: usize, bytes: &[u8]) {
        self.batch.write(index * self.datagram_bytes, bytes);
    }

    /// Sends the first `datagrams` of the batch, rounded down to whole messages (at least one).
    ///
    /// Returns the datagrams that the kernel took. Errors: the kernel's. Cost: one system call.
    pub fn send(&mut self, datagrams: usize) -> io::Result<usize> {
        let messages = (datagrams / self.train).max(1);
        Ok(self.batch.send(&self.socket, messages)? * self.train)
    }
}

/// A bound socket with room for a batch.
pub struct BareReceiver {
    socket: Socket,
    batch: Batch,
    address: SocketAddr,
}

impl BareReceiver {
    /// Binds a socket with a receive buffer of that size, if granted, and with GRO if requested.
    ///
    /// Errors: [`BindError`], a sentence each.
    pub fn bind(
        address: SocketAddr,
        buffer_bytes: u32,
        gro: bool,
    ) -> Result<BareReceiver, BindError> {
        let socket = Socket::new(address.ip()).map_err(refused("open a socket", address))?;
        ask_buffer(&socket, buffer_bytes).map_err(refused("size the receive buffer", address))?;
        if gro {
            socket.set(Flag::Gro, 1).map_err(refused("switch on UDP_GRO", address))?;
        }
        bind::bind(&socket, address)?;
        let address =
            socket.local_address().map_err(refused("report the local address", address))?;
        Ok(BareReceiver { socket, batch: Batch::to_receive(), address })
    }

    /// Returns the bound address, with the actual port.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the largest number of messages of one call.
    #[must_use]
    pub fn batch(&self) -> usize {
        self.batch.messages()
    }

    /// Fetches messages without waiting; 0 when there are none. Cost: one system call.
    pub fn receive(&mut self) -> io::Result<usize> {
        match self.batch.receive(&self.socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }

    /// Returns the datagrams of message `index` of the last call.
    ///
    /// # Panics
    /// When `index` is not below [`BareReceiver::batch`].
    pub fn datagrams(&self, index: usize) -> impl Iterator<Item = &[u8]> {
        let (bytes, segment) = self.batch.message(index);
        bytes.chunks(segment)
    }

    /// Sleeps until data arrives or the time has passed; returns `true` if there is data.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        socket::wait(&[&self.socket], Until::Readable, timeout)
    }

    /// Returns the number of messages that the kernel dropped at this socket, modulo 2^32.
    pub fn drops(&self) -> io::Result<u32> {
        self.socket.drops()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_arrives_as_it_was_written_single_and_in_trains() {
        for train in [1, 4] {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let mut receiver = BareReceiver::bind(any, 1 << 20, true).unwrap();
            let mut sender = BareSender::open(receiver.local_address(), 100, train, 3).unwrap();
            assert_eq!(sender.datagrams(), 3 * train);
            for index in 0..sender.datagrams() {
                sender.write(index, &[index as u8; 16]);
            }
            assert_eq!(sender.send(3 * train).unwrap(), 3 * train);
            assert_eq!(sender.send(train).unwrap(), train);
            let mut heads = Vec::new();
            while heads.len() < 4 * train {
                assert!(receiver.wait(Duration::from_secs(5)).unwrap(), "only {heads:?} came");
                for index in 0..receiver.receive().unwrap() {
                    for datagram in receiver.datagrams(index) {
                        assert_eq!((datagram.len(), datagram[15]), (100, datagram[0]));
                        heads.push(usize::from(datagram[0]));
                    }
                }
            }
            let expected: Vec<usize> = (0..3 * train).chain(0..train).collect();
            assert_eq!(heads, expected);
            assert_eq!((receiver.receive().unwrap(), receiver.drops().unwrap()), (0, 0));
        }
    }

    #[test]
    #[should_panic(expected = "inside of the batch")]
    fn a_write_beyond_the_batch_is_refused() {
        let receiver = BareReceiver::bind(([127, 0, 0, 1], 0).into(), 1 << 16, false).unwrap();
        let mut sender = BareSender::open(receiver.local_address(), 64, 1, 2).unwrap();
        sender.write(1, &[0; 65]);
    }
}
