//! Open events: slots that are used again with the memory of their vectors, in the order in which
//! the events were opened.

use fluxline_core::Moment;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::coverage::Coverage;
use super::event_id::{EventId, SCOPE_ALL};
use super::growth::make_room;
use super::line::Has;
use super::position::Position;
use crate::event::PacketRow;

/// No slot.
const NONE: u32 = u32::MAX;

/// The packets that one source sent for one event.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Fragment {
    pub(super) coverage: Coverage,
    pub(super) complete: bool,
}

/// One open event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OpenEvent {
    pub(super) id: EventId,
    /// The time at which it was opened.
    pub(super) opened: Moment,
    /// The number of the packet that opened it, of those with a position.
    pub(super) opened_by: u64,
    /// The time at which a window closes.
    pub(super) deadline: Moment,
    pub(super) first: Moment,
    pub(super) last: Moment,
    pub(super) packets: Vec<PacketRow>,
    #[serde(with = "crate::byte_strings")]
    pub(super) bytes: Vec<u8>,
    /// The sources that have a fragment; `fragments` has one at the same place.
    pub(super) sources: Vec<u32>,
    /// Fragments; those beyond `sources` are memory from earlier events.
    pub(super) fragments: Vec<Fragment>,
    /// The set of sources with their whole fragment, one bit each ([`EventId::bit_of`]).
    pub(super) whole: Vec<u64>,
    /// Its cost in memory \[byte\].
    pub(super) cost: u64,
    previous: u32,
    next: u32,
}

/// The beginning of an event, and the time at which it must end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin {
    pub(super) opened: Moment,
    pub(super) opened_by: u64,
    pub(super) arrival: Moment,
    pub(super) deadline: Moment,
}

/// All slots.
#[derive(Clone, Debug)]
pub(super) struct Slab {
    slots: Vec<OpenEvent>,
    free: Vec<u32>,
    /// Number of slots at the bottom of `free` that keep no memory.
    bare: usize,
    /// Memory of all slots, open and free \[byte\].
    memory_bytes: u64,
    memory_bytes_max: u64,
    head: u32,
    tail: u32,
}

impl Serialize for Slab {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // Free slots have nothing but memory.
        let Slab { slots, free, bare: _, memory_bytes: _, memory_bytes_max, head, tail } = self;
        let mut is_free = vec![false; slots.len()];
        free.iter().for_each(|slot| is_free[*slot as usize] = true);
        let open = (0..).zip(slots).zip(is_free).filter(|its| !its.1).map(|its| its.0);
        let open: Vec<(u32, &OpenEvent)> = open.collect();
        (free, memory_bytes_max, head, tail, open).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Slab {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Slab, D::Error> {
        type Saved = (Vec<u32>, u64, u32, u32, Vec<(u32, OpenEvent)>);
        let (free, memory_bytes_max, head, tail, open) = Saved::deserialize(from)?;
        let count = free.len() + open.len();
        let mut is_seen = vec![false; count];
        for slot in free.iter().chain(open.iter().map(|its| &its.0)) {
            let is_new =
                is_seen.get_mut(*slot as usize).is_some_and(|is| !std::mem::replace(is, true));
            if !is_new {
                return Err(D::Error::custom("a slot that is open and free"));
            }
        }
        let mut slots = Vec::new();
        slots.resize_with(count, OpenEvent::empty);
        open.into_iter().for_each(|(slot, event)| slots[slot as usize] = event);
        let (bare, memory_bytes) = (free.len(), slots.iter().map(OpenEvent::memory_bytes).sum());
        Ok(Slab { slots, free, bare, memory_bytes, memory_bytes_max, head, tail })
    }
}

impl Slab {
    /// Returns true when its open events are in one chain, and each is sound: their sources are
    /// below `sources`, and none was opened after packet number `packets`.
    pub(super) fn is_sound(&self, sources: u32, packets: u64) -> bool {
        let (mut at, mut before, mut count) = (self.head, NONE, 0);
        while let Some(event) = self.slots.get(at as usize) {
            let is_next = event.previous == before && event.is_sound(sources, packets);
            // Open events are not free: they have sources.
            if !is_next || count >= self.open_count() {
                return false;
            }
            (before, at, count) = (at, event.next, count + 1);
        }
        at == NONE && self.tail == before && count == self.open_count()
    }

    /// Returns all state in words, except memory that is kept for later.
    #[cfg(test)]
    pub(super) fn in_words(&self) -> String {
        let Slab { slots, free, bare: _, memory_bytes: _, memory_bytes_max, head, tail } = self;
        let open: Vec<_> =
            (0..).zip(slots).filter(|its: &(u32, _)| !free.contains(&its.0)).collect();
        format!("{open:?} {free:?} {memory_bytes_max} {head} {tail}")
    }

