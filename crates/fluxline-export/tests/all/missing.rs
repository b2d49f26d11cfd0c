//! Files of a run are deleted, cut, spoilt or replaced: the comparison with `run.json` says so.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;

use fluxline_daq::record::integrity::Held;
use fluxline_daq::record::{Integrity, RunEnd, RunFolder, SourceLine, recover};
use fluxline_export::{ExportConfig, ExportFormat, export};
use serde_json::json;

use crate::samples::{copy_run, event_files, files_of, read_all, record, small_batches};

/// A run of six batches in several files, with all that belongs to it.
fn finished_run(dir: &Path) -> PathBuf {
    let run = record(dir, files_of(6000), &small_batches(6));
    let folder = RunFolder::open(&run).unwrap();
    let (files, (_, report)) = (event_files(&run).len(), read_all(&run));
    assert!(files > 2, "{files} files");
    folder.write_format("x", "name = \"x\"").unwrap();
    let lines: Vec<String> = (0..4).map(source_line).collect();
    fs::write(run.join("sources.jsonl"), lines.concat()).unwrap();
    let sources = vec![json!({ "counters": { "to_builder": 1 } }); 4];
    let (batches, events, packets) = (report.batches, report.events, report.packets);
    folder
        .write_run(&json!({
            "state": "finished",
            "ledger": { "sources": sources },
            "recorded": {
                "batches": batches, "events": events, "packets": packets, "files": files,
            },
        }))
        .unwrap();
    run
}

fn source_line(number: u32) -> String {
    let line = SourceLine {
        source: number,
        name: format!("board {number}"),
        format: "x".to_owned(),
        parameters: Default::default(),
        port: None,
        details: Default::default(),
    };
    format!("{}\n", serde_json::to_string(&line).unwrap())
}

fn check(run: &Path) -> Integrity {
    Integrity::of(&RunFolder::open(run).unwrap(), &read_all(run).1)
}

fn set_state(run: &Path, state: &str) {
    let folder = RunFolder::open(run).unwrap();
    folder.write_run(&json!({ "state": state })).unwrap();
}

#[test]
fn whole_run_has_no_fault() {
    let dir = tempfile::tempdir().unwrap();
    let found = check(&finished_run(dir.path()));
    assert_eq!(found.end, RunEnd::Finished);
    assert_eq!((found.missing, found.sentence()), (Held::default(), None));
}

#[test]
fn deleted_events_file_is_named_with_what_it_held() {
    let dir = tempfile::tempdir().unwrap();
    let run = finished_run(dir.path());
    let whole = read_all(&run).1;
    let copy = dir.path().join("copy");
    for (number, file) in event_files(&run).iter().enumerate() {
        copy_run(&run, &copy);
        fs::copy(run.join("formats/x.toml"), copy.join("formats/x.toml")).unwrap();
        fs::remove_file(copy.join(file.file_name().unwrap())).unwrap();
        let left = read_all(&copy).1;
        let found = check(&copy);
        assert_eq!(found.missing.batches, whole.batches - left.batches);
        assert_eq!(found.missing.events, whole.events - left.events);
        assert_eq!(found.missing.packets, whole.packets - left.packets);
        let sentence = found.sentence().unwrap();
        assert!(sentence.contains(&format!("events-{number:06}.arrows is missing")), "{sentence}");
        let lead = format!("{} of {} batches, ", found.missing.batches, whole.batches);
        assert!(sentence.starts_with(&lead), "{sentence}");
    }
    for file in event_files(&run) {
        fs::remove_file(file).unwrap();
    }
    let sentence = check(&run).sentence().unwrap();
    assert!(sentence.contains("6 of 6 batches, 18 of 18 events"), "{sentence}");
    assert!(sentence.contains("first events-000000.arrows"), "{sentence}");
}

#[test]
fn flipped_bits_and_cuts_anywhere_in_a_finished_run_are_faults() {
    let dir = tempfile::tempdir().unwrap();
    let run = finished_run(dir.path());
    let whole = read_all(&run).1;
    for file in event_files(&run) {
        let bytes = fs::read(&file).unwrap();
        for place in (0..bytes.len()).step_by(29) {
            let mut spoilt = bytes.clone();
            match place % 2 {
                0 => spoilt[place] ^= 1 << (place / 2 % 8),
                _ => spoilt.truncate(place),
            }
            fs::write(&file, &spoilt).unwrap();
            let (found, left) = (check(&run), read_all(&run).1);
            assert!(!found.is_sound(), "{} byte {place}", file.display());
            assert_eq!(found.missing.packets, whole.packets - left.packets);
            assert_eq!(found.missing.batches, whole.batches - left.batches);
        }
        fs::write(&file, &bytes).unwrap();
    }
    assert!(check(&run).is_sound());
}

#[test]
fn killed_run_may_end_in_a_torn_batch_and_not_have_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let run = finished_run(dir.path());
    set_state(&run, "running");
    let files = event_files(&run);
    let last = OpenOptions::new().write(true).open(files.last().unwrap()).unwrap();
    last.set_len(last.metadata().unwrap().len() - 100).unwrap();
    let found = check(&run);
    assert_eq!((found.end, found.sentence()), (RunEnd::Killed, None));
    fs::remove_file(&files[1]).unwrap();
    let sentence = check(&run).sentence().unwrap();
    assert!(sentence.starts_with("recorded batches that cannot be read: "), "{sentence}");
}

