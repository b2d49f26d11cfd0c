//! The parts of a fragment that came: packet numbers or byte ranges, not a count.
//!
//! A count takes one duplicate and one loss for a complete fragment; a bitmap of packet numbers or
//! a list of byte ranges does not. Both keep their memory from event to event.

use fluxline_packet::Part;
use serde::{Deserialize, Serialize};

/// The way in which the parts of a fragment are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Shape {
    /// The fragment is one packet.
    #[default]
    Whole,
    /// Any number of packets belongs to it; the first makes it complete.
    Stream,
    /// Packets 0 to `count` − 1.
    Index { count: u32 },
    /// Bytes 0 to `total` − 1.
    Bytes { total: u64 },
}

/// The relation of a new part to those that came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meets {
    /// All of it is new.
    New,
    /// Some or all of it came before and must be compared. `adds`: a part of it is new.
    Overlap { adds: bool },
    /// It contradicts the fragment.
    Contradiction,
}

/// The parts of one fragment that came.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Coverage {
    shape: Shape,
    /// Number of packets or bytes that came.
    have: u64,
    /// `Index`: one bit per packet.
    words: Vec<u64>,
    /// `Bytes`: start and end of the ranges that came; sorted and disjoint.
    ranges: Vec<(u64, u64)>,
}

impl Coverage {
    /// Begins a fragment in which any number of packets may come.
    pub(super) fn begin_stream(&mut self) {
        self.clear(Shape::Stream);
    }

    /// Begins the fragment that `part` belongs to.
    pub(super) fn begin(&mut self, part: Part) {
        self.clear(match part {
            Part::Whole => Shape::Whole,
            Part::Index { count, .. } => Shape::Index { count },
            Part::Bytes { total, .. } => Shape::Bytes { total },
        });
        if let Part::Index { count, .. } = part {
            self.words.resize(count.div_ceil(64) as usize, 0);
        }
    }

    fn clear(&mut self, shape: Shape) {
        self.shape = shape;
        self.have = 0;
        self.words.clear();
        self.ranges.clear();
    }

    /// Returns true when `part`, with this many payload bytes, makes sense by itself.
    pub(super) fn is_sound(part: Part, payload_bytes: u32) -> bool {
        match part {
            Part::Whole => true,
            Part::Index { index, count } => index < count,
            Part::Bytes { offset, total } => {
                offset.checked_add(u64::from(payload_bytes)).is_some_and(|end| end <= total)
            }
        }
    }

    /// Returns the relation of `part`, with this many payload bytes, to those that came before.
    pub(super) fn meet(&self, part: Part, payload_bytes: u32) -> Meets {
        match (self.shape, part) {
            (Shape::Stream, _) => Meets::New,
            (Shape::Whole, Part::Whole) if self.have == 0 => Meets::New,
            (Shape::Whole, Part::Whole) => Meets::Overlap { adds: false },
            (Shape::Index { count }, Part::Index { index, count: its }) if its == count => {
                match self.words[(index / 64) as usize] >> (index % 64) & 1 {
                    0 => Meets::New,
                    _ => Meets::Overlap { adds: false },
                }
            }
            (Shape::Bytes { total }, Part::Bytes { offset, total: its }) if its == total => {
                self.meet_bytes(offset, offset + u64::from(payload_bytes))
            }
            _ => Meets::Contradiction,
        }
    }

    fn meet_bytes(&self, start: u64, end: u64) -> Meets {
        if start == end {
            // It covers nothing. Only the stored packets show whether it came before.
            return Meets::Overlap { adds: true };
        }
        let next = self.ranges.partition_point(|range| range.1 <= start);
        match self.ranges.get(next) {
            Some(range) if range.0 < end => {
                Meets::Overlap { adds: !(range.0 <= start && end <= range.1) }
            }
            _ => Meets::New,
        }
    }

    /// Adds `part`, which is not a contradiction.
    pub(super) fn add(&mut self, part: Part, payload_bytes: u32) {
        match (self.shape, part) {
            (Shape::Index { .. }, Part::Index { index, .. }) => {
                let word = &mut self.words[(index / 64) as usize];
                let bit = 1 << (index % 64);
                self.have += u64::from(*word & bit == 0);
                *word |= bit;
            }
            (Shape::Bytes { .. }, Part::Bytes { offset, .. }) => {
                self.add_bytes(offset, offset + u64::from(payload_bytes));
            }
            _ => self.have += 1,
        }
    }

