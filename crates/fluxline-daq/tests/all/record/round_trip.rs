//! Reading returns the recorded data, row by row.

use fluxline_core::Moment;
use fluxline_daq::event::EventBatch;
use fluxline_daq::record::{Recorder, RunFolder, WriteFault};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::samples::{any_batch, event_files, files_of, read_all, record, small_batches};

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default()
    })]

    #[test]
    fn any_batches_come_back_as_they_were(
        batches in proptest::collection::vec(any_batch(), 0..6),
        file_bytes in prop_oneof![Just(1), Just(8_000), Just(1 << 30)],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let run = RunFolder::create_next(dir.path()).unwrap();
        let path = run.path().to_path_buf();
        let mut recorder = Recorder::open(run, files_of(file_bytes));
        for batch in &batches {
            recorder.write(batch, Moment::from_ns(0)).unwrap();
        }
        recorder.finish().unwrap();
        let counts = recorder.counts();
        // An empty batch leaves no message.
        let expected: Vec<_> = batches.into_iter().filter(|batch| !batch.is_empty()).collect();
        if expected.is_empty() {
            prop_assert_eq!(counts.files, 0);
            return Ok(());
        }
        let (found, report) = read_all(&path);
        prop_assert_eq!(counts.batches, expected.len() as u64);
        prop_assert_eq!(report.batches, counts.batches);
        prop_assert_eq!(report.events, counts.written.events);
        prop_assert_eq!(report.packets, counts.written.packets);
        prop_assert_eq!(report.bytes, counts.written.bytes);
        prop_assert!(report.tails.is_empty() && report.damages.is_empty());
        prop_assert!(report.unfinished_files.is_empty());
        prop_assert_eq!(report.batches_missing, 0);
        let disk: u64 = event_files(&path).iter().map(|f| f.metadata().unwrap().len()).sum();
        prop_assert_eq!(disk, counts.file_bytes);
        for (index, (number, batch)) in found.into_iter().enumerate() {
            prop_assert_eq!(number, index as u64);
            prop_assert_eq!(&batch, &expected[index]);
        }
    }
}

#[test]
fn each_file_is_complete_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let batches = small_batches(6);
    let run = record(dir.path(), files_of(1), &batches);
    let files = event_files(&run);
    assert_eq!(files.len(), 6, "one batch per file, since every file has at least one");
    // Arrow's own reader takes each of them alone.
    for (file, batch) in files.iter().zip(&batches) {
        let file = std::fs::File::open(file).unwrap();
        let reader = arrow_ipc::reader::StreamReader::try_new(file, None).unwrap();
        assert_eq!(reader.schema().metadata().get("fluxline.run").unwrap(), "0000");
        let rows: usize = reader.map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(rows, batch.events.len());
    }
    // A file that is lost in the middle is noticed.
    std::fs::remove_file(&files[2]).unwrap();
    let (found, report) = read_all(&run);
    assert_eq!((found.len(), report.batches_missing), (5, 1));
}

#[test]
fn a_batch_that_does_not_add_up_is_refused_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder =
        Recorder::open(RunFolder::create_next(dir.path()).unwrap(), files_of(1 << 20));
    let good = small_batches(1).remove(0);
    let mut spoilt: Vec<EventBatch> = vec![good.clone(); 4];
    spoilt[0].events[0].packets += 1;
    spoilt[1].bytes.pop();
    spoilt[2].missing.push('x');
    spoilt[3].packets[1].bytes = u32::MAX;
    let now = Moment::from_ns(0);
    for batch in &spoilt {
        assert_eq!(recorder.write(batch, now), Err(WriteFault::Inconsistent));
    }
    assert_eq!(recorder.counts().failed.events, 12);
    assert_eq!(recorder.counts().written.events, 0);
    recorder.write(&good, now).unwrap();
    assert_eq!(recorder.counts().written.events, 3);
    recorder.finish().unwrap();
    recorder.finish().unwrap();
    assert_eq!(recorder.write(&good, now), Err(WriteFault::Finished));
    assert_eq!(recorder.counts().failed.events, 15);
}
