//! Check sums of packets: CRCs of the catalogue, sums of bytes and words, XOR, Fletcher, Adler, and
//! the internet check sum.
//!
//! Where the check sum lies within the bytes that it covers, its own bytes count as 0. Sources: RFC
//! 1071 (internet), RFC 1950 (Adler-32), J. Fletcher, "An Arithmetic Checksum for Serial
//! Transmissions", 1982.

use core::ops::Range;
use core::str::FromStr;

use crc_fast::{CrcAlgorithm, Digest};

use super::edge::Edge;
use super::model::{ByteOrder, Complement};
use super::word::{mask, read_word};

/// Most bytes that count behind the covered ones.
pub(crate) const EXTRA_BYTES_MAX: usize = 8;

/// A way to sum up bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Algorithm {
    Crc(CrcAlgorithm),
    /// The sum of all bytes.
    ByteSum,
    /// The sum of all words of the check sum's width.
    WordSum,
    /// The exclusive sum of words of the check sum's width.
    Xor,
    Fletcher,
    Adler,
    Internet,
}

/// The names of check sums besides CRCs, with their width \[byte\].
const SUMS: [(&str, Algorithm, u8); 12] = [
    ("sum-8", Algorithm::ByteSum, 1),
    ("sum-16", Algorithm::ByteSum, 2),
    ("sum-32", Algorithm::ByteSum, 4),
    ("word-sum-16", Algorithm::WordSum, 2),
    ("word-sum-32", Algorithm::WordSum, 4),
    ("xor-8", Algorithm::Xor, 1),
    ("xor-16", Algorithm::Xor, 2),
    ("xor-32", Algorithm::Xor, 4),
    ("fletcher-16", Algorithm::Fletcher, 2),
    ("fletcher-32", Algorithm::Fletcher, 4),
    ("adler-32", Algorithm::Adler, 4),
    ("internet", Algorithm::Internet, 2),
];

/// Returns the names of check sums besides CRCs.
pub(crate) fn sum_names() -> impl Iterator<Item = &'static str> {
    SUMS.iter().map(|(name, ..)| *name)
}

impl Algorithm {
    /// Returns the algorithm of that name, and the width of its sum \[byte\].
    pub fn of_name(name: &str) -> Option<(Algorithm, u8)> {
        let is_it = |row: &&(&str, Algorithm, u8)| row.0.eq_ignore_ascii_case(name);
        if let Some(&(_, algorithm, bytes)) = SUMS.iter().find(is_it) {
            return Some((algorithm, bytes));
        }
        let name = name.to_ascii_uppercase();
        let code = CrcAlgorithm::from_str(&name).ok()?;
        let bytes = match name.get(..6) {
            Some("CRC-16") => 2,
            Some("CRC-32") => 4,
            _ => 8,
        };
        Some((Algorithm::Crc(code), bytes))
    }
}

/// Bytes that count behind the covered ones, and are not in the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    bytes: [u8; EXTRA_BYTES_MAX],
    count: u8,
}

impl Extra {
    /// `None`: there are too many.
    pub fn of(bytes: &[u8]) -> Option<Extra> {
        let mut extra = Extra { count: u8::try_from(bytes.len()).ok()?, ..Extra::default() };
        extra.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(extra)
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.count)]
    }
}

/// The plan of a check sum, as the program keeps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckSum {
    pub algorithm: Algorithm,
    /// Its width \[byte\].
    pub bytes: u8,
    pub at: Edge,
    pub byte_order: ByteOrder,
    pub from: Edge,
    pub to: Edge,
    pub extra: Extra,
    pub complement: Complement,
}

