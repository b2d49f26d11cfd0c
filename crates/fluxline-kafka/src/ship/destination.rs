//! The destination of a run: the topic and schema that its experiment or the command line states.

use std::path::PathBuf;

use fluxline_daq::experiment::SinkSchema;
use fluxline_daq::record::{FolderError, ReadError, RunFolder, RunReader};
use fluxline_packet::Description;
use serde_json::Value;

use super::{ShipConfig, ShipError};
use crate::cut::Cutter;
use crate::ess::{Formats, RunMessages};
use crate::identity::run_id_of;
use crate::pieces::Pieces;
use crate::settings::Settings;

/// The destination of a run.
pub struct Destination {
    /// The connection.
    pub settings: Settings,
    /// The topic of events.
    pub topic: String,
    /// The topic of the messages of start and stop.
    pub run_topic: String,
    /// The service in the messages of start and stop.
    pub service_id: String,
    /// The form of the records.
    pub schema: SinkSchema,
    /// The run's name in the topic.
    pub run_id: String,
    /// The experiment's name.
    pub name: String,
    /// Names of the packet descriptions.
    pub formats: Vec<String>,
    /// The largest record \[byte\].
    pub record_bytes: u32,
    /// The beginning of the run \[ns since 1970\].
    pub began_ns: u64,
    /// Its end, where it is known.
    pub ended_ns: Option<u64>,
}

impl Destination {
    /// Finds the destination in the arguments, and else in run.json. Errors: neither states it.
    pub fn of(
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
        // A run without --node on one machine has the table [cluster], too.
        let is_of_builders = document["gathered"].is_object() || document["partition"].is_object();
        if is_of_builders && Some(&topic) == text("topic").as_ref() {
            return Err(ShipError::Run(format!(
                "the builders sent the events of {run} to topic `{topic}` during the run; to send \
                 them to another topic, write --topic."
            )));
        }
        let run_id = run_id_of(document).ok_or_else(|| {
            ShipError::Run(format!("{run}/run.json does not state when the run began."))
        })?;
        let formats = folder.formats().map_err(|error| unreadable(folder, &error))?;
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
    pub fn cutter(&self, folder: &RunFolder) -> Result<(Cutter, Option<RunMessages>), ShipError> {
        let bytes_max = self.record_bytes as usize;
        if self.schema == SinkSchema::Arrow {
            let pieces = Pieces::new(&self.name, &self.formats, bytes_max);
            return Ok((Cutter::Arrow(Box::new(pieces)), None));
        }
        let error = |text: &dyn std::fmt::Display| ShipError::Run(format!("{text}."));
        let lines = folder.sources().map_err(|error| unreadable(folder, &error))?;
        if lines.is_empty() && has_packets(folder)? {
            return Err(ShipError::Files(format!(
                "{} has no source in sources.jsonl, so nobody knows how to read its packets; \
                 restore the file from a copy.",
                folder.path().display()
            )));
        }
        let mut formats = Formats::default();
        for line in &lines {
            if formats.of(line).is_some() {
                continue;
            }
            let text =
                folder.read_format(&line.format).map_err(|error| unreadable(folder, &error))?;
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

fn unreadable(folder: &RunFolder, error: &FolderError) -> ShipError {
    ShipError::Files(format!(
        "the packet descriptions or the sources of {} cannot be read ({error}); nothing was sent.",
        folder.path().display()
    ))
}

/// Returns true when a batch of the run has packets.
fn has_packets(folder: &RunFolder) -> Result<bool, ShipError> {
    let error = |reason: &ReadError| ShipError::Run(format!("{reason}."));
    let mut reader = RunReader::open(folder.path()).map_err(|reason| error(&reason))?;
    while reader.report().packets == 0 {
        if reader.next_batch().map_err(|reason| error(&reason))?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}
