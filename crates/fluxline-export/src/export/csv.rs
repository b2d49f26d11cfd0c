//! Writes tables as CSV (RFC 4180) with a head line.
//!
//! Texts are quoted where necessary, bytes are hexadecimal digits, times are UTC in the form of RFC
//! 3339, and an absent value is an empty field. A list is one field: its numbers with spaces
//! between them, `null` for an absent one, and semicolons between lists within a list. The crate
//! `arrow-csv` has no lists, and takes longer to compile than the rest of an export.

use std::io::{self, Write};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema, TimeUnit};

const SECOND_NS: i64 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;
/// Stands between the numbers of a list.
const BETWEEN_NUMBERS: u8 = b' ';
/// Stands between the lists within a list.
const BETWEEN_LISTS: u8 = b';';

/// Writes the head line.
pub(super) fn head(out: &mut impl Write, schema: &Schema) -> io::Result<()> {
    let mut line = Vec::new();
    for (number, field) in schema.fields().iter().enumerate() {
        separate(&mut line, number);
        text(&mut line, field.name());
    }
    line.push(b'\n');
    out.write_all(&line)
}

/// Appends rows to `out`. Errors: a column whose type has no text.
pub(super) fn rows(out: &mut Vec<u8>, batch: &RecordBatch) -> io::Result<()> {
    let columns: Vec<Cells<'_>> =
        batch.columns().iter().map(|column| cells(column.as_ref())).collect::<Result<_, _>>()?;
    for row in 0..batch.num_rows() {
        for (number, (column, cell)) in batch.columns().iter().zip(&columns).enumerate() {
            separate(out, number);
            if column.is_valid(row) {
                cell(out, row);
            }
        }
        out.push(b'\n');
    }
    Ok(())
}

/// Writes the cell of a row.
type Cells<'a> = Box<dyn Fn(&mut Vec<u8>, usize) + 'a>;

/// Returns the function that writes the cells of a column.
fn cells(column: &dyn Array) -> io::Result<Cells<'_>> {
    Ok(match column.data_type() {
        DataType::Utf8 => {
            let values = column.as_string::<i32>();
            Box::new(move |out, row| text(out, values.value(row)))
        }
        DataType::Dictionary(_, _) => {
            let names = column.as_dictionary::<Int32Type>();
            let values = names.values().as_string_opt::<i32>();
            let values =
                values.ok_or_else(|| io::Error::other("a dictionary of other than text"))?;
            Box::new(move |out, row| text(out, values.value(names.keys().value(row) as usize)))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            let values = column.as_primitive::<TimestampNanosecondType>().values();
            Box::new(move |out, row| time(out, values[row]))
        }
        _ => {
            let entries = entries(column)?;
            Box::new(move |out, row| entries(out, row..row + 1))
        }
    })
}

/// Writes a range of a column's values with separators.
type Entries<'a> = Box<dyn Fn(&mut Vec<u8>, std::ops::Range<usize>) + 'a>;

