//! The parts of one capture that a tool wrote into several files, in the order of writing.

use std::cmp::Ordering;
use std::fs::File;
use std::path::{Path, PathBuf};

use fluxline_proto::Moment;

use super::CaptureError;
use super::records::{Next, Records};

/// Sorts captures by the time of their first frame; captures without frames come first, and equal
/// times are in the order of names.
///
/// Errors: a file that is not a capture, or whose first frame is damaged. Cost: opens each file
/// and reads its begin.
pub fn by_first_frame(mut files: Vec<PathBuf>) -> Result<Vec<PathBuf>, CaptureError> {
    if files.len() < 2 {
        return Ok(files); // one that can be read only once is not read here
    }
    by_name(&mut files);
    let mut timed = Vec::with_capacity(files.len());
    for file in files {
        timed.push((first_frame(&file)?, file));
    }
    timed.sort_by_key(|(time, _)| *time);
    Ok(timed.into_iter().map(|(_, file)| file).collect())
}

/// Sorts files by name, with numbers in names by their value: `raw_2.bin` before `raw_10.bin`.
pub fn by_name(files: &mut [PathBuf]) {
    files.sort_by(|one, other| {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        compare_names(&text(one), &text(other)).then_with(|| one.cmp(other))
    });
}

/// Opens a file that is to be read.
pub(super) fn open(file: &Path) -> Result<File, CaptureError> {
    File::open(file).map_err(|source| CaptureError::Open { file: file.to_path_buf(), source })
}

fn first_frame(file: &Path) -> Result<Option<Moment>, CaptureError> {
    let mut records = Records::new(file, open(file)?)?;
    match records.next() {
        Ok(Next::Frame(record)) => Ok(Some(record.time)),
        Ok(Next::End | Next::Cut) => Ok(None),
        Err(problem) => Err(CaptureError::Damaged { file: file.to_path_buf(), frames: 0, problem }),
    }
}

/// Compares two names: runs of digits by value, everything else by character.
fn compare_names(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (one, other);
    loop {
        let (first, second) = (number_at_start(one), number_at_start(other));
        let (order, used) = match (first, second) {
            (Some(first), Some(second)) => {
                (first.value().cmp(&second.value()), [first.digits.len(), second.digits.len()])
            }
            _ => match (one.chars().next(), other.chars().next()) {
                (Some(first), Some(second)) => {
                    (first.cmp(&second), [first.len_utf8(), second.len_utf8()])
                }
                (first, second) => return first.is_some().cmp(&second.is_some()),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
        (one, other) = (&one[used[0]..], &other[used[1]..]);
    }
}

/// A run of digits.
#[derive(Clone, Copy)]
struct Digits<'a> {
    digits: &'a str,
}

impl<'a> Digits<'a> {
    /// What orders it by value, however long it is.
    fn value(self) -> (usize, &'a str) {
        let significant = self.digits.trim_start_matches('0');
        (significant.len(), significant)
    }
}

fn number_at_start(text: &str) -> Option<Digits<'_>> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (end > 0).then(|| Digits { digits: &text[..end] })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::by_name;

    #[test]
    fn file_10_comes_after_file_9() {
        let sorted = ["a", "raw_2.bin", "raw_10.bin", "raw_010.bin", "raw_11.bin", "raw_x.bin"];
        let mut files: Vec<PathBuf> = sorted.iter().rev().map(PathBuf::from).collect();
        by_name(&mut files);
        let mut expected: Vec<PathBuf> = sorted.iter().map(PathBuf::from).collect();
        expected.swap(2, 3); // equal numbers: by character
        assert_eq!(files, expected);
    }
}
