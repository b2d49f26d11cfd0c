//! The client library's configuration, its errors in words, and the check of a topic.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::client::{Client, ClientContext, DefaultClientContext};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::metadata::Metadata;
use rdkafka::producer::{BaseProducer, Producer, ProducerContext};
use rdkafka::types::RDKafkaConfRes;

use crate::changed::PartitionsChanged;
use crate::cut::ContentType;
use crate::settings::Settings;
use crate::wait::block_on;
use crate::window::BATCH_BYTES;

/// Time for an answer of a broker that may be busy.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// Time for the first answer of a broker; then it is looked why none came.
const FIRST_ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The reason why a topic cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    /// No broker answered.
    #[error(
        "no Kafka broker answers at {brokers} ({reason}); check the address, the network and \
        that the broker runs"
    )]
    NoBroker {
        /// The addresses.
        brokers: String,
        /// The client's message.
        reason: String,
    },
    /// The broker does not accept the user's name and password.
    #[error(
        "Kafka at {brokers} refuses the login ({reason}); correct sasl.mechanism, sasl.username \
        and sasl.password in the settings file"
    )]
    Login {
        /// The addresses.
        brokers: String,
        /// The broker's message.
        reason: String,
    },
    /// The two ends do not agree on encryption.
    #[error(
        "no connection to Kafka at {brokers} by this security ({reason}); correct \
        security.protocol and ssl.ca.location in the settings file"
    )]
    Security {
        /// The addresses.
        brokers: String,
        /// The client's message.
        reason: String,
    },
    /// The topic does not exist.
    #[error(
        "topic `{topic}` does not exist at {brokers}; create it, for example with \
        `kafka-topics.sh --bootstrap-server {brokers} --create --topic {topic} --partitions 8 \
        --replication-factor 3`"
    )]
    Missing {
        /// The topic.
        topic: String,
        /// The addresses.
        brokers: String,
    },
    /// The brokers have no cluster of this name.
    #[error(
        "cluster {cluster} is unknown at {brokers} (found: {found}); correct the name, or start \
        its nodes with `fluxline run EXPERIMENT --node NODE`"
    )]
    NoCluster {
        /// The cluster.
        cluster: String,
        /// The addresses.
        brokers: String,
        /// The clusters that exist.
        found: String,
    },
    /// The broker does not let the user see it.
    #[error("topic `{topic}` at {brokers} cannot be used ({reason}); check the user's rights")]
    Refused {
        /// The topic.
        topic: String,
        /// The addresses.
        brokers: String,
        /// The broker's message.
        reason: String,
    },
    /// No record can be acknowledged.
    #[error(
        "topic `{topic}` has {replicas} replicas, and min.insync.replicas asks for {needed}: \
        the broker would refuse every record; add replicas, or lower min.insync.replicas"
    )]
    TooFewReplicas {
        /// The topic.
        topic: String,
        /// Replicas of its partition with the fewest.
        replicas: usize,
        /// The topic's min.insync.replicas.
        needed: usize,
    },
    /// A topic cannot be created.
    #[error(
        "topic `{topic}` cannot be created at {brokers} ({reason}); check `replicas` and \
        `partitions` below [cluster] and the user's rights, or create it yourself"
    )]
    NotCreated {
        /// The topic.
        topic: String,
        /// The addresses.
        brokers: String,
        /// The broker's message.
        reason: String,
    },
    /// Topics of a cluster have different numbers of partitions.
    #[error(
        "topic `{topic}` has {found} partitions, and topic `{fragments}` has {needed}; give both \
        the same number with `kafka-topics.sh --bootstrap-server {brokers} --alter --topic TOPIC \
        --partitions NUMBER`, or choose another `name` below [cluster]"
    )]
    Unequal {
        /// The topic.
        topic: String,
        /// Its number of partitions.
        found: usize,
        /// The topic of packets.
        fragments: String,
        /// Its number of partitions.
        needed: usize,
        /// The addresses.
        brokers: String,
    },
    /// A topic got more partitions during a run.
    #[error("{0}")]
    PartitionsChanged(#[from] PartitionsChanged),
    /// A topic has another number of partitions than its cluster needs.
    #[error(
        "topic `{topic}` has {found} partitions and needs {needed}; choose another `name` below \
        [cluster]"
    )]
    Partitions {
        /// The topic.
        topic: String,
        /// Its number of partitions.
        found: usize,
        /// The number that is needed.
        needed: usize,
    },
    /// A topic that somebody made has options with which the brokers remove records too early, or
    /// show no time.
    #[error(
        "topic `{topic}` has {found}, and the cluster needs {needed}; set it with \
        `kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type topics \
        --entity-name {topic} --add-config {needed}`"
    )]
    Options {
        /// The topic.
        topic: String,
        /// The addresses.
        brokers: String,
        /// Its options, as `NAME=VALUE,NAME=VALUE`.
        found: String,
        /// The options that it needs.
        needed: String,
    },
    /// The brokers refuse the transactions of this user, or those of any user.
    #[error("{0}")]
    Transactions(String),
    /// The settings are wrong.
    #[error("the Kafka client refuses its settings ({0}); correct `settings` or the settings file")]
    Settings(String),
}

