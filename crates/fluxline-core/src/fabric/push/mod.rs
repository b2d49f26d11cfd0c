//! A push ring on any fabric: records from one sender to one receiver, once and in order.
//!
//! ```text
//!   receiver                                      sender
//!   Receiver::open(fabric, plan)          ◀────   Sender::open(fabric, address, now)
//!   poll until the program ends           ◀────   poll until is_open
//!   next, next_stamped                    ◀────   push, push_stamped, publish
//! ```
//!
//! Both ends agree on everything else by themselves. Where both are on a link with a faster ring of
//! its own ([`Fabric::rings`]), they use it. Elsewhere records cross by puts (`puts.rs`).
//!
//! Nothing here blocks. [`Sender::poll`] and [`Receiver::poll`] take the place of [`Fabric::poll`]:
//! they drive the ring, and return the completions that are the program's. A program with several
//! rings keeps them in [`Rings`]. [`Node`](super::node::Node) has calls that wait.
//!
//! The ring's completions have identifiers of its own: a sender makes an endpoint, on
//! which nothing else is posted; a receiver owns a region, and posts with [`RING_TAG`].

mod fan_out;
mod native;
pub mod puts;
mod receiver;
mod record;
mod rings;
mod sender;
mod types;

use super::region::{Key, Name};

pub use fan_out::{BranchId, BranchState, FanOut, Follower, Lag};
pub use native::{NativeReceiver, NativeRing, NativeSender, RingLink};
pub use receiver::Receiver;
pub use record::{Record, SharedBytes};
pub use rings::{ReceiverId, Rings, SenderId};
pub use sender::{RingAddress, Sender};
pub use types::{Broken, NextError, PushCounters, PushOpenError, PushRefused, Waits};

#[cfg(doc)]
use super::Fabric;

/// The tag of the ring's own work.
pub const RING_TAG: u64 = u64::from_le_bytes(*b"pushring");

/// The ring that a receiver makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingPlan {
    /// The name by which a sender finds it.
    pub name: Name,
    /// The key that a sender must show.
    pub key: Key,
    /// Records of `slot_bytes` that the ring holds at least.
    pub slots: u32,
    /// The length of the longest record that the ring takes for certain \[byte\].
    pub slot_bytes: u32,
    /// The way of the records.
    pub path: RingPath,
    /// Records that the program took from an earlier ring of this name, 0 for a first one: a sender
    /// that comes back goes on behind them ([`Sender::resumes_from`]).
    pub taken: u64,
}

/// The way of a ring's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RingPath {
    /// The link's own ring where it has one, else puts.
    #[default]
    Best,
    /// Puts, also where the link has a ring of its own: for tests and measurements.
    Puts,
}

impl RingPlan {
    /// Returns a plan that takes the best path.
    #[must_use]
    pub fn new(name: Name, key: Key, slots: u32, slot_bytes: u32) -> RingPlan {
        RingPlan { name, key, slots, slot_bytes, path: RingPath::Best, taken: 0 }
    }

    /// Returns the size of the ring \[byte\]: a power of two, four of the longest records or more.
    ///
    /// Errors: [`PushOpenError::Plan`].
    pub fn ring_bytes(&self) -> Result<u64, PushOpenError> {
        const OVERHEAD: u64 = 24; // length, stamp, and padding of a record
        let wrong = PushOpenError::Plan { slots: self.slots, slot_bytes: self.slot_bytes };
        let slot = u64::from(self.slot_bytes) + OVERHEAD;
        let bytes = u64::from(self.slots).max(4).saturating_mul(slot);
        if self.slots == 0 || self.slot_bytes == 0 || bytes > PLAN_BYTES_MAX {
            return Err(wrong);
        }
        // A ring by puts may owe its sender a quarter; a native one leaves a word free.
        Ok((bytes + bytes / 3 + OVERHEAD).max(4 * (slot + OVERHEAD)).next_power_of_two())
    }
}

/// The largest ring of a plan \[byte\].
const PLAN_BYTES_MAX: u64 = 1 << 36;
