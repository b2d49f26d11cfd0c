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
//! Each side claims the ring (claim.rs), so that there is one producer at a time, the next goes on
//! behind what the last one published, and a side whose process died is noticed: by whoever waits,
//! every 50 ms (pace.rs).
//!
//! The other process is not trusted: each word that it wrote is checked before use, and what no
//! ring can hold ends the ring ([`Broken`]). Its records are copied out before they are looked at
//! ([`Record`]).
//! Source of the ideas: heads in the data, M. M. Michael's and others' slot sequence numbers, here
//! for records of any size; a copy of the other's position, P. Lee et al. 2009.

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

/// Before the ring \[byte\]: a page; for loom, to which each word is an object, what is used of it.
pub(crate) const HEADER_BYTES: u64 = if cfg!(loom) { 392 } else { 4096 };
const WORD: u64 = 8;
/// A head that says: the rest of the ring is skipped.
const SKIP: u64 = u64::MAX;
const MAGIC: u64 = u64::from_le_bytes(*b"FLXPUSH2");
/// The smallest ring \[byte\].
pub(crate) const SIZE_MIN: u64 = 64;
/// No position is as high: at 100 GB/s, one would be after three years.
const POSITION_MAX: u64 = 1 << 63;

/// Words of the header \[byte\], those of different writers on pairs of lines of their own.
mod at {
    pub const MAGIC: u64 = 0;
    pub const SIZE: u64 = 8;
    /// True when the consumer may sleep; it never changes.
    pub const SLEEPS: u64 = 16;
    /// Beginnings and ends of producers: odd while there is one.
    pub const PRODUCERS: u64 = 128;
    /// The producer's process, for messages alone.
    pub const PROCESS: u64 = 136;
    pub const HEAD: u64 = 256;
    pub const CONSUMER_CLOSED: u64 = 264;
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
    /// Of the ring, without its header \[byte\].
    pub size: u64,
    /// The consumer may sleep.
    pub sleeps: bool,
}

/// A ring in a mapping.
#[derive(Clone, Debug)]
struct MappedRing {
    map: Arc<SharedMap>,
    /// Offset of the header in the mapping \[byte\].
    start: u64,
    /// Of the ring, a power of two \[byte\].
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

    /// Returns the offset in the mapping of `position`, a multiple of a word; at least a word is
    /// there, at most up to the ring's end.
    #[inline]
    fn place(&self, position: u64) -> u64 {
        debug_assert!(position.is_multiple_of(WORD));
        self.start + HEADER_BYTES + (position & (self.size - 1))
    }

    /// The head of a record at `position`, a multiple of a word.
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

    /// The longest record with its head \[byte\]: so that one always fits in the end.
    fn record_max(&self) -> u64 {
        self.size / 4 - WORD
    }

    /// Returns the bytes of a record at `position`, by its head, neither zero nor [`SKIP`]; `None`:
    /// no producer writes such a head there.
    #[inline]
    fn record(&self, position: u64, head: u64) -> Option<u64> {
        let length = head - 1;
        let fits = length <= self.record_max() - WORD && length <= self.to_end(position) - WORD;
        fits.then(|| WORD + length.next_multiple_of(WORD))
    }

    /// The ring's beginning behind a [`SKIP`] at `position`; `None`: no producer skips there.
    fn skip(&self, position: u64) -> Option<u64> {
        let to_end = self.to_end(position);
        (to_end < self.record_max()).then_some(position + to_end)
    }

    /// Behind the last published record, from a position that was given back or begun with; `None`:
    /// what is there is no chain of records. For a producer whose claim is behind all stores of the
    /// last one.
    fn end_of_records(&self, from: u64) -> Option<u64> {
        let mut position = from;
        while position - from < self.size {
            match self.head(position).load(Ordering::Relaxed) {
                0 => return Some(position),
                SKIP => position = self.skip(position)?,
                head => position += self.record(position, head)?,
            }
        }
        None
    }
}

/// Returns true when a word of the other process can be a position.
fn is_position(word: u64) -> bool {
    word.is_multiple_of(WORD) && word < POSITION_MAX
}
