//! The trait of models, and the loop that runs them.

use crate::core::ahead::{Ahead, Nearness};
use crate::{Agenda, Fingerprint, Instant};

/// Something on the agenda. Called *entry*, because an *event* is what a detector measures.
pub trait Entry {
    /// Returns the component that the entry belongs to: the number of a node, link or host.
    fn component(&self) -> u32;
    /// Returns the kind of the entry, which is part of the fingerprint.
    fn kind(&self) -> u8;
}

/// A simulated state that handles entries.
///
/// A part of a larger model takes `&mut Agenda<A>` with `A: From<its entry>` in its own functions,
/// so that parts are combined without run-time cost.
pub trait Model {
    /// The entry that it handles.
    type Entry: Entry;

    /// Handles an entry that is due now ([`Agenda::now`]) and schedules further entries.
    fn handle(&mut self, entry: Self::Entry, agenda: &mut Agenda<Self::Entry>);

    /// Reads the memory that `entry` will need soon. This pays where a model is larger than the
    /// near caches. It must not change any result.
    #[inline]
    fn touch(&self, entry: &Self::Entry, nearness: Nearness) {
        let _ = (entry, nearness);
    }
}

/// Handles all entries that are due by `until`; returns their number.
pub fn run<M: Model>(
    model: &mut M,
    agenda: &mut Agenda<M::Entry>,
    fingerprint: &mut Fingerprint,
    until: Instant,
) -> u64 {
    let mut count = 0;
    let mut ahead = Ahead::default();
    loop {
        ahead.step(agenda, |entry, nearness| model.touch(entry, nearness));
        let Some(entry) = agenda.take(until) else { return count };
        fingerprint.add(agenda.now(), entry.component(), entry.kind());
        model.handle(entry, agenda);
        count += 1;
    }
}
