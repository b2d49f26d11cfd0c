//! Finds the nodes of a run that are alive, by the blocks that they publish.
//!
//! Only the observer's own clock counts, so clocks that differ by hours do no harm.

use std::collections::BTreeMap;

use fluxline_core::{Moment, Span};

/// Time without a block after which a node counts as dead.
pub const SILENCE_MAX: Span = Span::from_ms(3000);
/// Time without a block after which events go on without a readout node. It is longer, so that
/// every node has time to reach brokers that were away.
pub const LEFT_OUT_AFTER: Span = Span::from_ms(10_000);

/// A process that should publish blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The process.
    pub incarnation: u64,
    /// It has finished and may be silent.
    pub ended: bool,
}

/// The newest block of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sign {
    /// The process.
    pub incarnation: u64,
    /// Number of the block.
    pub sequence: u64,
    /// The process has ended.
    pub is_final: bool,
}

/// A process that died or came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The process.
    pub incarnation: u64,
    /// It died; otherwise it came back.
    pub is_dead: bool,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    /// The newest block; `None`: none yet.
    sequence: Option<u64>,
    since: Moment,
    is_dead: bool,
    is_final: bool,
    /// Time without a block at the last look.
    silence: Span,
}

/// Watches the processes of a run.
#[derive(Clone, Debug, Default)]
pub struct Liveness {
    watched: BTreeMap<u64, Watched>,
}

impl Liveness {
    /// Takes the newest blocks at `now`, by the observer's monotonic clock. Returns the processes
    /// that died or came back since the last call; each change is returned once.
    pub fn observe(&mut self, expected: &[Expected], signs: &[Sign], now: Moment) -> Vec<Change> {
        self.watched.retain(|of, _| expected.iter().any(|its| its.incarnation == *of));
        let mut changes = Vec::new();
        for Expected { incarnation, ended } in expected.iter().copied() {
            let sign = signs.iter().find(|sign| sign.incarnation == incarnation);
            let new = Watched {
                sequence: None,
                since: now,
                is_dead: false,
                is_final: false,
                silence: Span::ZERO,
            };
            let its = self.watched.entry(incarnation).or_insert(new);
            let sequence = sign.map(|sign| sign.sequence);
            its.is_final = ended || sign.is_some_and(|sign| sign.is_final);
            if sequence > its.sequence {
                (its.sequence, its.since) = (sequence, now);
            }
            its.silence = if its.is_final { Span::ZERO } else { now.since(its.since) };
            let is_dead = !its.is_final && now.since(its.since) >= SILENCE_MAX;
            let was_dead = std::mem::replace(&mut its.is_dead, is_dead);
            // A dead node that an operator has ended does not come back.
            if is_dead != was_dead && !its.is_final {
                changes.push(Change { incarnation, is_dead });
            }
        }
        changes
    }

    /// Forgets the silence so far: the observer could not see anything until `now`.
    pub fn was_blind(&mut self, now: Moment) {
        for its in self.watched.values_mut() {
            its.silence = Span::ZERO;
            if !its.is_dead {
                its.since = now;
            }
        }
    }

    /// Returns the processes that had been silent for `span` at the last look.
    pub fn silent(&self, span: Span) -> impl Iterator<Item = u64> + '_ {
        let is_it = move |its: &Watched| !its.is_final && its.silence >= span;
        self.watched.iter().filter(move |of| is_it(of.1)).map(|of| *of.0)
    }

    /// Returns true when a process is dead.
    #[must_use]
    pub fn is_dead(&self, incarnation: u64) -> bool {
        self.watched.get(&incarnation).is_some_and(|its| its.is_dead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(ended: bool) -> [Expected; 1] {
        [Expected { incarnation: 7, ended }]
    }

    fn sign(sequence: u64, is_final: bool) -> [Sign; 1] {
        [Sign { incarnation: 7, sequence, is_final }]
    }

    fn at(ms: u64) -> Moment {
        Moment::from_ns(ms * 1_000_000)
    }

    #[test]
    fn a_silent_node_is_dead_once_and_comes_back_once() {
        let mut liveness = Liveness::default();
        assert_eq!(liveness.observe(&expected(false), &sign(5, false), at(0)), []);
        assert_eq!(liveness.observe(&expected(false), &sign(5, false), at(2999)), []);
        let died = [Change { incarnation: 7, is_dead: true }];
        assert_eq!(liveness.observe(&expected(false), &sign(5, false), at(3000)), died);
        assert_eq!(liveness.observe(&expected(false), &sign(5, false), at(9000)), []);
        let back = [Change { incarnation: 7, is_dead: false }];
        assert_eq!(liveness.observe(&expected(false), &sign(6, false), at(9100)), back);
    }

    #[test]
    fn a_node_that_never_spoke_is_dead_and_one_that_ended_is_not() {
        let mut liveness = Liveness::default();
        liveness.observe(&expected(false), &[], at(0));
        assert_eq!(liveness.observe(&expected(false), &[], at(3000)).len(), 1);
        let mut liveness = Liveness::default();
        liveness.observe(&expected(false), &sign(1, true), at(0));
        assert_eq!(liveness.observe(&expected(false), &sign(1, true), at(9000)), []);
        let mut liveness = Liveness::default();
        liveness.observe(&expected(true), &[], at(0));
        assert_eq!(liveness.observe(&expected(true), &[], at(9000)), []);
    }

    #[test]
    fn a_dead_node_that_is_ended_does_not_come_back() {
        let mut liveness = Liveness::default();
        liveness.observe(&expected(false), &[], at(0));
        assert_eq!(liveness.observe(&expected(false), &[], at(3000)).len(), 1);
        assert_eq!(liveness.observe(&expected(true), &[], at(3100)), []);
    }

    #[test]
    fn an_observer_that_was_blind_declares_nobody_dead() {
        let mut liveness = Liveness::default();
        liveness.observe(&expected(false), &sign(1, false), at(0));
        liveness.was_blind(at(60_000));
        assert_eq!(liveness.observe(&expected(false), &sign(1, false), at(60_100)), []);
    }
}
