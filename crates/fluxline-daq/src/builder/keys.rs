//! All keys that are open or remembered, so that a packet finds its event and begins no second one.
//!
//! The newest closed events are remembered one by one. Positions below those are below the floor,
//! and packets there are late as well. The floor is the smallest of the last few forgotten
//! positions, so that a single wrong key does not raise it above all later ones.

use fluxline_core::Moment;
use hashbrown::HashMap;

use super::closed::{ClosedEvent, ClosedEvents};
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
#[derive(Clone, Debug, Default)]
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

impl Keys {
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
