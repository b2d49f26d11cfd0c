//! Memory of closed events: the sources that have their whole fragment in each.
//!
//! It distinguishes a packet that came after its event was closed, which is recorded as late, from
//! a packet that came twice, which is a duplicate. The newest closed events are kept in a ring of
//! fixed size: one bit per source and event.

use std::collections::VecDeque;

use fluxline_core::Moment;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::event_id::EventId;
use super::position::Position;

/// The most memory of the sets of sources \[byte\]: with more than 1024 sources, fewer closed
/// events are remembered.
const SETS_BYTES_MAX: usize = 8 << 20;

/// One closed event.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClosedEvent {
    pub(super) id: EventId,
    /// The time at which it was closed.
    pub(super) closed: Moment,
}

/// The closed events that are remembered, oldest first; each has a number that never changes.
#[derive(Clone, Debug)]
pub(super) struct ClosedEvents {
    events: VecDeque<ClosedEvent>,
    /// The sets: `words` words for each event, one bit per source.
    sets: VecDeque<u64>,
    words: usize,
    /// Number of the oldest event; numbers wrap.
    first: u32,
    events_max: usize,
}

/// The difference of a closed event from the one before, which is short.
#[derive(Serialize, Deserialize)]
struct Step {
    scope: i32,
    generation: i32,
    ordinal: i64,
    closed_ns: i64,
}

impl Step {
    fn from(before: ClosedEvent, next: ClosedEvent) -> Step {
        let ClosedEvent { id: EventId { scope, position }, closed } = next;
        let Position { generation, ordinal } = position;
        Step {
            scope: scope.wrapping_sub(before.id.scope) as i32,
            generation: generation.wrapping_sub(before.id.position.generation) as i32,
            ordinal: ordinal.wrapping_sub(before.id.position.ordinal) as i64,
            closed_ns: closed.as_ns().wrapping_sub(before.closed.as_ns()) as i64,
        }
    }

    fn behind(self, before: ClosedEvent) -> ClosedEvent {
        let Position { generation, ordinal } = before.id.position;
        let position = Position {
            generation: generation.wrapping_add(self.generation as u32),
            ordinal: ordinal.wrapping_add(self.ordinal as u64),
        };
        let scope = before.id.scope.wrapping_add(self.scope as u32);
        let closed_ns = before.closed.as_ns().wrapping_add(self.closed_ns as u64);
        ClosedEvent { id: EventId { scope, position }, closed: Moment::from_ns(closed_ns) }
    }
}

const BEFORE_ALL: ClosedEvent = ClosedEvent {
    id: EventId { scope: 0, position: Position { generation: 0, ordinal: 0 } },
    closed: Moment::from_ns(0),
};

impl Serialize for ClosedEvents {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let ClosedEvents { events, sets, words, first, events_max } = self;
        let before = std::iter::once(&BEFORE_ALL).chain(events);
        let steps: Vec<Step> = before.zip(events).map(|its| Step::from(*its.0, *its.1)).collect();
        // Neighbours have nearly the same sources.
        let none = std::iter::repeat_n(&0, *words);
        let sets: Vec<u64> = none.chain(sets).zip(sets).map(|its| its.0 ^ its.1).collect();
        (words, first, events_max, steps, sets).serialize(to)
    }
}

impl<'de> Deserialize<'de> for ClosedEvents {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<ClosedEvents, D::Error> {
        type Saved = (usize, u32, usize, Vec<Step>, VecDeque<u64>);
        let (words, first, events_max, steps, mut sets) = Saved::deserialize(from)?;
        for at in words..sets.len() {
            sets[at] ^= sets[at - words];
        }
        let steps = steps.into_iter().scan(BEFORE_ALL, |before, step| {
            *before = step.behind(*before);
            Some(*before)
        });
        Ok(ClosedEvents { events: steps.collect(), sets, words, first, events_max })
    }
}

impl ClosedEvents {
    /// Returns true when it remembers `events_max` events of these sources.
    pub(super) fn is_sound(&self, events_max: usize, sources: u32) -> bool {
        let has_sets = self.events.len().checked_mul(self.words) == Some(self.sets.len());
        let ids = self.events.iter().map(|its| its.id);
        let known = |id: EventId| id.source().is_none_or(|source| source < sources);
        self.words.is_power_of_two()
            && self.words <= (sources as usize).div_ceil(64).next_power_of_two().max(1)
            && self.events_max == events_max.max(1)
            && self.events.len() <= self.events_max
            && has_sets
            && ids.into_iter().all(known)
    }

    /// Returns the number of events to remember.
    pub(super) fn events_max(&self) -> usize {
        self.events_max
    }

