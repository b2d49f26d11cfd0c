//! Sinks of events: where built events go besides the files of the run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::problem::Problem;

/// The sinks of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Sink {
    /// A topic of Apache Kafka.
    pub kafka: Option<KafkaSink>,
}

/// A topic of Apache Kafka that built events are sent to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct KafkaSink {
    /// Addresses of brokers, separated by commas.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// The form of the records.
    #[serde(default)]
    pub schema: SinkSchema,
    /// With `schema = "ess"`: the topic of the messages of start and stop; default: `topic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_topic: Option<String>,
    /// With `schema = "ess"`: the file writer that should write the run; default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_id: Option<String>,
    /// The file with settings of the connection, such as TLS and passwords; relative to the
    /// experiment file's folder.
    pub settings_file: Option<PathBuf>,
    /// Settings of the client library; passwords belong into `settings-file`.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Largest record \[byte\].
    #[serde(default = "record_bytes")]
    pub record_bytes: u32,
    /// Memory for records that are not acknowledged yet \[byte\].
    #[serde(default = "memory_bytes")]
    pub memory_bytes: u64,
    /// Time after which a record without an acknowledgement counts as timed out \[ms\].
    #[serde(default = "delivery_timeout_ms")]
    pub delivery_timeout_ms: u32,
    /// The run's name in the topic: host and time. It is written to run.json and cannot be chosen,
    /// since two runs of one name would hide each other's records.
    #[serde(skip_deserializing)]
    pub run_id: Option<String>,
}

/// The form of the records in a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SinkSchema {
    /// Arrow IPC streams with the rows of the files.
    #[default]
    Arrow,
    /// Messages of the European Spallation Source, as the packet descriptions map them.
    Ess,
}

/// Parts of the names of settings whose values are secrets.
const SECRETS: [&str; 6] = ["password", "secret", ".pem", "oauthbearer.config", "private", "token"];

impl Sink {
    pub(super) fn check(&self) -> Result<(), Problem> {
        match &self.kafka {
            Some(kafka) => kafka.check().map_err(|problem| problem.below("sink.kafka")),
            None => Ok(()),
        }
    }
}

impl KafkaSink {
    fn check(&self) -> Result<(), Problem> {
        check_brokers(&self.brokers).map_err(|text| Problem::at("brokers", text))?;
        check_topic(&self.topic).map_err(|text| Problem::at("topic", text))?;
        self.check_schema()?;
        check_settings(&self.settings).map_err(|text| Problem::at("settings", text))?;
        if !(1 << 10..=1 << 30).contains(&self.record_bytes) {
            let text = format!("record-bytes = {}; write 1024 to 1073741824.", self.record_bytes);
            return Err(Problem::at("record-bytes", text));
        }
        if self.memory_bytes < u64::from(self.record_bytes) || self.memory_bytes > 1 << 40 {
            let text = format!(
                "memory-bytes = {}; write at least record-bytes ({}), at most 1 TiB.",
                self.memory_bytes, self.record_bytes
            );
            return Err(Problem::at("memory-bytes", text));
        }
        if !(100..=86_400_000).contains(&self.delivery_timeout_ms) {
            let text = format!(
                "delivery-timeout-ms = {}; write 100 to 86400000.",
                self.delivery_timeout_ms
            );
            return Err(Problem::at("delivery-timeout-ms", text));
        }
        Ok(())
    }

    /// Checks that builders of a cluster can send to the topic in one transaction with their
    /// commits. `of_cluster` are the cluster's own topics.
    pub(super) fn check_for_builders(
        &self,
        brokers: &str,
        of_cluster: &[String],
    ) -> Result<(), Problem> {
        if self.brokers != brokers {
            let text = format!(
                "brokers = {:?}, and [cluster] has {:?}: builders send a batch and its commit in \
                 one transaction, which has one set of brokers; write the same text.",
                self.brokers, brokers
            );
            return Err(Problem::at("brokers", text));
        }
        if self.settings_file.is_some() || !self.settings.is_empty() {
            let text = "builders send with the connection of [cluster]; write settings and \
                        settings-file there.";
            return Err(Problem::at("settings", text));
        }
        let topics = [("topic", Some(&self.topic)), ("run-topic", self.run_topic.as_ref())];
        for (key, topic) in topics {
            if let Some(topic) = topic.filter(|topic| of_cluster.contains(topic)) {
                let text = format!(
                    "{key} = {topic:?} has the name of a topic of the cluster; choose another one."
                );
                return Err(Problem::at(key, text));
            }
        }
        let (memory, time) = (memory_bytes(), delivery_timeout_ms());
        let keys = [
            ("memory-bytes", self.memory_bytes != memory),
            ("delivery-timeout-ms", self.delivery_timeout_ms != time),
        ];
        match keys.iter().find(|(_, is_set)| *is_set) {
            None => Ok(()),
            Some((key, _)) => {
                let text = format!(
                    "{key} is for runs on one machine: builders wait until the brokers have \
                     taken each batch; remove it."
                );
                Err(Problem::at(*key, text))
            }
        }
    }

