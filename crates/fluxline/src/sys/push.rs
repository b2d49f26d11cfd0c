//! The push ring over shared memory: records of any size from one process to another, in place.
//!
//! A ring of bytes in the consumer's region; positions only grow. A record is a head (a word: its
//! length plus one) and its bytes, padded to words, and never wraps: a remainder at the ring's end
//! is skipped. The consumer polls the head of the next record, which is zero until the record is
//! published. So a short record costs only its own cache line, and no further line for an index. A
//! batch is published by its first head, which is stored last, after all later records and a zero
//! head behind the last one. The consumer gives room back once per quarter of the ring, or when it
//! has read everything.
//!
//! Each side claims the ring (claim.rs). So there is one producer at a time, the next one continues
//! behind the records that the last one published, and a waiting side notices every 50 ms (pace.rs)
//! if the other side's process has died.
//!
//! The other process is not trusted: each word that it wrote is checked before use, and an
//! impossible value ends the ring ([`Broken`]). Records are copied out before they are parsed
//! ([`Record`]). Source of the ideas: heads in the data, M. M. Michael's and others' slot sequence
//! numbers, here for records of any size; a copy of the other's position, P. Lee et al. 2009.

#[cfg_attr(any(loom, all(test, miri)), path = "push/claim_memory.rs")]
mod claim;
mod consumer;
mod pace;
mod producer;
mod record;

use std::sync::Arc;

use super::map::SharedMap;
use super::shim::{AtomicU64, Ordering};

pub(crate) use claim::ClaimFile;
pub(crate) use consumer::Consumer;
pub(crate) use producer::Producer;
pub use record::Record;

/// Size of the header before the ring \[byte\]: a page; only the used part under loom, which makes
/// each word an object.
pub(crate) const HEADER_BYTES: u64 = if cfg!(loom) { 392 } else { 4096 };
const WORD: u64 = 8;
/// The head that marks the remainder of the ring as skipped.
const SKIP: u64 = u64::MAX;
const MAGIC: u64 = u64::from_le_bytes(*b"FLXPUSH3");
/// The smallest ring \[byte\].
pub(crate) const SIZE_MIN: u64 = 64;
/// A bound that positions never reach: at 100 GB/s, it takes three years.
const POSITION_MAX: u64 = 1 << 63;

/// Offsets of words in the header \[byte\]; different writers have pairs of cache lines of their
/// own.
mod at {
    pub const MAGIC: u64 = 0;
    pub const SIZE: u64 = 8;
    /// True when the consumer may sleep; it never changes.
    pub const SLEEPS: u64 = 16;
    /// Counts beginnings and ends of producers: odd while the ring has a producer.
    pub const PRODUCERS: u64 = 128;
    /// The producer's process, only for messages.
    pub const PROCESS: u64 = 136;
    pub const HEAD: u64 = 256;
    pub const CONSUMER_CLOSED: u64 = 264;
    /// Records in the ring's life before the position in HEAD.
    pub const TAKEN: u64 = 272;
    /// Odd while the consumer writes HEAD and TAKEN, which belong together.
    pub const GIVEN_BACK: u64 = 280;
    pub const BELL: u64 = 384;
    pub const SLEEPING: u64 = 388;
}

/// The two sides of a ring, by the byte of its region's file that each locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Consumer = 0,
    Producer = 1,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Consumer => Side::Producer,
            Side::Producer => Side::Consumer,
        }
    }
}

/// The place of a ring in a mapping, and its consumer's way of waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Offset of its header \[byte\].
    pub start: u64,
    /// Size of the ring without its header \[byte\].
    pub size: u64,
    /// True if the consumer may sleep.
    pub sleeps: bool,
}

/// A ring in a mapping.
#[derive(Clone, Debug)]
struct MappedRing {
    map: Arc<SharedMap>,
    /// Offset of the header in the mapping \[byte\].
    start: u64,
    /// Size of the ring, a power of two \[byte\].
    size: u64,
}

