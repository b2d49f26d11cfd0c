//! The writing end of a push ring.

use std::sync::Arc;

use fluxline_core::Moment;
use fluxline_core::fabric::push::{Broken, PushCounters, PushOpenError, PushRefused};

use super::claim::{Claim, ClaimFile};
use super::pace::Pace;
use super::{HEADER_BYTES, MAGIC, MappedRing, Record, SKIP, Side, WORD, at, is_position};
use crate::clock;
use crate::sys::futex::wake;
use crate::sys::map::SharedMap;
use crate::sys::reason::not_opened;
use crate::sys::shim::{Ordering, fence};

/// Distance at which the producer prefetches cache lines \[byte\]: the consumer's core has them,
/// and several must be on their way at once. The copy of longer records prefetches by itself, and a
/// prefetch of a line inside the record makes it slower (4 KiB: by a fifth). Chosen by
/// `fluxline bench`.
const AHEAD_BYTES: u64 = 1024;

/// The writing end of a push ring.
#[derive(Debug)]
pub(crate) struct Producer {
    ring: MappedRing,
    /// The position behind the last record written; it has a zero head once that record is
    /// published.
    tail: u64,
    /// Position and head of the first unpublished record.
    first: Option<(u64, u64)>,
    /// The consumer's head when it was last read. Once the ring has ended, it is a ring's size
    /// behind the tail, so that each push reaches `make_room`.
    head_seen: u64,
    /// Records that earlier producers published.
    resumes_from: Option<u64>,
    sleeps: bool,
    /// Since when there has been no room.
    stalled_since: Option<Moment>,
    /// The reason why every push fails, once the ring has ended.
    ended: Option<PushRefused>,
    pace: Pace,
    counters: PushCounters,
    /// The claim; it ends last, after all writes.
    claim: Claim,
}

impl Producer {
    /// Becomes the producer of the ring that a consumer has made at `start`, in at most `room`
    /// bytes.
    pub(crate) fn attach(
        map: Arc<SharedMap>,
        start: u64,
        room: u64,
        file: ClaimFile,
    ) -> Result<Producer, PushOpenError> {
        let ring = find(map, start, room).ok_or(PushOpenError::NoRing)?;
        let claim = Claim::take(file, Side::Producer).map_err(|error| not_opened(&error))?;
        let process = || ring.word(at::PROCESS).load(Ordering::Relaxed);
        let claim = claim.ok_or_else(|| PushOpenError::Claimed { process: process() })?;
        if !claim.other_lives() {
            return Err(PushOpenError::ConsumerGone);
        }
        // SYNC room-back <- give_back. The last producer wrote the records behind the head, and its
        // claim ended after its last store.
        let (head_seen, taken) = ring.given_back();
        let end = is_position(head_seen).then(|| ring.end_of_records(head_seen)).flatten();
        let (tail, unread) = end.ok_or(PushOpenError::Broken(Broken))?;
        let resumes_from = taken.map(|taken| taken.wrapping_add(unread));
        let before = ring.word(at::PRODUCERS).load(Ordering::Relaxed);
        ring.word(at::PROCESS).store(std::process::id().into(), Ordering::Relaxed);
        // An odd number, different from that of a producer that died.
        ring.word(at::PRODUCERS).store((before | 1).wrapping_add(2), Ordering::Relaxed);
        let sleeps = ring.word(at::SLEEPS).load(Ordering::Relaxed) != 0;
        Ok(Producer {
            ring,
            tail,
            first: None,
            head_seen,
            resumes_from,
            sleeps,
            stalled_since: None,
            ended: None,
            pace: Pace::new(),
            counters: PushCounters::default(),
            claim,
        })
    }

    /// Returns the length of the longest record \[byte\]: a quarter of the ring, so that it fits
    /// eventually.
    pub(crate) fn record_bytes_max(&self) -> usize {
        (self.ring.record_max() - WORD) as usize
    }

    /// Returns the number of records that earlier producers published.
    pub(crate) fn resumes_from(&self) -> Option<u64> {
        self.resumes_from
    }

    /// Counts the records that the consumer has taken. Cost: a shared load.
    pub(crate) fn count_delivered(&mut self) {
        let taken = self.ring.word(at::TAKEN).load(Ordering::Relaxed);
        if let Some(first) = self.resumes_from {
            // Records of earlier producers come first; the consumer is not trusted.
            self.counters.delivered = taken.saturating_sub(first).min(self.counters.records);
        }
    }

