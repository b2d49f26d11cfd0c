//! All keys that are open or remembered, so that a packet finds its event and begins no second one.
//!
//! The newest closed events are remembered one by one. Positions below those are below the floor,
//! and packets there are late as well. The floor is the smallest of the last few forgotten
//! positions, so that a single wrong key does not raise it above all later ones.

use fluxline_core::Moment;
use hashbrown::HashMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::closed::{ClosedEvent, ClosedEvents};
use super::config::BuilderConfig;
use super::event_id::{EventId, SCOPE_ALL};
use super::near::NearBuilder;
use super::position::Position;

/// The state of an event's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyState {
    /// Its event is open, in this slot.
    Open(u32),
    /// Its event was closed; the number is that of [`ClosedEvents`].
    Closed(u32),
    /// Its event was closed, if there was one, and is not remembered.
    Forgotten,
}

/// Open events for which memory is reserved at the start.
const OPEN_USUAL: usize = 4096;
/// Number of forgotten positions of which the floor is the smallest.
const FORGOTTEN: usize = 8;

/// The positions of one scope that are not remembered.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Floor {
    below: Option<Position>,
    forgotten: [Position; FORGOTTEN],
    count: usize,
}

impl Floor {
    fn forget(&mut self, position: Position) {
        self.forgotten[self.count % FORGOTTEN] = position;
        self.count += 1;
        if self.count >= FORGOTTEN {
            self.below = self.below.max(self.forgotten.iter().copied().min());
        }
    }
}

/// All keys that are open or remembered.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    map: HashMap<EventId, KeyState, NearBuilder>,
    closed: ClosedEvents,
    floors: Vec<Floor>,
    shared_floor: Floor,
}

/// Returns the number of closed keys to remember.
pub(super) fn closed_keys_max(config: &BuilderConfig, is_keyed: bool) -> usize {
    if is_keyed { config.closed_keys_max as usize } else { 1 }
}

impl Serialize for Keys {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // The table follows from the closed and the open events.
        let Keys { map: _, closed, floors, shared_floor } = self;
        (closed, floors, shared_floor).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Keys, D::Error> {
        let (closed, floors, shared_floor) = Deserialize::deserialize(from)?;
        Ok(Keys { map: HashMap::default(), closed, floors, shared_floor })
    }
}

impl Keys {
    /// Returns true when it remembers `closed_max` keys of these sources.
    pub(super) fn is_sound(&self, closed_max: usize, sources: u32) -> bool {
        self.floors.len() <= sources as usize && self.closed.is_sound(closed_max, sources)
    }

    /// Fills the table after the other parts were read; false if a key is there twice.
    pub(super) fn relink(&mut self, open: impl Iterator<Item = (EventId, u32)>) -> bool {
        let room = self.closed.events_max().saturating_add(OPEN_USUAL);
        self.map = HashMap::with_capacity_and_hasher(room, NearBuilder::default());
        let closed = self.closed.numbered().map(|(id, number)| (id, KeyState::Closed(number)));
        let open = open.map(|(id, slot)| (id, KeyState::Open(slot)));
        closed.chain(open).all(|(id, state)| self.map.insert(id, state).is_none())
    }

    /// Returns all state in words, in an order that depends on nothing but the state.
    #[cfg(test)]
    pub(super) fn in_words(&self) -> String {
        let Keys { map, closed, floors, shared_floor } = self;
        let mut rows: Vec<String> = map.iter().map(|row| format!("{row:?}")).collect();
        rows.sort();
        format!("{rows:?} {closed:?} {floors:?} {shared_floor:?}")
    }

    /// Makes a memory of `closed_max` closed keys.
    pub(super) fn new(closed_max: usize) -> Keys {
        Keys {
            map: HashMap::with_capacity_and_hasher(
                closed_max.saturating_add(OPEN_USUAL),
                NearBuilder::default(),
            ),
            closed: ClosedEvents::new(closed_max),
            floors: Vec::new(),
            shared_floor: Floor::default(),
        }
    }

    /// Returns the state of `id`; `None`: it is unknown and may be opened.
    #[inline]
    pub(super) fn look_up(&self, id: EventId) -> Option<KeyState> {
        if let Some(known) = self.map.get(&id) {
            return Some(*known);
        }
        let floor = match id.source() {
            Some(source) => self.floors.get(source as usize)?,
            None => &self.shared_floor,
        };
        let below = floor.below.is_some_and(|below| id.position < below);
        below.then_some(KeyState::Forgotten)
    }

    /// Opens `id`, which is unknown, in `slot`.
    pub(super) fn open(&mut self, id: EventId, slot: u32) {
        self.map.insert(id, KeyState::Open(slot));
    }

    /// Returns the memory of closed events.
    pub(super) fn closed(&self) -> &ClosedEvents {
        &self.closed
    }

    /// Returns the memory of closed events.
    pub(super) fn closed_mut(&mut self) -> &mut ClosedEvents {
        &mut self.closed
    }

    /// Closes `id`; `whole` is the set of sources with their whole fragment in it.
    pub(super) fn close(&mut self, id: EventId, whole: &[u64], closed: Moment) {
        let number = self.closed.push(ClosedEvent { id, closed }, whole);
        self.map.insert(id, KeyState::Closed(number));
        while let Some(ClosedEvent { id: oldest, .. }) = self.closed.pop() {
            self.map.remove(&oldest);
            self.floor(oldest.scope).forget(oldest.position);
        }
    }

    fn floor(&mut self, scope: u32) -> &mut Floor {
        if scope == SCOPE_ALL {
            return &mut self.shared_floor;
        }
        let place = scope as usize;
        if self.floors.len() <= place {
            self.floors.resize_with(place + 1, Floor::default);
        }
        &mut self.floors[place]
    }
}
