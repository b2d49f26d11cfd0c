//! The slots of a lane, as its writer and its reader count them.
//!
//! The reader has a word with a bit for each slot, and flips the bit when the slot is free again.
//! The writer compares the word with the last one that it saw. So one put of a word returns any
//! number of slots, and a later word contains all earlier ones.

/// The slots of a peer, as their writer sees them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    free: u64,
    seen: u64,
    all: u64,
}

/// A peer used a slot that it does not have, or returned one that it never got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WrongSlot;

fn mask(slots: u32) -> u64 {
    u64::MAX >> (64 - slots)
}

impl Outgoing {
    pub fn new(slots: u32) -> Outgoing {
        Outgoing { free: mask(slots), seen: 0, all: mask(slots) }
    }

    /// Takes a free slot; `None`: the reader has all of them.
    pub fn take(&mut self) -> Option<u32> {
        let slot = self.free.trailing_zeros();
        (slot < 64).then(|| {
            self.free &= !(1 << slot);
            slot
        })
    }

    /// Gives back a slot that was taken and not written.
    pub fn give_back(&mut self, slot: u32) {
        self.free |= 1 << slot;
    }

    /// Takes the reader's word.
    pub fn returned(&mut self, word: u64) -> Result<(), WrongSlot> {
        let back = word ^ self.seen;
        if back & self.free != 0 || back & !self.all != 0 {
            return Err(WrongSlot);
        }
        (self.free, self.seen) = (self.free | back, word);
        Ok(())
    }
}

/// The own slots for a peer, as their reader sees them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    slots: u32,
    /// Slots that the writer does not have.
    held: u64,
    /// Those of them that are free and not returned yet.
    due: u64,
    word: u64,
}

impl Incoming {
    pub fn new(slots: u32) -> Incoming {
        Incoming { slots, held: 0, due: 0, word: 0 }
    }

    /// Notes that the writer has written a slot.
    pub fn arrived(&mut self, slot: u32) -> Result<(), WrongSlot> {
        if slot >= self.slots || self.held & 1 << slot != 0 {
            return Err(WrongSlot);
        }
        self.held |= 1 << slot;
        Ok(())
    }

    /// Notes that a slot was read.
    pub fn release(&mut self, slot: u32) {
        self.due |= 1 << slot;
    }

    /// Returns true if slots must be returned: half of them are due, or the writer has none left.
    pub fn must_return(&self) -> bool {
        let due = self.due.count_ones();
        due > 0 && (2 * due >= self.slots || self.held.count_ones() == self.slots)
    }

    /// Returns the word that returns all slots that are due.
    pub fn word(&self) -> u64 {
        self.word ^ self.due
    }

    /// Notes that the word was sent.
    pub fn sent(&mut self) {
        (self.word, self.held, self.due) = (self.word(), self.held & !self.due, 0);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::random::Draw;

    #[test]
    fn every_slot_comes_back_once_and_wrong_ones_are_noticed() {
        let (mut writer, mut reader) = (Outgoing::new(3), Incoming::new(3));
        let slots = [(); 3].map(|()| writer.take().expect("free"));
        assert_eq!((slots, writer.take()), ([0, 1, 2], None));
        slots.iter().for_each(|slot| reader.arrived(*slot).expect("new"));
        assert_eq!(reader.arrived(1), Err(WrongSlot), "it is in use");
        assert_eq!(reader.arrived(3), Err(WrongSlot), "slot 3 does not exist");
        assert!(!reader.must_return());
        reader.release(1);
        assert!(reader.must_return(), "the writer has none left");
        assert_eq!(writer.returned(reader.word()), Ok(()));
        reader.sent();
        assert_eq!((writer.take(), writer.take()), (Some(1), None));
        assert_eq!(
            writer.returned(reader.word() ^ 1 << 5),
            Err(WrongSlot),
            "slot 5 does not exist"
        );
        writer.give_back(1);
        assert_eq!(writer.returned(reader.word() ^ 2), Err(WrongSlot), "it has slot 1 already");
    }

    #[test]
    fn random_schedules_never_lose_a_slot_nor_stall_the_writer() {
        let seed = crate::random::test_seed!(1);
        let mut draw = Draw::new(seed);
        for slots in [2, 5, 64] {
            let (mut writer, mut reader) = (Outgoing::new(slots), Incoming::new(slots));
            let mut full = alloc::vec::Vec::new();
            for _ in 0..10_000 {
                match draw.below(2) {
                    0 => full.extend(writer.take().inspect(|slot| {
                        reader.arrived(*slot).expect("free");
                    })),
                    _ if full.is_empty() => {}
                    _ => reader.release(full.swap_remove(draw.below(full.len() as u64) as usize)),
                }
                if reader.must_return() {
                    writer.returned(reader.word()).expect("right");
                    reader.sent();
                }
                let has_slot = writer.free != 0;
                assert!(has_slot || full.len() as u32 == slots, "slots {slots}, seed {seed}");
            }
        }
    }
}
