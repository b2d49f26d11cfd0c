//! The topics of a cluster: made with the right settings where they are missing, and checked.

use std::time::{Duration, Instant};

use fluxline_daq::experiment::{Cluster, ClusterOutput};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::client::{
    ANSWER_WITHIN, TopicError, ask_about, check_topic, config, topic_options, watermarks,
    wrong_settings,
};
use crate::settings::Settings;
use crate::wait::block_on;

/// Time for a new topic to appear.
const APPEARS_WITHIN: Duration = Duration::from_secs(20);

/// Most replicas of a topic where the experiment states no number.
const REPLICAS_MAX: usize = 3;
/// Replicas with which an acknowledged record is at two brokers, although one of them is away.
const REPLICAS_SAFE: u32 = 3;

/// A topic that the cluster needs.
struct Needed {
    part: &'static str,
    partitions: usize,
    /// Options that it must have.
    configs: &'static [(&'static str, &'static str)],
    /// Further options of a topic that a node makes.
    more: &'static [(&'static str, &'static str)],
}

/// Records stay although later ones have the same key.
const NOT_COMPACTED: (&str, &str) = ("cleanup.policy", "delete");
/// Records that stay until somebody deletes them.
const KEPT: [(&str, &str); 3] = [NOT_COMPACTED, ("retention.ms", "-1"), ("retention.bytes", "-1")];
/// The same, with the brokers' time in each record: nodes' clocks are compared with it.
const KEPT_WITH_TIME: [(&str, &str); 4] =
    [KEPT[0], KEPT[1], KEPT[2], ("message.timestamp.type", "LogAppendTime")];
/// The newest record of each key stays, with the brokers' time: nodes' clocks are compared with it.
const COMPACTED_WITH_TIME: [(&str, &str); 2] =
    [("cleanup.policy", "compact"), ("message.timestamp.type", "LogAppendTime")];
/// Brokers compact a part of a topic only when it is complete, by default after 1 GiB or a week. A
/// node's counts come each second, and observers read all that are there.
const SMALL_SEGMENTS: [(&str, &str); 1] = [("segment.bytes", "16777216")];
/// The newest record of each key stays.
const COMPACTED: [(&str, &str); 1] = [("cleanup.policy", "compact")];

fn needed(cluster: &Cluster) -> Vec<Needed> {
    let partitions = cluster.partitions as usize;
    let mut list = vec![
        Needed { part: "control", partitions: 1, configs: &KEPT_WITH_TIME, more: &[] },
        Needed { part: "fragments", partitions, configs: &[NOT_COMPACTED], more: &[] },
        Needed { part: "commits", partitions, configs: &KEPT, more: &[] },
        Needed {
            part: "ledger",
            partitions: 1,
            configs: &COMPACTED_WITH_TIME,
            more: &SMALL_SEGMENTS,
        },
        Needed { part: "checkpoints", partitions, configs: &COMPACTED, more: &[] },
    ];
    if cluster.output != ClusterOutput::Files {
        list.push(Needed { part: "events", partitions, configs: &[], more: &[] });
    }
    list
}

/// Makes the missing topics of a cluster and checks all of them. Returns the number of partitions
/// of fragments and the names of the topics that were made.
///
/// Errors: [`TopicError`]: no broker, too few replicas, numbers of partitions that do not agree.
pub fn prepare(settings: &Settings, cluster: &Cluster) -> Result<(u32, Vec<String>), TopicError> {
    let probe: BaseConsumer = config(settings).create().map_err(|error| wrong_settings(&error))?;
    let list = needed(cluster);
    let mut made = Vec::new();
    for topic in &list {
        let name = cluster.topic(topic.part);
        match check_topic(probe.client(), settings, &name) {
            Err(TopicError::Missing { .. }) => {
                if create(settings, cluster, topic, brokers(&probe, settings, &name)?)? {
                    made.push(name);
                }
            }
            Err(error) => return Err(error),
            Ok(_) => check_options(settings, topic, name)?,
        }
    }
    let mut fragments = 0;
    for topic in &list {
        let name = cluster.topic(topic.part);
        let found = appeared(&probe, settings, &name)?;
        if topic.part == "fragments" {
            fragments = found;
        }
        let needed = if topic.partitions == 1 { 1 } else { fragments.max(1) };
        let is_fragments = topic.part == "fragments";
        if found != needed && !is_fragments && (topic.part != "ledger" && topic.part != "control") {
            let (topic, fragments) = (name, cluster.topic("fragments"));
            let brokers = settings.brokers.clone();
            return Err(TopicError::Unequal { topic, found, fragments, needed, brokers });
        }
        if topic.part == "control" && found != 1 {
            return Err(TopicError::Partitions { topic: name, found, needed: 1 });
        }
    }
    Ok((fragments as u32, made))
}