    /// Returns the events with their numbers.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (EventId, u32)> {
        let numbers = (0..self.events.len()).map(|at| self.first.wrapping_add(at as u32));
        self.events.iter().map(|its| its.id).zip(numbers)
    }

    /// Makes a memory of at most `events_max` events.
    pub(super) fn new(events_max: usize) -> ClosedEvents {
        let events_max = events_max.max(1);
        ClosedEvents {
            events: VecDeque::with_capacity(events_max + 1),
            sets: VecDeque::with_capacity(events_max + 1),
            words: 1,
            first: 0,
            events_max,
        }
    }

    /// Remembers an event with the set of sources that have their whole fragment in it; returns
    /// its number.
    pub(super) fn push(&mut self, event: ClosedEvent, whole: &[u64]) -> u32 {
        let used = whole.len() - whole.iter().rev().take_while(|&&word| word == 0).count();
        self.widen(used);
        self.events.push_back(event);
        self.sets.extend((0..self.words).map(|word| whole.get(word).copied().unwrap_or(0)));
        self.first.wrapping_add(self.events.len() as u32 - 1)
    }

    /// Forgets the oldest event when there are too many.
    pub(super) fn pop(&mut self) -> Option<ClosedEvent> {
        let fit = SETS_BYTES_MAX / (self.words * size_of::<u64>());
        if self.events.len() <= self.events_max.min(fit) {
            return None;
        }
        self.first = self.first.wrapping_add(1);
        self.sets.drain(..self.words);
        self.events.pop_front()
    }

    /// Returns the time at which event `number` was closed, if it is still remembered.
    pub(super) fn when(&self, number: u32) -> Option<Moment> {
        Some(self.events.get(self.index(number)?)?.closed)
    }

    /// Returns true when `source` has its whole fragment in event `number`.
    pub(super) fn has(&self, number: u32, source: u32) -> bool {
        let (word, bit) = (source as usize / 64, source % 64);
        let Some(index) = self.index(number).filter(|_| word < self.words) else { return false };
        self.sets.get(index * self.words + word).is_some_and(|set| set >> bit & 1 == 1)
    }

    /// Notes that `source` has its whole fragment in event `number`, if it is still remembered.
    pub(super) fn add(&mut self, number: u32, source: u32) {
        let (word, bit) = (source as usize / 64, source % 64);
        self.widen(word + 1);
        let Some(index) = self.index(number) else { return };
        self.sets[index * self.words + word] |= 1 << bit;
    }

    fn index(&self, number: u32) -> Option<usize> {
        let index = number.wrapping_sub(self.first) as usize;
        (index < self.events.len()).then_some(index)
    }

    /// Makes room for sources in `words` words per event.
    fn widen(&mut self, words: usize) {
        if words <= self.words {
            return;
        }
        let words = words.next_power_of_two();
        let mut sets = VecDeque::with_capacity((self.events.len() + 1) * words);
        for event in 0..self.events.len() {
            let old = self.sets.range(event * self.words..(event + 1) * self.words);
            sets.extend(old.copied().chain(std::iter::repeat_n(0, words - self.words)));
        }
        (self.sets, self.words) = (sets, words);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;
    use crate::builder::position::Position;

    fn event(key: u64) -> ClosedEvent {
        let position = Position { generation: 0, ordinal: key };
        ClosedEvent { id: EventId { scope: 0, position }, closed: Moment::default() }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default()
        })]
        #[test]
        fn sets_agree_with_a_map_of_sets(
            steps in prop::collection::vec((0_u64..40, 0_u32..300, any::<bool>()), 0..200),
        ) {
            let mut closed = ClosedEvents::new(16);
            let mut model: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
            let mut next = 0;
            for (back, source, opens) in steps {
                if opens || next == 0 {
                    let mut whole = vec![0; source as usize / 64 + 1];
                    whole[source as usize / 64] |= 1 << (source % 64);
                    prop_assert_eq!(closed.push(event(next), &whole), next as u32);
                    model.insert(next, BTreeSet::from([source]));
                    next += 1;
                    while let Some(oldest) = closed.pop() {
                        let expected = model.pop_first().map(|its| its.0);
                        prop_assert_eq!(Some(oldest.id.position.ordinal), expected);
                    }
                }
                let number = next.saturating_sub(back + 1);
                closed.add(number as u32, source);
                if let Some(set) = model.get_mut(&number) {
                    set.insert(source);
                }
                for (&number, set) in &model {
                    prop_assert!(closed.when(number as u32).is_some());
                    for source in (0..300).step_by(7) {
                        prop_assert_eq!(closed.has(number as u32, source), set.contains(&source));
                    }
                }
                prop_assert_eq!(model.len(), closed.events.len());
            }
        }
    }
}
