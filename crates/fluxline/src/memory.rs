//! Memory of the program that links use as regions without a copy.
//!
//! On shared memory a region must be in a file that peers can map, so this memory is for the other
//! links ([`Capabilities::own_memory`](fluxline_core::fabric::Capabilities::own_memory)).
//!
//! ```
//! use std::any::Any;
//! use std::sync::Arc;
//!
//! use fluxline::fabric::Fabric;
//! use fluxline::fabric::memory::Lab;
//! use fluxline::memory::OwnMemory;
//!
//! let mut node = Lab::new().node("board")?;
//! let region = node.register_own(Arc::new(OwnMemory::from(vec![7_u64; 1024])))?;
//! node.view(region, &mut |bytes| bytes[..8].fill(1))?; // nobody else has it now
//!
//! // After the region's end, the program gets its words back.
//! let memory: Arc<dyn Any + Send + Sync> = node.memory(region)?;
//! node.withdraw(region)?;
//! let words = memory.downcast::<OwnMemory>().ok().and_then(Arc::into_inner);
//! let words = words.and_then(|own| own.into_words().ok()).ok_or("no words")?;
//! assert_eq!((words[0], words[1]), (0x0101_0101_0101_0101, 7));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::io;
use std::ptr::NonNull;

use fluxline_core::fabric::{AccessError, Memory};
use fluxline_core::roce::UnsummedPacket;

use crate::sys::map::SharedMap;
use crate::sys::shared::Pages;
use crate::sys::shim::Ordering;

/// Memory of this process: words of the program, or pages of the system.
///
/// As long as no link has it, [`OwnMemory::as_mut_slice`] gives its bytes.
#[derive(Debug)]
pub struct OwnMemory {
    map: SharedMap,
}

impl OwnMemory {
    /// Maps zero bytes. Errors: the system's. Cost: touches the memory.
    pub fn zeroed(bytes: u64) -> io::Result<OwnMemory> {
        OwnMemory::mapped(bytes, Pages::Small)
    }

    /// Maps zero bytes on huge pages, as far as the system has some: fewer misses of the address
    /// cache. Errors: the system's. Cost: touches the memory.
    pub fn huge(bytes: u64) -> io::Result<OwnMemory> {
        OwnMemory::mapped(bytes, Pages::Huge)
    }

    fn mapped(bytes: u64, pages: Pages) -> io::Result<OwnMemory> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(OwnMemory { map: SharedMap::private(bytes, pages)? })
    }

    /// Returns the bytes. The exclusive borrow keeps links and other threads from them.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.map.view(0).unwrap_or_default() // always there: no other process has it
    }

    /// Returns the words that it was made of. Errors: itself, if it was mapped.
    pub fn into_words(self) -> Result<Box<[u64]>, OwnMemory> {
        self.map.into_words().map_err(|map| OwnMemory { map })
    }

    fn place(&self, offset: u64, bytes: usize) -> Result<u64, AccessError> {
        self.check(offset, bytes as u64).map(|()| offset)
    }

    fn word_place(&self, offset: u64) -> Result<u64, AccessError> {
        let place = self.place(offset, 8)?;
        if offset.is_multiple_of(8) { Ok(place) } else { Err(AccessError::Unaligned { offset }) }
    }
}

impl From<Box<[u64]>> for OwnMemory {
    /// Takes the words as they are, without a copy.
    fn from(words: Box<[u64]>) -> OwnMemory {
        OwnMemory { map: SharedMap::of_words(words) }
    }
}

impl From<Vec<u64>> for OwnMemory {
    /// Takes the words as they are; without a copy if the vector has no spare room.
    fn from(words: Vec<u64>) -> OwnMemory {
        OwnMemory::from(words.into_boxed_slice())
    }
}

impl Memory for OwnMemory {
    fn bytes(&self) -> u64 {
        self.map.bytes()
    }

    fn address(&self) -> Option<NonNull<u8>> {
        Some(self.map.at(0, 0))
    }

    fn view(&mut self, visit: &mut dyn FnMut(&mut [u8])) -> Result<(), AccessError> {
        visit(self.as_mut_slice());
        Ok(())
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.map.read(self.place(offset, into.len())?, into);
        Ok(())
    }

    fn read_summed(&self, offset: u64, packet: UnsummedPacket<'_>) -> Result<u32, AccessError> {
        let place = self.place(offset, packet.payload.len())?;
        Ok(self.map.read_summed(place, packet))
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<(), AccessError> {
        self.map.write(self.place(offset, from.len())?, from);
        Ok(())
    }

    fn load(&self, offset: u64) -> Result<u64, AccessError> {
        Ok(self.map.word(self.word_place(offset)?).load(Ordering::Acquire)) // SYNC word <- store
    }

    fn store(&self, offset: u64, value: u64) -> Result<(), AccessError> {
        // SYNC word -> load
        self.map.word(self.word_place(offset)?).store(value, Ordering::Release);
        Ok(())
    }

    fn fetch_add(&self, offset: u64, add: u64) -> Result<u64, AccessError> {
        Ok(self.map.word(self.word_place(offset)?).fetch_add(add, Ordering::AcqRel))
    }

    fn compare_swap(&self, offset: u64, expected: u64, desired: u64) -> Result<u64, AccessError> {
        let word = self.map.word(self.word_place(offset)?);
        match word.compare_exchange(expected, desired, Ordering::AcqRel, Ordering::Acquire) {
            Ok(before) | Err(before) => Ok(before),
        }
    }
}

#[cfg(test)]
mod tests;
