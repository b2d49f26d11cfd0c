//! Filters, subscriptions and sources of programs, in whole runs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fluxline_daq::event::{EventBatch, EventStatus};
use fluxline_daq::experiment::Experiment;
use fluxline_daq::ledger::BatchFate;
use fluxline_daq::record::RunReader;
use fluxline_run::filter::each_event;
use fluxline_run::{FeedError, Filter, Options, Received, Report, Verdict};

use crate::support::wait_for;

fn boards(runs: &Path, packets: u64, rest: &str) -> Experiment {
    let text = format!(
        "runs = '{}'\n[[source]]\nname = 'boards'\nformat = 'counter'\n\
         [source.emulator]\nsources = 4\nrate = 0.0\npackets = {packets}\nlink = 'direct'\n\
         payload-bytes = 64\n{rest}\n",
        runs.display()
    );
    Experiment::parse("boards", &text).expect("a valid experiment")
}

fn run(experiment: Experiment, filter: Option<Box<dyn Filter>>) -> Report {
    let options = Options { filter, ..Options::default() };
    let acquisition = fluxline_run::start_with(experiment, options).expect("started");
    let report = acquisition.wait().expect("ended");
    assert!(report.ledger.closes(), "{:?}", report.ledger.check());
    report
}

/// The keys of the events in the files, with their statuses and texts.
fn recorded(report: &Report) -> Vec<(u64, EventStatus, String)> {
    let folder = report.folder.as_deref().expect("recorded");
    let mut reader = RunReader::open(folder).expect("a run");
    let mut events = Vec::new();
    while let Some(recorded) = reader.next_batch().expect("undamaged") {
        let mut batch = EventBatch::default();
        recorded.append_to(&mut batch).expect("rows");
        let mut at = 0;
        for row in &batch.events {
            let text = batch.missing[at..at + row.missing_bytes as usize].to_owned();
            at += row.missing_bytes as usize;
            events.push((row.key.expect("a key"), row.status, text));
        }
    }
    events
}

#[test]
fn an_expression_of_the_experiment_chooses_and_every_law_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let rest = "[events]\nbuild = 'key'\nrequire = 4\n[filter]\n\
                keep = 'event.key % 10 == 3 && sources(source_id >= 0) == 4'";
    let report = run(boards(folder.path(), 500, rest), None);
    assert_eq!(report.verdict, Verdict::Complete, "{:?}", report.verdict);
    let (filter, totals) = (&report.ledger.filter, report.ledger.source_totals());
    assert_eq!((filter.events_kept, filter.events_filtered), (50, 450));
    assert_eq!((totals.recorded, totals.filtered, totals.parsed), (200, 1800, 2000));
    let keys: Vec<u64> = recorded(&report).iter().map(|event| event.0).collect();
    assert_eq!(keys, (0..50).map(|of| of * 10 + 3).collect::<Vec<_>>());
    let headline = report.ledger.headline();
    assert!(headline.contains("200 recorded, 1800 filtered"), "{headline}");
    assert!(headline.contains("the filter kept 50, rejected 450"), "{headline}");
    assert_eq!(report.document["totals"]["filtered"], 1800);
    assert_eq!(report.document["ledger"]["filter"]["events_kept"], 50);
    assert!(report.ledger.table().contains("filter: events kept 50"));
}

#[test]
fn a_mark_removes_no_event_and_is_on_exactly_those_that_it_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let rest = "[events]\nbuild = 'key'\nrequire = 5\n[filter]\nmark = 'event.key % 10 == 3'";
    let report = run(boards(folder.path(), 100, rest), None);
    let filter = &report.ledger.filter;
    assert_eq!((filter.events_kept, filter.events_filtered, filter.events_marked), (100, 0, 10));
    assert!(report.ledger.headline().contains("the filter kept 100, rejected 0, marked 10"));
    for (key, _, text) in recorded(&report) {
        let is_marked = text.ends_with("; filter: marked");
        assert_eq!(is_marked, key % 10 == 3, "{key}: {text}");
        assert!(text.starts_with("4 of 5 sources came"), "the reason stays: {text}");
    }
    let both = "[events]\nbuild = 'key'\nrequire = 4\n[filter]\nkeep = 'event.key % 2 == 0'\n\
                mark = 'event.key % 3 == 0'";
    let report = run(boards(folder.path(), 60, both), None);
    assert_eq!(report.verdict, Verdict::Complete, "{:?}", report.verdict);
    let events = recorded(&report);
    assert_eq!((events.len(), report.ledger.filter.events_marked), (30, 10));
    assert!(events.iter().all(|(key, status, text)| {
        *status == EventStatus::Complete && (text == "filter: marked") == (key % 3 == 0)
    }));
}

