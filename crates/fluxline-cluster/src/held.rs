//! Records of one readout node that wait for records of the others.
//!
//! Those that are taken next are in memory. Of the others only the offset is kept when memory runs
//! short, and they are read again when their turn comes.

use std::collections::VecDeque;
use std::sync::Arc;

use fluxline_core::Moment;
use serde::{Deserialize, Serialize};

use crate::entry::{Entries, RecordHead, read_record};

/// Records of one node, in their order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Queue {
    records: VecDeque<Held>,
    /// The first record, if it is in memory.
    front: Option<Front>,
    /// Time of the entry that was taken last.
    reached: Moment,
}

/// A record that waits.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Held {
    offset: u64,
    /// Empty: it must be read again.
    #[serde(with = "shared_bytes")]
    bytes: Arc<[u8]>,
}

/// A record of which entries are being taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Front {
    pub(crate) head: RecordHead,
    /// Packets taken from it.
    pub(crate) taken: u64,
    /// Bytes of entries that were not taken.
    left: usize,
    /// Time of the next entry; behind the last one, the mark.
    next: Moment,
}

/// The state of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// No record waits.
    Empty,
    /// The record at this offset must be read again.
    Forgotten(u64),
    /// The next entry has this time.
    At(Moment),
}

impl Queue {
    /// Returns its state.
    pub(crate) fn ready(&self) -> Ready {
        match (&self.front, self.records.front()) {
            (Some(front), _) => Ready::At(front.next),
            (None, Some(held)) => Ready::Forgotten(held.offset),
            (None, None) => Ready::Empty,
        }
    }

    /// Returns the number of records.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns the memory of its records \[byte\]. Cost: a step for each record.
    pub(crate) fn bytes(&self) -> u64 {
        self.records.iter().map(|held| held.bytes.len() as u64).sum()
    }

    /// Returns the offset of the first record that must be read again.
    pub(crate) fn forgotten(&self) -> Option<u64> {
        self.records.iter().find(|held| held.bytes.is_empty()).map(|held| held.offset)
    }

    /// Adds a record; without `keeps`, only its offset, unless it is the first one. Returns the
    /// memory that it takes \[byte\].
    pub(crate) fn push(&mut self, offset: u64, bytes: &Arc<[u8]>, keeps: bool) -> u64 {
        let keeps = keeps || self.records.is_empty();
        let bytes = if keeps { Arc::clone(bytes) } else { Arc::default() };
        let grown = bytes.len() as u64;
        self.records.push_back(Held { offset, bytes });
        self.open();
        grown
    }

    /// Gives the first record its bytes again. Returns false if it is not the record at `offset`.
    pub(crate) fn supply(&mut self, offset: u64, bytes: &Arc<[u8]>) -> bool {
        let wanted = self.ready() == Ready::Forgotten(offset);
        if let (true, Some(held)) = (wanted, self.records.front_mut()) {
            held.bytes = Arc::clone(bytes);
            self.open();
        }
        wanted && self.front.is_some()
    }

    /// Opens the first record, if its bytes are there.
    fn open(&mut self) {
        let Some(held) = self.records.front().filter(|_| self.front.is_none()) else { return };
        if let Some((head, entries)) = read_record(&held.bytes) {
            self.front = Some(Front { head, taken: 0, left: entries.left(), next: self.reached });
            self.look(&Arc::clone(&held.bytes));
        }
    }

    /// Finds the time of the next entry. Entries of one node keep their order, so one with an
    /// earlier time counts as being as late as the one before.
    fn look(&mut self, bytes: &[u8]) {
        let Some(front) = &mut self.front else { return };
        let next = Entries::resume(bytes, front.left).next();
        let time = next.map_or(Some(front.head.mark), |entry| entry.time());
        front.next = self.reached.max(time.unwrap_or_default());
    }

    /// Returns the first record and its head, to take entries from; [`Queue::put_back`] returns it.
    pub(crate) fn take(&mut self) -> Option<(Arc<[u8]>, Front)> {
        let bytes = Arc::clone(&self.records.front()?.bytes);
        Some((bytes, self.front.take()?))
    }

    /// Returns a record of which entries were taken up to the time `reached`.
    pub(crate) fn put_back(&mut self, bytes: &[u8], front: Front, reached: Moment) {
        self.reached = self.reached.max(reached);
        self.front = Some(front);
        self.look(bytes);
    }

    /// Removes the first record, which was taken; returns its length \[byte\].
    pub(crate) fn pop(&mut self, reached: Moment) -> u64 {
        self.reached = self.reached.max(reached);
        self.front = None;
        let bytes = self.records.pop_front().map_or(0, |held| held.bytes.len() as u64);
        self.open();
        bytes
    }

    /// Returns true when the first record of a state that was read is one, and has a head.
    pub(crate) fn is_sound(&self) -> bool {
        let first = self.records.front().filter(|held| !held.bytes.is_empty());
        match (&self.front, first) {
            (None, None) => true,
            (Some(front), Some(held)) => {
                read_record(&held.bytes).is_some_and(|(head, _)| head == front.head)
            }
            _ => false,
        }
    }
}

impl Front {
    /// Returns the time of the next entry.
    pub(crate) fn next(&self) -> Moment {
        self.next
    }

    /// Returns the entries that were not taken.
    pub(crate) fn entries<'a>(&self, bytes: &'a [u8]) -> Entries<'a> {
        Entries::resume(bytes, self.left)
    }

    /// Notes the entries that are left.
    pub(crate) fn leave(&mut self, entries: &Entries<'_>) {
        self.left = entries.left();
    }
}

/// Bytes that several owners share, as one string of bytes.
mod shared_bytes {
    use std::fmt;
    use std::sync::Arc;

    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &Arc<[u8]>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<[u8]>, D::Error> {
        from.deserialize_bytes(Bytes)
    }

    struct Bytes;

    impl Visitor<'_> for Bytes {
        type Value = Arc<[u8]>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a string of bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Arc<[u8]>, E> {
            Ok(bytes.into())
        }
    }
}
