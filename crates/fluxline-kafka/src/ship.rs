//! Ships a run: sends the records that its topic lacks, from the files of the run.
//!
//! The topic itself shows what is there: its records' keys state run, batch and piece. So a run may
//! be shipped again after any interruption, and nothing is sent twice. Each batch is a transaction
//! under a name of the run: a second shipment of the run ends the first one.

use std::cell::Cell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fluxline_daq::event::EventBatch;
use fluxline_daq::record::{Integrity, RunEnd, RunFolder, RunReader};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::Value;

use crate::client::{
    ANSWER_WITHIN, TopicError, check_topic, config, headers, is_fenced, wrong_settings,
};
use crate::identity::{EVENTS_TYPE, RecordId, run_id_of};
use crate::pieces::Pieces;
use crate::reading::{Start, read_to_end};
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
    /// Records of other programs in the topic.
    pub foreign: u64,
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
    run_id: String,
    name: String,
    formats: Vec<String>,
    record_bytes: u32,
    began_ns: u64,
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
    // From here on, another shipment of the run can send nothing more.
    let shipment = Shipment::open(&to, &ship.run)?;
    let present = Present::find(&to)?;
    let mut report = ShipReport {
        run: to.run_id.clone(),
        topic: to.topic.clone(),
        foreign: present.foreign,
        ..ShipReport::default()
    };
    let mut pieces = Pieces::new(&to.name, &to.formats, to.record_bytes as usize);
    let mut batch = EventBatch::default();
    while let Some(recorded) =
        reader.next_batch().map_err(|error| ShipError::Run(format!("{error}.")))?
    {
        batch.clear();
        recorded.append_to(&mut batch).map_err(|error| ShipError::Run(format!("{error}.")))?;
        let number = recorded.number();
        let mut failure = shipment.begin().err();
        pieces.for_each(number, &batch, |piece| {
            if present.records.contains(&(number, piece.number)) {
                report.present += 1;
            } else if let Some(stream) = piece.stream {
                let id = RecordId { run: to.run_id.clone(), batch: number, piece: piece.number };
                report.events += piece.events;
                report.sent += 1;
                report.sent_bytes += stream.len() as u64;
                if failure.is_none() {
                    failure = shipment.send(&id, piece.events, stream).err();
                }
            } else {
                report.too_large += piece.events;
            }
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        shipment.commit()?;
    }
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
        let run_id = run_id_of(document).ok_or_else(|| {
            ShipError::Run(format!("{run}/run.json does not state when the run began."))
        })?;
        let formats = folder.formats().unwrap_or_default();
        let record_bytes = sink["record-bytes"].as_u64().and_then(|of| u32::try_from(of).ok());
        Ok(Destination {
            settings,
            topic,
            run_id,
            name: document["experiment"]["name"].as_str().unwrap_or("run").to_owned(),
            formats,
            record_bytes: record_bytes.unwrap_or(512 << 10),
            began_ns: document["began_ns"].as_u64().unwrap_or(0),
        })
    }
}

/// The records of a run that its topic has.
struct Present {
    records: HashSet<(u64, u32)>,
    foreign: u64,
}

impl Present {
    /// Reads the keys in the topic, from a day before the run to the present end.
    fn find(to: &Destination) -> Result<Present, ShipError> {
        let consumer: BaseConsumer = config(&to.settings)
            .set("group.id", "fluxline-ship")
            .set("enable.auto.commit", "false")
            .set("isolation.level", "read_committed")
            .set("auto.offset.reset", "earliest")
            .create()
            .map_err(|error| wrong_settings(&error))?;
        let partitions = check_topic(consumer.client(), &to.settings, &to.topic)?;
        let mut present = Present { records: HashSet::new(), foreign: 0 };
        for partition in 0..partitions {
            present.read(&consumer, to, partition as u32).map_err(|error| {
                ShipError::Run(format!(
                    "partition {partition} of topic `{}` cannot be read ({error}); nothing was \
                     sent.",
                    to.topic
                ))
            })?;
        }
        Ok(present)
    }

