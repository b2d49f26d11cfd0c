//! The one place that asks the host for the time; the core takes time as an argument.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fluxline_core::Moment;

/// The time of day \[ns since 1970-01-01T00:00:00Z\], as the kernel stamps packets; it may be set
/// back. A clock before 1970 reads as 1970.
#[must_use]
#[inline]
pub fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_ns(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Time since the first call in this process \[ns\]; it never goes back. For waits and rates.
#[must_use]
#[inline]
pub fn monotonic() -> Moment {
    static START: OnceLock<Instant> = OnceLock::new();
    let since = START.get_or_init(Instant::now).elapsed();
    Moment::from_ns(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Returns the time from now until a moment of [`monotonic`]; zero when it has passed.
pub(crate) fn left(until: Moment) -> Duration {
    Duration::from_nanos(until.since(monotonic()).as_ns())
}
