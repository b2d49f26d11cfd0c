//! The consumer's side of the push ring of `fluxline_core::fabric::push`, read in place.
//!
//! The producer's puts come through an endpoint of this process, in one thread; another reads the
//! records in place. A put into unread bytes is refused, so that bytes that are being read are
//! never written. Only a record that wraps is copied. A producer that writes an invalid record
//! breaks the ring: the reader reads everything that was published before, and the ring is emptied
//! for the next producer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxline_core::fabric::push::puts::{GREETING_OFFSET, HEADER_BYTES};
use fluxline_core::fabric::{AccessError, Memory};

use super::map::SharedMap;

const WORD: u64 = 8;

/// The readable part. Positions count all bytes since the start; a producer's own positions begin
/// at `base`.
#[derive(Clone, Copy, Debug, Default)]
struct Readable {
    base: u64,
    /// The reader may read up to here.
    end: u64,
}

/// The consumer's region: the word for the tail, and the ring.
#[derive(Debug)]
pub(crate) struct LandingRing {
    /// The memory of the ring, without the header.
    map: SharedMap,
    size: u64,
    /// The tail, in the producer's positions.
    tail: AtomicU64,
    /// The position up to which bytes were read.
    head: AtomicU64,
    /// The key of the producer's region; 0: not known yet.
    credit_key: AtomicU64,
    shown: Mutex<Readable>,
    /// True if the reader found an invalid record, at which it stops.
    broken: AtomicBool,
    /// True if the producer published an invalid tail; earlier records are still read.
    spoiled: AtomicBool,
    overrun: AtomicU64,
    records: AtomicU64,
}

impl LandingRing {
    /// Makes a ring of `size` bytes, a power of two; the region is longer by its header.
    pub(crate) fn new(size: u64) -> std::io::Result<Arc<LandingRing>> {
        let wrong = || std::io::Error::from(std::io::ErrorKind::InvalidInput);
        if !size.is_power_of_two() || size < 8 * WORD {
            return Err(wrong());
        }
        Ok(Arc::new(LandingRing {
            map: SharedMap::anonymous(usize::try_from(size).map_err(|_| wrong())?)?,
            size,
            tail: AtomicU64::new(0),
            head: AtomicU64::new(0),
            credit_key: AtomicU64::new(0),
            shown: Mutex::default(),
            broken: AtomicBool::new(false),
            spoiled: AtomicBool::new(false),
            overrun: AtomicU64::new(0),
            records: AtomicU64::new(0),
        }))
    }

    fn shown(&self) -> MutexGuard<'_, Readable> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the position up to which bytes were read: the producer's credit.
    pub(crate) fn head(&self) -> u64 {
        self.head.load(Ordering::Relaxed).saturating_sub(self.shown().base)
    }

    /// Returns the published bytes that are not yet read.
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.tail.load(Ordering::Relaxed).saturating_sub(self.head())
    }

    /// Returns the key of the producer's region; 0: it is not known yet.
    pub(crate) fn credit_key(&self) -> u64 {
        self.credit_key.load(Ordering::Relaxed)
    }

    /// Returns true when the producer wrote an invalid record or tail; nothing of it is read until
    /// [`LandingRing::restart`].
    pub(crate) fn is_broken(&self) -> bool {
        self.spoiled.load(Ordering::Relaxed) || self.reader_stands()
    }

    fn reader_stands(&self) -> bool {
        self.broken.load(Ordering::Acquire) // SYNC broken <- break_off; renewed <- restart
    }

    /// Returns the number of puts that were refused because they would have overwritten unread
    /// data.
    pub(crate) fn overrun(&self) -> u64 {
        self.overrun.load(Ordering::Relaxed)
    }

    /// Returns the number of records read.
    pub(crate) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Clears the ring for the next producer, once all of the last one's records are read or the
    /// reader has found an invalid one. Returns `false` while there are records to read. The last
    /// producer must no longer be able to write.
    pub(crate) fn restart(&self) -> bool {
        let mut shown = self.shown();
        let head = self.head.load(Ordering::Acquire);
        let published = shown.base.checked_add(self.tail.load(Ordering::Relaxed));
        let all_read = head == shown.end && Some(head) == published;
        if !all_read && !self.reader_stands() {
            return false;
        }
        // The new beginning is behind all records that were shown to the reader, even unreadable
        // ones.
        let base = head.max(shown.end).next_multiple_of(self.size);
        *shown = Readable { base, end: base };
        self.tail.store(0, Ordering::Relaxed);
        self.credit_key.store(0, Ordering::Relaxed);
        self.head.store(base, Ordering::Relaxed);
        self.spoiled.store(false, Ordering::Relaxed);
        self.broken.store(false, Ordering::Release); // SYNC renewed -> reader_stands
        true
    }

    /// Takes a tail from the producer; it must only advance, and not overwrite unread data.
    fn publish(&self, tail: u64) -> Result<(), AccessError> {
        let published = self.tail.load(Ordering::Relaxed);
        let is_sound = tail.is_multiple_of(WORD)
            && tail >= published
            && tail - self.head().min(published) <= self.size;
        if !is_sound {
            self.spoiled.store(true, Ordering::Relaxed);
            return Err(AccessError::Rights);
        }
        self.tail.store(tail, Ordering::Release); // SYNC tail -> show
        Ok(())
    }

    /// Returns true if a put at `at` would overwrite bytes that the reader may have.
    fn is_lent(&self, at: u64, bytes: u64, end: u64) -> bool {
        // SYNC room-back <- release
        let head = self.head.load(Ordering::Acquire);
        let unread = end - head;
        let mask = self.size - 1;
        // Neither range may begin inside the other.
        let before = at.wrapping_sub(head) & mask;
        let behind = head.wrapping_sub(at) & mask;
        bytes > 0 && unread > 0 && (before < unread || behind < bytes)
    }
}

