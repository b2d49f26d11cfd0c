//! The configuration of a group, and the layout of a member's region.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::error::GroupError;
use super::lane::Lane;
use super::wire::HEADER_BYTES;
use crate::Span;
use crate::fabric::{Capabilities, Key, Name};

/// Slots of a lane at most: a word has a bit for each.
const SLOTS_MAX: u32 = 64;
/// Slots of the lane for long messages. Chosen: one is copied out while others arrive.
const BULK_SLOTS: u32 = 4;
/// The words at the beginning of a region, and of a section \[byte\].
const WORDS_BYTES: u64 = 64;
/// Slots begin at lines of the cache \[byte\].
const LINE_BYTES: u64 = 64;

/// The way in which a barrier finds that all have arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BarrierPath {
    /// The counter where the link has atomics and the group more than eight ranks, else messages.
    ///
    /// The counter takes three trips, messages take one for each doubling of the group.
    #[default]
    Best,
    /// Messages to the ranks at distances 1, 2, 4 and so on (dissemination).
    Messages,
    /// A counter at rank 0, by `fetch_add`; the last to arrive releases the others.
    Counter,
}

/// The configuration of a group; all members need the same, apart from `rank`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// The name of the group's region at each member.
    pub name: Name,
    /// The key of that region.
    pub key: Key,
    /// The own rank.
    pub rank: usize,
    /// The name by which each member is connected, by rank; the own one is not used.
    pub members: Vec<String>,
    /// Messages from each member that may wait here, 2 to 64.
    pub slots: u32,
    /// The longest message that is sent at once \[byte\]; a longer one waits for its receiver.
    pub eager_bytes: u32,
    /// The pieces of a longer message \[byte\].
    pub chunk_bytes: u32,
    /// The longest message \[byte\].
    pub message_bytes_max: u64,
    /// Open requests at most.
    pub requests_max: usize,
    /// The longest time of a call that waits.
    pub patience: Span,
    /// The way of a barrier.
    pub barrier: BarrierPath,
}

impl GroupConfig {
    /// Returns the default configuration of a group named `group`.
    #[must_use]
    pub fn new(name: Name, key: Key, rank: usize, members: Vec<String>) -> GroupConfig {
        GroupConfig {
            name,
            key,
            rank,
            members,
            slots: 16,
            eager_bytes: 4096,
            chunk_bytes: 64 << 10,
            message_bytes_max: 1 << 30,
            requests_max: 1024,
            patience: Span::from_ms(10_000),
            barrier: BarrierPath::default(),
        }
    }

    /// Checks the configuration. Errors: [`GroupError::Config`].
    pub(super) fn check(&self, link: &Capabilities) -> Result<(), GroupError> {
        let wrong = |problem: String| Err(GroupError::Config { problem });
        let size = self.members.len();
        if self.rank >= size {
            return wrong(format!("rank {} is not below the {size} members", self.rank));
        }
        if !(2..=SLOTS_MAX).contains(&self.slots) {
            return wrong(format!("{} slots: write 2 to {SLOTS_MAX}", self.slots));
        }
        if self.eager_bytes == 0 || self.chunk_bytes == 0 {
            return wrong(String::from("eager_bytes and chunk_bytes must be above 0"));
        }
        if self.requests_max == 0 {
            return wrong(String::from("requests_max must be above 0"));
        }
        let longest = (u64::from(self.eager_bytes) + HEADER_BYTES).max(self.chunk_bytes.into());
        if longest > link.operation_bytes_max {
            let most = link.operation_bytes_max;
            return wrong(format!(
                "this link puts {most} bytes at once; eager_bytes + {HEADER_BYTES} and \
                 chunk_bytes must not be larger"
            ));
        }
        if !link.ordered {
            return wrong(String::from("this link places puts in any order; a group needs order"));
        }
        if self.barrier == BarrierPath::Counter && !link.atomics {
            return wrong(String::from("this link has no atomics; take another barrier"));
        }
        let bytes = Layout::of(self).region_bytes();
        if bytes > link.region_bytes_max {
            let most = link.region_bytes_max;
            return wrong(format!(
                "the group's region has {bytes} bytes; this link's have {most} at most; take \
                 fewer slots or smaller messages"
            ));
        }
        Ok(())
    }

    /// Returns the words that every member must have alike.
    pub(super) fn fingerprint(&self) -> [u64; 3] {
        let sizes = u64::from(self.eager_bytes) << 32 | u64::from(self.chunk_bytes);
        [self.members.len() as u64, u64::from(self.slots), sizes]
    }
}

/// The layout of a region: words of the group, then a section for each rank that writes here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    ranks: u64,
    slots: u64,
    slot_bytes: u64,
    chunk_bytes: u64,
}

/// The counter of barriers, in the region of rank 0.
pub(super) const COUNTER: u64 = 0;
/// The words of a section: the greeting, the slots returned, and one that is never read.
pub(super) const HELLO: u64 = 0;
pub(super) const RETURNS: u64 = 32;
pub(super) const SCRATCH: u64 = 56;

impl Layout {
    pub fn of(config: &GroupConfig) -> Layout {
        let to_line = |bytes: u64| bytes.next_multiple_of(LINE_BYTES);
        Layout {
            ranks: config.members.len() as u64,
            slots: u64::from(config.slots),
            slot_bytes: to_line(HEADER_BYTES + u64::from(config.eager_bytes)),
            chunk_bytes: to_line(u64::from(config.chunk_bytes)),
        }
    }

    /// Returns the number of slots of a lane.
    pub fn slots(&self, lane: Lane) -> u32 {
        if lane == Lane::Bulk { BULK_SLOTS } else { self.slots as u32 }
    }

    fn section_bytes(&self) -> u64 {
        WORDS_BYTES + 2 * self.slots * self.slot_bytes + u64::from(BULK_SLOTS) * self.chunk_bytes
    }

    pub fn region_bytes(&self) -> u64 {
        WORDS_BYTES + self.ranks * self.section_bytes()
    }

    /// Returns the offset of the section that `writer` writes.
    pub fn section(&self, writer: usize) -> u64 {
        WORDS_BYTES + writer as u64 * self.section_bytes()
    }

    /// Returns the rank whose section begins its greeting here; `None`: no greeting is here.
    pub fn greeter(&self, offset: u64) -> Option<usize> {
        let behind = offset.checked_sub(WORDS_BYTES + HELLO)?;
        let rank = behind / self.section_bytes();
        (behind % self.section_bytes() == 0 && rank < self.ranks).then_some(rank as usize)
    }

    /// Returns the offset of a slot that `writer` writes.
    pub fn slot(&self, writer: usize, lane: Lane, slot: u32) -> u64 {
        let lanes = self.section(writer) + WORDS_BYTES;
        let slot = u64::from(slot);
        match lane {
            Lane::Messages => lanes + slot * self.slot_bytes,
            Lane::Collectives => lanes + (self.slots + slot) * self.slot_bytes,
            Lane::Bulk => lanes + 2 * self.slots * self.slot_bytes + slot * self.chunk_bytes,
        }
    }
}
