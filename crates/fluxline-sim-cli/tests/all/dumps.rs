//! `fluxline sim run --dump` as a black box: other programs read the file, and a file that cannot
//! be written is one sentence.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{call, fluxline, refused, text};
use fluxline_daq::capture::CaptureReader;
use fluxline_packet::wireshark::{self, Carrier};

const RING: &str = "[network]\nnodes = 4\nreceive-queue = 1\n\
    [traffic]\npattern = \"hot-receiver\"\ncommand = \"write\"\n\
    [run]\nloads = [0.1, 0.2]\nsaturation = false\nwarm-up-us = 1.0\n\
    warm-up-max-us = 4.0\nduration-us = 4.0\n";
const TORUS: &str = "[network]\nkind = \"torus\"\nside = 3\n[run]\nloads = [0.05]\n\
    saturation = false\nwarm-up-us = 1.0\nwarm-up-max-us = 4.0\nduration-us = 4.0\n";

fn scenario(folder: &Path, content: &str) -> String {
    let file = folder.join("scenario.toml");
    std::fs::write(&file, content).expect("written");
    text(&file).to_string()
}

fn dump(folder: &Path, content: &str, to: &Path, more: &[&str]) -> Output {
    let file = scenario(folder, content);
    let arguments = ["sim", "run", &file, "--dump", text(to)];
    call(&[&arguments[..], more].concat())
}

fn done(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns true if tshark is installed; otherwise prints it, or fails if it is required.
fn has_tshark() -> bool {
    let found = Command::new("tshark").arg("--version").output();
    let there = found.is_ok_and(|output| output.status.success());
    let required = std::env::var("FLUXLINE_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(there || !required, "tshark does not work here");
    if !there {
        println!("skipped: tshark does not work here");
    }
    there
}

/// The dissector of a format for a link type, as a file.
fn dissector(folder: &Path, format: &str, link_type: u16) -> PathBuf {
    let loaded =
        fluxline_daq::formats::load(format, &Default::default()).expect("a shipped format");
    let carrier = Carrier::link_type(link_type).expect("a type for users");
    let script = folder.join(format!("{format}.lua"));
    std::fs::write(&script, wireshark::dissector_on(&loaded.description, &[carrier]))
        .expect("written");
    script
}

/// The columns that tshark shows of a file, a row a packet.
fn tshark(script: &Path, file: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-X").arg(format!("lua_script:{}", script.display()));
    command.arg("-r").arg(file).args(["-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !errors.contains("Lua"), "{errors}");
    let shown = String::from_utf8(output.stdout).expect("UTF-8");
    shown.lines().map(|line| line.split('\t').map(String::from).collect()).collect()
}

#[test]
fn tshark_names_the_fields_of_sends_and_echoes() {
    if !has_tshark() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, file) = (folder.path(), folder.path().join("ring.pcapng"));
    done(&dump(folder, RING, &file, &["--dump-us", "20"]));
    let script = dissector(folder, "sci", 147);
    let fields = [
        "_ws.col.Protocol",
        "frame.interface_name",
        "frame.comment",
        "fluxline_sci.request.command",
        "fluxline_sci.request.target",
        "fluxline_sci.echo.busy",
        "fluxline_sci.response.status",
        "_ws.expert.message",
        "frame.time_epoch",
    ];
    let rows = tshark(&script, &file, &fields);
    assert!(rows.len() > 100, "{} packets", rows.len());
    for row in &rows {
        // tshark shows comments among the complaints; there is no other.
        assert_eq!((row[0].as_str(), &row[7]), ("sci", &row[2]), "{row:?}");
        assert!(row[1].starts_with("ringlet0:") && row[2].contains("send "), "{row:?}");
    }
    let some = |column: usize, value: &str| rows.iter().filter(|row| row[column] == value).count();
    // Writes of 64 bytes to the hot node 0, their answers, and echoes of both.
    assert!(some(3, "69") > 10 && some(4, "0") > 10, "writes, most of them to node 0");
    assert!(some(6, "0") > 10, "answers");
    assert!(some(5, "0") > 10, "echoes");
}

#[test]
fn tshark_names_the_fields_of_packets_between_routers() {
    if !has_tshark() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, file) = (folder.path(), folder.path().join("torus.pcapng"));
    done(&dump(folder, TORUS, &file, &["--dump-us", "5"]));
    let script = dissector(folder, "sim-network", 148);
    let fields = ["_ws.col.Protocol", "fluxline_sim_network.packet.bytes", "_ws.expert.message"];
    let rows = tshark(&script, &file, &fields);
    assert!(rows.len() > 20, "{} packets", rows.len());
    assert!(rows.iter().all(|row| row[0] == "sim-network" && row[1] == "64" && row[2].is_empty()));
}

#[test]
fn our_own_reader_of_captures_finds_as_many_frames_as_were_dumped() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ring.pcapng");
    let output = dump(folder.path(), RING, &file, &[]);
    done(&output);
    let mut reader = CaptureReader::open(&file).expect("a capture");
    while reader.next().expect("a whole file").is_some() {}
    let counters = reader.counters();
    assert_eq!((counters.frames, reader.cut()), (counters.unknown_link, None));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains(&format!("({} packets)", counters.frames)), "{said}");
}