impl Memory for LandingRing {
    fn bytes(&self) -> u64 {
        HEADER_BYTES + self.size
    }

    fn read(&self, _offset: u64, _into: &mut [u8]) -> Result<(), AccessError> {
        Err(AccessError::Rights)
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<(), AccessError> {
        let bytes = from.len() as u64;
        match (offset, from.try_into().map(u64::from_le_bytes)) {
            (0, Ok(tail)) => return self.publish(tail),
            (GREETING_OFFSET, Ok(key)) => {
                self.credit_key.store(key, Ordering::Relaxed);
                return Ok(());
            }
            _ => {}
        }
        let at = offset.checked_sub(HEADER_BYTES);
        let at = at.filter(|at| *at <= self.size && bytes <= self.size - at).ok_or({
            AccessError::OutOfRegion { offset, bytes, region_bytes: HEADER_BYTES + self.size }
        })?;
        let shown = self.shown();
        if self.is_lent(at, bytes, shown.end) {
            self.overrun.fetch_add(1, Ordering::Relaxed);
            return Err(AccessError::Rights);
        }
        self.map.write(at, from);
        Ok(())
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

/// The reading side of a ring; one per ring.
#[derive(Debug)]
pub(crate) struct RingReader {
    ring: Arc<LandingRing>,
    position: u64,
    end: u64,
    /// A copy of a record that wraps.
    joined: Vec<u8>,
}

impl RingReader {
    /// Makes the reader of a ring that has none yet.
    pub(crate) fn new(ring: Arc<LandingRing>) -> RingReader {
        RingReader { ring, position: 0, end: 0, joined: Vec::new() }
    }

    /// Returns the oldest record, in place until the next call; `None` if all are read.
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        if self.ring.reader_stands() {
            return None;
        }
        if self.position == self.end {
            self.show();
            if self.position == self.end {
                return None;
            }
        } else {
            self.release();
        }
        let mut word = [0; WORD as usize];
        self.ring.map.read(self.position & (self.ring.size - 1), &mut word);
        let (length, there) = (u64::from_le_bytes(word), self.end - self.position - WORD);
        if length > there || length > self.ring.size / 4 {
            self.break_off();
            return None;
        }
        let at = (self.position + WORD) & (self.ring.size - 1);
        self.position += WORD + length.next_multiple_of(WORD);
        self.ring.records.fetch_add(1, Ordering::Relaxed);
        let first = length.min(self.ring.size - at) as usize;
        if first < length as usize {
            self.joined.resize(length as usize, 0);
            let (left, right) = self.joined.split_at_mut(first);
            self.ring.map.read(at, left);
            self.ring.map.read(0, right);
            return Some(&self.joined);
        }
        // SAFETY: inside, for it does not wrap. These bytes are before `Readable::end` and behind
        // `head`, which moves with `release` alone, from here and needs `self` mutably: until then
        // `write` refuses them. What was written before happened before (the lock; SYNC tail).
        Some(unsafe { self.ring.map.lend(at, first) })
    }

    /// Releases all bytes before the position.
    fn release(&mut self) {
        self.ring.head.store(self.position, Ordering::Release); // SYNC room-back -> is_lent
    }

    /// Shows more records to the reader; frees the room of records that were read.
    fn show(&mut self) {
        let ring = Arc::clone(&self.ring);
        let mut shown = ring.shown();
        if self.position < shown.base {
            (self.position, self.end) = (shown.base, shown.end);
        }
        self.release();
        // SYNC tail <- write
        let tail = shown.base.checked_add(ring.tail.load(Ordering::Acquire));
        let sound = |tail: &u64| {
            tail.is_multiple_of(WORD) && *tail >= self.end && *tail - self.position <= ring.size
        };
        let Some(tail) = tail.filter(sound) else { return self.break_off() };
        (shown.end, self.end) = (tail, tail);
    }

    /// Marks the ring as broken: nothing behind this record is read.
    fn break_off(&mut self) {
        self.end = self.position;
        self.ring.broken.store(true, Ordering::Release); // SYNC broken -> reader_stands
    }

    /// Returns the published bytes that are not yet read.
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.ring.unread_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(ring: &LandingRing, position: u64, records: &[&[u8]]) -> u64 {
        let mut bytes = Vec::new();
        for record in records {
            bytes.extend_from_slice(&(record.len() as u64).to_le_bytes());
            bytes.extend_from_slice(record);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        for (number, byte) in bytes.iter().enumerate() {
            let at = (position + number as u64) & (ring.size - 1);
            ring.write(HEADER_BYTES + at, &[*byte]).expect("free");
        }
        let tail = position + bytes.len() as u64;
        ring.write(0, &tail.to_le_bytes()).expect("the tail");
        tail
    }

    #[test]
    fn what_is_not_read_is_not_overwritten() {
        let ring = LandingRing::new(64).expect("memory");
        let mut reader = RingReader::new(Arc::clone(&ring));
        let tail = put(&ring, 0, &[b"one", b"two"]);
        assert_eq!(reader.next(), Some(b"one".as_slice()));
        assert!(ring.write(HEADER_BYTES + 8, b"x").is_err(), "lent");
        assert!(ring.write(HEADER_BYTES + 56, &[0; 8]).is_ok(), "free");
        assert!(ring.write(HEADER_BYTES + 24, &[0; 16]).is_err(), "its beginning is not read");
        assert_eq!(reader.next(), Some(b"two".as_slice()));
        assert!(ring.write(HEADER_BYTES + 8, b"x").is_ok(), "given back");
        assert!(ring.write(HEADER_BYTES, &[0; 64]).is_err(), "covers what is lent");
        assert_eq!(reader.next(), None);
        assert!(ring.write(HEADER_BYTES, &[0; 64]).is_ok());
        assert_eq!((ring.head(), ring.overrun(), ring.records()), (tail, 3, 2));
    }

    #[test]
    fn records_that_wrap_come_whole_and_a_new_producer_begins_at_zero() {
        let ring = LandingRing::new(128).expect("memory");
        let mut reader = RingReader::new(Arc::clone(&ring));
        for _ in 0..3 {
            let mut position = 0;
            for number in 0..9_u8 {
                let record = vec![number; 20];
                position = put(&ring, position, &[&record]);
                assert!(!ring.restart(), "not all is read");
                assert_eq!(reader.next(), Some(record.as_slice()));
                assert_eq!(reader.next(), None);
                assert_eq!(ring.head(), position);
            }
            assert!(ring.restart());
            assert_eq!((ring.head(), ring.unread_bytes()), (0, 0));
        }
    }

    #[test]
    fn nonsense_breaks_the_ring_and_what_came_before_it_is_kept() {
        for claim in [4, 0_u64.wrapping_sub(8), 72, u64::MAX - 39] {
            let ring = LandingRing::new(64).expect("memory");
            let mut reader = RingReader::new(Arc::clone(&ring));
            for round in 0..5_u8 {
                let tail = put(&ring, 0, &[&[round; 5], &[round + 100; 3]]);
                assert!(ring.write(0, &tail.wrapping_add(claim).to_le_bytes()).is_err(), "{claim}");
                assert!(ring.is_broken() && !ring.restart(), "not all is read");
                assert_eq!(reader.next(), Some([round; 5].as_slice()), "{claim}");
                assert_eq!(reader.next(), Some([round + 100; 3].as_slice()), "{claim}");
                assert_eq!(reader.next(), None);
                assert!(ring.restart() && !ring.is_broken(), "{claim}");
                assert_eq!((ring.head(), ring.unread_bytes()), (0, 0), "{claim}");
                assert_eq!(reader.next(), None);
            }
            put(&ring, 0, &[b"sound"]);
            assert_eq!(reader.next(), Some(b"sound".as_slice()), "{claim}");
        }
    }

    #[test]
    fn records_before_a_length_that_cannot_be_are_all_read() {
        let ring = LandingRing::new(256).expect("memory");
        let mut reader = RingReader::new(Arc::clone(&ring));
        let tail = put(&ring, 0, &[b"one", b"two", b"three"]);
        ring.write(HEADER_BYTES + tail, &[0xFF; 8]).expect("free");
        ring.write(0, &(tail + 64).to_le_bytes()).expect("taken");
        for expected in [b"one".as_slice(), b"two", b"three"] {
            assert_eq!(reader.next(), Some(expected));
        }
        assert_eq!((reader.next(), ring.is_broken(), ring.records()), (None, true, 3));
        assert!(ring.restart() && reader.next().is_none());
        put(&ring, 0, &[b"sound"]);
        assert_eq!(reader.next(), Some(b"sound".as_slice()));
    }

    #[test]
    fn the_producers_key_is_kept_until_the_next_producer() {
        let ring = LandingRing::new(64).expect("memory");
        ring.write(GREETING_OFFSET, &77_u64.to_le_bytes()).expect("taken");
        assert_eq!(ring.credit_key(), 77);
        assert!(ring.write(GREETING_OFFSET, &[1; 4]).is_err(), "a word, and whole");
        assert!(ring.write(16, &[1; 8]).is_err(), "nothing lies there");
        assert!(ring.restart());
        assert_eq!(ring.credit_key(), 0);
    }
}
