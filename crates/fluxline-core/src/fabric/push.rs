//! A push ring on top of any fabric: records by puts, credits by puts the other way.
//!
//! The consumer owns a region: a word for the tail, then the ring. The producer owns a region with
//! one word: the head. The consumer puts the head there when it has read a quarter of the ring, or
//! all of it.
//!
//! Records are gathered in the producer's own memory. A batch crosses as one put, or two where the
//! ring wraps, and a put of the tail follows. Reliable endpoints place puts in order, so a consumer
//! that sees the tail sees the records. A link that maps memory has a faster ring of its own; this
//! one works on every link, also on simulated ones.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::error::{AccessError, PostError};
use super::region::{Key, RemoteId, Target};
use super::work::{EndpointId, Local, Work};
use super::{Fabric, Memory};

/// The header before the ring in the consumer's region \[byte\].
pub const HEADER_BYTES: u64 = 64;
/// The word of the consumer's region for the key of the producer's region, with which the consumer
/// imports it. A producer that can write this word has shown the ring's key before.
pub const CREDIT_KEY_OFFSET: u64 = 8;
/// The name of the producer's region, by which the consumer imports it.
pub const CREDIT_NAME: &str = "credit";
/// The size of the producer's region \[byte\].
pub const CREDIT_BYTES: u64 = 8;
const WORD: u64 = 8;

crate::counters! {
    /// Counters of one side of a push ring over a fabric.
    pub struct FabricPushCounters {
        records [Sum "record"] "Records pushed or read" => "";
        bytes [Sum "byte"] "Their bytes, without the ring's own words" => "";
        batches [Sum "batch"] "Times that records were published, or room was given back" => "";
        full [Sum "refusal"] "Times that a record found no room"
            => "The consumer is too slow, or the ring too small for the link's latency.";
    }
}

/// The reason why a record was not pushed; it stays the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricPushError {
    /// Temporary: the consumer has not read yet. All records so far are published.
    #[error("the push ring is full; its consumer is behind")]
    Full,
    /// The caller's: the record is too long.
    #[error("a record of {bytes} bytes is too long for the ring; at most {max}")]
    TooLong {
        /// The length of the record \[byte\].
        bytes: u64,
        /// The longest possible record \[byte\].
        max: u64,
    },
    /// The peer's: it wrote an impossible head or tail.
    #[error("the push ring's credits are impossible: the peer has a defect, or another version")]
    Broken,
    /// The fabric's: a put was refused.
    #[error(transparent)]
    Post(#[from] PostError),
    /// The caller's: own memory could not be accessed.
    #[error(transparent)]
    Access(#[from] AccessError),
}

/// The side of a push ring that writes.
pub struct FabricProducer {
    endpoint: EndpointId,
    ring: RemoteId,
    size: u64,
    /// Own memory in which the consumer puts its head.
    credit: Arc<dyn Memory>,
    /// Records that are not published yet, laid out as in the ring.
    batch: Vec<u8>,
    published: u64,
    head_seen: u64,
    counters: FabricPushCounters,
}

impl FabricProducer {
    /// Returns a producer for the ring of `size` bytes (a power of two) in `ring`.
    ///
    /// `ring` is an imported region of `HEADER_BYTES + size`; `credit` is the memory of an own
    /// region, which the consumer imports.
    #[must_use]
    pub fn new(
        endpoint: EndpointId,
        ring: RemoteId,
        size: u64,
        credit: Arc<dyn Memory>,
    ) -> Option<FabricProducer> {
        let sound = size.is_power_of_two() && size >= 8 * WORD && credit.bytes() >= CREDIT_BYTES;
        let batch = Vec::with_capacity(usize::try_from(size / 2).ok()?);
        let counters = FabricPushCounters::default();
        let (published, head_seen) = (0, 0);
        sound.then_some(FabricProducer {
            endpoint,
            ring,
            size,
            credit,
            batch,
            published,
            head_seen,
            counters,
        })
    }

    /// Sends the consumer the key of the producer's region ([`CREDIT_NAME`]), which must be random
    /// and secret. `Key(0)` means none.
    ///
    /// Done at return; the consumer imports the region later. Errors: [`PostError`].
    pub fn introduce(&self, fabric: &mut dyn Fabric, credit: Key) -> Result<(), PostError> {
        self.put(fabric, CREDIT_KEY_OFFSET, &credit.0.to_le_bytes())
    }

    /// Returns the length of the longest record \[byte\].
    #[must_use]
    pub fn record_bytes_max(&self) -> u64 {
        self.size / 4 - WORD
    }

    /// Gathers a record; [`FabricProducer::publish`] sends the batch. A batch of half the ring is
    /// published at once.
    ///
    /// Errors: [`FabricPushError`]. Cost: one copy.
    pub fn push(&mut self, fabric: &mut dyn Fabric, record: &[u8]) -> Result<(), FabricPushError> {
        let bytes = record.len() as u64;
        let max = self.record_bytes_max();
        if bytes > max {
            return Err(FabricPushError::TooLong { bytes, max });
        }
        let whole = WORD + bytes.next_multiple_of(WORD);
        let used = |this: &Self| this.published + this.batch.len() as u64 - this.head_seen;
        if self.size - used(self) < whole {
            let head = self.credit.load(0)?;
            if head < self.head_seen || head > self.published {
                return Err(FabricPushError::Broken);
            }
            self.head_seen = head;
            if self.size - used(self) < whole {
                self.publish(fabric)?;
                self.counters.full += 1;
                return Err(FabricPushError::Full);
            }
        }
        if self.batch.len() as u64 + whole > self.size / 2 {
            self.publish(fabric)?;
        }
        self.batch.extend_from_slice(&bytes.to_le_bytes());
        self.batch.extend_from_slice(record);
        self.batch.resize(self.batch.len().next_multiple_of(WORD as usize), 0);
        self.counters.records += 1;
        self.counters.bytes += bytes;
        Ok(())
    }

    /// Sends all gathered records, and then the tail that publishes them.
    ///
    /// Errors: [`PostError`]. Nothing is lost; call it again. Cost: two puts, three where the ring
    /// wraps.
    pub fn publish(&mut self, fabric: &mut dyn Fabric) -> Result<(), FabricPushError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let bytes = self.batch.len() as u64;
        let at = self.published & (self.size - 1);
        let first = bytes.min(self.size - at) as usize;
        // After a refusal the same bytes are put to the same addresses again, which does no harm.
        for (place, part) in [(at, &self.batch[..first]), (0, &self.batch[first..])] {
            if !part.is_empty() {
                self.put(fabric, HEADER_BYTES + place, part)?;
            }
        }
        let tail = self.published + bytes;
        self.put(fabric, 0, &tail.to_le_bytes())?;
        self.published = tail;
        self.batch.clear();
        self.counters.batches += 1;
        Ok(())
    }

    fn put(&self, fabric: &mut dyn Fabric, offset: u64, bytes: &[u8]) -> Result<(), PostError> {
        let (from, to) = (Local::Bytes(bytes), Target { remote: self.ring, offset });
        fabric.post(self.endpoint, 0, Work::Put { from, to, notify: None, complete_at: None })
    }

    /// Returns the counters of this side.
    #[must_use]
    pub fn counters(&self) -> &FabricPushCounters {
        &self.counters
    }
}

