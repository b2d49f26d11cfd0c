//! The sink: sends each recorded batch to a topic while the run goes on.
//!
//! The producer is idempotent: the broker stores each record once, whatever is repeated. Memory is
//! bounded; records beyond it are left out and counted. A broker that is away stops nothing: its
//! records time out, are counted, and `fluxline ship` sends them from the files.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fluxline_daq::event::EventBatch;
use fluxline_daq::experiment::{Experiment, KafkaSink};
use fluxline_daq::formats;
use fluxline_daq::ledger::SinkCounters;
use fluxline_run::{BatchSink, Error};
use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, PurgeConfig, ThreadedProducer};

use crate::client::{TopicError, check_topic, config, headers, wrong_settings};
use crate::identity::{EVENTS_TYPE, RecordId, run_id};
use crate::pieces::{Piece, Pieces};
use crate::settings::Settings;

/// Wait at the end of a run for brokers that are all away.
const WAIT_FOR_NOBODY: Duration = Duration::from_secs(3);

/// Opens the sink of an experiment; `None` where it has none. Names the run in the experiment.
///
/// Errors: wrong settings, a topic that does not exist or cannot take records. A broker that does
/// not answer is a note, not an error.
pub fn open(experiment: &mut Experiment) -> Result<Option<Box<dyn BatchSink>>, Error> {
    let name = experiment.name.clone();
    let mut names = Vec::new();
    for source in &experiment.sources {
        let format = formats::load(&source.format, &source.parameters)?;
        names.push(format.description.name().to_owned());
    }
    names.sort();
    names.dedup();
    let Some(kafka) = &mut experiment.sink.kafka else { return Ok(None) };
    kafka.run_id.get_or_insert_with(new_run_id);
    let sink = EventSink::open(kafka, &name, &names)
        .map_err(|error| Error::Link(format!("[sink.kafka]: {error}.")))?;
    Ok(Some(Box::new(sink)))
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
    pieces: Pieces,
    topic: String,
    run: String,
    delivery_timeout: Duration,
}

/// Events of a record on its way.
pub struct Sent {
    events: u64,
    bytes: u64,
}

/// State that the client's thread and the recorder's share.
#[derive(Default)]
struct State {
    counters: SinkCounters,
    notes: Vec<String>,
    /// No broker could be reached since the last acknowledgement.
    all_down: bool,
}

impl State {
    fn note(&mut self, text: String) {
        /// More notes at a time are not kept: the run keeps each once.
        const NOTES_MAX: usize = 16;
        if self.notes.len() < NOTES_MAX && !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }
}

/// Takes the client's reports.
pub struct Deliveries {
    state: Arc<Mutex<State>>,
    brokers: String,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let counters = &mut state.counters;
        counters.queued = counters.queued.saturating_sub(sent.events);
        let Err((error, _)) = result else {
            counters.acked += sent.events;
            counters.records_acked += 1;
            counters.bytes_acked += sent.bytes;
            state.all_down = false;
            return;
        };
        match error.rdkafka_error_code() {
            Some(
                RDKafkaErrorCode::MessageTimedOut
                | RDKafkaErrorCode::PurgeQueue
                | RDKafkaErrorCode::PurgeInflight,
            ) => counters.timed_out += sent.events,
            _ => {
                counters.refused += sent.events;
                state.note(format!("Kafka at {} refused a record ({error})", self.brokers));
            }
        }
    }
}

