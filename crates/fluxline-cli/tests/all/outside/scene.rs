//! A scene: real runs that listen on loopback, senders that share no code with them, and the
//! comparison of what was sent with what is on disk.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{fluxline, number, text};

/// The longest wait for anything; far beyond what a loaded machine needs.
const PATIENCE: Duration = crate::support::PATIENCE;

/// A scratch folder, and a Python that has pyarrow.
pub struct Scene {
    scratch: tempfile::TempDir,
    python: String,
}

/// A run that listens.
pub struct Live {
    child: Guarded,
    /// Its port on loopback.
    pub port: u16,
    /// Its run folder.
    pub folder: PathBuf,
    base: PathBuf,
}

/// A sender at work.
pub struct Sender {
    child: Guarded,
    /// The log of sent packets.
    pub log: PathBuf,
}

/// A run that has ended.
pub struct Ended {
    /// Its exit status; `None`: killed.
    pub status: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub errors: String,
    /// Its run folder.
    pub folder: PathBuf,
}

/// A child that does not outlive a test that fails.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Guarded {
    fn wait(&mut self, what: &str) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().expect("waitable") {
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "{what} did not end within {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self, signal: &str) {
        let command = format!("kill -{signal} {}", self.0.id());
        let status = Command::new("sh").args(["-c", &command]).status().expect("sh starts");
        assert!(status.success(), "{command}");
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/outside").join(name)
}

fn udp(settings: &str) -> String {
    format!("[source.udp]\nlisten = ['127.0.0.1:0']\n{settings}")
}

