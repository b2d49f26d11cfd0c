//! The program as a black box: started with arguments, judged by output, status and files.

#![allow(dead_code, reason = "each test file uses a part")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest wait for anything: a busy machine is slow, and a test that waits this long has found
/// that nothing goes on.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The program of the crate whose tests these are.
pub const PROGRAM: &str = match option_env!("CARGO_BIN_EXE_fluxline-sim") {
    Some(program) => program,
    None => match option_env!("CARGO_BIN_EXE_fluxline-bench") {
        Some(program) => program,
        None => match option_env!("CARGO_BIN_EXE_fluxline") {
            Some(program) => program,
            None => panic!("these are tests of a program"),
        },
    },
};

/// The program.
pub fn fluxline() -> Command {
    Command::new(PROGRAM)
}

/// Runs it with these arguments.
pub fn call(arguments: &[&str]) -> Output {
    fluxline().args(arguments).output().expect("the program starts")
}

/// Runs it with `--json`; it must end well.
pub fn call_json(arguments: &[&str]) -> Value {
    let output = fluxline().arg("--json").args(arguments).output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {:?}: {errors}", output.status);
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

/// Runs it with `--json`; it must end with this status, and its document says so too.
pub fn call_json_ending(arguments: &[&str], status: i32) -> Value {
    let output = fluxline().arg("--json").args(arguments).output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {errors}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(document["status"], status, "{arguments:?}");
    document
}

/// Runs an acquisition with `--json`; its status must be what its counters deserve.
pub fn run_json(arguments: &[&str]) -> Value {
    let output = fluxline().arg("--json").args(arguments).output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    let document = serde_json::from_slice(&output.stdout);
    let document: Value = document.unwrap_or_else(|_| panic!("one JSON document: {errors}"));
    assert_status_is_true(&document, output.status.code());
    document
}

/// Status 0 means that everything that this host received is in the files; 7 that it is not.
pub fn assert_status_is_true(document: &Value, status: Option<i32>) {
    let total = |name: &str| number(&document["totals"], name);
    let received = total("datagrams") + total("socket_dropped");
    let kept = ["recorded", "not_recorded", "duplicate", "event_duplicate"].map(total);
    let frames = [
        "frames_unusable",
        "check_sum_wrong",
        "frames_wrong_check",
        "frames_unknown_pair",
        "frames_wrong_sender",
        "frames_out_of_bounds",
        "frames_overrun",
        "frames_broken_off",
        "frames_other",
        "frames_unannounced",
        "producers_gone",
        "senders_broken",
    ];
    let all = received > 0 && kept.iter().sum::<u64>() == received && frames.map(total) == [0; 12];
    let expected = if all { 0 } else { 7 };
    assert_eq!(status, Some(expected), "{} {}", document["headline"], document["sentence"]);
    assert_eq!(document["status"], expected);
    assert_eq!(document["sentence"].is_string(), !all);
}

/// Asserts an exit status and one clear sentence at the end of standard error; returns it.
pub fn refused(output: &Output, status: i32) -> String {
    sentence(output.status.code(), &String::from_utf8_lossy(&output.stderr), status)
}

/// The same of a program that was watched while it ran.
pub fn sentence(code: Option<i32>, errors: &str, status: i32) -> String {
    assert_eq!(code, Some(status), "{errors}");
    let last = errors.lines().last().unwrap_or_default().to_string();
    assert!(last.starts_with("fluxline: ") && last.ends_with(['.', '?']), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    last
}

/// A file of the optional test data shared/captures; `None`, said aloud, where it is absent.
pub fn capture(name: &str) -> Option<String> {
    let root = std::env::var_os("FLUXLINE_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let path = root.join("captures").join(name);
    if !path.exists() {
        println!("skipped: {name} is not there (optional test data shared/captures)");
        return None;
    }
    Some(path.display().to_string())
}

/// A path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8 path")
}

/// A counter of a JSON object.
pub fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} in {value}"))
}

/// The program while it runs; what it announces on standard error has been read. Killed when
/// dropped, so that a test that fails leaves nothing behind.
pub struct Running {
    child: Child,
    output: File,
    errors: BufReader<ChildStderr>,
    /// Its standard error so far.
    pub said: String,
}

