//! A push ring by puts: records by puts one way, credits by puts the other way.
//!
//! The consumer owns a region: a word for the tail, a word for the producer's greeting, then the
//! ring. The producer owns a region with two words: the head, and the records that the consumer has
//! taken in the ring's life. The consumer puts them there when the producer is admitted, and when a
//! quarter of the ring was read. A producer that comes back goes on behind the records taken: all
//! that were published before were read when it is admitted.
//!
//! Records are gathered in the producer's own memory. A batch crosses as one put, or two where the
//! ring wraps, and a put of the tail with a notification follows. Reliable endpoints place puts in
//! order, so a consumer that sees the tail sees the records. The consumer copies all that it finds
//! at once, at most 64 KiB, and reads the records from its copy, which nobody else writes.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::types::{Broken, PushCounters, PushRefused};
use crate::fabric::{
    EndpointId, Fabric, Key, Local, Memory, Name, PostError, RemoteId, Target, Work,
};

/// The header before the ring in the consumer's region \[byte\].
pub const HEADER_BYTES: u64 = 64;
/// The word of the consumer's region for the producer's greeting: the key of the producer's region.
/// A producer that can write this word has shown the ring's key before.
pub const GREETING_OFFSET: u64 = 8;
/// The least size of the producer's region \[byte\]: the head.
pub const CREDIT_BYTES: u64 = 8;
/// The size of a producer's region with a word for the records taken \[byte\].
pub const COUNTED_CREDIT_BYTES: u64 = 16;
/// The word of the producer's region for the records taken.
pub(super) const TAKEN_OFFSET: u64 = 8;
/// The records taken, before the consumer has put them, or if it does not count.
pub(super) const NOT_COUNTED: u64 = u64::MAX;
/// The head in a producer's region before the consumer has admitted the producer.
pub const NOT_ADMITTED: u64 = u64::MAX;
/// Bytes that a batch has at most, unless one record is longer.
const BATCH_BYTES: u64 = 1 << 15;
/// Bytes that the consumer copies at once, unless one record is longer.
const CHUNK_BYTES: u64 = 1 << 16;
const WORD: u64 = 8;

/// Returns the name of the producer's region, by which the consumer imports it: `credit-`, and the
/// low 16 bits of its key, so that a node has a region for each ring that it pushes into.
#[must_use]
pub fn credit_name(key: Key) -> Name {
    let text = alloc::format!("credit-{:04x}", key.0 & 0xFFFF);
    Name::parse(&text).unwrap_or_else(|_| unreachable!("letters and digits"))
}

/// Returns true when a ring of `size` bytes is possible.
fn is_sound(size: u64) -> bool {
    size.is_power_of_two() && size >= 8 * WORD
}

/// Puts bytes whose completion is of interest only if it fails.
fn put(
    fabric: &mut dyn Fabric,
    endpoint: EndpointId,
    to: Target,
    bytes: Bytes<'_>,
) -> Result<(), PostError> {
    let Bytes { bytes, notify } = bytes;
    let work = Work::Put { from: Local::Bytes(bytes), to, notify, complete_at: None };
    fabric.post(endpoint, super::RING_TAG, work)
}

struct Bytes<'a> {
    bytes: &'a [u8],
    notify: Option<u32>,
}

/// The side of a ring by puts that writes.
pub struct Producer {
    endpoint: EndpointId,
    ring: RemoteId,
    size: u64,
    /// Own memory in which the consumer puts its head.
    credit: Arc<dyn Memory>,
    /// The longest put of the link \[byte\].
    put_max: u64,
    /// Records that are not published yet, laid out as in the ring.
    batch: Vec<u8>,
    batch_max: u64,
    /// Bytes of the batch that were put before the link's queue was full.
    sent: u64,
    published: u64,
    head_seen: u64,
    /// Records taken in the ring's life when this producer was admitted.
    resumes_from: Option<u64>,
    counters: PushCounters,
}

