//! Packet counters that count samples, records or bytes: each packet says by how many the counter
//! grows until the next one.
//!
//! Such a counter is translated to numbers of packets, which the sequence tracker follows. The
//! successor of a packet is known exactly. A gap holds as many packets as the one before it would
//! need to fill it, so that losses are exact where packets are equal, and an estimate where they
//! differ.

use std::collections::VecDeque;

/// Packets that are remembered, to recognise copies and to fill gaps.
const REMEMBERED: usize = 1024;

/// A packet as its counter shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// The counter.
    pub value: u64,
    /// Its growth until the next packet.
    pub step: u64,
}

/// A packet with its number.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    units: Units,
    number: u64,
}

/// Translates the counter of one source.
#[derive(Clone, Debug)]
pub struct UnitCounter {
    /// The counter begins anew after this difference to its smallest number.
    last: u64,
    /// The packets that came, by their number, the newest last.
    known: VecDeque<Numbered>,
    /// The packet that the tracker keeps aside.
    held: Option<Numbered>,
}

impl UnitCounter {
    /// Makes the translation of a counter that begins anew after `last`.
    #[must_use]
    pub fn new(last: u64) -> UnitCounter {
        UnitCounter { last, known: VecDeque::new(), held: None }
    }

    /// Returns the number of a packet; numbers wrap at 64 bits.
    #[must_use]
    pub fn number_of(&self, units: Units) -> u64 {
        let Some(newest) = self.known.back() else { return 0 };
        if newest.units.step == 0 && newest.units.value == units.value {
            return newest.number.wrapping_add(1);
        }
        if let Some(held) = &self.held {
            // A packet kept aside may begin a new numbering, which then goes on from it.
            let (to_held, to_newest) =
                (self.distance(held, units.value), self.distance(newest, units.value));
            if to_held < to_newest {
                return self.after(held, units.value);
            }
        }
        match self.is_ahead(newest.units.value, units.value) {
            true => self.after(newest, units.value),
            false => self.behind(units.value),
        }
    }

    /// Notes a packet that the tracker took under its number.
    pub fn took(&mut self, units: Units, number: u64) {
        self.held = None;
        let numbered = Numbered { units, number };
        let place = self.known.iter().rposition(|known| is_before(known.number, number));
        let place = place.map_or(0, |place| place + 1);
        match self.known.get(place) {
            Some(known) if known.number == number => {}
            _ => self.known.insert(place, numbered),
        }
        if self.known.len() > REMEMBERED {
            self.known.pop_front();
        }
    }

    /// Notes a packet that the tracker keeps aside.
    pub fn holds(&mut self, units: Units, number: u64) {
        self.held = Some(Numbered { units, number });
    }

    /// Notes that the packet kept aside began a new numbering.
    pub fn began_anew(&mut self) {
        let Some(held) = self.held.take() else { return };
        self.known.clear();
        self.known.push_back(held);
    }

    /// The growth from one number to another, modulo the counter's range.
    fn growth(&self, from: u64, to: u64) -> u64 {
        let forward = to.wrapping_sub(from);
        if to < from { forward.wrapping_add(self.last).wrapping_add(1) } else { forward }
    }

    fn is_ahead(&self, from: u64, to: u64) -> bool {
        let growth = self.growth(from, to);
        growth > 0 && growth <= self.last / 2
    }

    fn distance(&self, from: &Numbered, to: u64) -> u64 {
        self.growth(from.units.value, to).min(self.growth(to, from.units.value))
    }

    /// The number of a packet after a known one: packets of its size fill the gap.
    fn after(&self, known: &Numbered, value: u64) -> u64 {
        let Units { value: start, step } = known.units;
        if value == start && step > 0 {
            return known.number;
        }
        let gap = match self.is_ahead(start, value) {
            true => self.growth(start, value).saturating_sub(step),
            // It lies before: as many packets back.
            false if value != start => {
                let back = self.growth(value, start).div_ceil(step.max(1));
                return known.number.wrapping_sub(back);
            }
            false => 0,
        };
        known.number.wrapping_add(1).wrapping_add(gap.div_ceil(step.max(1)))
    }

    /// The number of a packet before the newest one.
    fn behind(&self, value: u64) -> u64 {
        let before = self.known.iter().rev().enumerate().find(|(_, known)| {
            known.units.value == value || self.is_ahead(known.units.value, value)
        });
        let Some((place, known)) = before else {
            return self.known.front().map_or(0, |oldest| self.after(oldest, value));
        };
        if known.units.value == value {
            return known.number;
        }
        let number = self.after(known, value);
        // It lies before the next one that came.
        let next = place.checked_sub(1).and_then(|place| self.known.iter().rev().nth(place));
        match next {
            Some(next) if !is_before(number, next.number) => {
                let last_free = next.number.wrapping_sub(1);
                if is_before(known.number, last_free) { last_free } else { known.number }
            }
            _ => number,
        }
    }
}

fn is_before(one: u64, other: u64) -> bool {
    (other.wrapping_sub(one) as i64) > 0
}

#[cfg(test)]
mod tests {
    use super::{UnitCounter, Units};

    /// Translates packets that are all taken.
    fn numbers(last: u64, packets: &[(u64, u64)]) -> Vec<u64> {
        let mut counter = UnitCounter::new(last);
        let mut number = |&(value, step): &(u64, u64)| {
            let units = Units { value, step };
            let number = counter.number_of(units);
            counter.took(units, number);
            number
        };
        packets.iter().map(&mut number).collect()
    }

    #[test]
    fn packets_of_any_size_follow_each_other_and_wrap() {
        assert_eq!(numbers(999, &[(0, 100), (100, 7), (107, 1), (108, 300)]), [0, 1, 2, 3]);
        assert_eq!(numbers(999, &[(900, 90), (990, 30), (20, 10), (30, 5)]), [0, 1, 2, 3]);
        assert_eq!(numbers(u64::MAX, &[(u64::MAX - 4, 10), (5, 10)]), [0, 1]);
        assert_eq!(numbers(u64::MAX, &[(7, 0), (7, 0), (7, 3)]), [0, 1, 2]);
    }

    #[test]
    fn a_gap_holds_packets_of_the_size_before_it() {
        assert_eq!(numbers(9999, &[(0, 100), (400, 100), (500, 100)]), [0, 4, 5]);
        assert_eq!(numbers(9999, &[(0, 100), (250, 100)]), [0, 3], "two of them, one shorter");
    }

    #[test]
    fn copies_have_the_number_of_their_original_and_late_packets_fill_gaps() {
        let packets = [(0, 10), (10, 10), (40, 10), (20, 10), (10, 10), (30, 10), (50, 10)];
        assert_eq!(numbers(9999, &packets), [0, 1, 4, 2, 1, 3, 5]);
        // Swapped packets of different sizes still lie in their gap.
        assert_eq!(numbers(9999, &[(0, 10), (25, 10), (10, 15)])[2], 1);
    }

    #[test]
    fn a_packet_from_before_the_first_has_a_number_before_it() {
        assert_eq!(numbers(9999, &[(500, 10), (490, 10)]), [0, u64::MAX]);
    }
}