/// Returns the configuration of a client with these settings.
pub fn config(settings: &Settings) -> ClientConfig {
    config_or(settings, &[])
}

/// Returns the configuration of a producer with these settings: batches of up to 1 MB, or older
/// than 5 ms, unless the settings say otherwise.
pub fn producer_config(settings: &Settings) -> ClientConfig {
    let batch_bytes = BATCH_BYTES.to_string();
    let mut config =
        config_or(settings, &[("linger.ms", "5"), ("batch.size", batch_bytes.as_str())]);
    config.set("enable.idempotence", "true");
    config
}

/// Returns the configuration of a consumer with these settings. A consumer whose queue was full
/// fetches again after 5 ms, instead of the client library's 1 s.
pub fn consumer_config(settings: &Settings) -> ClientConfig {
    let queue = [("fetch.queue.backoff.ms", "5"), ("queued.max.messages.kbytes", "16384")];
    let mut config = config_or(settings, &queue);
    config.set("enable.auto.commit", "false");
    config
}

/// Returns the configuration with `defaults` for options that the settings do not have.
pub fn config_or(settings: &Settings, defaults: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("client.id", "fluxline")
        .set("allow.auto.create.topics", "false")
        .set("reconnect.backoff.max.ms", "1000");
    defaults.iter().for_each(|(name, value)| {
        config.set(*name, *value);
    });
    settings.options.iter().for_each(|(name, value)| {
        config.set(name, value);
    });
    config.set("bootstrap.servers", &settings.brokers);
    config
}

/// Returns the configuration of a client of control, counts or the group of builders: its client id
/// ends in `-control`. A quota of the brokers slows all clients of an id down together. Where
/// counts waited behind the data, a node that works would look dead.
pub fn control_config(settings: &Settings, defaults: &[(&str, &str)]) -> ClientConfig {
    let mut config = config_or(settings, defaults);
    let id = config.get("client.id").unwrap_or_default().to_owned();
    config.set("client.id", format!("{id}-control"));
    config
}

/// Returns a client's error as wrong settings.
pub fn wrong_settings(error: &KafkaError) -> TopicError {
    TopicError::Settings(text_of(error))
}

/// Returns the text of an error, without the value of an option: it may be a password. The client
/// library's own text has it.
pub fn text_of(error: &KafkaError) -> String {
    let KafkaError::ClientConfig(kind, reason, name, _) = error else { return error.to_string() };
    if *kind == RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN {
        return format!("it has no option `{name}`");
    }
    // The reason may have the value, or a part of it.
    match reason.contains("not supported in this build") {
        true => format!(
            "option `{name}` needs a program with TLS: build it with `--features kafka-tls`"
        ),
        false => format!("option `{name}` has a value that it does not take"),
    }
}

/// Time for a second connection to show why the first one got no answer.
const CAUSE_WITHIN: Duration = Duration::from_secs(3);

