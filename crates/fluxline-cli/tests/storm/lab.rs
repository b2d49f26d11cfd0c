//! The laboratory of a storm: a broker, an experiment, and its processes.

use std::fs::File;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest wait for anything; a busy machine is slow.
pub const WITHIN: Duration = Duration::from_secs(240);
/// Number of partitions: more than builders, so that each builder has some.
pub const PARTITIONS: u32 = 6;

/// Waits until something is true.
///
/// # Panics
/// Panics with `said` when it does not become true.
pub fn until(words: &str, mut is_true: impl FnMut() -> bool, said: impl Fn() -> String) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < WITHIN, "waited in vain for {words}: {}", said());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal to a process.
fn signal(pid: u32, signal: &str) {
    let _ = Command::new("kill").args([signal, &pid.to_string()]).status();
}

/// A process of the laboratory; killed when it is dropped.
pub struct Process {
    /// Its name in messages, and of its log.
    pub name: String,
    child: Child,
    log: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Process {
    fn start(command: &mut Command, name: &str, folder: &Path) -> Process {
        let log = folder.join(format!("{name}.log"));
        let child = command
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a log"))
            .spawn()
            .expect("it starts");
        Process { name: name.to_owned(), child, log }
    }

    /// Returns standard error so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for words on standard error.
    pub fn wait_for(&mut self, words: &str) {
        let began = Instant::now();
        while !self.said().contains(words) {
            let ended = self.ended();
            let is_well = ended.is_none() && began.elapsed() < WITHIN;
            assert!(is_well, "{}: no `{words}` ({ended:?}): {}", self.name, self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the exit status of a process that has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child")
    }

    /// Waits for the end; returns the exit status.
    pub fn end(mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return status.code();
            }
            assert!(began.elapsed() < WITHIN, "{} does not end: {}", self.name, self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills it, and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops it until [`Process::go_on`].
    pub fn pause(&self) {
        signal(self.child.id(), "-STOP");
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        signal(self.child.id(), "-CONT");
    }
}

/// A broker on loopback; stopped when it is dropped.
pub struct Broker {
    folder: tempfile::TempDir,
    pub address: String,
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/kafka").join(name)
}

fn broker_sh(verb: &str, folder: &Path) -> String {
    let output = Command::new(script("broker.sh")).arg(verb).arg(folder).output();
    let output = output.expect("tools/kafka/broker.sh");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "broker.sh {verb}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl Broker {
    fn start() -> Broker {
        let folder = tempfile::tempdir().expect("a folder");
        let address = broker_sh("start", folder.path());
        Broker { folder, address }
    }

    fn pid(&self) -> u32 {
        broker_sh("pid", self.folder.path()).parse().expect("a number")
    }

    /// Stops its process for a time.
    pub fn pause(&self, time: Duration) {
        let pid = self.pid();
        signal(pid, "-STOP");
        std::thread::sleep(time);
        signal(pid, "-CONT");
    }

    /// Kills it, and starts it again on its data after a time.
    pub fn kill(&self, time: Duration) {
        signal(self.pid(), "-KILL");
        std::thread::sleep(time);
        broker_sh("restart", self.folder.path());
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        signal(self.pid(), "-CONT");
        broker_sh("stop", self.folder.path());
    }
}

/// A disk of a few kilobytes, mounted until it is dropped.
pub struct TinyDisk(PathBuf);

impl TinyDisk {
    /// Mounts it at a new folder; `None` without the right to mount.
    pub fn mount(path: &Path, bytes: u64) -> Option<TinyDisk> {
        std::fs::create_dir_all(path).expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]).arg(path);
        let is_mounted = mount.output().is_ok_and(|output| output.status.success());
        is_mounted.then(|| TinyDisk(path.to_path_buf()))
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A broker, and a folder with an experiment, whose processes run in it.
pub struct Lab {
    pub broker: Broker,
    /// The ports of the readouts.
    pub ports: [u16; 2],
    folder: tempfile::TempDir,
}

/// The names of the readouts.
pub const READOUTS: [&str; 2] = ["r1", "r2"];

impl Lab {
    pub fn new() -> Lab {
        let (broker, folder) = (Broker::start(), tempfile::tempdir().expect("a folder"));
        // Ports that were free a moment ago; two sockets at once, so that they differ.
        let free = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
        let ports = free.map(|socket| socket.local_addr().expect("an address").port());
        let source = |name: &str, port: u16| {
            format!(
                "[[source]]\nname = \"{name}\"\nformat = \"counter\"\n[source.udp]\n\
                 listen = [\"127.0.0.1:{port}\"]\n"
            )
        };
        let text = format!(
            "name = \"beam\"\n[cluster]\nbrokers = \"{}\"\nname = \"lab\"\noutput = \"both\"\n\
             partitions = {PARTITIONS}\n[node.r1]\nsources = [\"a\"]\n[node.r2]\n\
             sources = [\"b\"]\n[events]\nbuild = \"key\"\n{}{}",
            broker.address,
            source("a", ports[0]),
            source("b", ports[1]),
        );
        std::fs::write(folder.path().join("e.toml"), text).expect("written");
        Lab { broker, ports, folder }
    }

    /// Returns the cluster's address.
    pub fn address(&self) -> String {
        format!("kafka://{}/lab", self.broker.address)
    }

    /// Returns a path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a node of the experiment under a name of its own.
    pub fn node(&self, node: &str, id: &str) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fluxline"));
        command.args(["run", "e.toml", "--node", node, "--id", id]);
        Process::start(&mut command, &format!("{node}-{id}"), self.folder.path())
    }

    /// Starts the consumer of the topic of events, which writes `consumed`.
    pub fn consumer(&self, number: u32) -> Process {
        let python = std::env::var_os("FLUXLINE_PYTHON").unwrap_or_else(|| "python3".into());
        let mut command = Command::new(python);
        command.arg(script("follow_events.py"));
        command.args([&self.broker.address, "lab.events", "storm", "consumed"]);
        Process::start(&mut command, &format!("consumer-{number}"), self.folder.path())
    }

    /// Runs a command of the program; returns status, standard output and standard error.
    pub fn command(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_fluxline"))
            .args(arguments)
            .current_dir(self.folder.path())
            .output()
            .expect("the program");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    /// Runs a command that must end well.
    pub fn done(&self, arguments: &[&str]) {
        let (status, _, said) = self.command(arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {said}");
    }

    /// Returns the ledger of the run, and the exit status of `inspect`.
    pub fn ledger(&self) -> (Option<i32>, Value) {
        let (status, text, said) = self.command(&["--json", "inspect", &self.address()]);
        let ledger = serde_json::from_str(&text);
        (status, ledger.unwrap_or_else(|error| panic!("{error}: {said}{text}")))
    }
}
