//! Data that this host received and that is not in the files: the run says so first, with a status
//! of its own, and the printed rows add up.

use std::net::UdpSocket;
use std::path::Path;

use crate::support::{Running, call, fluxline, refused, run_document, sentence, text};
use serde_json::Value;

/// A run that listens, gets these datagrams and is interrupted.
struct Live {
    status: Option<i32>,
    errors: String,
    text: String,
    document: Value,
}

fn listen_to(extra: &str, datagrams: &[Vec<u8>]) -> Live {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (file, folder) = (scratch.path().join("experiment.toml"), scratch.path().join("run"));
    let experiment = format!(
        "{extra}\n[[source]]\nname = 'port'\nformat = 'counter'\n[source.udp]\n\
         listen = ['127.0.0.1:0']\ngro = false\ndatagram-bytes-max = 64\n"
    );
    std::fs::write(&file, experiment).expect("written");
    let running = Running::start(&["run", text(&file), "--folder", text(&folder)], "memory ");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for datagram in datagrams {
        sender.send_to(datagram, ("127.0.0.1", running.port())).expect("sent");
    }
    running.wait_for_handler();
    running.interrupt();
    let (status, errors, text) = running.end_with_output();
    Live { status, errors, text, document: run_document(&folder) }
}

/// Cells of a printed line: two spaces or more stand between them.
fn cells(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

/// Adds up the printed rows of received data and of sources, and compares with run.json.
fn assert_rows_add_up(text: &str, document: &Value) {
    let number = |cell: &str| -> u64 {
        let digits = cell.split(' ').next().expect("a word");
        digits.parse().unwrap_or_else(|_| panic!("{cell}: {text}"))
    };
    let mut lines = text.lines().skip_while(|line| !line.starts_with("received "));
    let received = number(cells(lines.next().expect("the first row"))[1]);
    let ends = lines.by_ref().take_while(|line| line.starts_with("  ")).map(cells);
    let ends: u64 = ends.filter(|row| !row[1].ends_with("frames")).map(|row| number(row[1])).sum();
    assert_eq!(received, ends, "{text}");
    assert_eq!(document["received"], received);
    let heads = cells(lines.next().expect("heads"));
    let divider = heads.iter().position(|head| *head == "|").expect("a divider");
    let mut parsed = 0;
    for row in lines.map(cells) {
        let places: u64 = row[2..divider].iter().map(|cell| number(cell)).sum();
        assert_eq!(number(row[1]), places, "{row:?} of {text}");
        if row[0] == "all" {
            assert_eq!(number(row[1]), parsed, "{text}");
            assert_eq!(document["totals"]["parsed"], parsed);
            return;
        }
        parsed += number(row[1]);
    }
    panic!("no row of all sources: {text}");
}

#[test]
fn run_in_which_all_was_truncated_says_so_first_and_ends_with_7() {
    let live = listen_to("", &vec![vec![7; 200]; 320]);
    let said = sentence(live.status, &live.errors, 7);
    assert!(said.contains("320 of 320 received datagrams are not in the files"), "{said}");
    assert!(said.contains("truncated 320") && said.contains("`datagram-bytes-max`"), "{said}");
    let first = live.text.lines().next().expect("a headline");
    assert!(first.starts_with("Received 320 datagrams: 0 recorded, 320 not recorded"), "{first}");
    assert!(first.contains("lost packets cannot be counted"), "{first}");
    assert_rows_add_up(&live.text, &live.document);
    assert_eq!(live.document["status"], 7);
    assert_eq!(said, format!("fluxline: {}", live.document["sentence"].as_str().expect("text")));
}

#[test]
fn run_in_which_all_was_rejected_ends_with_7_unless_that_is_accepted() {
    let datagrams = vec![vec![7; 40]; 100];
    let live = listen_to("", &datagrams);
    let said = sentence(live.status, &live.errors, 7);
    assert!(said.contains("100 of 100 received datagrams are not in the files"), "{said}");
    assert_rows_add_up(&live.text, &live.document);
    let live = listen_to("accept = ['rejected']", &datagrams);
    assert_eq!(live.status, Some(0), "{}", live.errors);
    assert!(live.text.starts_with("Received 100 datagrams: 0 recorded, 100 not"), "{}", live.text);
    assert_eq!(live.document["status"], 0);
    assert_eq!(live.document["sentence"], Value::Null);
}

#[test]
fn word_that_is_no_end_of_data_is_refused_with_those_that_are() {
    let output = call(&["run", "--udp", "127.0.0.1:0", "--format", "counter", "--accept", "loss"]);
    let said = refused(&output, 3);
    assert!(said.contains("\"loss\"") && said.contains("rejected, truncated"), "{said}");
}

fn emulate(folder: &Path, experiment: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let file = folder.with_extension("toml");
    std::fs::write(&file, experiment).expect("written");
    let all = [&["run", text(&file), "--folder", text(folder)], arguments].concat();
    let output = call(&all);
    let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), show(&output.stderr), show(&output.stdout))
}

