//! Push rings: records from one program to another.
//!
//! [`Sender`] and [`Receiver`] are a ring on any link, with one set-up:
//!
//! ```
//! use fluxline::clock;
//! use fluxline::fabric::{Key, Name};
//! use fluxline::push::{NextError, Receiver, RingAddress, RingPlan, Sender};
//!
//! let mut builder = fluxline::open("shm://doc-ring/builder")?;
//! let (name, key) = (Name::parse("samples")?, Key(7));
//! let plan = RingPlan::new(name.clone(), key, 1024, 200);
//! let mut receiver = Receiver::open(&mut *builder, &plan)?;
//!
//! let mut board = fluxline::open("shm://doc-ring/board")?; // in life, another process
//! let to = RingAddress { peer: "builder".into(), name, key };
//! let mut sender = Sender::open(&mut *board, to, clock::now())?;
//! while !sender.is_open() {
//!     sender.poll(&mut *board, clock::now());
//!     receiver.poll(&mut *builder, clock::now());
//! }
//! sender.push(&mut *board, b"one")?;
//! sender.publish(&mut *board)?;
//! let record = receiver.next(&mut *builder)?.ok_or("published")?;
//! assert_eq!(record.to_vec(), b"one");
//! while !sender.finish(&mut *board)? {
//!     sender.poll(&mut *board, clock::now());
//! }
//! assert_eq!(receiver.next(&mut *builder).err(), Some(NextError::Gone));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`PushProducer`] and [`PushConsumer`] are the own ring of shared memory, for programs that stay
//! there. A consumer makes a ring in a region of its own and exports it; a producer that has
//! imported the region attaches, pushes records, and publishes them in batches. Records are read
//! where they lie, or copied out ([`Record`]). No lock, no allocation; a system call only to wake a
//! consumer that sleeps, and each 50 ms of waiting, to look whether the other process lives.
//!
//! A ring has one producer at a time. When it closes or dies, another may attach and continue
//! behind the published records.
//!
//! ```
//! use fluxline::clock;
//! use fluxline::push::{ConsumerWait, NextError};
//! use fluxline::shm::{Shm, ShmConfig};
//! use fluxline_core::fabric::{Completion, Fabric, Grant, Key, Name, Reliability, Rights};
//!
//! let (lab, key) = (Name::parse("doc-push")?, Key(7));
//! let mut builder = Shm::open(&lab, &Name::parse("builder")?, ShmConfig::default())?;
//! let mut consumer = builder.push_consumer(1 << 16, ConsumerWait::Polls)?;
//! let grant = Grant { rights: Rights::PUT, key };
//! builder.export(consumer.region(), Name::parse("samples")?, grant)?;
//!
//! let mut board = Shm::open(&lab, &Name::parse("board")?, ShmConfig::default())?; // a process
//! let endpoint = board.connect("builder", Reliability::Reliable)?;
//! while board.poll(clock::now()).is_none() {
//!     builder.poll(clock::now());
//! }
//! let remote = board.import(endpoint, Name::parse("samples")?, key)?;
//! let mut producer = board.push_producer(remote)?;
//! producer.push(b"one")?;
//! producer.push(b"two")?;
//! producer.publish();
//!
//! let mut bytes = Vec::new();
//! for expected in [b"one", b"two"] {
//!     consumer.next()?.ok_or("published")?.copy_to(&mut bytes);
//!     assert_eq!(bytes, expected);
//! }
//! assert!(consumer.next()?.is_none());
//! drop(producer);
//! assert_eq!(consumer.next().err(), Some(NextError::Gone));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::time::Duration;

use fluxline_core::Moment;
use fluxline_core::fabric::RegionId;

use crate::sys::push as raw;

pub use crate::sys::push::Record;
pub use fluxline_core::fabric::push::{
    Broken, NextError, PushCounters, PushOpenError, PushRefused, Receiver, RingAddress, RingPath,
    RingPlan, Sender, Waits,
};

/// The way in which a consumer waits for records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerWait {
    /// It polls; [`PushConsumer::wait`] returns at once.
    Polls,
    /// [`PushConsumer::wait`] sleeps, at the price of a memory fence per publication.
    Sleeps,
}

