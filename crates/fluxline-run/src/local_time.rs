//! Times of day for people: the local zone, in the form of ISO 8601.

const NS_PER_S: u64 = 1_000_000_000;
const S_PER_DAY: i64 = 86_400;

/// Returns a time \[ns since 1970\] in the local zone: `2026-11-29T15:49:08+01:00`.
#[must_use]
pub fn iso(ns: u64) -> String {
    let utc_s = (ns / NS_PER_S) as i64;
    let offset_s = fluxline::host::local_offset_s(utc_s);
    let local_s = utc_s + offset_s;
    let (day, second) = (local_s.div_euclid(S_PER_DAY), local_s.rem_euclid(S_PER_DAY));
    let [hour, minute, second] = [second / 3600, second / 60 % 60, second % 60];
    let (sign, offset_min) = (if offset_s < 0 { '-' } else { '+' }, offset_s.abs() / 60);
    let (offset_h, offset_min) = (offset_min / 60, offset_min % 60);
    let date = date_of(day);
    format!("{date}T{hour:02}:{minute:02}:{second:02}{sign}{offset_h:02}:{offset_min:02}")
}

/// Returns the date of a day, counted from 1 January 1970.
///
/// Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn date_of(day: i64) -> String {
    let day = day + 719_468;
    let (era, day_of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // A year begins in March here, so that the leap day is its last day.
    let month_of_year = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_of_year + 2) / 5 + 1;
    let month = if month_of_year < 10 { month_of_year + 3 } else { month_of_year - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day_of_month:02}")
}

#[cfg(test)]
mod tests {
    use super::date_of;

    #[test]
    fn dates_of_leap_years_and_ends_of_years() {
        let dates = [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_088, "2024-12-31"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ];
        for (day, date) in dates {
            assert_eq!(date_of(day), date, "{day}");
        }
    }
}