#[test]
fn a_filter_that_keeps_nothing_or_fails_needs_a_look() {
    std::panic::set_hook(Box::new(|_| {}));
    let folder = tempfile::tempdir().expect("a folder");
    let nothing = "[filter]\nkeep = 'max(amplitude) > 70000'";
    let report = run(boards(folder.path(), 20, nothing), None);
    let Verdict::LookNeeded(why) = &report.verdict else { panic!("{:?}", report.verdict) };
    assert!(why.contains("the filter kept none of 80 events"), "{why}");
    let fails = each_event(|event| {
        assert!(event.row.key != Some(7), "key seven");
        true
    });
    let rest = "[events]\nbuild = 'key'\nrequire = 4";
    let report = run(boards(folder.path(), 20, rest), Some(Box::new(fails)));
    let Verdict::LookNeeded(why) = &report.verdict else { panic!("{:?}", report.verdict) };
    assert!(why.contains("the filter failed on 1 events"), "{why}");
    assert!(report.notes.iter().any(|note| note.contains("key seven")), "{:?}", report.notes);
    let events = recorded(&report);
    let expected = (7, EventStatus::Complete, "filter: no decision".to_owned());
    assert_eq!((events.len(), &events[7]), (20, &expected));
    let accepted = boards(folder.path(), 20, nothing);
    let accept = vec!["nothing-kept".to_owned()];
    let report = run(Experiment { accept, ..accepted }, None);
    assert_eq!(report.verdict, Verdict::Complete);
}

#[test]
fn a_mistake_in_the_expression_is_found_before_the_run_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = folder.path().join("runs");
    let wrong = "[filter]\nkeep = 'max(amplitud) > 3'";
    let error = fluxline_run::start(boards(&runs, 1, wrong)).err().expect("a mistake");
    assert!(error.to_string().contains("did you mean `amplitude`?"), "{error}");
    assert!(!runs.exists());
    let file = folder.path().join("exp.toml");
    let text = "[[source]]\nname = 'a'\nformat = 'counter'\n[source.emulator]\n[filter]\n\
                keep = 'max(amplitud) > 3'\n";
    std::fs::write(&file, text).expect("written");
    let error = fluxline_run::load(&file).expect_err("a mistake").to_string();
    assert!(error.contains("exp.toml:6:8: [filter] keep, character 5: no packet"), "{error}");
    std::fs::write(&file, text.replace("keep =", "mark =")).expect("written");
    let error = fluxline_run::load(&file).expect_err("a mistake").to_string();
    assert!(error.contains("exp.toml:6:8: [filter] mark, character 5: no packet"), "{error}");
}

#[test]
fn a_run_that_records_nothing_still_counts_what_its_filter_rejects() {
    let folder = tempfile::tempdir().expect("a folder");
    let rest = "[filter]\nkeep = 'any(event_number % 2 == 0)'\n[record]\nenabled = false";
    let report = run(boards(folder.path(), 100, rest), None);
    let totals = report.ledger.source_totals();
    assert_eq!((totals.recorded, totals.not_recorded, totals.filtered), (0, 200, 200));
}

fn fed(runs: &Path, program: &str) -> Experiment {
    fed_with(runs, program, "")
}

fn fed_with(runs: &Path, program: &str, rest: &str) -> Experiment {
    let text = format!(
        "runs = '{}'\n[[source]]\nname = 'sim'\nformat = 'counter'\nring-slots = 16\n\
         [source.program]\n{program}\n[events]\nbuild = 'key'\n{rest}\n",
        runs.display()
    );
    Experiment::parse("fed", &text).expect("a valid experiment")
}

/// A packet of the format `counter`.
fn packet(number: u32) -> Vec<u8> {
    let mut bytes = vec![0x46, 0x4C, 0x58, 0x43, 1, 0, 0, 0];
    bytes.extend(number.to_le_bytes());
    bytes.extend([0, 0, 1, 0]);
    bytes.extend(u64::from(number).to_le_bytes());
    bytes.extend([0; 16]);
    bytes
}

