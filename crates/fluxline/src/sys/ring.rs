//! Memory and indices of the slot ring: one producer, one consumer, fixed slots.
//!
//! The producer owns the slots of the indices [tail, head + slots), the consumer those of [head,
//! tail). One Release store hands an index over, and one Acquire load takes it. Each side keeps a
//! copy of the other's index and reads it again only when the copy does not suffice.
//!
//! The producer chooses the slot of each index: it fills the slot that came back last, which is
//! still in the cache. So a fast reader causes only the cache traffic of a small ring, and a slow
//! reader still has the memory of a large one. Source of the idea: L. Lamport, "Specifying
//! Concurrent Program Modules", 1983; cached copies: P. Lee et al., "A Lock-Free, Cache-Efficient
//! Multi-Core Synchronization Mechanism", 2009.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::time::Duration;

use super::ring_parts::{
    Doorbell, PushError, RingConfig, RingCounters, RingError, SlotMeta, SlotView, Waited,
};
use super::shim::{Arc, AtomicBool, AtomicUsize, Ordering, UnsafeCell};

/// Base alignment and the step of the first touch \[byte\]. Source: x86-64 and AArch64 base pages.
const PAGE_BYTES: usize = 4_096;
/// Two cache lines \[byte\]: Intel prefetches lines in pairs.
const LINE_PAIR_BYTES: usize = 128;

/// Separates the data written by the two sides.
#[repr(align(128))]
struct Padded<T>(T);
const _: () = assert!(align_of::<Padded<u8>>() == LINE_PAIR_BYTES);

/// The bytes of all slots: one zeroed, page-aligned allocation, every page touched.
struct SlotMemory {
    base: NonNull<u8>,
    layout: Layout,
    stride: usize,
    slot_bytes: usize,
}

// SAFETY: `base` is an allocation that this value alone owns; who may touch which slot is decided
// by the ring's indices, and u8 has no thread affinity.
unsafe impl Send for SlotMemory {}
// SAFETY: as above; a shared reference alone gives only raw pointers, no access.
unsafe impl Sync for SlotMemory {}

impl SlotMemory {
    fn new(config: &RingConfig) -> Result<SlotMemory, RingError> {
        let refused = RingError::Memory { bytes: config.memory_bytes() };
        let bytes = usize::try_from(config.memory_bytes()).map_err(|_| refused.clone())?;
        let layout = Layout::from_size_align(bytes, PAGE_BYTES).map_err(|_| refused.clone())?;
        // SAFETY: the layout's size is not zero: `RingConfig::check` demands a slot, and a stride
        // is at least one cache line.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(refused)?;
        for offset in (0..bytes).step_by(PAGE_BYTES) {
            // SAFETY: `offset < bytes`; nobody else knows the allocation yet. Volatile, so that
            // the write of a zero over a zero is done and the page exists before the first packet.
            unsafe { base.add(offset).write_volatile(0) };
        }
        Ok(SlotMemory {
            base,
            layout,
            stride: config.stride_bytes(),
            slot_bytes: config.slot_bytes,
        })
    }

    /// First byte of slot `slot`; `slot_bytes` may be read or written there by the slot's owner.
    fn slot(&self, slot: usize) -> NonNull<u8> {
        let offset = slot * self.stride;
        assert!(offset + self.slot_bytes <= self.layout.size());
        // SAFETY: the offset is inside the allocation (asserted).
        unsafe { self.base.add(offset) }
    }
}

impl Drop for SlotMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this very layout; both sides have gone (`Arc`).
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// The state that both sides share.
struct Shared {
    /// Slots ever filled; written by the producer.
    tail: Padded<AtomicUsize>,
    /// Slots ever released; written by the consumer.
    head: Padded<AtomicUsize>,
    producer_gone: AtomicBool,
    consumer_gone: AtomicBool,
    /// Rung when slots were filled or the producer ended.
    filled: Doorbell,
    /// Rung when slots were released or the consumer ended.
    freed: Doorbell,
    queued: Box<[UnsafeCell<QueuedSlot>]>,
    memory: SlotMemory,
}

/// An entry that the indices count: a filled slot and its meta data.
#[derive(Clone, Copy)]
struct QueuedSlot {
    slot: u32,
    meta: SlotMeta,
}

// SAFETY: the cells in `queued` are accessed only by the side that owns the slot by the indices
// (see `Batch` and `Filled`); everything else is Sync by itself.
unsafe impl Sync for Shared {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Shared {}

impl Shared {
    #[inline]
    fn slots(&self) -> usize {
        self.queued.len()
    }

    /// Returns the position of an index in the queue; `slots` is a power of two.
    fn place_of(&self, index: usize) -> usize {
        index & (self.slots() - 1)
    }

