//! The sink: sends each recorded batch to a topic while the run goes on.
//!
//! The producer is idempotent: the broker stores each record once, whatever is repeated. Memory is
//! bounded; records beyond it are left out and counted. A broker that is away stops nothing: its
//! records time out, are counted, and `fluxline ship` sends them from the files.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fluxline_daq::InputError;
use fluxline_daq::event::EventBatch;
use fluxline_daq::experiment::{Experiment, KafkaSink, SinkSchema};
use fluxline_daq::formats;
use fluxline_daq::ledger::SinkCounters;
use fluxline_daq::record::SourceLine;
use fluxline_run::{BatchSink, Error};
use rdkafka::admin::AdminClient;
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, PurgeConfig, ThreadedProducer};

use crate::client::{
    TopicError, batch_bytes, check_topic, config, headers, producer_config, wrong_settings,
};
use crate::cut::{ContentType, Cut, Cutter, misfit_note};
use crate::delivery::{Fate, Group, Sent, State, lock};
use crate::ess::{Formats, RunMessages, Schema};
use crate::identity::{RecordId, RunMark, run_id};
use crate::pieces::Pieces;
use crate::settings::Settings;

/// Wait at the end of a run for brokers that are all away.
const WAIT_FOR_NOBODY: Duration = Duration::from_secs(3);

/// Opens the sink of an experiment; `None` where it has none. Names the run in the experiment.
///
/// Errors: wrong settings, a topic that does not exist or cannot take records. A broker that does
/// not answer is a note, not an error.
pub fn open(experiment: &mut Experiment) -> Result<Option<Box<dyn BatchSink>>, Error> {
    let name = experiment.name.clone();
    let mut formats = Formats::default();
    for source in &experiment.sources {
        let format = formats::load(&source.format, &source.parameters)?;
        formats.add(format.description, &source.parameters);
    }
    let Some(kafka) = &mut experiment.sink.kafka else { return Ok(None) };
    kafka.run_id.get_or_insert_with(new_run_id);
    let sink_error = |error: &dyn std::fmt::Display| Error::Link(format!("[sink.kafka]: {error}."));
    let sink = match kafka.schema {
        SinkSchema::Arrow => {
            let mut names: Vec<_> =
                formats.descriptions().iter().map(|of| of.name().to_owned()).collect();
            names.sort();
            names.dedup();
            EventSink::open(kafka, &name, &names)
        }
        SinkSchema::Ess => {
            formats.check().map_err(|text| InputError::new(format!("[sink.kafka]: {text}.")))?;
            EventSink::open_ess(kafka, &name, formats)
        }
    };
    Ok(Some(Box::new(sink.map_err(|error| sink_error(&error))?)))
}

/// Returns a name for a run that begins now.
fn new_run_id() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    run_id(host.trim(), now.as_nanos() as u64)
}

/// A sink of events on a topic.
pub struct EventSink {
    producer: ThreadedProducer<Deliveries>,
    state: Arc<Mutex<State>>,
    cutter: Cutter,
    topic: String,
    run: String,
    marks: Option<Marks>,
    delivery_timeout: Duration,
}

/// The messages of the run's start and stop.
struct Marks {
    messages: RunMessages,
    topic: String,
    /// The start was sent.
    began: bool,
}

/// Takes the client's reports.
pub struct Deliveries {
    state: Arc<Mutex<State>>,
    brokers: String,
}

impl ClientContext for Deliveries {
    fn error(&self, error: KafkaError, reason: &str) {
        let mut state = lock(&self.state);
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::AllBrokersDown) => {
                state.all_down = true;
                state.note(format!(
                    "no Kafka broker answers at {}: recording goes on, and `fluxline ship` sends \
                     the rest later",
                    self.brokers
                ));
            }
            // Each attempt to connect reports one; the run only needs to know that all are away.
            Some(RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::Resolve) => {}
            _ => state.note(format!("Kafka at {}: {reason} ({error})", self.brokers)),
        }
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<Sent>;

    fn delivery(&self, result: &DeliveryResult<'_>, sent: Box<Sent>) {
        let mut state = lock(&self.state);
        let fate = match result.as_ref().map_err(|(error, _)| error) {
            Ok(_) => Fate::Acknowledged,
            Err(error) => match error.rdkafka_error_code() {
                Some(
                    RDKafkaErrorCode::MessageTimedOut
                    | RDKafkaErrorCode::PurgeQueue
                    | RDKafkaErrorCode::PurgeInflight,
                ) => Fate::TimedOut,
                _ => {
                    state.note(format!("Kafka at {} refused a record ({error})", self.brokers));
                    Fate::Refused
                }
            },
        };
        let (Sent::Events { bytes, .. } | Sent::Mark { bytes, .. }) = &*sent;
        if fate == Fate::Acknowledged {
            state.counters.records_acked += 1;
            state.counters.bytes_acked += bytes;
            state.all_down = false;
        }
        match *sent {
            Sent::Events { group, .. } => group.settle(&mut state, fate),
            Sent::Mark { name, .. } if fate != Fate::Acknowledged => state.note(mark_note(name)),
            Sent::Mark { .. } => {}
        }
    }
}