#[test]
fn a_folder_gets_a_file_for_each_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let dumps = folder.path().join("dumps");
    std::fs::create_dir(&dumps).expect("a folder");
    done(&dump(folder.path(), RING, &dumps, &[]));
    let mut names: Vec<String> = std::fs::read_dir(&dumps)
        .expect("a folder")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["load-0.1.pcapng", "load-0.2.pcapng"]);
}

#[test]
fn a_dump_beyond_its_limit_says_how_many_packets_it_lacks() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("small.pcapng");
    let output = dump(folder.path(), RING, &file, &["--dump-limit", "4096"]);
    done(&output);
    assert!(std::fs::metadata(&file).expect("a file").len() <= 4096);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("more did not fit into its limit of 4096 bytes"), "{said}");
}

#[test]
fn a_file_that_exists_is_left_alone_and_a_bad_place_is_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let precious = folder.path().join("precious.pcapng");
    std::fs::write(&precious, b"precious").expect("written");
    let message = refused(&dump(folder.path(), RING, &precious, &[]), 1);
    assert!(message.contains("precious.pcapng exists already"), "{message}");
    assert_eq!(std::fs::read(&precious).expect("a file"), b"precious");
    let nowhere = folder.path().join("no/such/folder/x.pcapng");
    let message = refused(&dump(folder.path(), RING, &nowhere, &[]), 1);
    assert!(message.contains("x.pcapng cannot be written"), "{message}");
    let new = folder.path().join("new.pcapng");
    for us in ["0", "-1", "NaN", "inf", "1e9"] {
        let more = format!("--dump-us={us}");
        let message = refused(&dump(folder.path(), RING, &new, &[&more]), 1);
        assert!(message.contains("--dump-us takes microseconds"), "{message}");
    }
    assert!(!new.exists());
}

#[test]
fn a_disk_without_room_is_one_sentence_and_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, to) = (scenario(folder.path(), RING), folder.path().join("full.pcapng"));
    // A limit on the size of files acts like a full disk; blocks of 512 bytes or of 1024.
    let script = "trap '' XFSZ; ulimit -f 4; exec \"$0\" sim run \"$1\" --dump \"$2\"";
    let program = fluxline().get_program().to_owned();
    let arguments = [program.as_os_str(), file.as_ref(), to.as_os_str()];
    let output = Command::new("sh").arg("-c").arg(script).args(arguments).output().expect("sh");
    let message = refused(&output, 1);
    assert!(message.contains("full.pcapng cannot be written: File too large"), "{message}");
    let left = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, 1, "the scenario alone");
}
