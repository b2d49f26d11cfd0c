//! Ships a run: sends the records that its topic lacks, from the files of the run.
//!
//! The topic itself shows what is there: its records' keys state run, batch and piece. So a run may
//! be shipped again after any interruption, and nothing is sent twice. Each batch is a transaction
//! under a name of the run: a second shipment of the run ends the first one.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fluxline_daq::event::EventBatch;
use fluxline_daq::experiment::SinkSchema;
use fluxline_daq::record::{Integrity, RunEnd, RunFolder, RunReader};
use fluxline_packet::Description;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::Value;

use crate::client::{
    ANSWER_WITHIN, TopicError, batch_bytes, check_topic, consumer_config, headers, is_fenced,
    producer_config, wrong_settings,
};
use crate::cut::{ContentType, Cut, Cutter, misfit_note};
use crate::ess::{Formats, RunMessages, Schema};
use crate::identity::{RecordId, RunMark, run_id_of};
use crate::pieces::Pieces;
use crate::reading::read_to_end;
use crate::settings::Settings;
use crate::sink::message_bytes;

/// Time before the run's beginning from which on its topic is searched: clocks may differ.
const SEARCH_BEFORE: Duration = Duration::from_secs(24 * 3600);

/// Time without any progress after which shipping gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The run to ship, and its destination where run.json does not state it.
#[derive(Clone, Debug, Default)]
pub struct ShipConfig {
    /// The folder of the run.
    pub run: PathBuf,
    /// Addresses of brokers; `None`: those of the experiment.
    pub brokers: Option<String>,
    /// The topic; `None`: that of the experiment.
    pub topic: Option<String>,
    /// The file with settings of the connection; `None`: that of the experiment.
    pub settings_file: Option<PathBuf>,
    /// The form of the records; `None`: that of the experiment, else Arrow IPC streams.
    pub schema: Option<SinkSchema>,
}

/// The result of shipping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShipReport {
    /// The run's name in the topic.
    pub run: String,
    /// The topic.
    pub topic: String,
    /// Records that were in the topic before.
    pub present: u64,
    /// Records sent now, and acknowledged.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Events in the records sent now.
    pub events: u64,
    /// Events that are larger than a record may be; they are in the files only.
    pub too_large: u64,
    /// Events without a value that the schema takes; they are in the files only.
    pub unmapped: u64,
    /// Records of other programs in the topic.
    pub foreign: u64,
    /// Sentences on values that do not fit into the schema.
    pub notes: Vec<String>,
}

/// The reason why a run could not be shipped.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// The run or its run.json cannot be used.
    #[error("{0}")]
    Run(String),
    /// The topic cannot be used.
    #[error("{0}.")]
    Topic(#[from] TopicError),
    /// Another shipment of the run began.
    #[error("another `fluxline ship` of {} began and sends the rest; this one has stopped, and \
        nothing is sent twice", .run.display())]
    Fenced {
        /// The run.
        run: PathBuf,
    },
    /// The broker went away, or refused records.
    #[error("a batch with {unsent} records of {} was not acknowledged ({reason}); run the same \
        command again when the broker is back: it sends the rest", .run.display())]
    Unsent {
        /// The run.
        run: PathBuf,
        /// Number of records without acknowledgement.
        unsent: u64,
        /// The reason.
        reason: String,
    },
}

/// The destination of a run.
struct Destination {
    settings: Settings,
    topic: String,
    /// The topic of the messages of start and stop.
    run_topic: String,
    service_id: String,
    schema: SinkSchema,
    run_id: String,
    name: String,
    formats: Vec<String>,
    record_bytes: u32,
    began_ns: u64,
    ended_ns: Option<u64>,
}

/// Sends the records that the topic lacks.
///
/// Returns when the broker has acknowledged all of them. Errors: [`ShipError`]; what was
/// acknowledged before stays, and another call sends the rest. Memory: the identities of the run's
/// records in the topic, 12 bytes each, and one batch. Cost: one read of the topic from a day
/// before the run on.
pub fn ship(ship: &ShipConfig) -> Result<ShipReport, ShipError> {
    let folder = RunFolder::open(&ship.run).map_err(|error| ShipError::Run(format!("{error}.")))?;
    let document = folder.read_run().map_err(|error| ShipError::Run(format!("{error}.")))?;
    let to = Destination::of(&folder, &document, ship)?;
    let mut reader =
        RunReader::open(&ship.run).map_err(|error| ShipError::Run(format!("{error}.")))?;
    if Integrity::of(&folder, reader.report()).end == RunEnd::Running {
        let run = ship.run.display();
        return Err(ShipError::Run(format!(
            "{run} is being recorded now; ship it when the run has ended."
        )));
    }
    let (mut cutter, mut marks) = to.cutter(&folder)?;
    // From here on, another shipment of the run can send nothing more.
    let mut shipment = Shipment::open(&to, &ship.run)?;
    let mut present = Present::find(&to, &to.topic)?;
    if to.run_topic != to.topic {
        present.marks = Present::find(&to, &to.run_topic)?.marks;
    }
    shipment.report = ShipReport {
        run: to.run_id.clone(),
        topic: to.topic.clone(),
        foreign: present.foreign,
        ..ShipReport::default()
    };
    if let Some(messages) = &mut marks {
        shipment.mark(&to, &present, RunMark::Start, messages.start())?;
    }
    let last_ns = shipment.batches(&mut reader, &mut cutter, &to, &present)?;
    if let Some(messages) = &mut marks {
        // The stop follows the last event.
        let ended_ns = to.ended_ns.unwrap_or(last_ns.max(to.began_ns));
        shipment.mark(&to, &present, RunMark::Stop, messages.stop(ended_ns))?;
    }
    let mut report = shipment.report;
    report.notes =
        cutter.take_misfits().iter().map(|(name, count)| misfit_note(name, *count)).collect();
    Ok(report)
}