/// Returns a note on a message of start or stop that the topic lacks.
fn mark_note(name: &str) -> String {
    format!(
        "Kafka did not acknowledge the message of the run's {name}: `fluxline ship RUN` sends it"
    )
}

impl EventSink {
    /// Opens a sink for a run of this name and these packet descriptions.
    pub fn open(
        kafka: &KafkaSink,
        run_name: &str,
        formats: &[String],
    ) -> Result<EventSink, TopicError> {
        let pieces = Pieces::new(run_name, formats, kafka.record_bytes as usize);
        EventSink::with(kafka, Cutter::Arrow(Box::new(pieces)))
    }

    /// Opens a sink of messages in ESS schemas, for an experiment of this name.
    pub fn open_ess(
        kafka: &KafkaSink,
        experiment: &str,
        formats: Formats,
    ) -> Result<EventSink, TopicError> {
        let run = kafka.run_id.clone().unwrap_or_else(new_run_id);
        let messages = RunMessages::new(&run, experiment, &kafka.topic, formats.descriptions())
            .for_writer(&kafka.brokers, kafka.service_id.as_deref().unwrap_or_default());
        let topic = kafka.run_topic.clone().unwrap_or_else(|| kafka.topic.clone());
        let mut sink = EventSink::with(kafka, Cutter::ess(formats, kafka.record_bytes as usize))?;
        (sink.run, sink.marks) = (run, Some(Marks { messages, topic, began: false }));
        Ok(sink)
    }

    fn with(kafka: &KafkaSink, cutter: Cutter) -> Result<EventSink, TopicError> {
        let file = kafka.settings_file.as_deref();
        let settings = Settings::read(&kafka.brokers, &kafka.settings, file)
            .map_err(|text| TopicError::Settings(text.trim_end_matches('.').to_owned()))?;
        let state = Arc::new(Mutex::new(State::default()));
        let probe: AdminClient<DefaultClientContext> =
            config(&settings).create().map_err(|error| wrong_settings(&error))?;
        let record_bytes = message_bytes(kafka.record_bytes) as usize;
        let topics = std::iter::once(&kafka.topic).chain(&kafka.run_topic);
        let checked: Result<Vec<_>, _> =
            topics.map(|topic| check_topic(probe.inner(), &settings, topic)).collect();
        let batch_bytes = match checked {
            Ok(_) => batch_bytes(&settings, &kafka.topic, record_bytes),
            Err(error @ TopicError::NoBroker { .. }) => {
                lock(&state).note(format!(
                    "{error}; recording goes on, and `fluxline ship` sends the rest later"
                ));
                record_bytes
            }
            Err(error) => return Err(error),
        };
        let context = Deliveries { state: state.clone(), brokers: kafka.brokers.clone() };
        let producer: ThreadedProducer<Deliveries> = producer_config(&settings)
            .set("queue.buffering.max.kbytes", (kafka.memory_bytes >> 10).max(1).to_string())
            .set("message.max.bytes", batch_bytes.to_string())
            .set("message.timeout.ms", kafka.delivery_timeout_ms.to_string())
            .create_with_context(context)
            .map_err(|error| wrong_settings(&error))?;
        Ok(EventSink {
            producer,
            state,
            cutter,
            topic: kafka.topic.clone(),
            run: kafka.run_id.clone().unwrap_or_else(new_run_id),
            marks: None,
            delivery_timeout: Duration::from_millis(kafka.delivery_timeout_ms.into()),
        })
    }

    /// Sends the message of the run's start or stop.
    fn send_mark(&mut self, mark: RunMark) {
        let Some(marks) = &mut self.marks else { return };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (schema, message) = match mark {
            RunMark::Start => (Schema::Pl72, marks.messages.start()),
            RunMark::Stop => (Schema::Stop6s4t, marks.messages.stop(now.as_nanos() as u64)),
        };
        let key = mark.key(&self.run);
        let sent = Box::new(Sent::Mark { name: mark.as_str(), bytes: message.len() as u64 });
        let record = BaseRecord::with_opaque_to(&marks.topic, sent)
            .key(&key)
            .payload(message)
            .headers(headers(ContentType::Ess(schema), 0));
        if self.producer.send(record).is_err() {
            lock(&self.state).note(mark_note(mark.as_str()));
        }
    }

