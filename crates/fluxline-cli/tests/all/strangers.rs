//! Run folders, captures and servers of strangers: links, pipes, devices, holes, redirections.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::support::{PATIENCE, Running, call, call_json, refused, text};

/// A small run in `scratch/run`, as a stranger may have sent it.
fn received(scratch: &Path) -> PathBuf {
    let capture = scratch.join("packets.pcapng");
    let sized = ["--packets", "200", "--sources", "2", "--seed", "1"];
    call_json(&[&["emulate", "counter", "--to", text(&capture)], &sized[..]].concat());
    let run = scratch.join("run");
    call_json(&[
        "run",
        "--pcap",
        text(&capture),
        "--format",
        "counter",
        "--events",
        "key",
        "--folder",
        text(&run),
    ]);
    run
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo starts").success());
}

/// The file that an export writes first, in each format.
const PARTS: [(&str, &str); 4] = [
    ("csv", "events.csv.part"),
    ("parquet", "events.parquet.part"),
    ("arrow", "events.arrow.part"),
    ("npy", "events.npy.part"),
];

#[test]
fn an_export_does_not_write_through_links_in_a_received_folder() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let run = received(scratch.path());
    let victim = scratch.path().join("victim");
    fs::write(&victim, "precious").expect("written");
    for (kind, part) in PARTS {
        let export = run.join(format!("export-{kind}"));
        for name in [part, "export.json", "export.json.part"] {
            fs::create_dir_all(&export).expect("made");
            symlink("../../victim", export.join(name)).expect("linked");
            let output = call(&["export", text(&run), "--to", kind]);
            // A link of a file's final name is an existing file; others are left-overs.
            match name {
                "export.json" => {
                    assert!(refused(&output, 3).contains("exists already"), "{kind} {name}");
                }
                _ => assert_eq!(output.status.code(), Some(0), "{kind} {name}"),
            }
            assert_eq!(fs::read_to_string(&victim).expect("there"), "precious", "{kind} {name}");
            fs::remove_dir_all(&export).expect("removed");
        }
    }
}

#[test]
fn an_export_folder_that_is_a_link_inside_a_received_folder_is_refused() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let run = received(scratch.path());
    let elsewhere = scratch.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("made");
    symlink("../elsewhere", run.join("export-npy")).expect("linked");
    for more in [&[][..], &["--overwrite"], &["--into", text(&run.join("export-npy/deep"))]] {
        let output = call(&[&["export", text(&run), "--to", "npy"], more].concat());
        let said = refused(&output, 3);
        assert!(said.contains("export-npy is a symbolic link"), "{said}");
    }
    assert_eq!(fs::read_dir(&elsewhere).expect("there").count(), 0);
    // The user's own link is followed.
    let own = scratch.path().join("own");
    symlink("elsewhere", &own).expect("linked");
    call_json(&["export", text(&run), "--to", "npy", "--into", text(&own)]);
    assert!(elsewhere.join("events.npy").is_file());
}

#[test]
fn recovery_neither_copies_nor_cuts_a_file_outside_the_run() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let run = received(scratch.path());
    let events = run.join("events-000000.arrows");
    let whole = fs::read(&events).expect("readable");
    let outside = scratch.path().join("outside");
    for contents in [b"root:secret\n".to_vec(), [&whole[..], b"precious tail"].concat()] {
        fs::write(&outside, &contents).expect("written");
        fs::set_permissions(&outside, PermissionsExt::from_mode(0o600)).expect("changed");
        fs::remove_file(&events).expect("removed");
        symlink("../outside", &events).expect("linked");
        let said = refused(&call(&["recover", text(&run)]), 8);
        assert!(said.contains("events-000000.arrows is a symbolic link"), "{said}");
        assert_eq!(fs::read(&outside).expect("there"), contents);
        let torn = fs::read_dir(&run).expect("there").flatten();
        let torn = torn.filter(|one| one.file_name().to_string_lossy().contains(".torn"));
        assert_eq!(torn.count(), 0, "no copy of a file of the user");
    }
}

#[test]
fn what_recovery_cuts_off_keeps_the_permissions_of_its_file() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let run = received(scratch.path());
    let events = run.join("events-000000.arrows");
    File::options().append(true).open(&events).expect("there").write_all(b"torn").expect("written");
    fs::set_permissions(&events, PermissionsExt::from_mode(0o600)).expect("changed");
    call(&["recover", text(&run)]);
    let torn = run.join("events-000000.arrows.torn").metadata().expect("kept");
    assert_eq!(torn.permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_terabyte_of_holes_behind_the_events_is_reported_and_cut_off_at_once() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let run = received(scratch.path());
    let events = File::options().write(true).open(run.join("events-000000.arrows"));
    events.expect("there").set_len(1 << 40).expect("a sparse file");
    let began = Instant::now();
    let said = refused(&call(&["inspect", text(&run)]), 8);
    assert!(said.contains("that are not a batch"), "{said}");
    call(&["recover", text(&run)]);
    call_json(&["export", text(&run), "--to", "parquet"]);
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}