/// Keeps the client's reports about logins, encryption and brokers that are away.
#[derive(Default)]
struct Cause {
    security: Mutex<Option<(bool, String)>>,
    /// No broker takes a connection.
    is_down: AtomicBool,
}

impl ClientContext for Cause {
    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown) {
            self.is_down.store(true, Ordering::Relaxed);
        }
        let is_login = matches!(
            error.rdkafka_error_code(),
            Some(RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed)
        );
        let is_security = error.rdkafka_error_code() == Some(RDKafkaErrorCode::SSL)
            || ["security.protocol", "SSL handshake"].iter().any(|part| reason.contains(part));
        if is_login || is_security {
            self.note(is_login, reason);
        }
    }

    /// A broker that expects TLS closes the connection at the first request without it. The client
    /// only logs that.
    fn log(&self, _: RDKafkaLogLevel, _: &str, message: &str) {
        if message.contains("Disconnected") && message.contains("APIVERSION_QUERY") {
            self.note(false, "it closed the connection at the first request: it may expect TLS");
        }
    }
}

impl Cause {
    fn note(&self, is_login: bool, reason: &str) {
        let mut cause = self.security.lock().unwrap_or_else(PoisonError::into_inner);
        cause.get_or_insert_with(|| (is_login, reason.to_owned()));
    }
}

impl ProducerContext for Cause {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

/// Returns the reason why no broker answered: it connects again and waits for the client's report.
/// The second value is true when a broker takes the connection, and may only be slow.
fn no_answer(settings: &Settings, error: &KafkaError) -> (TopicError, bool) {
    let brokers = settings.brokers.clone();
    let limit = Instant::now() + CAUSE_WITHIN;
    let mut may_be_slow = false;
    if let Ok(probe) = config(settings)
        .set_log_level(RDKafkaLogLevel::Info)
        .create_with_context::<_, BaseProducer<Cause>>(Cause::default())
    {
        while Instant::now() < limit {
            probe.poll(Duration::from_millis(50));
            let cause =
                probe.context().security.lock().unwrap_or_else(PoisonError::into_inner).take();
            match cause {
                Some((true, reason)) => return (TopicError::Login { brokers, reason }, false),
                Some((false, reason)) => return (TopicError::Security { brokers, reason }, false),
                None => {}
            }
        }
        may_be_slow = !probe.context().is_down.load(Ordering::Relaxed);
    }
    (TopicError::NoBroker { brokers, reason: error.to_string() }, may_be_slow)
}

/// Checks that a topic exists and takes records; returns its number of partitions.
pub fn check_topic<C: ClientContext>(
    client: &Client<C>,
    settings: &Settings,
    topic: &str,
) -> Result<usize, TopicError> {
    let brokers = settings.brokers.clone();
    let ask = |within| ask_about(client, Some(topic), within);
    let metadata = ask(FIRST_ANSWER_WITHIN).or_else(|error| {
        let (reason, may_be_slow) = no_answer(settings, &error);
        if !may_be_slow {
            return Err(reason);
        }
        ask(ANSWER_WITHIN).map_err(|_| reason)
    })?;
    let Some(of_topic) = metadata.topics().iter().find(|its| its.name() == topic) else {
        return Err(TopicError::Missing { topic: topic.to_owned(), brokers });
    };
    match of_topic.error().map(RDKafkaErrorCode::from) {
        None => {}
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
            return Err(TopicError::Missing { topic: topic.to_owned(), brokers });
        }
        Some(code) => {
            let (topic, reason) = (topic.to_owned(), code.to_string());
            return Err(TopicError::Refused { topic, brokers, reason });
        }
    }
    let partitions = of_topic.partitions();
    let replicas = partitions.iter().map(|its| its.replicas().len()).min().unwrap_or(0);
    match needed_replicas(settings, topic) {
        Some(needed) if needed > replicas => {
            Err(TopicError::TooFewReplicas { topic: topic.to_owned(), replicas, needed })
        }
        _ => Ok(partitions.len()),
    }
}

