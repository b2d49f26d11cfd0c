//! The sending of a run: each batch is a transaction under the run's name.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fluxline_daq::event::EventBatch;
use fluxline_daq::record::RunReader;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};

use super::destination::Destination;
use super::present::Present;
use super::{ShipError, ShipReport};
use crate::client::{
    TopicError, batch_bytes, check_topic, headers, producer_config, wrong_settings,
};
use crate::cut::{ContentType, Cut, Cutter};
use crate::ess::Schema;
use crate::identity::{RecordId, RunMark};
use crate::sink::message_bytes;
use crate::transaction::{TRANSACTION_WITHIN, cause_of, is_fenced, refusal_of};

/// Time without any progress after which shipping gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Age of a transaction after which the rest of its batch goes into another one. The brokers would
/// end a transaction that takes [`TRANSACTION_WITHIN`].
const BATCH_WITHIN: Duration = Duration::from_secs(10);

/// Records on their way to a topic.
pub struct Shipment {
    producer: ThreadedProducer<DefaultProducerContext>,
    run: PathBuf,
    /// The result so far.
    pub report: ShipReport,
    /// Records of the transaction that is open, and their bytes.
    open: Open,
}

/// Records of a transaction.
#[derive(Clone, Copy)]
struct Open {
    records: u64,
    bytes: u64,
    since: Instant,
}

impl Open {
    fn new() -> Open {
        Open { records: 0, bytes: 0, since: Instant::now() }
    }
}

/// A record to be sent.
#[derive(Clone, Copy)]
struct ToSend<'a> {
    topic: &'a str,
    key: &'a str,
    content: ContentType,
    /// The number of events that the record has alone.
    events: u64,
    bytes: &'a [u8],
}

impl Shipment {
    /// Opens the connection; ends another shipment of the run.
    pub fn open(to: &Destination, run: &Path) -> Result<Shipment, ShipError> {
        let record_bytes = message_bytes(to.record_bytes) as usize;
        let batch_bytes = batch_bytes(&to.settings, &to.topic, record_bytes);
        let producer: ThreadedProducer<DefaultProducerContext> = producer_config(&to.settings)
            .set("transactional.id", format!("fluxline-ship-{}-{}", to.topic, to.run_id))
            .set("queue.buffering.max.kbytes", "65536")
            .set("message.max.bytes", batch_bytes.to_string())
            .set("message.timeout.ms", TRANSACTION_WITHIN.as_millis().to_string())
            .set("transaction.timeout.ms", TRANSACTION_WITHIN.as_millis().to_string())
            .create()
            .map_err(|error| wrong_settings(&error))?;
        check_topic(producer.client(), &to.settings, &to.topic)?;
        let (run, report) = (run.to_path_buf(), ShipReport::default());
        let shipment = Shipment { producer, run, report, open: Open::new() };
        let began = shipment.producer.init_transactions(PATIENCE);
        began.map_err(|error| shipment.failed(&error))?;
        Ok(shipment)
    }

    fn begin(&mut self) -> Result<(), ShipError> {
        self.open = Open::new();
        self.producer.begin_transaction().map_err(|error| self.failed(&error))
    }

    /// Returns when the broker has acknowledged all records of the transaction.
    fn commit(&mut self) -> Result<(), ShipError> {
        self.producer.commit_transaction(PATIENCE).map_err(|error| self.failed(&error))?;
        self.report.sent += self.open.records;
        self.report.sent_bytes += self.open.bytes;
        Ok(())
    }

    fn failed(&self, error: &KafkaError) -> ShipError {
        if let Some(sentence) = refusal_of(error) {
            return TopicError::Transactions(sentence).into();
        }
        if is_fenced(error) && self.open.since.elapsed() > TRANSACTION_WITHIN {
            let seconds = TRANSACTION_WITHIN.as_secs();
            let reason = format!("it took longer than {seconds} s, and was ended");
            return self.unsent(reason, AGAIN);
        }
        match is_fenced(error) || self.is_taken_over(error) {
            true => ShipError::Fenced { run: self.run.clone() },
            false => self.unsent(error.to_string(), advice_on(error.rdkafka_error_code())),
        }
    }

    /// Returns true when another shipment began while this one committed. The broker may then call
    /// its own error an unknown one. An attempt to abort the transaction gets the cause.
    fn is_taken_over(&self, error: &KafkaError) -> bool {
        error.rdkafka_error_code() == Some(RDKafkaErrorCode::Unknown)
            && self.producer.abort_transaction(PATIENCE).is_err_and(|error| is_fenced(&error))
    }

