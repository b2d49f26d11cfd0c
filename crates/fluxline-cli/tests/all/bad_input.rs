//! Mistakes of users, and faults of their disks and networks: one sentence each, an exit
//! status that a script can use, and nothing that was recorded is lost.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use crate::support::{
    Running, TinyDisk, call, call_json, call_json_ending, fluxline, number, refused, run_document,
    sentence, text,
};

/// Exit statuses; `fluxline --help` lists them.
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const INPUT: i32 = 3;
const RECORDING: i32 = 5;
const LINK: i32 = 6;
const LOOK: i32 = 7;
/// A program that a second Ctrl-C ended: 128 + SIGINT.
const INTERRUPTED: i32 = 130;

const UDP_SOURCE: &str =
    "[[source]]\nname = 'board'\nformat = 'counter'\n[source.udp]\nlisten = ['127.0.0.1:0']\n";

/// Writes an experiment and runs it; it must be refused as wrong input before a folder is made.
fn refused_experiment(experiment: &str) -> String {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("experiment.toml");
    std::fs::write(&file, experiment).expect("written");
    let folder = scratch.path().join("run");
    let message = refused(&call(&["run", text(&file), "--folder", text(&folder)]), INPUT);
    assert!(!folder.exists(), "refused, and yet a folder was made: {message}");
    message
}

fn assert_names(message: &str, words: &[&str]) {
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
}

/// A capture of 50 packets of each of two counters.
fn emulated(scratch: &Path) -> String {
    let capture = scratch.join("emulated.pcapng");
    let sized = ["--packets", "50", "--sources", "2", "--seed", "1"];
    call_json(&[&["emulate", "counter", "--to", text(&capture)], &sized[..]].concat());
    text(&capture).to_string()
}

/// Runs over a capture; it must be refused with that status.
fn refused_capture(capture: &str, more: &[&str], status: i32) -> String {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let mut command = fluxline();
    command.args(["run", "--pcap", capture, "--format", "counter"]).args(more);
    refused(&command.current_dir(scratch.path()).output().expect("the program starts"), status)
}

#[test]
fn an_unknown_key_names_file_line_and_key() {
    let message = refused_experiment(&format!("{UDP_SOURCE}receive-buffer = 3\n"));
    assert_names(&message, &["experiment.toml:6:", "`receive-buffer`", "`receive-buffer-bytes`"]);
}

#[test]
fn a_wrong_experiment_names_what_to_write() {
    let message = refused_experiment("name = 'empty'\n");
    assert_names(&message, &["experiment.toml", "source"]);
    let message = refused_experiment("x = [");
    assert_names(&message, &["experiment.toml:1:"]);
    let message = refused_experiment(&format!("seconds = -1\n{UDP_SOURCE}"));
    assert_names(&message, &["seconds = -1", "no limit"]);
    let message = refused_experiment(&format!("seconds = nan\n{UDP_SOURCE}"));
    assert_names(&message, &["seconds = NaN"]);
    let message = refused_experiment(&UDP_SOURCE.replace("127.0.0.1:0", "nowhere"));
    assert_names(&message, &["source `board`", "nowhere", "0.0.0.0:6006"]);
    let keyless = UDP_SOURCE.replace("'counter'", "'panoseti'");
    let message = refused_experiment(&format!("{keyless}[events]\nbuild = 'key'\n"));
    assert_names(&message, &["event key", "build = \"packet\""]);
}

#[test]
fn a_format_that_is_not_there_is_answered_with_its_neighbour() {
    let message = refused_experiment(&UDP_SOURCE.replace("'counter'", "'countr'"));
    assert_names(&message, &["`countr`", "Did you mean `counter`?", "fluxline format list"]);
    let message = refused_experiment(&UDP_SOURCE.replace("'counter'", "'mine.toml'"));
    assert_names(&message, &["mine.toml", "No such file"]);
}

#[test]
fn a_wrong_description_names_file_line_column_and_key() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("mine.toml");
    std::fs::write(&file, "name = 'mine'\nbyte-ordr = 'big'\n").expect("written");
    let message = refused(&call(&["format", "show", text(&file)]), INPUT);
    assert_names(&message, &["mine.toml:2:1:", "`byte-ordr`", "did you mean `byte-order`?"]);
}

#[test]
fn a_wrong_parameter_is_named() {
    let message = refused(&call(&["format", "show", "counter", "--set", "rows=3"]), INPUT);
    assert_names(&message, &["`rows`", "counter"]);
    let message = refused(&call(&["format", "show", "counter", "--set", "rows"]), INPUT);
    assert_names(&message, &["--set rows", "NAME=INTEGER"]);
}

