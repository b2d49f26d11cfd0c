//! The control topic: reads its records into the state of the cluster, and appends new ones.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::control::ControlState;
use super::record::ControlRecord;
use crate::build::LogError;
use crate::build::deliveries::Deliveries;
use crate::changed::PartitionsChanged;
use crate::client::{
    ANSWER_WITHIN, TopicError, ask_about, check_topic, control_config, wrong_settings,
};
use crate::lasting::Lasting;
use crate::settings::Settings;

/// Time for the brokers to take a record, and for the first read.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
/// Time for a record that the brokers have to be read: a broker that died in between may be back.
const SHOWN_WITHIN: Duration = Duration::from_secs(90);

/// Most names in a sentence.
const NAMES_MAX: usize = 8;

/// Returns the error of a topic that is missing as one that names the clusters which exist.
pub(super) fn name_clusters(settings: &Settings, cluster: &str, error: TopicError) -> TopicError {
    if !matches!(error, TopicError::Missing { .. }) {
        return error;
    }
    let client: Result<BaseConsumer, KafkaError> = control_config(settings, &[]).create();
    let Ok(metadata) = client.and_then(|client| ask_about(client.client(), None, ANSWER_WITHIN))
    else {
        return error;
    };
    let names = metadata.topics().iter().filter_map(|topic| topic.name().strip_suffix(".control"));
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.truncate(NAMES_MAX);
    let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    TopicError::NoCluster { cluster: cluster.to_owned(), brokers: settings.brokers.clone(), found }
}

/// Returns the error of topics with different numbers of partitions as one that names the run
/// during which somebody added some.
pub(super) fn name_run(settings: &Settings, cluster: &str, error: TopicError) -> TopicError {
    let TopicError::Unequal { found, needed, .. } = &error else { return error };
    let found = (*found).max(*needed) as u32;
    let Ok(control) = ControlLog::open(settings, cluster) else { return error };
    let run = control.state().open_run().map(|run| (run.number(), run.partitions()));
    match run.filter(|(_, expected)| *expected != found) {
        Some((run, expected)) => PartitionsChanged { run, expected, found }.into(),
        None => error,
    }
}

/// The control topic of a cluster.
pub struct ControlLog {
    topic: String,
    consumer: Lasting<BaseConsumer>,
    producer: Lasting<BaseProducer<Deliveries>>,
    state: ControlState,
    /// The records that were there at the last look were read.
    at_end: bool,
    /// The bytes of an own record that was not read yet.
    awaited: Option<Vec<u8>>,
}

impl ControlLog {
    /// Opens the topic `CLUSTER.control`, and reads all its records.
    ///
    /// Errors: [`TopicError`]; the topic must exist.
    pub fn open(settings: &Settings, cluster: &str) -> Result<ControlLog, TopicError> {
        let topic = format!("{cluster}.control");
        let producer: BaseProducer<Deliveries> = control_config(settings, &[])
            .set("enable.idempotence", "true")
            .set("message.timeout.ms", ANSWERED_WITHIN.as_millis().to_string())
            .create_with_context(Deliveries::default())
            .map_err(|error| wrong_settings(&error))?;
        let partitions = check_topic(producer.client(), settings, &topic)?;
        if partitions != 1 {
            return Err(TopicError::Partitions { topic, found: partitions, needed: 1 });
        }
        let consumer: BaseConsumer = control_config(settings, &[])
            .set("group.id", "fluxline-control")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "earliest")
            .create()
            .map_err(|error| wrong_settings(&error))?;
        let mut list = TopicPartitionList::new();
        let added = list.add_partition_offset(&topic, 0, Offset::Beginning);
        added.map_err(|error| wrong_settings(&error))?;
        consumer.assign(&list).map_err(|error| wrong_settings(&error))?;
        let state = ControlState::default();
        let consumer = Lasting::new(consumer, settings, &topic);
        let producer = Lasting::new(producer, settings, &topic);
        let (at_end, awaited) = (false, None);
        let mut log = ControlLog { topic, consumer, producer, state, at_end, awaited };
        let limit = Instant::now() + ANSWERED_WITHIN;
        while !log.at_end {
            log.read(Duration::from_millis(100));
            if Instant::now() >= limit {
                let reason = format!("topic `{}` cannot be read", log.topic);
                return Err(TopicError::NoBroker { brokers: settings.brokers.clone(), reason });
            }
        }
        Ok(log)
    }

    /// Opens the control topic of a cluster that exists.
    ///
    /// Errors: [`TopicError`]; [`TopicError::NoCluster`] names the clusters that exist.
    pub fn open_of(settings: &Settings, cluster: &str) -> Result<ControlLog, TopicError> {
        ControlLog::open(settings, cluster).map_err(|error| name_clusters(settings, cluster, error))
    }

    /// Returns the state of the cluster.
    #[must_use]
    pub fn state(&self) -> &ControlState {
        &self.state
    }

    /// Reads the records that came; waits for one, at most `within`. While the brokers are away,
    /// nothing comes.
    pub fn read(&mut self, within: Duration) {
        let limit = Instant::now() + within;
        loop {
            let rest = limit.saturating_duration_since(Instant::now());
            match self.consumer.poll(rest.min(Duration::from_millis(100))) {
                Some(Ok(message)) => {
                    self.at_end = false;
                    let broker_ms = message.timestamp().to_millis().unwrap_or_default();
                    let bytes = message.payload().unwrap_or_default();
                    self.state.apply(bytes, broker_ms);
                    self.awaited.take_if(|awaited| awaited == bytes);
                }
                Some(Err(KafkaError::PartitionEOF(_))) => {
                    self.at_end = true;
                    return;
                }
                Some(Err(_)) | None => {}
            }
            if Instant::now() >= limit {
                return;
            }
        }
    }

    /// Appends a record, waits until the brokers have it, and reads it: the state shows its effect
    /// then.
    ///
    /// Errors: [`LogError::Away`]; the record may be there or not.
    pub fn append(&mut self, record: &ControlRecord) -> Result<(), LogError> {
        let away = |error: &KafkaError| LogError::Away(error.to_string());
        let before = self.producer.context().acknowledged();
        let bytes = record.to_bytes();
        let message = BaseRecord::<(), [u8]>::to(&self.topic).partition(0).payload(&bytes);
        self.producer.send(message).map_err(|(error, _)| away(&error))?;
        self.producer.flush(ANSWERED_WITHIN).map_err(|error| away(&error))?;
        if self.producer.context().acknowledged() == before {
            let refusal = self.producer.context().refusal();
            let reason = refusal.map_or("no answer".to_owned(), |refusal| refusal.reason);
            return Err(LogError::Away(reason));
        }
        // The client may have an end in its queue that lies before the record.
        (self.at_end, self.awaited) = (false, Some(bytes));
        let limit = Instant::now() + SHOWN_WITHIN;
        while self.awaited.is_some() {
            if Instant::now() >= limit {
                let reason = format!("topic `{}` does not show the request", self.topic);
                return Err(LogError::Away(reason));
            }
            self.read(Duration::from_millis(100));
        }
        Ok(())
    }
}