/// The places of a producer: its connection, the ring, and its credit.
pub struct ProducerPlaces {
    /// The connection, which is reliable.
    pub endpoint: EndpointId,
    /// The imported region of the ring.
    pub ring: RemoteId,
    /// The ring's size \[byte\]: that of the region without [`HEADER_BYTES`].
    pub size: u64,
    /// The memory of an own region of [`CREDIT_BYTES`] or [`COUNTED_CREDIT_BYTES`], which the
    /// consumer imports.
    pub credit: Arc<dyn Memory>,
}

impl Producer {
    /// Returns a producer; `None`: the size is not a power of two, or less than 64.
    #[must_use]
    pub fn new(fabric: &dyn Fabric, places: ProducerPlaces) -> Option<Producer> {
        let ProducerPlaces { endpoint, ring, size, credit } = places;
        let sound = is_sound(size) && credit.bytes() >= CREDIT_BYTES;
        let put_max = fabric.capabilities().operation_bytes_max.max(WORD);
        let batch_max = BATCH_BYTES.min(size / 4);
        sound.then(|| Producer {
            endpoint,
            ring,
            size,
            credit,
            put_max,
            batch: Vec::with_capacity(batch_max as usize),
            batch_max,
            sent: 0,
            published: 0,
            head_seen: 0,
            resumes_from: None,
            counters: PushCounters::default(),
        })
    }

    /// Sends the consumer the key of the producer's region ([`credit_name`]), with a notification
    /// that carries its low 16 bits. `Key(0)` means none.
    ///
    /// Done at return; the consumer imports the region later. Errors: [`PostError`].
    pub fn greet(&self, fabric: &mut dyn Fabric, credit: Key) -> Result<(), PostError> {
        let word = credit.0.to_le_bytes();
        let notify = Some((credit.0 & 0xFFFF) as u32);
        self.put(fabric, GREETING_OFFSET, Bytes { bytes: &word, notify })
    }

    /// Returns true when the consumer has put its head into the region of the credit, which began
    /// as [`NOT_ADMITTED`].
    pub fn is_admitted(&mut self) -> bool {
        let is_admitted = self.credit.load(0).is_ok_and(|head| head != NOT_ADMITTED);
        if is_admitted && self.resumes_from.is_none() {
            self.resumes_from = self.taken();
        }
        is_admitted
    }

    /// Returns the records that the consumer has taken in the ring's life, as it has put them;
    /// `None`: it does not count.
    fn taken(&self) -> Option<u64> {
        self.credit.load(TAKEN_OFFSET).ok().filter(|taken| *taken != NOT_COUNTED)
    }

    /// Returns the number of records of earlier producers, all of which were read; `None`: the
    /// consumer does not count.
    #[must_use]
    pub fn resumes_from(&self) -> Option<u64> {
        self.resumes_from
    }

    /// Counts the records that the consumer has taken meanwhile.
    pub(super) fn count_delivered(&mut self) {
        if let (Some(first), Some(taken)) = (self.resumes_from, self.taken()) {
            // The consumer is not trusted: it cannot have taken more than was pushed.
            self.counters.delivered = taken.saturating_sub(first).min(self.counters.records);
        }
    }

    /// Returns the length of the longest record \[byte\].
    #[must_use]
    pub fn record_bytes_max(&self) -> usize {
        (self.size / 4 - WORD) as usize
    }

    /// Gathers a record; [`Producer::publish`] sends the batch. A batch of the greatest length is
    /// sent at once.
    ///
    /// Errors: [`PushRefused`]. Cost: one copy.
    #[inline]
    pub fn push(
        &mut self,
        fabric: &mut dyn Fabric,
        stamp: Option<u64>,
        record: &[u8],
    ) -> Result<(), PushRefused> {
        let bytes = record.len() as u64 + if stamp.is_some() { WORD } else { 0 };
        let whole = WORD + bytes.next_multiple_of(WORD);
        let gathered = self.batch.len() as u64;
        let used = self.published + gathered - self.head_seen;
        if whole > self.size - used || gathered + whole > self.batch_max || self.sent > 0 {
            self.make_room(fabric, whole, bytes)?;
        }
        self.batch.extend_from_slice(&bytes.to_le_bytes());
        if let Some(stamp) = stamp {
            self.batch.extend_from_slice(&stamp.to_le_bytes());
        }
        self.batch.extend_from_slice(record);
        self.batch.resize(self.batch.len().next_multiple_of(WORD as usize), 0);
        self.counters.records += 1;
        self.counters.bytes += bytes;
        Ok(())
    }

