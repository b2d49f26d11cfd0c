//! A broker of our own for each test, and a consumer that knows nothing of the crate's code.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use wait::block_on;

#[path = "../../../src/wait.rs"]
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

/// The right to have a broker. One at a time has it: each broker takes 300 MB and half a core.
struct Alone;

static IS_TAKEN: Mutex<bool> = Mutex::new(false);
static GIVEN_BACK: Condvar = Condvar::new();

impl Alone {
    fn take() -> Alone {
        let taken = IS_TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let free = GIVEN_BACK.wait_while(taken, |is_taken| *is_taken);
        *free.unwrap_or_else(PoisonError::into_inner) = true;
        Alone
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        *IS_TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = false;
        GIVEN_BACK.notify_one();
    }
}

/// The broker of tests that run at the same time.
static SHARED: Mutex<Weak<Broker>> = Mutex::new(Weak::new());

/// A broker on loopback; stopped when it is dropped.
pub struct Broker {
    _alone: Alone,
    folder: tempfile::TempDir,
    pub address: String,
}

impl Broker {
    pub fn start() -> Broker {
        Broker::start_with("", "")
    }

    /// A broker for tests that neither stop nor pause it, and whose topics have names of their own.
    pub fn shared() -> Arc<Broker> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let broker = Arc::new(Broker::start());
            *shared = Arc::downgrade(&broker);
            broker
        })
    }

    /// A broker with TLS and the user daq, whose password is `secret`; `inner` is the address
    /// without.
    pub fn start_with_tls() -> Broker {
        Broker::start_with("tls", "")
    }

    /// A broker with further settings, as lines `NAME=VALUE`.
    pub fn start_with_settings(settings: &str) -> Broker {
        Broker::start_with("", settings)
    }

    fn start_with(security: &str, settings: &str) -> Broker {
        let alone = Alone::take();
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("more.properties"), settings).expect("written");
        let path = folder.path().display().to_string();
        let arguments: Vec<&str> =
            ["start", &path, security].into_iter().filter(|it| !it.is_empty()).collect();
        let address = broker_sh(&arguments);
        let address = address.lines().last().unwrap_or_default().to_owned();
        Broker { _alone: alone, folder, address }
    }

    /// Returns the path of a file of the broker.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn path(&self) -> String {
        self.folder.path().display().to_string()
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        let inner = std::fs::read_to_string(self.folder.path().join("inner"));
        let address = inner.map_or(self.address.clone(), |inner| inner.trim().to_owned());
        ClientConfig::new().set("bootstrap.servers", &address).create().expect("a client")
    }

    /// Creates a topic; its options are `NAME=VALUE`.
    pub fn create_topic(&self, topic: &str, partitions: u32, configs: &[&str]) {
        let mut new = NewTopic::new(topic, partitions as i32, TopicReplication::Fixed(1));
        for (name, value) in configs.iter().filter_map(|config| config.split_once('=')) {
            new = new.set(name, value);
        }
        let created = block_on(self.admin().create_topics([&new], &within())).expect("an answer");
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

    /// Returns the offset behind the last record of a partition.
    pub fn end(&self, topic: &str, partition: i32) -> u64 {
        let client: BaseConsumer =
            ClientConfig::new().set("bootstrap.servers", &self.address).create().expect("it");
        let marks = client.fetch_watermarks(topic, partition, Duration::from_secs(30));
        marks.expect("an answer").1 as u64
    }

    /// Removes the records of a partition before `offset`, as retention does.
    pub fn delete_records(&self, topic: &str, partition: u32, offset: u64) {
        let mut before = TopicPartitionList::new();
        let offset = Offset::Offset(offset as i64);
        before.add_partition_offset(topic, partition as i32, offset).expect("a partition");
        let removed = block_on(self.admin().delete_records(&before, &within())).expect("an answer");
        for partition in removed.elements() {
            partition.error().expect("removed");
        }
    }

    /// Gives a topic more partitions.
    pub fn add_partitions(&self, topic: &str, partitions: u32) {
        let more = NewPartitions::new(topic, partitions as usize);
        let added = block_on(self.admin().create_partitions([&more], &within()));
        added.expect("an answer").into_iter().for_each(|topic| drop(topic.expect("added")));
    }

    /// Gives every user these rights on resources, and no other: arguments of Kafka's tool.
    pub fn allow_only(&self, operations: &[&str], resources: &[&str]) {
        let mut arguments = vec!["tool", "acls", "--bootstrap-server", &self.address, "--add"];
        arguments.extend(["--allow-principal", "User:*"]);
        arguments.extend(operations.iter().flat_map(|of| ["--operation", of]));
        broker_sh(&[&arguments, resources].concat());
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

/// The time within which the broker answers.
fn within() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)))
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
