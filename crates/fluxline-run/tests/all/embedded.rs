//! Acquisitions within one process: two at once share nothing, and an error leaves nothing behind.

use std::path::Path;

use fluxline_daq::experiment::Experiment;
use fluxline_daq::record::RunReader;
use fluxline_run::{
    Acquisition, Command, Delays, Error, Live, Options, Report, RunState, Stop, Verdict, Watcher,
};

use crate::support::wait_for;

fn boards(name: &str, runs: &Path, packets: u64) -> Experiment {
    let text = format!(
        "name = '{name}'\nruns = '{}'\n[[source]]\nname = 'boards'\nformat = 'counter'\n\
         [source.emulator]\nsources = 4\nrate = 2000.0\npackets = {packets}\nin-flight-max = 64\n\
         [events]\nbuild = 'key'\nrequire = 4\n",
        runs.display()
    );
    Experiment::parse(name, &text).expect("a valid experiment")
}

fn wait_for_events(acquisition: &Acquisition, events: u64) {
    wait_for("events", || (acquisition.stats().events >= events).then_some(()));
}

fn assert_complete(report: &Report, name: &str) {
    assert_eq!(report.verdict, Verdict::Complete, "{name}");
    assert!(report.ledger.closes(), "{name}");
    assert_eq!(report.document["experiment"]["name"], name);
    let totals = report.ledger.source_totals();
    let truth = report.ledger.truth.as_ref().expect("emulators report the truth");
    assert_eq!((totals.parsed, totals.lost), (truth.sent, 0), "{name}");
    let mut reader = RunReader::open(report.folder.as_deref().expect("recorded")).expect("a run");
    while reader.next_batch().expect("undamaged").is_some() {}
    assert_eq!(reader.report().packets, totals.parsed, "{name}");
    assert!(reader.report().unfinished_files.is_empty(), "{name}");
}

#[test]
fn two_acquisitions_in_one_process_are_stopped_apart_and_both_close() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = fluxline_run::start(boards("first", folder.path(), 0)).expect("started");
    let second = fluxline_run::start(boards("second", folder.path(), 0)).expect("started");
    assert_ne!(first.plan().folder, second.plan().folder);
    wait_for_events(&first, 500);
    wait_for_events(&second, 500);
    first.stop();
    let first = first.wait().expect("ended");
    let events = second.stats().events;
    wait_for_events(&second, events + 500);
    assert!(!second.is_finished(), "the other goes on");
    second.stop();
    assert_complete(&first, "first");
    assert_complete(&second.wait().expect("ended"), "second");
}

#[test]
fn one_request_of_the_caller_stops_several() {
    let folder = tempfile::tempdir().expect("a folder");
    let stop = Stop::default();
    let start = |name| {
        let options = Options {
            folder: Some(folder.path().join(name)),
            stop: stop.clone(),
            ..Options::default()
        };
        fluxline_run::start_with(boards(name, folder.path(), 0), options).expect("started")
    };
    let both = ["one", "other"].map(start);
    both.iter().for_each(|one| wait_for_events(one, 1));
    stop.now();
    for (acquisition, name) in both.into_iter().zip(["one", "other"]) {
        let report = acquisition.wait().expect("ended");
        assert_complete(&report, name);
        assert_eq!(report.folder, Some(folder.path().join(name)));
    }
}

#[test]
fn an_acquisition_ends_with_its_sources() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = fluxline_run::start(boards("short", folder.path(), 300)).expect("started");
    let report = report.wait().expect("ended");
    assert_complete(&report, "short");
    assert_eq!(report.ledger.source_totals().parsed, 4 * 300);
}

#[test]
fn a_link_that_is_taken_is_an_error_without_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = folder.path().join("runs");
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let text = format!(
        "runs = '{}'\n[[source]]\nname = 'a'\nformat = 'counter'\n[source.udp]\nlisten = ['{}']\n",
        runs.display(),
        socket.local_addr().expect("an address")
    );
    let experiment = Experiment::parse("taken", &text).expect("a valid experiment");
    let error = fluxline_run::start(experiment).err().expect("the port is taken");
    assert!(matches!(error, Error::Link(_)), "{error:?}");
    assert!(error.to_string().starts_with("source `a`:"), "{error}");
    assert!(!runs.exists());
}

