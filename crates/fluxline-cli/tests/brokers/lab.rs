//! Node processes of a cluster on a real broker.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::broker::{Broker, tool};
use crate::process::{Process, until};

/// Waits for the end of a node, with status 0; returns its document.
pub fn well(node: Process) -> Value {
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
        Lab::on(Broker::start(&[]), 3, cluster, experiment)
    }

    /// Makes a cluster of this number of partitions on a broker.
    pub fn on(broker: Broker, partitions: u32, cluster: &str, experiment: &str) -> Lab {
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!(
            "{experiment}\n[cluster]\nbrokers = \"{}\"\nname = \"lab\"\npartitions = {partitions}\n\
             {cluster}",
            broker.address
        );
        std::fs::write(folder.path().join("e.toml"), text).expect("written");
        Lab { broker, folder }
    }

    pub fn address(&self) -> String {
        format!("kafka://{}/lab", self.broker.address)
    }

    /// Returns a path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a command of the program; returns status, standard output and standard error.
    pub fn command(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = self.program(arguments).current_dir(self.folder.path()).output();
        let output = output.expect("the program");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fluxline"));
        command.args(arguments);
        command
    }

    /// Runs a command that must end well; returns its standard output.
    pub fn done(&self, arguments: &[&str]) -> String {
        let (status, out, said) = self.command(arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {said}");
        out
    }

    /// Starts a node of the experiment under a name of its own; its outcome is a document.
    pub fn node(&self, node: &str, id: &str) -> Process {
        self.start(&["--json", "run", "e.toml", "--node", node, "--id", id], node, id)
    }

    /// Returns the ledger of the newest run; null while no broker gives it.
    pub fn ledger(&self) -> Value {
        let (_, out, _) = self.command(&["--json", "inspect", &self.address()]);
        serde_json::from_str(&out).unwrap_or_default()
    }

    /// Waits until builders have committed this many packets more.
    pub fn goes_on(&self, packets: u64) {
        let committed = || self.ledger()["committed"]["packets"].as_u64().unwrap_or(0);
        let before = committed();
        let is_further = || committed() > before + packets;
        until("more committed packets", is_further, || self.ledger().to_string());
    }

    /// Starts the program under a name for messages.
    pub fn start(&self, arguments: &[&str], node: &str, id: &str) -> Process {
        let mut command = self.program(arguments);
        Process::start(&mut command, &format!("{node}-{id}"), self.folder.path())
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

    /// Returns a program in tools/kafka, to be run by Python.
    pub fn script(&self, name: &str, arguments: &[&str]) -> Command {
        let python = std::env::var_os("FLUXLINE_PYTHON").unwrap_or_else(|| "python3".into());
        let mut command = Command::new(python);
        command.arg(tool(name)).args(arguments).current_dir(self.folder.path());
        command
    }

    /// Runs one of the programs in tools/kafka; returns its document.
    pub fn python(&self, script: &str, arguments: &[&str]) -> Value {
        let output = self.script(script, arguments).output().expect("Python");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script} (tools/kafka/test.sh installs modules): {said}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}
