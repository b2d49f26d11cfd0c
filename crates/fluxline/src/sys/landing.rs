//! Slots into which a peer writes remotely, and which this process reads in place.
//!
//! An endpoint writes data from the network into a region; the readout, in another thread, reads it
//! in place. A simple sender writes round a ring of slots without waiting. So each slot has a
//! state, and a write to an unread slot is refused and counted: slots that are being read are never
//! written. The ring of records that a peer fills by credits is in landing_ring.rs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use fluxline_core::fabric::{AccessError, Memory};

use super::map::SharedMap;

/// States of a slot; all other values are the round in which it was written.
const FREE: u32 = 0;
const UNREAD: u32 = 1;
const WRITING: u32 = 2;
const FIRST_ROUND: u32 = 3;

/// A region of slots.
#[derive(Debug)]
pub(crate) struct Slots {
    map: SharedMap,
    bytes: u64,
    slot_bytes: u64,
    states: Box<[AtomicU32]>,
    /// Announced records, in order: slot and length; their number is a power of two.
    tickets: Box<[AtomicU64]>,
    head: AtomicU64,
    tail: AtomicU64,
    round: AtomicU32,
    closed: AtomicBool,
    placed: AtomicU64,
    overrun: AtomicU64,
}

impl Slots {
    /// Makes a region of `bytes`, in slots of `slot_bytes`; a remainder at its end is not used.
    pub(crate) fn new(bytes: u64, slot_bytes: u64) -> std::io::Result<Arc<Slots>> {
        let wrong = || std::io::Error::from(std::io::ErrorKind::InvalidInput);
        let size = usize::try_from(bytes).map_err(|_| wrong())?;
        let count = bytes.checked_div(slot_bytes).filter(|count| *count > 0).ok_or_else(wrong)?;
        u32::try_from(count).and(u32::try_from(slot_bytes)).map_err(|_| wrong())?;
        let words = |count: u64| (0..count).map(|_| AtomicU64::new(0)).collect();
        Ok(Arc::new(Slots {
            map: SharedMap::anonymous(size)?,
            bytes,
            slot_bytes,
            states: (0..count).map(|_| AtomicU32::new(FREE)).collect(),
            tickets: words(count.next_power_of_two()),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            round: AtomicU32::new(FIRST_ROUND),
            closed: AtomicBool::new(false),
            placed: AtomicU64::new(0),
            overrun: AtomicU64::new(0),
        }))
    }

    fn slot(&self, offset: u64, bytes: usize) -> Option<usize> {
        let slot = usize::try_from(offset / self.slot_bytes).ok()?;
        let fits = offset.is_multiple_of(self.slot_bytes) && bytes as u64 <= self.slot_bytes;
        (fits && slot < self.states.len()).then_some(slot)
    }

    fn ticket(&self, number: u64) -> &AtomicU64 {
        &self.tickets[(number & (self.tickets.len() as u64 - 1)) as usize]
    }

    /// Returns the number of slots.
    pub(crate) fn count(&self) -> usize {
        self.states.len()
    }

    /// Returns true for the state of a slot that cannot be written.
    fn is_taken(&self, state: u32) -> bool {
        [UNREAD, WRITING, self.round.load(Ordering::Relaxed)].contains(&state)
    }

    /// Announced and not read.
    pub(crate) fn unread(&self) -> u64 {
        let head = self.head.load(Ordering::Relaxed);
        self.tail.load(Ordering::Relaxed).saturating_sub(head)
    }

    /// Returns the number of writes that were done.
    pub(crate) fn placed(&self) -> u64 {
        self.placed.load(Ordering::Relaxed)
    }

    /// Returns the number of writes that were refused because their slot was not read yet.
    pub(crate) fn overrun(&self) -> u64 {
        self.overrun.load(Ordering::Relaxed)
    }
}

