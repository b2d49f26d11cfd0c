//! Runs whose standard error is full or has no reader, whose terminal closes, and whose input holds
//! what a terminal would obey.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{call, call_json, fluxline, free_port, number, run_document, text};

/// A capture of 200 packets, cut in its last frame: reading it notes that.
fn cut_capture(scratch: &Path) -> String {
    let whole = scratch.join("whole.pcapng");
    let sized = ["--packets", "100", "--sources", "2", "--seed", "1"];
    call_json(&[&["emulate", "counter", "--to", text(&whole)], &sized[..]].concat());
    let bytes = std::fs::read(&whole).expect("readable");
    let cut = scratch.join("cut.pcapng");
    std::fs::write(&cut, &bytes[..bytes.len() - 5]).expect("written");
    text(&cut).to_string()
}

/// A standard error that cannot be written: a full device, or a pipe whose reader is gone.
fn broken(kind: &str) -> Stdio {
    if kind == "full" {
        return OpenOptions::new().write(true).open("/dev/full").expect("/dev/full").into();
    }
    let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().expect("true starts");
    let pipe = reader.stdin.take().expect("piped");
    reader.wait().expect("it ends");
    Stdio::from(pipe)
}

fn wait_for(child: &mut Child) -> Option<i32> {
    let began = Instant::now();
    while began.elapsed() < crate::support::PATIENCE {
        if let Some(status) = child.try_wait().expect("waitable") {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("killed");
    panic!("it did not end");
}

#[test]
fn a_note_in_mid_run_ends_no_run_whose_standard_error_cannot_be_written() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let capture = cut_capture(scratch.path());
    let status_of = |folder: &Path, errors: Stdio| {
        let mut command = fluxline();
        command.args(["run", "--pcap", &capture, "--format", "counter", "--folder", text(folder)]);
        let mut child = command.stdout(Stdio::null()).stderr(errors).spawn().expect("it starts");
        wait_for(&mut child)
    };
    let usual = status_of(&scratch.path().join("usual"), Stdio::null());
    for kind in ["full", "closed"] {
        let folder = scratch.path().join(kind);
        assert_eq!(status_of(&folder, broken(kind)), usual, "standard error is {kind}");
        let document = run_document(&folder);
        assert_eq!(number(&document["totals"], "recorded"), 199, "{kind}");
        assert!(document["notes"].to_string().contains("cut.pcapng"), "the note was made: {kind}");
    }
}

#[test]
fn a_failure_that_nobody_can_read_keeps_its_status() {
    for kind in ["full", "closed"] {
        let mut command = fluxline();
        command.args(["format", "show", "no-such-format"]);
        let mut child = command.stderr(broken(kind)).spawn().expect("it starts");
        assert_eq!(wait_for(&mut child), Some(3), "{kind}");
    }
}

/// A live run whose standard error cannot be written, and the port that it listens on.
fn live(folder: &Path, errors: Stdio) -> (Child, u16) {
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let mut command = fluxline();
    command.args(["run", "--udp", &listen, "--format", "counter", "--folder", text(folder)]);
    let child = command.stdout(Stdio::null()).stderr(errors).spawn().expect("it starts");
    (child, port)
}

/// Sends whole packets of the format `counter` until the run's folder shows that it has begun.
fn feed(port: u16, folder: &Path, scratch: &Path) -> u64 {
    let capture = scratch.join(format!("{port}.pcapng"));
    call_json(&["emulate", "counter", "--to", text(&capture), "--packets", "1", "--seed", "1"]);
    let mut bytes = Vec::new();
    File::open(&capture).expect("there").read_to_end(&mut bytes).expect("readable");
    let began = Instant::now();
    while !folder.join("run.json").exists() {
        assert!(began.elapsed() < crate::support::PATIENCE, "the run does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    // One packet from the emulator, over the real link.
    let to = format!("udp://127.0.0.1:{port}");
    let sent = call_json(&["emulate", "counter", "--to", &to, "--packets", "20", "--seed", "1"]);
    number(&sent, "sent")
}

#[test]
fn a_terminal_that_closes_ends_a_run_as_ctrl_c_does() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    for (name, errors) in [("heard", Stdio::null()), ("unheard", broken("closed"))] {
        let folder = scratch.path().join(name);
        let (mut child, port) = live(&folder, errors);
        let sent = feed(port, &folder, scratch.path());
        let signal = |name: &str| {
            let kill = format!("kill -{name} {}", child.id());
            assert!(Command::new("sh").args(["-c", &kill]).status().expect("sh").success());
        };
        // Shells and kernels both say so: twice is still one end, and no hurry.
        signal("HUP");
        signal("HUP");
        assert_eq!(wait_for(&mut child), Some(0), "{name}");
        let document = run_document(&folder);
        assert_eq!(document["state"], "finished", "{name}");
        assert_eq!(number(&document["totals"], "recorded"), sent, "{name}");
    }
}

#[test]
fn nohup_spares_a_run_the_closing_terminal() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("run");
    let port = free_port();
    let script = format!(
        "trap '' HUP; exec {} run --udp 127.0.0.1:{port} --format counter --folder {}",
        crate::support::PROGRAM,
        text(&folder)
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("sh starts");
    feed(port, &folder, scratch.path());
    let signal = |name: &str| {
        let kill = format!("kill -{name} {}", child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("sh").success());
    };
    signal("HUP");
    std::thread::sleep(Duration::from_millis(300));
    signal("INT");
    assert_eq!(wait_for(&mut child), Some(0));
    assert_eq!(run_document(&folder)["state"], "finished");
}

#[test]
fn what_a_terminal_would_obey_is_shown_escaped() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let evil = "x\u{1b}]0;owned\u{7}\u{9b}31m.toml";
    let missing = scratch.path().join(evil);
    let output = call(&["format", "show", text(&missing)]);
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(said.contains("x\\u001b]0;owned\\u0007\\u009b31m.toml"), "{said:?}");
    // A description of somebody else's, on standard output.
    let file = scratch.path().join("evil.toml");
    let description = "name = 'evil'\nabout = \"a\\u001b[2Jb\"\nreference = 'r'\n\
        byte-order = 'big'\n[[packet]]\nname = 'p'\nhelp = \"\\u202Ereversed\"\n\
        fields = [{ name = 'a', type = 'u8', help = \"\\u0008\" }]\n";
    std::fs::write(&file, description).expect("written");
    for json in [&["format", "show", text(&file)][..], &["--json", "format", "show", text(&file)]] {
        let output = call(json);
        assert!(output.status.success());
        let shown = String::from_utf8(output.stdout).expect("UTF-8");
        let obeyed = |letter: char| (letter.is_control() && letter != '\n') || letter == '\u{202e}';
        assert!(!shown.contains(obeyed), "{shown:?}");
    }
}
