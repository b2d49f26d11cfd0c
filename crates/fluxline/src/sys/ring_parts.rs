//! The parts of the slot ring apart from its memory: size, errors, views of slots, and the doorbell
//! that wakes a sleeping side.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use fluxline_core::{Datagram, Moment, SenderAddress};

use super::shim::{AtomicBool, Condvar, Mutex, Ordering, fence};

/// Bytes that a slot needs to hold any UDP payload or any train of them \[byte\].
/// Source: the UDP length field has 16 bits, RFC 768.
pub const SLOT_BYTES_ANY: usize = 65_536;

/// Cache line \[byte\]. Source: x86-64 and most AArch64.
const LINE_BYTES: usize = 64;

/// Size of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingConfig {
    /// Slots; a power of two.
    pub slots: usize,
    /// Size of one slot \[byte\]; [`SLOT_BYTES_ANY`] where UDP_GRO is on.
    pub slot_bytes: usize,
}

impl RingConfig {
    /// Returns the distance of two slots \[byte\]: the size in whole cache lines plus one, so that
    /// the first lines of slots do not all fall into the same set of the cache.
    #[must_use]
    pub const fn stride_bytes(&self) -> usize {
        self.slot_bytes.div_ceil(LINE_BYTES).saturating_add(1).saturating_mul(LINE_BYTES)
    }

    /// Returns the memory of all slots \[byte\], for messages at start.
    #[must_use]
    pub const fn memory_bytes(&self) -> u64 {
        (self.stride_bytes() as u64).saturating_mul(self.slots as u64)
    }

    pub(crate) fn check(&self) -> Result<(), RingError> {
        if !self.slots.is_power_of_two() {
            return Err(RingError::SlotsNotPowerOfTwo {
                slots: self.slots,
                next: self.slots.checked_next_power_of_two().unwrap_or(1 << 20),
            });
        }
        if self.slot_bytes == 0 || self.slot_bytes > SLOT_BYTES_MAX {
            return Err(RingError::SlotBytes { slot_bytes: self.slot_bytes, max: SLOT_BYTES_MAX });
        }
        Ok(())
    }
}

/// Largest slot \[byte\]: 256 MiB, far above any datagram, far below where sizes could wrap.
const SLOT_BYTES_MAX: usize = 256 << 20;

/// The reason why a ring was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// The number of slots is not a power of two, which masked indices need.
    #[error("a ring of {slots} slots: the number must be a power of two, for example {next}")]
    SlotsNotPowerOfTwo {
        /// The requested number of slots.
        slots: usize,
        /// The next power of two.
        next: usize,
    },
    /// The slot size is zero or too large.
    #[error("a ring slot of {slot_bytes} bytes: choose 1 to {max} bytes")]
    SlotBytes {
        /// The requested slot size \[byte\].
        slot_bytes: usize,
        /// The largest allowed \[byte\].
        max: usize,
    },
    /// The host does not have the memory.
    #[error("the ring needs {bytes} bytes of memory, more than there is: ask for fewer slots")]
    Memory {
        /// Bytes asked of the allocator.
        bytes: u64,
    },
}

/// The reason why a payload was not pushed; the caller keeps the payload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// No slot is free now; retry after `wait_for_space`.
    #[error("the ring is full: its reader is behind")]
    Full,
    /// The payload does not fit into a slot.
    #[error("a payload of {bytes} bytes does not fit a ring slot of {slot_bytes} bytes")]
    TooLong {
        /// The payload \[byte\].
        bytes: usize,
        /// The slot \[byte\].
        slot_bytes: usize,
    },
    /// The reader has ended.
    #[error("the ring's reader has stopped")]
    ConsumerGone,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// A slot is available.
    Ready,
    /// The time has passed.
    TimedOut,
    /// The other side has ended, and all its slots were read.
    Closed,
}

/// The meta data of a slot's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotMeta {
    /// Bytes in the slot \[byte\].
    pub len: u32,
    /// Zero: one datagram. Else a train: datagrams of this size \[byte\], the last may be shorter.
    pub segment_bytes: u32,
    /// The sender.
    pub sender: SenderAddress,
    /// The destination UDP port; 0 if it has none.
    pub port: u16,
    /// True if the slot was too small: the end of the last datagram is missing.
    pub truncated: bool,
    /// Time of arrival.
    pub time: Moment,
}

