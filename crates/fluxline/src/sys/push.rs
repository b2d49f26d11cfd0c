//! The push ring over shared memory: records of any size from one process to another, in place.
//!
//! A ring of bytes in the consumer's region; positions only grow. A record is a head (a word: its
//! length plus one) and its bytes, padded to words, and never wraps: what is left at the ring's end
//! is skipped. The consumer watches the head of the next record, which is zero until the record is
//! published, so that a short record costs the one cache line that it lies in and no line more for
//! an index. A batch is published by its first head, stored last: what is behind it was written
//! before, a zero head behind its last record included. The consumer gives room back once per
//! quarter of the ring, or when it has read everything.
//!
//! The other process is not trusted with this process's life: positions and lengths that it wrote
//! are checked before use, and nonsense ends the ring ([`Broken`]). It is trusted with the records'
//! content while they are read: docs/security.md.
//! Source of the ideas: heads in the data, M. M. Michael's and others' slot sequence numbers, here
//! for records of any size; a copy of the other's position, P. Lee et al. 2009.

use std::sync::Arc;
use std::time::Duration;

use fluxline_proto::Moment;

use super::futex::{sleep_on, wake};
use super::map::SharedMap;
use super::shim::{AtomicU64, Ordering, fence};
use crate::clock;
use crate::push::{Broken, PushCounters, PushRefused};

/// Before the ring \[byte\]: a page; for loom, to which each word is an object, what is used of it.
pub(crate) const HEADER_BYTES: u64 = if cfg!(loom) { 392 } else { 4096 };
const WORD: u64 = 8;
/// A head that says: the rest of the ring is skipped.
const SKIP: u64 = u64::MAX;
/// How far ahead of its writing the producer asks for cache lines \[byte\]: the consumer's core has
/// them, and several must be on their way at once. Longer records
/// ask by themselves as they are copied, and lose (4 KiB: a fifth) when a line in their midst is
/// asked for. Chosen by `fluxline bench`.
const AHEAD_BYTES: u64 = 1024;
const MAGIC: u64 = u64::from_le_bytes(*b"FLXPUSH1");

/// Words of the header \[byte\], those of different writers on pairs of lines of their own.
mod at {
    pub const MAGIC: u64 = 0;
    pub const SIZE: u64 = 8;
    /// Whether the consumer may sleep; it never changes.
    pub const SLEEPS: u64 = 16;
    pub const PRODUCER_CLOSED: u64 = 128;
    pub const HEAD: u64 = 256;
    pub const CONSUMER_CLOSED: u64 = 264;
    pub const BELL: u64 = 384;
    pub const SLEEPING: u64 = 388;
}

/// A ring in a mapping.
#[derive(Clone, Debug)]
struct Ring {
    map: Arc<SharedMap>,
    /// Where the header is in the mapping \[byte\].
    start: u64,
    /// Of the ring, a power of two \[byte\].
    size: u64,
}

impl Ring {
    fn word(&self, place: u64) -> &AtomicU64 {
        self.map.word(self.start + place)
    }

    /// Where position `position` is in the mapping; at least a word is there, at most up to the
    /// ring's end.
    #[inline]
    fn place(&self, position: u64) -> u64 {
        debug_assert!(position.is_multiple_of(WORD));
        self.start + HEADER_BYTES + (position & (self.size - 1))
    }

    /// The head of a record at `position`.
    #[inline]
    fn head(&self, position: u64) -> &AtomicU64 {
        // SAFETY: `of` has checked that header and ring are inside the mapping; a word is there
        // (`place`), aligned, since positions and start are.
        unsafe { self.map.word_unchecked(self.place(position)) }
    }

    /// How many bytes there are from a position to the ring's end.
    fn to_end(&self, position: u64) -> u64 {
        self.size - (position & (self.size - 1))
    }

    /// Behind the last published record, from a position that was given back or begun with; `None`:
    /// what is there is no chain of records.
    fn end_of_records(&self, from: u64) -> Option<u64> {
        let mut position = from;
        while position - from < self.size {
            let to_end = self.to_end(position);
            match self.head(position).load(Ordering::Acquire) {
                0 => return Some(position),
                SKIP => position += to_end,
                head if head - 1 > to_end - WORD => return None,
                head => position += WORD + (head - 1).next_multiple_of(WORD),
            }
        }
        None
    }

    fn of(map: Arc<SharedMap>, start: u64, size: u64) -> Option<Ring> {
        let sound = size.is_power_of_two() && size >= 4 * WORD && start.is_multiple_of(WORD);
        let all = usize::try_from(HEADER_BYTES.checked_add(size)?).ok()?;
        (sound && map.is_writable() && map.holds(start, all)).then_some(Ring { map, start, size })
    }
}

/// The end that writes.
#[derive(Debug)]
pub(crate) struct Producer {
    ring: Ring,
    /// Behind the last record written; a zero head is there once it is published.
    tail: u64,
    /// Position and head of the first record that is not published.
    first: Option<(u64, u64)>,
    head_seen: u64,
    sleeps: bool,
    /// Since when there has been no room.
    stalled_since: Option<Moment>,
    counters: PushCounters,
}