impl CheckSum {
    /// Returns the place of the sum in a packet, and the right sum; `None`: the packet is too
    /// short.
    pub fn of(&self, packet: &[u8]) -> Option<(Range<usize>, u64)> {
        let size = packet.len();
        let (at, from) = (self.at.within(size)?, self.from.within(size)?);
        let own = at..at.checked_add(self.bytes.into())?;
        packet.get(own.clone())?;
        let covered = packet.get(from..self.to.within(size)?)?;
        let inside = own.start.saturating_sub(from)..own.end.saturating_sub(from);
        let inside = if inside.start >= covered.len() { 0..0 } else { inside };
        let inside = inside.start..inside.end.min(covered.len());
        let sum = self.sum(covered, inside);
        let sum = match self.complement {
            Complement::None => sum,
            Complement::Ones => !sum,
            Complement::Twos => sum.wrapping_neg(),
        };
        Some((own, sum & mask(u32::from(self.bytes) * 8)))
    }

    /// Returns true when a packet has the right sum; `None`: it is too short.
    pub fn is_right(&self, packet: &[u8]) -> Option<bool> {
        let (place, sum) = self.of(packet)?;
        Some(read_word(&packet[place], self.byte_order) == sum)
    }

    /// The sum over `covered`, whose bytes in `own` count as 0.
    fn sum(&self, covered: &[u8], own: Range<usize>) -> u64 {
        let width = usize::from(self.bytes);
        let extra = self.extra.as_slice();
        let words = |width: usize| Words {
            covered,
            own: own.clone(),
            extra,
            width,
            order: self.byte_order,
        };
        match self.algorithm {
            Algorithm::Crc(code) => {
                let mut digest = Digest::new(code);
                digest.update(&covered[..own.start]);
                digest.update(&[0; 8][..own.len()]);
                digest.update(&covered[own.end..]);
                digest.update(extra);
                digest.finalize()
            }
            Algorithm::ByteSum => {
                let parts = [&covered[..own.start], &covered[own.end..], extra];
                parts.iter().flat_map(|part| part.iter()).map(|byte| u64::from(*byte)).sum()
            }
            Algorithm::WordSum => words(width).sum_up(|sum, word| sum.wrapping_add(word)),
            Algorithm::Xor => words(width).sum_up(|sum, word| sum ^ word),
            Algorithm::Fletcher => {
                let half = width / 2;
                words(half).twice(0, mask(half as u32 * 8), half as u32 * 8)
            }
            Algorithm::Adler => words(1).twice(1, 65_521, 16),
            Algorithm::Internet => {
                let mut sum = words(2).sum_up(|sum, word| sum + word);
                while sum > 0xFFFF {
                    sum = (sum & 0xFFFF) + (sum >> 16);
                }
                !sum & 0xFFFF
            }
        }
    }
}

/// Covered bytes as words; the last one is filled up with zeros.
struct Words<'a> {
    covered: &'a [u8],
    own: Range<usize>,
    extra: &'a [u8],
    width: usize,
    order: ByteOrder,
}

impl Words<'_> {
    fn sum_up(&self, mut add: impl FnMut(u64, u64) -> u64) -> u64 {
        let mut sum = 0;
        let whole = self.covered.len() / self.width * self.width;
        for start in (0..whole).step_by(self.width) {
            let end = start + self.width;
            let word = match start < self.own.end && self.own.start < end {
                false => read_word(&self.covered[start..end], self.order),
                true => self.gathered(start),
            };
            sum = add(sum, word);
        }
        let all = self.covered.len() + self.extra.len();
        (whole..all).step_by(self.width).fold(sum, |sum, start| add(sum, self.gathered(start)))
    }

    /// The word at `start`, byte by byte.
    fn gathered(&self, start: usize) -> u64 {
        let mut word = [0; 8];
        for (at, byte) in (start..start + self.width).zip(&mut word) {
            *byte = match self.covered.get(at) {
                Some(_) if self.own.contains(&at) => 0,
                Some(byte) => *byte,
                None => self.extra.get(at - self.covered.len()).copied().unwrap_or(0),
            };
        }
        read_word(&word[..self.width], self.order)
    }

    /// The sum of words and the sum of these sums, modulo a number, in one.
    fn twice(&self, first: u64, modulus: u64, bits: u32) -> u64 {
        let (mut low, mut high) = (first, 0);
        self.sum_up(|_, word| {
            low = (low + word) % modulus;
            high = (high + low) % modulus;
            0
        });
        high << bits | low
    }
}