    /// Returns the slot of `index`, which the calling side must own.
    fn slot_at(&self, index: usize) -> usize {
        // SAFETY: read by the consumer while it owns the place (SYNC slot-filled), and by the
        // producer after it came back (SYNC slot-freed); the producer alone writes, before filling.
        self.queued[self.place_of(index)].with(|cell| unsafe { (*cell).slot }) as usize
    }
}

/// Makes a ring; see [`RingConfig`].
///
/// Errors: [`RingError`]. Cost: allocates and touches `memory_bytes()`; nothing is allocated later.
pub fn ring(config: &RingConfig) -> Result<(Producer, Consumer), RingError> {
    config.check()?;
    let shared = Arc::new(Shared {
        tail: Padded(AtomicUsize::new(0)),
        head: Padded(AtomicUsize::new(0)),
        producer_gone: AtomicBool::new(false),
        consumer_gone: AtomicBool::new(false),
        filled: Doorbell::new(),
        freed: Doorbell::new(),
        memory: SlotMemory::new(config)?,
        queued: empty_places(config)?,
    });
    let producer = Producer {
        shared: Arc::clone(&shared),
        tail: 0,
        head_seen: 0,
        free: (0..config.slots as u32).rev().collect(),
        hot_slots: (HOT_BYTES / config.stride_bytes()).clamp(1, config.slots),
        counters: RingCounters::default(),
    };
    Ok((producer, Consumer { shared, head: 0, tail_seen: 0 }))
}

fn empty_places(config: &RingConfig) -> Result<Box<[UnsafeCell<QueuedSlot>]>, RingError> {
    let mut queued = Vec::new();
    let bytes = config.memory_bytes();
    queued.try_reserve_exact(config.slots).map_err(|_| RingError::Memory { bytes })?;
    let empty = QueuedSlot { slot: 0, meta: SlotMeta::EMPTY };
    queued.extend((0..config.slots).map(|_| UnsafeCell::new(empty)));
    Ok(queued.into_boxed_slice())
}

/// Bytes that the producer fills before it checks for slots that came back: half of a level-2
/// cache, so that the slots that it fills again are still there.
const HOT_BYTES: usize = 512 << 10;

/// The filling side of a ring; exactly one exists per ring.
pub struct Producer {
    shared: Arc<Shared>,
    tail: usize,
    head_seen: usize,
    /// Slots that the producer owns; the one that came back last is at the end.
    free: Vec<u32>,
    /// Number of slots that may be filled before the consumer's index is read again.
    hot_slots: usize,
    counters: RingCounters,
}

impl Producer {
    /// Returns up to `wanted` free slots, in order, for writing in place.
    ///
    /// Never waits; an empty batch means that the ring is full, and is counted as `full_stalls`.
    /// [`Batch::commit`] publishes the slots. Cost: no system call, no allocation; one shared load
    /// for each 512 KiB filled.
    #[inline]
    pub fn reserve(&mut self, wanted: usize) -> Batch<'_> {
        let wanted = wanted.min(self.shared.slots());
        let in_flight = self.tail.wrapping_sub(self.head_seen);
        if self.free.len() < wanted || in_flight >= self.hot_slots {
            self.take_back();
        }
        if self.free.is_empty() && wanted > 0 {
            self.counters.full_stalls += 1;
        }
        Batch { len: self.free.len().min(wanted), producer: self }
    }

    /// Takes back the slots that the consumer has released.
    fn take_back(&mut self) {
        // SYNC slot-freed <- release
        let head = self.shared.head.0.load(Ordering::Acquire);
        for index in 0..head.wrapping_sub(self.head_seen) {
            let slot = self.shared.slot_at(self.head_seen.wrapping_add(index));
            self.free.push(slot as u32);
        }
        self.head_seen = head;
    }