#[test]
fn batches_lost_before_and_after_a_recovery_stay_known() {
    let dir = tempfile::tempdir().unwrap();
    let run = finished_run(dir.path());
    let last = event_files(&run).pop().unwrap();
    let bytes = fs::read(&last).unwrap();
    fs::write(&last, &bytes[..bytes.len() - 100]).unwrap();
    let mended = recover(&run).unwrap();
    assert_eq!(mended.integrity.missing.batches, 1);
    let found = check(&run);
    assert_eq!((found.end, found.missing.batches), (RunEnd::Recovered, 1));

    let killed = dir.path().join("killed");
    copy_run(&run, &killed);
    fs::copy(run.join("formats/x.toml"), killed.join("formats/x.toml")).unwrap();
    set_state(&killed, "running");
    assert!(recover(&killed).unwrap().integrity.is_sound());
    assert!(check(&killed).is_sound());
    let first = event_files(&killed).remove(0);
    let bytes = fs::read(&first).unwrap();
    fs::write(&first, &bytes[..bytes.len() - 100]).unwrap();
    for _ in 0..2 {
        let again = recover(&killed).unwrap();
        assert!(again.integrity.missing.batches > 0, "{:?}", again.integrity);
        assert!(check(&killed).missing.packets > 0);
    }
}

#[test]
fn named_pipe_directory_or_dead_link_as_events_file_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let run = finished_run(dir.path());
    let whole = read_all(&run).1;
    let file = event_files(&run).remove(1);
    fs::remove_file(&file).unwrap();
    let left = read_all(&run).1;
    let mkfifo = || assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    let link = || std::os::unix::fs::symlink("nowhere", &file).unwrap();
    let directory = || fs::create_dir(&file).unwrap();
    let others: [(&dyn Fn(), &str); 3] = [
        (&mkfifo, "is a named pipe"),
        (&link, "is a symbolic link"),
        (&directory, "is a directory"),
    ];
    for (make, what) in others {
        make();
        let found = check(&run);
        assert_eq!(found.missing.packets, whole.packets - left.packets);
        assert!(found.sentence().unwrap().contains(what), "{:?}", found.faults);
        let recovered = recover(&run).unwrap();
        assert!(recovered.integrity.sentence().unwrap().contains(what));
        let folder = dir.path().join(format!("export {what}"));
        let format = ExportFormat::Csv;
        let report = export(&run, &ExportConfig::new(format, folder)).unwrap();
        assert_eq!(report.tables[1].rows, left.packets, "what is readable is exported");
        assert!(report.integrity.sentence().unwrap().contains(what));
        let is_directory = fs::symlink_metadata(&file).unwrap().is_dir();
        if is_directory { fs::remove_dir(&file) } else { fs::remove_file(&file) }.unwrap();
    }
}

#[test]
fn descriptions_and_sources_that_are_gone_are_faults() {
    let dir = tempfile::tempdir().unwrap();
    let run = finished_run(dir.path());
    fs::remove_file(run.join("formats/x.toml")).unwrap();
    assert!(check(&run).sentence().unwrap().contains("formats/x.toml is missing"));
    RunFolder::open(&run).unwrap().write_format("x", "name = \"x\"").unwrap();
    fs::write(run.join("sources.jsonl"), source_line(0)).unwrap();
    assert!(check(&run).sentence().unwrap().contains("sources.jsonl names 1 of 4 sources"));
    fs::write(run.join("sources.jsonl"), "{]\n").unwrap();
    assert!(check(&run).sentence().unwrap().contains("sources.jsonl, line 1"));
    let folder = dir.path().join("exported");
    let format = ExportFormat::Csv;
    let report = export(&run, &ExportConfig::new(format, folder)).unwrap();
    assert_eq!(report.tables.len(), 2, "packets are exported, undecoded");
    assert!(!report.integrity.is_sound());
}

#[test]
fn run_without_a_readable_run_json_is_a_fault_and_so_are_foreign_batches() {
    let dir = tempfile::tempdir().unwrap();
    let run = finished_run(dir.path());
    let text = fs::read(run.join("run.json")).unwrap();
    fs::write(run.join("run.json"), &text[..text.len() / 2]).unwrap();
    assert!(check(&run).sentence().unwrap().contains("run.json, line"));
    fs::remove_file(run.join("run.json")).unwrap();
    assert!(check(&run).sentence().unwrap().contains("run.json is missing"));
    let folder = RunFolder::open(&run).unwrap();
    let recorded = json!({ "batches": 1, "events": 3, "packets": 6, "files": 1 });
    folder.write_run(&json!({ "state": "finished", "recorded": recorded })).unwrap();
    let sentence = check(&run).sentence().unwrap();
    assert!(sentence.contains("packets more than run.json says"), "{sentence}");
}
