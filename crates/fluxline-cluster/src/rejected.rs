//! The newest rejected events, so that their late fragments are not recorded without them.

use fluxline_daq::event::EventRow;
use serde::{Deserialize, Serialize};

/// Events remembered. The builder remembers as many closed events.
const SLOTS: usize = 65_536;

/// The name of an event in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct EventName {
    key: u64,
    generation: u32,
    source: Option<u32>,
}

impl EventName {
    /// Returns the name; `None` for an event without a key, which has no late fragments.
    fn of(row: &EventRow) -> Option<EventName> {
        Some(EventName { key: row.key?, generation: row.generation, source: row.source })
    }

    /// Returns its slot: neighbouring keys are in neighbouring slots.
    fn slot(self) -> usize {
        let lane = u64::from(self.generation) << 32 | u64::from(self.source.unwrap_or(u32::MAX));
        let spread = lane.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        (self.key.wrapping_add(spread) % SLOTS as u64) as usize
    }
}

/// The newest rejected events: a slot for each key modulo 65,536.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<EventName>", into = "Vec<EventName>")]
pub struct RejectedEvents {
    slots: Vec<Option<EventName>>,
}

impl RejectedEvents {
    /// Remembers a rejected event. Cost: no allocation but the first time.
    pub fn note(&mut self, row: &EventRow) {
        EventName::of(row).into_iter().for_each(|name| self.keep(name));
    }

    fn keep(&mut self, name: EventName) {
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, None);
        }
        self.slots[name.slot()] = Some(name);
    }

    /// Returns true when the late fragment belongs to a rejected event.
    #[must_use]
    pub fn has(&self, late: &EventRow) -> bool {
        let name = EventName::of(late);
        name.is_some_and(|name| self.slots.get(name.slot()) == Some(&Some(name)))
    }
}

impl From<Vec<EventName>> for RejectedEvents {
    fn from(names: Vec<EventName>) -> RejectedEvents {
        let mut rejected = RejectedEvents::default();
        names.into_iter().for_each(|name| rejected.keep(name));
        rejected
    }
}

impl From<RejectedEvents> for Vec<EventName> {
    fn from(rejected: RejectedEvents) -> Vec<EventName> {
        rejected.slots.into_iter().flatten().collect()
    }
}
