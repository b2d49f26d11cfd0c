//! A program's moments \[ns\] and the agenda's instants \[ps\].

use fluxline_core::Moment;

use crate::Instant;

/// A program's moment on the agenda.
pub fn instant(moment: Moment) -> Instant {
    Instant::from_ps(moment.as_ns().saturating_mul(1000))
}

/// The first whole nanosecond that is not before.
pub fn moment(instant: Instant) -> Moment {
    Moment::from_ns(instant.as_ps().div_ceil(1000))
}