impl Running {
    /// Starts it.
    pub fn spawn(arguments: &[&str]) -> Running {
        let output = tempfile::tempfile().expect("a scratch file");
        let mut child = fluxline()
            .args(arguments)
            .stdout(output.try_clone().expect("a second handle"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let errors = BufReader::new(child.stderr.take().expect("it was piped"));
        Running { child, output, errors, said: String::new() }
    }

    /// Starts it and waits until it says a line that starts with `until`.
    pub fn start(arguments: &[&str], until: &str) -> Running {
        let mut running = Running::spawn(arguments);
        while !running.said.lines().any(|line| line.starts_with(until)) {
            let read = running.errors.read_line(&mut running.said).expect("UTF-8");
            assert!(read > 0, "it ended before it said `{until}`: {}", running.said);
        }
        running
    }

    /// Waits until it says these words.
    pub fn wait_for(&mut self, words: &str) {
        while !self.said.contains(words) {
            let read = self.errors.read_line(&mut self.said).expect("UTF-8");
            assert!(read > 0, "it ended before it said `{words}`: {}", self.said);
        }
    }

    /// Starts a run that listens on a free port of loopback; gives the port too.
    pub fn listen(arguments: &[&str]) -> (Running, u16) {
        let mut all = vec!["run", "--udp", "127.0.0.1:0"];
        all.extend(arguments);
        let running = Running::start(&all, "memory ");
        let port = running.port();
        (running, port)
    }

    /// The port that it said its source listens on.
    pub fn port(&self) -> u16 {
        let line = self.said.lines().find(|line| line.starts_with("source ")).expect("a source");
        let port = line.rsplit(':').next().and_then(|port| port.trim().parse().ok());
        port.expect("it says on which port")
    }

    /// Waits until it catches SIGTERM, and so SIGINT before it.
    pub fn wait_for_handler(&self) {
        wait_for_handler_of(self.child.id());
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub fn interrupt(&self) {
        send_signal(self.child.id(), "INT");
    }

    /// Waits for its end; its status and all that it said.
    pub fn end(self) -> (Option<i32>, String) {
        let (status, said, _) = self.end_with_output();
        (status, said)
    }

    /// The same, with what it printed to standard output.
    pub fn end_with_output(mut self) -> (Option<i32>, String, String) {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("waitable") {
                let mut said = std::mem::take(&mut self.said);
                self.errors.read_to_string(&mut said).expect("UTF-8");
                let mut printed = String::new();
                self.output.rewind().expect("a file");
                self.output.read_to_string(&mut printed).expect("UTF-8");
                return (status.code(), said, printed);
            }
            assert!(began.elapsed() < PATIENCE, "it does not end: {}", self.said);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a process catches SIGTERM, and so SIGINT before it: `SigCgt` in /proc/PID/status.
pub fn wait_for_handler_of(process: u32) {
    let file = format!("/proc/{process}/status");
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let status = std::fs::read_to_string(&file).expect("it runs");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        if mask.is_some_and(|mask| mask & (1 << 14) != 0) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it never catches SIGTERM");
}

/// Sends a signal to a process: `INT`, `KILL`.
pub fn send_signal(process: u32, name: &str) {
    let command = format!("kill -{name} {process}");
    let status = Command::new("sh").args(["-c", &command]).status().expect("sh starts");
    assert!(status.success(), "{command}");
}

/// run.json of a run that has ended.
pub fn run_document(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("run.json")).expect("run.json");
    serde_json::from_str(&text).expect("JSON")
}

/// A disk of `bytes`, mounted until it is dropped; `None` without the right to mount.
pub struct TinyDisk<'a>(pub &'a Path);

impl TinyDisk<'_> {
    /// Mounts it.
    pub fn mount<'a>(path: &'a Path, bytes: u64) -> Option<TinyDisk<'a>> {
        let size = format!("size={bytes}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path);
        if mount.output().is_ok_and(|output| output.status.success()) {
            return Some(TinyDisk(path));
        }
        println!("skipped: no right to mount a small disk here");
        None
    }
}

impl Drop for TinyDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

/// A port of loopback that stays free until the test takes it.
pub fn free_port() -> u16 {
    free_ports(1)
}

/// The first of `count` ports of loopback one after the other.
///
/// They lie below those that the kernel gives to sockets without a port (32,768 on, ip(7)), so that
/// no other test gets one of them between two binds, and no two calls get the same.
pub fn free_ports(count: u16) -> u16 {
    const FIRST: u32 = 12_000;
    const PORTS: u32 = 20_000;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(97);
    for _ in 0..PORTS {
        let offset = TAKEN.fetch_add(u32::from(count), Ordering::Relaxed);
        let first = (FIRST + start.wrapping_add(offset) % PORTS) as u16;
        let sockets: Result<Vec<_>, _> =
            (first..first + count).map(|port| UdpSocket::bind(("127.0.0.1", port))).collect();
        if sockets.is_ok() {
            return first;
        }
    }
    panic!("{count} ports of loopback in a row are not free");
}

/// Returns the child of `parent` that serves a benchmark. Source: proc_pid_stat(5).
pub fn serving_child_of(parent: u32) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").expect("it is mounted").flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find(|process| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let command = std::fs::read_to_string(format!("/proc/{process}/cmdline"));
        after_name.split_whitespace().nth(1) == Some(&parent.to_string())
            && command.unwrap_or_default().contains("--serve")
    })
}
