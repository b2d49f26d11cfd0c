//! Packets that found no room, until their events close: such an event lacks them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Position;

/// Events of which sources are kept; more are kept as one range, for all sources.
const POSITIONS_MAX: usize = 1 << 16;

/// The sources that had a packet without room, by event.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Refused {
    sources: BTreeMap<Position, BTreeSet<u32>>,
    /// First and last event beyond [`POSITIONS_MAX`].
    beyond: Option<[Position; 2]>,
}

impl Refused {
    /// Notes a packet without room. `horizon` is the highest event that has closed: the places of
    /// lower ones are used again when memory for them ends.
    #[cold]
    pub(super) fn note(&mut self, position: Position, source: u32, horizon: Position) {
        if self.sources.len() >= POSITIONS_MAX && !self.sources.contains_key(&position) {
            self.sources = self.sources.split_off(&horizon);
        }
        if self.sources.len() < POSITIONS_MAX || self.sources.contains_key(&position) {
            self.sources.entry(position).or_default().insert(source);
            return;
        }
        let [first, last] = self.beyond.unwrap_or([position; 2]);
        self.beyond = Some([first.min(position), last.max(position)]);
    }

    /// Returns true when a packet of a source for an event may have found no room.
    #[inline]
    pub(super) fn has(&self, position: Position, source: u32) -> bool {
        if self.is_empty() {
            return false;
        }
        let is_beyond = self.beyond.is_some_and(|[first, last]| {
            (first..=last).contains(&position) && !self.sources.contains_key(&position)
        });
        is_beyond || self.sources.get(&position).is_some_and(|of| of.contains(&source))
    }

    /// Forgets an event that has closed, and all lower ones once it lies behind the range.
    pub(super) fn close(&mut self, position: Position) {
        if self.is_empty() {
            return;
        }
        self.sources.remove(&position);
        self.beyond = self.beyond.filter(|[_, last]| *last >= position);
    }

    fn is_empty(&self) -> bool {
        self.sources.is_empty() && self.beyond.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ordinal: u64) -> Position {
        Position { generation: 0, ordinal }
    }

    #[test]
    fn an_event_beyond_the_limit_counts_as_one_without_the_packet() {
        let (mut refused, many) = (Refused::default(), POSITIONS_MAX as u64);
        (0..many + 10).for_each(|key| refused.note(at(key), 3, at(0)));
        assert_eq!(refused.sources.len(), POSITIONS_MAX);
        assert!((0..many).all(|key| refused.has(at(key), 3) && !refused.has(at(key), 4)));
        assert!((many..many + 10).all(|key| refused.has(at(key), 3) && refused.has(at(key), 4)));
        (0..many + 10).for_each(|key| refused.close(at(key)));
        refused.close(at(many + 10));
        assert!(refused.is_empty());
    }

    #[test]
    fn places_of_closed_events_are_used_again() {
        let (mut refused, many) = (Refused::default(), POSITIONS_MAX as u64);
        (0..many).for_each(|key| refused.note(at(key), 3, at(0)));
        refused.note(at(many), 5, at(many - 2));
        assert!(refused.has(at(many), 5) && !refused.has(at(many), 3));
        assert!(refused.has(at(many - 1), 3) && !refused.has(at(5), 3));
    }
}
