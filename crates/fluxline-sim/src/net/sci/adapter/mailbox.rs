//! Messages between drivers as blocks of 64 bytes in a mailbox.
//!
//! SCI has no messages: an adapter writes a message into a slot of the other's mailbox. Each block
//! ends with its number, so that one write of 64 bytes brings both, and a block that comes late,
//! twice or out of order does no harm: the slots are read in the order of numbers.

use crate::fabric::MESSAGE_BYTES_MAX;

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

const _: () = assert!(MESSAGE_BYTES_MAX <= SLOT_BLOCKS * TEXT_BYTES, "a slot holds any message");

/// Returns the blocks of a message with this number, in the layout of its slot.
#[must_use]
pub fn blocks(text: &[u8], number: u32) -> Vec<u8> {
    let count = text.len().div_ceil(TEXT_BYTES);
    debug_assert!(count <= SLOT_BLOCKS, "a driver's message fits into a slot");
    let mut blocks = Vec::with_capacity(count * BLOCK_BYTES);
    for piece in text.chunks(TEXT_BYTES) {
        blocks.extend(piece);
        blocks.resize(blocks.len().next_multiple_of(BLOCK_BYTES) - 8, 0);
        blocks.extend(number.to_le_bytes());
        blocks.extend([count as u8, 0, 0, 0]);
    }
    blocks
}

/// A slot that was written since it was read.
#[derive(Debug)]
struct Slot {
    number: u32,
    blocks: [u8; SLOT_BYTES],
}

/// The slots that one source writes, and which message is read next. A node has a mailbox for each
/// of its peers, so one without messages has no memory behind it.
#[derive(Debug)]
pub struct Mailbox {
    /// In the order of their first blocks.
    slots: Vec<Slot>,
    next: u32,
}

impl Default for Mailbox {
    fn default() -> Mailbox {
        Mailbox { slots: Vec::new(), next: 1 }
    }
}

/// The result of looking into a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The next message is not complete.
    Nothing,
    /// The next message; zeros follow it.
    Message(Vec<u8>),
}

impl Mailbox {
    /// A block came. Errors: it is not inside, or not a block.
    pub fn write(&mut self, at: usize, data: &[u8]) -> Result<(), OutsideMailbox> {
        let is_sound = at.is_multiple_of(BLOCK_BYTES) && data.len() == BLOCK_BYTES;
        if !is_sound || at >= MAILBOX_BYTES {
            return Err(OutsideMailbox);
        }
        let number = (at / SLOT_BYTES) as u32;
        let place = self.place_of(number).unwrap_or_else(|| {
            self.slots.push(Slot { number, blocks: [0; SLOT_BYTES] });
            self.slots.len() - 1
        });
        self.slots[place].blocks[at % SLOT_BYTES..][..BLOCK_BYTES].copy_from_slice(data);
        Ok(())
    }

    fn place_of(&self, number: u32) -> Option<usize> {
        self.slots.iter().position(|slot| slot.number == number)
    }

    /// Takes the next message, once all its blocks are there.
    pub fn take(&mut self) -> Taken {
        let Some(place) = self.place_of(self.next % SLOTS) else { return Taken::Nothing };
        let blocks = &self.slots[place].blocks;
        let numbered = |block: &[u8]| block[TEXT_BYTES..][..4] == self.next.to_le_bytes();
        let count = usize::from(blocks[TEXT_BYTES + 4]).clamp(1, SLOT_BLOCKS);
        if !blocks.chunks(BLOCK_BYTES).take(count).all(numbered) {
            return Taken::Nothing;
        }
        let text: Vec<u8> = blocks
            .chunks(BLOCK_BYTES)
            .take(count)
            .flat_map(|of| of[..TEXT_BYTES].iter().copied())
            .collect();
        self.slots.remove(place);
        if self.slots.is_empty() {
            self.slots = Vec::new();
        }
        self.next = self.next.wrapping_add(1);
        Taken::Message(text)
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
    use super::{BLOCK_BYTES, Mailbox, SLOT_BYTES, SLOTS, Taken, blocks};

    fn messages() -> Vec<Vec<u8>> {
        [1, 56, 57, 112, 3].into_iter().map(|bytes| vec![bytes as u8; bytes]).collect()
    }

    /// Writes a message's blocks, in an order.
    fn write(mailbox: &mut Mailbox, message: &[u8], number: u32, backwards: bool) {
        let written = blocks(message, number);
        let slot = (number % SLOTS) as usize * SLOT_BYTES;
        let mut parts: Vec<_> = written.chunks(BLOCK_BYTES).enumerate().collect();
        if backwards {
            parts.reverse();
        }
        for (place, block) in parts {
            mailbox.write(slot + place * BLOCK_BYTES, block).expect("a block of the mailbox");
        }
    }

    /// The next message, which begins with these bytes and ends with zeros.
    fn is_next(mailbox: &mut Mailbox, message: &[u8]) -> bool {
        let Taken::Message(taken) = mailbox.take() else { return false };
        taken.starts_with(message) && taken[message.len()..].iter().all(|&byte| byte == 0)
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
            assert!(all.iter().all(|message| is_next(&mut mailbox, message)));
            assert_eq!((mailbox.take(), mailbox.read()), (Taken::Nothing, all.len() as u32));
        }
    }

    #[test]
    fn a_block_that_comes_twice_is_one_message_and_half_a_message_is_none() {
        let mut mailbox = Mailbox::default();
        let long = &messages()[3];
        mailbox.write(SLOT_BYTES, &blocks(long, 1)[..BLOCK_BYTES]).expect("a block");
        assert_eq!(mailbox.take(), Taken::Nothing, "its second block has not come");
        write(&mut mailbox, long, 1, false);
        assert!(is_next(&mut mailbox, long));
        write(&mut mailbox, long, 1, false);
        assert_eq!(mailbox.take(), Taken::Nothing, "it was read");
    }

    #[test]
    fn a_write_that_is_not_a_block_is_refused() {
        let mut mailbox = Mailbox::default();
        for (at, bytes) in [(1, 64), (0, 63), (SLOTS as usize * SLOT_BYTES, 64), (usize::MAX, 64)] {
            assert!(mailbox.write(at, &vec![0; bytes]).is_err(), "{bytes} at {at}");
        }
    }
}
