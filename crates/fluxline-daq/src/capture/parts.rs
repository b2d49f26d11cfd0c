//! The parts of one capture that a tool wrote into several files, in the order of writing.

use std::cmp::Ordering;
use std::fs::File;
use std::path::{Path, PathBuf};

use fluxline_core::Moment;

use super::CaptureError;
use super::records::{Next, Records};
use crate::input_file;

/// Sorts captures by the time of their first frame; captures without frames come first, and equal
/// times are in the order of names.
///
/// Errors: a file that is not a capture, or whose first frame is damaged. Cost: opens each file
/// and reads its begin.
pub fn by_first_frame(mut files: Vec<PathBuf>) -> Result<Vec<PathBuf>, CaptureError> {
    if files.len() < 2 {
        return Ok(files); // a single file may be readable only once
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

/// Opens a file for reading.
pub(super) fn open(file: &Path) -> Result<File, CaptureError> {
    input_file::open(file).map_err(|source| CaptureError::Open { file: file.to_path_buf(), source })
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
    /// Returns a value that orders it by number, however long it is.
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
    use std::path::{Path, PathBuf};

    use super::super::raw::{Framing, LengthPrefix, RawReader};
    use super::super::{CaptureError, CaptureReader};
    use super::{by_first_frame, by_name};

    #[test]
    fn file_10_comes_after_file_9() {
        let sorted = ["a", "raw_2.bin", "raw_10.bin", "raw_010.bin", "raw_11.bin", "raw_x.bin"];
        let mut files: Vec<PathBuf> = sorted.iter().rev().map(PathBuf::from).collect();
        by_name(&mut files);
        let mut expected: Vec<PathBuf> = sorted.iter().map(PathBuf::from).collect();
        expected.swap(2, 3); // equal numbers: by character
        assert_eq!(files, expected);
    }

    /// A pcap file with one Ethernet frame per `(second, bytes 0..n of a fragmented datagram)`.
    fn write(folder: &Path, name: &str, frames: &[(u32, &[u8])]) -> PathBuf {
        let mut bytes = 0xA1B2_C3D4_u32.to_le_bytes().to_vec();
        bytes.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0]);
        for (second, frame) in frames {
            for word in [*second, 0, frame.len() as u32, frame.len() as u32] {
                bytes.extend(word.to_le_bytes());
            }
            bytes.extend(*frame);
        }
        let file = folder.join(name);
        std::fs::write(&file, bytes).expect("written");
        file
    }

    /// The two IP fragments of one UDP datagram with a payload of 24 bytes.
    fn halves() -> [Vec<u8>; 2] {
        let udp = [&[0x10, 0, 0x20, 0, 0, 32, 0, 0][..], &[7; 24]].concat();
        [(0_u16, 0x2000_u16), (16, 0)].map(|(offset, more)| {
            let flags = ((offset / 8) | more).to_be_bytes();
            let head = [0x45, 0, 0, 36, 0x12, 0x34, flags[0], flags[1], 64, 17, 0, 0];
            let addresses = [10, 0, 0, 1, 10, 0, 0, 2];
            let data = &udp[usize::from(offset)..usize::from(offset) + 16];
            [&[0; 12][..], &[8, 0], &head, &addresses, data].concat()
        })
    }

    #[test]
    fn a_datagram_whose_fragments_are_in_two_files_is_joined() {
        let folder = tempfile::tempdir().expect("a folder");
        let [first, second] = halves();
        let later = write(folder.path(), "a.pcap", &[(2, &second)]);
        let earlier = write(folder.path(), "b.pcap", &[(1, &first)]);
        let empty = write(folder.path(), "c.pcap", &[]);
        let files = by_first_frame(vec![later.clone(), earlier.clone(), empty.clone()]);
        let files = files.expect("captures");
        assert_eq!(files, [empty, earlier, later]);
        let mut reader =
            CaptureReader::open_parts(&files[0], files[1..].to_vec()).expect("a capture");
        let payload = reader.next().expect("readable").expect("a datagram").bytes.to_vec();
        assert_eq!(payload, [7; 24]);
        assert!(reader.next().expect("readable").is_none());
        assert_eq!((reader.counters().frames, reader.counters().fragments_left), (2, 0));
    }

    #[test]
    fn a_part_that_is_cut_or_gone_or_damaged_does_not_end_the_capture() {
        let folder = tempfile::tempdir().expect("a folder");
        let frame: &[u8] = &halves()[0];
        let name = |number: u32| format!("{number}.pcap");
        let files: Vec<PathBuf> =
            (0..5).map(|at| write(folder.path(), &name(at), &[(at, frame), (at, frame)])).collect();
        let whole = std::fs::read(&files[1]).expect("readable");
        std::fs::write(&files[1], &whole[..whole.len() - 5]).expect("written");
        std::fs::remove_file(&files[2]).expect("removed");
        let mut broken = whole;
        broken[24 + 8..24 + 12].copy_from_slice(&[0xFF; 4]);
        std::fs::write(&files[3], broken).expect("written");
        let mut reader =
            CaptureReader::open_parts(&files[0], files[1..].to_vec()).expect("a capture");
        let (mut gone, mut damaged) = (0, 0);
        loop {
            match reader.next() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(CaptureError::Open { file, .. }) if file == files[2] => gone += 1,
                Err(CaptureError::Damaged { file, frames: 0, .. }) if file == files[3] => {
                    damaged += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!((gone, damaged), (1, 1));
        assert_eq!(reader.counters().frames, 2 + 1 + 2, "of the files 0, 1 and 4");
        let cut = reader.cut().expect("a sentence");
        assert!(cut.contains("1.pcap") && cut.contains("the 1 whole frames"), "{cut}");
    }

    #[test]
    fn a_raw_file_that_is_cut_or_gone_does_not_end_the_reading() {
        let folder = tempfile::tempdir().expect("a folder");
        let files: Vec<PathBuf> =
            (0..4).map(|at| folder.path().join(format!("{at}.raw"))).collect();
        std::fs::write(&files[0], [1, 0, 10]).expect("written");
        std::fs::write(&files[1], [1, 0, 11, 9, 0, 1]).expect("written");
        std::fs::write(&files[3], [1, 0, 13]).expect("written");
        let mut reader = RawReader::open_parts(
            &files[0],
            files[1..].to_vec(),
            Framing::Prefixed(LengthPrefix::U16Le),
        )
        .expect("a file");
        let (mut payloads, mut gone) = (Vec::new(), 0);
        loop {
            match reader.next() {
                Ok(Some(datagram)) => payloads.push(datagram.bytes.to_vec()),
                Ok(None) => break,
                Err(CaptureError::Open { .. }) => gone += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!((payloads, gone), (vec![vec![10], vec![11], vec![13]], 1));
        assert!(reader.cut().is_some_and(|cut| cut.contains("1.raw")));
    }
}
