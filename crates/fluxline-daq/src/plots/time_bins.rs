//! Bins of time, which follow the run: when all are used, neighbours are joined.

use fluxline_core::Moment;

/// The width of a bin at the start \[ns\].
const WIDTH_NS: u64 = 1_000_000_000;

/// A bin that can be joined with its neighbour.
pub trait Join {
    /// Adds the content of the next bin.
    fn join(&mut self, next: &Self);
}

impl Join for u64 {
    fn join(&mut self, next: &u64) {
        *self += next;
    }
}

/// Bins of equal time, from the second of the first entry on.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeBins<T> {
    origin_ns: Option<u64>,
    width_ns: u64,
    bins_max: u64,
    cells: Vec<T>,
}

impl<T: Join + Clone + Default> TimeBins<T> {
    /// Makes empty bins, at most `bins_max`, which is at least 2.
    pub fn new(bins_max: u32) -> TimeBins<T> {
        let bins_max = u64::from(bins_max);
        TimeBins { origin_ns: None, width_ns: WIDTH_NS, bins_max, cells: Vec::new() }
    }

    /// Returns the bin of a time; `None`: it is before the first one.
    pub fn at(&mut self, time: Moment) -> Option<&mut T> {
        let time = time.as_ns();
        let origin = *self.origin_ns.get_or_insert(time - time % WIDTH_NS);
        let since = time.checked_sub(origin)?;
        while since / self.width_ns >= self.bins_max {
            self.widen();
        }
        let at = (since / self.width_ns) as usize;
        if self.cells.len() <= at {
            self.cells.resize(at + 1, T::default());
        }
        self.cells.get_mut(at)
    }

    /// Joins neighbours. The width stays below 2^64 ns, since two bins of half of that have every
    /// time.
    fn widen(&mut self) {
        let joined = self.cells.chunks(2).map(|pair| {
            let mut first = pair[0].clone();
            pair.iter().skip(1).for_each(|next| first.join(next));
            first
        });
        self.cells = joined.collect();
        self.width_ns *= 2;
    }

    /// Returns the start of the first bin \[ns since 1970\]; `None`: no entries.
    pub fn origin_ns(&self) -> Option<u64> {
        self.origin_ns
    }

    /// Returns the width of each bin \[ns\].
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// Returns the bins up to the last entry.
    pub fn cells(&self) -> &[T] {
        &self.cells
    }
}