#[test]
fn a_port_in_use_is_named_whoever_uses_it() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let other = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port = other.local_addr().expect("bound").port();
    let folder = scratch.path().join("run");
    let run = |port: u16, folder: &Path| {
        let listen = format!("127.0.0.1:{port}");
        call(&["run", "--udp", &listen, "--format", "counter", "--folder", text(folder)])
    };
    let message = refused(&run(port, &folder), LINK);
    assert_names(&message, &[&port.to_string(), "in use"]);
    assert!(!folder.exists(), "refused, and yet a folder was made");

    // Two runs on one port would each get a part of the packets, and neither know.
    let first = scratch.path().join("first");
    let (running, port) = Running::listen(&["--format", "counter", "--folder", text(&first)]);
    let message = refused(&run(port, &folder), LINK);
    assert_names(&message, &[&port.to_string(), "in use"]);
    running.interrupt();
    let (code, said) = running.end();
    assert_names(&sentence(code, &said, LOOK), &["received nothing"]);
}

#[test]
fn an_address_of_another_machine_is_named() {
    let output = call(&["run", "--udp", "192.0.2.77:6006", "--format", "counter", "--no-record"]);
    assert_names(&refused(&output, LINK), &["192.0.2.77:6006", "not an address of this machine"]);
}

#[test]
fn a_folder_that_exists_is_not_written_into() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let capture = emulated(scratch.path());
    let folder = scratch.path().join("there");
    std::fs::create_dir(&folder).expect("made");
    let message = refused_capture(&capture, &["--folder", text(&folder)], FAILED);
    assert_names(&message, &["there", "exists already"]);
    assert_eq!(std::fs::read_dir(&folder).expect("readable").count(), 0);
}

#[test]
fn a_folder_that_cannot_be_made_is_named_with_the_true_reason() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let capture = emulated(scratch.path());
    let message = refused_capture(&capture, &["--folder", "/proc/run"], FAILED);
    assert_names(&message, &["/proc/run", "no permission"]);
    let below_file = format!("{capture}/run");
    let message = refused_capture(&capture, &["--folder", &below_file], FAILED);
    assert_names(&message, &[&below_file, "not a directory"]);
}

#[test]
fn what_is_no_capture_is_named_with_what_it_starts_with() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let missing = scratch.path().join("missing.pcapng");
    let message = refused_capture(text(&missing), &[], INPUT);
    assert_names(&message, &["missing.pcapng", "cannot be read", "No such file"]);
    let other = scratch.path().join("letter.pcap");
    std::fs::write(&other, "Dear Sir").expect("written");
    let message = refused_capture(text(&other), &[], INPUT);
    assert_names(&message, &["letter.pcap", "not a capture", "44 65 61 72"]);
    std::fs::write(&other, "").expect("written");
    assert_names(&refused_capture(text(&other), &[], INPUT), &["nothing"]);
    assert_names(&refused_capture(text(scratch.path()), &[], INPUT), &["cannot be read"]);
}

#[test]
fn a_capture_cut_in_the_middle_gives_all_whole_frames_and_a_note() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let whole = std::fs::read(emulated(scratch.path())).expect("readable");
    let file = scratch.path().join("cut.pcapng");
    // 100 frames of 1056 + 42 bytes and what surrounds them: half the file has nearly half of them.
    std::fs::write(&file, &whole[..whole.len() / 2]).expect("written");
    let folder = scratch.path().join("run");
    let run = ["run", "--pcap", text(&file), "--format", "counter", "--folder", text(&folder)];
    let document = call_json_ending(&run, 7);
    assert_eq!(document["closes"], true, "{}", document["laws"]);
    let recorded = number(&document["totals"], "recorded");
    assert!((48..=50).contains(&recorded), "{recorded}");
    assert_eq!(number(&document["totals"], "lost"), 0, "what was cut off is not lost");
    assert_eq!(number(&document["inputs"][0]["capture"], "cut"), 1);
    let notes = document["notes"].to_string();
    assert_names(&notes, &["cut.pcapng"]);
    let found = call_json_ending(&["inspect", text(&folder)], LOOK);
    assert_eq!(number(&found["readable"], "packets"), recorded);
}

#[test]
fn no_arguments_and_half_commands_are_answered_with_an_example() {
    let output = fluxline().output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(USAGE), "{errors}");
    assert_names(&errors, &["Usage: fluxline", "Example: fluxline run"]);
    assert_names(&refused(&call(&["run"]), INPUT), &["experiment.toml", "--pcap"]);
    assert_names(&refused(&call(&["run", "--format", "counter"]), INPUT), &["--pcap", "--udp"]);
}

#[test]
fn an_emulated_capture_without_end_is_not_begun() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("endless.pcapng");
    let endless = ["emulate", "counter", "--to", text(&file)];
    assert_names(&refused(&call(&endless), INPUT), &["--packets", "--seconds"]);
    for seconds in ["--seconds=-1", "--seconds=nan", "--seconds=inf"] {
        let output = call(&[&endless[..], &[seconds]].concat());
        assert_names(&refused(&output, INPUT), &["--seconds", "no limit"]);
    }
    assert!(!file.exists());
    assert_names(&refused(&call(&["emulate", "counter", "--to", "udp://x"]), INPUT), &["udp://x"]);
}