    /// Returns the number of slots.
    pub(super) fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns true when `slot` has an event.
    pub(super) fn is_open(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|event| !event.sources.is_empty())
    }

    /// Returns the open events and their slots.
    pub(super) fn open_events(&self) -> impl Iterator<Item = (EventId, u32)> {
        let open = (0..).zip(&self.slots).filter(|its| !its.1.sources.is_empty());
        open.map(|(slot, event)| (event.id, slot))
    }

    /// Returns the cost of all open events \[byte\].
    pub(super) fn cost(&self) -> u64 {
        self.slots.iter().fold(0, |sum, event| event.cost.wrapping_add(sum))
    }

    /// Sets the memory that slots keep together \[byte\].
    pub(super) fn set_memory_max(&mut self, bytes: u64) {
        self.memory_bytes_max = bytes;
    }

    /// Makes slots that keep at most `memory_bytes_max` of memory together, unless open events need
    /// more.
    pub(super) fn new(memory_bytes_max: u64) -> Slab {
        Slab {
            slots: Vec::new(),
            free: Vec::new(),
            bare: 0,
            memory_bytes: 0,
            memory_bytes_max,
            head: NONE,
            tail: NONE,
        }
    }

    /// Returns the number of open events.
    pub(super) fn open_count(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    /// Returns a slot for a new event.
    pub(super) fn take(&mut self, id: EventId, begin: Begin) -> u32 {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.bare = self.bare.min(self.free.len());
                slot
            }
            None => {
                self.slots.push(OpenEvent::empty());
                (self.slots.len() - 1) as u32
            }
        };
        let event = &mut self.slots[slot as usize];
        event.id = id;
        event.opened = begin.opened;
        event.opened_by = begin.opened_by;
        event.deadline = begin.deadline;
        event.first = begin.arrival;
        event.last = begin.arrival;
        self.link(slot);
        slot
    }

    /// Frees the slot of an event.
    pub(super) fn give_back(&mut self, slot: u32) {
        self.unlink(slot);
        self.slots[slot as usize].clear();
        self.free.push(slot);
    }

    /// Adds to the memory of open events \[byte\].
    pub(super) fn grew(&mut self, bytes: u64) {
        self.memory_bytes += bytes;
        if self.memory_bytes > self.memory_bytes_max {
            self.reclaim();
        }
    }

    /// Frees the memory of free slots, the longest unused first; then the unused memory of small
    /// events in slots of large ones. The second is rare: a quarter of all memory must have grown
    /// in between.
    fn reclaim(&mut self) {
        while self.memory_bytes > self.memory_bytes_max && self.bare < self.free.len() {
            let event = &mut self.slots[self.free[self.bare] as usize];
            self.memory_bytes -= event.memory_bytes();
            *event = OpenEvent::empty();
            self.bare += 1;
        }
        if self.memory_bytes <= self.memory_bytes_max {
            return;
        }
        for event in &mut self.slots {
            event.shrink();
        }
        self.memory_bytes = self.slots.iter().map(OpenEvent::memory_bytes).sum();
    }

    /// Returns the slot of the event that was opened first.
    #[inline]
    pub(super) fn oldest(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    /// Returns the number of packets in open events. Cost: one step for each open event.
    pub(super) fn packets(&self) -> u64 {
        let mut slot = self.head;
        let mut packets = 0;
        while let Some(event) = self.slots.get(slot as usize) {
            packets += event.packets.len() as u64;
            slot = event.next;
        }
        packets
    }

    #[inline]
    pub(super) fn event(&self, slot: u32) -> &OpenEvent {
        &self.slots[slot as usize]
    }

    #[inline]
    pub(super) fn event_mut(&mut self, slot: u32) -> &mut OpenEvent {
        &mut self.slots[slot as usize]
    }

    fn link(&mut self, slot: u32) {
        let tail = self.tail;
        let event = &mut self.slots[slot as usize];
        event.previous = tail;
        event.next = NONE;
        match self.slots.get_mut(tail as usize) {
            Some(last) => last.next = slot,
            None => self.head = slot,
        }
        self.tail = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let OpenEvent { previous, next, .. } = self.slots[slot as usize];
        match self.slots.get_mut(previous as usize) {
            Some(event) => event.next = next,
            None => self.head = next,
        }
        match self.slots.get_mut(next as usize) {
            Some(event) => event.previous = previous,
            None => self.tail = previous,
        }
    }
}

impl OpenEvent {
    fn empty() -> OpenEvent {
        OpenEvent {
            id: EventId { scope: SCOPE_ALL, position: Position::default() },
            opened: Moment::default(),
            opened_by: 0,
            deadline: Moment::default(),
            first: Moment::default(),
            last: Moment::default(),
            packets: Vec::new(),
            bytes: Vec::new(),
            sources: Vec::new(),
            fragments: Vec::new(),
            whole: Vec::new(),
            cost: 0,
            previous: NONE,
            next: NONE,
        }
    }

