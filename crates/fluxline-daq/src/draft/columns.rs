//! Statistics of each byte at the start of all packets: whether it changes, and its entropy.

use super::HEADER_BYTES_MAX;

/// The number of times that each byte had each value, over all packets that reach it.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    counts: Vec<[u32; 256]>,
}

impl Columns {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let reached = bytes.len().min(HEADER_BYTES_MAX);
        if self.counts.len() < reached {
            self.counts.resize(reached, [0; 256]);
        }
        for (column, &byte) in self.counts.iter_mut().zip(bytes) {
            let count = &mut column[usize::from(byte)];
            *count = count.saturating_add(1);
        }
    }

    /// Returns the value of byte `at`, where it is the same in all packets.
    pub(super) fn constant(&self, at: usize) -> Option<u8> {
        let column = self.counts.get(at)?;
        let mut values = column.iter().enumerate().filter(|(_, count)| **count > 0);
        let (value, _) = values.next()?;
        values.next().is_none().then_some(value as u8)
    }

    /// Returns the entropy of byte `at` \[bit\], 0 to 8 (Shannon, 1948).
    pub(super) fn entropy_bits(&self, at: usize) -> f64 {
        let Some(column) = self.counts.get(at) else { return 0.0 };
        let total: f64 = column.iter().map(|count| f64::from(*count)).sum();
        let shares = column.iter().filter(|count| **count > 0);
        let parts =
            shares.map(|count| f64::from(*count) / total).map(|share| -share * share.log2());
        // The sum over one value is -0.
        parts.sum::<f64>().max(0.0)
    }

    /// Returns the number of different values of byte `at`.
    pub(super) fn values(&self, at: usize) -> usize {
        self.counts.get(at).map_or(0, |column| column.iter().filter(|c| **c > 0).count())
    }
}

#[cfg(test)]
mod tests {
    use super::Columns;

    #[test]
    fn constant_bytes_and_entropies_are_those_of_the_packets() {
        let mut columns = Columns::default();
        for number in 0..=255_u8 {
            columns.add(&[7, number, number % 2]);
        }
        assert_eq!((columns.constant(0), columns.constant(1)), (Some(7), None));
        assert_eq!([0, 1, 2, 3].map(|at| columns.values(at)), [1, 256, 2, 0]);
        let entropies = [0, 1, 2, 3].map(|at| columns.entropy_bits(at).round());
        assert_eq!(entropies, [0.0, 8.0, 1.0, 0.0]);
        assert_eq!(format!("{:.1}", columns.entropy_bits(0)), "0.0");
    }
}