impl Destination {
    fn of(
        folder: &RunFolder,
        document: &Value,
        ship: &ShipConfig,
    ) -> Result<Destination, ShipError> {
        let run = ship.run.display();
        let sink = &document["experiment"]["sink"]["kafka"];
        let text = |key: &str| sink[key].as_str().map(str::to_owned);
        let lacks = |what: &str| {
            ShipError::Run(format!(
                "{run} was recorded without [sink.kafka]; write --{what}, for example `fluxline \
                 ship {run} --brokers 10.0.0.5:9092 --topic experiment.events`."
            ))
        };
        let brokers = ship.brokers.clone().or(text("brokers")).ok_or_else(|| lacks("brokers"))?;
        let topic = ship.topic.clone().or(text("topic")).ok_or_else(|| lacks("topic"))?;
        let wrong = |text: String| ShipError::Run(text);
        fluxline_daq::experiment::check_brokers(&brokers).map_err(wrong)?;
        fluxline_daq::experiment::check_topic(&topic).map_err(wrong)?;
        let file = ship.settings_file.clone().or(text("settings-file").map(PathBuf::from));
        let options = serde_json::from_value(sink["settings"].clone()).unwrap_or_default();
        let settings = Settings::read(&brokers, &options, file.as_deref()).map_err(wrong)?;
        if document["experiment"]["cluster"].is_object() && Some(&topic) == text("topic").as_ref() {
            return Err(ShipError::Run(format!(
                "the builders sent the events of {run} to topic `{topic}` during the run; to send \
                 them to another topic, write --topic."
            )));
        }
        let run_id = run_id_of(document).ok_or_else(|| {
            ShipError::Run(format!("{run}/run.json does not state when the run began."))
        })?;
        let formats = folder.formats().unwrap_or_default();
        let of_run = serde_json::from_value(sink["schema"].clone()).unwrap_or_default();
        let schema = ship.schema.unwrap_or(of_run);
        if sink.is_object() && schema != of_run && Some(&topic) == text("topic").as_ref() {
            return Err(ShipError::Run(format!(
                "topic `{topic}` has records of {run} in another schema; write --topic with \
                 another topic, or leave --schema out."
            )));
        }
        let record_bytes = sink["record-bytes"].as_u64().and_then(|of| u32::try_from(of).ok());
        Ok(Destination {
            settings,
            run_topic: text("run-topic").unwrap_or_else(|| topic.clone()),
            service_id: text("service-id").unwrap_or_default(),
            schema,
            topic,
            run_id,
            name: document["experiment"]["name"].as_str().unwrap_or("run").to_owned(),
            formats,
            record_bytes: record_bytes.unwrap_or(512 << 10),
            began_ns: document["began_ns"].as_u64().unwrap_or(0),
            ended_ns: document["ended_ns"].as_u64(),
        })
    }

    /// Returns the cutter of the run's batches, and the messages of its start and stop.
    fn cutter(&self, folder: &RunFolder) -> Result<(Cutter, Option<RunMessages>), ShipError> {
        let bytes_max = self.record_bytes as usize;
        if self.schema == SinkSchema::Arrow {
            let pieces = Pieces::new(&self.name, &self.formats, bytes_max);
            return Ok((Cutter::Arrow(Box::new(pieces)), None));
        }
        let error = |text: &dyn std::fmt::Display| ShipError::Run(format!("{text}."));
        let lines = folder.sources().map_err(|reason| error(&reason))?;
        let mut formats = Formats::default();
        for line in &lines {
            if formats.of(line).is_some() {
                continue;
            }
            let text = folder.read_format(&line.format).map_err(|reason| error(&reason))?;
            let file = format!("formats/{}.toml", line.format);
            let loaded = Description::load(&file, &text, &line.parameters);
            formats.add(loaded.map_err(|reason| error(&reason))?, &line.parameters);
        }
        formats.check().map_err(|text| error(&text))?;
        let messages =
            RunMessages::new(&self.run_id, &self.name, &self.topic, formats.descriptions())
                .for_writer(&self.settings.brokers, &self.service_id);
        let mut cutter = Cutter::ess(formats, bytes_max);
        lines.iter().for_each(|line| cutter.add_source(line));
        Ok((cutter, Some(messages)))
    }
}