    /// Copies one payload into the next slot (for sources that have it in memory already).
    ///
    /// `meta.len` is set from `bytes`. Errors: [`PushError`]; the caller then keeps the payload.
    /// Cost: one copy; a system call only when the consumer sleeps.
    #[inline]
    pub fn push(&mut self, bytes: &[u8], meta: SlotMeta) -> Result<(), PushError> {
        if self.is_abandoned() {
            return Err(PushError::ConsumerGone);
        }
        let slot_bytes = self.slot_bytes();
        let len = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= slot_bytes);
        let len = len.ok_or(PushError::TooLong { bytes: bytes.len(), slot_bytes })?;
        let mut batch = self.reserve(1);
        let Some(slot) = batch.buffers().next() else { return Err(PushError::Full) };
        slot[..bytes.len()].copy_from_slice(bytes);
        batch.set(0, SlotMeta { len, ..meta });
        batch.commit(1);
        Ok(())
    }

    /// Sleeps until a slot is free, the consumer has ended, or `timeout` has passed.
    pub fn wait_for_space(&mut self, timeout: Duration) -> Waited {
        let shared = &self.shared;
        let full = shared.slots();
        let look = |tail: usize| {
            if shared.consumer_gone.load(Ordering::Acquire) {
                Some(Waited::Closed) // SYNC consumer-gone <- drop
            } else if tail.wrapping_sub(shared.head.0.load(Ordering::Acquire)) < full {
                Some(Waited::Ready) // SYNC slot-freed <- release
            } else {
                None
            }
        };
        shared.freed.wait(timeout, || look(self.tail))
    }

    /// Returns true if the consumer has been dropped: pushed datagrams are no longer read.
    #[must_use]
    #[inline]
    pub fn is_abandoned(&self) -> bool {
        self.shared.consumer_gone.load(Ordering::Acquire) // SYNC consumer-gone <- drop
    }

    /// Returns the size of one slot \[byte\].
    #[must_use]
    #[inline]
    pub fn slot_bytes(&self) -> usize {
        self.shared.memory.slot_bytes
    }

    /// Returns the counters of this side.
    #[must_use]
    pub fn counters(&self) -> &RingCounters {
        &self.counters
    }

    fn publish(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.free.truncate(self.free.len() - count);
        self.tail = self.tail.wrapping_add(count);
        self.shared.tail.0.store(self.tail, Ordering::Release); // SYNC slot-filled -> peek
        self.shared.filled.ring();
        self.counters.slots_filled += count as u64;
        if self.tail.wrapping_sub(self.head_seen) as u64 > self.counters.slots_high_water {
            self.take_back();
            let occupied = self.tail.wrapping_sub(self.head_seen) as u64;
            self.counters.slots_high_water = self.counters.slots_high_water.max(occupied);
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.shared.producer_gone.store(true, Ordering::Release); // SYNC producer-gone -> wait
        self.shared.filled.ring();
    }
}

/// Free slots reserved by [`Producer::reserve`]; dropped without `commit`, they stay free.
pub struct Batch<'a> {
    producer: &'a mut Producer,
    len: usize,
}

impl Batch<'_> {
    /// Returns the number of slots in the batch.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if no slot is free.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the size of one slot \[byte\].
    #[must_use]
    #[inline]
    pub fn slot_bytes(&self) -> usize {
        self.producer.slot_bytes()
    }

    /// Returns the bytes of all slots, in order, writable at the same time (for one `recvmmsg`).
    #[inline]
    pub fn buffers(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let shared = &self.producer.shared;
        self.producer.free.iter().rev().take(self.len).map(move |&slot| {
            let slot = shared.memory.slot(slot as usize);
            // SAFETY: a slot on the free list is the producer's, of which this batch holds the
            // only borrow; the consumer reads it only after SYNC slot-filled, when it has left the
            // list. A slot is on the list at most once, so the slices are disjoint. The memory is
            // initialised (zeroed at start) and `slot_bytes` long (asserted in `slot`).
            unsafe { std::slice::from_raw_parts_mut(slot.as_ptr(), shared.memory.slot_bytes) }
        })
    }

    /// Sets the contents of slot `index` of the batch; `meta.len` is cut to the slot's size.
    ///
    /// # Panics
    ///
    /// When `index` is not below `len()`: a mistake of the caller, not of input.
    #[inline]
    pub fn set(&mut self, index: usize, meta: SlotMeta) {
        assert!(index < self.len, "slot {index} of a batch of {}", self.len);
        let shared = &self.producer.shared;
        let len = meta.len.min(u32::try_from(shared.memory.slot_bytes).unwrap_or(u32::MAX));
        let place = shared.place_of(self.producer.tail.wrapping_add(index));
        let slot = self.producer.free[self.producer.free.len() - 1 - index];
        shared.queued[place].with_mut(|cell| {
            // SAFETY: `index < len` (asserted): the place is the producer's until SYNC slot-filled.
            unsafe { *cell = QueuedSlot { slot, meta: SlotMeta { len, ..meta } } };
        });
    }

    /// Publishes the first `count` slots of the batch, whose `meta` has been `set`.
    ///
    /// Done when the consumer can see them. Cost: one Release store and one fence for the whole
    /// batch; a system call only when the consumer sleeps.
    ///
    /// # Panics
    /// When `count` exceeds `len()`: a mistake of the caller.
    #[inline]
    pub fn commit(self, count: usize) {
        assert!(count <= self.len, "commit of {count} slots of a batch of {}", self.len);
        self.producer.publish(count);
    }
}

/// The reading side of a ring; exactly one exists per ring.
pub struct Consumer {
    shared: Arc<Shared>,
    head: usize,
    tail_seen: usize,
}

