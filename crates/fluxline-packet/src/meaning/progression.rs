//! Sums of digits: which numbers they yield, and whether each number comes equally often.
//!
//! A counter must take every number of its range, and each of them in equally many ways: else
//! nothing says when it begins anew, or it skips numbers that would be taken for losses. For a sum
//! of independent digits this is exact: a sum modulo M is uniform if and only if each character of
//! the integers modulo M but the trivial one has mean 0 for some digit (a geometric series).

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::domain::Source;

/// A part of a sum: `weight * k`, for k from 0 to `count - 1`, each equally often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digit {
    pub weight: i128,
    pub count: u128,
    /// The bits of the packet that it is; `None`: a function of several.
    pub part: Option<Part>,
}

/// Bits of a word, or all of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub source: Source,
    pub low: u8,
    /// Its smallest value, at which its digit is 0.
    pub first: u64,
}

/// The numbers from `first` in steps of `stride`, each in equally many ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progression {
    pub first: u64,
    pub stride: u64,
    pub count: u128,
    /// The sum that it is, the lowest digit first; empty if it is not a sum.
    pub digits: Vec<Digit>,
}

impl Progression {
    pub fn largest(&self) -> u64 {
        let span = u128::from(self.stride) * (self.count - 1);
        u64::try_from(u128::from(self.first) + span).unwrap_or(u64::MAX)
    }
}

/// The reason why the numbers of an expression cannot be a counter's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Two digits overlap.
    Overlaps { upper: Box<Digit>, lower: Box<Digit> },
    /// `missing` never comes, and greater numbers do.
    Skips { missing: u64, next: u64 },
    /// Some numbers come in more ways than others.
    Uneven,
    /// Its form is unclear.
    Unclear,
}

/// Returns the numbers of `base` plus all digits.
pub(crate) fn of_sum(base: i128, mut digits: Vec<Digit>) -> Result<Progression, Fault> {
    digits.retain(|digit| digit.weight != 0 && digit.count > 1);
    let span_of = |digit: &Digit| digit.weight.unsigned_abs() * (digit.count - 1);
    let below: u128 = digits.iter().filter(|digit| digit.weight < 0).map(span_of).sum();
    let first = u64::try_from(base - below as i128).map_err(|_| Fault::Unclear)?;
    // The highest of equal weights comes first in the file.
    digits.reverse();
    digits.sort_by_key(|digit| digit.weight.unsigned_abs());
    let stride = digits.iter().fold(0, |common, digit| gcd(common, digit.weight.unsigned_abs()));
    let stride = stride.max(1);
    let modulus = digits.iter().map(span_of).sum::<u128>() / stride + 1;
    let scaled = |digit: &Digit| (digit.weight.unsigned_abs() / stride, digit.count);
    if is_uniform(modulus, digits.iter().map(scaled)) {
        let stride = u64::try_from(stride).map_err(|_| Fault::Unclear)?;
        return Ok(Progression { first, stride, count: modulus, digits });
    }
    let mut covered = 0;
    for (weight, count) in digits.iter().map(scaled) {
        if weight > covered + 1 {
            let number =
                |steps: u128| u64::try_from(u128::from(first) + steps * stride).unwrap_or(u64::MAX);
            return Err(Fault::Skips { missing: number(covered + 1), next: number(weight) });
        }
        covered += weight * (count - 1);
    }
    let mut expected = 1;
    for (at, digit) in digits.iter().enumerate() {
        let (weight, count) = scaled(digit);
        if weight != expected && at > 0 {
            let (upper, lower) = (digit.clone(), digits[at - 1].clone());
            return Err(Fault::Overlaps { upper: Box::new(upper), lower: Box::new(lower) });
        }
        expected = weight * count;
    }
    Err(Fault::Uneven)
}

