//! The messages between drivers: blocks of 64 bytes in a mailbox.
//!
//! SCI has no messages, no connections and no keys: a driver writes a message into a slot of the
//! other's mailbox. Each block ends with its number, so that one write of 64 bytes brings both, and
//! a block that comes late, twice or out of order does no harm: the slots are read in the order of
//! numbers.

use crate::world::address::AddressRange;

/// Bytes of a block: one write64.
pub const BLOCK_BYTES: usize = 64;
/// Bytes of a block before its number.
const TEXT_BYTES: usize = 56;
/// Blocks of a slot.
const SLOT_BLOCKS: usize = 2;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = SLOT_BLOCKS * BLOCK_BYTES;
/// Slots of a mailbox: messages that are on their way or not read yet.
pub const SLOTS: u32 = 32;
/// Bytes of a mailbox: one page of 4 KiB for each source.
pub const MAILBOX_BYTES: usize = SLOTS as usize * SLOT_BYTES;

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
    fn write(&self) -> Vec<u8> {
        let pen =
            |kind: u8, endpoint: u32| Pen(Vec::with_capacity(SLOT_BYTES)).byte(kind).int(endpoint);
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

    fn read(text: &[u8]) -> Option<Message> {
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

    /// Returns the blocks of the message with this number, in the layout of its slot.
    #[must_use]
    pub fn blocks(&self, number: u32) -> Vec<u8> {
        let text = self.write();
        let count = text.len().div_ceil(TEXT_BYTES);
        debug_assert!(count <= SLOT_BLOCKS, "the longest message is an import's");
        let mut blocks = Vec::with_capacity(count * BLOCK_BYTES);
        for piece in text.chunks(TEXT_BYTES) {
            blocks.extend(piece);
            blocks.resize(blocks.len().next_multiple_of(BLOCK_BYTES) - 8, 0);
            blocks.extend(number.to_le_bytes());
            blocks.extend([count as u8, 0, 0, 0]);
        }
        blocks
    }
}

/// The slots that one source writes, and which message is read next.
#[derive(Debug)]
pub struct Mailbox {
    slots: Vec<u8>,
    next: u32,
}

impl Default for Mailbox {
    fn default() -> Mailbox {
        Mailbox { slots: vec![0; MAILBOX_BYTES], next: 1 }
    }
}

/// The result of looking into a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The next message is not complete.
    Nothing,
    /// The next message made no sense, and is skipped.
    Unreadable,
    /// The next message.
    Message(Message),
}

impl Mailbox {
    /// A block came. Errors: it is not inside, or not a block.
    pub fn write(&mut self, at: usize, data: &[u8]) -> Result<(), OutsideMailbox> {
        let sound = at.is_multiple_of(BLOCK_BYTES) && data.len() == BLOCK_BYTES;
        let place = self.slots.get_mut(at..at.saturating_add(data.len()));
        place.filter(|_| sound).ok_or(OutsideMailbox)?.copy_from_slice(data);
        Ok(())
    }

    /// Takes the next message, once all its blocks are there.
    pub fn take(&mut self) -> Taken {
        let slot = self.next % SLOTS;
        let blocks = &self.slots[slot as usize * SLOT_BYTES..][..SLOT_BYTES];
        let numbered = |block: &[u8]| block[TEXT_BYTES..][..4] == self.next.to_le_bytes();
        let count = usize::from(blocks[TEXT_BYTES + 4]).clamp(1, SLOT_BLOCKS);
        if !blocks.chunks(BLOCK_BYTES).take(count).all(numbered) {
            return Taken::Nothing;
        }
        let text: Vec<u8> = blocks
            .chunks(BLOCK_BYTES)
            .take(count)
            .flat_map(|of| of[..TEXT_BYTES].to_vec())
            .collect();
        self.next = self.next.wrapping_add(1);
        Message::read(&text).map_or(Taken::Unreadable, Taken::Message)
    }

    /// Messages read so far.
    #[must_use]
    pub fn read(&self) -> u32 {
        self.next.wrapping_sub(1)
    }
}

