//! A record in place in the ring.

use std::fmt;

use crate::sys::map::SharedMap;

const WORD: usize = 8;

/// A record in the memory of a push ring, until the consumer's next call.
///
/// The producer's process can write these bytes at any time, by a defect or on purpose. So a record
/// is not a `&[u8]`: bytes are copied out, and checked in the copy. A record that changes during
/// the copy arrives as a mixture of bytes, without other harm. Reasons: docs/adr/0016.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    map: &'a SharedMap,
    /// Its offset in the mapping, a multiple of a word \[byte\].
    place: u64,
    bytes: usize,
}

impl<'a> Record<'a> {
    /// # Safety
    /// Whole words around `bytes` must be inside the mapping, `place` a multiple of a word.
    #[inline]
    pub(crate) unsafe fn new(map: &'a SharedMap, place: u64, bytes: usize) -> Record<'a> {
        debug_assert!(map.holds(place, bytes.next_multiple_of(WORD)));
        Record { map, place, bytes }
    }

    /// Returns the mapping that contains the record, and its offset \[byte\].
    pub(crate) fn place(&self) -> (&'a SharedMap, u64) {
        (self.map, self.place)
    }

    /// Returns its length \[byte\].
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns true when it has no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Copies all bytes into `into`, replacing its contents. Cost: one copy; it allocates only for
    /// a record that is longer than all earlier ones.
    #[inline]
    pub fn copy_to(&self, into: &mut Vec<u8>) {
        self.map.read_record(self.place, self.bytes, into);
    }

    /// Copies the bytes into a new vector.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.copy_to(&mut bytes);
        bytes
    }

    /// Returns word number `index` of the record, little-endian; `None` beyond the last whole word.
    #[inline]
    #[must_use]
    pub fn word(&self, index: usize) -> Option<u64> {
        // SAFETY: a whole word of the record, which is inside (`new`).
        (index < self.bytes / WORD).then(|| unsafe { self.word_inside(index) })
    }

    /// Returns all whole words of the record, little-endian.
    #[inline]
    pub fn words(&self) -> impl Iterator<Item = u64> + use<'a> {
        let record = *self;
        // SAFETY: a whole word of the record, which is inside (`new`).
        (0..self.bytes / WORD).map(move |index| unsafe { record.word_inside(index) })
    }

    /// # Safety
    /// The word must be one of the record.
    #[inline]
    unsafe fn word_inside(&self, index: usize) -> u64 {
        let place = self.place + (index * WORD) as u64;
        // SAFETY: inside by the caller's promise and aligned.
        unsafe { self.map.data_word(place) }
    }

    /// Splits the record into its first word and the remaining record; returns `None` without a
    /// whole word.
    #[inline]
    #[must_use]
    pub fn split_word(&self) -> Option<(u64, Record<'a>)> {
        let first = self.word(0)?;
        let (place, bytes) = (self.place + WORD as u64, self.bytes - WORD);
        Some((first, Record { map: self.map, place, bytes }))
    }

    /// Returns a pointer to its first byte, for other languages. The conditions of
    /// [`Record::as_slice`] apply.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.map.at(self.place, self.bytes).as_ptr()
    }

    /// Returns the bytes in place, without a copy.
    ///
    /// # Safety
    /// They must not be written while the result lives: neither by another process that maps the
    /// region (each process of the same user can), nor by a window or a put of this process. A
    /// caller that trusts the producer's program may skip the copy; the condition cannot be
    /// checked.
    #[inline]
    #[must_use]
    pub unsafe fn as_slice(&self) -> &'a [u8] {
        // SAFETY: inside (`new`); unchanged by the caller's promise.
        unsafe { self.map.lend(self.place, self.bytes) }
    }
}

impl fmt::Debug for Record<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a record of {} bytes", self.bytes)
    }
}
