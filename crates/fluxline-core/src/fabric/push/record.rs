//! A record, where it lies.

use alloc::vec::Vec;
use core::fmt;
use core::ptr::NonNull;

const WORD: usize = 8;

/// Mapped memory with records that another process may write at any time.
pub trait SharedBytes {
    /// Copies `bytes` at `place` into a vector, which becomes as long.
    fn copy_to(&self, place: u64, bytes: usize, into: &mut Vec<u8>);

    /// Returns the aligned word at `place`.
    fn word(&self, place: u64) -> u64;

    /// Returns the address of `bytes` at `place` in this process.
    fn address(&self, place: u64, bytes: usize) -> NonNull<u8>;
}

/// A record of a push ring, valid until the next call to its receiver.
///
/// A record of a link's own ring lies in memory that the sender's process can write at any time:
/// check a copy, never the record itself.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    place: Place<'a>,
    bytes: usize,
}

#[derive(Clone, Copy)]
enum Place<'a> {
    Own(&'a [u8]),
    Shared { map: &'a dyn SharedBytes, place: u64 },
}

impl<'a> Record<'a> {
    /// Returns a record in memory that nobody else writes.
    #[inline]
    #[must_use]
    pub fn own(bytes: &'a [u8]) -> Record<'a> {
        Record { place: Place::Own(bytes), bytes: bytes.len() }
    }

    /// Returns the record of `bytes` at `place` of mapped memory.
    #[inline]
    #[must_use]
    pub fn shared(map: &'a dyn SharedBytes, place: u64, bytes: usize) -> Record<'a> {
        Record { place: Place::Shared { map, place }, bytes }
    }

    /// Returns the length \[byte\].
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns true for a record of no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Copies the bytes into a vector, which becomes as long. Cost: a copy; it allocates only for a
    /// record that is longer than all before.
    #[inline]
    pub fn copy_to(&self, into: &mut Vec<u8>) {
        match self.place {
            Place::Own(bytes) => {
                into.clear();
                into.extend_from_slice(bytes);
            }
            Place::Shared { map, place } => map.copy_to(place, self.bytes, into),
        }
    }

    /// Returns the bytes as a vector of their own.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.copy_to(&mut bytes);
        bytes
    }

    /// Returns the bytes without a copy, where nobody else writes them.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> Option<&'a [u8]> {
        match self.place {
            Place::Own(bytes) => Some(bytes),
            Place::Shared { .. } => None,
        }
    }

    /// Returns word number `index`, little-endian; `None`: that word is not whole.
    #[inline]
    #[must_use]
    pub fn word(&self, index: usize) -> Option<u64> {
        if index >= self.bytes / WORD {
            return None;
        }
        Some(match self.place {
            Place::Own(bytes) => {
                let word = bytes.get(index * WORD..)?.first_chunk::<WORD>()?;
                u64::from_le_bytes(*word)
            }
            Place::Shared { map, place } => map.word(place + (index * WORD) as u64),
        })
    }

    /// Returns the first word, and the record behind it; `None`: it has no whole word.
    #[inline]
    #[must_use]
    pub fn split_word(&self) -> Option<(u64, Record<'a>)> {
        let word = self.word(0)?;
        let place = match self.place {
            Place::Own(bytes) => Place::Own(&bytes[WORD..]),
            Place::Shared { map, place } => Place::Shared { map, place: place + WORD as u64 },
        };
        Some((word, Record { place, bytes: self.bytes - WORD }))
    }

    /// Returns the address of the first byte, for programs in other languages.
    #[must_use]
    pub fn address(&self) -> NonNull<u8> {
        match self.place {
            Place::Own(bytes) => NonNull::from(bytes).cast(),
            Place::Shared { map, place } => map.address(place, self.bytes),
        }
    }
}

impl fmt::Debug for Record<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a record of {} bytes", self.bytes)
    }
}
