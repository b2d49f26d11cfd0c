//! The stamp in each datagram, and the count of missing, duplicate and late stamps.
//!
//! Only gaps are kept, not every number: a trial without loss costs one comparison a datagram.

use serde::{Deserialize, Serialize};

/// A stamp's length \[byte\]; no datagram of these experiments is shorter.
pub const STAMP_BYTES: usize = 16;
/// The largest number of gaps kept per sender. A datagram of an older gap counts as late, and so
/// does a duplicate of one.
const GAPS_MAX: usize = 4096;

/// The first bytes of a datagram: 32, 32 and 64 bits, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The number of the trial.
    pub trial: u32,
    /// The sender of the trial, from 0.
    pub sender: u32,
    /// Its number in the trial, from 0.
    pub number: u64,
}

impl Stamp {
    /// Returns its bytes.
    #[must_use]
    pub fn emit(self) -> [u8; STAMP_BYTES] {
        let low = u64::from(self.trial) | u64::from(self.sender) << 32;
        (u128::from(low) | u128::from(self.number) << 64).to_le_bytes()
    }

    /// The stamp of a datagram; `None`: it is too short to have one.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Stamp> {
        let word = u128::from_le_bytes(*bytes.first_chunk()?);
        let trial = word as u32;
        let (sender, number) = ((word >> 32) as u32, (word >> 64) as u64);
        Some(Stamp { trial, sender, number })
    }
}

/// The datagrams that arrived in a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Datagrams of the trial, each once \[datagram\].
    pub unique: u64,
    /// Their payload \[byte\].
    pub bytes: u64,
    /// Repeated datagrams \[datagram\].
    pub duplicates: u64,
    /// Datagrams that came after a later one; `unique` includes them \[datagram\]. Source: RFC
    /// 4737.
    pub reordered: u64,
    /// Datagrams of another trial, another sender or another size, or without a stamp.
    pub foreign: u64,
}

/// One sender's numbers.
#[derive(Clone, Debug, Default)]
struct Numbers {
    next: u64,
    /// Missing ranges, first to end, ascending and apart.
    gaps: Vec<(u64, u64)>,
    /// Gaps before this number are forgotten.
    forgotten: u64,
}

enum Came {
    InOrder,
    Late,
    Again,
}

impl Numbers {
    fn take(&mut self, number: u64) -> Came {
        if number >= self.next {
            if number > self.next {
                self.note_gap(self.next, number);
            }
            self.next = number.saturating_add(1);
            return Came::InOrder;
        }
        if number < self.forgotten {
            return Came::Late;
        }
        let at = self.gaps.partition_point(|&(_, end)| end <= number);
        let Some(&(first, end)) = self.gaps.get(at).filter(|gap| gap.0 <= number) else {
            return Came::Again;
        };
        let parts = [(first, number), (number + 1, end)];
        self.gaps.splice(at..=at, parts.into_iter().filter(|(first, end)| first < end));
        Came::Late
    }

    fn note_gap(&mut self, first: u64, end: u64) {
        if self.gaps.len() >= GAPS_MAX {
            let half: Vec<_> = self.gaps.drain(..GAPS_MAX / 2).collect();
            self.forgotten = half.last().map_or(self.forgotten, |&(_, end)| end);
        }
        self.gaps.push((first, end));
    }
}

/// Follows the stamps of one trial.
#[derive(Clone, Debug)]
pub struct Arrivals {
    trial: u32,
    datagram_bytes: usize,
    senders: Vec<Numbers>,
    tally: Tally,
}

/// The largest number of senders in a trial.
pub const SENDERS_MAX: u32 = 64;

impl Arrivals {
    /// Waits for datagrams of this trial, size and number of senders.
    #[must_use]
    pub fn new(trial: u32, datagram_bytes: usize, senders: u32) -> Arrivals {
        let senders = vec![Numbers::default(); senders.min(SENDERS_MAX) as usize];
        Arrivals { trial, datagram_bytes, senders, tally: Tally::default() }
    }

