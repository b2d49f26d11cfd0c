//! Regions that peers write over Ethernet and that a readout in another thread reads in place.
//!
//! Two kinds exist: slots, for senders that write without waiting ([`landing_slots`]), and a push
//! ring for producers that wait for room ([`landing_ring`]). Either has a region for
//! [`fluxline_core::endpoint::Node::adopt`], a side for the thread that polls the node, and one for
//! the thread that reads. A write into unread data is refused and counted. So data that is read in
//! place never changes under the reader, whatever the network sends. [`RingServer`] serves a push
//! ring to one producer after the other, each of which has shown the key.

mod server;

use std::io;
use std::sync::Arc;

use fluxline_core::fabric::Memory;

pub use server::{
    Leave, ReadUp, RingEvent, RingExport, RingExportError, RingServer, RingServerCounters, Turn,
};

use crate::sys::landing::{self as raw, Slots};
use crate::sys::landing_ring::{LandingRing, RingReader};

/// The side of slots that announces records; ends its reader when dropped.
#[derive(Debug)]
pub struct SlotAnnouncer(raw::Announcer);

/// The side of slots that reads.
#[derive(Debug)]
pub struct SlotReader(raw::Reader);

/// A region of `bytes` in slots of `slot_bytes`, and its two sides. A write must begin at a slot
/// and not be longer than one.
///
/// Errors: the kernel has not so much memory; less than one slot. Cost: touches the memory.
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

    /// To be called before each poll of the node that may receive.
    pub fn next_round(&mut self) {
        self.0.next_round();
    }

    /// Lets the reader have a record that was written; `false`: there is none.
    pub fn announce(&mut self, offset: u64, bytes: u64) -> bool {
        self.0.announce(offset, bytes)
    }

    /// Slots that can be written.
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

    /// Writes that were done.
    #[must_use]
    pub fn placed(&self) -> u64 {
        self.0.slots().placed()
    }

    /// Writes that were refused because their slot was not read yet.
    #[must_use]
    pub fn overrun(&self) -> u64 {
        self.0.slots().overrun()
    }
}

impl SlotReader {
    /// The oldest record, in place until the next call; `None`: there is none now.
    ///
    /// Cost: three shared words.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "lends from itself, as no iterator can")]
    pub fn next(&mut self) -> Option<&[u8]> {
        self.0.next()
    }

    /// Returns true when nothing more can come.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

/// The side of a push ring that looks after its producer.
#[derive(Debug)]
pub struct RingKeeper(Arc<LandingRing>);

/// The side of a push ring that reads.
#[derive(Debug)]
pub struct RingRecords(RingReader);

/// The consumer's region of a push ring over any fabric, and its two sides; `size`: a power of two.
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

    /// Published and not read \[byte\].
    #[must_use]
    pub fn unread_bytes(&self) -> u64 {
        self.0.unread_bytes()
    }

    /// The key of the producer's region; 0: it is not known yet.
    #[must_use]
    pub fn credit_key(&self) -> u64 {
        self.0.credit_key()
    }

    /// Returns true when the producer wrote an invalid record. The reader stops there until
    /// [`RingKeeper::restart`].
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.0.is_broken()
    }

    /// Puts that were refused because they would have overwritten unread data.
    #[must_use]
    pub fn overrun(&self) -> u64 {
        self.0.overrun()
    }

    /// Records read.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.0.records()
    }

    /// Makes the ring empty for the next producer; `false`: not all of the last one's is read. The
    /// last one's connection must be over.
    pub fn restart(&mut self) -> bool {
        self.0.restart()
    }
}

impl RingRecords {
    /// The oldest record, in place until the next call (but for one that wraps, which is copied);
    /// `None`: there is none now. Cost: a lock per batch.
    #[allow(clippy::should_implement_trait, reason = "lends from itself, as no iterator can")]
    pub fn next(&mut self) -> Option<&[u8]> {
        self.0.next()
    }

    /// Published and not read \[byte\].
    #[must_use]
    pub fn unread_bytes(&self) -> u64 {
        self.0.unread_bytes()
    }
}
