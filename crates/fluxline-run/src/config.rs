//! From the experiment file to the configuration of builder, batches and recorder.

use std::path::{Path, PathBuf};

use fluxline_core::Span;
use fluxline_daq::builder::{BuilderConfig, Mode, Scope};
use fluxline_daq::experiment::{Build, Experiment, Source};
use fluxline_daq::formats::LoadedFormat;
use fluxline_daq::record::{
    Disk, EndReserve, Recorder, RecorderConfig, RunFolder, SourceLine, Storage,
};
use fluxline_packet::Description;
use fluxline_packet::layout::Fragment;

use crate::error::Error;
use crate::host;
use crate::readout::EventClock;
use crate::record::FileRecorder;
use crate::report::{self, RunEnding};

/// Makes the run folder and a recorder for it.
pub(crate) fn open_recorder(
    experiment: &Experiment,
    folder: Option<PathBuf>,
    loaded: &[LoadedFormat],
    node: Option<&str>,
    storage: Option<Box<dyn Storage + Send>>,
) -> Result<(FileRecorder, RunEnding), Error> {
    let folder = match folder {
        Some(path) => {
            make_parent(&path);
            RunFolder::create(&path)?
        }
        None => RunFolder::create_next(&experiment.runs)?,
    };
    for format in loaded {
        folder.write_format(format.description.name(), &format.text)?;
    }
    folder.write_run(&report::beginning(experiment, node))?;
    let reserve = EndReserve::take(&folder)?;
    let ending = RunEnding { reserve, folder: folder.clone(), node: node.map(str::to_owned) };
    let record = &experiment.record;
    let config =
        RecorderConfig { file_bytes: record.file_bytes, sync: record.sync, write: record.write };
    let storage = storage.unwrap_or_else(|| {
        let mut disk = Disk::new(config.write);
        disk.measure_with(fluxline::clock::now);
        Box::new(disk)
    });
    let mut recorder = Recorder::open_on(folder, config, storage);
    recorder.name_run(&experiment.name);
    Ok((recorder, ending))
}

fn make_parent(folder: &Path) {
    if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        let _ = std::fs::create_dir_all(parent); // the folder's own error has the better sentence
    }
}

/// Returns true when a description's packets have a part number or byte range within their event.
fn has_parts(description: &Description) -> bool {
    let types = description.packet_types();
    types.iter().any(|packet| packet.event.is_some() && !matches!(packet.fragment, Fragment::Whole))
}

fn mode_of(experiment: &Experiment, loaded: &[LoadedFormat]) -> Result<Mode, Error> {
    let events = &experiment.events;
    let has_event = |format: &LoadedFormat| {
        format.description.packet_types().iter().any(|packet| packet.event.is_some())
    };
    Ok(match events.build {
        Build::Auto if loaded.iter().any(|format| has_parts(&format.description)) => {
            Mode::Key(Scope::PerSource)
        }
        Build::Auto | Build::Packet => Mode::Packet,
        Build::Key | Build::Source if !loaded.iter().any(has_event) => {
            return Err(Error::input(
                "[events] build needs an event key, and no description has one: write an `event` \
                 role into the description, or build = \"packet\" or \"window\".",
            ));
        }
        Build::Key => Mode::Key(Scope::Global),
        Build::Source => Mode::Key(Scope::PerSource),
        Build::Window => Mode::Window {
            width: Span::from_ns(events.window_us.saturating_mul(1000)),
            lateness: Span::from_ns(events.lateness_us.saturating_mul(1000)),
            clock: events.window_clock,
        },
    })
}

/// Checks that the events under construction fit into this computer's memory: with less, the system
/// would end the whole run before an event is closed for want of room.
///
/// # Errors
/// A sentence.
pub fn check_memory(experiment: &Experiment) -> Result<(), Error> {
    let (wanted, memory) = (experiment.events.bytes_max, host::memory());
    match memory.filter(|memory| wanted > *memory) {
        None => Ok(()),
        Some(memory) => Err(Error::input(format_args!(
            "[events] bytes-max = {wanted} is more than the memory of this computer, {memory} \
             bytes; write at most half of it, {}.",
            memory / 2
        ))),
    }
}

/// Returns the configuration of an experiment's builder.
///
/// # Errors
/// The descriptions do not have what `[events]` needs.
pub fn builder_config(
    experiment: &Experiment,
    loaded: &[LoadedFormat],
) -> Result<BuilderConfig, Error> {
    let events = &experiment.events;
    Ok(BuilderConfig {
        mode: mode_of(experiment, loaded)?,
        expectation: events.require.clone(),
        late: events.late,
        time_out: Span::from_ms(events.timeout_ms),
        lag_max: Span::from_ms(events.lag_max_ms),
        lateness: Span::from_ms(events.jitter_ms),
        settling: match experiment.sources.iter().all(Source::is_file) {
            true => Span::ZERO, // files are read on demand: no source appears unexpectedly
            false => BuilderConfig::default().settling,
        },
        events_open_max: events.open_max,
        bytes_open_max: events.bytes_max,
        batch_bytes: experiment.record.batch_bytes as usize,
        batch_age: Span::from_ms(experiment.record.batch_ms),
        ..BuilderConfig::default()
    })
}

/// Returns the clock that closes events: files alone run on the time in them.
pub(crate) fn event_clock(experiment: &Experiment) -> EventClock {
    match experiment.sources.iter().all(Source::is_file) {
        true => EventClock::Data,
        false => EventClock::Wall,
    }
}

/// Returns for each input the line that its sources share in `sources.jsonl`.
#[must_use]
pub fn source_lines(experiment: &Experiment, loaded: &[LoadedFormat]) -> Vec<SourceLine> {
    let pairs = experiment.sources.iter().zip(loaded);
    pairs
        .map(|(source, format)| SourceLine {
            source: 0,
            name: source.name.clone(),
            format: format.description.name().to_string(),
            parameters: source.parameters.clone(),
            port: None,
            details: serde_json::Map::from_iter([("input".into(), source.name.clone().into())]),
        })
        .collect()
}