impl EventSink {
    /// Opens a sink for a run of this name and these packet descriptions.
    pub fn open(
        kafka: &KafkaSink,
        run_name: &str,
        formats: &[String],
    ) -> Result<EventSink, TopicError> {
        let file = kafka.settings_file.as_deref();
        let settings = Settings::read(&kafka.brokers, &kafka.settings, file)
            .map_err(|text| TopicError::Settings(text.trim_end_matches('.').to_owned()))?;
        let state = Arc::new(Mutex::new(State::default()));
        let context = Deliveries { state: state.clone(), brokers: kafka.brokers.clone() };
        let producer: ThreadedProducer<Deliveries> = config(&settings)
            .set("enable.idempotence", "true")
            .set("linger.ms", "5")
            .set("batch.size", "1000000")
            .set("queue.buffering.max.kbytes", (kafka.memory_bytes >> 10).max(1).to_string())
            .set("message.max.bytes", message_bytes(kafka.record_bytes).to_string())
            .set("message.timeout.ms", kafka.delivery_timeout_ms.to_string())
            .create_with_context(context)
            .map_err(|error| wrong_settings(&error))?;
        match check_topic(producer.client(), &settings, &kafka.topic) {
            Ok(_) => {}
            Err(error @ TopicError::NoBroker { .. }) => lock(&state).note(format!(
                "{error}; recording goes on, and `fluxline ship` sends the rest later"
            )),
            Err(error) => return Err(error),
        }
        Ok(EventSink {
            producer,
            state,
            pieces: Pieces::new(run_name, formats, kafka.record_bytes as usize),
            topic: kafka.topic.clone(),
            run: kafka.run_id.clone().unwrap_or_else(new_run_id),
            delivery_timeout: Duration::from_millis(kafka.delivery_timeout_ms.into()),
        })
    }
}

/// Returns the largest message for records of `record_bytes`: with key, headers and framing.
pub(crate) fn message_bytes(record_bytes: u32) -> u32 {
    record_bytes.saturating_add(4096).min(1_000_000_000)
}

impl BatchSink for EventSink {
    fn take(&mut self, number: u64, batch: &EventBatch) {
        let EventSink { producer, state, pieces, topic, run, .. } = self;
        pieces.for_each(number, batch, |Piece { number: piece, events, stream }| {
            let mut shared = lock(state);
            shared.counters.offered += events;
            let Some(stream) = stream else {
                shared.counters.refused += events;
                shared.note(format!(
                    "an event of batch {number} is larger than a record of Kafka may be: it is in \
                     the files only; raise `record-bytes` under [sink.kafka]"
                ));
                return;
            };
            // The client's thread may report the delivery before `send` returns.
            shared.counters.queued += events;
            drop(shared);
            let key = RecordId { run: run.clone(), batch: number, piece }.to_string();
            let sent = Box::new(Sent { events, bytes: stream.len() as u64 });
            let record = BaseRecord::with_opaque_to(topic, sent)
                .key(&key)
                .payload(stream)
                .headers(headers(EVENTS_TYPE, events));
            if let Err((error, _)) = producer.send(record) {
                let mut shared = lock(state);
                shared.counters.queued -= events;
                match error.rdkafka_error_code() {
                    Some(RDKafkaErrorCode::QueueFull) => shared.counters.left_out += events,
                    _ => {
                        shared.counters.refused += events;
                        shared.note(format!("Kafka's client refused a record ({error})"));
                    }
                }
            }
        });
    }

    fn counters(&self) -> SinkCounters {
        lock(&self.state).counters.clone()
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut lock(&self.state).notes)
    }

    fn finish(&mut self) {
        let began = Instant::now();
        while self.producer.in_flight_count() > 0 {
            let all_down = lock(&self.state).all_down;
            let most = if all_down { WAIT_FOR_NOBODY } else { self.delivery_timeout };
            if began.elapsed() >= most {
                break;
            }
            let _ = self.producer.flush(Duration::from_millis(100)); // asked again
        }
        self.producer.purge(PurgeConfig::default().queue().inflight());
        let _ = self.producer.flush(Duration::from_secs(1)); // reports of what was purged
        let mut state = lock(&self.state);
        let counters = &mut state.counters;
        counters.timed_out += std::mem::take(&mut counters.queued);
        let (offered, acked) = (counters.offered, counters.acked);
        if acked < offered {
            state.note(format!(
                "{} of {offered} events were not acknowledged by Kafka: send them from the files \
                 with `fluxline ship RUN`",
                offered - acked
            ));
        }
    }
}
