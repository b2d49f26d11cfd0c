//! The register window of a board: reads and writes of 32-bit words by UDP, one at a time.
//!
//! A request is 16 bytes, big-endian: `FLXR`, operation (0 read, 1 write), tag, two bytes of 0,
//! address, value. The answer has 0x80 added to the operation, or 0xC0 where the board refuses the
//! address. A request without an answer is repeated; reading and writing twice is harmless.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Bytes of a request and of an answer; a board may pad the answer.
const MESSAGE_BYTES: usize = 16;
const MAGIC: &[u8; 4] = b"FLXR";
const READ: u8 = 0;
const WRITE: u8 = 1;
/// Added to the operation of an answer; of one that the board refuses.
const ANSWERED: u8 = 0x80;
const REFUSED: u8 = 0xC0;
/// The time after which a request is repeated.
const PATIENCE: Duration = Duration::from_millis(300);
/// The number of times that a request is sent.
const ATTEMPTS: u32 = 10;

/// The reason why an access failed.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The board has no such register, or it cannot be written.
    #[error(
        "the board refuses register {address:#04x}; it is not in its map, or cannot be written"
    )]
    Refused {
        /// The register's address.
        address: u32,
    },
    /// No answer came.
    #[error(
        "{board} did not answer {ATTEMPTS} requests; ping it, and look at its address and the \
         port of its register window"
    )]
    Silent {
        /// The address asked.
        board: SocketAddr,
    },
    /// The socket failed.
    #[error("the socket to {board} failed: {source}")]
    Socket {
        /// The address asked.
        board: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
}

/// A board's register window.
#[derive(Debug)]
pub struct RegisterWindow {
    socket: UdpSocket,
    board: SocketAddr,
    tag: u8,
}

impl RegisterWindow {
    /// Opens the window of the board at an address.
    pub fn open(board: SocketAddr) -> Result<RegisterWindow, AccessError> {
        let any = if board.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let open = || {
            let socket = UdpSocket::bind(any)?;
            socket.connect(board)?;
            Ok(socket)
        };
        let socket = open().map_err(|source| AccessError::Socket { board, source })?;
        Ok(RegisterWindow { socket, board, tag: 0 })
    }

    /// Returns the value of a register.
    pub fn read(&mut self, address: u32) -> Result<u32, AccessError> {
        self.access(READ, address, 0)
    }

    /// Writes a register.
    pub fn write(&mut self, address: u32, value: u32) -> Result<(), AccessError> {
        self.access(WRITE, address, value).map(|_| ())
    }

    fn access(&mut self, operation: u8, address: u32, value: u32) -> Result<u32, AccessError> {
        let board = self.board;
        let broken = |source| AccessError::Socket { board, source };
        self.tag = self.tag.wrapping_add(1);
        let mut request = [0; MESSAGE_BYTES];
        request[..4].copy_from_slice(MAGIC);
        (request[4], request[5]) = (operation, self.tag);
        request[8..12].copy_from_slice(&address.to_be_bytes());
        request[12..].copy_from_slice(&value.to_be_bytes());
        for _ in 0..ATTEMPTS {
            match self.socket.send(&request) {
                Ok(_) => {}
                // An earlier request found nobody at the port.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(broken(error)),
            }
            match self.answer(&request).map_err(broken)? {
                Some((code, value)) if code == operation | ANSWERED => return Ok(value),
                Some(_) => return Err(AccessError::Refused { address }),
                None => {}
            }
        }
        Err(AccessError::Silent { board })
    }

    /// Waits for the answer to a request; returns its operation and value.
    fn answer(&self, request: &[u8; MESSAGE_BYTES]) -> io::Result<Option<(u8, u32)>> {
        let end = Instant::now() + PATIENCE;
        let mut answer = [0; 64];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.set_read_timeout(Some(left))?;
            let bytes = match self.socket.recv(&mut answer) {
                Ok(bytes) => bytes,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Ok(None),
                    io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted => continue,
                    _ => return Err(error),
                },
            };
            let head = &answer[..bytes.min(MESSAGE_BYTES)];
            // Anything else is an answer to an earlier attempt, or nonsense of a stranger.
            let fits = head.len() == MESSAGE_BYTES
                && head[..4] == *MAGIC
                && [request[4] | ANSWERED, request[4] | REFUSED].contains(&head[4])
                && head[5] == request[5]
                && head[8..12] == request[8..12];
            if fits {
                let value = head[12..].first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
                return Ok(Some((head[4], value)));
            }
        }
    }
}
