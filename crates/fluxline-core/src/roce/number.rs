//! Numbers of 24 bits: sequence numbers, which wrap, and queue pairs.

use core::cmp::Ordering;
use core::fmt;

const BITS: u32 = 24;
const MASK: u32 = (1 << BITS) - 1;

/// Returns the distance from `earlier` to `later` on the circle of 2^24, the shorter way round.
const fn distance(later: u32, earlier: u32) -> i32 {
    // The difference is moved to the top, so that its sign bit is the 24-bit one.
    (later.wrapping_sub(earlier) << (32 - BITS)) as i32 >> (32 - BITS)
}

macro_rules! circular {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(u32);

        impl $name {
            /// Returns the number in the low 24 bits of `value`.
            #[must_use]
            #[inline]
            pub const fn new(value: u32) -> $name {
                $name(value & MASK)
            }

            /// Returns the number, below 2^24.
            #[must_use]
            #[inline]
            pub const fn get(self) -> u32 {
                self.0
            }

            /// Returns the number `count` further on; it wraps.
            #[must_use]
            #[inline]
            pub const fn plus(self, count: u32) -> $name {
                $name::new(self.0.wrapping_add(count))
            }

            /// Returns the number `count` before; it wraps.
            #[must_use]
            #[inline]
            pub const fn minus(self, count: u32) -> $name {
                $name::new(self.0.wrapping_sub(count))
            }

            /// Returns the distance from `earlier`, -2^23 to 2^23 - 1; negative when it is before
            /// it.
            #[must_use]
            #[inline]
            pub const fn distance_from(self, earlier: $name) -> i32 {
                distance(self.0, earlier.0)
            }

            /// Compares by distance. This is not an `Ord`: each of three numbers may be before the
            /// next one, all round the circle.
            #[must_use]
            #[inline]
            pub fn order(self, other: $name) -> Ordering {
                self.distance_from(other).cmp(&0)
            }

            /// Returns true when this comes before `other`, by distance.
            #[must_use]
            #[inline]
            pub const fn is_before(self, other: $name) -> bool {
                self.distance_from(other) < 0
            }
        }

        impl fmt::Display for $name {
            #[inline]
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(out)
            }
        }
    };
}

circular! {
    /// A packet sequence number: one more with each packet of a queue pair, modulo 2^24.
    Psn
}

circular! {
    /// A message sequence number: one more with each message that a responder completed, modulo
    /// 2^24.
    Msn
}

/// The number of a queue pair: one end of a connection, on its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueuePair(u32);

impl QueuePair {
    /// Returns the queue pair in the low 24 bits of `number`.
    #[must_use]
    #[inline]
    pub const fn new(number: u32) -> QueuePair {
        QueuePair(number & MASK)
    }

    /// Returns the number, below 2^24.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for QueuePair {
    #[inline]
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_number_is_just_before_the_first() {
        let (last, first) = (Psn::new(0x00FF_FFFF), Psn::new(0));
        assert_eq!(last.plus(1), first);
        assert_eq!(first.minus(1), last);
        assert_eq!(first.distance_from(last), 1);
        assert_eq!(last.distance_from(first), -1);
        assert!(last.is_before(first) && !first.is_before(last));
        assert_eq!(last.order(first), Ordering::Less);
    }

    #[test]
    fn half_the_circle_is_before() {
        let (from, half) = (Psn::new(7), Psn::new(7 + (1 << 23)));
        assert_eq!(half.distance_from(from), -(1 << 23));
        assert_eq!(half.minus(1).distance_from(from), (1 << 23) - 1);
        assert_eq!(from.distance_from(from), 0);
    }

    #[test]
    fn higher_bits_are_cut_off() {
        assert_eq!(Psn::new(0xFF00_0001).get(), 1);
        assert_eq!(QueuePair::new(0xFF00_0011).get(), 0x11);
        assert_eq!(Msn::new(u32::MAX).plus(2).get(), 1);
    }

    proptest! {
        #[test]
        fn distance_undoes_plus(from in 0u32..1 << 24, by in -(1i32 << 23)..1 << 23) {
            let from = Psn::new(from);
            let to = from.plus(by as u32);
            prop_assert_eq!(to.distance_from(from), by);
            prop_assert_eq!(from.plus(by as u32).minus(by as u32), from);
        }
    }
}
