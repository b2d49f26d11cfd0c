//! The disk is full or does not confirm, or the file is taken away.

use std::fs;
use std::io::{self, ErrorKind, IoSlice};
use std::path::Path;

use fluxline_core::Moment;
use fluxline_daq::record::{
    Disk, Recorder, RecorderConfig, RecorderState, RunFolder, Storage, SyncPolicy, WriteFault,
    WriteMode,
};

use super::samples::{event_files, files_of, read_all, small_batches};

/// A disk that fills, and then takes only the beginning of a message.
#[derive(Debug)]
struct SmallDisk {
    disk: Disk,
    /// Free space \[byte\].
    left: usize,
    /// True if it confirms written bytes.
    confirms: bool,
}

impl Storage for SmallDisk {
    fn create(&mut self, path: &Path) -> io::Result<()> {
        self.disk.create(path)
    }

    fn append(&mut self, end: u64, parts: &mut [IoSlice<'_>]) -> io::Result<u64> {
        let message: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
        let fits = message.len().min(self.left);
        self.left -= fits;
        let written = self.disk.append(end, &mut [IoSlice::new(&message[..fits])])?;
        match fits == message.len() {
            true => Ok(written),
            false => Err(ErrorKind::StorageFull.into()),
        }
    }

    fn is_removed(&self) -> bool {
        self.disk.is_removed()
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.disk.cut(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        match self.confirms {
            true => self.disk.sync(),
            false => Err(io::Error::other("input/output error")),
        }
    }

    fn close(&mut self) {
        self.disk.close();
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn append_line(&mut self, path: &Path, line: &str) -> io::Result<()> {
        self.disk.append_line(path, line)
    }

    fn sync_lines(&mut self) -> io::Result<()> {
        self.disk.sync_lines()
    }

    fn sync_folder(&mut self, path: &Path) -> io::Result<()> {
        self.disk.sync_folder(path)
    }
}

#[test]
fn a_disk_that_fills_stops_recording_and_keeps_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let folder = RunFolder::create_next(dir.path()).unwrap();
    let run = folder.path().to_path_buf();
    let disk = SmallDisk { disk: Disk::new(WriteMode::Auto), left: 1_000_000, confirms: true };
    let mut recorder = Recorder::open_on(folder, files_of(200_000), disk);
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
fn a_disk_that_does_not_confirm_stops_recording_and_says_how_much_may_be_lost() {
    let dir = tempfile::tempdir().unwrap();
    let folder = RunFolder::create_next(dir.path()).unwrap();
    let run = folder.path().to_path_buf();
    let disk = SmallDisk { disk: Disk::new(WriteMode::Auto), left: 1_000_000, confirms: false };
    let config = RecorderConfig { sync: SyncPolicy::Batch, ..RecorderConfig::default() };
    let mut recorder = Recorder::open_on(folder, config, disk);
    let batch = small_batches(1).remove(0);
    let fault = recorder.write(&batch, Moment::from_ns(0)).unwrap_err();
    let written = fs::metadata(&event_files(&run)[0]).unwrap().len();
    assert!(
        matches!(&fault, WriteFault::NotConfirmed { bytes, .. } if *bytes == written),
        "{fault}"
    );
    assert_eq!(recorder.counts().written.events, batch.events.len() as u64);
    assert_eq!(recorder.write(&batch, Moment::from_ns(0)), Err(fault));
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