/// The records of a run that its topic has.
struct Present {
    records: HashSet<(u64, u32)>,
    marks: HashSet<RunMark>,
    foreign: u64,
}

impl Present {
    /// Reads the keys in the topic, from a day before the run to the present end.
    fn find(to: &Destination, topic: &str) -> Result<Present, ShipError> {
        let consumer: BaseConsumer = consumer_config(&to.settings)
            .set("group.id", "fluxline-ship")
            .set("isolation.level", "read_committed")
            .set("auto.offset.reset", "earliest")
            .create()
            .map_err(|error| wrong_settings(&error))?;
        let partitions = check_topic(consumer.client(), &to.settings, topic)?;
        let mut present = Present { records: HashSet::new(), marks: HashSet::new(), foreign: 0 };
        for partition in 0..partitions {
            present.read(&consumer, to, topic, partition as u32).map_err(|error| {
                ShipError::Run(format!(
                    "partition {partition} of topic `{topic}` cannot be read ({error}); nothing \
                     was sent.",
                ))
            })?;
        }
        Ok(present)
    }

    fn read(
        &mut self,
        consumer: &BaseConsumer,
        to: &Destination,
        topic: &str,
        partition: u32,
    ) -> Result<(), KafkaError> {
        // Without a record since then, there is nothing to read.
        let Some(start) = start_offset(consumer, to, topic, partition as i32)? else {
            return Ok(());
        };
        read_to_end(&to.settings, topic, partition, start as u64, |record| {
            self.note(to, record.key);
        })
    }

    fn note(&mut self, to: &Destination, key: &[u8]) {
        match RecordId::parse(key) {
            Some(id) if id.run == to.run_id => drop(self.records.insert((id.batch, id.piece))),
            Some(_) => {}
            None => match RunMark::parse(key) {
                Some((run, mark)) if run == to.run_id => drop(self.marks.insert(mark)),
                Some(_) => {}
                None => self.foreign += 1,
            },
        }
    }
}

/// Returns the offset of the first record from a day before the run on; `None`: there is none.
fn start_offset(
    consumer: &BaseConsumer,
    to: &Destination,
    topic: &str,
    partition: i32,
) -> Result<Option<i64>, KafkaError> {
    let before_ms = (to.began_ns / 1_000_000).saturating_sub(SEARCH_BEFORE.as_millis() as u64);
    let mut times = TopicPartitionList::new();
    times.add_partition_offset(topic, partition, Offset::Offset(before_ms as i64))?;
    let found = consumer.offsets_for_times(times, ANSWER_WITHIN)?;
    let found = found.find_partition(topic, partition).map(|its| its.offset());
    Ok(match found {
        Some(Offset::Offset(offset)) => Some(offset),
        _ => None,
    })
}

/// Records on their way to a topic.
struct Shipment {
    producer: ThreadedProducer<DefaultProducerContext>,
    run: PathBuf,
    report: ShipReport,
    /// Records of the transaction that is open, and their bytes.
    open: Open,
}

/// Records of a transaction.
#[derive(Clone, Copy, Default)]
struct Open {
    records: u64,
    bytes: u64,
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
    fn open(to: &Destination, run: &Path) -> Result<Shipment, ShipError> {
        let record_bytes = message_bytes(to.record_bytes) as usize;
        let batch_bytes = batch_bytes(&to.settings, &to.topic, record_bytes);
        let producer: ThreadedProducer<DefaultProducerContext> = producer_config(&to.settings)
            .set("transactional.id", format!("fluxline-ship-{}-{}", to.topic, to.run_id))
            .set("queue.buffering.max.kbytes", "65536")
            .set("message.max.bytes", batch_bytes.to_string())
            .set("message.timeout.ms", PATIENCE.as_millis().to_string())
            .create()
            .map_err(|error| wrong_settings(&error))?;
        check_topic(producer.client(), &to.settings, &to.topic)?;
        let (run, report) = (run.to_path_buf(), ShipReport::default());
        let shipment = Shipment { producer, run, report, open: Open::default() };
        let began = shipment.producer.init_transactions(PATIENCE);
        began.map_err(|error| shipment.failed(&error))?;
        Ok(shipment)
    }

    fn begin(&mut self) -> Result<(), ShipError> {
        self.open = Open::default();
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
        match is_fenced(error) {
            true => ShipError::Fenced { run: self.run.clone() },
            false => self.unsent(&error.to_string()),
        }
    }

    /// Sends what the topic lacks of all batches; returns the time at which the last event was
    /// closed \[ns since 1970\].
    fn batches(
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
                let shipped = self.cut(recorded.number(), &cut, to, present);
                failure = failure.take().or(shipped.err());
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
    fn mark(
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
                Err((error, _)) => return Err(self.failed(&error)),
            }
        }
    }

    fn unsent(&self, reason: &str) -> ShipError {
        let (run, reason) = (self.run.clone(), reason.to_owned());
        ShipError::Unsent { run, unsent: self.open.records, reason }
    }
}
