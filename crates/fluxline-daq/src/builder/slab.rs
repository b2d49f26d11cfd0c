//! Open events: slots that are used again with the memory of their vectors, and the order in which
//! their time runs out.
//!
//! Two lists run through the slots: events that wait for something required, and events that
//! only wait for optional sources. Each list is in the order of its deadlines, so that the next
//! time-out is at its head, and an event that completes leaves it at once.

use fluxline_proto::Moment;

use super::coverage::Coverage;
use super::keys::{EventId, SCOPE_ALL};
use crate::event::PacketRow;

/// No slot.
const NONE: u32 = u32::MAX;

/// What one source sent for one event.
#[derive(Clone, Debug, Default)]
pub(super) struct Fragment {
    pub(super) coverage: Coverage,
    pub(super) complete: bool,
}

/// One open event.
#[derive(Clone, Debug)]
pub(super) struct OpenEvent {
    pub(super) id: EventId,
    pub(super) first: Moment,
    pub(super) last: Moment,
    pub(super) deadline: Moment,
    pub(super) packets: Vec<PacketRow>,
    pub(super) bytes: Vec<u8>,
    /// The sources that have a fragment; `fragments` has one at the same place.
    pub(super) sources: Vec<u32>,
    /// Fragments; those beyond `sources` are memory from earlier events.
    pub(super) fragments: Vec<Fragment>,
    pub(super) complete_fragments: u32,
    /// Required fragments that are not complete.
    pub(super) required_left: u32,
    /// What it was charged for \[byte\].
    pub(super) cost: u64,
    list: Waiting,
    previous: u32,
    next: u32,
}

/// What an event waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// Something required.
    Required,
    /// Optional sources only.
    Optional,
}

/// Ends of a list.
#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
}

/// All slots.
#[derive(Clone, Debug)]
pub(super) struct Slab {
    slots: Vec<OpenEvent>,
    free: Vec<u32>,
    /// Memory of the free slots \[byte\].
    free_bytes: u64,
    free_bytes_max: u64,
    required: Ends,
    optional: Ends,
}

impl Slab {
    /// Free slots keep at most `free_bytes_max` of memory.
    pub(super) fn new(free_bytes_max: u64) -> Slab {
        let empty = Ends { head: NONE, tail: NONE };
        Slab {
            slots: Vec::new(),
            free: Vec::new(),
            free_bytes: 0,
            free_bytes_max,
            required: empty,
            optional: empty,
        }
    }

