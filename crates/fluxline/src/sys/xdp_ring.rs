//! The four rings that an AF_XDP socket shares with the kernel: single producer, single consumer.
//!
//! Each ring has two running indices, modulo 2^32, and a power of two of entries. The producer
//! publishes its index with Release after writing entries, and the consumer reads it with Acquire
//! before reading them. The consumer's index works in the same way for room. Source: Linux
//! Documentation/networking/af_xdp.rst, net/xdp/xsk_queue.h ("The structure of the shared state").

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::map::SharedMap;
use super::shared::Access;

/// A descriptor of the receive and transmit rings: `struct xdp_desc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) address: u64,
    pub(crate) bytes: u32,
    pub(crate) options: u32,
}

/// `struct xdp_desc` \[byte\]: an address of 8, length and options of 4 each.
const DESCRIPTOR_BYTES: u64 = 16;
const _: () = assert!(size_of::<libc::xdp_desc>() == DESCRIPTOR_BYTES as usize);

/// The kind of a ring's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entries {
    /// Addresses of chunks: the fill and completion rings.
    Addresses,
    /// [`Descriptor`]s: the receive and transmit rings.
    Descriptors,
}

impl Entries {
    fn bytes(self) -> u64 {
        if self == Entries::Addresses { 8 } else { DESCRIPTOR_BYTES }
    }
}

/// One ring, seen from our side: we produce or consume.
#[derive(Debug)]
pub(crate) struct KernelRing {
    map: SharedMap,
    offsets: libc::xdp_ring_offset,
    entry_bytes: u64,
    count: u32,
    /// Our index; published by [`KernelRing::publish`].
    own: u32,
    /// The kernel's index when it was last read.
    seen: u32,
}

impl KernelRing {
    /// Maps a ring of `count` entries, a power of two.
    pub(crate) fn map(
        socket: BorrowedFd<'_>,
        page_offset: libc::off_t,
        offsets: libc::xdp_ring_offset,
        entries: Entries,
        count: u32,
    ) -> io::Result<KernelRing> {
        let entry_bytes = entries.bytes();
        let bytes = (offsets.desc + u64::from(count) * entry_bytes) as usize;
        let map = SharedMap::of_file_at(socket, page_offset, bytes, Access::ReadWrite)?;
        Ok(KernelRing { map, offsets, entry_bytes, count, own: 0, seen: 0 })
    }

    fn place(&self, index: u32) -> u64 {
        self.offsets.desc + u64::from(index & (self.count - 1)) * self.entry_bytes
    }

    /// As producer: returns the number of published entries that the kernel has not taken yet.
    pub(crate) fn waiting(&self) -> u32 {
        self.own.wrapping_sub(self.map.half_word(self.offsets.consumer).load(Acquire))
    }

    /// As producer: writes an address; the ring has an entry for every chunk there is.
    pub(crate) fn write_address(&mut self, address: u64) {
        self.map.word(self.place(self.own)).store(address, Relaxed);
        self.own = self.own.wrapping_add(1);
    }

    /// As producer: writes a descriptor; the ring has an entry for every part there is.
    pub(crate) fn write_descriptor(&mut self, descriptor: Descriptor) {
        let place = self.place(self.own);
        self.map.word(place).store(descriptor.address, Relaxed);
        self.map.half_word(place + 8).store(descriptor.bytes, Relaxed);
        self.map.half_word(place + 12).store(descriptor.options, Relaxed);
        self.own = self.own.wrapping_add(1);
    }

    /// As producer: publishes the written entries to the kernel.
    pub(crate) fn publish_written(&mut self) {
        // Pairs with the kernel's acquire of the producer index.
        self.map.half_word(self.offsets.producer).store(self.own, Release);
    }

    /// As consumer: returns the number of entries that can be read, counted from our index. Reads
    /// the kernel's index only after all known entries are used.
    pub(crate) fn filled(&mut self) -> u32 {
        if self.seen == self.own {
            return self.filled_now();
        }
        self.seen.wrapping_sub(self.own)
    }

    /// As consumer: returns the number of entries that can be read; always reads the kernel's
    /// index.
    pub(crate) fn filled_now(&mut self) -> u32 {
        // Pairs with the kernel's release of its producer index: the entries are written.
        let seen = self.map.half_word(self.offsets.producer).load(Acquire);
        // An index beyond the ring's size is a defect of the kernel, and is ignored.
        if seen.wrapping_sub(self.own) <= self.count {
            self.seen = seen;
        }
        self.seen.wrapping_sub(self.own)
    }

    /// As consumer: returns the address `ahead` entries after our index.
    pub(crate) fn address(&self, ahead: u32) -> u64 {
        self.map.word(self.place(self.own.wrapping_add(ahead))).load(Relaxed)
    }

    /// As consumer: returns the descriptor `ahead` entries after our index.
    pub(crate) fn descriptor(&self, ahead: u32) -> Descriptor {
        let place = self.place(self.own.wrapping_add(ahead));
        Descriptor {
            address: self.map.word(place).load(Relaxed),
            bytes: self.map.half_word(place + 8).load(Relaxed),
            options: self.map.half_word(place + 12).load(Relaxed),
        }
    }

    /// As consumer: advances by `entries` entries.
    pub(crate) fn advance(&mut self, entries: u32) {
        self.own = self.own.wrapping_add(entries);
    }

    /// As consumer: allows the kernel to overwrite the entries that were read.
    pub(crate) fn publish_read(&mut self) {
        // Pairs with the kernel's acquire of the consumer index.
        self.map.half_word(self.offsets.consumer).store(self.own, Release);
    }

    /// Returns true if the kernel needs a system call before it reads this ring.
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.map.half_word(self.offsets.flags).load(Acquire) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}