    /// Writes a record behind the last; [`Producer::publish`] shows it to the consumer.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), PushRefused> {
        let record = self.reserve(bytes.len())?;
        let place = self.ring.place(self.tail) + WORD;
        let ahead = self.ring.place(self.tail + AHEAD_BYTES);
        // SAFETY: `record` bytes from the tail are the producer's (room was found) and do not wrap
        // (`reserve`), so they are inside; the tail is a multiple of a word. The consumer reads
        // them only after SYNC records-there.
        unsafe { self.ring.map.write_record(place, bytes, ahead) };
        self.seal(bytes.len(), record);
        Ok(())
    }

    /// Writes a record that consists of a word and the bytes.
    #[inline]
    pub(crate) fn push_with(&mut self, word: u64, bytes: &[u8]) -> Result<(), PushRefused> {
        let all = bytes.len() + WORD as usize;
        let record = self.reserve(all)?;
        let place = self.ring.place(self.tail) + WORD;
        let ahead = self.ring.place(self.tail + AHEAD_BYTES);
        // SAFETY: as in `push`; the record was reserved for both.
        unsafe {
            self.ring.map.write_record(place, &word.to_le_bytes(), ahead);
            self.ring.map.write_record(place + WORD, bytes, ahead);
        }
        self.seal(all, record);
        Ok(())
    }

    /// Writes another ring's record behind the last, without a copy in between.
    #[inline]
    pub(crate) fn push_record(&mut self, from: Record<'_>) -> Result<(), PushRefused> {
        let record = self.reserve(from.len())?;
        let place = self.ring.place(self.tail) + WORD;
        let (map, from_offset) = from.place();
        // SAFETY: as in `push`; of the other record, see `Record::new`. The producer's room never
        // overlaps a record that a consumer has, because this mapping belongs to the producer.
        unsafe { self.ring.map.write_across(place, map, from_offset, from.len()) };
        self.seal(from.len(), record);
        Ok(())
    }

    /// Makes sure that a record of `bytes` fits behind the tail without wrapping; returns its
    /// length with head and padding.
    #[inline(always)]
    fn reserve(&mut self, bytes: usize) -> Result<u64, PushRefused> {
        let record = WORD + (bytes as u64).next_multiple_of(WORD);
        let to_end = self.ring.to_end(self.tail);
        let skipped = if record > to_end { to_end } else { 0 };
        let free = self.ring.size - self.tail.wrapping_sub(self.head_seen);
        if free < skipped + record + WORD || record > self.ring.record_max() {
            self.make_room(bytes, skipped + record + WORD)?;
        }
        if skipped > 0 {
            self.put_head(SKIP);
            self.tail += skipped;
        }
        Ok(record)
    }

    /// Completes the record of `bytes` at the tail.
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
        if let Some(ended) = self.ended {
            return Err(ended);
        }
        // SYNC room-back <- give_back
        let head = self.ring.word(at::HEAD).load(Ordering::Acquire);
        // It must have advanced, but not beyond the existing records.
        let passed = head.wrapping_sub(self.head_seen);
        if !is_position(head) || passed > self.tail - self.head_seen {
            self.end(PushRefused::Broken(Broken));
            return Err(PushRefused::Broken(Broken));
        }
        self.head_seen = head;
        if self.ring.size - (self.tail - head) >= wanted {
            if let Some(since) = self.stalled_since.take() {
                self.counters.stalled_ns += clock::monotonic().since(since).as_ns();
            }
            return Ok(());
        }
        // The consumer frees room only after it has seen the written records.
        self.publish();
        if self.ended.is_none() && (self.has_closed() || (self.pace.is_due() && !self.look())) {
            self.end(PushRefused::ConsumerGone);
        }
        if let Some(ended) = self.ended {
            return Err(ended);
        }
        self.counters.full += 1;
        self.stalled_since.get_or_insert_with(clock::monotonic);
        Err(PushRefused::Full)
    }

    /// Shows all records to the consumer. Cost: one store, and a system call if it sleeps.
    #[inline]
    pub(crate) fn publish(&mut self) {
        let Some((position, head)) = self.first.take() else { return };
        // Once per batch: the consumer reads nothing behind a first head that is zero.
        self.ring.head(self.tail).store(0, Ordering::Relaxed);
        self.ring.head(position).store(head, Ordering::Release); // SYNC records-there -> next
        self.counters.batches += 1;
        if self.sleeps {
            self.ring_bell();
        }
        if self.pace.is_due() && !self.look() {
            self.end(PushRefused::ConsumerGone);
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

    /// Returns true if the consumer has neither closed nor died. Cost: a system call.
    pub(crate) fn look(&self) -> bool {
        !self.has_closed() && self.claim.other_lives()
    }

    fn has_closed(&self) -> bool {
        self.ring.word(at::CONSUMER_CLOSED).load(Ordering::Acquire) != 0
    }

    /// Makes each push fail for this reason from now on.
    fn end(&mut self, why: PushRefused) {
        self.ended = Some(why);
        self.head_seen = self.tail.wrapping_sub(self.ring.size);
    }

    /// Since when there has been no room.
    pub(crate) fn stalled_since(&self) -> Option<Moment> {
        self.stalled_since
    }

    /// Returns the reason why every push fails; `None` if a push may succeed.
    pub(crate) fn ended(&self) -> Option<PushRefused> {
        self.ended
    }

    pub(crate) fn counters(&self) -> &PushCounters {
        &self.counters
    }

    /// Ends like a killed process: without publishing or reporting.
    #[cfg(test)]
    pub(crate) fn die(self) {
        let dead = std::mem::ManuallyDrop::new(self);
        // SAFETY: the claim is not used again, nor dropped a second time.
        drop(unsafe { std::ptr::read(&raw const dead.claim) });
    }
}

/// Finds the ring at `start` of the mapping, in at most `room` bytes.
fn find(map: Arc<SharedMap>, start: u64, room: u64) -> Option<MappedRing> {
    if !map.holds(start, HEADER_BYTES as usize)
        || map.word(start + at::MAGIC).load(Ordering::Acquire) != MAGIC
    {
        return None;
    }
    let size = map.word(start + at::SIZE).load(Ordering::Relaxed);
    let fits = HEADER_BYTES.checked_add(size).is_some_and(|all| all <= room);
    fits.then(|| MappedRing::of(map, start, size)).flatten()
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.publish();
        let producers = self.ring.word(at::PRODUCERS);
        let ended = producers.load(Ordering::Relaxed).wrapping_add(1);
        producers.store(ended, Ordering::Release); // SYNC producer-ended -> producers
        self.ring_bell();
    }
}