    /// How many events are open.
    pub(super) fn open_count(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    /// A slot for a new event, at the end of the list for what is required.
    pub(super) fn take(&mut self, id: EventId, first: Moment, deadline: Moment) -> u32 {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.free_bytes -= self.slots[slot as usize].memory_bytes();
                slot
            }
            None => {
                self.slots.push(OpenEvent::empty());
                (self.slots.len() - 1) as u32
            }
        };
        let event = &mut self.slots[slot as usize];
        event.id = id;
        event.first = first;
        event.last = first;
        event.deadline = deadline;
        self.link(slot, Waiting::Required);
        slot
    }

    /// The event in `slot` is over.
    pub(super) fn give_back(&mut self, slot: u32) {
        self.unlink(slot);
        let free_bytes = self.free_bytes;
        let event = &mut self.slots[slot as usize];
        event.clear();
        if free_bytes + event.memory_bytes() > self.free_bytes_max {
            *event = OpenEvent::empty();
        }
        self.free_bytes += event.memory_bytes();
        self.free.push(slot);
    }

    /// The event in `slot` has all that is required and waits for the rest until `deadline`, or
    /// until its own, if that is earlier (then it may close as late as the event before it).
    pub(super) fn wait_for_optional(&mut self, slot: u32, deadline: Moment) {
        self.unlink(slot);
        let event = &mut self.slots[slot as usize];
        event.deadline = deadline.min(event.deadline);
        self.link(slot, Waiting::Optional);
    }

    /// The first event of a list, and its deadline.
    pub(super) fn head(&self, list: Waiting) -> Option<(u32, Moment)> {
        let head = self.ends(list).head;
        self.slots.get(head as usize).map(|event| (head, event.deadline))
    }

    /// Writes the slots of all open events of `list` into `out`, oldest first.
    pub(super) fn slots(&self, list: Waiting, out: &mut Vec<u32>) {
        let mut slot = self.ends(list).head;
        while let Some(event) = self.slots.get(slot as usize) {
            out.push(slot);
            slot = event.next;
        }
    }

    pub(super) fn event(&self, slot: u32) -> &OpenEvent {
        &self.slots[slot as usize]
    }

    pub(super) fn event_mut(&mut self, slot: u32) -> &mut OpenEvent {
        &mut self.slots[slot as usize]
    }

    fn ends(&self, list: Waiting) -> Ends {
        match list {
            Waiting::Required => self.required,
            Waiting::Optional => self.optional,
        }
    }

    fn ends_mut(&mut self, list: Waiting) -> &mut Ends {
        match list {
            Waiting::Required => &mut self.required,
            Waiting::Optional => &mut self.optional,
        }
    }

    fn link(&mut self, slot: u32, list: Waiting) {
        let tail = self.ends(list).tail;
        let event = &mut self.slots[slot as usize];
        event.list = list;
        event.previous = tail;
        event.next = NONE;
        match self.slots.get_mut(tail as usize) {
            Some(last) => last.next = slot,
            None => self.ends_mut(list).head = slot,
        }
        self.ends_mut(list).tail = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let OpenEvent { list, previous, next, .. } = self.slots[slot as usize];
        match self.slots.get_mut(previous as usize) {
            Some(event) => event.next = next,
            None => self.ends_mut(list).head = next,
        }
        match self.slots.get_mut(next as usize) {
            Some(event) => event.previous = previous,
            None => self.ends_mut(list).tail = previous,
        }
    }
}

impl OpenEvent {
    fn empty() -> OpenEvent {
        OpenEvent {
            id: EventId { scope: SCOPE_ALL, epoch: 0, key: 0 },
            first: Moment::default(),
            last: Moment::default(),
            deadline: Moment::default(),
            packets: Vec::new(),
            bytes: Vec::new(),
            sources: Vec::new(),
            fragments: Vec::new(),
            complete_fragments: 0,
            required_left: 0,
            cost: 0,
            list: Waiting::Required,
            previous: NONE,
            next: NONE,
        }
    }

    fn clear(&mut self) {
        self.packets.clear();
        self.bytes.clear();
        self.sources.clear();
        self.complete_fragments = 0;
        self.required_left = 0;
        self.cost = 0;
    }

    /// About how much memory it keeps while free \[byte\].
    fn memory_bytes(&self) -> u64 {
        let rows = self.packets.capacity() * size_of::<PacketRow>();
        let fragments = self.fragments.capacity() * size_of::<Fragment>();
        let coverage: usize = self.fragments.iter().map(|its| its.coverage.memory_bytes()).sum();
        let sources = self.sources.capacity() * size_of::<u32>();
        (self.bytes.capacity() + rows + fragments + coverage + sources) as u64
    }

    /// Whether everything required came, and the rest is waited for.
    pub(super) fn waits_for_optional(&self) -> bool {
        self.list == Waiting::Optional
    }

    /// The place of the fragment of `source`; `hint` is where it was in the event before.
    pub(super) fn fragment_of(&self, source: u32, hint: usize) -> Option<usize> {
        if self.sources.get(hint) == Some(&source) {
            return Some(hint);
        }
        self.sources.iter().position(|&its| its == source)
    }

    /// Begins a fragment of `source`; its coverage is yet to be begun.
    pub(super) fn add_fragment(&mut self, source: u32) -> usize {
        let place = self.sources.len();
        self.sources.push(source);
        match self.fragments.get_mut(place) {
            Some(fragment) => fragment.complete = false,
            None => self.fragments.push(Fragment::default()),
        }
        place
    }

    /// Fragments with their sources.
    pub(super) fn fragments(&self) -> impl Iterator<Item = (u32, &Fragment)> {
        self.sources.iter().copied().zip(&self.fragments)
    }

    /// The stored packets of `source` with their payloads, in the order of arrival.
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
