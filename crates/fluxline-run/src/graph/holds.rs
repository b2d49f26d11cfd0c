//! The batches of a simulated world that wait until they are certain to stay.
//!
//! In a world, one recorder has the files of all builders. Events that a builder had not saved when
//! it died are made again by its successor, so they must not be in the files before. On real links,
//! each builder has files of its own, and `gather` leaves out what was not saved.

use std::collections::VecDeque;

use fluxline_core::planted;

use super::from_node::Built;

/// The batches of all builders that every readout does not know as saved.
pub(crate) struct Holds {
    builders: Vec<Held>,
}

struct Held {
    items: VecDeque<Item>,
    /// For each readout: number of the last state that it has.
    known: Vec<u64>,
    was_replaced: bool,
}

enum Item {
    Built(Built),
    /// The batches before are in the state with this number.
    Mark(u64),
}

impl Holds {
    pub fn new(builders: usize, readouts: usize) -> Holds {
        let held =
            || Held { items: VecDeque::new(), known: vec![0; readouts], was_replaced: false };
        Holds { builders: (0..builders).map(|_| held()).collect() }
    }

    /// Holds a batch of a builder; one of a builder that was replaced is void.
    pub fn put(&mut self, builder: usize, built: Built) {
        let held = &mut self.builders[builder];
        if !held.was_replaced {
            held.items.push_back(Item::Built(built));
        }
    }

    pub fn mark(&mut self, builder: usize, number: u64) {
        self.builders[builder].items.push_back(Item::Mark(number));
    }

    /// Notes that a readout has a state; returns the batches that are now certain to stay.
    pub fn know(&mut self, builder: usize, readout: usize, number: u64) -> Vec<Built> {
        let held = &mut self.builders[builder];
        held.known[readout] = number;
        let number = held.known.iter().copied().min().unwrap_or(0);
        held.release(number)
    }

    /// Notes that a builder was replaced from a state on; returns its batches in that state.
    pub fn replace(&mut self, builder: usize, number: u64) -> Vec<Built> {
        let held = &mut self.builders[builder];
        held.was_replaced = true;
        let released = held.release(if planted!(33) { u64::MAX } else { number });
        held.items.clear();
        released
    }

    /// Returns all batches that are left: nobody replaces their builders any more.
    pub fn end(&mut self) -> Vec<Built> {
        self.builders.iter_mut().flat_map(|held| held.release(u64::MAX)).collect()
    }
}

impl Held {
    /// Returns the batches in the state with this number; the last number stands for all.
    fn release(&mut self, number: u64) -> Vec<Built> {
        let is_in = |item: &Item| matches!(item, Item::Mark(mark) if *mark <= number);
        let count = match number {
            u64::MAX => self.items.len(),
            _ => self.items.iter().rposition(is_in).map_or(0, |place| place + 1),
        };
        let items = self.items.drain(..count);
        let built = items.filter_map(|item| match item {
            Item::Built(built) => Some(built),
            Item::Mark(_) => None,
        });
        built.collect()
    }
}
