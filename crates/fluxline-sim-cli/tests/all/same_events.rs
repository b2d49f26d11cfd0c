//! One experiment on every link: the events must be those of one process.
//!
//! The boards lose, double and reorder packets, and stall. Each run writes a folder, which is read
//! back with late fragments joined, as every command reads it. Compared are key,
//! status, the words about what is missing, and the bytes of each packet with its source.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fluxline_daq::event::EventBatch;
use fluxline_daq::experiment::{Builders, Experiment, Nodes, Readouts};
use fluxline_daq::ledger::Ledger;
use fluxline_daq::record::{Join, JoinedReader};
use fluxline_run::{Options, Report, Verdict};

/// Simulated networks with the keys of a world.
pub const SIMULATED: [&str; 6] = [
    "sim:sci",
    "sim:atoll",
    "sim:ethernet?fault=loss:1e-3&seed=3",
    "sim:myrinet",
    "sim:qsnet",
    "sim:infiniband",
];

/// The place of the time in a packet: the clock at which the boards were started differs.
const TIME: std::ops::Range<usize> = 24..32;

/// Four pairs of boards, of which one loses, doubles and reorders, one stalls, and one loses.
fn experiment(packets: u64) -> Experiment {
    let mut text = "name = \"boards\"\n[events]\nbuild = \"key\"\n".to_owned();
    for (number, faults) in [
        "",
        "faults = { drop = 0.01, duplicate = 0.01, reorder = 0.02 }",
        "faults = { stall = 0.001, stall-ms = 40 }",
        "faults = { drop = 0.002 }",
    ]
    .iter()
    .enumerate()
    {
        text.push_str(&format!(
            "[[source]]\nname = \"board-{number}\"\nformat = \"counter\"\n\
             [source.emulator]\nlink = \"direct\"\nsources = 2\nrate = 2000\n\
             packets = {packets}\nseed = {}\npayload-bytes = 64\n{faults}\n",
            number + 5
        ));
    }
    Experiment::parse("same.toml", &text).expect("a right experiment")
}

/// The events of a run: for each key and generation, the status, the words, and the packets.
pub type Events = BTreeMap<(Option<u64>, u32), Vec<Row>>;
pub type Row = (String, String, Vec<(String, Vec<u8>)>);

pub fn run(
    experiment: &Experiment,
    link: Option<&str>,
    counts: (u32, u32),
    folder: &Path,
) -> Report {
    let mut experiment = experiment.clone();
    let readout = Readouts { count: counts.0, ..Readouts::default() };
    experiment.graph = link.map(|_| Nodes {
        readout,
        builder: Builders { count: counts.1, ..Builders::default() },
        ..Nodes::default()
    });
    let (folder, link) = (Some(folder.to_path_buf()), link.map(str::to_owned));
    let options = Options { folder, link, ..Options::default() };
    let acquisition = fluxline_run::start_with(experiment, options).expect("it starts");
    acquisition.wait().expect("it ends")
}

pub fn events(folder: &Path) -> Events {
    let mut reader = JoinedReader::open(folder, Join::Late).expect("a run");
    let lines = reader.folder().sources().expect("sources");
    let names: BTreeMap<u32, String> = lines.into_iter().map(|of| (of.source, of.name)).collect();
    let mut events = Events::new();
    while let Some(batch) = reader.next_batch().expect("readable") {
        let mut rows = EventBatch::default();
        batch.append_to(&mut rows).expect("readable");
        let mut missing = &rows.missing[..];
        for view in rows.views() {
            let (words, rest) = missing.split_at(view.row.missing_bytes as usize);
            missing = rest;

            let packets = view.each_packet();
            let mut packets: Vec<(String, Vec<u8>)> = packets
                .map(|(row, bytes)| {
                    let mut bytes = bytes.to_vec();
                    if let Some(time) = bytes.get_mut(TIME) {
                        time.fill(0);
                    }
                    (names[&row.source].clone(), bytes)
                })
                .collect();
            packets.sort();
            let status = view.row.status.as_str().to_owned();
            let of = events.entry((view.row.key, view.row.generation)).or_default();
            of.push((status, words.to_owned(), packets));
        }
    }
    events
}

/// Returns the keys of events that differ, at most ten.
fn differences(one: &Events, other: &Events) -> Vec<String> {
    let keys: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let differs = keys.into_iter().filter(|key| one.get(key) != other.get(key));
    let words = |of: Option<&Vec<Row>>| {
        let rows = of.into_iter().flatten();
        let rows: Vec<String> = rows
            .map(|(status, missing, packets)| format!("{status} {missing} {}", packets.len()))
            .collect();
        rows.join(" | ")
    };
    differs
        .take(10)
        .map(|key| format!("{key:?}: {} / {}", words(one.get(key)), words(other.get(key))))
        .collect()
}

pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn compare(packets: u64, links: &[(&str, u32, u32)]) {
    compare_with_one_node(&experiment(packets), packets, links);
}

/// Runs an experiment of at least `least` events on one node, then on each link with that many
/// readouts and builders, and compares the events; returns the ledger of the one node.
pub fn compare_with_one_node(
    experiment: &Experiment,
    least: u64,
    links: &[(&str, u32, u32)],
) -> Ledger {
    fluxline_sim::register();
    let at = folder();
    let alone = run(experiment, None, (1, 1), &at.path().join("alone"));
    assert_eq!(alone.verdict, Verdict::Complete, "{}", alone.ledger.table());
    let expected = events(&at.path().join("alone"));
    assert!(expected.len() as u64 >= least, "{}", expected.len());
    for (number, (link, readouts, builders)) in links.iter().enumerate() {
        let path = at.path().join(number.to_string());
        let report = run(experiment, Some(link), (*readouts, *builders), &path);
        let place = format!("{link}, {readouts} readouts, {builders} builders");
        assert_eq!(report.verdict, Verdict::Complete, "{place}: {}", report.ledger.table());
        let differ = differences(&expected, &events(&path));
        assert!(differ.is_empty(), "{place}:\n{}", differ.join("\n"));
    }
    alone.ledger
}

#[test]
fn events_differ_between_one_node_and_threads() {
    compare(300, &[("threads", 1, 1), ("threads", 2, 1), ("threads", 1, 3), ("threads", 4, 4)]);
}

#[test]
fn events_differ_between_one_node_and_nodes_on_shared_memory() {
    let group = format!("shm:same{}", std::process::id());
    compare(300, &[(&group, 1, 1), (&group, 2, 3)]);
}

#[test]
fn events_differ_between_one_node_and_nodes_on_ethernet() {
    compare(300, &[("udp:127.0.0.1:24791", 1, 1), ("udp:127.0.0.1:24811", 3, 2)]);
}

#[test]
fn events_differ_between_one_node_and_a_simulated_network() {
    let of = |link: &&'static str| [(*link, 1, 1), (*link, 2, 3)];
    compare(150, &SIMULATED.iter().flat_map(of).collect::<Vec<_>>());
}

#[test]
fn a_network_with_a_fixed_number_of_nodes_does_not_run_with_idle_ones() {
    compare(50, &[("sim:atoll?grid=4x4", 1, 1), ("sim:sci?topology=torus:4x4", 2, 2)]);
}

#[test]
fn a_simulated_run_without_an_end_does_not_obey_ctrl_c() {
    fluxline_sim::register();
    let (experiment, at) = (experiment(0), folder());
    let stop = fluxline_run::Stop::default();
    stop.now();
    let (folder, link) = (Some(at.path().join("run")), Some("sim:sci".to_owned()));
    let options = Options { folder, link, stop, ..Options::default() };
    let report = fluxline_run::start_with(experiment, options).expect("it starts").wait();
    assert_eq!(report.expect("it ends").verdict, Verdict::Complete);
}

#[test]
fn a_simulated_run_with_wrong_keys_leaves_a_folder_or_a_riddle() {
    fluxline_sim::register();
    let at = folder();
    for (link, says) in [
        ("sim:sci?nodez=3", "unknown part"),
        ("sim:token-ring", "sim:"),
        ("sim:sci?nodes=4", "the run needs 6"),
        ("sim:atoll?grid=2x2", "the run needs 6"),
    ] {
        let (path, experiment) = (at.path().join("never"), experiment(10));
        let (folder, link_text) = (Some(path.clone()), Some(link.to_owned()));
        let options = Options { folder, link: link_text, ..Options::default() };
        let said = match fluxline_run::start_with(experiment, options) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{link} is accepted"),
        };
        assert!(said.contains(says), "{link}: {said}");
        assert!(!path.exists(), "{link}");
    }
}

#[test]
fn a_node_that_dies_in_virtual_time_leaves_packets_without_a_place() {
    fluxline_sim::register();
    let (experiment, at) = (experiment(200), folder());
    for (number, what) in ["builder-0", "builder-1", "readout-0"].into_iter().enumerate() {
        let link = format!("sim:ethernet?fault=host:{what}@60ms&seed=2");
        let path = at.path().join(number.to_string());
        let report = run(&experiment, Some(&link), (2, 2), &path);
        let ledger = &report.ledger;
        for law in ledger.check() {
            assert!(law.holds(), "{what}: {law:?}\n{}", ledger.table());
        }
        let sentence = report.verdict.sentence().unwrap_or_default().to_owned();
        assert_eq!(report.verdict.status(), 7, "{what}: {sentence}\n{}", ledger.table());
        let says = if what == "readout-0" { what } else { "lost with a node" };
        assert!(sentence.contains(says), "{what}: {sentence}");
    }
}