    /// Makes room for `whole` bytes in the ring and in the batch.
    #[cold]
    fn make_room(
        &mut self,
        fabric: &mut dyn Fabric,
        whole: u64,
        bytes: u64,
    ) -> Result<(), PushRefused> {
        let max = self.record_bytes_max();
        if bytes > max as u64 {
            return Err(PushRefused::TooLong { bytes: bytes as usize, max });
        }
        let gathered = self.batch.len() as u64;
        if gathered > 0 && (gathered + whole > self.batch_max || self.sent > 0) {
            self.publish_or_full(fabric)?;
        }
        let free =
            |this: &Self| this.size - (this.published + this.batch.len() as u64 - this.head_seen);
        if whole > free(self) {
            let head = self.credit.load(0).map_err(|_| Broken)?;
            if head < self.head_seen || head > self.published || !head.is_multiple_of(WORD) {
                return Err(PushRefused::Broken(Broken));
            }
            self.head_seen = head;
            if whole > free(self) {
                self.publish_or_full(fabric)?;
                self.counters.full += 1;
                return Err(PushRefused::Full);
            }
        }
        Ok(())
    }

    fn publish_or_full(&mut self, fabric: &mut dyn Fabric) -> Result<(), PushRefused> {
        if self.publish(fabric)? {
            return Ok(());
        }
        self.counters.full += 1;
        Err(PushRefused::Full)
    }

    /// Sends all gathered records, and then the tail that publishes them. Returns false when the
    /// link's queue is full: poll, and call it again.
    ///
    /// Errors: [`PushRefused`], for good. Cost: two puts, three where the ring wraps.
    pub fn publish(&mut self, fabric: &mut dyn Fabric) -> Result<bool, PushRefused> {
        match self.post_all(fabric) {
            Ok(()) => Ok(true),
            Err(PostError::Full) => Ok(false),
            Err(PostError::NotConnected) => Err(PushRefused::ConsumerGone),
            Err(_) => Err(PushRefused::Broken(Broken)),
        }
    }

    fn post_all(&mut self, fabric: &mut dyn Fabric) -> Result<(), PostError> {
        let bytes = self.batch.len() as u64;
        if bytes == 0 {
            return Ok(());
        }
        while self.sent < bytes {
            let at = (self.published + self.sent) & (self.size - 1);
            let part = (bytes - self.sent).min(self.size - at).min(self.put_max);
            let piece = &self.batch[self.sent as usize..(self.sent + part) as usize];
            self.put(fabric, HEADER_BYTES + at, Bytes { bytes: piece, notify: None })?;
            self.sent += part;
        }
        let tail = self.published + bytes;
        self.put(fabric, 0, Bytes { bytes: &tail.to_le_bytes(), notify: Some(0) })?;
        self.published = tail;
        self.batch.clear();
        self.sent = 0;
        self.counters.batches += 1;
        Ok(())
    }

    fn put(&self, fabric: &mut dyn Fabric, offset: u64, bytes: Bytes<'_>) -> Result<(), PostError> {
        put(fabric, self.endpoint, Target { remote: self.ring, offset }, bytes)
    }

    /// Returns the counters of this side.
    #[must_use]
    pub fn counters(&self) -> &PushCounters {
        &self.counters
    }

    /// Adds a time without room.
    pub(super) fn add_stall(&mut self, ns: u64) {
        self.counters.stalled_ns += ns;
    }
}

/// The side of a ring by puts that reads.
pub struct Consumer {
    /// Own memory with the tail and the ring.
    memory: Arc<dyn Memory>,
    size: u64,
    credit: Option<Credit>,
    /// Records taken before this consumer was made.
    taken_before: u64,
    /// Behind what was copied.
    head: u64,
    given_back: Option<u64>,
    tail_seen: u64,
    /// A copy of whole records.
    chunk: Vec<u8>,
    at: usize,
    end: usize,
    is_broken: bool,
    counters: PushCounters,
}

