//! The amendments of a run, by event: the sources that sent nothing for it, and those of
//! which packets are lost there.

use std::collections::BTreeMap;

use crate::builder::{Amendment, EventKey};
use crate::event::EventRow;

/// A generation, and the key as a distance from half the range below the first key of all: keys may
/// wrap.
type At = (u32, u64);

/// Ranges in order, without their ends; no two overlap.
#[derive(Clone, Debug, Default)]
struct Ranges(Vec<(At, At)>);

impl Ranges {
    fn of(mut all: Vec<(At, At)>) -> Ranges {
        all.sort_unstable();
        let mut ranges: Vec<(At, At)> = Vec::with_capacity(all.len());
        for (after, before) in all {
            match ranges.last_mut() {
                Some(last) if after < last.1 => last.1 = last.1.max(before),
                _ => ranges.push((after, before)),
            }
        }
        Ranges(ranges)
    }

    fn cover(&self, at: At) -> bool {
        let next = self.0.partition_point(|range| range.0 < at);
        next.checked_sub(1).is_some_and(|its| at < self.0[its].1)
    }
}

/// The ranges of one source.
#[derive(Clone, Debug, Default)]
struct OfSource {
    lost: Ranges,
    nothing: Ranges,
}

/// The amendments of a run, by source.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    anchor: u64,
    any: Ranges,
    sources: BTreeMap<u32, OfSource>,
}

impl Evidence {
    /// Sorts amendments.
    pub(super) fn of(amendments: &[Amendment]) -> Evidence {
        let anchor = amendments.first().map_or(0, |first| first.after.key.wrapping_sub(1 << 63));
        let at = |its: EventKey| (its.generation, its.key.wrapping_sub(anchor));
        let mut by_source: BTreeMap<u32, [Vec<(At, At)>; 2]> = BTreeMap::new();
        let mut any = Vec::new();
        for its in amendments {
            let range = (at(its.after), at(its.before));
            by_source.entry(its.source).or_default()[usize::from(its.lost)].push(range);
            any.push(range);
        }
        let sources = by_source.into_iter().map(|(source, [nothing, lost])| {
            (source, OfSource { lost: Ranges::of(lost), nothing: Ranges::of(nothing) })
        });
        Evidence { anchor, any: Ranges::of(any), sources: sources.collect() }
    }

    /// Returns true when anything is said about an event.
    pub(super) fn touches(&self, row: &EventRow) -> bool {
        self.place_of(row).is_some_and(|at| self.any.cover(at))
    }

    /// Returns the sources about which something is said; true where packets are lost.
    pub(super) fn about(&self, row: &EventRow) -> impl Iterator<Item = (u32, bool)> {
        let at = self.place_of(row).filter(|at| self.any.cover(*at));
        self.sources.iter().filter_map(move |(source, its)| {
            let at = at?;
            let lost = its.lost.cover(at);
            (lost || its.nothing.cover(at)).then_some((*source, lost))
        })
    }

    /// Returns the place of an event that sources share.
    fn place_of(&self, row: &EventRow) -> Option<At> {
        let key = row.key.filter(|_| row.source.is_none())?;
        Some((row.generation, key.wrapping_sub(self.anchor)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amendment(source: u32, after: u64, before: u64, lost: bool) -> Amendment {
        let key = |key| EventKey { generation: 0, key };
        Amendment { source, after: key(after), before: key(before), lost }
    }

    fn about(list: &[Amendment], key: u64) -> Vec<(u32, bool)> {
        let row = EventRow { key: Some(key), ..EventRow::default() };
        let evidence = Evidence::of(list);
        let about: Vec<_> = evidence.about(&row).collect();
        assert_eq!(evidence.touches(&row), !about.is_empty());
        about
    }

    #[test]
    fn ranges_hold_without_their_ends_and_a_loss_counts_before_a_proof() {
        let list = [
            amendment(1, 10, 20, false),
            amendment(1, 20, 22, true),
            amendment(2, u64::MAX - 1, 15, false),
            amendment(1, 12, 14, true),
        ];
        for (key, said) in [
            (10, vec![(2, false)]),
            (11, vec![(1, false), (2, false)]),
            (13, vec![(1, true), (2, false)]),
            (16, vec![(1, false)]),
            (20, vec![]),
            (21, vec![(1, true)]),
            (22, vec![]),
            (u64::MAX, vec![(2, false)]),
            (u64::MAX - 1, vec![]),
        ] {
            assert_eq!(about(&list, key), said, "{key}");
        }
    }
}
