//! The messages between drivers: connections, imports, notifications and buffers, as bytes.

use super::address::AddressRange;

/// The longest message \[byte\].
pub const MESSAGE_BYTES_MAX: usize = 112;

/// A message; its names of endpoints are the receiver's, unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Asks for a connection; `endpoint` is the sender's.
    Connect { endpoint: u32, reliable: bool },
    /// Grants it; `own` is the sender's.
    Accept { endpoint: u32, own: u32 },
    /// Refuses it: no room.
    Refuse { endpoint: u32 },
    /// Ends it.
    Disconnect { endpoint: u32 },
    /// Asks for a region; `number` comes back.
    Import { endpoint: u32, number: u32, key: u64, name: String },
    /// Answers: a verdict, and where the region lies.
    Imported { endpoint: u32, number: u32, verdict: Verdict, region: AddressRange },
    /// A put with notify is in place, at this address.
    Notify { endpoint: u32, place: AddressRange, value: u32 },
    /// A buffer for one message of the receiver's program lies there.
    Buffer { endpoint: u32, place: AddressRange },
    /// The first buffer now holds `bytes` of a message of `of` bytes; `withdrawn`: the buffer could
    /// not be written.
    Filled { endpoint: u32, bytes: u64, of: u64, withdrawn: bool },
}

/// The decision about an import, with the rights of the region as bits: 1 put, 2 get, 4 atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The import is granted.
    Granted { rights: u8 },
    /// Nobody exports it.
    NoSuchRegion,
    /// Another key.
    WrongKey,
}

/// Writes values one after the other, little-endian.
struct Pen(Vec<u8>);

impl Pen {
    fn byte(mut self, value: u8) -> Pen {
        self.0.push(value);
        self
    }
    fn int(mut self, value: u32) -> Pen {
        self.0.extend(value.to_le_bytes());
        self
    }
    fn long(mut self, value: u64) -> Pen {
        self.0.extend(value.to_le_bytes());
        self
    }
    fn wide(self, place: AddressRange) -> Pen {
        self.long(place.offset).long(place.bytes)
    }
}

/// Reads them again.
struct Eye<'a>(&'a [u8]);

impl Eye<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }
    fn byte(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }
    fn int(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }
    fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
    fn wide(&mut self) -> Option<AddressRange> {
        Some(AddressRange { offset: self.long()?, bytes: self.long()? })
    }
}

impl Message {
    /// Returns the message as bytes.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let pen = |kind: u8, endpoint: u32| {
            Pen(Vec::with_capacity(MESSAGE_BYTES_MAX)).byte(kind).int(endpoint)
        };
        let pen = match self {
            Message::Connect { endpoint, reliable } => pen(1, *endpoint).byte(u8::from(*reliable)),
            Message::Accept { endpoint, own } => pen(2, *endpoint).int(*own),
            Message::Refuse { endpoint } => pen(3, *endpoint),
            Message::Disconnect { endpoint } => pen(4, *endpoint),
            Message::Import { endpoint, number, key, name } => {
                let mut pen = pen(5, *endpoint).int(*number).long(*key).byte(name.len() as u8);
                pen.0.extend(name.as_bytes());
                pen
            }
            Message::Imported { endpoint, number, verdict, region } => {
                let verdict = match verdict {
                    Verdict::Granted { rights } => *rights,
                    Verdict::NoSuchRegion => 0x10,
                    Verdict::WrongKey => 0x20,
                };
                pen(6, *endpoint).int(*number).byte(verdict).wide(*region)
            }
            Message::Notify { endpoint, place, value } => {
                pen(7, *endpoint).wide(*place).int(*value)
            }
            Message::Buffer { endpoint, place } => pen(8, *endpoint).wide(*place),
            Message::Filled { endpoint, bytes, of, withdrawn } => {
                pen(9, *endpoint).long(*bytes).long(*of).byte(u8::from(*withdrawn))
            }
        };
        pen.0
    }

    /// Reads a message; bytes behind it are ignored. `None`: these bytes are not a message.
    #[must_use]
    pub fn read(text: &[u8]) -> Option<Message> {
        let mut eye = Eye(text);
        let (kind, endpoint) = (eye.byte()?, eye.int()?);
        Some(match kind {
            1 => Message::Connect { endpoint, reliable: eye.byte()? == 1 },
            2 => Message::Accept { endpoint, own: eye.int()? },
            3 => Message::Refuse { endpoint },
            4 => Message::Disconnect { endpoint },
            5 => {
                let (number, key, length) = (eye.int()?, eye.long()?, eye.byte()?);
                let name = eye.0.get(..usize::from(length))?;
                let name = String::from_utf8(name.to_vec()).ok()?;
                Message::Import { endpoint, number, key, name }
            }
            6 => {
                let (number, verdict) = (eye.int()?, eye.byte()?);
                let verdict = match verdict {
                    0x10 => Verdict::NoSuchRegion,
                    0x20 => Verdict::WrongKey,
                    rights => Verdict::Granted { rights },
                };
                Message::Imported { endpoint, number, verdict, region: eye.wide()? }
            }
            7 => Message::Notify { endpoint, place: eye.wide()?, value: eye.int()? },
            8 => Message::Buffer { endpoint, place: eye.wide()? },
            9 => {
                let (bytes, of, withdrawn) = (eye.long()?, eye.long()?, eye.byte()? == 1);
                Message::Filled { endpoint, bytes, of, withdrawn }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{MESSAGE_BYTES_MAX, Message, Verdict};
    use crate::fabric::address::AddressRange;

    #[test]
    fn the_longest_message_is_read_back_and_its_parts_are_not_messages() {
        let longest =
            Message::Import { endpoint: 5, number: 6, key: u64::MAX, name: "n".repeat(64) };
        let region = AddressRange { offset: 1 << 47, bytes: u64::MAX };
        let verdict = Verdict::Granted { rights: 5 };
        let answer = Message::Imported { endpoint: 7, number: 8, verdict, region };
        for message in [longest, answer] {
            let bytes = message.write();
            assert!(bytes.len() <= MESSAGE_BYTES_MAX);
            assert_eq!(Message::read(&bytes), Some(message));
            for length in 0..bytes.len() {
                assert_eq!(Message::read(&bytes[..length]), None, "{length} bytes");
            }
        }
        assert_eq!(Message::read(&[99; 64]), None);
    }
}
