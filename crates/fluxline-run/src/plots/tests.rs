//! The tap and its keeper: nothing waits, and nothing is lost without a count.

use fluxline_daq::event::{EventBatch, EventRow, PacketRow};
use fluxline_daq::experiment::Experiment;
use fluxline_daq::formats;
use serde_json::Value;

use super::tap::Work;
use super::*;
use crate::monitor::Monitor;

fn plots() -> Plots {
    let text = "[[source]]\nname = 'a'\nformat = 'counter'\n[source.emulator]\n\
                [[plot]]\nname = 'sizes'\nkind = 'histogram'\nx = 'packet.bytes'\n\
                range = [0, 100]\n";
    let experiment = Experiment::parse("a.toml", text).expect("an experiment");
    let source = &experiment.sources[0];
    let loaded = formats::load(&source.format, &source.parameters).expect("a description");
    Plots::of(&experiment, &[loaded]).expect("plots").0
}

fn batch() -> EventBatch {
    let row = PacketRow {
        source: 0,
        packet_type: 0,
        sequence: None,
        time: fluxline_core::Moment::from_ns(1),
        sensor_time_ns: None,
        part: 0,
        payload_start: 0,
        payload_bytes: 0,
        bytes: 0,
    };
    let events = vec![EventRow { packets: 1, ..EventRow::default() }];
    EventBatch { events, packets: vec![row], ..EventBatch::default() }
}

fn counts(plots: &Plots) -> [u64; 4] {
    let document = plots.document();
    let packets = &document["plots"][0]["packets"];
    let count = |key: &str| packets[key].as_u64().expect("a count");
    ["seen", "used", "other", "skipped"].map(count)
}

#[test]
fn a_keeper_that_stands_still_makes_the_recorder_skip_and_count_but_never_wait() {
    let plots = plots();
    let (mut tap, drain) = tap(&plots, Pace::Skip);
    for _ in 0..QUEUE + 3 {
        tap.offer_copy(&batch());
    }
    let mut own = batch();
    tap.offer(&mut own);
    assert_eq!(own, batch(), "a batch that is left out stays with the recorder");
    drop(tap);
    let given = drain.work.iter().filter(|work| matches!(work, Work::Batch(_))).count();
    assert_eq!(given, QUEUE);
}

#[test]
fn packets_are_filled_or_skipped_and_the_file_says_that_the_run_has_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("0001");
    let run = fluxline_daq::record::RunFolder::create(&path).expect("a run");
    let (plots, monitor) = (plots(), Monitor::default());
    let (mut tap, drain) = tap(&plots, Pace::Skip);
    (0..QUEUE + 2).for_each(|_| tap.offer(&mut batch()));
    let keeper = PlotKeeper::start(&plots, drain, Some(&run), &monitor);
    drop(tap);
    keeper.end(Some(QUEUE as u64 + 2));
    assert_eq!(counts(&plots), [QUEUE as u64 + 2, 0, QUEUE as u64, 2], "source 0 is unknown");
    assert_eq!(monitor.notes(0), [""; 0]);
    let text = std::fs::read_to_string(path.join("plots.json")).expect("written");
    let saved: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (&saved["ended"], &saved["plots"][0]["packets"]["skipped"]),
        (&true.into(), &2.into())
    );
}

#[test]
fn counts_that_do_not_reach_those_of_the_files_are_a_note() {
    let (plots, monitor) = (plots(), Monitor::default());
    let (tap, drain) = tap(&plots, Pace::Wait);
    let keeper = PlotKeeper::start(&plots, drain, None, &monitor);
    drop(tap);
    keeper.end(Some(1));
    assert!(monitor.notes(0)[0].contains("plot `sizes` do not add up"), "{:?}", monitor.notes(0));
}

#[test]
fn a_recorder_of_files_waits_for_the_keeper_and_nothing_is_skipped() {
    let (plots, monitor) = (plots(), Monitor::default());
    let (mut tap, drain) = tap(&plots, Pace::Wait);
    let keeper = PlotKeeper::start(&plots, drain, None, &monitor);
    (0..2000).for_each(|_| tap.offer(&mut batch()));
    drop(tap);
    keeper.end(Some(2000));
    assert_eq!(counts(&plots), [2000, 0, 2000, 0]);
    assert_eq!(monitor.notes(0), [""; 0]);
}