    fn add_bytes(&mut self, mut start: u64, mut end: u64) {
        if start == end {
            return;
        }
        let from = self.ranges.partition_point(|range| range.1 < start);
        let to = self.ranges.partition_point(|range| range.0 <= end);
        if from < to {
            start = start.min(self.ranges[from].0);
            end = end.max(self.ranges[to - 1].1);
            let before: u64 = self.ranges[from..to].iter().map(|range| range.1 - range.0).sum();
            self.have -= before;
            self.ranges[from] = (start, end);
            self.ranges.drain(from + 1..to);
        } else {
            self.ranges.insert(from, (start, end));
        }
        self.have += end - start;
    }

    /// Returns true when everything came.
    pub(super) fn is_complete(&self) -> bool {
        match self.shape {
            Shape::Whole | Shape::Stream => self.have > 0,
            Shape::Index { count } => self.have == u64::from(count),
            Shape::Bytes { total } => self.have == total,
        }
    }

    /// Calls `report` with first and last of every missing range, in order, until it returns
    /// `false`.
    pub(super) fn missing(&self, mut report: impl FnMut(u64, u64) -> bool) {
        match self.shape {
            Shape::Whole | Shape::Stream => {}
            Shape::Index { count } => {
                let came = |index: u32| self.words[(index / 64) as usize] >> (index % 64) & 1 == 1;
                let mut index = 0;
                while index < count {
                    let first = index;
                    while index < count && !came(index) {
                        index += 1;
                    }
                    if index > first && !report(u64::from(first), u64::from(index - 1)) {
                        return;
                    }
                    index += 1;
                }
            }
            Shape::Bytes { total } => {
                let mut at = 0;
                for &(start, end) in self.ranges.iter().chain([&(total, total)]) {
                    if start > at && !report(at, start - 1) {
                        return;
                    }
                    at = end;
                }
            }
        }
    }

    /// Returns true when its tables fit its shape.
    pub(super) fn has_tables(&self) -> bool {
        match self.shape {
            Shape::Whole | Shape::Stream => true,
            Shape::Index { count } => self.words.len() == count.div_ceil(64) as usize,
            Shape::Bytes { total } => {
                let is_ordered = self.ranges.is_sorted_by(|before, next| before.1 < next.0);
                let has_bytes = |range: &(u64, u64)| range.0 < range.1 && range.1 <= total;
                is_ordered
                    && self.ranges.iter().all(has_bytes)
                    && self.ranges.iter().map(|range| range.1 - range.0).sum::<u64>() == self.have
            }
        }
    }

    /// Returns the memory of its tables \[byte\].
    pub(super) fn memory_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>() + self.ranges.capacity() * size_of::<(u64, u64)>()
    }

    /// Returns the name of its parts, and their number in a complete fragment.
    pub(super) fn parts(&self) -> (&'static str, u64) {
        match self.shape {
            Shape::Whole | Shape::Stream => ("packets", 1),
            Shape::Index { count } => ("packets", u64::from(count)),
            Shape::Bytes { total } => ("bytes", total),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default()
        })]
        #[test]
        fn byte_ranges_agree_with_a_list_of_flags(
            parts in prop::collection::vec((0_u64..120, 0_u32..30), 0..40),
        ) {
            let total = 150;
            let mut flags = vec![false; total as usize];
            let mut coverage = Coverage::default();
            coverage.begin(Part::Bytes { offset: 0, total });
            for (offset, bytes) in parts {
                let part = Part::Bytes { offset, total };
                let range = offset as usize..(offset + u64::from(bytes)) as usize;
                let came = flags[range.clone()].iter().filter(|&&flag| flag).count();
                let wanted = match came {
                    _ if bytes == 0 => Meets::Overlap { adds: true },
                    0 => Meets::New,
                    came => Meets::Overlap { adds: came < bytes as usize },
                };
                prop_assert_eq!(coverage.meet(part, bytes), wanted);
                coverage.add(part, bytes);
                flags[range].fill(true);
                prop_assert_eq!(coverage.is_complete(), flags.iter().all(|&flag| flag));
                let mut missing = vec![false; total as usize];
                coverage.missing(|first, last| {
                    missing[first as usize..=last as usize].fill(true);
                    true
                });
                prop_assert!(missing.iter().zip(&flags).all(|(missing, flag)| missing != flag));
            }
        }
    }

    #[test]
    fn offset_plus_length_is_checked() {
        let part = |offset| Part::Bytes { offset, total: 100 };
        assert!(Coverage::is_sound(part(90), 10));
        assert!(!Coverage::is_sound(part(91), 10));
        assert!(!Coverage::is_sound(part(u64::MAX - 5), 10));
        assert!(!Coverage::is_sound(Part::Index { index: 3, count: 3 }, 0));
    }
}