/// Returns true when the sum of digits (weight, count) takes each number modulo `modulus` equally
/// often.
///
/// A digit of weight w and count n has mean 0 under character t if M divides t·w·n and not t·w:
/// with a = M / gcd(M, w·n) and b = M / gcd(M, w), if a divides t and b does not. All t that `open`
/// does not divide are done; of the others, `open` itself is the hardest.
pub(crate) fn is_uniform(
    modulus: u128,
    digits: impl Iterator<Item = (u128, u128)> + Clone,
) -> bool {
    let mut open = 1;
    while open % modulus != 0 {
        let next = digits.clone().find_map(|(weight, count)| {
            let weight = weight % modulus;
            let all = modulus / gcd(modulus, weight * count);
            let none = modulus / gcd(modulus, weight);
            (open % all == 0 && open % none != 0).then_some(none)
        });
        let Some(none) = next else { return false };
        // Both divide the modulus, so their least common multiple does.
        open = open / gcd(open, none) * none;
    }
    true
}

pub(crate) fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::{Digit, Fault, is_uniform, of_sum};

    fn digits(parts: &[(i128, u128)]) -> alloc::vec::Vec<Digit> {
        let digit = |&(weight, count): &(i128, u128)| Digit { weight, count, part: None };
        parts.iter().map(digit).collect()
    }

    /// Counts how often each number comes.
    fn by_counting(parts: &[(i128, u128)], modulus: Option<u128>) -> bool {
        let mut sums = alloc::vec![0_i128];
        for &(weight, count) in parts {
            let each = |sum: &i128| {
                (0..count as i128).map(|k| sum + weight * k).collect::<alloc::vec::Vec<_>>()
            };
            sums = sums.iter().flat_map(each).collect();
        }
        let low = *sums.iter().min().unwrap();
        let modulus = modulus.unwrap_or((sums.iter().max().unwrap() - low) as u128 + 1);
        let mut times = alloc::vec![0; modulus as usize];
        sums.iter().for_each(|sum| times[(sum - low) as usize % modulus as usize] += 1);
        times.iter().all(|count| *count == times[0])
    }

    #[test]
    fn sums_are_uniform_when_counting_says_so() {
        let mut seed = 7_u64;
        let mut draw = |limit: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % limit
        };
        let mut both = [0; 2];
        for _ in 0..20_000 {
            let count = 1 + draw(3);
            let mut parts: alloc::vec::Vec<(i128, u128)> =
                (0..count).map(|_| (1 + draw(12) as i128, 2 + u128::from(draw(5)))).collect();
            parts[0].0 = 1;
            let uniform = of_sum(0, digits(&parts)).is_ok();
            assert_eq!(uniform, by_counting(&parts, None), "{parts:?}");
            let modulus = 1 + u128::from(draw(24));
            let of = parts.iter().map(|&(weight, count)| (weight as u128, count));
            assert_eq!(
                is_uniform(modulus, of),
                by_counting(&parts, Some(modulus)),
                "{parts:?} % {modulus}"
            );
            both[usize::from(uniform)] += 1;
        }
        assert!(both[0] > 500 && both[1] > 500, "{both:?}");
    }

    #[test]
    fn a_sum_says_what_is_wrong_with_it() {
        let bcd = of_sum(0, digits(&[(10, 10), (1, 10)])).expect("0 to 99");
        assert_eq!((bcd.first, bcd.stride, bcd.count), (0, 1, 100));
        let even = of_sum(7, digits(&[(2, 1 << 16)])).expect("in steps of 2");
        assert_eq!((even.first, even.stride, even.largest()), (7, 2, 131_077));
        let down = of_sum(255, digits(&[(-1, 256)])).expect("it counts down");
        assert_eq!((down.first, down.count), (0, 256));
        assert!(matches!(of_sum(0, digits(&[(100, 256), (1, 256)])), Err(Fault::Overlaps { .. })));
        let hole = of_sum(0, digits(&[(1000, 256), (1, 256)]));
        assert_eq!(hole, Err(Fault::Skips { missing: 256, next: 1000 }));
    }
}