#[test]
fn a_run_that_is_none_is_named() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let missing = scratch.path().join("missing");
    let file = scratch.path().join("file");
    std::fs::write(&file, "no run").expect("written");
    for run in [&missing, &file, &scratch.path().to_path_buf()] {
        for command in [&["inspect", text(run)][..], &["recover", text(run)]] {
            assert_names(&refused(&call(command), INPUT), &[text(run)]);
        }
        let output = call(&["export", text(run), "--to", "csv"]);
        assert_names(&refused(&output, INPUT), &[text(run)]);
    }
}

#[test]
fn a_disk_that_fills_stops_the_recording_and_not_the_readout() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let mount = scratch.path().join("disk");
    std::fs::create_dir(&mount).expect("made");
    let Some(disk) = TinyDisk::mount(&mount, 2 << 20) else { return };
    let file = scratch.path().join("experiment.toml");
    let experiment = "[[source]]\nname = 'board'\nformat = 'counter'\n[source.emulator]\n\
        rate = 5000\npackets = 5000\nlink = 'direct'\nseed = 1\n[record]\nbatch-bytes = 100000\n";
    std::fs::write(&file, experiment).expect("written");
    let folder = disk.0.join("run");
    let output = fluxline()
        .args(["--json", "run", text(&file), "--folder", text(&folder)])
        .output()
        .expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(RECORDING), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    assert_names(&errors, &["no space left", "\"status\":5"]);
    let document: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("the ledger is printed all the same");
    assert_eq!(document["closes"], true, "{}", document["laws"]);
    assert_eq!(document["state"], "recording-stopped");
    let totals = &document["totals"];
    assert_eq!(number(totals, "parsed"), 5000, "the readout went on");
    let (recorded, failed) = (number(totals, "recorded"), number(totals, "write_failed"));
    assert_eq!(recorded + failed, 5000);
    assert!(recorded > 500 && failed > 500, "{recorded} recorded, {failed} not");
    let found = call_json_ending(&["inspect", text(&folder)], RECORDING);
    assert_eq!(number(&found["readable"], "packets"), recorded);
    assert_eq!(number(&found, "damages"), 0);
    assert_eq!(number(&found, "torn_bytes"), 0);
}

#[test]
fn a_disk_too_full_for_another_byte_still_takes_the_end_of_the_run() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let mount = scratch.path().join("disk");
    std::fs::create_dir(&mount).expect("made");
    let Some(disk) = TinyDisk::mount(&mount, 1 << 20) else { return };
    let folder = disk.0.join("run");
    let arguments = ["--format", "counter", "--folder", text(&folder)];
    let (running, _port) = Running::listen(&arguments);
    // Somebody else fills the disk to the last byte.
    let full = std::fs::write(disk.0.join("other"), vec![1; 2 << 20]);
    assert!(full.is_err(), "the disk is small");
    running.interrupt();
    let (code, said) = running.end();
    let message = sentence(code, &said, LOOK);
    assert_names(&message, &["received nothing"]);
    drop(std::fs::remove_file(disk.0.join("other")));
    assert_eq!(run_document(&folder)["state"], "finished", "its space was taken at the start");
    assert_eq!(run_document(&folder)["sentence"], message.trim_start_matches("fluxline: "));
}

#[test]
fn ctrl_c_drains_and_closes_the_run() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("run");
    let (running, port) = Running::listen(&["--format", "counter", "--folder", text(&folder)]);
    let to = format!("udp://127.0.0.1:{port}");
    let sized = ["--packets", "400", "--sources", "3", "--rate", "1000", "--payload-bytes", "64"];
    let sent = call_json(&[&["emulate", "counter", "--to", &to], &sized[..]].concat());
    running.interrupt();
    let (code, said) = running.end();
    assert_eq!(code, Some(0), "{said}");
    let document = run_document(&folder);
    assert_eq!(document["state"], "finished");
    assert_eq!(document["closes"], true, "{}", document["laws"]);
    let totals = &document["totals"];
    assert_eq!(number(&sent, "sent"), 1200);
    assert_eq!(number(totals, "datagrams") + number(totals, "socket_dropped"), 1200);
    assert_eq!(number(totals, "recorded"), number(totals, "datagrams"));
}

#[test]
fn ctrl_c_before_the_first_packet_leaves_a_closed_run() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("run");
    let (running, _port) = Running::listen(&["--format", "counter", "--folder", text(&folder)]);
    running.interrupt();
    let (code, said) = running.end();
    assert_names(&sentence(code, &said, LOOK), &["received nothing"]);
    assert_eq!(run_document(&folder)["state"], "finished");
    call_json_ending(&["inspect", text(&folder)], LOOK);
}

#[test]
fn a_second_ctrl_c_ends_a_run_that_cannot_drain() {
    // A pipe whose writer stays and says nothing: who reads it waits in the kernel, deaf to a stop
    // that is only looked at between two reads.
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let pipe = format!("/proc/{}/fd/{}", std::process::id(), reader.as_raw_fd());
    let running = Running::spawn(&["run", "--pcap", &pipe, "--format", "counter"]);
    running.wait_for_handler();
    running.interrupt();
    std::thread::sleep(Duration::from_millis(1_500)); // longer than the time of one wish
    running.interrupt(); // fails if the first ended it
    let (code, said) = running.end();
    assert_eq!(code, Some(INTERRUPTED), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}
