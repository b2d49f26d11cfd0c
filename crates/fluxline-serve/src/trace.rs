//! A long series of samples, decimated by minimum and maximum in bounded memory.
//!
//! Samples are joined to bins of the same number of samples. When there are [`BINS_MAX`] bins, they
//! are joined in pairs, and from then on each takes twice as many samples. So a trace of any length
//! has at most 32 MiB, a peak of one sample is seen at every zoom, and a zoom folds at most
//! [`BINS_MAX`] bins. Finer zooms read the samples again (`runs/traced.rs`).

/// Most bins.
pub const BINS_MAX: usize = 1 << 22;

/// The least and the greatest of some samples; not a number where there is none.
#[derive(Clone, Copy, Debug)]
pub struct Bin {
    /// The least.
    pub least: f32,
    /// The greatest.
    pub greatest: f32,
}

impl Bin {
    const EMPTY: Bin = Bin { least: f32::NAN, greatest: f32::NAN };

    fn join(self, other: Bin) -> Bin {
        // `min` and `max` return the number where one of two is not a number.
        Bin { least: self.least.min(other.least), greatest: self.greatest.max(other.greatest) }
    }

    fn of(samples: &[f64]) -> Bin {
        samples.iter().fold(Bin::EMPTY, |bin, &sample| {
            let sample = sample as f32;
            bin.join(Bin { least: sample, greatest: sample })
        })
    }
}

/// A part of a trace, evenly spaced.
#[derive(Clone, Debug)]
pub struct Part {
    /// The number of its first sample.
    pub first: u64,
    /// Samples of each bin; the last one may have fewer.
    pub step: u64,
    /// Its bins.
    pub bins: Vec<Bin>,
}

/// The samples so far.
#[derive(Clone, Debug)]
pub struct Trace {
    samples: u64,
    /// Samples of a full bin.
    per_bin: u64,
    bins: Vec<Bin>,
    bins_max: usize,
}

impl Default for Trace {
    fn default() -> Trace {
        Trace::with_bins(BINS_MAX)
    }
}

impl Trace {
    fn with_bins(bins_max: usize) -> Trace {
        Trace { samples: 0, per_bin: 1, bins: Vec::new(), bins_max }
    }

    /// Adds samples; those that are not numbers take their place and have no value.
    pub fn add(&mut self, mut samples: &[f64]) {
        while !samples.is_empty() {
            let used = self.samples % self.per_bin;
            if used == 0 {
                if self.bins.len() == self.bins_max {
                    self.halve();
                    continue;
                }
                self.bins.push(Bin::EMPTY);
            }
            let room = (self.per_bin - used).min(samples.len() as u64) as usize;
            let (now, later) = samples.split_at(room);
            if let Some(last) = self.bins.last_mut() {
                *last = last.join(Bin::of(now));
            }
            self.samples += room as u64;
            samples = later;
        }
    }

    fn halve(&mut self) {
        for at in 0..self.bins.len().div_ceil(2) {
            let pair = &self.bins[2 * at..(2 * at + 2).min(self.bins.len())];
            self.bins[at] = pair.iter().copied().fold(Bin::EMPTY, Bin::join);
        }
        self.bins.truncate(self.bins.len().div_ceil(2));
        self.per_bin *= 2;
    }

    /// Returns the number of samples.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns the number of samples of a bin.
    pub fn per_bin(&self) -> u64 {
        self.per_bin
    }

    /// Returns its memory \[byte\].
    pub fn memory_bytes(&self) -> usize {
        self.bins.capacity() * size_of::<Bin>()
    }

    /// Returns the samples from number `from` to before `to` as at most `points` bins.
    pub fn part(&self, from: u64, to: u64, points: usize) -> Part {
        let to = to.min(self.samples);
        let first = (from.min(to) / self.per_bin) as usize;
        let end = to.div_ceil(self.per_bin) as usize;
        let each = (end - first).div_ceil(points.max(1)).max(1);
        let chunks = self.bins[first..end].chunks(each);
        Part {
            first: first as u64 * self.per_bin,
            step: each as u64 * self.per_bin,
            bins: chunks.map(|bins| bins.iter().copied().fold(Bin::EMPTY, Bin::join)).collect(),
        }
    }
}

/// Returns samples as a part, the first of which has number `first`.
pub fn part_of_samples(first: u64, samples: &[f64], points: usize) -> Part {
    let each = samples.len().div_ceil(points.max(1)).max(1);
    Part { first, step: each as u64, bins: samples.chunks(each).map(Bin::of).collect() }
}

#[cfg(test)]
mod tests {
    use fluxline_core::random::{Draw, test_seed};

    use super::*;

    fn check(part: &Part, all: &[f64], to: u64, per_bin: u64) {
        let part_end = (to.div_ceil(per_bin) * per_bin) as usize;
        for (at, bin) in part.bins.iter().enumerate() {
            let from = part.first as usize + at * part.step as usize;
            let end = (from + part.step as usize).min(part_end).min(all.len());
            assert!(from < to as usize);
            let obvious = Bin::of(&all[from..end]);
            assert_eq!((bin.least, bin.greatest), (obvious.least, obvious.greatest), "{from}");
        }
    }

    #[test]
    fn every_part_of_a_trace_has_the_extremes_of_its_samples() {
        let mut random = Draw::new(test_seed!(33));
        let (mut trace, mut all) = (Trace::with_bins(500), Vec::new());
        for round in 0..200 {
            let count = random.below(300);
            let samples: Vec<f64> = (0..count).map(|_| random.below(60_000) as f64).collect();
            trace.add(&samples);
            all.extend(samples);
            assert_eq!(trace.samples(), all.len() as u64);
            assert!(trace.bins.len() <= 500, "round {round}: {}", trace.bins.len());
            let from = random.below(all.len() as u64 + 10);
            let to = from + random.below(all.len() as u64 + 10);
            let points = 1 + random.below(600) as usize;
            let part = trace.part(from, to, points);
            assert!(part.bins.len() <= points);
            check(&part, &all, to.min(all.len() as u64), trace.per_bin());
            let covered = part.first + part.step * part.bins.len() as u64;
            assert!(part.first <= from && covered >= to.min(all.len() as u64), "{part:?}");
        }
        assert!(trace.per_bin() >= 32, "{}", trace.per_bin());
    }

    #[test]
    fn one_sample_is_seen_in_millions_and_absent_ones_are_gaps() {
        let mut trace = Trace::with_bins(1024);
        for block in 0..1_000 {
            let mut samples = vec![1.0; 1_000];
            if block == 345 {
                samples[678] = -7.0;
            }
            if block == 500 {
                samples = vec![f64::NAN; 1_000_000];
            }
            trace.add(&samples);
        }
        let whole = trace.part(0, u64::MAX, 1);
        assert_eq!((whole.bins[0].least, whole.bins[0].greatest), (-7.0, 1.0));
        let gap = trace.part(600_000, 700_000, 10);
        assert!(gap.bins.iter().all(|bin| bin.least.is_nan()), "{gap:?}");
        assert!(Trace::default().part(0, 10, 5).bins.is_empty());
        let part = part_of_samples(40, &[1.0, f64::NAN, 3.0], 2);
        assert_eq!((part.first, part.step, part.bins[1].greatest), (40, 2, 3.0));
    }
}
