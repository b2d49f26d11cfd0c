//! Writes tables as CSV (RFC 4180) with a head line.
//!
//! Texts are quoted where necessary, bytes are hexadecimal digits, times are UTC in the form of RFC
//! 3339, and an absent value is an empty field. The crate `arrow-csv` does the same for every type
//! of Arrow, but takes longer to compile than the rest of an export.

use std::io::{self, Write};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema, TimeUnit};

const SECOND_NS: i64 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;

/// A CSV file that is being written, in many small writes.
pub(super) struct CsvWriter<W> {
    out: W,
}

impl<W: Write> CsvWriter<W> {
    /// Writes the head line.
    pub(super) fn create(mut out: W, schema: &Schema) -> io::Result<CsvWriter<W>> {
        for (number, field) in schema.fields().iter().enumerate() {
            separate(&mut out, number)?;
            text(&mut out, field.name())?;
        }
        out.write_all(b"\n")?;
        Ok(CsvWriter { out })
    }

    /// Appends rows. Errors: the file's, and a column whose type has no text.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let columns: Vec<Cells<'_>> = batch
            .columns()
            .iter()
            .map(|column| cells(column.as_ref()))
            .collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            for (number, (column, cell)) in batch.columns().iter().zip(&columns).enumerate() {
                separate(&mut self.out, number)?;
                if column.is_valid(row) {
                    cell(&mut self.out, row)?;
                }
            }
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Returns the file.
    pub(super) fn finish(self) -> W {
        self.out
    }
}

/// Writes the cell of a row.
type Cells<'a> = Box<dyn Fn(&mut dyn Write, usize) -> io::Result<()> + 'a>;

/// Returns the function that writes the cells of a column.
fn cells(column: &dyn Array) -> io::Result<Cells<'_>> {
    macro_rules! shown {
        ($kind:ty, $format:literal) => {{
            let values = column.as_primitive::<$kind>().values();
            Box::new(move |out, row| write!(out, $format, values[row]))
        }};
    }
    Ok(match column.data_type() {
        DataType::UInt8 => shown!(UInt8Type, "{}"),
        DataType::UInt16 => shown!(UInt16Type, "{}"),
        DataType::UInt32 => shown!(UInt32Type, "{}"),
        DataType::UInt64 => shown!(UInt64Type, "{}"),
        DataType::Int8 => shown!(Int8Type, "{}"),
        DataType::Int16 => shown!(Int16Type, "{}"),
        DataType::Int32 => shown!(Int32Type, "{}"),
        DataType::Int64 => shown!(Int64Type, "{}"),
        // With a point or an exponent, so that readers take whole numbers as floating-point too.
        DataType::Float32 => shown!(Float32Type, "{:?}"),
        DataType::Float64 => shown!(Float64Type, "{:?}"),
        DataType::Utf8 => {
            let values = column.as_string::<i32>();
            Box::new(move |out, row| text(out, values.value(row)))
        }
        DataType::Binary => {
            let values = column.as_binary::<i32>();
            Box::new(move |out, row| {
                values.value(row).iter().try_for_each(|byte| write!(out, "{byte:02x}"))
            })
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            let values = column.as_primitive::<TimestampNanosecondType>().values();
            Box::new(move |out, row| time(out, values[row]))
        }
        other => return Err(io::Error::other(format!("a column of {other} has no text"))),
    })
}

fn separate(out: &mut dyn Write, number: usize) -> io::Result<()> {
    if number == 0 { Ok(()) } else { out.write_all(b",") }
}

fn text(out: &mut dyn Write, text: &str) -> io::Result<()> {
    if !text.contains([',', '"', '\n', '\r']) {
        return out.write_all(text.as_bytes());
    }
    write!(out, "\"{}\"", text.replace('"', "\"\""))
}

/// Writes a time \[ns since 1970\] with 0, 3, 6 or 9 digits after the point.
fn time(out: &mut dyn Write, ns: i64) -> io::Result<()> {
    let (seconds, fraction) = (ns.div_euclid(SECOND_NS), ns.rem_euclid(SECOND_NS));
    let (days, second) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
    let Date { year, month, day } = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
    match fraction {
        0 => {}
        ns if ns % 1_000_000 == 0 => write!(out, ".{:03}", ns / 1_000_000)?,
        ns if ns % 1000 == 0 => write!(out, ".{:06}", ns / 1000)?,
        ns => write!(out, ".{ns:09}")?,
    }
    out.write_all(b"Z")
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
        ArrayRef, BinaryArray, Float64Array, Int8Array, StringArray, TimestampNanosecondArray,
        UInt64Array,
    };
    use proptest::prelude::*;

    use super::*;

    fn written(columns: Vec<(&str, ArrayRef)>) -> String {
        let batch = RecordBatch::try_from_iter(columns).expect("equal lengths");
        let mut writer = CsvWriter::create(Vec::new(), &batch.schema()).expect("memory");
        writer.write(&batch).expect("memory");
        String::from_utf8(writer.finish()).expect("UTF-8")
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
