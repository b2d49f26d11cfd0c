//! Plots over a whole run: every recorded packet is filled or counted as skipped.

use std::path::Path;

use fluxline_daq::experiment::Experiment;
use fluxline_run::{Command, Error, Options, Report, RunState};
use serde_json::Value;

use crate::support::wait_for;

const PLOTS: &str = "
[[plot]]
name = 'sizes'
kind = 'histogram'
x = 'packet.bytes'
range = [0, 1000]
bins = 10
[[plot]]
name = 'amplitudes of board 2'
kind = 'histogram'
x = 'amplitude'
where = 'source_id == 2'
range = [0, 65536]
[[plot]]
name = 'packets'
kind = 'rate'
";

fn boards(runs: &Path, packets: u64, rest: &str) -> Experiment {
    let text = format!(
        "runs = '{}'\n[[source]]\nname = 'boards'\nformat = 'counter'\n\
         [source.emulator]\nsources = 4\nrate = 0.0\npackets = {packets}\nlink = 'direct'\n\
         payload-bytes = 64\n{rest}\n",
        runs.display()
    );
    Experiment::parse("boards", &text).expect("a valid experiment")
}

fn run(experiment: Experiment) -> Report {
    let report = fluxline_run::start(experiment).expect("started").wait().expect("ended");
    assert!(report.ledger.closes(), "{:?}", report.ledger.check());
    report
}

fn saved(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("plots.json")).expect("plots.json");
    serde_json::from_str(&text).expect("JSON")
}

fn count(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key} of {of}"))
}

#[test]
fn every_recorded_packet_is_in_each_plot_or_counted_as_skipped() {
    let folder = tempfile::tempdir().expect("a folder");
    let rest = format!("[record]\nbatch-bytes = 20000\n{PLOTS}");
    let report = run(boards(folder.path(), 20_000, &rest));
    let recorded = report.ledger.source_totals().recorded;
    assert_eq!(recorded, 80_000);
    let saved = saved(report.folder.as_deref().expect("recorded"));
    assert_eq!(saved["ended"], true);
    for plot in saved["plots"].as_array().expect("plots") {
        let packets = &plot["packets"];
        assert_eq!(count(packets, "seen"), recorded, "{packets}");
        let used = count(packets, "used");
        assert_eq!(used + count(packets, "skipped"), recorded, "{packets}");
        let values = &plot["values"];
        let per_packet = if plot["name"] == "amplitudes of board 2" { 32 } else { 1 };
        assert_eq!(count(values, "seen"), used * per_packet, "{plot}");
        assert_eq!(count(values, "entries") + count(values, "cut"), count(values, "seen"));
        let counts = plot["data"]["counts"].as_array().expect("counts").iter();
        let sum: u64 = counts.map(|count| count.as_u64().expect("a count")).sum();
        assert_eq!(sum, count(values, "entries"), "{plot}");
    }
    let notes = report.document["notes"].to_string();
    assert!(!notes.contains("plot"), "{notes}");
}

#[test]
fn packets_that_come_while_the_run_is_armed_are_in_no_plot() {
    let rest = format!("[record]\nenabled = false\n{PLOTS}");
    let options = Options { state: RunState::Armed, ..Options::default() };
    let text = format!(
        "[[source]]\nname = 'boards'\nformat = 'counter'\n[source.emulator]\nrate = 2000.0\n\
         payload-bytes = 64\nin-flight-max = 64\n{rest}"
    );
    let experiment = Experiment::parse("boards", &text).expect("a valid experiment");
    let acquisition = fluxline_run::start_with(experiment, options).expect("started");
    let watcher = acquisition.watcher();
    let seen = || count(&watcher.plots().document()["plots"][0]["packets"], "seen");
    let counted = || watcher.live().ledger.source_totals().not_recorded;
    wait_for("packets while armed", || (counted() > 1000).then_some(()));
    assert_eq!(seen(), 0);
    watcher.control().command(Command::Start, fluxline::clock::now()).expect("started");
    wait_for("packets in the plots", || (seen() > 1000).then_some(()));
    acquisition.stop();
    acquisition.wait().expect("ended");
    assert_eq!(watcher.plots().document()["ended"], true);
}

#[test]
fn a_run_that_is_not_recorded_has_its_plots_on_the_page_and_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let rest = format!("[record]\nenabled = false\n{PLOTS}");
    let acquisition = fluxline_run::start(boards(folder.path(), 500, &rest)).expect("started");
    let watcher = acquisition.watcher();
    acquisition.wait().expect("ended");
    let document = watcher.plots().document();
    assert_eq!(count(&document["plots"][0]["packets"], "seen"), 2000);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn a_wrong_expression_ends_the_start_before_a_folder_is_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let rest = PLOTS.replace("packet.bytes", "packet.byte");
    match fluxline_run::start(boards(folder.path(), 1, &rest)) {
        Err(Error::Input(said)) => {
            assert!(said.to_string().contains("plot `sizes`: `x`"), "{said}")
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it started"),
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn a_reference_is_shown_and_one_that_is_gone_is_a_note() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = run(boards(folder.path(), 100, PLOTS)).folder.expect("recorded");
    let with = |reference: &Path| {
        let key = format!("kind = 'histogram'\nreference = '{}'\nx = 'packet", reference.display());
        PLOTS.replace("kind = 'histogram'\nx = 'packet", &key)
    };
    let second = run(boards(folder.path(), 100, &with(&first)));
    let plots = saved(second.folder.as_deref().expect("recorded"));
    let data = &plots["plots"][0]["data"];
    assert_eq!(data["reference"]["run"], first.display().to_string());
    assert_eq!(data["reference"]["counts"], saved(&first)["plots"][0]["data"]["counts"]);
    let third = run(boards(folder.path(), 100, &with(&folder.path().join("none"))));
    let notes = third.document["notes"].to_string();
    assert!(notes.contains("plot `sizes` is shown without its reference"), "{notes}");
}
