//! One direction of a connection: records from one process to another, in order, without a lock.
//!
//! A ring of bytes in shared memory. The producer owns [tail, head + size), the consumer [head,
//! tail); positions only grow. Each record is a word (length, kind) and its bytes, padded to words.
//! The other process is not trusted: positions and lengths that it wrote are checked before use,
//! and invalid values end the channel ([`Corrupt`]), not the process.

use std::sync::Arc;

use crate::sys::map::SharedMap;
use crate::sys::shim::Ordering;

/// Size of a channel's ring \[byte\]: two channels and the head of a slot take 64 KiB. Small under
/// loom, which makes each word an object.
pub(super) const RING_BYTES: u64 = if cfg!(loom) { 48 } else { (32 << 10) - 512 };
/// Size of a channel in memory \[byte\]: tail and head on lines of their own, then the ring.
pub(super) const CHANNEL_BYTES: u64 = RING + RING_BYTES;
/// The longest record \[byte\].
pub(super) const RECORD_BYTES_MAX: usize = 8 << 10;
/// Offsets of the parts of a channel \[byte\].
const TAIL: u64 = 0;
const HEAD: u64 = if cfg!(loom) { 8 } else { 128 };
const RING: u64 = 2 * HEAD;
const WORD: u64 = 8;

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

    fn write(&self, position: u64, from: &[u8]) {
        self.pieces(position, from.len(), |at, part| self.map.write(at, &from[part]));
    }

    fn read(&self, position: u64, into: &mut [u8]) {
        self.pieces(position, into.len(), |at, part| self.map.read(at, &mut into[part]));
    }
}

/// The sending end of a channel.
#[derive(Debug)]
pub(super) struct Sender {
    place: RingMemory,
    tail: u64,
}

impl Sender {
    /// The channel at `start`, which is empty.
    pub fn new(map: &Arc<SharedMap>, start: u64) -> Sender {
        Sender { place: RingMemory { map: Arc::clone(map), start }, tail: 0 }
    }

    /// Returns true when a record of `bytes` has room now.
    pub fn has_room(&self, bytes: usize) -> bool {
        // SYNC record-taken <- take
        let head = self.place.map.word(self.place.start + HEAD).load(Ordering::Acquire);
        // A head beyond the tail is an invalid value of the other process: there will never be
        // room.
        let used = self.tail.wrapping_sub(head);
        used <= RING_BYTES && RING_BYTES - used >= WORD + (bytes as u64).next_multiple_of(WORD)
    }

    /// Appends a record. Call `has_room` first.
    pub fn push(&mut self, kind: u8, parts: [&[u8]; 2]) {
        let bytes = parts[0].len() + parts[1].len();
        let word = (bytes as u64) << 8 | u64::from(kind);
        self.place.write(self.tail, &word.to_le_bytes());
        let start = self.tail + WORD;
        self.place.write(start, parts[0]);
        self.place.write(start + parts[0].len() as u64, parts[1]);
        self.tail = start + (bytes as u64).next_multiple_of(WORD);
        // SYNC record-there -> peek
        self.place.map.word(self.place.start + TAIL).store(self.tail, Ordering::Release);
    }
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
    pub fn has_record(&self) -> bool {
        self.place.map.word(self.place.start + TAIL).load(Ordering::Relaxed) != self.head
    }

    /// Copies the oldest record into `into`; returns its kind, or `None` without a record.
    pub fn peek(&self, into: &mut Vec<u8>) -> Result<Option<u8>, Corrupt> {
        // SYNC record-there <- push
        let tail = self.place.map.word(self.place.start + TAIL).load(Ordering::Acquire);
        let filled = tail.wrapping_sub(self.head);
        if filled == 0 {
            return Ok(None);
        }
        if !(WORD..=RING_BYTES).contains(&filled) {
            return Err(Corrupt);
        }
        let mut word = [0; WORD as usize];
        self.place.read(self.head, &mut word);
        let word = u64::from_le_bytes(word);
        let bytes = word >> 8;
        if bytes > RECORD_BYTES_MAX as u64 || WORD + bytes.next_multiple_of(WORD) > filled {
            return Err(Corrupt);
        }
        into.resize(bytes as usize, 0);
        self.place.read(self.head + WORD, into);
        Ok(Some(word as u8))
    }

    /// Frees the room of the oldest record; `bytes` is the length that `peek` found.
    pub fn take(&mut self, bytes: usize) {
        self.head += WORD + (bytes as u64).next_multiple_of(WORD);
        // SYNC record-taken -> has_room
        self.place.map.word(self.place.start + HEAD).store(self.head, Ordering::Release);
    }
}