    /// Takes a datagram.
    pub fn take(&mut self, datagram: &[u8]) {
        let stamp = Stamp::parse(datagram).filter(|stamp| stamp.trial == self.trial);
        let own = stamp.filter(|_| datagram.len() == self.datagram_bytes);
        let numbers = own
            .and_then(|stamp| Some((stamp.number, self.senders.get_mut(stamp.sender as usize)?)));
        let Some((number, numbers)) = numbers else {
            self.tally.foreign += 1;
            return;
        };
        match numbers.take(number) {
            Came::Again => {
                self.tally.duplicates += 1;
                return;
            }
            Came::Late => self.tally.reordered += 1,
            Came::InOrder => {}
        }
        self.tally.unique += 1;
        self.tally.bytes += datagram.len() as u64;
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fluxline_core::random::Draw;

    use super::*;

    fn datagram(trial: u32, sender: u32, number: u64) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..STAMP_BYTES].copy_from_slice(&Stamp { trial, sender, number }.emit());
        bytes
    }

    #[test]
    fn a_stamp_survives_and_a_short_datagram_has_none() {
        let stamp = Stamp { trial: 0xdead_beef, sender: 0x1234_5678, number: u64::MAX - 1 };
        assert_eq!(Stamp::parse(&stamp.emit()), Some(stamp));
        assert_eq!(Stamp::parse(&stamp.emit()[..15]), None);
    }

    #[test]
    fn what_is_not_of_the_trial_counts_apart() {
        let mut arrivals = Arrivals::new(7, 20, 2);
        arrivals.take(&datagram(7, 0, 0));
        arrivals.take(&datagram(7, 1, 0));
        for foreign in [datagram(6, 0, 1), datagram(7, 2, 1)] {
            arrivals.take(&foreign);
        }
        arrivals.take(&datagram(7, 0, 1)[..19]);
        arrivals.take(b"");
        let tally = arrivals.tally();
        assert_eq!((tally.unique, tally.bytes, tally.foreign), (2, 40, 4));
        assert_eq!((tally.duplicates, tally.reordered), (0, 0));
    }

    #[test]
    fn duplicates_and_late_datagrams_are_found_as_by_a_set_of_all_numbers() {
        for seed in 0..200 {
            let mut draw = Draw::new(seed);
            let mut arrivals = Arrivals::new(1, 20, 1);
            let (mut seen, mut expected) = (BTreeSet::new(), Tally::default());
            let mut next = 0;
            for _ in 0..400 {
                let number = match draw.below(10) {
                    0 => draw.below(next + 3),
                    1 => next + draw.below(20),
                    _ => next,
                };
                let is_late = seen.last().is_some_and(|&last| number < last);
                if seen.insert(number) {
                    expected.unique += 1;
                    expected.bytes += 20;
                    expected.reordered += u64::from(is_late);
                } else {
                    expected.duplicates += 1;
                }
                next = next.max(number + 1);
                arrivals.take(&datagram(1, 0, number));
            }
            assert_eq!(arrivals.tally(), expected, "seed {seed}");
        }
    }

    #[test]
    fn gaps_are_bounded_and_what_fills_a_forgotten_one_is_late() {
        let mut arrivals = Arrivals::new(1, 20, 1);
        let last = 3 * GAPS_MAX as u64;
        for number in 0..last {
            arrivals.take(&datagram(1, 0, 2 * number + 1));
            assert!(arrivals.senders[0].gaps.len() <= GAPS_MAX);
        }
        for number in 0..last {
            arrivals.take(&datagram(1, 0, 2 * number));
        }
        let tally = arrivals.tally();
        assert_eq!((tally.unique, tally.reordered, tally.duplicates), (2 * last, last, 0));
        arrivals.take(&datagram(1, 0, u64::MAX));
        assert_eq!(arrivals.tally().unique, 2 * last + 1);
    }
}
