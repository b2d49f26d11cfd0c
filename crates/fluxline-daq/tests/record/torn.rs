//! The program dies in the middle of a write, at any byte.

use std::fs::{self, OpenOptions};

use crate::samples::{copy_run, event_files, files_of, read_all, record, small_batches};

#[test]
fn cut_at_every_byte_every_complete_batch_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let run = record(dir.path(), files_of(1 << 20), &small_batches(3));
    let (whole, _) = read_all(&run);
    let file = event_files(&run).remove(0);
    let size = fs::metadata(&file).unwrap().len();
    // Where each batch ends, found by the reader itself: the cut at which one more is read.
    let copy = dir.path().join("copy");
    copy_run(&run, &copy);
    let torn = event_files(&copy).remove(0);
    let mut complete = whole.len();
    for cut in (0..size).rev() {
        OpenOptions::new().write(true).open(&torn).unwrap().set_len(cut).unwrap();
        let (found, report) = read_all(&copy);
        assert!(found.len() == complete || found.len() + 1 == complete, "cut at {cut}");
        complete = found.len();
        assert_eq!(found, whole[..complete], "cut at {cut}");
        let torn_bytes: u64 = report.tails.iter().map(|tail| tail.torn_bytes).sum();
        let good_bytes = report.tails.first().map_or(cut, |tail| tail.good_bytes);
        assert_eq!(good_bytes + torn_bytes, cut);
        assert_eq!(report.unfinished_files, [torn.clone()]);
        assert!(report.damages.is_empty());
    }
    assert_eq!(complete, 0);
}

#[test]
fn zeros_after_a_power_cut_are_a_torn_tail() {
    let dir = tempfile::tempdir().unwrap();
    let run = record(dir.path(), files_of(1 << 20), &small_batches(3));
    let file = event_files(&run).remove(0);
    let size = fs::metadata(&file).unwrap().len();
    let handle = OpenOptions::new().write(true).open(&file).unwrap();
    handle.set_len(size - 8 - 100).unwrap();
    handle.set_len(size + 100_000).unwrap();
    let (found, report) = read_all(&run);
    assert_eq!(found.len(), 2);
    assert_eq!(report.tails.len(), 1);
    assert!(report.tails[0].torn_bytes > 100_000);
}