/// The place of the consumer's head.
#[derive(Clone, Copy, Debug)]
pub struct Credit {
    /// The connection to the producer.
    pub endpoint: EndpointId,
    /// The producer's region, imported.
    pub remote: RemoteId,
    /// True: the region has a word for the records taken ([`COUNTED_CREDIT_BYTES`]).
    pub is_counted: bool,
}

impl Consumer {
    /// Returns a consumer of the ring in `memory`, an own region of [`HEADER_BYTES`] and a power of
    /// two, zeroed and exported with the right to put; `None`: its size is another.
    #[must_use]
    pub fn new(memory: Arc<dyn Memory>) -> Option<Consumer> {
        let size = memory.bytes().checked_sub(HEADER_BYTES)?;
        is_sound(size).then(|| Consumer {
            memory,
            size,
            credit: None,
            taken_before: 0,
            head: 0,
            given_back: None,
            tail_seen: 0,
            chunk: Vec::new(),
            at: 0,
            end: 0,
            is_broken: false,
            counters: PushCounters::default(),
        })
    }

    /// Returns the key of the producer's region, as it was greeted last; `Key(0)`: there was none.
    #[must_use]
    pub fn greeting(&self) -> Key {
        Key(self.memory.load(GREETING_OFFSET).unwrap_or_default())
    }

    /// Counts on behind `taken` records, which the program took from an earlier ring.
    pub fn begin_at(&mut self, taken: u64) {
        self.taken_before = taken;
    }