impl Scene {
    /// A new one; `None`, said aloud, where there is no Python with pyarrow.
    pub fn new() -> Option<Scene> {
        let python = std::env::var("FLUXLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let probe = Command::new(&python).args(["-c", "import pyarrow"]).output();
        if !probe.is_ok_and(|output| output.status.success()) {
            let required = std::env::var_os("FLUXLINE_REQUIRE_TOOLS").is_some();
            assert!(!required, "{python} has no pyarrow, and FLUXLINE_REQUIRE_TOOLS is set");
            println!("skipped: {python} has no pyarrow; FLUXLINE_PYTHON names another");
            return None;
        }
        let scratch = tempfile::tempdir().expect("a scratch folder");
        Some(Scene { scratch, python })
    }

    /// A path in the scratch folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Starts a run of one source on a free port of loopback. `settings` are TOML: keys of
    /// `[source.udp]`, then further tables.
    pub fn listen(&self, name: &str, settings: &str) -> Live {
        self.listen_by(name, &udp(settings))
    }

    /// The same by another link: `source` is TOML, from the table of the link on.
    pub fn listen_by(&self, name: &str, source: &str) -> Live {
        let folder = self.path(name);
        self.listen_in(name, source, &["--folder", text(&folder)])
    }

    /// The same as [`Scene::listen`], in the next numbered folder of `runs`.
    pub fn listen_numbered(&self, name: &str, settings: &str) -> Live {
        self.listen_in(name, &udp(settings), &[])
    }

    fn listen_in(&self, name: &str, source: &str, arguments: &[&str]) -> Live {
        let file = self.path(&format!("{name}.toml"));
        let experiment = format!(
            "runs = {:?}\n[[source]]\nname = 'boards'\nformat = {:?}\n{source}\n",
            text(&self.path("runs")),
            text(&script("board.toml")),
        );
        std::fs::write(&file, experiment).expect("written");
        let base = self.path(name);
        let mut all = vec!["run", text(&file)];
        all.extend(arguments);
        let child = Guarded(self.program(&all, &base));
        let mut live = Live { child, port: 0, folder: PathBuf::new(), base };
        live.announced();
        live
    }

    /// Starts the program with its output going to files beside `base`: nobody need read a pipe.
    fn program(&self, arguments: &[&str], base: &Path) -> Child {
        let file = |ending| File::create(base.with_extension(ending)).expect("a file");
        fluxline()
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .expect("the program starts")
    }

    /// Runs the program to its end.
    pub fn program_to_its_end(&self, name: &str, arguments: &[&str], folder: &Path) -> Ended {
        let base = self.path(name);
        let mut child = Guarded(self.program(arguments, &base));
        let status = child.wait("the program");
        Ended::read(status, &base, folder.to_path_buf())
    }

    /// Starts a sender of a plan (see board.py).
    pub fn send(&self, name: &str, plan: &Value, port: u16) -> Sender {
        let log = self.path(&format!("{name}.log"));
        let file = self.plan(name, plan);
        let mut child = Command::new(&self.python)
            .args([text(&script("send.py")), text(&file), &port.to_string(), text(&log)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        // It has made its packets, and begins to send.
        let mut line = String::new();
        let out = child.stdout.take().expect("it was piped");
        let child = Guarded(child);
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).expect("a line");
        assert_eq!(line.trim(), "sending");
        Sender { child, log }
    }

    fn plan(&self, name: &str, plan: &Value) -> PathBuf {
        let file = self.path(&format!("{name}.json"));
        std::fs::write(&file, plan.to_string()).expect("written");
        file
    }

    /// Writes a plan as a capture that begins at `begin_ns`; the capture and its log.
    pub fn capture(&self, name: &str, plan: &Value, begin_ns: u64) -> (PathBuf, PathBuf) {
        let (capture, log) =
            (self.path(&format!("{name}.pcap")), self.path(&format!("{name}.log")));
        let file = self.plan(name, plan);
        self.python(
            "capture.py",
            &[text(&file), text(&capture), text(&log), &begin_ns.to_string()],
        );
        (capture, log)
    }

    /// Compares a run's files with logs: the object that check.py prints.
    pub fn check(&self, folder: &Path, logs: &[&Path]) -> Value {
        let mut arguments = vec![text(folder)];
        arguments.extend(logs.iter().map(|log| text(log)));
        let found = self.python("check.py", &arguments);
        let found: Value = serde_json::from_str(&found).expect("one JSON object");
        println!("{}: {found}", folder.display());
        found
    }

    fn python(&self, name: &str, arguments: &[&str]) -> String {
        let output = Command::new(&self.python)
            .arg(script(name))
            .args(arguments)
            .output()
            .expect("Python starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {errors}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

impl Live {
    /// Waits until it has said where it listens, and that it runs.
    fn announced(&mut self) {
        let began = Instant::now();
        loop {
            let said = self.said();
            if said.lines().any(|line| line.starts_with("memory ")) {
                let after = |word: &str| said.lines().find_map(|line| line.strip_prefix(word));
                let port = after("source ").and_then(|line| line.rsplit(':').next());
                self.port = port.and_then(|port| port.trim().parse().ok()).expect("a port");
                self.folder = after("folder ").expect("a folder").trim().into();
                return;
            }
            let ended = self.child.0.try_wait().expect("waitable");
            assert!(ended.is_none() && began.elapsed() < PATIENCE, "it never listened: {said}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns its standard error so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.base.with_extension("err")).expect("UTF-8")
    }

    /// Waits until batches are on disk: the head of the file is shorter.
    pub fn wait_for_batches(&self) {
        let began = Instant::now();
        let file = self.folder.join("events-000000.arrows");
        while std::fs::metadata(&file).map_or(0, |about| about.len()) < 32 << 10 {
            assert!(began.elapsed() < PATIENCE, "it never wrote a batch");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it by a signal.
    pub fn end(mut self, signal: &str) -> Ended {
        self.child.signal(signal);
        let status = self.child.wait("the run");
        Ended::read(status, &self.base, self.folder.clone())
    }
}

impl Sender {
    /// Lets a sender go whose plan says `awaits_go`.
    pub fn go(&mut self) {
        let mut input = self.child.0.stdin.take().expect("it was piped");
        std::io::Write::write_all(&mut input, b"go\n").expect("it waits for the line");
    }

    /// Waits until it has sent everything; its log.
    pub fn done(mut self) -> PathBuf {
        assert_eq!(self.child.wait("the sender"), Some(0));
        self.log.clone()
    }

    /// Kills it by SIGKILL; its log.
    pub fn kill(mut self) -> PathBuf {
        self.child.signal("KILL");
        self.child.wait("the sender");
        self.log.clone()
    }

    /// Waits until it has sent this many packets.
    pub fn wait_for(&self, packets: usize) {
        let began = Instant::now();
        while self.sent().lines().count() < packets {
            assert!(began.elapsed() < PATIENCE, "it never sent {packets} packets");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the time at which its newest packet left \[ns\].
    pub fn newest_ns(&self) -> u64 {
        let sent = self.sent();
        let complete = sent.rsplit_once('\n').expect("it has sent").0;
        let last = complete.lines().next_back().expect("it has sent");
        last.rsplit(' ').next().and_then(|time| time.parse().ok()).expect("a time")
    }

    fn sent(&self) -> String {
        std::fs::read_to_string(&self.log).expect("ASCII")
    }
}

impl Ended {
    fn read(status: Option<i32>, base: &Path, folder: PathBuf) -> Ended {
        let read = |ending| std::fs::read_to_string(base.with_extension(ending)).expect("UTF-8");
        let ended = Ended { status, out: read("out"), errors: read("err"), folder };
        println!("status {status:?}\n{}{}", ended.errors, ended.out);
        ended
    }

    /// Reads run.json.
    pub fn document(&self) -> Value {
        crate::support::run_document(&self.folder)
    }

    /// The laws of the issue, to the packet, for a run that saw its senders to their end: each
    /// packet that was sent is in the files once, or in one named place, and status 0 is kept for
    /// runs in which all that came is in the files. `status` is what the case itself makes.
    pub fn accounts_for(&self, found: &Value, status: i32) {
        let document = self.document();
        assert_eq!(document["state"], "finished");
        assert_eq!(document["closes"], true, "{}", document["laws"]);
        let totals = &document["totals"];
        let of = |name: &str| totals[name].as_u64().unwrap_or(0);
        for never in ["doubled", "strangers", "misread", "shared", "torn"] {
            assert_eq!(number(found, never), 0, "{never}: {found}");
        }
        assert_eq!(number(found, "packets"), of("recorded"), "recorded");
        let absent = |kind: &str| found["absent"][kind].as_u64().unwrap_or(0);
        let sent = |kind: &str| found["sent"][kind].as_u64().unwrap_or(0);
        let left = sent("data") + sent("copy") + sent("long") + sent("foreign");
        assert_eq!(left, of("datagrams") + of("socket_dropped"), "the kernel has the rest");
        if of("socket_dropped") == 0 {
            assert_eq!(absent("data"), 0, "{found}");
            assert_eq!(absent("copy"), of("duplicate") + of("event_duplicate"));
            assert_eq!(absent("foreign"), of("rejected"));
            assert_eq!(absent("long"), of("truncated"));
        }
        let others = absent("data") + absent("copy") + absent("foreign") + absent("long");
        let named = ["duplicate", "event_duplicate", "rejected", "truncated", "socket_dropped"];
        assert_eq!(others, named.map(of).iter().sum::<u64>(), "absent = named places");
        let unusable = of("rejected") + of("truncated") + of("socket_dropped") > 0;
        assert_eq!(self.status, Some(if unusable { 7 } else { status }), "{}", self.errors);
        self.rows_add_up();
    }

    /// The printed numbers add up: what was received is the sum of where it is, and so is what was
    /// parsed of each source.
    pub fn rows_add_up(&self) {
        let mut lines = self.out.lines().skip_while(|line| !line.starts_with("received "));
        let received = cells(lines.next().expect("how much was received"));
        let places = lines.by_ref().take_while(|line| line.starts_with("  ")).map(cells);
        let datagrams = places.filter(|cells| !cells[1].ends_with("frames"));
        let sum: u64 = datagrams.map(|cells| cells[1].parse::<u64>().expect("a count")).sum();
        assert_eq!(received[1], format!("{sum} datagrams"), "{}", self.out);

        let mut lines = lines.skip_while(|line| !line.starts_with("source "));
        let head = cells(lines.next().expect("a table of sources"));
        let divider = head.iter().position(|name| name == "|").expect("a divider");
        assert_eq!(head[1], "parsed");
        for line in lines {
            let row = cells(line);
            let counts = row[1..divider].iter().map(|cell| cell.parse().expect("a count"));
            let counts: Vec<u64> = counts.collect();
            assert_eq!(counts[0], counts[1..].iter().sum::<u64>(), "{line}\n{}", self.out);
            if row[0] == "all" {
                return;
            }
        }
        panic!("no row of all sources: {}", self.out);
    }
}

/// Cells of a printed line: two spaces or more stand between them.
fn cells(line: &str) -> Vec<String> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
}
