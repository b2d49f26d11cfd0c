//! One direction of a connection: records from one process to another, in order, without a lock.
//!
//! A ring of bytes in shared memory. The producer owns [tail, head + size), the consumer [head,
//! tail); positions only grow. Each record is a word (length, kind) and its bytes, padded to words.
//! The word is zero until the record is complete, so that a short record is one cache line from
//! core to core:
//!
//! ```text
//!        head                        tail
//!   free | word bytes | word bytes   | 0 | free
//! ```
//!
//! The other process is not trusted: positions and lengths that it wrote are checked before use,
//! and invalid values end the channel ([`Corrupt`]), not the process.

use std::sync::Arc;

use crate::sys::map::SharedMap;
use crate::sys::shim::{AtomicU64, Ordering};

/// Size of a channel's ring \[byte\]: two channels and the head of a slot take 64 KiB. Small under
/// loom, which makes each word an object.
pub(super) const RING_BYTES: u64 = if cfg!(loom) { 48 } else { (32 << 10) - 512 };
/// Size of a channel in memory \[byte\]: the consumer's position on a line of its own, then the
/// ring.
pub(super) const CHANNEL_BYTES: u64 = RING + RING_BYTES;
/// The longest record \[byte\].
pub(super) const RECORD_BYTES_MAX: usize = 8 << 10;
/// Offsets of the parts of a channel \[byte\].
const HEAD: u64 = if cfg!(loom) { 8 } else { 128 };
const RING: u64 = 2 * HEAD;
const WORD: u64 = 8;
/// The bit of a record's word that every record has.
const PRESENT: u64 = 1;

/// The other process wrote invalid data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Corrupt;

/// The memory of a channel.
#[derive(Clone, Debug)]
struct RingMemory {
    map: Arc<SharedMap>,
    start: u64,
}

impl RingMemory {
    /// The word at a position, which is a multiple of a word.
    #[inline]
    fn word(&self, position: u64) -> &AtomicU64 {
        self.map.word(self.start + RING + position % RING_BYTES)
    }

    /// The consumer's position.
    #[inline]
    fn head(&self) -> &AtomicU64 {
        self.map.word(self.start + HEAD)
    }

    /// Copies between the ring at `position` and memory, in two parts if the record wraps.
    fn pieces(
        &self,
        position: u64,
        bytes: usize,
        mut each: impl FnMut(u64, std::ops::Range<usize>),
    ) {
        let at = position % RING_BYTES;
        let first = bytes.min((RING_BYTES - at) as usize);
        each(self.start + RING + at, 0..first);
        each(self.start + RING, first..bytes);
    }

    #[inline]
    fn write_word(&self, position: u64, word: u64) {
        self.word(position).store(word, Ordering::Relaxed);
    }

    #[inline]
    fn read_word(&self, position: u64) -> u64 {
        self.word(position).load(Ordering::Relaxed)
    }

    fn write(&self, position: u64, from: &[u8]) {
        self.pieces(position, from.len(), |at, part| self.map.write(at, &from[part]));
    }

    fn read(&self, position: u64, into: &mut [u8]) {
        self.pieces(position, into.len(), |at, part| self.map.read(at, &mut into[part]));
    }
}

/// The room of a record of `bytes` \[byte\].
fn room_of(bytes: u64) -> u64 {
    WORD + bytes.next_multiple_of(WORD)
}

/// The sending end of a channel.
#[derive(Debug)]
pub(super) struct Sender {
    place: RingMemory,
    tail: u64,
    /// The consumer's position when it was last read: its line is fetched only when the ring seems
    /// full.
    head_seen: u64,
}

impl Sender {
    /// The channel at `start`, which is empty.
    pub fn new(map: &Arc<SharedMap>, start: u64) -> Sender {
        Sender { place: RingMemory { map: Arc::clone(map), start }, tail: 0, head_seen: 0 }
    }