/// Checks a topic that exists: somebody may have made it by hand, with the brokers' defaults. Where
/// the broker does not show the options to this user, they cannot be checked.
///
/// Errors: [`TopicError::Options`].
fn check_options(settings: &Settings, topic: &Needed, name: String) -> Result<(), TopicError> {
    let Some(options) = topic_options(settings, &name) else { return Ok(()) };
    let (mut found, mut needed) = (Vec::new(), Vec::new());
    for (option, value) in topic.configs {
        let Some(its) = options.get(option).and_then(|entry| entry.value.as_ref()) else {
            continue;
        };
        // Compaction may have an age limit, too (docs/kafka.md).
        let is_compacted = *value == "compact" && its.split(',').any(|part| part == *value);
        if its != value && !is_compacted {
            found.push(format!("{option}={its}"));
            needed.push(format!("{option}={value}"));
        }
    }
    let (brokers, found, needed) = (settings.brokers.clone(), found.join(","), needed.join(","));
    match found.is_empty() {
        true => Ok(()),
        false => Err(TopicError::Options { topic: name, brokers, found, needed }),
    }
}

/// Returns the number of brokers.
fn brokers(probe: &BaseConsumer, settings: &Settings, topic: &str) -> Result<usize, TopicError> {
    let metadata = ask_about(probe.client(), Some(topic), ANSWER_WITHIN);
    let away = |error: KafkaError| TopicError::NoBroker {
        brokers: settings.brokers.clone(),
        reason: error.to_string(),
    };
    Ok(metadata.map_err(away)?.brokers().len())
}

/// Returns the number of replicas of new topics at this many brokers.
fn replicas_of(cluster: &Cluster, brokers: usize) -> u32 {
    cluster.replicas.unwrap_or(brokers.clamp(1, REPLICAS_MAX) as u32)
}

/// Creates a topic at this many brokers. Returns false when another node was faster.
fn create(
    settings: &Settings,
    cluster: &Cluster,
    topic: &Needed,
    at_brokers: usize,
) -> Result<bool, TopicError> {
    let admin: AdminClient<DefaultClientContext> =
        config(settings).create().map_err(|error| wrong_settings(&error))?;
    let (name, brokers) = (cluster.topic(topic.part), settings.brokers.clone());
    let replicas = replicas_of(cluster, at_brokers);
    let fixed = TopicReplication::Fixed(replicas as i32);
    let mut new = NewTopic::new(&name, topic.partitions as i32, fixed);
    if replicas >= REPLICAS_SAFE {
        // Otherwise the last broker in sync would acknowledge records that only it has.
        new = new.set("min.insync.replicas", "2");
    }
    for (key, value) in topic.configs.iter().chain(topic.more) {
        new = new.set(key, value);
    }
    let options = AdminOptions::new()
        .request_timeout(Some(ANSWER_WITHIN))
        .operation_timeout(Some(ANSWER_WITHIN));
    let answers = block_on(admin.create_topics([&new], &options));
    let reason = match answers.map(|answers| answers.into_iter().next()) {
        Ok(Some(Ok(_)) | None) => return Ok(true),
        Ok(Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists)))) => return Ok(false),
        Ok(Some(Err((_, code)))) => code.to_string(),
        Err(error) => error.to_string(),
    };
    Err(TopicError::NotCreated { topic: name, brokers, reason })
}

/// Waits for a new topic; returns its number of partitions.
fn appeared(probe: &BaseConsumer, settings: &Settings, name: &str) -> Result<usize, TopicError> {
    let limit = Instant::now() + APPEARS_WITHIN;
    loop {
        match check_topic(probe.client(), settings, name) {
            Err(TopicError::Missing { .. }) if Instant::now() < limit => {
                std::thread::sleep(Duration::from_millis(100));
            }
            other => return other,
        }
    }
}

/// Returns the number of partitions of a topic.
///
/// Errors: [`TopicError`]; the topic must exist.
pub fn partitions_of(settings: &Settings, topic: &str) -> Result<u32, TopicError> {
    let probe: BaseConsumer = config(settings).create().map_err(|error| wrong_settings(&error))?;
    Ok(check_topic(probe.client(), settings, topic)? as u32)
}

/// Returns the offset behind the last record of each partition of a topic.
///
/// Errors: [`TopicError::NoBroker`].
pub fn ends(settings: &Settings, topic: &str, partitions: u32) -> Result<Vec<u64>, TopicError> {
    let probe: BaseConsumer = config(settings).create().map_err(|error| wrong_settings(&error))?;
    let end = |partition: u32| {
        let marks = watermarks(probe.client(), topic, partition as i32);
        let marks = marks.map_err(|error| TopicError::NoBroker {
            brokers: settings.brokers.clone(),
            reason: error.to_string(),
        })?;
        Ok(marks.1.max(0) as u64)
    };
    (0..partitions).map(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_topics_have_a_replica_at_each_broker_and_at_most_three() {
        let cluster = |more: &str| -> Cluster {
            let text = format!(r#"{{"brokers": "127.0.0.1:9", "name": "lab"{more}}}"#);
            serde_json::from_str(&text).expect("a cluster")
        };
        let auto = [0, 1, 2, 3, 40].map(|brokers| replicas_of(&cluster(""), brokers));
        assert_eq!(auto, [1, 1, 2, 3, 3]);
        assert_eq!(replicas_of(&cluster(r#", "replicas": 1"#), 5), 1);
    }
}