impl Producer {
    /// The ring that a consumer has made at `start`; `None`: there is none.
    pub(crate) fn attach(map: Arc<SharedMap>, start: u64, room: u64) -> Option<Producer> {
        if !map.holds(start, HEADER_BYTES as usize)
            || map.word(start + at::MAGIC).load(Ordering::Acquire) != MAGIC
        {
            return None;
        }
        let size = map.word(start + at::SIZE).load(Ordering::Relaxed);
        if HEADER_BYTES.checked_add(size)? > room {
            return None;
        }
        let sleeps = map.word(start + at::SLEEPS).load(Ordering::Relaxed) != 0;
        let ring = Ring::of(map, start, size)?;
        let head_seen = ring.word(at::HEAD).load(Ordering::Acquire);
        let tail = ring.end_of_records(head_seen)?;
        ring.word(at::PRODUCER_CLOSED).store(0, Ordering::Release);
        let counters = PushCounters::default();
        let (first, stalled_since) = (None, None);
        Some(Producer { ring, tail, first, head_seen, sleeps, stalled_since, counters })
    }

    /// The longest record \[byte\]: a quarter of the ring, so that one always fits in the end.
    pub(crate) fn record_bytes_max(&self) -> usize {
        (self.ring.size / 4 - 2 * WORD) as usize
    }

    /// Writes a record behind the last; [`Producer::publish`] shows it to the consumer.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), PushRefused> {
        let record = self.reserve(bytes.len())?;
        let place = self.ring.place(self.tail) + WORD;
        let ahead = self.ring.place(self.tail + AHEAD_BYTES);
        // SAFETY: `record` bytes from the tail are the producer's (room was found) and do not wrap
        // (`reserve`). The consumer reads them only after SYNC records-there.
        unsafe { self.ring.map.write_unchecked(place, bytes, ahead) };
        self.seal(bytes.len(), record);
        Ok(())
    }

    /// The same with a word before the bytes, part of the record.
    #[inline]
    pub(crate) fn push_with(&mut self, word: u64, bytes: &[u8]) -> Result<(), PushRefused> {
        let all = bytes.len() + WORD as usize;
        let record = self.reserve(all)?;
        let place = self.ring.place(self.tail) + WORD;
        let ahead = self.ring.place(self.tail + AHEAD_BYTES);
        // SAFETY: as in `push`; the record was reserved for both.
        unsafe {
            self.ring.map.write_unchecked(place, &word.to_le_bytes(), ahead);
            self.ring.map.write_unchecked(place + WORD, bytes, ahead);
        }
        self.seal(all, record);
        Ok(())
    }

    /// Makes sure that a record of `bytes` fits behind the tail without wrapping; what it takes.
    #[inline(always)]
    fn reserve(&mut self, bytes: usize) -> Result<u64, PushRefused> {
        let record = WORD + (bytes as u64).next_multiple_of(WORD);
        let to_end = self.ring.to_end(self.tail);
        let skipped = if record > to_end { to_end } else { 0 };
        let free = self.ring.size - (self.tail - self.head_seen);
        if free < skipped + record + WORD || record > self.ring.size / 4 - WORD {
            self.make_room(bytes, skipped + record + WORD)?;
        }
        if skipped > 0 {
            self.put_head(SKIP);
            self.tail += skipped;
        }
        Ok(record)
    }

    /// The record of `bytes` at the tail is whole.
    #[inline(always)]
    fn seal(&mut self, bytes: usize, record: u64) {
        self.put_head(bytes as u64 + 1);
        self.tail += record;
        self.counters.records += 1;
        self.counters.bytes += bytes as u64;
    }

    /// Writes the head at the tail, or keeps it for `publish` if it is the first.
    #[inline]
    fn put_head(&mut self, head: u64) {
        if self.first.is_none() {
            self.first = Some((self.tail, head));
        } else {
            self.ring.head(self.tail).store(head, Ordering::Relaxed);
        }
    }

    #[cold]
    fn make_room(&mut self, bytes: usize, wanted: u64) -> Result<(), PushRefused> {
        let max = self.record_bytes_max();
        if bytes > max {
            return Err(PushRefused::TooLong { bytes, max });
        }
        // SYNC room-back <- give_back
        let head = self.ring.word(at::HEAD).load(Ordering::Acquire);
        let used = self.tail.wrapping_sub(head);
        if used > self.ring.size {
            return Err(PushRefused::Broken(Broken));
        }
        self.head_seen = head;
        if self.ring.size - used >= wanted {
            if let Some(since) = self.stalled_since.take() {
                self.counters.stalled_ns += clock::monotonic().since(since).as_ns();
            }
            return Ok(());
        }
        if self.is_abandoned() {
            return Err(PushRefused::ConsumerGone);
        }
        // What is written must be seen, or nobody makes room.
        self.publish();
        self.counters.full += 1;
        self.stalled_since.get_or_insert_with(clock::monotonic);
        Err(PushRefused::Full)
    }

    /// Shows all records to the consumer. Cost: one store, and a system call if it sleeps.
    #[inline]
    pub(crate) fn publish(&mut self) {
        let Some((position, head)) = self.first.take() else { return };
        // Once per batch: nobody looks behind a first head that is zero.
        self.ring.head(self.tail).store(0, Ordering::Relaxed);
        self.ring.head(position).store(head, Ordering::Release); // SYNC records-there -> next
        self.counters.batches += 1;
        if self.sleeps {
            self.ring_bell();
        }
    }

    fn ring_bell(&self) {
        fence(Ordering::SeqCst); // SYNC push-bell <-> wait
        let map = &self.ring.map;
        if map.half_word(self.ring.start + at::SLEEPING).load(Ordering::Relaxed) != 0 {
            let bell = map.half_word(self.ring.start + at::BELL);
            bell.fetch_add(1, Ordering::Relaxed);
            wake(bell);
        }
    }

    /// Whether the consumer has gone in good order.
    pub(crate) fn stalled_since(&self) -> Option<Moment> {
        self.stalled_since
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.ring.word(at::CONSUMER_CLOSED).load(Ordering::Acquire) != 0
    }

    pub(crate) fn counters(&self) -> &PushCounters {
        &self.counters
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.publish();
        self.ring.word(at::PRODUCER_CLOSED).store(1, Ordering::Release);
        self.ring_bell();
    }
}

