//! Node processes of a cluster on a real broker.

#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest wait for anything; a busy machine is slow.
const WITHIN: Duration = Duration::from_secs(180);

/// One broker at a time: each takes 300 MB and half a core.
static ALONE: Mutex<()> = Mutex::new(());

pub struct Broker {
    _alone: MutexGuard<'static, ()>,
    folder: tempfile::TempDir,
    pub address: String,
}

fn broker_sh(arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/kafka/broker.sh");
    let output = Command::new(script).args(arguments).output().expect("broker.sh");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "broker.sh {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl Broker {
    fn start(security: &[&str]) -> Broker {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display().to_string();
        let address = broker_sh(&[&["start", &path], security].concat());
        let address = address.lines().last().unwrap_or_default().to_owned();
        Broker { _alone: alone, folder, address }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn create_topic(&self, topic: &str, partitions: u32) {
        let inner = std::fs::read_to_string(self.folder.path().join("inner"));
        let address = inner.map_or(self.address.clone(), |inner| inner.trim().to_owned());
        let partitions = partitions.to_string();
        let to = ["tool", "topics", "--bootstrap-server", &address, "--create", "--topic", topic];
        broker_sh(&[&to[..], &["--partitions", &partitions]].concat());
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        broker_sh(&["stop", &self.folder.path().display().to_string()]);
    }
}

/// A process of the program; killed when it is dropped.
pub struct Node {
    name: String,
    child: Child,
    said: PathBuf,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Node {
    /// Returns standard error so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap_or_default()
    }

    pub fn wait_for(&self, words: &str) {
        until(&format!("{}: {words}", self.name), || self.said().contains(words), || self.said());
    }

    /// Kills it as a power cut does.
    pub fn kill(mut self) {
        self.child.kill().expect("a child");
    }

    /// Waits for the end; returns the exit status and the document on standard output.
    pub fn end(mut self) -> (Option<i32>, Value, String) {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            assert!(began.elapsed() < WITHIN, "{} does not end: {}", self.name, self.said());
            std::thread::sleep(Duration::from_millis(20));
        };
        let mut text = String::new();
        let out = self.child.stdout.as_mut().expect("a pipe");
        out.read_to_string(&mut text).expect("text");
        let document = serde_json::from_str(&text).unwrap_or(Value::Null);
        (status.code(), document, self.said())
    }
}

/// Waits for a condition.
///
/// # Panics
/// Panics after a long time.
pub fn until(words: &str, mut is_true: impl FnMut() -> bool, said: impl Fn() -> String) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < WITHIN, "waited in vain for {words}: {}", said());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits for the end of a node, with status 0; returns its document.
pub fn well(node: Node) -> Value {
    let name = node.name.clone();
    let (status, document, said) = node.end();
    assert_eq!(status, Some(0), "{name}: {said}");
    document
}

/// A folder with an experiment, whose nodes run in it.
pub struct Lab {
    pub broker: Broker,
    pub folder: tempfile::TempDir,
}

impl Lab {
    /// Makes the cluster `lab` of three partitions; `cluster` has more lines of its table.
    pub fn new(cluster: &str, experiment: &str) -> Lab {
        Lab::on(Broker::start(&[]), cluster, experiment)
    }

    /// Makes it on a broker with TLS and passwords; the settings file is `kafka.conf`.
    pub fn with_tls(cluster: &str, experiment: &str) -> Lab {
        let broker = Broker::start(&["tls"]);
        let authority = broker.path().join("ca.pem").display().to_string();
        let lab =
            Lab::on(broker, &format!("settings-file = \"kafka.conf\"\n{cluster}"), experiment);
        let settings = format!(
            "security.protocol=SASL_SSL\nssl.ca.location={authority}\n\
             sasl.mechanism=SCRAM-SHA-512\nsasl.username=daq\nsasl.password=secret\n"
        );
        std::fs::write(lab.folder.path().join("kafka.conf"), settings).expect("written");
        lab
    }

    fn on(broker: Broker, cluster: &str, experiment: &str) -> Lab {
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!(
            "{experiment}\n[cluster]\nbrokers = \"{}\"\nname = \"lab\"\npartitions = 3\n{cluster}",
            broker.address
        );
        std::fs::write(folder.path().join("e.toml"), text).expect("written");
        Lab { broker, folder }
    }

    /// Appends lines to the experiment.
    pub fn append(&self, lines: &str) {
        let path = self.folder.path().join("e.toml");
        let mut file = std::fs::OpenOptions::new().append(true).open(path).expect("a file");
        file.write_all(lines.as_bytes()).expect("written");
    }

    pub fn address(&self) -> String {
        format!("kafka://{}/lab", self.broker.address)
    }

    pub fn command(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_fluxline"))
            .args(arguments)
            .current_dir(self.folder.path())
            .output()
            .expect("the program");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    pub fn done(&self, arguments: &[&str]) -> String {
        let (status, out, said) = self.command(arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {said}");
        out
    }

    pub fn node(&self, node: &str, id: &str) -> Node {
        let name = format!("{node} {id}");
        let said = self.folder.path().join(format!("{node}-{id}.log"));
        let child = Command::new(env!("CARGO_BIN_EXE_fluxline"))
            .args(["--json", "run", "e.toml", "--node", node, "--id", id])
            .current_dir(self.folder.path())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&said).expect("a log"))
            .spawn()
            .expect("the program");
        Node { name, child, said }
    }

    pub fn status(&self) -> Value {
        let text = self.done(&["--json", "ctl", &self.address(), "status"]);
        serde_json::from_str(&text).expect("JSON")
    }

    /// Exports a run, and returns the rows of a table without their names.
    pub fn csv(&self, run: &str, table: &str, columns: &str) -> Vec<String> {
        let into = format!("{run}-{table}");
        self.done(&["export", run, "--to", "csv", "--columns", columns, "--into", &into]);
        let path = self.folder.path().join(&into).join(table);
        let text = std::fs::read_to_string(path).expect("a table");
        text.lines().skip(1).map(str::to_owned).collect()
    }

    /// Runs one of the programs in tools/kafka; returns its document.
    pub fn python(&self, script: &str, arguments: &[&str]) -> Value {
        let python = std::env::var("FLUXLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/kafka");
        let output = Command::new(python)
            .arg(folder.join(script))
            .args(arguments)
            .current_dir(self.folder.path())
            .output()
            .expect("Python");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script} (tools/kafka/test.sh installs modules): {said}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}
