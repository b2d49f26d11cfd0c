//! Campaigns: an experiment under faults that seeds draw breaks no law, and faults that are put in
//! on purpose break one.

use std::path::{Path, PathBuf};
use std::process::Output;

use fluxline_core::random::{test_count, test_seed};
use serde_json::Value;

use crate::same_events::folder;
use crate::same_recorded::write_experiment;
use crate::support::fluxline;

/// Returns the planted faults that docs/campaigns.md lists as found: number, and the seeds until
/// then.
fn planted() -> Vec<(u32, u64)> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/campaigns.md");
    let text = std::fs::read_to_string(docs).expect("the page");
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        Some((cells.first()?.parse().ok()?, cells.last()?.parse().ok()?))
    };
    text.lines().filter_map(row).collect()
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/campaign.toml")
}

fn campaign(file: &Path, arguments: &[&str], planted: u32) -> Output {
    let mut command = fluxline();
    command.env("FLUXLINE_PLANTED", planted.to_string());
    command.args(["--json", "sim", "campaign"]).arg(file).args(arguments);
    command.output().expect("the program starts")
}

fn document(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|wrong| panic!("{wrong}: {errors}"))
}

fn try_seeds(file: &Path, seed: u64, seeds: u64) {
    let (seed, seeds) = (seed.to_string(), seeds.to_string());
    let output = campaign(file, &["--seed", &seed, "--seeds", &seeds], 0);
    let document = document(&output);
    assert!(output.status.success(), "{document:#}");
    assert_eq!(document["runs"].to_string(), seeds);
    assert!(document["events"].as_u64() > Some(0), "{document:#}");
}

#[test]
fn a_law_breaks_under_faults_that_a_seed_drew() {
    try_seeds(&example(), test_seed!(1), test_count!(200));
}

/// Runs one case, which must break no law.
fn try_case(case: &str) {
    let output = campaign(&example(), &["--case", case], 0);
    assert!(output.status.success(), "{:#}", document(&output));
}

#[test]
fn a_builder_that_dies_calls_events_complete_whose_packets_were_on_the_way() {
    try_case("faults=host:builder-0@26ms network=atoll packets=72 seed=8 sources=2");
}

#[test]
fn packets_of_a_board_whose_cable_was_cut_are_in_no_count() {
    try_case("faults=cable:sensor-0@82ms network=infiniband packets=141 rate=2000 seed=3");
}

#[test]
fn a_readout_that_waits_for_a_dead_builder_counts_as_dead_at_the_others() {
    try_case("builders=2 faults=host:builder-0@0ms network=qsnet packets=1 seed=19");
}

#[test]
fn a_readout_that_crashed_accuses_living_builders_of_being_gone() {
    try_case("faults=host:readout-0@0ms network=myrinet packets=1 rate=2000 seed=259");
}

#[test]
fn an_event_that_closes_early_is_complete_without_a_packet_whose_gap_was_open() {
    let at = folder();
    let case = "boards=2 bytes-max=1048576 drop=0.03 packets=180 rate=5000 seed=283 sources=4 \
                stall=0.005";
    let output = campaign(&builders_die(4, at.path()), &["--case", case], 0);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// The example in which builders die, for this many readouts.
fn builders_die(readouts: u32, at: &Path) -> PathBuf {
    let file = example().with_file_name("campaign-builders.toml");
    let text = std::fs::read_to_string(file).expect("the example");
    let changed = text.replace("count = 4", &format!("count = {readouts}"));
    let path = at.join(format!("builders-{readouts}.toml"));
    std::fs::write(&path, changed).expect("written");
    path
}

#[test]
fn a_builders_death_loses_what_readouts_keep_or_counts_a_loss_wrongly() {
    let at = folder();
    try_seeds(&builders_die(4, at.path()), test_seed!(1), test_count!(40));
    try_seeds(&builders_die(1, at.path()), test_seed!(1), test_count!(40));
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "planted faults are in debug builds alone")]
fn a_successor_that_builds_too_little_or_too_much_is_not_found() {
    let at = folder();
    for (number, readouts) in [(32, 1), (33, 4)] {
        let file = builders_die(readouts, at.path());
        let output = campaign(&file, &["--seeds", "20"], number);
        assert_eq!(output.status.code(), Some(1), "{number}: {:#}", document(&output));
    }
}