/// The side that writes; a ring has one at a time. When it is dropped, it publishes the rest.
#[derive(Debug)]
pub struct PushProducer(pub(crate) raw::Producer);

impl PushProducer {
    /// Copies a record behind the last one; the consumer sees it after [`PushProducer::publish`].
    ///
    /// Errors: [`PushRefused`]. A caller that tries again at [`PushRefused::Full`] learns within
    /// 100 ms that the consumer has ended, or after 64 tries if these take longer. Cost: one copy;
    /// a shared load when the ring seems full.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), PushRefused> {
        self.0.push(bytes)
    }

    /// Copies a record with a time stamp before the bytes, for [`PushConsumer::next_stamped`].
    /// Either all records of a ring have a time stamp, or none has.
    ///
    /// Errors: [`PushRefused`]; the stamp takes 8 bytes of the longest record.
    #[inline]
    pub fn push_stamped(&mut self, at: Moment, bytes: &[u8]) -> Result<(), PushRefused> {
        self.0.push_with(at.as_ns(), bytes)
    }

    /// Passes a record on from another ring, unchanged and without a copy in between.
    ///
    /// Errors: [`PushRefused`].
    #[inline]
    pub fn push_record(&mut self, record: Record<'_>) -> Result<(), PushRefused> {
        self.0.push_record(record)
    }

    /// Returns the moment since which there has been no room \[[`crate::clock::monotonic`]\];
    /// `None` if the last push found room.
    #[must_use]
    pub fn stalled_since(&self) -> Option<Moment> {
        self.0.stalled_since()
    }

    /// Shows all records to the consumer; call once per batch.
    ///
    /// Cost: one store, which takes a cache line from the consumer; a system call if it sleeps.
    #[inline]
    pub fn publish(&mut self) {
        self.0.publish();
    }

    /// The longest record \[byte\].
    #[must_use]
    pub fn record_bytes_max(&self) -> usize {
        self.0.record_bytes_max()
    }

    /// Returns the reason why each push fails from now on; `None`: pushing may work. A dead
    /// consumer is noticed by pushing and publishing.
    #[must_use]
    pub fn ended(&self) -> Option<PushRefused> {
        self.0.ended()
    }

    /// Returns the counters of this side.
    #[must_use]
    pub fn counters(&self) -> &PushCounters {
        self.0.counters()
    }
}

/// The side that reads; it owns the region.
#[derive(Debug)]
pub struct PushConsumer {
    pub(crate) raw: raw::Consumer,
    pub(crate) region: RegionId,
}

impl PushConsumer {
    /// The region of the ring, to be exported with the right to put.
    #[must_use]
    pub fn region(&self) -> RegionId {
        self.region
    }

    /// Returns the oldest record, in place until the next call; `None` if all are read.
    ///
    /// Errors: [`NextError`]. A caller that asks again learns within 100 ms that the producer's
    /// process has died, or after 64 calls if these are rarer. Cost: a shared load per batch.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "lends from itself, as no iterator can")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, NextError> {
        self.raw.next()
    }

    /// Returns the oldest record and the producer's time stamp.
    ///
    /// Errors: [`NextError`]; a record without room for a stamp is [`Broken`], too.
    #[inline]
    pub fn next_stamped(&mut self) -> Result<Option<(Moment, Record<'_>)>, NextError> {
        let Some(record) = self.raw.next()? else { return Ok(None) };
        let (stamp, record) = record.split_word().ok_or(Broken)?;
        Ok(Some((Moment::from_ns(stamp), record)))
    }

    /// Sleeps until there are records, the producer has closed, or `timeout` has passed; returns
    /// at once for a ring that was not made to sleep.
    pub fn wait(&mut self, timeout: Duration) {
        self.raw.wait(timeout);
    }

    /// Returns the counters of this side.
    #[must_use]
    pub fn counters(&self) -> &PushCounters {
        self.raw.counters()
    }
}

#[cfg(test)]
mod tests;