#[test]
fn a_program_feeds_a_source_that_waits_for_room_and_ends_with_its_feeder() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = fluxline_run::start(fed(folder.path(), "")).err().expect("nobody feeds");
    assert!(error.to_string().contains("[source.program]"), "{error}");
    let options = Options { feeds: true, ..Options::default() };
    let run = fluxline_run::start_with(fed(folder.path(), "datagram-bytes-max = 100"), options);
    let run = run.expect("started");
    let feeder = run.feeder("sim").expect("the first");
    assert!(run.feeder("sim").is_none() && run.feeder("other").is_none());
    for number in 0..5000 {
        feeder.push(&packet(number)).expect("taken");
    }
    let long = feeder.push(&[0; 101]).expect_err("too long").to_string();
    assert!(long.contains("101 bytes") && long.contains("datagram-bytes-max = 100"), "{long}");
    drop(feeder);
    let report = run.wait().expect("ended by its source");
    assert!(report.ledger.closes());
    assert_eq!(report.verdict, Verdict::Complete);
    assert_eq!(report.ledger.source_totals().recorded, 5000);
}

#[test]
fn subscribers_see_kept_events_and_a_slow_one_never_stops_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let rest = "require = 1\n[filter]\nkeep = 'event.key % 2 == 0'\n[record]\nbatch-bytes = 8192";
    let experiment = fed_with(folder.path(), "", rest);
    let options = Options { feeds: true, ..Options::default() };
    let acquisition = fluxline_run::start_with(experiment, options).expect("started");
    // Both subscribe before the first packet.
    let (all, slow) = (acquisition.subscribe(100_000), acquisition.subscribe(1));
    let feeder = acquisition.feeder("sim").expect("the first");
    // The second half follows the first batch: there are two at least.
    let (has_batch, first_batch) = std::sync::mpsc::channel();
    let pusher = std::thread::spawn(move || {
        (0..2500).for_each(|number| feeder.push(&packet(number)).expect("taken"));
        first_batch.recv().expect("a batch");
        (2500..5000).for_each(|number| feeder.push(&packet(number)).expect("taken"));
    });
    let mut keys = Vec::new();
    loop {
        match all.receive(Duration::from_secs(300)) {
            Received::Batch(closed) => {
                let _ = has_batch.send(());
                assert_eq!(closed.fate, BatchFate::Recorded);
                keys.extend(closed.batch.events.iter().filter_map(|row| row.key));
                all.give_back(closed.batch);
            }
            Received::TimedOut => panic!("no batch, and no end: {:?}", acquisition.stats()),
            Received::Ended => break,
        }
    }
    pusher.join().expect("it pushed all");
    assert_eq!(acquisition.sources().len(), 1);
    let report = acquisition.wait().expect("ended");
    assert_eq!(keys, (0..2500).map(|of| of * 2).collect::<Vec<_>>());
    assert!(slow.dropped_events() > 0);
    assert!(report.notes.iter().any(|note| note.contains("too slow")), "{:?}", report.notes);
    assert_eq!(report.verdict, Verdict::Complete);
    assert_eq!(recorded(&report).len(), 2500);
}

#[test]
fn a_feeder_that_drops_is_counted_and_one_of_a_stopped_run_gets_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let filter = each_event(|_| {
        std::thread::sleep(Duration::from_micros(200));
        true
    });
    let experiment = fed(folder.path(), "on-ring-full = 'drop'");
    let options = Options { feeds: true, filter: Some(Box::new(filter)), ..Options::default() };
    let run = fluxline_run::start_with(experiment, options).expect("started");
    let feeder = Arc::new(run.feeder("sim").expect("the first"));
    let (pusher, dropped) = (feeder.clone(), Arc::new(AtomicU64::new(0)));
    let counted = dropped.clone();
    let thread = std::thread::spawn(move || {
        for number in 0.. {
            match pusher.push(&packet(number)) {
                Ok(()) => {}
                Err(FeedError::Dropped(_)) => {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => return error,
            }
        }
        unreachable!("the run is stopped before the numbers end")
    });
    wait_for("a dropped packet", || (dropped.load(Ordering::Relaxed) > 0).then_some(()));
    run.stop();
    let error = thread.join().expect("no panic");
    assert_eq!(error, FeedError::Ended("sim".to_owned()));
    let report = run.wait().expect("ended");
    assert!(report.ledger.closes(), "{:?}", report.ledger.check());
    let input = report.ledger.input_totals();
    assert_eq!(input.ring_full, dropped.load(Ordering::Relaxed));
    drop(feeder);
}
