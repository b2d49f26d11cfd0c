//! Missing packet numbers: a bounded, sorted list of ranges.
//!
//! Reordering opens a gap and soon fills it, so the work is at the end of the list. Missing numbers
//! that a full list cannot name are still counted.

/// Missing packets in positions of the current numbering.
#[derive(Clone, Debug, Default)]
pub(super) struct MissingPositions {
    /// The ranges, both ends included; sorted, disjoint.
    ranges: Vec<(u64, u64)>,
    /// Missing packets that no range names.
    not_listed: u64,
}

impl MissingPositions {
    /// Notes that `first..=last` are missing; they lie behind or before all known ranges.
    /// At most `limit` ranges are kept.
    pub(super) fn insert(&mut self, first: u64, last: u64, limit: usize) {
        if self.ranges.len() >= limit {
            self.not_listed += last - first + 1;
        } else if self.ranges.last().is_none_or(|range| range.1 < first) {
            self.ranges.push((first, last));
        } else {
            let place = self.ranges.partition_point(|range| range.0 < first);
            self.ranges.insert(place, (first, last));
        }
    }

    /// Notes that `position`, missing until now, came.
    pub(super) fn fill(&mut self, position: u64, limit: usize) {
        let place = self.ranges.partition_point(|range| range.1 < position);
        match self.ranges.get(place).copied() {
            Some((first, last)) if first <= position => {
                if first == last {
                    self.ranges.remove(place);
                } else if position == first {
                    self.ranges[place].0 += 1;
                } else if position == last {
                    self.ranges[place].1 -= 1;
                } else if self.ranges.len() >= limit {
                    self.ranges[place].1 = position - 1;
                    self.not_listed += last - position;
                } else {
                    self.ranges[place].1 = position - 1;
                    self.ranges.insert(place + 1, (position + 1, last));
                }
            }
            _ => self.not_listed = self.not_listed.saturating_sub(1),
        }
    }

    /// Returns the ranges, in order.
    pub(super) fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }

    /// Returns the number of missing packets that no range names.
    pub(super) fn not_listed(&self) -> u64 {
        self.not_listed
    }

    /// Removes all ranges and counts.
    pub(super) fn clear(&mut self) {
        self.ranges.clear();
        self.not_listed = 0;
    }
}