    fn read(
        &mut self,
        consumer: &BaseConsumer,
        to: &Destination,
        partition: u32,
    ) -> Result<(), KafkaError> {
        // Without a record since then, there is nothing to read.
        let Some(start) = start_offset(consumer, to, partition as i32)? else { return Ok(()) };
        let start = Start { partition, offset: start as u64 };
        read_to_end(&to.settings, &to.topic, start, |record| {
            self.note(to, record.key);
        })
    }

    fn note(&mut self, to: &Destination, key: &[u8]) {
        match RecordId::parse(key) {
            Some(id) if id.run == to.run_id => drop(self.records.insert((id.batch, id.piece))),
            Some(_) => {}
            None => self.foreign += 1,
        }
    }
}

/// Returns the offset of the first record from a day before the run on; `None`: there is none.
fn start_offset(
    consumer: &BaseConsumer,
    to: &Destination,
    partition: i32,
) -> Result<Option<i64>, KafkaError> {
    let before_ms = (to.began_ns / 1_000_000).saturating_sub(SEARCH_BEFORE.as_millis() as u64);
    let mut times = TopicPartitionList::new();
    times.add_partition_offset(&to.topic, partition, Offset::Offset(before_ms as i64))?;
    let found = consumer.offsets_for_times(times, ANSWER_WITHIN)?;
    let found = found.find_partition(&to.topic, partition).map(|its| its.offset());
    Ok(match found {
        Some(Offset::Offset(offset)) => Some(offset),
        _ => None,
    })
}

/// Records on their way to a topic.
struct Shipment {
    producer: ThreadedProducer<DefaultProducerContext>,
    topic: String,
    run: PathBuf,
    /// Records of the batch that is being sent.
    open: Cell<u64>,
}

impl Shipment {
    fn open(to: &Destination, run: &Path) -> Result<Shipment, ShipError> {
        let producer: ThreadedProducer<DefaultProducerContext> = config(&to.settings)
            .set("transactional.id", format!("fluxline-ship-{}-{}", to.topic, to.run_id))
            .set("linger.ms", "5")
            .set("batch.size", "1000000")
            .set("queue.buffering.max.kbytes", "65536")
            .set("message.max.bytes", message_bytes(to.record_bytes).to_string())
            .set("message.timeout.ms", PATIENCE.as_millis().to_string())
            .create()
            .map_err(|error| wrong_settings(&error))?;
        check_topic(producer.client(), &to.settings, &to.topic)?;
        let (topic, run) = (to.topic.clone(), run.to_path_buf());
        let shipment = Shipment { producer, topic, run, open: Cell::new(0) };
        let began = shipment.producer.init_transactions(PATIENCE);
        began.map_err(|error| shipment.failed(&error))?;
        Ok(shipment)
    }

    fn begin(&self) -> Result<(), ShipError> {
        self.open.set(0);
        self.producer.begin_transaction().map_err(|error| self.failed(&error))
    }

    /// Returns when the broker has acknowledged all records of the batch.
    fn commit(&self) -> Result<(), ShipError> {
        self.producer.commit_transaction(PATIENCE).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &KafkaError) -> ShipError {
        match is_fenced(error) {
            true => ShipError::Fenced { run: self.run.clone() },
            false => self.unsent(&error.to_string()),
        }
    }

    /// Sends a record; waits while the client's memory is full.
    fn send(&self, id: &RecordId, events: u64, stream: &[u8]) -> Result<(), ShipError> {
        let key = id.to_string();
        self.open.set(self.open.get() + 1);
        let mut record = BaseRecord::to(&self.topic)
            .key(&key)
            .payload(stream)
            .headers(headers(EVENTS_TYPE, events));
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
        ShipError::Unsent { run, unsent: self.open.get(), reason }
    }
}
