//! The places of a run's late fragments: an index of bounded size, and the batches that hold them.

use std::collections::{HashMap, VecDeque};

use crate::event::{EventBatch, EventRow, EventStatus, PacketRow};
use crate::record::reader::{Place, ReadError, RunReader};

/// Most late fragments that are joined; those beyond stay rows of their own. With 32 bytes each,
/// this is 128 MiB.
const ENTRIES_MAX: usize = 4 << 20;
/// Most batches with late fragments that are kept in memory.
const BATCHES_MAX: usize = 4;

/// The identity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    generation: u32,
    source: Option<u32>,
    key: u64,
}

impl Identity {
    /// Returns the identity of a row's event; `None`: a packet on its own.
    pub(super) fn of(row: &EventRow) -> Option<Identity> {
        let EventRow { generation, source, .. } = *row;
        row.key.map(|key| Identity { generation, source, key })
    }
}

/// A late fragment: the identity of its event, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    event: Identity,
    /// Index of its batch among those with late fragments, and its row in it.
    batch: u32,
    row: u32,
}

/// A late fragment with its packet.
#[derive(Clone, Debug)]
pub(super) struct LateFragment {
    pub(super) row: PacketRow,
    pub(super) bytes: Vec<u8>,
    /// The part of its fragment that it is, in words.
    pub(super) part: String,
}

/// The late fragments of a run.
#[derive(Debug, Default)]
pub(super) struct LateIndex {
    entries: Vec<Entry>,
    /// For each entry: its event was found.
    joined: Vec<bool>,
    /// Numbers of batches in the run, with their places in `places`.
    numbers: HashMap<u64, u32>,
    places: Vec<Place>,
    cache: VecDeque<(u32, EventBatch)>,
    beyond: u64,
}

impl LateIndex {
    /// Reads a run to its end, and notes where late fragments are. Cost: one pass over the run.
    pub(super) fn build(mut reader: RunReader) -> Result<LateIndex, ReadError> {
        let mut index = LateIndex::default();
        let mut batch = EventBatch::default();
        while let Some(recorded) = reader.next_batch()? {
            if !recorded.has_late() {
                continue;
            }
            batch.clear();
            recorded.append_to(&mut batch)?;
            let number = index.places.len() as u32;
            index.numbers.insert(recorded.number(), number);
            index.places.push(recorded.place());
            for (row, event) in batch.events.iter().enumerate() {
                if event.status != EventStatus::Late {
                    continue;
                }
                let Some(event) = Identity::of(event) else { continue };
                match index.entries.len() < ENTRIES_MAX {
                    true => index.entries.push(Entry { event, batch: number, row: row as u32 }),
                    false => index.beyond += 1,
                }
            }
        }
        index.entries.sort_unstable();
        index.joined = vec![false; index.entries.len()];
        Ok(index)
    }

    /// Returns true when there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns true when any are of this event.
    pub(super) fn has(&self, event: Identity) -> bool {
        let at = self.entries.partition_point(|entry| entry.event < event);
        self.entries.get(at).is_some_and(|entry| entry.event == event)
    }

    /// Returns the late fragments of an event that was found, in the order in which they came.
    pub(super) fn take(
        &mut self,
        event: Identity,
        reader: &RunReader,
        mut take: impl FnMut(LateFragment),
    ) -> Result<(), ReadError> {
        let from = self.entries.partition_point(|entry| entry.event < event);
        for at in from..self.entries.len() {
            let Entry { event: its, batch, row } = self.entries[at];
            if its != event {
                break;
            }
            if self.joined[at] {
                continue;
            }
            let Some(batch) = self.batch(batch, reader)? else { continue };
            let Some(fragment) = fragment_of(batch, row as usize) else { continue };
            take(fragment);
            self.joined[at] = true;
        }
        Ok(())
    }

    /// Returns true when the late fragment in a row of batch `number` is in its event.
    pub(super) fn is_joined(&self, number: u64, row: usize, event: &EventRow) -> bool {
        let (Some(&batch), Some(event)) = (self.numbers.get(&number), Identity::of(event)) else {
            return false;
        };
        let entry = Entry { event, batch, row: row as u32 };
        self.entries.binary_search(&entry).is_ok_and(|at| self.joined[at])
    }

    /// Returns the number of late fragments that are in their events.
    pub(super) fn joined(&self) -> u64 {
        self.joined.iter().filter(|joined| **joined).count() as u64
    }

    /// Returns the number of those that are not: their event is missing, or there are too many.
    pub(super) fn left(&self) -> u64 {
        self.entries.len() as u64 - self.joined() + self.beyond
    }

    /// Returns a batch with late fragments; `None` when it can no longer be read.
    fn batch(&mut self, number: u32, reader: &RunReader) -> Result<Option<&EventBatch>, ReadError> {
        if let Some(at) = self.cache.iter().position(|its| its.0 == number) {
            return Ok(self.cache.get(at).map(|its| &its.1));
        }
        let place = self.places[number as usize];
        let Some(recorded) = reader.read_again(place)? else { return Ok(None) };
        let mut batch = match self.cache.len() < BATCHES_MAX {
            true => EventBatch::default(),
            false => self.cache.pop_front().map_or(EventBatch::default(), |its| its.1),
        };
        batch.clear();
        recorded.append_to(&mut batch)?;
        self.cache.push_back((number, batch));
        Ok(self.cache.back().map(|its| &its.1))
    }
}

/// Returns the packet of a late row.
fn fragment_of(batch: &EventBatch, row: usize) -> Option<LateFragment> {
    let before = batch.events.get(..row)?;
    let event = batch.events.get(row)?;
    let first: usize = before.iter().map(|its| its.packets as usize).sum();
    let text: usize = before.iter().map(|its| its.missing_bytes as usize).sum();
    let row = *batch.packets.get(first)?;
    let start: usize = batch.packets[..first].iter().map(|its| its.bytes as usize).sum();
    let bytes = batch.bytes.get(start..start + row.bytes as usize)?.to_vec();
    let part = batch.missing.get(text..text + event.missing_bytes as usize)?.to_owned();
    Some(LateFragment { row, bytes, part })
}