impl Memory for Slots {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, _offset: u64, _into: &mut [u8]) -> Result<(), AccessError> {
        Err(AccessError::Rights)
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<(), AccessError> {
        let Some(slot) = self.slot(offset, from.len()) else {
            let (bytes, region_bytes) = (from.len() as u64, self.bytes);
            return Err(AccessError::OutOfRegion { offset, bytes, region_bytes });
        };
        let (state, round) = (&self.states[slot], self.round.load(Ordering::Relaxed));
        let before = state.load(Ordering::Relaxed);
        let taken = self.is_taken(before);
        // SYNC slot-back <- release
        let order = (Ordering::Acquire, Ordering::Relaxed);
        if taken || state.compare_exchange(before, WRITING, order.0, order.1).is_err() {
            self.overrun.fetch_add(1, Ordering::Relaxed);
            return Err(AccessError::Rights);
        }
        self.map.write(offset, from);
        state.store(round, Ordering::Release); // SYNC slot-there -> announce
        self.placed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn admits(&self, offset: u64, bytes: u64) -> bool {
        usize::try_from(bytes).is_ok_and(|bytes| self.slot(offset, bytes).is_some())
    }

    fn is_free(&self, offset: u64, bytes: u64) -> bool {
        let slot = usize::try_from(bytes).ok().and_then(|bytes| self.slot(offset, bytes));
        slot.is_some_and(|slot| !self.is_taken(self.states[slot].load(Ordering::Relaxed)))
    }

    fn load(&self, _offset: u64) -> Result<u64, AccessError> {
        Err(AccessError::Rights)
    }

    fn store(&self, _offset: u64, _value: u64) -> Result<(), AccessError> {
        Err(AccessError::Rights)
    }

    fn fetch_add(&self, _offset: u64, _add: u64) -> Result<u64, AccessError> {
        Err(AccessError::Rights)
    }

    fn compare_swap(&self, _at: u64, _expected: u64, _desired: u64) -> Result<u64, AccessError> {
        Err(AccessError::Rights)
    }
}

/// The side that announces records.
#[derive(Debug)]
pub(crate) struct Announcer(Arc<Slots>);

/// The side that reads them.
#[derive(Debug)]
pub(crate) struct Reader {
    slots: Arc<Slots>,
    /// The slot that is being read.
    lent: Option<usize>,
}

/// Returns both sides of a new region.
pub(crate) fn sides(slots: Arc<Slots>) -> (Announcer, Reader) {
    (Announcer(Arc::clone(&slots)), Reader { slots, lent: None })
}

impl Announcer {
    /// The region.
    pub(crate) fn slots(&self) -> &Arc<Slots> {
        &self.0
    }

    /// Call this when all records that the peer wrote and announced have been announced here: slots
    /// that were written but not announced may then be written again.
    pub(crate) fn next_round(&mut self) {
        let next = self.0.round.load(Ordering::Relaxed).wrapping_add(1).max(FIRST_ROUND);
        self.0.round.store(next, Ordering::Relaxed);
    }

    /// Shows a written slot to the reader; returns `false` if the slot was not written, or was
    /// already announced.
    pub(crate) fn announce(&mut self, offset: u64, bytes: u64) -> bool {
        let slots = &*self.0;
        let Some(slot) = usize::try_from(bytes).ok().and_then(|bytes| slots.slot(offset, bytes))
        else {
            return false;
        };
        let state = &slots.states[slot];
        let before = state.load(Ordering::Relaxed);
        // SYNC slot-there <- write
        let order = (Ordering::Acquire, Ordering::Relaxed);
        if before < FIRST_ROUND || state.compare_exchange(before, UNREAD, order.0, order.1).is_err()
        {
            return false;
        }
        // A slot has at most one ticket, so there is room for this one.
        let tail = slots.tail.load(Ordering::Relaxed);
        slots.ticket(tail).store((slot as u64) << 32 | bytes, Ordering::Relaxed);
        slots.tail.store(tail + 1, Ordering::Release); // SYNC record-there -> next
        true
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release); // SYNC closed -> is_over
    }
}

