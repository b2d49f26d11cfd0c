//! A broker on loopback for one test, stopped when it is dropped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::process::signal;

/// One broker at a time: each takes 300 MB and half a core.
static ALONE: Mutex<()> = Mutex::new(());

pub struct Broker {
    _alone: MutexGuard<'static, ()>,
    folder: tempfile::TempDir,
    pub address: String,
}

/// Returns the path of a program in tools/kafka.
pub fn tool(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/kafka").join(name)
}

fn broker_sh(arguments: &[&str]) -> String {
    let output = Command::new(tool("broker.sh")).args(arguments).output().expect("broker.sh");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "broker.sh {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl Broker {
    /// Starts it; `kind` is `tls`, `three` or nothing.
    pub fn start(kind: &[&str]) -> Broker {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display().to_string();
        let address = broker_sh(&[&["start", &path], kind].concat());
        let address = address.lines().last().unwrap_or_default().to_owned();
        Broker { _alone: alone, folder, address }
    }

    fn call(&self, verb: &str) -> String {
        broker_sh(&[verb, &self.folder.path().display().to_string()])
    }

    fn pid(&self) -> u32 {
        self.call("pid").parse().expect("a number")
    }

    /// Kills one of three brokers, and destroys its data.
    pub fn lose(&self, number: u32) {
        let own = self.folder.path().join(number.to_string());
        let pid = broker_sh(&["pid", &own.display().to_string()]).parse().expect("a number");
        signal(pid, "-KILL");
        std::fs::remove_dir_all(own.join("data")).expect("removed");
    }

    /// Halts its process for a time.
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
        self.call("restart");
    }

    pub fn create_topic(&self, topic: &str, partitions: u32) {
        let inner = std::fs::read_to_string(self.folder.path().join("inner"));
        let address = inner.map_or(self.address.clone(), |inner| inner.trim().to_owned());
        let partitions = partitions.to_string();
        let to = ["tool", "topics", "--bootstrap-server", &address, "--create", "--topic", topic];
        broker_sh(&[&to[..], &["--partitions", &partitions]].concat());
    }

    /// Sets what all producers of a client id may send together.
    pub fn set_quota(&self, client_id: &str, bytes_per_s: u32) {
        let quota = format!("producer_byte_rate={bytes_per_s}");
        let of = ["tool", "configs", "--bootstrap-server", &self.address, "--alter"];
        let to = ["--add-config", &quota, "--entity-type", "clients", "--entity-name", client_id];
        broker_sh(&[&of[..], &to[..]].concat());
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // A test may have failed while it was halted.
        if let Ok(pid) = std::fs::read_to_string(self.folder.path().join("pid")) {
            let _ = Command::new("kill").args(["-CONT", pid.trim()]).status();
        }
        self.call("stop");
    }
}