#[cfg(test)]
mod tests {
    use super::{Algorithm, CheckSum, Extra};
    use crate::layout::Edge;
    use crate::model::{ByteOrder, Complement};

    fn of(name: &str, extra: &[u8], packet: &[u8]) -> u64 {
        let (algorithm, bytes) = Algorithm::of_name(name).expect(name);
        let mut packet = packet.to_vec();
        packet.extend([0; 8]);
        let plan = CheckSum {
            algorithm,
            bytes,
            at: Edge::End(8),
            byte_order: ByteOrder::Big,
            from: Edge::Start(0),
            to: Edge::End(8),
            extra: Extra::of(extra).expect("few"),
            complement: Complement::None,
        };
        plan.of(&packet).expect("long enough").1
    }

    #[test]
    fn sums_are_those_of_the_literature() {
        // Fletcher: the usual examples. Adler-32: RFC 1950. Internet: RFC 1071 §3.
        for (name, text, sum) in [
            ("fletcher-16", "abcde", 0xC8F0),
            ("fletcher-16", "abcdefgh", 0x0627),
            ("adler-32", "Wikipedia", 0x11E6_0398),
            ("sum-8", "abc", 0x26),
            ("sum-16", "abc", 0x126),
            ("xor-8", "abc", 0x60),
            ("xor-16", "abcd", 0x0206),
            ("word-sum-16", "abcd", 0xC4C6),
            ("CRC-32/ISO-HDLC", "123456789", 0xCBF4_3926),
        ] {
            assert_eq!(of(name, &[], text.as_bytes()), sum, "{name} of {text}");
        }
        assert_eq!(of("internet", &[], &[0, 1, 0xF2, 3, 0xF4, 0xF5, 0xF6, 0xF7]), 0x220D);
        // An odd last byte is followed by 0.
        assert_eq!(of("internet", &[], &[1]), 0xFEFF);
    }

    #[test]
    fn an_extra_byte_counts_behind_the_covered_ones() {
        for name in ["CRC-16/MCRF4XX", "sum-16", "xor-8", "word-sum-16", "fletcher-16", "internet"]
        {
            assert_eq!(of(name, &[0x32], b"abc"), of(name, &[], b"abc\x32"), "{name}");
            assert_ne!(of(name, &[0x32], b"abc"), of(name, &[0x33], b"abc"), "{name}");
        }
    }

    #[test]
    fn a_sum_within_its_own_bytes_counts_as_0_and_complements_close_to_0() {
        for name in ["sum-8", "internet", "CRC-32/ISCSI", "word-sum-32", "fletcher-32"] {
            let (algorithm, bytes) = Algorithm::of_name(name).expect(name);
            let whole = |complement| CheckSum {
                algorithm,
                bytes,
                at: Edge::Start(3),
                byte_order: ByteOrder::Little,
                from: Edge::Start(1),
                to: Edge::End(0),
                extra: Extra::default(),
                complement,
            };
            let packet = *b"0123456789abcdef";
            let mut zeroed = packet;
            zeroed[3..3 + usize::from(bytes)].fill(0);
            let (place, sum) = whole(Complement::None).of(&packet).expect("long enough");
            assert_eq!(place, 3..3 + usize::from(bytes));
            assert_eq!(whole(Complement::None).of(&zeroed), Some((place.clone(), sum)), "{name}");
            let ones = crate::word::mask(u32::from(bytes) * 8);
            assert_eq!(whole(Complement::Ones).of(&packet), Some((place.clone(), sum ^ ones)));
            let twos = sum.wrapping_neg() & ones;
            assert_eq!(whole(Complement::Twos).of(&packet), Some((place, twos)));
            assert_eq!(whole(Complement::None).of(b"01"), None);
        }
    }
}
