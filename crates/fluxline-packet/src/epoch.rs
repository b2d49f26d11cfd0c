//! The start of a sensor's time: a date of convention, or one that a field counts from.

use alloc::format;
use alloc::string::String;
use core::fmt;

use super::expression::Expr;

/// Seconds of a day without leap second.
pub(crate) const DAY_SECONDS: u64 = 86_400;
/// Days from 1 March of year 0 to 1 January 1970.
const DAYS_TO_1970: u64 = 719_468;
/// Most months and days that are counted: beyond them, 64 bits of nanoseconds end.
const COUNT_MAX: u64 = 1 << 20;
/// The largest year of a packet; in 2554, 64 bits of nanoseconds end.
pub(crate) const YEAR_MAX: u64 = 9999;

/// A start of time that each packet names, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldEpoch {
    /// The date from which months and days are counted.
    pub date: Date,
    /// Months after it.
    pub months: Expr,
    /// Days after it.
    pub days: Expr,
    /// Year, month and day, where a packet has these.
    pub parts: Option<[Expr; 3]>,
}

/// A day of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    year: u64,
    /// 1 to 12.
    month: u64,
    /// 1 to 31.
    day: u64,
}

impl Date {
    /// 1 January of the year 0, from which the dates of packets are counted.
    pub(crate) const YEAR_0: Date = Date { year: 0, month: 1, day: 1 };

    /// Returns year, month and day of a day after 1970.
    ///
    /// Source: as `Date::later_ns`, `civil_from_days`.
    #[must_use]
    pub fn of_day(days: u64) -> [u64; 3] {
        let days = days + DAYS_TO_1970;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let years = day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096;
        let year_of_era = years / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        [era * 400 + year_of_era + later, month, day]
    }

    /// Reads `YYYY-MM-DD`; the error says what to write.
    pub(crate) fn parse(text: &str) -> Result<Date, String> {
        let wrong = || format!("`{text}` is not a date; write it as \"2000-01-01\"");
        let mut parts = text.split('-').map(|part| {
            let plain = part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<u64>().ok().filter(|_| plain)
        });
        let (year, month, day) = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Some(year)), Some(Some(month)), Some(Some(day)), None) => (year, month, day),
            _ => return Err(wrong()),
        };
        let leap =
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let length = match month {
            4 | 6 | 9 | 11 => 30,
            2 => 28 + u64::from(leap),
            _ => 31,
        };
        let is_date =
            (1..=9999).contains(&year) && (1..=12).contains(&month) && (1..=length).contains(&day);
        if is_date { Ok(Date { year, month, day }) } else { Err(wrong()) }
    }

    /// Returns the nanoseconds from 1970 to the date `months` and `days` later; 0 before 1970, and
    /// the largest number beyond 2554. A day that a month lacks is the first of the next.
    ///
    /// Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `days_from_civil`. A year
    /// begins in March there, so that the leap day is its last day.
    pub(crate) fn later_ns(self, months: u64, days: u64) -> u64 {
        let month = self.month - 1 + months.min(COUNT_MAX);
        let (year, month) = (self.year + month / 12, month % 12);
        // Months from March: 0 to 11.
        let (year, month) = match month {
            0 | 1 if year == 0 => return 0,
            0 | 1 => (year - 1, month + 10),
            _ => (year, month - 2),
        };
        let (era, year_of_era) = (year / 400, year % 400);
        let day_of_year = (153 * month + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let day = (era * 146_097 + day_of_era + days.min(COUNT_MAX)).saturating_sub(DAYS_TO_1970);
        day.saturating_mul(DAY_SECONDS).saturating_mul(1_000_000_000)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::{DAY_SECONDS, Date};

    #[test]
    fn dates_are_counted_by_the_calendar() {
        let seconds = |date: &str, months, days| {
            Date::parse(date).expect("a date").later_ns(months, days) / 1_000_000_000
        };
        assert_eq!(seconds("1970-01-01", 0, 0), 0);
        assert_eq!(seconds("2000-01-01", 0, 0), 946_684_800);
        assert_eq!(seconds("2000-01-01", 6, 0), 962_409_600);
        assert_eq!(seconds("2000-01-01", 2, 0) - seconds("2000-01-01", 1, 0), 29 * DAY_SECONDS);
        assert_eq!(seconds("2000-01-01", 12 * 26 + 6, 0), 1_782_864_000);
        // Modified Julian Day 60000 is 25 February 2023.
        assert_eq!(seconds("1858-11-17", 0, 60_000), 1_677_283_200);
        assert_eq!(seconds("1858-11-17", 0, 3), 0, "before 1970");
        assert_eq!(Date::parse("2000-01-01").expect("a date").later_ns(u64::MAX, 0), u64::MAX);
        for days in [0, 58, 59, 60, 365, 11_016, 19_782, 20_000, 200_000] {
            let [year, month, day] = Date::of_day(days);
            let months = year * 12 + month - 1;
            let ns = Date::YEAR_0.later_ns(months, day - 1);
            assert_eq!(ns, days * DAY_SECONDS * 1_000_000_000, "{year}-{month}-{day}");
        }
        assert_eq!(Date::of_day(19_782), [2024, 2, 29]);
        assert_eq!(Date::YEAR_0.later_ns(0, 0), 0);
        for wrong in ["", "2000-13-01", "2001-02-29", "2000-1-1", "2000-01-01-01", "0000-01-01"] {
            assert!(Date::parse(wrong).is_err(), "{wrong}");
        }
    }
}