/// The side of a push ring that reads.
pub struct FabricConsumer {
    /// Own memory with the tail and the ring.
    memory: Arc<dyn Memory>,
    size: u64,
    endpoint: EndpointId,
    /// The producer's region.
    credit: RemoteId,
    head: u64,
    given_back: u64,
    tail_seen: u64,
    counters: FabricPushCounters,
}

impl FabricConsumer {
    /// Returns a consumer of the ring in `memory`; `credit` is the producer's region, imported.
    ///
    /// `memory` is an own region of `HEADER_BYTES` and a power of two, zeroed and exported with the
    /// right to put.
    #[must_use]
    pub fn new(
        memory: Arc<dyn Memory>,
        endpoint: EndpointId,
        credit: RemoteId,
    ) -> Option<FabricConsumer> {
        let size = memory.bytes().checked_sub(HEADER_BYTES)?;
        let counters = FabricPushCounters::default();
        let (head, given_back, tail_seen) = (0, 0, 0);
        (size.is_power_of_two() && size >= 8 * WORD).then_some(FabricConsumer {
            memory,
            size,
            endpoint,
            credit,
            head,
            given_back,
            tail_seen,
            counters,
        })
    }

    /// Copies the oldest record into `into`. Returns false when there is none now.
    ///
    /// Errors: [`FabricPushError`]; `Broken` for good when the producer wrote an impossible tail or
    /// length. A record is read even if its credit could not be posted: the next call tries again.
    pub fn next(
        &mut self,
        fabric: &mut dyn Fabric,
        into: &mut Vec<u8>,
    ) -> Result<bool, FabricPushError> {
        if self.head == self.tail_seen {
            let tail = self.memory.load(0)?;
            if tail < self.head || tail - self.head > self.size || !tail.is_multiple_of(WORD) {
                return Err(FabricPushError::Broken);
            }
            self.tail_seen = tail;
        }
        if self.head == self.tail_seen {
            self.give_back(fabric)?;
            return Ok(false);
        }
        let mut word = [0; WORD as usize];
        self.read(self.head, &mut word)?;
        let bytes = u64::from_le_bytes(word);
        let there = self.tail_seen - self.head - WORD;
        if bytes > there || bytes > self.size / 4 {
            return Err(FabricPushError::Broken);
        }
        into.resize(bytes as usize, 0);
        self.read(self.head + WORD, into)?;
        self.head += WORD + bytes.next_multiple_of(WORD);
        self.counters.records += 1;
        self.counters.bytes += bytes;
        if self.head - self.given_back >= self.size / 4 {
            // A full queue only delays the credit.
            let _ = self.give_back(fabric);
        }
        Ok(true)
    }

    /// Copies from the ring, in two parts where the ring wraps.
    fn read(&self, position: u64, into: &mut [u8]) -> Result<(), AccessError> {
        let at = position & (self.size - 1);
        let first = (into.len() as u64).min(self.size - at) as usize;
        let (left, right) = into.split_at_mut(first);
        self.memory.read(HEADER_BYTES + at, left)?;
        self.memory.read(HEADER_BYTES, right)
    }

    fn give_back(&mut self, fabric: &mut dyn Fabric) -> Result<(), FabricPushError> {
        if self.given_back == self.head {
            return Ok(());
        }
        let head = self.head.to_le_bytes();
        let (from, to) = (Local::Bytes(&head), Target { remote: self.credit, offset: 0 });
        fabric.post(self.endpoint, 0, Work::Put { from, to, notify: None, complete_at: None })?;
        self.given_back = self.head;
        self.counters.batches += 1;
        Ok(())
    }

    /// Returns the counters of this side.
    #[must_use]
    pub fn counters(&self) -> &FabricPushCounters {
        &self.counters
    }
}