    /// Waits until the fate of all records is known, or the time for it has passed.
    fn wait(&self) {
        let began = Instant::now();
        while self.producer.in_flight_count() > 0 {
            let all_down = lock(&self.state).all_down;
            let most = if all_down { WAIT_FOR_NOBODY } else { self.delivery_timeout };
            if began.elapsed() >= most {
                break;
            }
            let _ = self.producer.flush(Duration::from_millis(100)); // asked again
        }
    }
}

/// Returns the largest message for records of `record_bytes`: with key, headers and framing.
pub(crate) fn message_bytes(record_bytes: u32) -> u32 {
    record_bytes.saturating_add(4096).min(1_000_000_000)
}

/// The place of a run's records.
#[derive(Clone, Copy)]
struct Target<'a> {
    topic: &'a str,
    run: &'a str,
}

/// Sends the records of a cut of batch `number`; what the client does not take is counted at once.
fn send(
    producer: &ThreadedProducer<Deliveries>,
    state: &Mutex<State>,
    to: Target<'_>,
    number: u64,
    cut: &Cut<'_>,
) {
    let mut shared = lock(state);
    let counters = &mut shared.counters;
    counters.offered += cut.events + cut.too_large + cut.unmapped;
    counters.refused += cut.too_large;
    counters.unmapped += cut.unmapped;
    if cut.too_large > 0 {
        shared.note(format!(
            "an event of batch {number} is larger than a record of Kafka may be: it is in the \
             files only; raise `record-bytes` under [sink.kafka]"
        ));
    }
    if cut.records.is_empty() {
        return;
    }
    // The client's thread may report a delivery before `send` returns.
    let group = Group::queue(&mut shared, cut.events, cut.records.len());
    drop(shared);
    for record in cut.records {
        let (run, piece) = (to.run.to_owned(), record.piece);
        let key = RecordId { run, batch: number, piece }.to_string();
        let sent = Sent::Events { group: group.clone(), bytes: record.bytes.len() as u64 };
        let to_send = BaseRecord::with_opaque_to(to.topic, Box::new(sent))
            .key(&key)
            .payload(record.bytes)
            .headers(headers(record.content, cut.events));
        let Err((error, _)) = producer.send(to_send) else { continue };
        let mut shared = lock(state);
        let fate = match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::QueueFull) => Fate::LeftOut,
            _ => {
                shared.note(format!("Kafka's client refused a record ({error})"));
                Fate::Refused
            }
        };
        group.settle(&mut shared, fate);
    }
}

impl BatchSink for EventSink {
    fn begin(&mut self) {
        if let Some(marks) = &mut self.marks {
            marks.began = true;
        }
        self.send_mark(RunMark::Start);
    }

    fn add_source(&mut self, source: &SourceLine) {
        self.cutter.add_source(source);
    }

    fn take(&mut self, number: u64, batch: &EventBatch) {
        let EventSink { producer, state, cutter, topic, run, .. } = self;
        let to = Target { topic, run };
        cutter.for_each(number, batch, |cut| send(producer, state, to, number, &cut));
        let misfits = cutter.take_misfits();
        let mut shared = lock(state);
        for (name, count) in misfits {
            shared.counters.misfits += count;
            shared.misfits.entry(name).and_modify(|sum| *sum += count).or_insert(count);
        }
    }

    fn counters(&self) -> SinkCounters {
        lock(&self.state).counters.clone()
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut lock(&self.state).notes)
    }

    fn finish(&mut self) {
        self.wait();
        // The stop follows the last event.
        if self.marks.as_ref().is_some_and(|marks| marks.began) {
            self.send_mark(RunMark::Stop);
            self.wait();
        }
        self.producer.purge(PurgeConfig::default().queue().inflight());
        let _ = self.producer.flush(Duration::from_secs(1)); // reports of what was purged
        let mut state = lock(&self.state);
        for (name, count) in std::mem::take(&mut state.misfits) {
            state.note(misfit_note(&name, count));
        }
        let counters = &mut state.counters;
        counters.timed_out += std::mem::take(&mut counters.queued);
        let to_send = counters.offered - counters.unmapped;
        let acked = counters.acked;
        if acked < to_send {
            state.note(format!(
                "{} of {to_send} events were not acknowledged by Kafka: send them from the files \
                 with `fluxline ship RUN`",
                to_send - acked
            ));
        }
    }
}
