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
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
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
        Broker::start_with("")
    }

    /// A broker with TLS and the user daq, whose password is `secret`; `inner` is the address
    /// without.
    pub fn start_with_tls() -> Broker {
        Broker::start_with("tls")
    }

    fn start_with(security: &str) -> Broker {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display().to_string();
        let arguments: Vec<&str> =
            ["start", &path, security].into_iter().filter(|it| !it.is_empty()).collect();
        let address = broker_sh(&arguments);
        let address = address.lines().last().unwrap_or_default().to_owned();
        Broker { _alone: alone, folder, address }
    }

    /// Returns the address without security of a broker with TLS.
    pub fn inner(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("inner")).expect("inner").trim().to_owned()
    }

    /// Returns the path of a file of the broker.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn path(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// Creates a topic; its options are `NAME=VALUE`.
    pub fn create_topic(&self, topic: &str, partitions: u32, configs: &[&str]) {
        let inner = std::fs::read_to_string(self.folder.path().join("inner"));
        let address = inner.map_or(self.address.clone(), |inner| inner.trim().to_owned());
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", &address).create().expect("a client");
        let mut new = NewTopic::new(topic, partitions as i32, TopicReplication::Fixed(1));
        for (name, value) in configs.iter().filter_map(|config| config.split_once('=')) {
            new = new.set(name, value);
        }
        let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
        let created = block_on(admin.create_topics([&new], &options)).expect("an answer");
        created.into_iter().for_each(|topic| drop(topic.expect("created")));
    }

    /// Puts a record into a partition, as another program would.
    pub fn put(&self, topic: &str, partition: u32, key: Option<&str>, value: &[u8]) {
        let producer: BaseProducer =
            ClientConfig::new().set("bootstrap.servers", &self.address).create().expect("it");
        let mut record: BaseRecord<'_, str, [u8]> =
            BaseRecord::to(topic).partition(partition as i32).payload(value);
        if let Some(key) = key {
            record = record.key(key);
        }
        producer.send(record).map_err(|(error, _)| error).expect("sent");
        producer.flush(Duration::from_secs(30)).expect("acknowledged");
    }

    /// Removes the records of a partition before `offset`, as retention does.
    pub fn delete_records(&self, topic: &str, partition: u32, offset: u64) {
        let file = self.folder.path().join("delete.json");
        let text = format!(
            "{{\"partitions\":[{{\"topic\":\"{topic}\",\"partition\":{partition},\
             \"offset\":{offset}}}],\"version\":1}}"
        );
        std::fs::write(&file, text).expect("written");
        let file = file.display().to_string();
        let address = ["tool", "delete-records", "--bootstrap-server", &self.address];
        let said = broker_sh(&[&address[..], &["--offset-json-file", &file]].concat());
        assert!(said.contains("low_watermark"), "{said}");
    }

    /// Gives a topic more partitions.
    pub fn add_partitions(&self, topic: &str, partitions: u32) {
        let partitions = partitions.to_string();
        let address = ["tool", "topics", "--bootstrap-server", &self.address];
        let more = ["--alter", "--topic", topic, "--partitions", &partitions];
        broker_sh(&[&address[..], &more].concat());
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