impl Reader {
    /// Returns the oldest record, in place until the next call; `None` if all are read.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        self.release();
        let slots = &*self.slots;
        let head = slots.head.load(Ordering::Relaxed);
        // SYNC record-there <- announce
        if head == slots.tail.load(Ordering::Acquire) {
            return None;
        }
        let ticket = slots.ticket(head).load(Ordering::Relaxed);
        // SYNC ticket-back: the ticket's place is written again after its slot was released.
        slots.head.store(head + 1, Ordering::Release);
        let (slot, bytes) = ((ticket >> 32) as usize, (ticket & 0xFFFF_FFFF) as usize);
        self.lent = Some(slot);
        // SAFETY: slot and length were checked by `announce`. The slot is UNREAD, so `write`
        // refuses it until `release` or `drop`, which need `self` mutably; what was written
        // happened before (SYNC slot-there, record-there). There is one reader per region.
        Some(unsafe { slots.map.lend(slot as u64 * slots.slot_bytes, bytes) })
    }

    fn release(&mut self) {
        if let Some(slot) = self.lent.take() {
            self.slots.states[slot].store(FREE, Ordering::Release); // SYNC slot-back -> write
        }
    }

    /// Returns true if the other side has ended and all records are read.
    pub(crate) fn is_over(&self) -> bool {
        // SYNC closed <- drop
        self.slots.closed.load(Ordering::Acquire) && self.slots.unread() == 0
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(bytes: u64, slot: u64) -> (Arc<Slots>, Announcer, Reader) {
        let slots = Slots::new(bytes, slot).expect("memory");
        let (announcer, reader) = sides(Arc::clone(&slots));
        (slots, announcer, reader)
    }

    #[test]
    fn a_slot_that_is_not_read_is_not_written() {
        let (slots, mut announcer, mut reader) = region(64, 16);
        assert!(slots.is_free(16, 5));
        slots.write(16, b"first").expect("free");
        assert!(slots.write(16, b"same round").is_err() && !slots.is_free(16, 5));
        assert!(announcer.announce(16, 5));
        announcer.next_round();
        assert!(slots.write(16, b"unread").is_err() && !slots.is_free(16, 5));
        assert_eq!(reader.next(), Some(b"first".as_slice()));
        assert!(slots.write(16, b"lent").is_err() && !slots.is_free(16, 5));
        assert_eq!(reader.next(), None);
        assert!(slots.is_free(16, 5));
        slots.write(16, b"again").expect("read");
        assert_eq!((slots.placed(), slots.overrun()), (2, 3));
    }

    #[test]
    fn what_is_not_announced_is_written_over_in_the_next_round() {
        let (slots, mut announcer, mut reader) = region(64, 16);
        slots.write(0, b"silent").expect("free");
        announcer.next_round();
        slots.write(0, b"seen").expect("nobody reads it");
        assert!(announcer.announce(0, 4) && !announcer.announce(0, 4));
        assert_eq!(reader.next(), Some(b"seen".as_slice()));
    }

    #[test]
    fn what_is_no_slot_is_refused() {
        let (slots, mut announcer, _reader) = region(72, 16);
        for (offset, bytes) in [(8, 4), (0, 17), (64, 4), (72, 0), (u64::MAX, 1)] {
            assert!(!slots.admits(offset, bytes as u64), "{offset} {bytes}");
            assert!(slots.write(offset, &vec![0; bytes]).is_err(), "{offset} {bytes}");
            assert!(!announcer.announce(offset, bytes as u64));
        }
        assert_eq!((slots.placed(), slots.overrun()), (0, 0));
        assert!(Slots::new(16, 17).is_err() && Slots::new(16, 0).is_err());
    }

    #[test]
    fn records_arrive_whole_while_the_ring_goes_round() {
        let (slots, mut announcer, mut reader) = region(1 << 12, 64);
        let count = slots.count() as u64;
        let reading = std::thread::spawn(move || {
            let mut seen = Vec::new();
            while !reader.is_over() {
                let Some(bytes) = reader.next() else { continue };
                assert!(bytes.iter().all(|byte| *byte == bytes[0]), "{bytes:?}");
                seen.push(bytes[0]);
            }
            seen
        });
        let mut sent = Vec::new();
        for number in 0..200_000_u64 {
            let (offset, byte) = (number % count * 64, number as u8);
            if slots.write(offset, &[byte; 64]).is_ok() && announcer.announce(offset, 64) {
                sent.push(byte);
            }
            announcer.next_round();
        }
        drop(announcer);
        assert_eq!(reading.join().expect("the reader"), sent);
        assert_eq!(slots.placed() + slots.overrun(), 200_000);
    }
}