#[test]
fn an_acquisition_that_is_dropped_stops() {
    let folder = tempfile::tempdir().expect("a folder");
    let stop = Stop::default();
    let options = Options { folder: None, stop: stop.clone(), ..Options::default() };
    let acquisition =
        fluxline_run::start_with(boards("dropped", folder.path(), 0), options).expect("started");
    wait_for_events(&acquisition, 1);
    let recorded = acquisition.plan().folder.clone().expect("recorded");
    drop(acquisition);
    assert!(!stop.is_over(), "the caller's request is its own");
    let is_whole = || {
        let mut reader = RunReader::open(&recorded).expect("a run");
        while let Ok(Some(_)) = reader.next_batch() {}
        let report = reader.report();
        report.unfinished_files.is_empty() && report.events > 0
    };
    wait_for("its files get their end", || is_whole().then_some(()));
}

/// Waits until the watcher's ledger passes the test.
fn wait_until(watcher: &Watcher, passes: impl Fn(&Live) -> bool) -> Live {
    wait_for("a live ledger", || Some(watcher.live()).filter(&passes))
}

#[test]
fn an_armed_or_paused_run_builds_and_counts_but_records_only_while_it_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { state: RunState::Armed, ..Options::default() };
    let run = fluxline_run::start_with(boards("armed", folder.path(), 0), options);
    let run = run.expect("started");
    let watcher = run.watcher();
    let counted = |live: &Live| live.ledger.source_totals().not_recorded;
    let recorded = |live: &Live| live.ledger.source_totals().recorded;
    let armed = wait_until(&watcher, |live| counted(live) > 200);
    assert_eq!((armed.state, recorded(&armed)), (RunState::Armed, 0));
    let command = |command| {
        let now = fluxline::clock::now();
        watcher.control().command(command, now).expect("allowed")
    };
    assert_eq!(command(Command::Start), RunState::Running);
    wait_until(&watcher, |live| recorded(live) > 400);
    assert_eq!(command(Command::Pause), RunState::Paused);
    let paused = wait_until(&watcher, |live| counted(live) > counted(&armed) + 400);
    assert_eq!(command(Command::Resume), RunState::Running);
    wait_until(&watcher, |live| recorded(live) > recorded(&paused) + 400);
    watcher.control().remark("beam is back", fluxline::clock::now()).expect("kept");
    watcher.control().set_shot(4711);
    assert_eq!(command(Command::Stop), RunState::Stopping);
    let report = run.wait().expect("ended");
    assert_eq!(watcher.control().state(), RunState::Stopped);
    let totals = report.ledger.source_totals();
    assert!(report.ledger.closes() && totals.recorded > 800 && totals.not_recorded > 600);
    assert_eq!(totals.recorded + totals.not_recorded, totals.parsed);
    let mut reader = RunReader::open(report.folder.as_deref().expect("recorded")).expect("a run");
    while reader.next_batch().expect("undamaged").is_some() {}
    assert_eq!(reader.report().packets, totals.recorded, "the files hold what was recorded");
    let clock = &report.document["clock"];
    assert!(clock["began"]["synchronized"].is_boolean(), "{clock}");
    assert!(clock["ended"]["error_us_max"].is_u64(), "{clock}");
    let control = &report.document["control"];
    assert_eq!(control["shot"], 4711);
    assert_eq!(control["remarks"][0]["text"], "beam is back");
    let states = control["states"].as_array().expect("a list").len();
    assert_eq!(states, 6, "{control}");
}

#[test]
fn a_watcher_sees_the_ledger_delays_and_packets_and_at_the_end_nothing_in_flight() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = fluxline_run::start(boards("watched", folder.path(), 0)).expect("started");
    let watcher = run.watcher();
    let live = wait_until(&watcher, |live| live.packets.len() == 4 && live.delays.events > 10);
    assert_eq!(live.ledger.sources.len(), 4);
    assert_eq!(live.ledger.inputs[0].name, "boards");
    assert!(live.ledger.sources.iter().all(|source| !source.label.is_empty()));
    let Delays { p50_ns, p99_ns, max_ns, .. } = live.delays;
    assert!(0 < p50_ns && p50_ns <= p99_ns && p99_ns <= max_ns, "{:?}", live.delays);
    for (number, newest) in live.packets.iter() {
        assert_eq!(newest.row.source, *number);
        assert_eq!(newest.bytes.len(), newest.row.bytes as usize);
    }
    assert!(live.free_bytes.expect("it records") > 0);
    run.stop();
    let report = run.wait().expect("ended");
    let last = watcher.live();
    assert_eq!(last.ledger.received(), report.ledger.received(), "the last snapshot is complete");
    assert_eq!(last.in_flight(), 0, "{:?}", last.ledger.source_totals());
}
