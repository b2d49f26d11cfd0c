//! A histogram of all latencies in fixed memory.

use crate::Duration;

/// Bits kept below the leading one: values are exact to 1 in 128.
const PRECISION_BITS: u32 = 7;
/// Buckets of each power of two.
const PER_POWER: u64 = 1 << PRECISION_BITS;
/// Number of buckets for all durations of 64 bits: exact small ones, then 57 powers of two.
const BUCKETS: usize = ((64 - PRECISION_BITS as usize) + 1) << PRECISION_BITS;

/// Counts durations in buckets that are at most 1/128 of their value wide, and exact below 128 ps.
/// Takes 58 KiB for any traffic; adding a value takes one shift and two additions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    max: Duration,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], count: 0, max: Duration::ZERO }
    }
}

/// The bucket of a value.
fn bucket_of(ps: u64) -> usize {
    let shift = (63 - PRECISION_BITS).saturating_sub((ps | PER_POWER).leading_zeros());
    ((u64::from(shift) << PRECISION_BITS) + (ps >> shift)) as usize
}

/// The largest value of a bucket.
fn last_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket >> PRECISION_BITS).saturating_sub(1);
    let first = (bucket - (shift << PRECISION_BITS)) << shift;
    first + ((1 << shift) - 1)
}

impl Histogram {
    /// Counts one value.
    pub fn add(&mut self, value: Duration) {
        self.counts[bucket_of(value.as_ps())] += 1;
        self.count += 1;
        self.max = self.max.max(value);
    }

    /// Adds all counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        let pairs = self.counts.iter_mut().zip(&other.counts);
        pairs.for_each(|(own, other)| *own += other);
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the exact largest value.
    #[must_use]
    pub fn max(&self) -> Duration {
        self.max
    }

    /// Returns the smallest value that a share `quantile` (0 to 1) of all values does not exceed,
    /// at most 1/128 too large; zero without values.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Duration {
        let rank = ((quantile.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_ps(last_of(bucket)).min(self.max);
            }
        }
        self.max
    }

    /// Returns the buckets that are not empty, for plots: largest value and count, in order.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let filled = self.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        filled.map(|(bucket, &count)| (Duration::from_ps(last_of(bucket)), count))
    }
}

#[cfg(test)]
mod tests {
    use super::{Histogram, bucket_of, last_of};
    use crate::Duration;
    use fluxline_core::random::Draw;

    #[test]
    fn buckets_touch_without_gaps_up_to_the_largest_value() {
        for bucket in 0..super::BUCKETS - 1 {
            let last = last_of(bucket);
            assert_eq!(bucket_of(last), bucket);
            assert_eq!(bucket_of(last + 1), bucket + 1);
        }
        assert_eq!(last_of(super::BUCKETS - 1), u64::MAX);
        assert_eq!(bucket_of(u64::MAX), super::BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values_within_one_in_128() {
        let mut draw = Draw::new(3);
        let mut values: Vec<u64> = (0..10_000).map(|_| draw.bits() >> draw.below(64)).collect();
        let mut histogram = Histogram::default();
        values.iter().for_each(|&ps| histogram.add(Duration::from_ps(ps)));
        values.sort_unstable();
        for quantile in [0.0, 0.001, 0.5, 0.99, 0.999, 1.0] {
            let rank = ((quantile * 10_000.0_f64).ceil() as usize).max(1);
            let exact = values[rank - 1];
            let got = histogram.quantile(quantile).as_ps();
            assert!(got >= exact && got - exact <= exact / 128, "{quantile}: {got} for {exact}");
        }
        assert_eq!(histogram.max().as_ps(), values[9_999]);
    }

    #[test]
    fn halves_that_are_merged_equal_the_whole() {
        let (mut whole, mut halves) =
            (Histogram::default(), [(); 2].map(|()| Histogram::default()));
        for ps in 0..5_000_u64 {
            whole.add(Duration::from_ps(ps * ps));
            halves[(ps % 2) as usize].add(Duration::from_ps(ps * ps));
        }
        let [mut first, second] = halves;
        first.merge(&second);
        assert_eq!(first, whole);
        assert_eq!(whole.buckets().map(|(_, count)| count).sum::<u64>(), 5_000);
    }

    #[test]
    fn nothing_counted_has_no_latency() {
        assert_eq!(Histogram::default().quantile(0.99), Duration::ZERO);
    }
}
