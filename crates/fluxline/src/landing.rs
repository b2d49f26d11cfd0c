//! Regions that peers write over Ethernet and that a readout in another thread reads in place.
//!
//! Two kinds exist: slots, for senders that write without waiting ([`landing_slots`]), and a push
//! ring for producers that wait for room ([`landing_ring`]). Either has memory for
//! [`register_own`](fluxline_core::fabric::Fabric::register_own), a side for the thread that polls
//! the node, and one for the thread that reads. A write into unread data is refused and counted. So
//! data that is read in place never changes under the reader. [`RingServer`] serves a push ring to
//! one producer after the other, each of which has presented the key.

mod server;

use std::io;
use std::sync::Arc;

use fluxline_core::fabric::Memory;

pub use server::{
    Leave, ReadUp, RingEvent, RingExport, RingExportError, RingServer, RingServerCounters, Turn,
};

use crate::sys::landing::{self as raw, Slots};
use crate::sys::landing_ring::{LandingRing, RingReader};

/// The announcing side of slots; dropping it ends its reader.
#[derive(Debug)]
pub struct SlotAnnouncer(raw::Announcer);

/// The reading side of slots.
#[derive(Debug)]
pub struct SlotReader(raw::Reader);

/// Makes a region of `bytes` in slots of `slot_bytes`, with its two sides. A write must begin at a
/// slot and fit into it.
///
/// Errors: the kernel does not have that much memory, or the region is smaller than one slot. Cost:
/// touches the memory.
pub fn landing_slots(bytes: u64, slot_bytes: u64) -> io::Result<(SlotAnnouncer, SlotReader)> {
    let (announcer, reader) = raw::sides(Slots::new(bytes, slot_bytes)?);
    Ok((SlotAnnouncer(announcer), SlotReader(reader)))
}

impl SlotAnnouncer {
    /// The region, for the node.
    #[must_use]
    pub fn memory(&self) -> Arc<dyn Memory> {
        Arc::clone(self.0.slots()) as Arc<dyn Memory>
    }

    /// Call this before each poll of the node that may receive.
    pub fn next_round(&mut self) {
        self.0.next_round();
    }

    /// Shows a written record to the reader; returns `false` if no record was written there.
    pub fn announce(&mut self, offset: u64, bytes: u64) -> bool {
        self.0.announce(offset, bytes)
    }

    /// Returns the number of slots that can be written.
    #[must_use]
    pub fn free(&self) -> u64 {
        let slots = self.0.slots();
        (slots.count() as u64).saturating_sub(slots.unread())
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.0.slots().count() as u64
    }

    /// Returns the number of writes that were done.
    #[must_use]
    pub fn placed(&self) -> u64 {
        self.0.slots().placed()
    }

    /// Returns the number of writes that were refused because their slot was not read yet.
    #[must_use]
    pub fn overrun(&self) -> u64 {
        self.0.slots().overrun()
    }
}

impl SlotReader {
    /// Returns the oldest record, in place until the next call; `None` if all are read.
    ///
    /// Cost: three shared words.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "lends from itself, as no iterator can")]
    pub fn next(&mut self) -> Option<&[u8]> {
        self.0.next()
    }

    /// Returns true if no more records can come.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

/// The side of a push ring that serves its producer.
#[derive(Debug)]
pub struct RingKeeper(Arc<LandingRing>);

/// The reading side of a push ring.
#[derive(Debug)]
pub struct RingRecords(RingReader);

/// Makes the consumer's region of a push ring over any fabric, with its two sides; `size` is a
/// power of two.
///
/// Errors and cost: as [`landing_slots`].
pub fn landing_ring(size: u64) -> io::Result<(RingKeeper, RingRecords)> {
    let ring = LandingRing::new(size)?;
    Ok((RingKeeper(Arc::clone(&ring)), RingRecords(RingReader::new(ring))))
}

impl RingKeeper {
    /// The region, for the node.
    #[must_use]
    pub fn memory(&self) -> Arc<dyn Memory> {
        Arc::clone(&self.0) as Arc<dyn Memory>
    }

    /// Returns the position up to which records were read: the value for the producer's credit
    /// word.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.0.head()
    }

    /// Returns the published bytes that are not yet read.
    #[must_use]
    pub fn unread_bytes(&self) -> u64 {
        self.0.unread_bytes()
    }

    /// The key of the producer's region; 0: it is not known yet.
    #[must_use]
    pub fn credit_key(&self) -> u64 {
        self.0.credit_key()
    }

    /// Returns true if the producer wrote an invalid record. The reader stops there until
    /// [`RingKeeper::restart`].
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.0.is_broken()
    }

    /// Returns the number of puts that were refused because they would have overwritten unread
    /// data.
    #[must_use]
    pub fn overrun(&self) -> u64 {
        self.0.overrun()
    }

    /// Returns the number of records read.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.0.records()
    }

    /// Empties the ring for the next producer; returns `false` while records of the last one are
    /// unread. The last one's connection must have ended.
    pub fn restart(&mut self) -> bool {
        self.0.restart()
    }
}

impl RingRecords {
    /// Returns the oldest record, in place until the next call (a record that wraps is copied);
    /// `None` if all are read. Cost: a lock per batch.
    #[allow(clippy::should_implement_trait, reason = "lends from itself, as no iterator can")]
    pub fn next(&mut self) -> Option<&[u8]> {
        self.0.next()
    }

    /// Returns the published bytes that are not yet read.
    #[must_use]
    pub fn unread_bytes(&self) -> u64 {
        self.0.unread_bytes()
    }
}
