//! Messages over a TCP connection, with a limit on every wait.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fluxline_core::text::printable;

use super::Message;
use crate::{Error, Stop};

/// The longest message \[byte\]: room for thousands of samples, and the limit of an allocation.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Length in front of a message \[byte\]: a little-endian `u32`.
const HEAD_BYTES: usize = 4;
/// The time between two polls of a connection.
const NAP: Duration = Duration::from_micros(200);
/// Characters shown of a parser's error about bytes from the network.
const ERROR_CHARS_MAX: usize = 200;
/// A peer that takes no byte for this time is gone.
const WRITE_LIMIT: Duration = Duration::from_secs(10);

/// One end of a control connection.
pub struct Channel {
    stream: TcpStream,
    /// Bytes that do not form a whole message yet.
    inbox: Vec<u8>,
    /// The longest message accepted \[byte\].
    message_bytes_max: usize,
}

/// Takes the first message out of the received bytes; `None`: it is not whole yet. No message
/// longer than `message_bytes_max` is waited for.
///
/// Errors: [`Error::Garbled`].
pub fn take_message(
    inbox: &mut Vec<u8>,
    message_bytes_max: usize,
) -> Result<Option<Message>, Error> {
    let Some((head, rest)) = inbox.split_first_chunk::<HEAD_BYTES>() else {
        return Ok(None);
    };
    let bytes = u32::from_le_bytes(*head) as usize;
    if bytes > message_bytes_max {
        return Err(Error::Garbled { what: format!("a message of {bytes} bytes") });
    }
    let Some(body) = rest.get(..bytes) else { return Ok(None) };
    let message = serde_json::from_slice(body).map_err(|error| {
        // The error quotes received bytes.
        let why = printable(&error.to_string(), ERROR_CHARS_MAX);
        Error::Garbled { what: format!("no message ({why})") }
    })?;
    inbox.drain(..HEAD_BYTES + bytes);
    Ok(Some(message))
}

impl Channel {
    /// Takes a connection. Errors: the host's.
    pub fn new(stream: TcpStream) -> Result<Channel, Error> {
        Channel::with_limit(stream, MESSAGE_BYTES_MAX)
    }

    /// Takes a connection whose messages may have at most `message_bytes_max` bytes. A peer that
    /// has not shown the key gets no more memory. Errors: the host's.
    pub fn with_limit(stream: TcpStream, message_bytes_max: usize) -> Result<Channel, Error> {
        let set = || {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)
        };
        set().map_err(Error::host("the control connection"))?;
        Ok(Channel { stream, inbox: Vec::new(), message_bytes_max })
    }

    /// Accepts messages up to [`MESSAGE_BYTES_MAX`] from now on.
    pub fn lift_limit(&mut self) {
        self.message_bytes_max = MESSAGE_BYTES_MAX;
    }

    /// Sends a message to a peer that has not shown the key, as far as that is possible at once.
    pub fn send_if_possible(&mut self, message: &Message) {
        if let Ok(bytes) = encoded(message) {
            // Nobody waits for it.
            let _ = self.stream.write(&bytes);
        }
    }

    /// Returns the connection, for its addresses.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends a message. Errors: the peer is gone, or takes nothing for ten seconds.
    pub fn send(&mut self, message: &Message) -> Result<(), Error> {
        self.write(&encoded(message)?)
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        let mut taken = Instant::now();
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(gone("it takes no bytes")),
                Ok(count) => {
                    bytes = &bytes[count..];
                    taken = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if taken.elapsed() > WRITE_LIMIT {
                        return Err(gone("it takes no bytes"));
                    }
                    std::thread::sleep(NAP);
                }
                Err(error) => return Err(gone(&error.to_string())),
            }
        }
        Ok(())
    }

    /// Returns the next message that has arrived. Errors: the peer is gone, or sends no messages.
    /// Cost: a system call.
    pub fn poll(&mut self) -> Result<Option<Message>, Error> {
        if let Some(message) = self.take()? {
            return Ok(Some(message));
        }
        let mut bytes = [0; 16 << 10];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(gone("it closed the control connection")),
                Ok(count) => {
                    self.inbox.extend_from_slice(&bytes[..count]);
                    if let Some(message) = self.take()? {
                        return Ok(Some(message));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(gone(&error.to_string())),
            }
        }
    }

    fn take(&mut self) -> Result<Option<Message>, Error> {
        take_message(&mut self.inbox, self.message_bytes_max)
    }

    /// Returns true if the peer has closed it; its earlier messages can still be polled. Cost: a
    /// system call.
    pub fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        match self.stream.peek(&mut byte) {
            Ok(count) => count == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    /// Returns true if the peer closes it within `limit` without another message.
    pub fn closes(&mut self, limit: Duration) -> bool {
        let began = Instant::now();
        while began.elapsed() < limit {
            match self.poll() {
                Ok(None) => std::thread::sleep(NAP),
                Ok(Some(_)) => return false,
                Err(_) => return true,
            }
        }
        false
    }

    /// Waits for the next message; `None`: none within `limit`. Errors: as [`Channel::poll`], or
    /// over.
    pub fn wait(&mut self, limit: Duration, stop: &Stop) -> Result<Option<Message>, Error> {
        let began = Instant::now();
        loop {
            if let Some(message) = self.poll()? {
                return Ok(Some(message));
            }
            stop.check()?;
            let Some(left) = limit.checked_sub(began.elapsed()).filter(|left| !left.is_zero())
            else {
                return Ok(None);
            };
            std::thread::sleep(NAP.min(left));
        }
    }
}

