//! The example consumer: its file is its own, and brokers with Kafka's default settings take it.
#![cfg(feature = "client")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::broker::Broker;

fn follow(broker: &str, topic: &str, file: &Path) -> Output {
    let python = std::env::var("FLUXLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/kafka/follow_events.py");
    let mut command = Command::new(python);
    command.arg(script).args([broker, topic, "analysis"]).arg(file).arg("1");
    command.output().expect("Python")
}

fn file_with(folder: &Path, text: &str) -> PathBuf {
    let file = folder.join("seen");
    std::fs::write(&file, text).expect("written");
    file
}

#[test]
fn file_of_another_kind_is_refused_and_stays_as_it_is() {
    let scratch = tempfile::tempdir().expect("a folder");
    let text = "temperature of today\n17\n";
    let file = file_with(scratch.path(), text);
    let output = follow("127.0.0.1:9", "x", &file);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.contains("is not a file of this program; give another FILE"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), text);
}

#[test]
fn brokers_with_the_default_limit_of_sessions_take_the_consumer() {
    let broker = Broker::start_with_settings("group.min.session.timeout.ms=6000\n");
    broker.create_topic("lab.events", 1, &[]);
    let scratch = tempfile::tempdir().expect("a folder");
    // Events without an end: the consumer was killed during its first record.
    let file = file_with(scratch.path(), "lab/0-0/0 17 event\nlab/0-0/0 18 ev");
    let output = follow(&broker.address, "lab.events", &file);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "");
}
