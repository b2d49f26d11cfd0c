//! Time as an argument: a moment and a span, both in nanoseconds.

use core::fmt;
use core::ops::{Add, Sub};
use serde::{Deserialize, Serialize};

/// A moment \[ns since 1970-01-01T00:00:00Z for time stamps of packets; since a start for
/// [`Fabric::now`](crate::fabric::Fabric::now)\].
///
/// A `u64` of nanoseconds reaches the year 2554.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Moment {
    ns: u64,
}

impl Moment {
    /// Returns the moment `ns` nanoseconds after the origin.
    #[must_use]
    #[inline]
    pub const fn from_ns(ns: u64) -> Moment {
        Moment { ns }
    }

    /// Returns the nanoseconds since the origin.
    #[must_use]
    #[inline]
    pub const fn as_ns(self) -> u64 {
        self.ns
    }

    /// Returns the span since `earlier`; zero when `earlier` is not earlier, as after a clock was
    /// set back.
    #[must_use]
    #[inline]
    pub const fn since(self, earlier: Moment) -> Span {
        Span { ns: self.ns.saturating_sub(earlier.ns) }
    }
}

impl Add<Span> for Moment {
    type Output = Moment;
    #[inline]
    fn add(self, span: Span) -> Moment {
        Moment { ns: self.ns.saturating_add(span.ns) }
    }
}

impl Sub<Span> for Moment {
    type Output = Moment;
    #[inline]
    fn sub(self, span: Span) -> Moment {
        Moment { ns: self.ns.saturating_sub(span.ns) }
    }
}

/// A span of time \[ns\].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Span {
    ns: u64,
}

impl Span {
    /// The span of 0 ns.
    pub const ZERO: Span = Span { ns: 0 };

    /// Returns a span of `ns` nanoseconds.
    #[must_use]
    #[inline]
    pub const fn from_ns(ns: u64) -> Span {
        Span { ns }
    }

    /// Returns a span of `us` microseconds; it saturates.
    #[must_use]
    #[inline]
    pub const fn from_us(us: u64) -> Span {
        Span { ns: us.saturating_mul(1_000) }
    }

    /// Returns a span of `ms` milliseconds; it saturates.
    #[must_use]
    #[inline]
    pub const fn from_ms(ms: u64) -> Span {
        Span { ns: ms.saturating_mul(1_000_000) }
    }

    /// Returns a span of `s` seconds; it saturates.
    #[must_use]
    #[inline]
    pub const fn from_s(s: u64) -> Span {
        Span { ns: s.saturating_mul(1_000_000_000) }
    }

    /// Returns the nanoseconds.
    #[must_use]
    #[inline]
    pub const fn as_ns(self) -> u64 {
        self.ns
    }
}

impl fmt::Display for Span {
    #[inline]
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ns {
            ns if ns >= 1_000_000_000 => {
                write!(out, "{}.{:03} s", ns / 1_000_000_000, ns / 1_000_000 % 1000)
            }
            ns if ns >= 1_000_000 => write!(out, "{}.{:03} ms", ns / 1_000_000, ns / 1000 % 1000),
            ns => write!(out, "{ns} ns"),
        }
    }
}