impl SlotMeta {
    /// An empty slot without a sender.
    pub const EMPTY: SlotMeta = SlotMeta {
        len: 0,
        segment_bytes: 0,
        sender: SenderAddress::NONE,
        port: 0,
        truncated: false,
        time: Moment::from_ns(0),
    };

    /// Returns the number of datagrams in the slot; at least one, because an empty slot is one
    /// empty datagram.
    #[must_use]
    #[inline]
    pub fn datagram_count(&self) -> u64 {
        match self.segment_bytes {
            0 => 1,
            segment => u64::from(self.len.div_ceil(segment)).max(1),
        }
    }
}

/// One filled slot, read in place.
#[derive(Clone, Copy, Debug)]
pub struct SlotView<'a> {
    /// The bytes: one datagram or a train.
    pub bytes: &'a [u8],
    /// Their meta data.
    pub meta: SlotMeta,
}

impl<'a> SlotView<'a> {
    /// The slot's datagrams, in order of arrival.
    #[must_use]
    #[inline]
    pub fn datagrams(&self) -> Datagrams<'a> {
        let segment = self.meta.segment_bytes as usize;
        Datagrams { rest: Some(self.bytes), segment, meta: self.meta }
    }
}

/// Splits a train into datagrams; an empty slot is one empty datagram.
#[derive(Clone, Debug)]
pub struct Datagrams<'a> {
    rest: Option<&'a [u8]>,
    segment: usize,
    meta: SlotMeta,
}

impl<'a> Iterator for Datagrams<'a> {
    type Item = Datagram<'a>;

    #[inline]
    fn next(&mut self) -> Option<Datagram<'a>> {
        let rest = self.rest?;
        let bytes = if self.segment != 0 && rest.len() > self.segment {
            let (first, others) = rest.split_at(self.segment);
            self.rest = Some(others);
            first
        } else {
            self.rest = None;
            rest
        };
        let SlotMeta { sender, port, time, .. } = self.meta;
        Some(Datagram { bytes, sender, port, time })
    }
}

fluxline_core::counters! {
    /// Counters of a ring's producer.
    pub struct RingCounters {
        slots_filled [Sum "slot"] "Slots published to the reader" => "";
        slots_high_water [Maximum "slot"] "Most slots waiting for the reader at one time"
            => "Near the ring's size: give the ring more slots or the reader a faster core.";
        full_stalls [Sum "stall"] "Times that a slot was wanted and none was free"
            => "The reader is too slow: pin its thread, record less, or give the ring more slots.";
    }
}

/// Wakes a sleeping side; costs a fence when it does not sleep.
///
/// The sleeper announces its sleep, then checks the ring once more; the waker changes the ring,
/// then checks for a sleeper. With a sequentially consistent fence between the two steps on both
/// sides, at least one of them sees the other (SYNC doorbell), so no wake-up is lost.
pub(crate) struct Doorbell {
    sleeping: AtomicBool,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Doorbell {
    pub(crate) fn new() -> Doorbell {
        let sleeping = AtomicBool::new(false);
        Doorbell { sleeping, lock: Mutex::new(()), bell: Condvar::new() }
    }

    /// Sleeps until `look` finds something or the time has passed.
    pub(crate) fn wait(&self, timeout: Duration, look: impl Fn() -> Option<Waited>) -> Waited {
        let start = Instant::now();
        let mut held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            self.sleeping.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst); // SYNC doorbell <-> ring
            let left = timeout.saturating_sub(start.elapsed());
            let waited = look().or_else(|| left.is_zero().then_some(Waited::TimedOut));
            if let Some(waited) = waited {
                self.sleeping.store(false, Ordering::Relaxed);
                return waited;
            }
            // A wake-up for an earlier sleep may end this one: check, and sleep again.
            let woken = self.bell.wait_timeout(held, left);
            held = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Wakes the sleeper, if any; call after the change that it waits for.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst); // SYNC doorbell <-> wait
        if self.sleeping.load(Ordering::Relaxed) {
            // Under the lock, the sleeper either has not checked yet or is in `wait_timeout`.
            let held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            // One call per sleep: until the sleeper runs, later calls find no sleeper.
            self.sleeping.store(false, Ordering::Relaxed);
            drop(held);
            self.bell.notify_one();
        }
    }
}