/// Returns what the brokers know of a topic, or of all; asks twice where a broker was replaced.
pub fn ask_about<C: ClientContext>(
    client: &Client<C>,
    topic: Option<&str>,
    within: Duration,
) -> Result<Metadata, KafkaError> {
    match client.fetch_metadata(topic, within) {
        Err(error) if is_of_replaced_broker(&error) => client.fetch_metadata(topic, within),
        answer => answer,
    }
}

/// Returns true where the client gave the request to a broker that it then removed from its list,
/// as it does with the given addresses once the brokers name their own. The next request reaches
/// another one.
fn is_of_replaced_broker(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::DestroyBroker)
}

/// Returns the offsets of the first record of a partition and behind its last one. Brokers may not
/// know a new topic for a moment, so it asks again.
pub fn watermarks<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    partition: i32,
) -> Result<(i64, i64), KafkaError> {
    /// Time between two questions.
    const PAUSE: Duration = Duration::from_millis(200);
    let limit = Instant::now() + ANSWER_WITHIN;
    loop {
        match client.fetch_watermarks(topic, partition, ANSWER_WITHIN) {
            Err(error)
                if (may_be_new(&error) || is_of_replaced_broker(&error))
                    && Instant::now() < limit =>
            {
                std::thread::sleep(PAUSE);
                // The client asks the brokers about the topic again. The next answer shows it.
                let _ = client.fetch_metadata(Some(topic), ANSWER_WITHIN);
            }
            answer => return answer,
        }
    }
}

/// Returns true for errors of a topic that was made a moment ago.
fn may_be_new(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::UnknownPartition
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::LeaderNotAvailable
                | RDKafkaErrorCode::NotLeaderForPartition
        )
    )
}

/// Returns the topic's min.insync.replicas, where the broker shows it to this user.
fn needed_replicas(settings: &Settings, topic: &str) -> Option<usize> {
    topic_option(settings, topic, "min.insync.replicas")
}

/// Returns the largest record that the topic takes \[byte\], where the broker shows it.
pub fn record_bytes_of(settings: &Settings, topic: &str) -> Option<usize> {
    /// Key, headers and framing.
    const AROUND_BYTES: usize = 4096;
    let bytes: usize = topic_option(settings, topic, "max.message.bytes")?;
    Some(bytes.saturating_sub(AROUND_BYTES).max(1024))
}

/// Returns the largest batch that a producer may send to the topic \[byte\], where records have at
/// most `record_bytes`. The topic's max.message.bytes limits batches, not single records. Where the
/// broker does not show it, a batch has the size of one record.
pub fn batch_bytes(settings: &Settings, topic: &str, record_bytes: usize) -> usize {
    let of_topic: Option<usize> = topic_option(settings, topic, "max.message.bytes");
    // The client counts a little less than the broker.
    let allowed = of_topic.map_or(0, |bytes| bytes - bytes / 16);
    allowed.min(BATCH_BYTES).max(record_bytes)
}

/// Returns an option of a topic, where the broker shows it to this user.
fn topic_option<T: std::str::FromStr>(settings: &Settings, topic: &str, name: &str) -> Option<T> {
    topic_options(settings, topic)?.get(name)?.value.as_ref()?.parse().ok()
}

/// Returns the options of a topic, where the broker shows them to this user.
pub fn topic_options(settings: &Settings, topic: &str) -> Option<ConfigResource> {
    let admin: AdminClient<DefaultClientContext> = config(settings).create().ok()?;
    let options = AdminOptions::new().request_timeout(Some(ANSWER_WITHIN));
    let asked = [ResourceSpecifier::Topic(topic)];
    let answers = block_on(admin.describe_configs(asked.iter(), &options)).ok()?;
    answers.into_iter().next()?.ok()
}

/// Returns the headers of a record; `events`: the number of events that it has alone.
pub fn headers(content: ContentType, events: u64) -> OwnedHeaders {
    let headers =
        OwnedHeaders::new().insert(Header { key: "content-type", value: Some(content.as_str()) });
    match content {
        ContentType::Arrow => {
            let events = events.to_string();
            headers.insert(Header { key: "fluxline.events", value: Some(&events) })
        }
        ContentType::Description | ContentType::Ess(_) => headers,
    }
}
