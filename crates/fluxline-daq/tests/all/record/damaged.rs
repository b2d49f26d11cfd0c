//! Bits flip on the disk, or a file is not what its name says.

use std::fs;

use fluxline_core::random::Draw;
use fluxline_daq::record::{ReadError, RunFolder, RunReader};

use super::samples::{copy_run, event_files, files_of, read_all, record, small_batches};

#[test]
fn every_flipped_bit_is_found_and_costs_one_batch() {
    let dir = tempfile::tempdir().unwrap();
    let run = record(dir.path(), files_of(1 << 20), &small_batches(3));
    let (whole, _) = read_all(&run);
    let bytes = fs::read(&event_files(&run)[0]).unwrap();
    let copy = dir.path().join("copy");
    copy_run(&run, &copy);
    let file = event_files(&copy).remove(0);
    for place in 0..bytes.len() {
        let mut spoilt = bytes.clone();
        spoilt[place] ^= 1 << (place % 8);
        fs::write(&file, &spoilt).unwrap();
        let (found, report) = read_all(&copy);
        assert!(found.len() + 1 >= whole.len(), "byte {place}: {} batches", found.len());
        assert!(found.iter().all(|batch| whole.contains(batch)), "byte {place} went unnoticed");
        let noticed = report.damages.len() + report.tails.len();
        assert_eq!(noticed, 1, "byte {place}: {report:?}");
    }
}

#[test]
fn a_file_of_another_program_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let run = RunFolder::create_next(dir.path()).unwrap();
    fs::write(run.path().join("events-000000.arrows"), vec![0xFF; 1000]).unwrap();
    let (found, report) = read_all(run.path());
    assert!(found.is_empty());
    assert_eq!(report.tails[0].torn_bytes, 1000);
    fs::remove_file(run.path().join("events-000000.arrows")).unwrap();
    assert!(matches!(RunReader::open(run.path()), Err(ReadError::Folder(_))));
}

#[test]
fn random_bytes_over_a_run_are_never_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let run = record(dir.path(), files_of(1 << 20), &small_batches(4));
    let (whole, _) = read_all(&run);
    let file = event_files(&run).remove(0);
    let bytes = fs::read(&file).unwrap();
    for seed in 0..200 {
        let (mut draw, mut damaged) = (Draw::new(seed), bytes.clone());
        for _ in 0..=draw.below(39) {
            let place = draw.below(bytes.len() as u64) as usize;
            damaged[place] = draw.bits() as u8;
        }
        damaged.truncate(draw.below(bytes.len() as u64 + 1) as usize);
        fs::write(&file, &damaged).unwrap();
        let (found, _) = read_all(&run);
        assert!(found.iter().all(|batch| whole.contains(batch)), "seed {seed}");
    }
}
