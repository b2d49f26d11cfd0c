//! The time of a sensor as its packets count it.

use fluxline_core::Span;
use fluxline_packet::layout::Timestamp;
use fluxline_packet::model::Epoch;

/// Time by which TAI is ahead of UTC \[s\]. Source: IERS bulletin C, unchanged since 2017.
const TAI_MINUS_UTC_S: u64 = 37;
/// 1980-01-06 in Unix time \[s\], and how far GPS time is ahead of UTC. Source: IS-GPS-200.
const GPS_EPOCH_S: u64 = 315_964_800;
const GPS_MINUS_UTC_S: u64 = 18;

/// Returns the seconds and ticks of a time \[ns since 1970 UTC, or since the date that the
/// packet names\] that is `since` the start of the sensor.
pub(super) fn sensor_time(stamp: &Timestamp, unix_ns: u64, since: Span) -> (u64, u64) {
    let ns = match stamp.epoch {
        Epoch::Unix => unix_ns,
        Epoch::Tai => unix_ns.saturating_add(TAI_MINUS_UTC_S * 1_000_000_000),
        Epoch::Gps => (unix_ns.saturating_add(GPS_MINUS_UTC_S * 1_000_000_000))
            .saturating_sub(GPS_EPOCH_S * 1_000_000_000),
        Epoch::Start => since.as_ns(),
    };
    let (seconds, rest) = match stamp.seconds {
        Some(_) => (ns / 1_000_000_000, ns % 1_000_000_000),
        None => (0, ns),
    };
    let (tick, per) = (u128::from(stamp.ns_numerator.max(1)), stamp.ns_denominator.max(1));
    let ticks = u128::from(rest) * u128::from(per) / tick;
    (seconds, ticks as u64)
}
