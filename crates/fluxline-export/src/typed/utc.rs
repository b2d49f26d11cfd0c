//! Times as text, for selections.

use fluxline_core::Moment;

/// Reads a time: UTC in the form of RFC 3339, `2026-11-23T12:30:00Z` or `2026-11-23 12:30:00.25`,
/// the day alone, or seconds since 1970.
///
/// Errors: a sentence with the forms that are allowed.
pub fn parse_time(text: &str) -> Result<Moment, String> {
    parse(text.trim()).ok_or_else(|| {
        format!(
            "`{text}` is not a time; write UTC, such as 2026-11-23T12:30:00Z, or seconds since 1970"
        )
    })
}

fn parse(text: &str) -> Option<Moment> {
    let text = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    let Some((day, time)) = text.split_once(['T', 't', ' ']) else {
        return match text.split('-').count() {
            3 => moment(day_of(text)?, 0, 0),
            _ => {
                let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
                let seconds: u64 = seconds.parse().ok()?;
                Moment::from_ns(seconds.checked_mul(1_000_000_000)?.checked_add(ns_of(fraction)?)?)
                    .into()
            }
        };
    };
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = clock.split(':').map(|part| number(part, 2));
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    moment(day_of(day)?, hour * 3600 + minute * 60 + second, ns_of(fraction)?)
}

fn moment(day: u64, second: u64, ns: u64) -> Option<Moment> {
    let seconds = day.checked_mul(86_400)?.checked_add(second)?;
    Some(Moment::from_ns(seconds.checked_mul(1_000_000_000)?.checked_add(ns)?))
}

fn number(digits: &str, length: usize) -> Option<u64> {
    let plain = digits.len() == length && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

/// Returns the nanoseconds of the digits behind a point.
fn ns_of(fraction: &str) -> Option<u64> {
    let fits = fraction.len() <= 9 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    format!("{fraction:0<9}").parse().ok().filter(|_| fits)
}

/// Returns the number of a day from 1 January 1970.
///
/// Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `days_from_civil`.
fn day_of(date: &str) -> Option<u64> {
    let mut parts = date.split('-');
    let year = number(parts.next()?, 4)?;
    let (month, day) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u64::from(leap),
        _ => 31,
    };
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=length).contains(&day) {
        return None;
    }
    // A year begins in March here, so that the leap day is its last day.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let month_of_year = (month + 9) % 12;
    let day_of_year = (153 * month_of_year + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::parse_time;

    #[test]
    fn times_in_each_form() {
        let ns = |text: &str| parse_time(text).map(fluxline_core::Moment::as_ns).ok();
        assert_eq!(ns("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(ns("2023-11-14T22:13:20.123456789Z"), Some(1_700_000_000_123_456_789));
        assert_eq!(ns("2023-11-14 22:13:20.5"), Some(1_700_000_000_500_000_000));
        assert_eq!(ns("2000-02-29"), Some(951_782_400_000_000_000));
        assert_eq!(ns("1700000000.25"), Some(1_700_000_000_250_000_000));
        let wrong = [
            "",
            "now",
            "2023-02-29",
            "2023-11-14T25:00:00",
            "2023-1-1",
            "1969-12-31",
            "2023-11-14T22:13:20.1234567890",
            "-5",
            "2023-11-14T22",
            "2023-11-14T22:00:00+01:00",
        ];
        for text in wrong {
            assert_eq!(ns(text), None, "{text}");
        }
    }
}