#[test]
fn rows_of_runs_with_faults_add_up_and_only_what_is_missing_makes_the_status() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    for (seed, faults, expected) in [
        (1, "drop = 0.01\nduplicate = 0.01\nreorder = 0.01", 0),
        (2, "drop = 0.01\nduplicate = 0.01\ncorrupt = 0.02", 7),
        (3, "corrupt = 0.02\nrestart = 0.001\nreorder = 0.02", 7),
    ] {
        println!("seed {seed}");
        let experiment = format!(
            "[[source]]\nname = 'boards'\nformat = 'counter'\n[source.emulator]\nsources = 4\n\
             rate = 20000\npackets = 5000\nlink = 'direct'\npayload-bytes = 64\nseed = {seed}\n\
             pattern = 'noise'\n[source.emulator.faults]\n{faults}\n[events]\nbuild = 'packet'\n"
        );
        let folder = scratch.path().join(format!("run-{seed}"));
        let (status, errors, printed) = emulate(&folder, &experiment, &[]);
        assert_eq!(status, Some(expected), "{errors}{printed}");
        let document = run_document(&folder);
        assert_rows_add_up(&printed, &document);
        let inspected = call(&["inspect", text(&folder)]);
        assert_eq!(inspected.status.code(), status, "the status of the run");
        assert_rows_add_up(&String::from_utf8_lossy(&inspected.stdout), &document);
    }
}

#[test]
fn run_that_records_nothing_says_so_in_its_headline() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let experiment = "[[source]]\nname = 'boards'\nformat = 'counter'\n[source.emulator]\n\
                      packets = 100\nlink = 'direct'\nrate = 10000\n";
    let folder = scratch.path().join("run");
    let (status, errors, printed) = emulate(&folder, experiment, &["--no-record"]);
    assert_eq!(status, Some(0), "{errors}");
    assert!(
        printed.starts_with("Received 100 datagrams: 0 recorded, 100 counted only"),
        "{printed}"
    );
}

/// A capture of an emulated board, with its file.
fn capture(folder: &Path, packets: &str) -> String {
    let file = folder.join("capture.pcapng");
    let output =
        call(&["emulate", "counter", "--to", text(&file), "--packets", packets, "--seed", "1"]);
    assert!(output.status.success());
    text(&file).to_owned()
}

#[test]
fn capture_cut_in_the_middle_of_a_frame_ends_with_7() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = capture(scratch.path(), "50");
    let bytes = std::fs::read(&file).expect("readable");
    std::fs::write(&file, &bytes[..bytes.len() - 30]).expect("written");
    let folder = scratch.path().join("run");
    let arguments = ["run", "--pcap", &file, "--format", "counter", "--folder", text(&folder)];
    let said = refused(&call(&arguments), 7);
    assert!(said.contains("frames unusable 1"), "{said}");
    assert_eq!(run_document(&folder)["totals"]["recorded"], 49);
}

#[test]
fn capture_that_does_not_fit_its_description_ends_with_7() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = capture(scratch.path(), "50");
    let said = refused(&call(&["format", "check", "srs-vmm3", "--capture", &file]), 7);
    assert!(said.contains("no packet of") && said.contains("srs-vmm3"), "{said}");
    let folder = scratch.path().join("run");
    let arguments = ["run", "--pcap", &file, "--format", "srs-vmm3", "--folder", text(&folder)];
    let said = refused(&call(&arguments), 7);
    assert!(said.contains("50 of 50 received datagrams are not in the files"), "{said}");
}

#[test]
fn required_source_that_never_came_ends_with_7_and_is_named() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let experiment = "[[source]]\nname = 'boards'\nformat = 'counter'\n[source.emulator]\n\
                      sources = 2\npackets = 100\nlink = 'direct'\nrate = 1000\n[events]\n\
                      build = 'key'\ntimeout-ms = 100\n";
    let by_label = format!("{experiment}require = ['source_id=0', 'source_id=5']\n");
    let folder = scratch.path().join("by-label");
    let (status, errors, _) = emulate(&folder, &by_label, &[]);
    let said = sentence(status, &errors, 7);
    assert!(said.contains("required source source_id=5 sent nothing"), "{said}");
    let by_count = format!("{experiment}require = 3\n");
    let (status, errors, _) = emulate(&scratch.path().join("by-count"), &by_count, &[]);
    let said = sentence(status, &errors, 7);
    assert!(said.contains("2 of 3 required sources sent to the end"), "{said}");
    let (status, errors, _) =
        emulate(&scratch.path().join("accepted"), &by_count, &["--accept", "silent"]);
    assert_eq!(status, Some(0), "{errors}");
}

#[test]
fn reader_that_leaves_early_does_not_hide_the_status() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = capture(scratch.path(), "50");
    let folder = scratch.path().join("run");
    let (read, write) = std::io::pipe().expect("a pipe");
    drop(read);
    let status = fluxline()
        .args(["run", "--pcap", &file, "--format", "srs-vmm3", "--folder", text(&folder)])
        .stdout(write)
        .stderr(std::process::Stdio::null())
        .status();
    assert_eq!(status.expect("it ran").code(), Some(7));
}
