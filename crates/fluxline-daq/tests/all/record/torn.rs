//! The program dies in the middle of a write, at any byte.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::Path;

use fluxline_core::Moment;
use fluxline_daq::record::{Recorder, RecoverError, RunFolder, recover};
use serde_json::json;

use super::samples::{copy_run, event_files, files_of, read_all, record, small_batches};

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
        assert_eq!(report.unfinished_files, std::slice::from_ref(&torn));
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

/// The names and contents of the files in a folder.
fn contents(run: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(run)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect()
}

#[test]
fn cut_at_every_byte_recovery_keeps_every_complete_batch_and_is_idempotent() {
    let dir = tempfile::tempdir().unwrap();
    let run = record(dir.path(), files_of(6000), &small_batches(4));
    RunFolder::open(&run).unwrap().write_run(&json!({"state": "running"})).unwrap();
    let (whole, _) = read_all(&run);
    let files = event_files(&run);
    assert!(files.len() > 1, "the first file must not be touched by what happens to the last");
    let last = files.last().unwrap();
    let bytes = fs::read(last).unwrap();
    let copy = dir.path().join("copy");
    for cut in (0..=bytes.len()).step_by(61).chain(bytes.len() - 9..bytes.len()) {
        copy_run(&run, &copy);
        let torn = copy.join(last.file_name().unwrap());
        fs::write(&torn, &bytes[..cut]).unwrap();
        let (before, torn_report) = read_all(&copy);
        let report = recover(&copy).unwrap();
        let (after, found) = read_all(&copy);
        assert_eq!(before, after, "cut at {cut}");
        assert_eq!(after, whole[..after.len()]);
        assert_eq!(report.found, found);
        assert!(found.tails.is_empty() && found.unfinished_files.is_empty());
        // The cut bytes are kept beside the file.
        let cut_bytes: u64 = report.cuts.iter().map(|cut| cut.cut_bytes).sum();
        assert_eq!(cut_bytes, torn_report.tails.iter().map(|tail| tail.torn_bytes).sum::<u64>());
        for piece in report.cuts.iter().filter(|piece| piece.cut_bytes > 0) {
            let kept = fs::read(piece.kept_as.as_ref().unwrap()).unwrap();
            assert_eq!(kept, bytes[cut - kept.len()..cut]);
        }
        let state = RunFolder::open(&copy).unwrap().read_run().unwrap();
        assert_eq!(
            (&state["state"], &state["state_before"]),
            (&json!("recovered"), &json!("running"))
        );
        assert_eq!(state["recovered"]["events"], found.events);
        // Arrow's own reader takes every file to its end.
        for file in event_files(&copy) {
            let stream = fs::File::open(file).unwrap();
            let mut reader = arrow_ipc::reader::StreamReader::try_new(stream, None).unwrap();
            assert!(reader.by_ref().all(|batch| batch.is_ok()));
            assert!(reader.is_finished());
        }
        let once = contents(&copy);
        assert!(!recover(&copy).unwrap().changed);
        assert_eq!(contents(&copy), once, "cut at {cut}");
    }
}

#[test]
fn recovery_leaves_a_finished_run_and_a_running_one_alone() {
    let dir = tempfile::tempdir().unwrap();
    let run = record(dir.path(), files_of(1 << 20), &small_batches(2));
    RunFolder::open(&run).unwrap().write_run(&json!({"state": "finished", "x": 1})).unwrap();
    let before = contents(&run);
    assert!(!recover(&run).unwrap().changed);
    assert_eq!(contents(&run), before);

    let folder = RunFolder::create_next(dir.path()).unwrap();
    let live = folder.path().to_path_buf();
    let mut recorder = Recorder::open(folder, files_of(1 << 20));
    recorder.write(&small_batches(1)[0], Moment::from_ns(0)).unwrap();
    assert!(matches!(recover(&live), Err(RecoverError::Running(_))));
    drop(recorder);
    assert_eq!(recover(&live).unwrap().found.events, 3);
}

#[test]
fn a_batch_spoilt_at_the_end_is_cut_and_one_in_the_middle_stays() {
    let dir = tempfile::tempdir().unwrap();
    let run = record(dir.path(), files_of(1 << 20), &small_batches(3));
    let file = event_files(&run).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    // Without an end mark the file is one that a crash left.
    bytes.truncate(bytes.len() - 8);
    let mut spoilt = bytes.clone();
    let place = bytes.len() - 20;
    spoilt[place] ^= 1;
    let third = bytes.len() / 3;
    spoilt[third + 600] ^= 1;
    fs::write(&file, &spoilt).unwrap();
    let (_, report) = read_all(&run);
    assert_eq!((report.batches, report.damages.len(), report.tails.len()), (1, 1, 1), "{report:?}");
    let report = recover(&run).unwrap();
    assert_eq!(report.cuts.len(), 1);
    assert_eq!(report.found.damages.len(), 1);
    assert!(!recover(&run).unwrap().changed);
}

#[test]
fn a_torn_line_of_sources_is_mended() {
    let dir = tempfile::tempdir().unwrap();
    let run = record(dir.path(), files_of(1 << 20), &small_batches(1));
    let file = run.join("sources.jsonl");
    let line = r#"{"source":0,"name":"a","format":"x","port":9000}"#;
    for (text, lines) in
        [(format!("{line}\n{}", &line[..20]), 1), (line.to_owned(), 1), (line[..9].to_owned(), 0)]
    {
        fs::write(&file, text).unwrap();
        assert!(recover(&run).unwrap().changed);
        assert_eq!(RunFolder::open(&run).unwrap().sources().unwrap().len(), lines);
        assert!(!recover(&run).unwrap().changed);
    }
}