    /// Sends what the topic lacks of all batches; returns the time at which the last event was
    /// closed \[ns since 1970\].
    pub fn batches(
        &mut self,
        reader: &mut RunReader,
        cutter: &mut Cutter,
        to: &Destination,
        present: &Present,
    ) -> Result<u64, ShipError> {
        let error = |text: &dyn std::fmt::Display| ShipError::Run(format!("{text}."));
        let mut batch = EventBatch::default();
        let mut last_ns = 0;
        while let Some(recorded) = reader.next_batch().map_err(|reason| error(&reason))? {
            batch.clear();
            recorded.append_to(&mut batch).map_err(|reason| error(&reason))?;
            let built = batch.events.iter().map(|event| event.built.as_ns());
            last_ns = built.max().unwrap_or(0).max(last_ns);
            self.begin()?;
            let mut failure = None;
            cutter.for_each(recorded.number(), &batch, |cut| {
                if failure.is_none() {
                    failure = self.cut(recorded.number(), &cut, to, present).err();
                }
            });
            if let Some(failure) = failure {
                return Err(failure);
            }
            self.commit()?;
        }
        Ok(last_ns)
    }

    /// Sends the records of a cut that the topic lacks.
    fn cut(
        &mut self,
        batch: u64,
        cut: &Cut<'_>,
        to: &Destination,
        present: &Present,
    ) -> Result<(), ShipError> {
        self.report.too_large += cut.too_large;
        self.report.unmapped += cut.unmapped;
        let before = self.report.present;
        for record in cut.records {
            if present.records.contains(&(batch, record.piece)) {
                self.report.present += 1;
                continue;
            }
            let id = RecordId { run: to.run_id.clone(), batch, piece: record.piece };
            let (key, content, events) = (id.to_string(), record.content, cut.events);
            let (topic, bytes) = (to.topic.as_str(), record.bytes);
            self.send(ToSend { topic, key: &key, content, events, bytes })?;
        }
        if self.report.present - before < cut.records.len() as u64 {
            self.report.events += cut.events;
        }
        Ok(())
    }

    /// Sends the message of the run's start or stop, unless the topic has it.
    pub fn mark(
        &mut self,
        to: &Destination,
        present: &Present,
        mark: RunMark,
        bytes: &[u8],
    ) -> Result<(), ShipError> {
        if present.marks.contains(&mark) {
            self.report.present += 1;
            return Ok(());
        }
        let schema = match mark {
            RunMark::Start => Schema::Pl72,
            RunMark::Stop => Schema::Stop6s4t,
        };
        let (topic, key) = (to.run_topic.as_str(), mark.key(&to.run_id));
        let content = ContentType::Ess(schema);
        self.begin()?;
        self.send(ToSend { topic, key: &key, content, events: 0, bytes })?;
        self.commit()
    }

    /// Sends a record; waits while the client's memory is full.
    fn send(&mut self, of: ToSend<'_>) -> Result<(), ShipError> {
        if self.open.records > 0 && self.open.since.elapsed() > BATCH_WITHIN {
            self.commit()?;
            self.begin()?;
        }
        self.open.records += 1;
        self.open.bytes += of.bytes.len() as u64;
        let headers = headers(of.content, of.events);
        let mut record = BaseRecord::to(of.topic).key(of.key).payload(of.bytes).headers(headers);
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err((error, _)) => return Err(self.failed(&cause_of(&self.producer, error))),
            }
        }
    }

    fn unsent(&self, reason: String, advice: &'static str) -> ShipError {
        ShipError::Unsent { run: self.run.clone(), unsent: self.open.records, reason, advice }
    }
}

/// The advice where nothing is wrong with the records.
const AGAIN: &str = "run the same command again when the broker is back: it sends the rest";

/// Returns the way to send the rest after this error.
fn advice_on(error: Option<RDKafkaErrorCode>) -> &'static str {
    match error {
        Some(RDKafkaErrorCode::MessageSizeTooLarge) => {
            "the topic takes no record of this size: raise its max.message.bytes above \
             `record-bytes`, and run the same command again: it sends the rest"
        }
        Some(RDKafkaErrorCode::InvalidRecord | RDKafkaErrorCode::PolicyViolation) => {
            "the topic does not take such records: correct its options, and run the same command \
             again: it sends the rest"
        }
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
            "the topic is gone: create it again, and run the same command again: it sends all"
        }
        _ => AGAIN,
    }
}