#[test]
fn devices_and_named_pipes_as_inputs_are_refused_and_not_waited_for() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let pipe = scratch.path().join("pipe");
    make_pipe(&pipe);
    let sparse = scratch.path().join("sparse");
    File::create(&sparse).expect("made").set_len(1 << 40).expect("a sparse file");
    let inputs = |file: &str| {
        let toml = scratch.path().join("link.toml");
        let _ = fs::remove_file(&toml);
        symlink(file, &toml).expect("linked");
        let experiment = scratch.path().join("raw.toml");
        let source = format!(
            "[[source]]\nname = 'raw'\nformat = 'counter'\n[source.raw]\nfile = '{file}'\n\
             record-bytes = 32\n"
        );
        fs::write(&experiment, source).expect("written");
        let raw = ["--raw", file, "--record-bytes", "32"];
        [
            vec!["run", "--pcap", file, "--format", "counter"],
            vec!["run", text(&experiment)],
            vec!["run", text(&toml)],
            vec!["format", "show", text(&toml)],
            vec!["format", "new", "--capture", file],
            vec!["format", "check", "counter", "--capture", file],
            [&["format", "check", "counter"], &raw[..]].concat(),
        ]
        .map(|arguments| arguments.into_iter().map(str::to_owned).collect::<Vec<String>>())
    };
    let devices = [("/dev/zero", "a device"), (text(&pipe), "a named pipe")];
    for (file, words) in devices.into_iter().chain([(text(&sparse), "holes")]) {
        for arguments in inputs(file) {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let said = refused(&call(&arguments), 3);
            // A text of a terabyte is refused for its length.
            let is_long = words == "holes" && said.contains("cannot be read");
            assert!(said.contains(words) || is_long, "{arguments:?}: {said}");
        }
    }
    assert!(!Path::new("runs").exists(), "no run folder was begun");
}

#[test]
fn a_named_pipe_as_serve_url_does_not_hold_ctl() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let run = received(scratch.path());
    make_pipe(&run.join("serve.url"));
    let said = refused(&call(&["ctl", "--run", text(&run), "status"]), 3);
    assert!(said.contains("is a named pipe"), "{said}");
    fs::remove_file(run.join("serve.url")).expect("removed");
    symlink("../packets.pcapng", run.join("serve.url")).expect("linked");
    let said = refused(&call(&["ctl", "--run", text(&run), "status"]), 3);
    assert!(said.contains("is a symbolic link"), "{said}");
}

#[test]
fn ctl_does_not_follow_a_redirection() {
    let listener = |_| TcpListener::bind("127.0.0.1:0").expect("a free port");
    let [first, second] = [0, 1].map(listener);
    let url = format!("http://{}/#token", first.local_addr().expect("bound"));
    let target = second.local_addr().expect("bound");
    second.set_nonblocking(true).expect("set");
    for status in ["301", "302", "307", "308"] {
        let answer = format!(
            "HTTP/1.1 {status} Elsewhere\r\nLocation: http://{target}/api/state\r\n\
             Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let first = first.try_clone().expect("a second handle");
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = first.accept().expect("a connection");
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            stream.write_all(answer.as_bytes()).expect("answered");
        });
        let request = if status == "301" { "status" } else { "stop" };
        let said = refused(&call(&["ctl", "--url", &url, request]), 6);
        assert!(said.contains("sends requests on to another address"), "{said}");
        thread.join().expect("ended");
        assert!(second.accept().is_err(), "{status} was followed");
    }
}

#[test]
fn more_memory_for_events_than_the_computer_has_is_refused() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let capture = scratch.path().join("packets.pcapng");
    call_json(&["emulate", "counter", "--to", text(&capture), "--packets", "10"]);
    let folder = scratch.path().join("run");
    for bytes in ["18446744073709551615", "1125899906842624"] {
        let output = call(&[
            "run",
            "--pcap",
            text(&capture),
            "--format",
            "counter",
            "--events",
            "key",
            "--bytes-max",
            bytes,
            "--folder",
            text(&folder),
        ]);
        let said = refused(&output, 3);
        assert!(said.contains("more than the memory of this computer"), "{said}");
        assert!(!folder.exists(), "no run folder was begun");
    }
}

/// Sends one request to a page; returns the first line of the answer.
fn ask(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a valid time");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn requests_behind_the_history_do_not_hold_a_run_whose_standard_error_nobody_reads() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("run");
    let arguments = ["demo", "--seconds", "600", "--serve", "--folder", text(&folder)];
    // Its standard error is a pipe, and not read from now on.
    let running = Running::start(&arguments, "memory ");
    let url = fs::read_to_string(folder.join("serve.url")).expect("its address");
    let address = url.trim_start_matches("http://").split('/').next().expect("an address");
    for number in 0..1_000 {
        let path = format!("/api/history?from={}", 1_000_000_u64 << (number % 40));
        let line = ask(address, &path);
        assert!(line.contains(" 400 "), "{path}: {line}");
    }
    let stopped = call(&["ctl", "--run", text(&folder), "stop"]);
    assert!(stopped.status.success(), "{}", String::from_utf8_lossy(&stopped.stderr));
    let (_, said) = running.end();
    assert!(!said.contains("panicked"), "{said}");
}