    /// Returns the records that were read in the ring's life, those of [`Consumer::begin_at`]
    /// included.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken_before.wrapping_add(self.counters.records)
    }

    /// Admits the producer with this credit: it gets the head with the next
    /// [`Consumer::give_back`].
    pub fn admit(&mut self, credit: Credit) {
        self.credit = Some(credit);
        self.given_back = None;
    }

    /// Empties the ring for the next producer. The last one must not be able to write any more.
    pub fn restart(&mut self) {
        self.memory.store(0, 0).expect("own memory, with a word at 0");
        self.credit = None;
        (self.head, self.given_back, self.tail_seen) = (0, None, 0);
        (self.at, self.end) = (0, 0);
    }

    /// Returns the oldest record in the consumer's own copy; `None`: there is none now.
    ///
    /// Errors: [`Broken`], for good, when the producer wrote an impossible tail or length. Records
    /// before that are read.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "lends from itself, as no iterator can")]
    pub fn next(&mut self) -> Result<Option<&[u8]>, Broken> {
        if self.is_empty() && !self.refill()? {
            return Ok(None);
        }
        // A chunk has whole records.
        let word = self.chunk[self.at..].first_chunk().ok_or(Broken)?;
        let (from, bytes) = (self.at + WORD as usize, u64::from_le_bytes(*word) as usize);
        self.at = from + bytes.next_multiple_of(WORD as usize);
        self.counters.records += 1;
        self.counters.delivered += 1;
        self.counters.bytes += bytes as u64;
        self.chunk.get(from..from + bytes).map(Some).ok_or(Broken)
    }

    /// Returns true when all records that were copied are read.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.at == self.end
    }

    /// Copies what there is, and checks that it is whole records; false: there is nothing.
    pub(super) fn refill(&mut self) -> Result<bool, Broken> {
        if self.is_broken {
            return Err(Broken);
        }
        if self.head == self.tail_seen {
            let tail = self.memory.load(0).map_err(|_| Broken)?;
            if tail < self.head || tail - self.head > self.size || !tail.is_multiple_of(WORD) {
                return Err(self.broken());
            }
            self.tail_seen = tail;
        }
        let there = self.tail_seen - self.head;
        if there == 0 {
            return Ok(false);
        }
        let mut copied = there.min(CHUNK_BYTES);
        self.copy(copied)?;
        let mut whole = self.whole_records(copied, there);
        if let Whole::Longer(bytes) = whole {
            copied = bytes;
            self.copy(copied)?;
            whole = self.whole_records(copied, there);
        }
        let Whole::Bytes(bytes) = whole else { return Err(self.broken()) };
        (self.at, self.end) = (0, bytes as usize);
        self.head += bytes;
        Ok(true)
    }

    /// Copies `bytes` from the head on, in two parts where the ring wraps.
    fn copy(&mut self, bytes: u64) -> Result<(), Broken> {
        let at = self.head & (self.size - 1);
        let first = bytes.min(self.size - at) as usize;
        if self.chunk.len() < bytes as usize {
            self.chunk.resize(bytes as usize, 0);
        }
        let (left, right) = self.chunk[..bytes as usize].split_at_mut(first);
        self.memory.read(HEADER_BYTES + at, left).map_err(|_| Broken)?;
        self.memory.read(HEADER_BYTES, right).map_err(|_| Broken)
    }

    /// Returns the bytes of the whole records among `copied` bytes, of `there` that are published.
    fn whole_records(&self, copied: u64, there: u64) -> Whole {
        let chunk = &self.chunk[..copied as usize];
        let mut at = 0;
        while let Some(word) = chunk[at..].first_chunk() {
            let bytes = u64::from_le_bytes(*word);
            if bytes > self.size / 4 {
                break; // impossible: what is before it is read first
            }
            let whole = WORD + bytes.next_multiple_of(WORD);
            let behind = at as u64 + whole;
            if behind > chunk.len() as u64 {
                if at == 0 && whole <= there {
                    return Whole::Longer(whole);
                }
                break;
            }
            at = behind as usize;
        }
        if at == 0 { Whole::None } else { Whole::Bytes(at as u64) }
    }

    #[cold]
    fn broken(&mut self) -> Broken {
        self.is_broken = true;
        self.counters.broken = 1;
        (self.at, self.end) = (0, 0);
        Broken
    }

    /// Returns true when the producer wrote an invalid record.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Puts the records taken and the head into the producer's region, once a quarter of the ring.
    ///
    /// Errors: [`PostError`]; nothing is lost, call it again.
    #[inline]
    pub fn give_back(&mut self, fabric: &mut dyn Fabric) -> Result<(), PostError> {
        match (self.credit, self.given_back) {
            (None, _) => Ok(()),
            (_, Some(given)) if self.head - given < self.size / 4 => Ok(()),
            (Some(credit), _) => self.put_head(fabric, credit),
        }
    }

    fn put_head(&mut self, fabric: &mut dyn Fabric, credit: Credit) -> Result<(), PostError> {
        if credit.is_counted {
            // First: a producer that sees the head of its admission sees this, too.
            let taken = self.taken().to_le_bytes();
            let to = Target { remote: credit.remote, offset: TAKEN_OFFSET };
            put(fabric, credit.endpoint, to, Bytes { bytes: &taken, notify: None })?;
        }
        let twice = if crate::planted!(19) { self.size / 4 } else { 0 };
        let word = (self.head + twice).to_le_bytes();
        let to = Target { remote: credit.remote, offset: 0 };
        put(fabric, credit.endpoint, to, Bytes { bytes: &word, notify: Some(0) })?;
        self.given_back = Some(self.head);
        Ok(())
    }

    /// Returns the counters of this side.
    #[must_use]
    pub fn counters(&self) -> &PushCounters {
        &self.counters
    }

    /// Counts a producer whose process died.
    pub(super) fn add_death(&mut self) {
        self.counters.died += 1;
    }
}

/// The whole records at the beginning of a chunk.
enum Whole {
    /// No record can lie there.
    None,
    /// As many bytes.
    Bytes(u64),
    /// The first record has as many bytes, more than the chunk.
    Longer(u64),
}

/// Returns the key of the credit's region number `number` of a node that pushes into a ring with
/// this key. A node that knows the ring's key may know this one; others may not.
pub(super) fn credit_key(ring: Key, number: u16) -> Key {
    let mixed = (ring.0 ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    Key((mixed << 16) | (1 << 63) | u64::from(number))
}