    /// Checks the keys of the ESS schemas.
    fn check_schema(&self) -> Result<(), Problem> {
        let keys = [("run-topic", &self.run_topic), ("service-id", &self.service_id)];
        if self.schema != SinkSchema::Ess
            && let Some((key, _)) = keys.iter().find(|(_, value)| value.is_some())
        {
            let text =
                format!("{key} belongs to schema = \"ess\"; add that line, or remove {key}.");
            return Err(Problem::at(*key, text));
        }
        if let Some(topic) = &self.run_topic {
            check_topic(topic).map_err(|text| Problem::at("run-topic", text))?;
        }
        Ok(())
    }
}

/// Checks a list of brokers: `host:port`, separated by commas.
pub fn check_brokers(brokers: &str) -> Result<(), String> {
    let is_address = |address: &str| {
        let port = address.trim().rsplit_once(':').filter(|of| !of.0.is_empty());
        port.is_some_and(|of| of.1.parse::<u16>().is_ok_and(|port| port > 0))
    };
    match brokers.split(',').find(|address| !is_address(address)) {
        None => Ok(()),
        Some(wrong) => Err(format!(
            "brokers: `{}` is not an address with a port; write for example \"10.0.0.5:9092\".",
            wrong.trim()
        )),
    }
}

/// Checks the name of a topic by Kafka's rules.
pub fn check_topic(topic: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_name = !topic.is_empty() && topic.len() <= 249 && topic.chars().all(allowed);
    match is_name && topic != "." && topic != ".." {
        true => Ok(()),
        false => Err(format!(
            "topic `{topic}` is not a name of a topic; write letters, digits, `.`, `_` and `-`."
        )),
    }
}

/// Checks that no setting is a secret.
pub(super) fn check_settings(settings: &BTreeMap<String, String>) -> Result<(), String> {
    let is_secret = |key: &&String| SECRETS.iter().any(|secret| key.contains(secret));
    match settings.keys().find(is_secret) {
        None => Ok(()),
        Some(key) => Err(format!(
            "settings: `{key}` is a secret, and run.json keeps the settings; write it into the \
             file that settings-file names."
        )),
    }
}

fn record_bytes() -> u32 {
    512 << 10
}
fn memory_bytes() -> u64 {
    256 << 20
}
fn delivery_timeout_ms() -> u32 {
    30_000
}

#[cfg(test)]
mod tests {
    use crate::experiment::Experiment;

    fn mistake(lines: &str) -> String {
        let text = format!(
            "[[source]]\nname = \"a\"\nformat = \"counter\"\nudp = {{ listen = \
             [\"127.0.0.1:0\"] }}\n[sink.kafka]\n{lines}\n"
        );
        Experiment::parse("e.toml", &text).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn a_wrong_sink_is_refused_with_its_line_and_remedy() {
        let good = "brokers = \"a:9092, b:9092\"\ntopic = \"x.events\"";
        assert_eq!(mistake(good), "");
        let cases = [
            ("brokers = \"a\"\ntopic = \"x\"", "`a` is not an address"),
            ("brokers = \"a:9092,:1\"\ntopic = \"x\"", "`:1` is not an address"),
            ("brokers = \"a:0\"\ntopic = \"x\"", "`a:0` is not an address"),
            ("brokers = \"a:1\"\ntopic = \"x y\"", "topic `x y`"),
            ("brokers = \"a:1\"\ntopic = \"..\"", "topic `..`"),
            ("brokers = \"a:1\"\ntopic = \"x\"\nrecord-bytes = 7", "record-bytes = 7"),
            ("brokers = \"a:1\"\ntopic = \"x\"\nrun-topic = \"y\"", "schema = \"ess\""),
            ("brokers = \"a:1\"\ntopic = \"x\"\nservice-id = \"y\"", "schema = \"ess\""),
            (
                "brokers = \"a:1\"\ntopic = \"x\"\nschema = \"ess\"\nrun-topic = \"y z\"",
                "topic `y z`",
            ),
            ("brokers = \"a:1\"\ntopic = \"x\"\nschema = \"es\"", "schema"),
            ("brokers = \"a:1\"\ntopic = \"x\"\nmemory-bytes = 7", "memory-bytes = 7"),
            ("brokers = \"a:1\"\ntopic = \"x\"\ndelivery-timeout-ms = 1", "write 100 to"),
            ("brokers = \"a:1\"\ntopic = \"x\"\nrun-id = \"a\"", "run-id"),
            ("brokers = \"a:1\"\ntopic = \"x\"\nbroker = 1", "broker"),
            (
                "brokers = \"a:1\"\ntopic = \"x\"\nsettings = { \"sasl.password\" = \"p\" }",
                "settings-file",
            ),
        ];
        for (lines, expected) in cases {
            let said = mistake(lines);
            assert!(said.contains(expected) && said.contains("e.toml"), "{lines}: {said}");
        }
    }
}
