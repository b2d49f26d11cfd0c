//! The topic of `[sink.kafka]` in a cluster: its records, and the messages of start and stop.
//!
//! The builder of partition 0 sends both messages, each in one transaction with a control record
//! that states it. A builder that takes the partition over reads that record, so each message is
//! sent once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fluxline_daq::experiment::{Experiment, KafkaSink, SinkSchema};
use fluxline_daq::formats::LoadedFormat;
use fluxline_daq::record::SourceLine;
use fluxline_packet::Description;
use rdkafka::admin::AdminClient;
use rdkafka::client::DefaultClientContext;

use super::control::RunRecord;
use super::control_log::ControlLog;
use super::record::ControlRecord;
use crate::build::kafka::{KafkaLog, Marked};
use crate::build::{LogError, RunPlan, SinkOutput, SinkPlan};
use crate::client::{TopicError, check_topic, config, wrong_settings};
use crate::cut::ContentType;
use crate::ess::{Formats, RunMessages, Schema};
use crate::identity::{RunMark, cluster_run_id};
use crate::settings::Settings;

/// Time between two looks at the control topic.
const LOOK: Duration = Duration::from_millis(100);

/// The topic of `[sink.kafka]` in one run.
pub struct SinkTask {
    kafka: KafkaSink,
    /// The run's number.
    number: u64,
    /// The run's name in the topic.
    run: String,
    /// The experiment's name.
    name: String,
    descriptions: Vec<(Description, SourceLine)>,
}

/// Checks the sink of an experiment before a run begins.
///
/// Errors: a topic does not exist; a packet description does not map any packet.
pub fn check(
    settings: &Settings,
    experiment: &Experiment,
    loaded: &[LoadedFormat],
) -> Result<(), TopicError> {
    let Some(kafka) = &experiment.sink.kafka else { return Ok(()) };
    if kafka.schema == SinkSchema::Ess {
        let mut formats = Formats::default();
        for (source, format) in experiment.sources.iter().zip(loaded) {
            formats.add(format.description.clone(), &source.parameters);
        }
        formats.check().map_err(|text| TopicError::Settings(format!("[sink.kafka]: {text}")))?;
    }
    let probe: AdminClient<DefaultClientContext> =
        config(settings).create().map_err(|error| wrong_settings(&error))?;
    let mut topics = std::iter::once(&kafka.topic).chain(&kafka.run_topic);
    topics.try_for_each(|topic| check_topic(probe.inner(), settings, topic).map(drop))
}

impl SinkTask {
    /// Makes the task of a run; `None`: the experiment has no sink.
    pub fn of(
        experiment: &Experiment,
        loaded: &[LoadedFormat],
        inputs: &[SourceLine],
        run: &RunRecord,
    ) -> Option<SinkTask> {
        let kafka = experiment.sink.kafka.clone()?;
        let cluster = &experiment.cluster.as_ref()?.name;
        // The time comes last: messages of the start state it.
        let name = cluster_run_id(cluster, run.number(), run.begin.at_ns);
        let descriptions = loaded.iter().map(|format| format.description.clone());
        let descriptions = descriptions.zip(inputs.iter().cloned()).collect();
        let number = run.number();
        Some(SinkTask { kafka, number, run: name, name: experiment.name.clone(), descriptions })
    }

    /// Opens the topic, and makes the output of one partition.
    pub fn open(
        &self,
        log: &mut KafkaLog,
        plan: &RunPlan,
        inputs: &[SourceLine],
    ) -> Result<SinkOutput, TopicError> {
        let bytes_max = log.open_sink(&self.kafka.topic, self.kafka.record_bytes as usize)?;
        let plan = SinkPlan {
            run: self.run.clone(),
            name: self.name.clone(),
            partitions: plan.partitions,
            inputs: inputs.to_vec(),
        };
        Ok(SinkOutput::new(&self.kafka, plan, self.formats(), bytes_max))
    }

    fn formats(&self) -> Formats {
        let mut formats = Formats::default();
        for (description, line) in &self.descriptions {
            formats.add(description.clone(), &line.parameters);
        }
        formats
    }
}

/// Sends the messages of start and stop.
pub struct Marks {
    messages: RunMessages,
    control: ControlLog,
    topic: String,
    control_topic: String,
    /// The run's name in the topic.
    name: String,
    run: u64,
}

impl Marks {
    /// Reads the control topic, once this process owns the partition: the transactions of the owner
    /// before have ended. `None`: another partition sends the messages, or nobody does.
    ///
    /// Errors: [`TopicError`].
    pub fn open(
        sink: &SinkTask,
        settings: &Settings,
        cluster: &str,
        partition: u32,
    ) -> Result<Option<Marks>, TopicError> {
        let SinkTask { kafka, run, name, .. } = sink;
        if partition != 0 || kafka.schema != SinkSchema::Ess {
            return Ok(None);
        }
        let formats = sink.formats();
        let messages = RunMessages::new(run, name, &kafka.topic, formats.descriptions())
            .for_writer(&kafka.brokers, kafka.service_id.as_deref().unwrap_or_default());
        Ok(Some(Marks {
            messages,
            control: ControlLog::open(settings, cluster)?,
            topic: kafka.run_topic.clone().unwrap_or_else(|| kafka.topic.clone()),
            control_topic: format!("{cluster}.control"),
            name: run.clone(),
            run: sink.number,
        }))
    }

    /// Sends the message of the start, unless it is there.
    pub fn send_start(&mut self, log: &mut KafkaLog) -> Result<(), LogError> {
        let has_start = self.control.state().run(self.run).is_none_or(|run| run.has_start);
        if has_start {
            return Ok(());
        }
        let value = self.messages.start().to_vec();
        self.send(log, RunMark::Start, value)
    }

    /// Waits until all other partitions are built, and sends the message of the stop, unless it is
    /// there. Returns false when the process should stop before.
    pub fn send_stop(&mut self, log: &mut KafkaLog, stop: &AtomicBool) -> Result<bool, LogError> {
        loop {
            self.control.read(LOOK);
            let Some(run) = self.control.state().run(self.run) else { return Ok(true) };
            if run.has_stop || run.is_over() {
                return Ok(true);
            }
            if (1..run.partitions()).all(|partition| run.built.contains(&partition)) {
                break;
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let value = self.messages.stop(now.as_nanos() as u64).to_vec();
        self.send(log, RunMark::Stop, value).map(|()| true)
    }

    fn send(&self, log: &mut KafkaLog, mark: RunMark, value: Vec<u8>) -> Result<(), LogError> {
        let (schema, is_stop) = match mark {
            RunMark::Start => (Schema::Pl72, false),
            RunMark::Stop => (Schema::Stop6s4t, true),
        };
        let message = Marked {
            topic: &self.topic,
            key: mark.key(&self.name),
            content: Some(ContentType::Ess(schema)),
            value,
        };
        let state = Marked {
            topic: &self.control_topic,
            key: String::new(),
            content: None,
            value: ControlRecord::Marked { run: self.run, is_stop }.to_bytes(),
        };
        log.send_together(0, &[message, state])
    }
}