impl MappedRing {
    fn of(map: Arc<SharedMap>, start: u64, size: u64) -> Option<MappedRing> {
        let sound = size.is_power_of_two() && size >= SIZE_MIN && start.is_multiple_of(WORD);
        let all = usize::try_from(HEADER_BYTES.checked_add(size)?).ok()?;
        (sound && map.is_writable() && map.holds(start, all)).then_some(MappedRing {
            map,
            start,
            size,
        })
    }

    fn word(&self, place: u64) -> &AtomicU64 {
        self.map.word(self.start + place)
    }

    /// Returns the offset in the mapping of `position`, a multiple of a word. At least one word
    /// fits between it and the ring's end.
    #[inline]
    fn place(&self, position: u64) -> u64 {
        debug_assert!(position.is_multiple_of(WORD));
        self.start + HEADER_BYTES + (position & (self.size - 1))
    }

    /// Returns the head of a record at `position`, a multiple of a word.
    #[inline]
    fn head(&self, position: u64) -> &AtomicU64 {
        // SAFETY: `of` has checked that header and ring are inside the mapping; a word is there
        // (`place`), aligned, since start and positions are: a position is counted up by whole
        // words here, or was checked (`is_position`).
        unsafe { self.map.word_unchecked(self.place(position)) }
    }

    /// Returns the bytes from a position to the ring's end.
    fn to_end(&self, position: u64) -> u64 {
        self.size - (position & (self.size - 1))
    }

    /// Returns the length of the longest record with its head \[byte\], short enough to fit
    /// eventually.
    fn record_max(&self) -> u64 {
        self.size / 4 - WORD
    }

    /// Returns the length of a record at `position` from its head, which is neither zero nor
    /// [`SKIP`]; `None` for a head that no producer writes there.
    #[inline]
    fn record(&self, position: u64, head: u64) -> Option<u64> {
        let length = head - 1;
        let fits = length <= self.record_max() - WORD && length <= self.to_end(position) - WORD;
        fits.then(|| WORD + length.next_multiple_of(WORD))
    }

    /// Returns the beginning of the ring behind a [`SKIP`] at `position`; `None` where no producer
    /// skips.
    fn skip(&self, position: u64) -> Option<u64> {
        let to_end = self.to_end(position);
        (to_end < self.record_max()).then_some(position + to_end)
    }

    /// Returns the position behind the last published record, and the number of records from a
    /// position of the consumer to it; `None` if there is no valid chain of records. For a producer
    /// whose claim comes after all stores of the last one.
    fn end_of_records(&self, from: u64) -> Option<(u64, u64)> {
        let (mut position, mut records) = (from, 0);
        while position - from < self.size {
            match self.head(position).load(Ordering::Relaxed) {
                0 => return Some((position, records)),
                SKIP => position = self.skip(position)?,
                head => {
                    position += self.record(position, head)?;
                    records += 1;
                }
            }
        }
        None
    }

    /// Returns the consumer's head, and the records before it; no number of records when the
    /// consumer has written them at each try.
    fn given_back(&self) -> (u64, Option<u64>) {
        const TRIES: usize = if cfg!(loom) { 1 } else { 1_000 };
        for _ in 0..TRIES {
            // SYNC given-back <- give_back
            let before = self.word(at::GIVEN_BACK).load(Ordering::Acquire);
            let head = self.word(at::HEAD).load(Ordering::Acquire);
            let taken = self.word(at::TAKEN).load(Ordering::Acquire);
            let after = self.word(at::GIVEN_BACK).load(Ordering::Relaxed);
            if before == after && before.is_multiple_of(2) {
                return (head, Some(taken));
            }
        }
        (self.word(at::HEAD).load(Ordering::Acquire), None)
    }
}

/// Returns true if a word of the other process can be a position.
fn is_position(word: u64) -> bool {
    word.is_multiple_of(WORD) && word < POSITION_MAX
}
