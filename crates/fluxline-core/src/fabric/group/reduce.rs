//! The values of an all-reduce, and the ways to combine them.

use alloc::vec::Vec;

/// The way in which two values become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The sum; of integers modulo 2^64.
    Sum,
    /// The smaller one; of floating-point numbers in total order, -0 before 0 and NaN last.
    Min,
    /// The larger one, in the same order.
    Max,
}

/// Numbers of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Integers of 64 bits.
    I64(Vec<i64>),
    /// Floating-point numbers of 64 bits.
    F64(Vec<f64>),
}

/// The kind of numbers, and the way to combine them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Combine {
    is_float: bool,
    reduction: Reduction,
}

impl Values {
    pub(super) fn combine(&self, reduction: Reduction) -> Combine {
        Combine { is_float: matches!(self, Values::F64(_)), reduction }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Values::I64(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Values::F64(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }
    }
}

impl Combine {
    /// Returns a number of its own for each kind.
    pub fn number(self) -> u64 {
        u64::from(self.is_float) << 2 | self.reduction as u64
    }

    pub fn values(self, bytes: &[u8]) -> Values {
        let words = bytes.chunks_exact(8).map(word);
        if self.is_float {
            return Values::F64(words.map(f64::from_bits).collect());
        }
        Values::I64(words.map(u64::cast_signed).collect())
    }

    /// Replaces each word of `into` by the combination of the word of `first` and that of `second`.
    /// The order of the two is that of the ranks, so that all ranks compute the same bits.
    pub fn apply(self, first: &[u8], second: &[u8], into: &mut Vec<u8>) {
        let pairs = first.chunks_exact(8).zip(second.chunks_exact(8));
        let words = pairs.map(|(first, second)| self.of(word(first), word(second)));
        *into = words.flat_map(u64::to_le_bytes).collect();
    }

    fn of(self, first: u64, second: u64) -> u64 {
        if self.is_float {
            return self.of_floats(f64::from_bits(first), f64::from_bits(second)).to_bits();
        }
        let (one, other) = (first.cast_signed(), second.cast_signed());
        match self.reduction {
            Reduction::Sum => first.wrapping_add(second),
            Reduction::Min => one.min(other).cast_unsigned(),
            Reduction::Max => one.max(other).cast_unsigned(),
        }
    }

    fn of_floats(self, one: f64, other: f64) -> f64 {
        let is_first_less = one.total_cmp(&other).is_lt();
        match self.reduction {
            // One NaN for all: the bits of a computed one depend on the processor.
            Reduction::Sum if (one + other).is_nan() => f64::NAN,
            Reduction::Sum => one + other,
            Reduction::Min if is_first_less => one,
            Reduction::Max if !is_first_less => one,
            _ => other,
        }
    }
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined(one: &Values, other: &Values, reduction: Reduction) -> Values {
        let (combine, mut into) = (one.combine(reduction), Vec::new());
        combine.apply(&one.to_bytes(), &other.to_bytes(), &mut into);
        combine.values(&into)
    }

    #[test]
    fn sums_wrap_and_extremes_keep_their_sign() {
        let one = Values::I64([i64::MAX, -3, 5].to_vec());
        let other = Values::I64([1, 2, -5].to_vec());
        let expect = |values: [i64; 3]| Values::I64(values.to_vec());
        assert_eq!(combined(&one, &other, Reduction::Sum), expect([i64::MIN, -1, 0]));
        assert_eq!(combined(&one, &other, Reduction::Min), expect([1, -3, -5]));
        assert_eq!(combined(&one, &other, Reduction::Max), expect([i64::MAX, 2, 5]));
    }

    #[test]
    fn floats_have_one_total_order_and_one_nan() {
        let one = Values::F64([0.0, f64::NAN, 1.5, f64::INFINITY].to_vec());
        let other = Values::F64([-0.0, 1.0, 2.25, f64::NEG_INFINITY].to_vec());
        let bits = |values: Values| match values {
            Values::F64(values) => values.iter().map(|value| value.to_bits()).collect::<Vec<_>>(),
            Values::I64(_) => Vec::new(),
        };
        for (reduction, expected) in [
            (Reduction::Sum, [0.0, f64::NAN, 3.75, f64::NAN]),
            (Reduction::Min, [-0.0, 1.0, 1.5, f64::NEG_INFINITY]),
            (Reduction::Max, [0.0, f64::NAN, 2.25, f64::INFINITY]),
        ] {
            let expected = bits(Values::F64(expected.to_vec()));
            assert_eq!(bits(combined(&one, &other, reduction)), expected, "{reduction:?}");
            assert_eq!(bits(combined(&other, &one, reduction)), expected, "{reduction:?}");
        }
    }
}