#[test]
fn a_packet_of_a_capture_is_in_no_place_or_in_two_after_a_fault() {
    let at = folder();
    let file = write_experiment(300, at.path());
    try_seeds(&file, test_seed!(74), test_count!(24));
}

#[test]
fn a_packet_is_too_late_for_its_window_after_a_fault() {
    let at = folder();
    let file = at.path().join("windows.toml");
    let keys = std::fs::read_to_string(example()).expect("the example");
    let windows = "build = \"window\"\nwindow-us = 2000\nlateness-us = 500";
    std::fs::write(&file, keys.replace("build = \"key\"", windows)).expect("written");
    try_seeds(&file, test_seed!(1), test_count!(40));
    if cfg!(debug_assertions) {
        // A readout's mark is too far.
        let found = document(&campaign(&file, &["--seeds", "2"], 1));
        assert_eq!(found["failed"]["law"], "no packet is too late for the window of its arrival");
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "planted faults are in debug builds alone")]
fn the_printed_commands_of_a_failing_seed_break_another_law_or_none() {
    // A batch is recorded twice.
    let document = document(&campaign(&example(), &["--seeds", "50"], 7));
    let failed = &document["failed"];
    let case_of = |command: &Value| {
        let text = command.as_str().expect("a command").to_owned();
        text.split('\'').nth(1).map(str::to_owned)
    };
    let seed = failed["seed"].to_string();
    let again = campaign(&example(), &["--seed", &seed, "--seeds", "1"], 7);
    assert_eq!(self::document(&again)["failed"]["how"], failed["how"], "{document:#}");
    let smaller = case_of(&failed["smaller"]).expect("a smaller case");
    let whole = failed["case"].as_str().expect("a case");
    assert!(smaller.len() < whole.len(), "{smaller} / {whole}");
    let small = self::document(&campaign(&example(), &["--case", &smaller], 7));
    assert_eq!(small["failed"]["law"], failed["law"], "{small:#}");
}

#[test]
#[ignore = "all: many campaigns of up to hundreds of seeds"]
fn a_planted_fault_is_not_found() {
    let planted = planted();
    assert!(planted.len() >= 5, "the table of docs/campaigns.md: {planted:?}");
    for (number, seeds) in planted {
        let output = campaign(&example(), &["--seeds", &seeds.to_string()], number);
        assert_eq!(output.status.code(), Some(1), "{number}: {:#}", document(&output));
    }
}

#[test]
fn the_page_of_a_campaign_hides_what_was_never_reached() {
    let at = folder();
    let page = at.path().join("page.html");
    let page_of = |arguments: &[&str]| {
        let file = page.to_str().expect("UTF-8");
        let output = campaign(&example(), &[arguments, &["-o", file]].concat(), 0);
        assert!(output.status.success(), "{:#}", document(&output));
        std::fs::read_to_string(&page).expect("a page")
    };
    let never = |html: &str| html.matches("never").count();
    // One death, while boards send: two cells of 9 x 4 + 15 x 4 - 5 + 6 x 4 = 115, and the run.
    let one = page_of(&["--case", "faults=host:builder-0@25ms network=qsnet rate=2000"]);
    assert!(one.contains("builder dies") && one.contains("while boards send"));
    let none = page_of(&["--case", "network=qsnet rate=2000"]);
    assert_eq!(never(&none), never(&one) + 2);
    // Behind the end of the run nothing dies.
    let late = page_of(&["--case", "faults=host:builder-0@90000ms network=qsnet rate=2000"]);
    assert_eq!(never(&late), never(&one));
    assert!(never(&page_of(&["--seeds", "40"])) < never(&one));
}

#[test]
fn an_unused_node_of_a_network_lets_virtual_time_run_away() {
    let case = "network=atoll?torus=4x4 packets=20";
    for _ in 0..8 {
        let output = campaign(&example(), &["--case", case], 0);
        let says = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !says.contains("nothing was completed"), "{says}");
    }
}

#[test]
fn a_wrong_campaign_is_a_riddle() {
    for (arguments, says, status) in [
        (&["--case", "readouts=9"][..], "9 readouts for 1 sources", 3),
        (&["--case", "reedouts=1"], "unknown field", 2),
        (&["--link", "shm:lab"], "write sim:NETWORK?KEYS", 3),
        (&["--link", "sim:token-ring"], "token-ring", 3),
    ] {
        let output = campaign(&example(), arguments, 0);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(says), "{arguments:?}: {said}");
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    }
}