#[test]
fn work_takes_no_virtual_time_or_loses_events() {
    fluxline_sim::register();
    let at = folder();
    let run = |name: &str, readout_ns: u64, builder_ns: u64| {
        let mut experiment = experiment(150);
        let readout = Readouts { packet_ns: readout_ns, ..Readouts::default() };
        let builder = Builders { count: 1, packet_ns: builder_ns };
        experiment.graph = Some(Nodes { readout, builder, ..Nodes::default() });
        let (folder, link) = (Some(at.path().join(name)), Some("sim:sci".to_owned()));
        let options = Options { folder, link, ..Options::default() };
        let acquisition = fluxline_run::start_with(experiment, options).expect("it starts");
        let report = acquisition.wait().expect("it ends");
        assert_eq!(report.verdict, Verdict::Complete, "{name}: {}", report.ledger.table());
        let ended = report.document["ended_ns"].as_u64().expect("a time");
        (ended, report.ledger.source_totals().recorded, report.ledger.builder.events_complete)
    };
    // 8 boards with 2,000 packets/s: 62.5 us are the whole time of one node.
    let (alone, light, readout, builder) = (
        run("alone", 0, 0),
        run("light", 1_000, 1_000),
        run("r", 500_000, 0),
        run("b", 0, 500_000),
    );
    assert!(light.0 < alone.0 + 10_000_000, "{light:?} {alone:?}");
    for (ended, recorded, _) in [readout, builder] {
        assert_eq!(recorded, alone.1);
        let least = recorded * 500_000;
        assert!(ended - 946_684_800_000_000_000 > least, "{ended}: {least} of work");
    }
}

#[test]
fn the_delay_of_events_is_not_that_of_records_and_link() {
    fluxline_sim::register();
    let at = folder();
    let median_us = |record_ms: f64| {
        let mut experiment = experiment(2_600);
        experiment.record.enabled = false;
        let readout = Readouts { count: 2, record_ms, ..Readouts::default() };
        experiment.graph = Some(Nodes { readout, ..Nodes::default() });
        let link = Some("sim:qsnet".to_owned());
        let options = Options { folder: None, link, ..Options::default() };
        let acquisition = fluxline_run::start_with(experiment, options).expect("it starts");
        let report = acquisition.wait().expect("it ends");
        let delays = report.delays.expect("they are measured");
        assert!(delays.events >= 2_600, "{delays:?}");
        delays.p50_ns / 1_000
    };
    // Half of the events end after the second in which sources may join.
    let (fast, slow) = (median_us(0.1), median_us(5.0));
    assert!((20..300).contains(&fast), "{fast} us");
    assert!((2_000..8_000).contains(&slow), "{slow} us");

    let captures = crate::same_recorded::experiment(50, at.path());
    let report = run(&captures, None, (1, 1), &at.path().join("alone"));
    assert_eq!(report.delays, None, "captures have times of another day");
}

/// Returns the bytes of the files of a run that a seed decides.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<(PathBuf, Vec<u8>)> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path.file_name().map(PathBuf::from).unwrap_or_default();
            (name, std::fs::read(&path).expect("readable"))
        })
        .collect();
    files.sort();
    files
}

#[test]
fn a_run_in_virtual_time_gives_other_bytes_the_second_time() {
    fluxline_sim::register();
    let (experiment, at) = (experiment(100), folder());
    let run = |name: &str| {
        let path = at.path().join(name).join("run");
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        let report = run(&experiment, Some("sim:sci?seed=11"), (2, 2), &path);
        assert_eq!(report.verdict, Verdict::Complete);
        files(&path)
    };
    let (one, other) = (run("one"), run("two"));
    let names =
        |of: &[(PathBuf, Vec<u8>)]| of.iter().map(|file| file.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&one), names(&other));
    for ((name, bytes), (_, again)) in one.iter().zip(&other) {
        let (bytes, again) = (String::from_utf8_lossy(bytes), String::from_utf8_lossy(again));
        let again = again.replace("/two/", "/one/");
        assert!(bytes == again, "{} differs:\n{bytes:.3000}\n{again:.3000}", name.display());
    }
}