/// Returns the function that writes values of a column as entries of a list.
fn entries(column: &dyn Array) -> io::Result<Entries<'_>> {
    Ok(match column.data_type() {
        DataType::UInt8 => numbers::<UInt8Type>(column, |out, value| digits(out, value.into())),
        DataType::UInt16 => numbers::<UInt16Type>(column, |out, value| digits(out, value.into())),
        DataType::UInt32 => numbers::<UInt32Type>(column, |out, value| digits(out, value.into())),
        DataType::UInt64 => numbers::<UInt64Type>(column, digits),
        DataType::Int8 => numbers::<Int8Type>(column, |out, value| signed(out, value.into())),
        DataType::Int16 => numbers::<Int16Type>(column, |out, value| signed(out, value.into())),
        DataType::Int32 => numbers::<Int32Type>(column, |out, value| signed(out, value.into())),
        DataType::Int64 => numbers::<Int64Type>(column, signed),
        // With a point or an exponent, so that readers take whole numbers as floating-point too.
        DataType::Float32 => numbers::<Float32Type>(column, |out, value| shown(out, &value)),
        DataType::Float64 => numbers::<Float64Type>(column, |out, value| shown(out, &value)),
        DataType::Binary => {
            let values = column.as_binary::<i32>();
            Box::new(move |out, rows| {
                each(out, column, rows, BETWEEN_NUMBERS, |out, row| {
                    hexadecimal(out, values.value(row))
                });
            })
        }
        DataType::List(_) => {
            let lists = column.as_list::<i32>();
            let inner = entries(lists.values().as_ref())?;
            Box::new(move |out, rows| {
                let offsets = lists.value_offsets();
                each(out, column, rows, BETWEEN_LISTS, |out, row| {
                    inner(out, offsets[row] as usize..offsets[row + 1] as usize);
                });
            })
        }
        DataType::FixedSizeList(_, length) => {
            let length = *length as usize;
            let inner = entries(column.as_fixed_size_list().values().as_ref())?;
            Box::new(move |out, rows| {
                each(out, column, rows, BETWEEN_LISTS, |out, row| {
                    inner(out, row * length..(row + 1) * length);
                });
            })
        }
        other => return Err(io::Error::other(format!("a column of {other} has no text"))),
    })
}

fn numbers<T: ArrowPrimitiveType>(
    column: &dyn Array,
    write: impl Fn(&mut Vec<u8>, T::Native) + 'static,
) -> Entries<'_> {
    let values = column.as_primitive::<T>().values();
    Box::new(move |out, rows| {
        each(out, column, rows, BETWEEN_NUMBERS, |out, row| write(out, values[row]))
    })
}

fn each(
    out: &mut Vec<u8>,
    column: &dyn Array,
    rows: std::ops::Range<usize>,
    separator: u8,
    write: impl Fn(&mut Vec<u8>, usize),
) {
    let start = rows.start;
    for row in rows {
        if row > start {
            out.push(separator);
        }
        match column.is_valid(row) {
            true => write(out, row),
            false => out.extend_from_slice(b"null"),
        }
    }
}

fn separate(out: &mut Vec<u8>, number: usize) {
    if number > 0 {
        out.push(b',');
    }
}