/// The end that reads.
#[derive(Debug)]
pub(crate) struct Consumer {
    ring: Ring,
    /// Behind the last record read.
    head: u64,
    /// What the producer has been told.
    given_back: u64,
    sleeps: bool,
    counters: PushCounters,
}

impl Consumer {
    /// Makes an empty ring of `size` bytes at `start`; `None`: the size is no power of two, or it
    /// does not fit into the mapping.
    pub(crate) fn create(
        map: Arc<SharedMap>,
        start: u64,
        size: u64,
        sleeps: bool,
    ) -> Option<Consumer> {
        let ring = Ring::of(map, start, size)?;
        for place in (0..HEADER_BYTES + WORD).step_by(8) {
            ring.word(place).store(0, Ordering::Relaxed);
        }
        ring.word(at::SIZE).store(size, Ordering::Relaxed);
        ring.word(at::SLEEPS).store(sleeps.into(), Ordering::Relaxed);
        ring.word(at::MAGIC).store(MAGIC, Ordering::Release);
        let counters = PushCounters::default();
        Some(Consumer { ring, head: 0, given_back: 0, sleeps, counters })
    }

    /// The next record, in place; `None`: there is none now.
    ///
    /// The record before it may be overwritten from now on.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, Broken> {
        loop {
            // SYNC records-there <- publish
            let head = self.ring.head(self.head).load(Ordering::Acquire);
            if head == 0 {
                if self.given_back != self.head {
                    self.give_back(self.head);
                }
                return Ok(None);
            }
            let to_end = self.ring.to_end(self.head);
            if head == SKIP {
                self.head += to_end;
                continue;
            }
            let length = head - 1;
            if length > to_end - WORD {
                return Err(Broken);
            }
            let record = WORD + length.next_multiple_of(WORD);
            let place = self.ring.place(self.head) + WORD;
            self.head += record;
            self.counters.records += 1;
            self.counters.bytes += length;
            if self.head - self.given_back >= self.ring.size / 4 {
                // The record just read is still the reader's: room ends before it.
                self.give_back(self.head - record);
            }
            // SAFETY: `length` bytes from `place` do not wrap (`to_end`), were published (SYNC
            // records-there) and are not given back before the next call, which needs `self`
            // mutably. The producer's process keeps to that: see the head of this file.
            let bytes = unsafe { self.ring.map.lend(place, length as usize) };
            return Ok(Some(bytes));
        }
    }

    fn give_back(&mut self, head: u64) {
        self.ring.word(at::HEAD).store(head, Ordering::Release); // SYNC room-back -> make_room
        self.given_back = head;
    }

    /// Sleeps until there are records, the producer has closed, or `timeout` has passed.
    ///
    /// Only for a ring that was made to sleep; else it returns at once.
    pub(crate) fn wait(&mut self, timeout: Duration) {
        if !self.sleeps {
            return;
        }
        let sleeping = self.ring.map.half_word(self.ring.start + at::SLEEPING);
        let bell = self.ring.map.half_word(self.ring.start + at::BELL);
        let seen = bell.load(Ordering::Relaxed);
        sleeping.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst); // SYNC push-bell <-> ring_bell
        if self.ring.head(self.head).load(Ordering::Acquire) == 0 && !self.is_closed() {
            sleep_on(bell, seen, timeout);
        }
        sleeping.store(0, Ordering::Relaxed);
    }

    /// Whether the producer has gone in good order; records may still be there.
    pub(crate) fn is_closed(&self) -> bool {
        self.ring.word(at::PRODUCER_CLOSED).load(Ordering::Acquire) != 0
    }

    pub(crate) fn counters(&self) -> &PushCounters {
        &self.counters
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.ring.word(at::CONSUMER_CLOSED).store(1, Ordering::Release);
    }
}
