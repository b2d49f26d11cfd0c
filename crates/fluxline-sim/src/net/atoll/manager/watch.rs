//! The watch over inputs whose first packet does not move.

use super::super::Cargo;
use super::super::chip::Front;
use super::super::deadlock::{Held, Standing};
use super::envelope::Envelope;
use super::record::Counts;
use crate::net::atoll::Network;
use crate::{Duration, Instant};

/// A first packet, and the time since which it is known.
#[derive(Clone, Copy, Debug)]
struct Seen {
    front: Front,
    since: Instant,
    /// True if it caused an alarm.
    is_reported: bool,
}

/// The watch over the inputs of one chip.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    seen: [Option<Seen>; 8],
}

/// The deadlocks of the whole network, by the exact wait-for graph.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exact {
    /// The time at which the present deadlock was first seen.
    since: Option<Instant>,
    is_detected: bool,
}

impl Exact {
    /// Looks for a deadlock.
    pub fn look<C: Cargo>(
        &mut self,
        network: &Network<Envelope<C>>,
        now: Instant,
        counts: &mut Counts,
    ) {
        match (network.deadlock(), self.since) {
            (Some(_), None) => {
                (self.since, self.is_detected) = (Some(now), false);
                counts.deadlocks += 1;
            }
            (None, Some(_)) => self.since = None,
            _ => {}
        }
    }

    /// Notes an alarm within a circle.
    fn alarm(&mut self, now: Instant, counts: &mut Counts) {
        let since = self.since.unwrap_or(now);
        if self.since.is_none() {
            // It began after the last look.
            self.since = Some(now);
            (self.is_detected, counts.deadlocks) = (false, counts.deadlocks + 1);
        }
        if !std::mem::replace(&mut self.is_detected, true) {
            counts.detected += 1;
            counts.detection = counts.detection + now.since(since);
            counts.detection_max = counts.detection_max.max(now.since(since));
        }
    }
}

impl Watch {
    /// Looks at the inputs of a node; returns those that have been blocked for `patience`. Each
    /// packet is returned at every look, and counted once.
    pub fn look<C: Cargo>(
        &mut self,
        node: u32,
        network: &Network<Envelope<C>>,
        patience: Duration,
        now: Instant,
    ) -> Vec<Alarm> {
        let mut alarms = Vec::new();
        for (input, seen) in (0..).zip(&mut self.seen) {
            let held = Held { node, input };
            let front = network.front(held);
            let Some(front) = front else {
                *seen = None;
                continue;
            };
            let known = seen.get_or_insert(Seen { front, since: now, is_reported: false });
            if known.front != front {
                *known = Seen { front, since: now, is_reported: false };
            }
            if now.since(known.since) >= patience {
                let is_new = !std::mem::replace(&mut known.is_reported, true);
                alarms.push(Alarm { held, is_new });
            }
        }
        alarms
    }
}

/// A blocked input.
#[derive(Clone, Copy, Debug)]
pub struct Alarm {
    /// The input.
    pub held: Held,
    /// True if its packet was not reported before.
    pub is_new: bool,
}

impl Alarm {
    /// Compares the alarm with the exact wait-for graph, and counts it.
    pub fn count<C: Cargo>(
        &self,
        network: &Network<Envelope<C>>,
        exact: &mut Exact,
        now: Instant,
        counts: &mut Counts,
    ) {
        if !self.is_new {
            return;
        }
        match network.standing(self.held) {
            Standing::InCircle => {
                counts.alarms_true += 1;
                exact.alarm(now, counts);
            }
            Standing::BehindCircle => counts.alarms_behind += 1,
            Standing::WillMove => counts.alarms_false += 1,
        }
    }
}