/// Writes an integer; the formatter of the standard library takes several times as long.
fn digits(out: &mut Vec<u8>, mut value: u64) {
    let mut text = [0; 20];
    let mut start = text.len();
    loop {
        start -= 1;
        text[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[start..]);
}

fn signed(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    digits(out, value.unsigned_abs());
}

fn shown(out: &mut Vec<u8>, value: &dyn std::fmt::Debug) {
    // Writing to a vector does not fail.
    let _ = write!(out, "{value:?}");
}

fn hexadecimal(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    for byte in bytes {
        out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    if !text.contains([',', '"', '\n', '\r']) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(b'"');
    out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
    out.push(b'"');
}

/// Writes a time \[ns since 1970\] with 0, 3, 6 or 9 digits after the point.
fn time(out: &mut Vec<u8>, ns: i64) {
    let (seconds, fraction) = (ns.div_euclid(SECOND_NS), ns.rem_euclid(SECOND_NS));
    let (days, second) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
    let Date { year, month, day } = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // Writing to a vector does not fail.
    let _ = write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    let _ = match fraction {
        0 => Ok(()),
        ns if ns % 1_000_000 == 0 => write!(out, ".{:03}", ns / 1_000_000),
        ns if ns % 1000 == 0 => write!(out, ".{:06}", ns / 1000),
        ns => write!(out, ".{ns:09}"),
    };
    out.push(b'Z');
}

struct Date {
    year: i64,
    month: i64,
    day: i64,
}

/// Returns the date of a day, counted from 1 January 1970 in the Gregorian calendar.
///
/// Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`. A year
/// begins in March there, so that the leap day is its last day.
fn date(days: i64) -> Date {
    let days = days + 719_468; // from 1 March of year 0
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    Date { year, month, day }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, BinaryArray, Float64Array, Int8Array, ListArray, StringArray,
        TimestampNanosecondArray, UInt64Array,
    };
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    fn written(columns: Vec<(&str, ArrayRef)>) -> String {
        let batch = RecordBatch::try_from_iter(columns).expect("equal lengths");
        let mut text = Vec::new();
        head(&mut text, &batch.schema()).expect("memory");
        rows(&mut text, &batch).expect("columns that have texts");
        String::from_utf8(text).expect("UTF-8")
    }

    #[test]
    fn each_kind_of_column_has_its_text_and_absent_values_have_none() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("count", Arc::new(UInt64Array::from(vec![Some(u64::MAX), None]))),
            ("charge", Arc::new(Int8Array::from(vec![-128, 7]))),
            ("level", Arc::new(Float64Array::from(vec![2.0, 0.1]))),
            ("data", Arc::new(BinaryArray::from_vec(vec![&[0, 255], &[]]))),
            ("time", Arc::new(TimestampNanosecondArray::from(vec![0, -1]))),
        ];
        let lines = [
            "count,charge,level,data,time",
            "18446744073709551615,-128,2.0,00ff,1970-01-01T00:00:00Z",
            ",7,0.1,,1969-12-31T23:59:59.999999999Z",
            "",
        ];
        assert_eq!(written(columns), lines.join("\n"));
    }

    #[test]
    fn a_list_is_one_field() {
        let numbers = |lists: Vec<Option<Vec<Option<i16>>>>| {
            ListArray::from_iter_primitive::<Int16Type, _, _>(lists)
        };
        let lists = numbers(vec![Some(vec![Some(-1), None, Some(300)]), Some(vec![]), None]);
        let inner = numbers(vec![Some(vec![Some(1)]), Some(vec![Some(2), Some(3)])]);
        let field = Arc::new(arrow_schema::Field::new("item", inner.data_type().clone(), true));
        let offsets = arrow_buffer::OffsetBuffer::new(vec![0, 2, 2, 2].into());
        let nested = ListArray::new(field, offsets, Arc::new(inner), None);
        let columns: Vec<(&str, ArrayRef)> =
            vec![("flat", Arc::new(lists)), ("nested", Arc::new(nested))];
        assert_eq!(written(columns), "flat,nested\n-1 null 300,1;2 3\n,\n,\n");
    }

    #[test]
    fn every_day_of_800_years_follows_the_day_before() {
        let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..292_194 {
            let found = date(days);
            assert_eq!((found.year, found.month, found.day), (year, month, day), "day {days}");
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = lengths[month as usize - 1] + i64::from(leap && month == 2);
            day += 1;
            if day > length {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }

    /// Reads CSV by the grammar of RFC 4180, character by character.
    fn read(csv: &str) -> Vec<Vec<String>> {
        let (mut rows, mut row, mut cell, mut quoted) =
            (Vec::new(), Vec::new(), String::new(), false);
        let mut characters = csv.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '"' if quoted && characters.peek() == Some(&'"') => {
                    characters.next();
                    cell.push('"');
                }
                '"' => quoted = !quoted,
                ',' if !quoted => row.push(std::mem::take(&mut cell)),
                '\n' if !quoted => {
                    row.push(std::mem::take(&mut cell));
                    rows.push(std::mem::take(&mut row));
                }
                other => cell.push(other),
            }
        }
        rows
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default()
        })]
        #[test]
        fn any_texts_come_back(texts in proptest::collection::vec("[a,\"\n\r é]{0,6}", 1..20)) {
            let texts: ArrayRef = Arc::new(StringArray::from(texts));
            let csv = written(vec![("a,b", Arc::clone(&texts)), ("c", Arc::clone(&texts))]);
            let rows = read(&csv);
            prop_assert_eq!(&rows[0], &["a,b", "c"]);
            for (row, text) in rows[1..].iter().zip(texts.as_string::<i32>().iter().flatten()) {
                prop_assert_eq!(row, &[text, text]);
            }
            prop_assert_eq!(rows.len(), texts.len() + 1);
        }
    }
}
