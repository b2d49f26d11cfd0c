//! A broker of our own for each test, and a consumer that knows nothing of the crate's code.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use wait::block_on;

#[path = "../../src/wait.rs"]
mod wait;

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/kafka/broker.sh")
}

/// Runs the script; returns its output.
fn broker_sh(arguments: &[&str]) -> String {
    let output = Command::new(script()).args(arguments).output().expect("tools/kafka/broker.sh");
    assert!(
        output.status.success(),
        "broker.sh {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// One broker at a time: each takes 300 MB and half a core.
static ALONE: Mutex<()> = Mutex::new(());

/// A broker on loopback; stopped when it is dropped.
pub struct Broker {
    _alone: MutexGuard<'static, ()>,
    folder: tempfile::TempDir,
    pub address: String,
}

impl Broker {
    pub fn start() -> Broker {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a folder");
        let address = broker_sh(&["start", &folder.path().display().to_string()]);
        Broker { _alone: alone, folder, address }
    }

    fn path(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// Creates a topic; its options are `NAME=VALUE`.
    pub fn create_topic(&self, topic: &str, partitions: u32, configs: &[&str]) {
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", &self.address).create().expect("a client");
        let mut new = NewTopic::new(topic, partitions as i32, TopicReplication::Fixed(1));
        for (name, value) in configs.iter().filter_map(|config| config.split_once('=')) {
            new = new.set(name, value);
        }
        let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
        let created = block_on(admin.create_topics([&new], &options)).expect("an answer");
        created.into_iter().for_each(|topic| drop(topic.expect("created")));
    }

    /// Kills it as a power cut does; the data stays.
    pub fn kill(&self) {
        self.signal("-9");
    }

    /// Pauses or resumes its process: `-STOP`, `-CONT`.
    pub fn signal(&self, signal: &str) {
        let pid = broker_sh(&["pid", &self.path()]);
        let killed = Command::new("kill").args([signal, &pid]).status().expect("kill");
        assert!(killed.success());
    }

    pub fn restart(&self) {
        assert_eq!(broker_sh(&["restart", &self.path()]), self.address);
    }

    /// Returns all records of a topic: key and payload, partition by partition.
    pub fn records(&self, topic: &str) -> Vec<(String, Vec<u8>)> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.address)
            .set("group.id", "reader")
            .set("enable.partition.eof", "true")
            .create()
            .expect("a consumer");
        let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(10)).expect("it");
        let count = metadata.topics()[0].partitions().len() as i32;
        let mut records = Vec::new();
        for partition in 0..count {
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(topic, partition, Offset::Beginning).expect("a partition");
            consumer.assign(&list).expect("assigned");
            let began = Instant::now();
            loop {
                match consumer.poll(Duration::from_millis(200)) {
                    Some(Ok(message)) => {
                        let key = String::from_utf8_lossy(message.key().unwrap_or_default());
                        records.push((key.into_owned(), message.payload().unwrap_or(&[]).to_vec()));
                    }
                    Some(Err(_)) => break,
                    None => assert!(began.elapsed() < Duration::from_secs(30), "no end is found"),
                }
            }
        }
        records
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .args([
                "-CONT",
                &std::fs::read_to_string(self.folder.path().join("pid")).unwrap_or_default(),
            ])
            .stderr(std::process::Stdio::null())
            .status();
        let _ = Command::new(script()).args(["stop", &self.path()]).status();
    }
}
