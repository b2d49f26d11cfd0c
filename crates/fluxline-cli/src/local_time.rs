//! Times of day for people: the local zone, in the form of ISO 8601.

use fluxline_core::Moment;
use fluxline_export::typed::parse_time;
pub use fluxline_run::local_time::iso;

const NS_PER_S: u64 = 1_000_000_000;

/// Reads a time: `2026-11-29`, `2026-11-29 15:49` or `2026-11-29T15:49:08` in the local zone, the
/// same in UTC with `Z` behind it, or seconds since 1970.
///
/// Errors: a sentence with the forms that are allowed.
pub fn parse(text: &str) -> Result<Moment, String> {
    let sentence = || {
        format!(
            "`{text}` is not a time; write the local time, such as 2026-11-29T15:30:00, or UTC \
             with a Z behind it"
        )
    };
    let time = parse_time(text).map_err(|_| sentence())?;
    let is_local = text.contains('-') && !text.trim().ends_with(['Z', 'z']);
    if !is_local {
        return Ok(time);
    }
    let local_s = (time.as_ns() / NS_PER_S) as i64;
    // The offset is that of the time itself, except in the hour around a change of the clocks.
    let guess_s = fluxline::host::local_offset_s(local_s);
    let offset_s = fluxline::host::local_offset_s(local_s - guess_s);
    let ns = i128::from(time.as_ns()) - i128::from(offset_s) * i128::from(NS_PER_S);
    u64::try_from(ns).map(Moment::from_ns).map_err(|_| sentence())
}

/// Returns a length of time \[s\] in two units at most: `12.3 s`, `5 min 20 s`, `3 h 05 min`.
pub fn length(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    let (hours, minutes) = (whole / 3600, whole / 60 % 60);
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{minutes} min {:02} s", whole % 60),
        _ => format!("{hours} h {minutes:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::{iso, length, parse};

    #[test]
    fn a_time_that_is_shown_is_read_back_and_no_number_is_too_large() {
        for ns in [1_000_000_000_000_000_000, 1_700_000_000_000_000_000] {
            let shown = iso(ns);
            let local = &shown[..shown.len() - "+00:00".len()];
            assert_eq!(parse(local).expect("a time").as_ns(), ns, "{shown}");
        }
        assert!(iso(u64::MAX).starts_with("2554-07-2"));
        let utc = parse("2023-11-14T22:13:20Z").expect("a time").as_ns();
        assert_eq!(utc, 1_700_000_000_000_000_000);
        assert!(parse("yesterday").is_err());
    }

    #[test]
    fn lengths_have_at_most_two_units() {
        assert_eq!(length(0.04), "0.0 s");
        assert_eq!(length(59.4), "59.4 s");
        assert_eq!(length(320.0), "5 min 20 s");
        assert_eq!(length(11_100.0), "3 h 05 min");
    }
}