/// A write that is not a block of the mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutsideMailbox;

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, Mailbox, Message, SLOT_BYTES, SLOTS, Taken, Verdict};
    use crate::world::address::AddressRange;

    fn messages() -> Vec<Message> {
        let place = AddressRange { offset: 1 << 47, bytes: u64::MAX };
        vec![
            Message::Connect { endpoint: u32::MAX, reliable: true },
            Message::Accept { endpoint: 1, own: 2 },
            Message::Refuse { endpoint: 3 },
            Message::Disconnect { endpoint: 4 },
            Message::Import { endpoint: 5, number: 6, key: u64::MAX, name: "n".repeat(64) },
            Message::Imported {
                endpoint: 7,
                number: 8,
                verdict: Verdict::Granted { rights: 5 },
                region: place,
            },
            Message::Imported {
                endpoint: 7,
                number: 8,
                verdict: Verdict::WrongKey,
                region: AddressRange::default(),
            },
            Message::Notify { endpoint: 9, place, value: u32::MAX },
            Message::Buffer { endpoint: 10, place },
            Message::Filled { endpoint: 11, bytes: 1, of: 2, withdrawn: true },
        ]
    }

    /// Writes a message's blocks, in an order.
    fn write(mailbox: &mut Mailbox, message: &Message, number: u32, backwards: bool) {
        let blocks = message.blocks(number);
        let slot = (number % SLOTS) as usize * SLOT_BYTES;
        let mut parts: Vec<_> = blocks.chunks(BLOCK_BYTES).enumerate().collect();
        if backwards {
            parts.reverse();
        }
        for (place, block) in parts {
            mailbox.write(slot + place * BLOCK_BYTES, block).expect("a block of the mailbox");
        }
    }

    #[test]
    fn messages_are_read_in_order_whatever_order_their_blocks_come_in() {
        let all = messages();
        for backwards in [false, true] {
            let mut mailbox = Mailbox::default();
            for (number, message) in (1..).zip(&all).skip(1) {
                write(&mut mailbox, message, number, backwards);
                assert_eq!(mailbox.take(), Taken::Nothing, "the first has not come");
            }
            write(&mut mailbox, &all[0], 1, backwards);
            let next = || match mailbox.take() {
                Taken::Message(message) => Some(message),
                Taken::Nothing | Taken::Unreadable => None,
            };
            let read: Vec<Message> = std::iter::from_fn(next).collect();
            assert_eq!(read, all);
            assert_eq!(mailbox.read(), all.len() as u32);
        }
    }

    #[test]
    fn a_block_that_comes_twice_is_one_message_and_half_a_message_is_none() {
        let mut mailbox = Mailbox::default();
        let import = &messages()[4];
        let blocks = import.blocks(1);
        mailbox.write(SLOT_BYTES, &blocks[..BLOCK_BYTES]).expect("a block");
        assert_eq!(mailbox.take(), Taken::Nothing, "its second block has not come");
        write(&mut mailbox, import, 1, false);
        assert_eq!(mailbox.take(), Taken::Message(import.clone()));
        write(&mut mailbox, import, 1, false);
        assert_eq!(mailbox.take(), Taken::Nothing, "it was read");
    }

    #[test]
    fn what_is_no_block_is_refused_and_what_is_no_message_is_skipped() {
        let mut mailbox = Mailbox::default();
        for (at, bytes) in [(1, 64), (0, 63), (SLOTS as usize * SLOT_BYTES, 64), (usize::MAX, 64)] {
            assert!(mailbox.write(at, &vec![0; bytes]).is_err(), "{bytes} at {at}");
        }
        let mut nonsense = Message::Refuse { endpoint: 0 }.blocks(1);
        nonsense[0] = 99;
        mailbox.write(SLOT_BYTES, &nonsense).expect("a block");
        assert_eq!(mailbox.take(), Taken::Unreadable);
        assert_eq!(mailbox.read(), 1);
    }
}