/// Encodes a message with its length in front. Errors: it is too long.
fn encoded(message: &Message) -> Result<Vec<u8>, Error> {
    let body = serde_json::to_vec(message)
        .map_err(|error| Error::Defect { what: format!("a message: {error}") })?;
    if body.len() > MESSAGE_BYTES_MAX {
        return Err(Error::Defect { what: format!("a message of {} bytes", body.len()) });
    }
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(body);
    Ok(bytes)
}

fn gone(how: &str) -> Error {
    Error::PeerGone { how: how.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::control::Greeting;
    use serde_json::json;

    fn pair() -> (Channel, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let theirs = TcpStream::connect(address).expect("listens");
        let (ours, _) = listener.accept().expect("connected");
        (Channel::new(ours).expect("a socket"), theirs)
    }

    fn waited(channel: &mut Channel) -> Result<Option<Message>, Error> {
        channel.wait(Duration::from_secs(5), &Stop::default())
    }

    #[test]
    fn messages_arrive_whole_whatever_the_pieces() {
        let (mut channel, theirs) = pair();
        let mut other = Channel::new(theirs.try_clone().expect("a socket")).expect("a socket");
        let long = Message::Tell { value: json!("x".repeat(1 << 20)) };
        let sent = long.clone();
        let thread = std::thread::spawn(move || {
            other.send(&sent).expect("sent");
            let hello = Message::Hello {
                greeting: Greeting::ours(),
                key: "k".into(),
                link: "udp://10.0.0.7".into(),
            };
            let body = serde_json::to_vec(&hello).expect("JSON");
            let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
            bytes.extend(body);
            for piece in bytes.chunks(3) {
                other.write(piece).expect("sent");
            }
            hello
        });
        assert_eq!(waited(&mut channel).expect("a message"), Some(long));
        assert_eq!(waited(&mut channel).expect("a message"), thread.join().ok());
    }

    #[test]
    fn garbage_and_great_lengths_are_rejected_and_an_end_is_reported() {
        for bytes in [&[0xFF; 8][..], &[2, 0, 0, 0, b'h', b'i'], b"GET / HTTP/1.1\r\n\r\n"] {
            let (mut channel, mut theirs) = pair();
            theirs.write_all(bytes).expect("sent");
            let error = waited(&mut channel).expect_err("no message");
            assert!(matches!(error, Error::Garbled { .. }), "{bytes:?}: {error}");
        }
        let (mut channel, theirs) = pair();
        drop(theirs);
        let error = waited(&mut channel).expect_err("gone");
        assert!(matches!(error, Error::PeerGone { .. }), "{error}");
    }

    #[test]
    fn silence_is_waited_for_as_long_as_asked() {
        let (mut channel, _theirs) = pair();
        let heard = channel.wait(Duration::from_millis(20), &Stop::default());
        assert!(matches!(heard, Ok(None)));
    }
}
