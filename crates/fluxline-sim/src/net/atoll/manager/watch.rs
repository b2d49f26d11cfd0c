//! The watch over inputs whose first packet does not move.

use super::super::Cargo;
use super::super::chip::Front;
use super::super::deadlock::Held;
use super::envelope::Envelope;
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
