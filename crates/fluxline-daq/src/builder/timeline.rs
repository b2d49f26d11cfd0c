//! The time at which each key of a generation was first seen: a few samples, thinned out during the
//! run.
//!
//! A source that appears, returns or counts anew has a key, but no generation. It belongs where the
//! others sent this key nearest in time.

use fluxline_core::{Moment, Span};
use serde::{Deserialize, Serialize};

use super::position::RawKey;

/// Most samples; when they are used up, every other one is dropped.
const SAMPLES: usize = 32;
/// The first distance between samples.
const SPACING: Span = Span::from_ms(10);

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Sample {
    time: Moment,
    ordinal: u64,
}

/// The times at which the keys of a generation were first seen.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Timeline {
    samples: Vec<Sample>,
    spacing: Span,
    newest: Sample,
}

impl Timeline {
    /// Begins a timeline with a key.
    pub(super) fn new(time: Moment, ordinal: u64) -> Timeline {
        let newest = Sample { time, ordinal };
        let mut samples = Vec::with_capacity(SAMPLES);
        samples.push(newest);
        Timeline { samples, spacing: SPACING, newest }
    }

    /// Notes a key; only keys beyond all before count.
    #[inline]
    pub(super) fn note(&mut self, time: Moment, ordinal: u64) {
        if ordinal > self.newest.ordinal {
            self.extend(time, ordinal);
        }
    }

    fn extend(&mut self, time: Moment, ordinal: u64) {
        self.newest = Sample { time: time.max(self.newest.time), ordinal };
        let last = self.samples.last().map_or(Moment::default(), |sample| sample.time);
        if self.newest.time.since(last) < self.spacing {
            return;
        }
        if self.samples.len() == SAMPLES {
            let mut number = 0;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.spacing = Span::from_ns(self.spacing.as_ns().saturating_mul(2));
        }
        self.samples.push(self.newest);
    }

    /// Returns the largest key.
    pub(super) fn newest(&self) -> u64 {
        self.newest.ordinal
    }

    /// Returns the time at which the largest key was first seen.
    pub(super) fn newest_time(&self) -> Moment {
        self.newest.time
    }

    /// Returns the ordinal of a key that may wrap, seen at `time`.
    pub(super) fn unwrap(&self, raw: RawKey, time: Moment) -> u64 {
        let after = self.samples.partition_point(|sample| sample.time <= time);
        let reference = match self.samples.get(after) {
            Some(next) if after > 0 => self.samples[after - 1].ordinal.midpoint(next.ordinal),
            Some(next) => next.ordinal,
            None => self.newest.ordinal,
        };
        raw.near(reference)
    }

    /// Returns the time between `time` and the moment at which a key was seen, or would have been
    /// seen.
    pub(super) fn distance(&self, ordinal: u64, time: Moment) -> Span {
        let expected = self.time_of(ordinal);
        Span::from_ns(
            u64::try_from(expected.abs_diff(i128::from(time.as_ns()))).unwrap_or(u64::MAX),
        )
    }

    /// Returns the time from `from` to the key `to`.
    pub(super) fn between(&self, from: u64, to: u64) -> Span {
        let ns = (self.time_of(to) - self.time_of(from)).max(0);
        Span::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Returns the time at which a key was seen \[ns\]; before the first and after the last, at the
    /// mean rate.
    fn time_of(&self, ordinal: u64) -> i128 {
        let ns = |sample: Sample| i128::from(sample.time.as_ns());
        let first = self.samples.first().copied().unwrap_or(self.newest);
        let after = self.samples.partition_point(|sample| sample.ordinal <= ordinal);
        let (from, to) = if after == 0 || ordinal > self.newest.ordinal {
            (first, self.newest)
        } else {
            (self.samples[after - 1], self.samples.get(after).copied().unwrap_or(self.newest))
        };
        let keys = i128::from(to.ordinal) - i128::from(from.ordinal);
        let ahead = i128::from(ordinal) - i128::from(from.ordinal);
        if keys == 0 {
            return ns(from);
        }
        ns(from) + (ns(to) - ns(from)) * ahead / keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinned_samples_still_show_when_a_key_was_seen() {
        let at = |ms: u64| Moment::from_ns(ms * 1_000_000);
        let mut timeline = Timeline::new(at(0), 0);
        // A key a millisecond, with a pause of 60 s in the middle.
        for key in 1..20_000 {
            timeline.note(at(key + if key > 10_000 { 60_000 } else { 0 }), key);
        }
        assert!(timeline.samples.len() <= SAMPLES);
        assert!(timeline.distance(5000, at(5000)) < Span::from_ms(1500));
        assert!(timeline.distance(15_000, at(75_000)) < Span::from_ms(1500));
        assert!(timeline.distance(15_000, at(15_000)) > Span::from_ms(40_000));
        // A narrow key is unwrapped to the value nearest to the others' keys at that time.
        let raw = RawKey { ordinal: 15_000 % 256, bits: 8 };
        assert_eq!(timeline.unwrap(raw, at(75_001)) % 256, 15_000 % 256);
        assert_eq!(timeline.unwrap(RawKey { ordinal: 19_990 % 256, bits: 8 }, at(90_000)), 19_990);
    }
}