    /// Returns true when a record of `bytes` has room now.
    #[inline]
    pub fn has_room(&mut self, bytes: usize) -> bool {
        // The word behind the record is written too.
        let wanted = room_of(bytes as u64) + WORD;
        if self.fits(wanted) {
            return true;
        }
        // SYNC record-taken <- take
        self.head_seen = self.place.head().load(Ordering::Acquire);
        self.fits(wanted)
    }

    /// Returns true when `wanted` bytes are free behind the tail. With a head beyond the tail, an
    /// invalid value of the other process, there is never room.
    fn fits(&self, wanted: u64) -> bool {
        let used = self.tail.wrapping_sub(self.head_seen);
        used <= RING_BYTES && RING_BYTES - used >= wanted
    }

    /// Appends a record. Call `has_room` first.
    pub fn push(&mut self, kind: u8, bytes: &[u8]) {
        self.place.write(self.tail + WORD, bytes);
        self.seal(kind, bytes.len() as u64);
    }

    /// Appends a record of words. Call `has_room` first.
    #[inline]
    pub fn push_words<const COUNT: usize>(&mut self, kind: u8, words: [u64; COUNT]) {
        let mut at = self.tail;
        for word in words {
            at += WORD;
            self.place.write_word(at, word);
        }
        self.seal(kind, COUNT as u64 * WORD);
    }

    /// Shows the record of `bytes` behind the tail's word to the other side.
    #[inline]
    fn seal(&mut self, kind: u8, bytes: u64) {
        let next = self.tail + room_of(bytes);
        self.place.word(next).store(0, Ordering::Relaxed);
        let word = bytes << 16 | u64::from(kind) << 8 | PRESENT;
        // SYNC record-there -> peek
        self.place.word(self.tail).store(word, Ordering::Release);
        self.tail = next;
    }
}

/// Kind and length of the oldest record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub kind: u8,
    /// Without its word and its padding \[byte\].
    pub bytes: usize,
}

/// The receiving end of a channel.
#[derive(Debug)]
pub(super) struct Receiver {
    place: RingMemory,
    head: u64,
}

impl Receiver {
    /// The channel at `start`, which is empty.
    pub fn new(map: &Arc<SharedMap>, start: u64) -> Receiver {
        Receiver { place: RingMemory { map: Arc::clone(map), start }, head: 0 }
    }

    /// Returns true when there is a record.
    #[inline]
    pub fn has_record(&self) -> bool {
        self.place.word(self.head).load(Ordering::Relaxed) != 0
    }

    /// Returns the oldest record, if any.
    #[inline]
    pub fn peek(&self) -> Result<Option<Record>, Corrupt> {
        // SYNC record-there <- seal
        let word = self.place.word(self.head).load(Ordering::Acquire);
        if word == 0 {
            return Ok(None);
        }
        let bytes = word >> 16;
        let fits = bytes <= RECORD_BYTES_MAX as u64 && room_of(bytes) + WORD <= RING_BYTES;
        if word & 0xFF != PRESENT || !fits {
            return Err(Corrupt);
        }
        Ok(Some(Record { kind: (word >> 8) as u8, bytes: bytes as usize }))
    }

    /// Copies the record that `peek` found.
    pub fn read(&self, record: Record, into: &mut Vec<u8>) {
        into.resize(record.bytes, 0);
        self.place.read(self.head + WORD, into);
    }

    /// Returns the words of the record that `peek` found; `None`: it has another length.
    #[inline]
    pub fn read_words<const COUNT: usize>(&self, record: Record) -> Option<[u64; COUNT]> {
        if record.bytes as u64 != COUNT as u64 * WORD {
            return None;
        }
        Some(std::array::from_fn(|index| {
            self.place.read_word(self.head + (1 + index as u64) * WORD)
        }))
    }

    /// Frees the room of the record that `peek` found.
    #[inline]
    pub fn take(&mut self, record: Record) {
        self.head += room_of(record.bytes as u64);
        self.place.head().store(self.head, Ordering::Release); // SYNC record-taken -> has_room
    }
}