impl Consumer {
    /// Returns all slots that are filled and not yet released, for reading in place.
    ///
    /// Never waits; may be empty. The consumer owns the slots until [`Consumer::release`].
    #[inline]
    pub fn peek(&mut self) -> Filled<'_> {
        self.tail_seen = self.shared.tail.0.load(Ordering::Acquire); // SYNC slot-filled <- publish
        Filled { len: self.tail_seen.wrapping_sub(self.head), next: 0, consumer: self }
    }

    /// Returns the slots of the last [`Consumer::peek`] that were not released since.
    ///
    /// Cost: none that is shared with the producer.
    #[must_use]
    #[inline]
    pub fn shown(&self) -> Filled<'_> {
        Filled { len: self.tail_seen.wrapping_sub(self.head), next: 0, consumer: self }
    }

    /// Releases the oldest `count` slots to the producer.
    ///
    /// # Panics
    ///
    /// When `count` exceeds the number that the last `peek` showed: a mistake of the caller.
    #[inline]
    pub fn release(&mut self, count: usize) {
        let shown = self.tail_seen.wrapping_sub(self.head);
        assert!(count <= shown, "release of {count} slots, {shown} were shown");
        if count == 0 {
            return;
        }
        self.head = self.head.wrapping_add(count);
        self.shared.head.0.store(self.head, Ordering::Release); // SYNC slot-freed -> reserve
        self.shared.freed.ring();
    }

    /// Waits until a slot is filled: spins briefly, then sleeps.
    ///
    /// Returns [`Waited::Closed`] only after the producer has ended and every slot has been
    /// released.
    pub fn wait(&mut self, timeout: Duration) -> Waited {
        for _ in 0..SPINS {
            if let Some(waited) = self.look() {
                return waited;
            }
            std::hint::spin_loop();
        }
        self.shared.filled.wait(timeout, || self.look())
    }

    fn look(&self) -> Option<Waited> {
        // Reads the flag first, so that slots filled before the producer ended are seen afterwards.
        let gone = self.shared.producer_gone.load(Ordering::Acquire); // SYNC producer-gone <- drop
        if self.shared.tail.0.load(Ordering::Acquire) != self.head {
            Some(Waited::Ready) // SYNC slot-filled <- publish
        } else if gone {
            Some(Waited::Closed)
        } else {
            None
        }
    }

    /// Returns the present number of slots that are filled and not yet released.
    #[must_use]
    #[inline]
    pub fn occupied(&self) -> usize {
        self.shared.tail.0.load(Ordering::Relaxed).wrapping_sub(self.head)
    }

    /// Returns the number of slots of the ring.
    #[must_use]
    #[inline]
    pub fn slots(&self) -> usize {
        self.shared.slots()
    }
}

/// Number of checks before a sleep: some microseconds. Model checkers must not spin.
const SPINS: u32 = if cfg!(loom) { 0 } else { 256 };

impl Drop for Consumer {
    fn drop(&mut self) {
        // SYNC consumer-gone -> is_abandoned, wait_for_space
        self.shared.consumer_gone.store(true, Ordering::Release);
        self.shared.freed.ring();
    }
}

/// Filled slots, oldest first.
#[derive(Clone)]
pub struct Filled<'a> {
    consumer: &'a Consumer,
    next: usize,
    len: usize,
}

impl<'a> Filled<'a> {
    /// Returns the filled slot at `index`, counted from the oldest; `None` beyond the last.
    #[must_use]
    #[inline]
    pub fn get(&self, index: usize) -> Option<SlotView<'a>> {
        if index >= self.len {
            return None;
        }
        let shared = &self.consumer.shared;
        let place = shared.place_of(self.consumer.head.wrapping_add(index));
        // SAFETY: `index < len`: the place was published (SYNC slot-filled) and not released, for
        // `release` needs the consumer mutably while `self` borrows it.
        let QueuedSlot { slot, meta } = shared.queued[place].with(|cell| unsafe { *cell });
        let len = (meta.len as usize).min(shared.memory.slot_bytes);
        // SAFETY: as above; the memory is initialised and `len <= slot_bytes` long.
        let bytes =
            unsafe { std::slice::from_raw_parts(shared.memory.slot(slot as usize).as_ptr(), len) };
        Some(SlotView { bytes, meta })
    }
}

impl<'a> Iterator for Filled<'a> {
    type Item = SlotView<'a>;

    #[inline]
    fn next(&mut self) -> Option<SlotView<'a>> {
        let view = self.get(self.next)?;
        self.next += 1;
        Some(view)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len - self.next, Some(self.len - self.next))
    }
}

impl ExactSizeIterator for Filled<'_> {}
