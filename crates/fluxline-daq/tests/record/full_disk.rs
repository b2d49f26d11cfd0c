//! The disk is full, or the file is taken away.

use std::fs;
use std::path::Path;
use std::process::Command;

use fluxline_core::Moment;
use fluxline_daq::record::{
    Recorder, RecorderConfig, RecorderState, RunFolder, SyncPolicy, WriteFault,
};

use crate::samples::{event_files, files_of, read_all, small_batches};

/// A disk of 1 MiB, for as long as it lives; none without the right to mount one.
struct TinyDisk<'a>(&'a Path);

impl TinyDisk<'_> {
    fn mount(path: &Path) -> Option<TinyDisk<'_>> {
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(path)
            .output();
        if mount.is_ok_and(|output| output.status.success()) {
            return Some(TinyDisk(path));
        }
        println!("skipped: no right to mount a small disk here");
        None
    }
}

impl Drop for TinyDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_disk_that_fills_stops_recording_and_keeps_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = TinyDisk::mount(dir.path()) else { return };
    let folder = RunFolder::create_next(&disk.0.join("runs")).unwrap();
    let run = folder.path().to_path_buf();
    let mut recorder = Recorder::open(folder, files_of(200_000));
    let mut batch = small_batches(1).remove(0);
    let grown = 30_001 - batch.packets[0].bytes;
    batch.packets[0].bytes += grown;
    batch.bytes.splice(0..0, vec![0xA5; grown as usize]);
    let now = Moment::from_ns(0);
    let results: Vec<_> = (0..100).map(|_| recorder.write(&batch, now)).collect();
    let written = results.iter().filter(|result| result.is_ok()).count();
    assert!(written > 20 && written < 40, "{written} written");
    let fault = results[written].clone().unwrap_err();
    assert!(matches!(fault, WriteFault::NoSpace { .. }), "{fault}");
    assert!(results[written..].iter().all(|result| *result == Err(fault.clone())));
    assert_eq!(*recorder.state(), RecorderState::Stopped { reason: fault.clone() });
    assert_eq!(recorder.finish(), Err(fault));
    let counts = recorder.counts();
    assert_eq!(counts.written.events, 3 * written as u64);
    assert_eq!(counts.failed.events, 3 * (100 - written) as u64);
    assert_eq!(counts.failed.packets, 6 * (100 - written) as u64);
    assert_eq!(counts.failed.bytes, (batch.bytes.len() * (100 - written)) as u64);
    let (found, report) = read_all(&run);
    assert_eq!(found.len(), written);
    assert!(found.iter().all(|(_, read)| *read == batch));
    assert!(report.tails.is_empty(), "the torn end is cut: {:?}", report.tails);
}

#[test]
fn a_removed_file_is_noticed_and_its_events_count_as_failed() {
    let dir = tempfile::tempdir().unwrap();
    let folder = RunFolder::create_next(dir.path()).unwrap();
    let run = folder.path().to_path_buf();
    let batch = small_batches(1).remove(0);
    let mut recorder = Recorder::open(folder, files_of(8000));
    let now = Moment::from_ns(0);
    while recorder.counts().files < 2 {
        recorder.write(&batch, now).unwrap();
    }
    let kept = recorder.counts().written.events - 3;
    let files = event_files(&run);
    fs::remove_file(&files[1]).unwrap();
    let fault = recorder.write(&batch, now).unwrap_err();
    assert_eq!(fault, WriteFault::Removed { file: files[1].clone() });
    assert_eq!(recorder.write(&batch, now), Err(fault));
    let counts = recorder.counts();
    assert_eq!((counts.written.events, counts.failed.events), (kept, 9));
    assert_eq!(read_all(&run).1.events, kept);
    assert_eq!(counts.file_bytes, fs::metadata(&files[0]).unwrap().len());
}

#[test]
fn a_folder_that_is_gone_is_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let folder = RunFolder::create_next(dir.path()).unwrap();
    fs::remove_dir_all(folder.path()).unwrap();
    let mut recorder = Recorder::open(folder, files_of(8000));
    let fault = recorder.write(&small_batches(1)[0], Moment::from_ns(0)).unwrap_err();
    assert!(fault.to_string().contains("was removed while it was written"), "{fault}");
    assert_eq!(recorder.counts().failed.events, 3);
    assert_eq!(recorder.counts().files, 0);
}

#[test]
fn each_choice_of_durability_records_the_same() {
    for sync in [SyncPolicy::None, SyncPolicy::Batch, SyncPolicy::EverySeconds(1.0)] {
        let dir = tempfile::tempdir().unwrap();
        let folder = RunFolder::create_next(dir.path()).unwrap();
        let run = folder.path().to_path_buf();
        let mut recorder = Recorder::open(
            folder,
            RecorderConfig { file_bytes: 6000, sync, ..RecorderConfig::default() },
        );
        let batches = small_batches(8);
        for (second, batch) in batches.iter().enumerate() {
            recorder.write(batch, Moment::from_ns(second as u64 * 700_000_000)).unwrap();
        }
        recorder.finish().unwrap();
        let read: Vec<_> = read_all(&run).0.into_iter().map(|(_, batch)| batch).collect();
        assert_eq!(read, batches);
    }
}
