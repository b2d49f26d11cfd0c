//! The sink: sends each recorded batch to a topic while the run goes on.
//!
//! The producer is idempotent: the broker stores each record once, whatever is repeated. Records
//! wait in a queue of ours (`feeder`). Memory is bounded; records beyond it are left out and
//! counted. A broker that is away stops nothing: its records time out, are counted, and
//! `fluxline ship` sends them from the files.

mod deliveries;

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
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::ThreadedProducer;

pub use deliveries::Deliveries;
use deliveries::lose_mark;

use crate::client::{
    TopicError, batch_bytes, check_topic, config, headers, producer_config, wrong_settings,
};
use crate::cut::{ContentType, Cut, Cutter, misfit_note};
use crate::delivery::{Fate, Group, Rest, Sent, State, lock};
use crate::ess::{Formats, RunMessages, Schema};
use crate::feeder::{Feeder, Queue, Waiting};
use crate::identity::{RecordId, RunMark, run_id};
use crate::lasting::Lasting;
use crate::pieces::Pieces;
use crate::settings::Settings;
use crate::window::{Limits, records_of_batch};

/// The client's option: number of records that are sent at once.
const BATCH_RECORDS: &str = "batch.num.messages";
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
    let rest = if experiment.record.enabled { Rest::InFiles } else { Rest::Lost };
    let Some(kafka) = &mut experiment.sink.kafka else { return Ok(None) };
    kafka.run_id.get_or_insert_with(new_run_id);
    let sink_error = |error: &dyn std::fmt::Display| Error::Link(format!("[sink.kafka]: {error}."));
    let sink = match kafka.schema {
        SinkSchema::Arrow => {
            let mut names: Vec<_> =
                formats.descriptions().iter().map(|of| of.name().to_owned()).collect();
            names.sort();
            names.dedup();
            EventSink::arrow(kafka, &name, &names, rest)
        }
        SinkSchema::Ess => {
            formats.check().map_err(|text| InputError::new(format!("[sink.kafka]: {text}.")))?;
            EventSink::ess(kafka, &name, formats, rest)
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
    feeder: Feeder<Deliveries>,
    state: Arc<Mutex<State>>,
    cutter: Cutter,
    topic: Arc<str>,
    run: String,
    marks: Option<Marks>,
    delivery_timeout: Duration,
}

/// The messages of the run's start and stop.
struct Marks {
    messages: RunMessages,
    topic: Arc<str>,
    /// The start was sent.
    began: bool,
}

impl EventSink {
    fn arrow(
        kafka: &KafkaSink,
        run_name: &str,
        formats: &[String],
        rest: Rest,
    ) -> Result<EventSink, TopicError> {
        let pieces = Pieces::new(run_name, formats, kafka.record_bytes as usize);
        EventSink::with(kafka, Cutter::Arrow(Box::new(pieces)), rest)
    }

    fn ess(
        kafka: &KafkaSink,
        experiment: &str,
        formats: Formats,
        rest: Rest,
    ) -> Result<EventSink, TopicError> {
        let run = kafka.run_id.clone().unwrap_or_else(new_run_id);
        let messages = RunMessages::new(&run, experiment, &kafka.topic, formats.descriptions())
            .for_writer(&kafka.brokers, kafka.service_id.as_deref().unwrap_or_default());
        let topic = kafka.run_topic.as_ref().unwrap_or(&kafka.topic).as_str().into();
        let cutter = Cutter::ess(formats, kafka.record_bytes as usize);
        let mut sink = EventSink::with(kafka, cutter, rest)?;
        (sink.run, sink.marks) = (run, Some(Marks { messages, topic, began: false }));
        Ok(sink)
    }

    fn with(kafka: &KafkaSink, cutter: Cutter, rest: Rest) -> Result<EventSink, TopicError> {
        let file = kafka.settings_file.as_deref();
        let settings = Settings::read(&kafka.brokers, &kafka.settings, file)
            .map_err(|text| TopicError::Settings(text.trim_end_matches('.').to_owned()))?;
        let state = Arc::new(Mutex::new(State { rest, ..State::default() }));
        let probe: AdminClient<DefaultClientContext> =
            config(&settings).create().map_err(|error| wrong_settings(&error))?;
        let message_bytes = message_bytes(kafka.record_bytes) as usize;
        let topics = std::iter::once(&kafka.topic).chain(&kafka.run_topic);
        let checked: Result<Vec<_>, _> =
            topics.map(|topic| check_topic(probe.inner(), &settings, topic)).collect();
        let (partitions, batch_bytes) = match checked {
            Ok(partitions) => (partitions[0], batch_bytes(&settings, &kafka.topic, message_bytes)),
            Err(error @ TopicError::NoBroker { .. }) => {
                lock(&state).note(format!("{error}; {}", rest.words()));
                (1, message_bytes)
            }
            Err(error) => return Err(error),
        };
        // Pieces of a batch have nearly the largest size, so a number of them is one request.
        let records = match cutter {
            Cutter::Arrow(_) => Some(records_of_batch(batch_bytes, kafka.record_bytes as usize)),
            Cutter::Ess(..) => None,
        };
        let limits = match records {
            Some(records) => Limits::of_requests(batch_bytes, records),
            None => Limits::of_bytes(batch_bytes),
        };
        let queue = Arc::new(Queue::new(limits));
        queue.window.set_partitions(partitions);
        let brokers = kafka.brokers.clone();
        let context = Deliveries { state: state.clone(), queue, brokers };
        let mut client = producer_config(&settings);
        if let Some(records) = records.filter(|_| !settings.options.contains_key(BATCH_RECORDS)) {
            client.set(BATCH_RECORDS, records.to_string());
        }
        let producer: ThreadedProducer<Deliveries> = client
            .set("queue.buffering.max.kbytes", (kafka.memory_bytes >> 10).max(1).to_string())
            .set("message.max.bytes", batch_bytes.to_string())
            .set("message.timeout.ms", kafka.delivery_timeout_ms.to_string())
            .create_with_context(context)
            .map_err(|error| wrong_settings(&error))?;
        let delivery_timeout = Duration::from_millis(kafka.delivery_timeout_ms.into());
        let memory_bytes = usize::try_from(kafka.memory_bytes).unwrap_or(usize::MAX);
        Ok(EventSink {
            feeder: Feeder::start(
                Lasting::new(producer, &settings, &kafka.topic),
                memory_bytes,
                delivery_timeout,
            ),
            state,
            cutter,
            topic: kafka.topic.as_str().into(),
            run: kafka.run_id.clone().unwrap_or_else(new_run_id),
            marks: None,
            delivery_timeout,
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
        let record = Waiting {
            topic: marks.topic.clone(),
            key: mark.key(&self.run),
            value: message.to_vec(),
            headers: headers(ContentType::Ess(schema), 0),
            sent: Box::new(Sent::Mark { name: mark.as_str(), bytes: message.len() as u64 }),
        };
        // The client's thread may report the fate before `send` returns.
        lock(&self.state).marks_waiting += 1;
        if self.feeder.send(record).is_err() {
            let mut state = lock(&self.state);
            state.marks_waiting -= 1;
            lose_mark(&mut state, mark.as_str());
        }
    }

    /// Waits until the fate of all records is known, or the time for it has passed.
    fn wait(&self) {
        let began = Instant::now();
        while self.feeder.pending() > 0 {
            let all_down = lock(&self.state).all_down;
            let most = if all_down { WAIT_FOR_NOBODY } else { self.delivery_timeout };
            if began.elapsed() >= most {
                break;
            }
            self.feeder.flush(Duration::from_millis(100));
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
    topic: &'a Arc<str>,
    run: &'a str,
}

/// Sends the records of a cut of batch `number`; what the client does not take is counted at once.
fn send(
    feeder: &Feeder<Deliveries>,
    state: &Mutex<State>,
    to: Target<'_>,
    number: u64,
    cut: &Cut<'_>,
) {
    let mut shared = lock(state);
    let counters = &mut shared.counters;
    counters.offered += cut.events + cut.too_large + cut.unmapped;
    counters.too_large += cut.too_large;
    counters.unmapped += cut.unmapped;
    if cut.too_large > 0 {
        shared.note(format!(
            "an event of batch {number} is larger than a record of Kafka may be: the topic lacks \
             it; raise `record-bytes` under [sink.kafka]"
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
        let sent = Sent::Events { group: group.clone(), bytes: record.bytes.len() as u64 };
        let to_send = Waiting {
            topic: to.topic.clone(),
            key: RecordId { run, batch: number, piece }.to_string(),
            value: record.bytes.to_vec(),
            headers: headers(record.content, cut.events),
            sent: Box::new(sent),
        };
        if feeder.send(to_send).is_err() {
            group.settle(&mut lock(state), Fate::LeftOut);
        }
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
        let EventSink { feeder, state, cutter, topic, run, .. } = self;
        let to = Target { topic, run };
        cutter.for_each(number, batch, |cut| send(feeder, state, to, number, &cut));
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
        self.feeder.purge();
        let state = &mut *lock(&self.state);
        for (name, count) in std::mem::take(&mut state.misfits) {
            state.note(misfit_note(&name, count));
        }
        let counters = &mut state.counters;
        counters.timed_out += std::mem::take(&mut counters.queued);
        counters.marks_lost += std::mem::take(&mut state.marks_waiting);
        let to_send = counters.offered - counters.unmapped - counters.too_large;
        let acked = counters.acked;
        if acked < to_send {
            let remedy = match state.rest {
                Rest::InFiles => ": send them from the files with `fluxline ship RUN`",
                Rest::Lost => "; the run has no files that have them",
            };
            let lacking = to_send - acked;
            state.note(format!(
                "{lacking} of {to_send} events were not acknowledged by Kafka{remedy}"
            ));
        }
    }
}
