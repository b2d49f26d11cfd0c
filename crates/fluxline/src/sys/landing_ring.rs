//! The push ring of `fluxline_proto::fabric::push`, its consumer's side read in place.
//!
//! The producer's puts come through an endpoint of this process, in one thread; another reads the
//! records where they lie. A put into bytes that are not read yet is refused, so that what was lent
//! is never written, whatever the producer does. Only a record that wraps is copied.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxline_proto::fabric::push::HEADER_BYTES;
use fluxline_proto::fabric::{AccessError, Memory};

use super::map::SharedMap;
use crate::push::Broken;

const WORD: u64 = 8;

/// Positions count all bytes ever; a producer's own begin at `base`.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    base: u64,
    /// The reader may read up to here.
    end: u64,
}

/// The consumer's region: the word for the tail, and the ring.
#[derive(Debug)]
pub(crate) struct LandingRing {
    /// The ring alone.
    map: SharedMap,
    size: u64,
    /// As the producer counts.
    tail: AtomicU64,
    /// What was read.
    head: AtomicU64,
    shown: Mutex<Shown>,
    broken: AtomicBool,
    overrun: AtomicU64,
    records: AtomicU64,
}

impl LandingRing {
    /// A ring of `size` bytes, a power of two; the region is longer by its header.
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
            shown: Mutex::default(),
            broken: AtomicBool::new(false),
            overrun: AtomicU64::new(0),
            records: AtomicU64::new(0),
        }))
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was read, as the producer counts: what it is told as credit.
    pub(crate) fn head(&self) -> u64 {
        self.head.load(Ordering::Relaxed).saturating_sub(self.shown().base)
    }

    /// Published and not read \[byte\].
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.tail.load(Ordering::Relaxed).saturating_sub(self.head())
    }

    /// The producer wrote what cannot be.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Puts that were refused because what they overwrite was not read yet.
    pub(crate) fn overrun(&self) -> u64 {
        self.overrun.load(Ordering::Relaxed)
    }

    /// Records read.
    pub(crate) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Begins anew for the next producer, once all of the last one's records are read; `false`:
    /// they are not.
    pub(crate) fn restart(&self) -> bool {
        let mut shown = self.shown();
        let head = self.head.load(Ordering::Acquire);
        let published = shown.base + self.tail.load(Ordering::Relaxed);
        if self.is_broken() || head != shown.end || head != published {
            return false;
        }
        let base = head.next_multiple_of(self.size);
        *shown = Shown { base, end: base };
        self.tail.store(0, Ordering::Relaxed);
        self.head.store(base, Ordering::Relaxed);
        true
    }

    /// Whether a put to here would overwrite bytes that the reader may have.
    fn is_lent(&self, at: u64, bytes: u64, end: u64) -> bool {
        // SYNC room-back <- release
        let head = self.head.load(Ordering::Acquire);
        let unread = end - head;
        let mask = self.size - 1;
        // Each begins outside the other, going up from its own beginning.
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
        if let (0, Ok(word)) = (offset, from.try_into()) {
            self.tail.store(u64::from_le_bytes(word), Ordering::Release); // SYNC tail -> show
            return Ok(());
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

/// The side that reads; one per ring.
#[derive(Debug)]
pub(crate) struct RingReader {
    ring: Arc<LandingRing>,
    position: u64,
    end: u64,
    /// A record that wraps.
    joined: Vec<u8>,
}

impl RingReader {
    /// The reader of a ring that has none.
    pub(crate) fn new(ring: Arc<LandingRing>) -> RingReader {
        RingReader { ring, position: 0, end: 0, joined: Vec::new() }
    }

    /// The oldest record, in place until the next call; `None`: there is none now.
    ///
    /// Errors: [`Broken`], for good.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, Broken> {
        if self.ring.is_broken() {
            return Err(Broken);
        }
        if self.position == self.end {
            self.show()?;
            if self.position == self.end {
                return Ok(None);
            }
        } else {
            self.release();
        }
        let mut word = [0; WORD as usize];
        self.ring.map.read(self.position & (self.ring.size - 1), &mut word);
        let (length, there) = (u64::from_le_bytes(word), self.end - self.position - WORD);
        if length > there || length > self.ring.size / 4 {
            return Err(self.broken());
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
            return Ok(Some(&self.joined));
        }
        // SAFETY: inside, for it does not wrap. These bytes are before `Shown::end` and behind
        // `head`, which moves with `release` alone, from here and needs `self` mutably: until then
        // `write` refuses them. What was written before happened before (the lock; SYNC tail).
        Ok(Some(unsafe { self.ring.map.lend(at, first) }))
    }

    /// All before the position may be overwritten.
    fn release(&mut self) {
        self.ring.head.store(self.position, Ordering::Release); // SYNC room-back -> is_lent
    }

    /// Looks for more; gives all that was read back first.
    fn show(&mut self) -> Result<(), Broken> {
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
        let Some(tail) = tail.filter(sound) else { return Err(self.broken()) };
        (shown.end, self.end) = (tail, tail);
        Ok(())
    }

    fn broken(&self) -> Broken {
        self.ring.broken.store(true, Ordering::Relaxed);
        Broken
    }

    /// Published and not read \[byte\].
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
        assert_eq!(reader.next(), Ok(Some(b"one".as_slice())));
        assert!(ring.write(HEADER_BYTES + 8, b"x").is_err(), "lent");
        assert!(ring.write(HEADER_BYTES + 56, &[0; 8]).is_ok(), "free");
        assert!(ring.write(HEADER_BYTES + 24, &[0; 16]).is_err(), "its beginning is not read");
        assert_eq!(reader.next(), Ok(Some(b"two".as_slice())));
        assert!(ring.write(HEADER_BYTES + 8, b"x").is_ok(), "given back");
        assert!(ring.write(HEADER_BYTES, &[0; 64]).is_err(), "covers what is lent");
        assert_eq!(reader.next(), Ok(None));
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
                assert_eq!(reader.next(), Ok(Some(record.as_slice())));
                assert_eq!(reader.next(), Ok(None));
                assert_eq!(ring.head(), position);
            }
            assert!(ring.restart());
            assert_eq!((ring.head(), ring.unread_bytes()), (0, 0));
        }
    }

    #[test]
    fn nonsense_breaks_the_ring_for_good() {
        for tail in [4, 72, u64::MAX - 7] {
            let ring = LandingRing::new(64).expect("memory");
            let mut reader = RingReader::new(Arc::clone(&ring));
            ring.write(0, &u64::to_le_bytes(tail)).expect("taken");
            assert_eq!(reader.next(), Err(Broken), "{tail}");
            assert_eq!(reader.next(), Err(Broken));
            assert!(ring.is_broken() && !ring.restart());
        }
        let ring = LandingRing::new(64).expect("memory");
        let mut reader = RingReader::new(Arc::clone(&ring));
        ring.write(HEADER_BYTES, &[0xFF; 8]).expect("a length that cannot be");
        ring.write(0, &16_u64.to_le_bytes()).expect("taken");
        assert_eq!(reader.next(), Err(Broken));
    }
}
