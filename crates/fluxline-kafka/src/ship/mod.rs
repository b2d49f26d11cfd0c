//! Ships a run: sends the records that its topic lacks, from the files of the run.
//!
//! The topic itself shows what is there: its records' keys state run, batch and piece. So a run may
//! be shipped again after any interruption, and nothing is sent twice. Each batch is a transaction
//! under a name of the run: a second shipment of the run ends the first one.

mod destination;
mod present;
mod shipment;

use std::path::PathBuf;

use fluxline_daq::experiment::SinkSchema;
use fluxline_daq::record::{Integrity, RunEnd, RunFolder, RunReader};

use crate::client::TopicError;
use crate::cut::misfit_note;
use crate::identity::RunMark;
use destination::Destination;
use present::Present;
use shipment::Shipment;

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
    /// Values that do not fit into the schema; they are in the files only.
    pub misfits: u64,
    /// Records of other programs in the topic.
    pub foreign: u64,
    /// Sentences on values that do not fit into the schema.
    pub notes: Vec<String>,
    /// The files of the run, compared with run.json. The readable part of damaged files was sent.
    pub integrity: Integrity,
}

/// The reason why a run could not be shipped.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// The run or its run.json cannot be used.
    #[error("{0}")]
    Run(String),
    /// Files of the run that every record needs are missing or damaged: nothing was sent.
    #[error("{0}")]
    Files(String),
    /// The topic cannot be used.
    #[error("{0}.")]
    Topic(#[from] TopicError),
    /// The records in the topic cannot be read.
    #[error(
        "partition {partition} of topic `{topic}` cannot be read ({reason}); nothing was sent: \
        check that the brokers run, and try again in a minute, when the transactions of killed \
        programs have ended"
    )]
    Unread {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// The reason.
        reason: String,
    },
    /// Another shipment of the run began.
    #[error("another `fluxline ship` of {} began and sends the rest; this one has stopped, and \
        nothing is sent twice", .run.display())]
    Fenced {
        /// The run.
        run: PathBuf,
    },
    /// The broker went away, or refused records.
    #[error("a batch with {unsent} records of {} was not acknowledged ({reason}); {advice}",
        .run.display())]
    Unsent {
        /// The run.
        run: PathBuf,
        /// Number of records without acknowledgement.
        unsent: u64,
        /// The reason.
        reason: String,
        /// The way to send the rest.
        advice: &'static str,
    },
}

/// Sends the records that the topic lacks.
///
/// Returns when the broker has acknowledged all of them; of damaged files, those of the readable
/// batches ([`ShipReport::integrity`]). Errors: [`ShipError`]; what was acknowledged before stays,
/// and another call sends the rest. Memory: the identities of the run's
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
    report.integrity = Integrity::of(&folder, reader.report());
    let misfits = cutter.take_misfits();
    report.misfits = misfits.iter().map(|of| of.1).sum();
    report.notes = misfits.iter().map(|(name, count)| misfit_note(name, *count)).collect();
    Ok(report)
}