    fn is_sound(&self, sources: u32, packets: u64) -> bool {
        let known = |source: &u32| *source < sources;
        let bytes: u64 = self.packets.iter().map(|row| u64::from(row.bytes)).sum();
        let id = self.id.source().is_none_or(|source| known(&source));
        let has_bytes = bytes == self.bytes.len() as u64;
        let fragments = !self.sources.is_empty() && self.sources.len() <= self.fragments.len();
        let words = (sources as usize).div_ceil(64);
        (id && has_bytes && fragments)
            && (self.opened_by <= packets && self.whole.len() <= words)
            && self.sources.iter().all(known)
            && self.packets.iter().all(|row| known(&row.source))
            && self.fragments.iter().all(|its| its.coverage.has_tables())
    }

    fn clear(&mut self) {
        self.packets.clear();
        self.bytes.clear();
        self.sources.clear();
        self.whole.clear();
        self.cost = 0;
    }

    /// Returns the memory that it keeps \[byte\].
    fn memory_bytes(&self) -> u64 {
        let coverage: usize = self.fragments.iter().map(|its| its.coverage.memory_bytes()).sum();
        self.vectors_bytes() + coverage as u64
    }

    /// Returns the memory that it keeps \[byte\], of its fragments' coverage only that of `place`.
    pub(super) fn memory_with(&self, place: usize) -> u64 {
        let coverage = self.fragments.get(place).map_or(0, |its| its.coverage.memory_bytes());
        self.vectors_bytes() + coverage as u64
    }

    fn vectors_bytes(&self) -> u64 {
        let rows = self.packets.capacity() * size_of::<PacketRow>();
        let fragments = self.fragments.capacity() * size_of::<Fragment>();
        let sources = self.sources.capacity() * size_of::<u32>();
        let whole = self.whole.capacity() * size_of::<u64>();
        (self.bytes.capacity() + rows + fragments + sources + whole) as u64
    }

    /// Frees unused memory.
    fn shrink(&mut self) {
        self.packets.shrink_to_fit();
        self.bytes.shrink_to_fit();
        self.fragments.truncate(self.sources.len());
        self.fragments.shrink_to_fit();
        self.sources.shrink_to_fit();
    }

    /// Returns the place of the fragment of `source`; `hint` is its place in the event before.
    #[inline]
    pub(super) fn fragment_of(&self, source: u32, hint: usize) -> Option<usize> {
        if self.sources.get(hint) == Some(&source) {
            return Some(hint);
        }
        self.sources.iter().position(|&its| its == source)
    }

    /// Begins a fragment of `source`; the caller begins its coverage.
    pub(super) fn add_fragment(&mut self, source: u32) -> usize {
        let place = self.sources.len();
        make_room(&mut self.sources, 1);
        self.sources.push(source);
        match self.fragments.get_mut(place) {
            Some(fragment) => fragment.complete = false,
            None => {
                make_room(&mut self.fragments, 1);
                self.fragments.push(Fragment::default());
            }
        }
        place
    }

    /// Notes that the fragment of `source` is whole.
    #[inline]
    pub(super) fn set_whole(&mut self, source: u32) {
        let bit = self.id.bit_of(source);
        let word = bit as usize / 64;
        if self.whole.len() <= word {
            self.whole.resize(word + 1, 0);
        }
        self.whole[word] |= 1 << (bit % 64);
    }

    /// Returns true when the fragment of `source` is whole.
    #[inline]
    pub(super) fn has_whole(&self, source: u32) -> bool {
        let bit = self.id.bit_of(source);
        self.whole.get(bit as usize / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    /// Returns the part of the fragment of `source` that it has.
    pub(super) fn has(&self, source: u32) -> Has {
        match self.fragment_of(source, 0) {
            Some(_) if self.has_whole(source) => Has::Whole,
            Some(_) => Has::Part,
            None => Has::Nothing,
        }
    }

    /// Returns the number of sources with their whole fragment.
    pub(super) fn whole_count(&self) -> u32 {
        self.whole.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns the fragments with their sources.
    pub(super) fn fragments(&self) -> impl Iterator<Item = (u32, &Fragment)> {
        self.sources.iter().copied().zip(&self.fragments)
    }

    /// Returns the stored packets of `source` with their payloads, in the order of arrival.
    pub(super) fn payloads(&self, source: u32) -> impl Iterator<Item = (&PacketRow, &[u8])> {
        let mut end = 0;
        self.packets
            .iter()
            .map(move |row| {
                let start = end + row.payload_start as usize;
                end += row.bytes as usize;
                let payload = self.bytes.get(start..start + row.payload_bytes as usize);
                (row, payload.unwrap_or_default())
            })
            .filter(move |(row, _)| row.source == source)
    }
}
