//! The driver of a node: it keeps each message until the receiver has acknowledged it, and repeats
//! it when it may be lost. The receiver drops what it already has.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::super::Cargo;
use super::super::routes::Path;
use super::letter::Letter;
use crate::{Duration, Instant};

/// The place of a message at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It waits for its turn, or for a route.
    Queued,
    /// The network has it.
    Network,
    /// It has left, and may have arrived. It is repeated from this time on.
    Left(Instant),
}

/// A message of a program that is not acknowledged.
#[derive(Clone, Debug)]
pub struct Flight<C> {
    /// The message.
    pub cargo: C,
    /// Its number among those of this node for this target.
    pub sequence: u32,
    /// The place.
    pub place: Place,
    /// The path of the last departure.
    pub path: Path,
    /// The number of departures.
    pub tries: u32,
    /// The time since which it is queued.
    pub since: Instant,
}

/// An item that waits at a host port.
#[derive(Clone, Debug)]
pub enum Item {
    /// A message, by its number.
    Message(u64),
    /// The acknowledgements for a node.
    Acknowledge(u32),
}

/// The messages that a node has received from one other node.
#[derive(Clone, Debug, Default)]
struct Received {
    /// All sequence numbers below are over.
    below: u32,
    above: BTreeSet<u32>,
}

/// The most letters that wait at a port. A choice.
pub const LETTERS_MAX: usize = 4096;

/// The most sequence numbers between the oldest message for a target and the newest. A choice.
const SPAN_MAX: u32 = 1024;

/// The driver of a node.
#[derive(Clone, Debug)]
pub struct Driver<C> {
    /// Messages by number.
    pub flights: BTreeMap<u64, Flight<C>>,
    /// By host port.
    pub items: [VecDeque<Item>; 4],
    /// Letters, by the link port that they leave by.
    pub letters: [VecDeque<Letter>; 4],
    /// Messages of each host port that are not over.
    pub open: [u32; 4],
    /// Departures that have not left the network.
    pub under_way: u32,
    /// True if a message was rejected because too many were open.
    pub has_refused: bool,
    next: BTreeMap<u32, u32>,
    received: BTreeMap<u32, Received>,
    /// Numbers of messages to acknowledge, by source.
    owed: BTreeMap<u32, Vec<u64>>,
}

impl<C> Default for Driver<C> {
    fn default() -> Driver<C> {
        Driver {
            flights: BTreeMap::new(),
            items: Default::default(),
            letters: Default::default(),
            open: [0; 4],
            under_way: 0,
            has_refused: false,
            next: BTreeMap::new(),
            received: BTreeMap::new(),
            owed: BTreeMap::new(),
        }
    }
}

impl<C> Driver<C> {
    /// Returns the next sequence number for a target.
    pub fn next_sequence(&mut self, target: u32) -> u32 {
        let next = self.next.entry(target).or_insert(0);
        *next += 1;
        *next
    }

    /// Returns the lowest sequence number for a target that is not over.
    #[must_use]
    pub fn base(&self, target: u32) -> u32
    where
        C: Cargo,
    {
        let same = self.flights.values().filter(|flight| flight.cargo.target() == target);
        let next = self.next.get(&target).copied().unwrap_or(0) + 1;
        same.map(|flight| flight.sequence).min().unwrap_or(next)
    }

    /// Returns true if the oldest message for a target must end before a new one begins: the
    /// receiver remembers all that came behind it.
    #[must_use]
    pub fn is_stretched(&self, target: u32) -> bool
    where
        C: Cargo,
    {
        self.next.get(&target).is_some_and(|next| next - self.base(target).min(*next) >= SPAN_MAX)
    }

    /// Notes a message that has arrived. Returns true if it came for the first time. All messages
    /// with sequence numbers below `base` are over.
    pub fn receive(&mut self, source: u32, sequence: u32, base: u32) -> bool {
        let of = self.received.entry(source).or_default();
        if base > of.below {
            of.below = base;
            of.above = of.above.split_off(&base);
        }
        let is_new = sequence >= of.below && of.above.insert(sequence);
        while of.above.remove(&of.below) {
            of.below += 1;
        }
        is_new
    }

    /// Notes an acknowledgement that is due. Returns true if it is the first for its source.
    pub fn owe(&mut self, source: u32, number: u64) -> bool {
        let owed = self.owed.entry(source).or_default();
        owed.push(number);
        owed.len() == 1
    }

    /// Takes the acknowledgements for a source: at most `most`. The rest stays.
    pub fn take_owed(&mut self, source: u32, most: usize) -> Vec<u64> {
        let Some(owed) = self.owed.get_mut(&source) else { return Vec::new() };
        let rest = owed.split_off(owed.len().min(most));
        let taken = std::mem::replace(owed, rest);
        if owed.is_empty() {
            self.owed.remove(&source);
        }
        taken
    }

    /// Returns true if acknowledgements for a source are due.
    #[must_use]
    pub fn owes(&self, source: u32) -> bool {
        self.owed.contains_key(&source)
    }

    /// Queues a message, ahead of others if it is repeated.
    pub fn queue(&mut self, message: u64, port: u8, now: Instant) {
        let Some(flight) = self.flights.get_mut(&message) else { return };
        (flight.place, flight.since) = (Place::Queued, now);
        self.items[usize::from(port)].push_back(Item::Message(message));
    }

    /// Returns the wait for an acknowledgement after this many departures.
    #[must_use]
    pub fn wait(repeat_after: Duration, tries: u32) -> Duration {
        repeat_after.times(1 << tries.saturating_sub(1).min(5))
    }
}

#[cfg(test)]
mod tests {
    use super::Driver;
    use fluxline_core::random::{Draw, test_seed};

    #[test]
    fn each_sequence_number_is_new_once_and_memory_stays_small() {
        let mut draw = Draw::new(test_seed!(1));
        let mut driver: Driver<()> = Driver::default();
        let (mut sent, mut open) = (0, Vec::new());
        let mut new = std::collections::BTreeMap::new();
        for _ in 0..20_000 {
            let lowest = open.iter().min().copied().unwrap_or(sent + 1);
            if open.len() < 20 && sent < lowest + 40 {
                sent += 1;
                open.push(sent);
            }
            let index = draw.below(open.len() as u64) as usize;
            let base = *open.iter().min().expect("some");
            *new.entry(open[index]).or_insert(0) += u32::from(driver.receive(7, open[index], base));
            if draw.chance(0.5) {
                open.swap_remove(index);
            } else if draw.chance(0.05) {
                // The sender gives one up.
                open.remove(0);
            }
        }
        assert!(new.values().all(|&times| times == 1), "new again, or never");
        assert!(driver.received[&7].above.len() <= 42);
        assert!(!driver.receive(7, 3, 0), "an old base changes nothing");
    }
}
