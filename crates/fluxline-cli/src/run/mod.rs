//! A run: inputs, readout and recorder, each in its thread; how it begins and how it ends.
//!
//! Everything that can fail at the start fails before the run folder is made. At the end inputs
//! stop first, then the readout drains their rings, then the recorder its queue: what was received
//! is in the files, and the ledger is closed over all of them.

mod end;
mod file;
mod held;
mod input;
mod limits;
mod live;
mod push;
mod readout;
mod record;
mod report;
mod ring;
mod roce;
mod roce_push;
mod sensors;
mod sensors_roce;
mod shared;
mod silence;
mod stop;
mod verdict;
mod window;

use std::path::PathBuf;
use std::thread::JoinHandle;

use fluxline::kernel::KernelSnapshot;
use fluxline_core::Span;
use fluxline_daq::acquisition::Acquisition;
use fluxline_daq::builder::{BuilderConfig, Expectation, Late, Mode, Scope, WindowClock};
use fluxline_daq::readout::ReadoutLimits;
use fluxline_daq::record::{Recorder, RecorderConfig, RunFolder, SourceLine, Sync, WriteMode};
use fluxline_packet::Description;
use fluxline_packet::layout::Fragment;

use crate::experiment::{self, Build, Experiment, LateWord, Require, Source, SyncWord};
use crate::failure::Failure;
use crate::formats::{self, LoadedFormat};
use crate::host;

use end::InputEnd;
use input::OpenInput;
pub use live::Live;
use readout::{EventClock, Readout};
pub use report::RunReport;
use ring::Ring;
pub use sensors::{Sensors, SensorsTruth};
pub use sensors_roce::{RoceSensors, RoceSensorsConfig};
pub use stop::Stop;
pub use verdict::check_accept;

/// What to run.
pub struct RunRequest {
    /// The experiment.
    pub experiment: Experiment,
    /// The run's folder; `None`: the next number in the experiment's `runs`.
    pub folder: Option<PathBuf>,
    /// Whether to show nothing while it runs.
    pub quiet: bool,
}

/// Runs an experiment to its end.
pub fn run(request: RunRequest) -> Result<RunReport, Failure> {
    let RunRequest { experiment, folder, quiet } = request;
    let resident = host::resident();
    let stop = Stop::on_signal();
    let loaded: Vec<LoadedFormat> = experiment
        .sources
        .iter()
        .map(|source| formats::load(&source.format, &source.parameters))
        .collect::<Result<_, _>>()?;
    let (inputs, rings) = open_inputs(&experiment, &loaded)?;
    let builder = builder_config(&experiment, &loaded)?;
    let recorder = match experiment.record.enabled {
        true => Some(open_recorder(&experiment, folder, &loaded)?),
        false => None,
    };
    let memory = report::Memory::of(&experiment, &inputs, &builder, resident);
    if !quiet {
        report::announce(&experiment, &inputs, recorder.as_ref(), &memory);
    }
    let run = Running { experiment, loaded, quiet, memory, stop };
    run.acquire(inputs, rings, recorder, builder)
}

fn open_inputs(
    experiment: &Experiment,
    loaded: &[LoadedFormat],
) -> Result<(Vec<OpenInput>, Vec<Ring>), Failure> {
    let pairs = experiment.sources.iter().zip(loaded);
    let opened: Vec<_> =
        pairs.map(|(source, format)| OpenInput::open(source, format)).collect::<Result<_, _>>()?;
    Ok(opened.into_iter().unzip())
}

fn open_recorder(
    experiment: &Experiment,
    folder: Option<PathBuf>,
    loaded: &[LoadedFormat],
) -> Result<Recorder, Failure> {
    let wrong =
        |error: fluxline_daq::record::FolderError| Failure::failed(format_args!("{error}."));
    let folder = match folder {
        Some(path) => {
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                let _ = std::fs::create_dir_all(parent); // the folder's own error says it better
            }
            RunFolder::create(&path)
        }
        None => RunFolder::create_next(&experiment.runs),
    };
    let folder = folder.map_err(wrong)?;
    for format in loaded {
        folder.write_format(format.description.name(), &format.text).map_err(wrong)?;
    }
    folder.write_run(&report::beginning(experiment)).map_err(wrong)?;
    let sync = match experiment.record.sync {
        experiment::Sync::Word(SyncWord::None) => Sync::None,
        experiment::Sync::Word(SyncWord::Batch) => Sync::Batch,
        experiment::Sync::Seconds(seconds) => Sync::EverySeconds(seconds.ceil() as u32),
    };
    let write = match experiment.record.write {
        experiment::WriteWord::Auto => WriteMode::Auto,
        experiment::WriteWord::Direct => WriteMode::Direct,
        experiment::WriteWord::Buffered => WriteMode::Buffered,
    };
    let config = RecorderConfig { file_bytes: experiment.record.file_bytes, sync, write };
    let mut recorder = Recorder::open(folder, config);
    recorder.name_run(&experiment.name);
    recorder.measure_with(fluxline::clock::now);
    Ok(recorder)
}

/// Whether a description's packets say which part of an event they are.
fn has_parts(description: &Description) -> bool {
    let types = description.packet_types();
    types.iter().any(|packet| packet.event.is_some() && !matches!(packet.fragment, Fragment::Whole))
}

fn builder_config(
    experiment: &Experiment,
    loaded: &[LoadedFormat],
) -> Result<BuilderConfig, Failure> {
    let events = &experiment.events;
    let has_event = |format: &LoadedFormat| {
        format.description.packet_types().iter().any(|packet| packet.event.is_some())
    };
    let mode = match events.build {
        Build::Auto if loaded.iter().any(|format| has_parts(&format.description)) => {
            Mode::Key(Scope::PerSource)
        }
        Build::Auto | Build::Packet => Mode::Packet,
        Build::Key | Build::Source if !loaded.iter().any(has_event) => {
            return Err(Failure::input(
                "[events] build needs an event key, and no description has one: write an `event` \
                 role into the description, or build = \"packet\" or \"window\".",
            ));
        }
        Build::Key => Mode::Key(Scope::Global),
        Build::Source => Mode::Key(Scope::PerSource),
        Build::Window => Mode::Window {
            width: Span::from_ns(events.window_us.saturating_mul(1000)),
            lateness: Span::from_ns(events.lateness_us.saturating_mul(1000)),
            clock: match events.window_clock {
                experiment::WindowClock::Arrival => WindowClock::Arrival,
                experiment::WindowClock::Sensor => WindowClock::Sensor,
            },
        },
    };
    let expectation = match &events.require {
        Require::Count(0) => Expectation::Joined,
        Require::Count(count) => Expectation::Count(*count),
        Require::Labels(labels) => Expectation::Sources(labels.clone()),
    };
    Ok(BuilderConfig {
        mode,
        expectation,
        late: match events.late {
            LateWord::Record => Late::Record,
            LateWord::Drop => Late::Drop,
        },
        time_out: Span::from_ms(events.timeout_ms),
        lag_max: Span::from_ms(events.lag_max_ms),
        lateness: Span::from_ms(events.jitter_ms),
        settling: match experiment.sources.iter().all(Source::is_file) {
            true => Span::ZERO, // on demand, no source comes unexpected
            false => BuilderConfig::default().settling,
        },
        events_open_max: events.open_max,
        bytes_open_max: events.bytes_max,
        batch_bytes: experiment.record.batch_bytes as usize,
        batch_age: Span::from_ms(experiment.record.batch_ms),
        ..BuilderConfig::default()
    })
}

/// A run whose parts are open.
struct Running {
    experiment: Experiment,
    loaded: Vec<LoadedFormat>,
    quiet: bool,
    memory: report::Memory,
    stop: Stop,
}

impl Running {
    fn acquire(
        self,
        inputs: Vec<OpenInput>,
        rings: Vec<Ring>,
        recorder: Option<Recorder>,
        builder: BuilderConfig,
    ) -> Result<RunReport, Failure> {
        let experiment = &self.experiment;
        let folder = recorder.as_ref().map(|recorder| recorder.folder().clone());
        let live = Live::new(self.quiet);
        for input in &inputs {
            input.warnings.iter().for_each(|warning| {
                live.note(Some(format!("source `{}`: {warning}", input.name)));
            });
        }
        let traffic: Vec<_> = inputs.iter().map(|input| input.expected).collect();
        let limits = limits::too_small(experiment, &traffic, &builder);
        limits.into_iter().for_each(|sentence| live.note(Some(sentence)));
        let (queue, recording) = record::start(
            recorder,
            batch_bounds(experiment),
            experiment.recorder_core,
            live.clone(),
        );
        let names = inputs.iter().map(|input| input.name.clone());
        let limits = ReadoutLimits {
            sources_max: experiment.sources_max as usize,
            ..ReadoutLimits::default()
        };
        let descriptions = self.loaded.iter().map(|format| format.description.clone());
        let stop = self.stop.clone().after(experiment.seconds);
        let acquisition = Acquisition::new(names.zip(descriptions).collect(), limits, builder);
        let reading = Readout {
            acquisition,
            rings,
            queue,
            source_lines: self.source_lines(),
            clock: self.clock(),
            core: experiment.readout_core,
            stop: stop.clone(),
        }
        .start(live.clone());
        let before = KernelSnapshot::take();
        let began = fluxline::clock::now();
        let threads: Vec<JoinHandle<InputEnd>> =
            inputs.into_iter().map(|input| input.start(stop.clone(), live.clone())).collect();
        live.draw_until(|| reading.is_finished());
        let ends = threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect();
        let ended = report::Ended {
            began,
            ended: fluxline::clock::now(),
            inputs: ends,
            acquisition: joined(reading, "readout")?,
            recorded: joined(recording, "recorder")?,
            host: KernelSnapshot::take().since(&before),
            notes: live.notes(),
            faults: live.faults(),
        };
        Ok(RunReport::close(&self.experiment, folder, &self.memory, ended))
    }

    /// What each input's sources have in common in `sources.jsonl`.
    fn source_lines(&self) -> Vec<SourceLine> {
        let pairs = self.experiment.sources.iter().zip(&self.loaded);
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

    /// Files alone run on the time in them; anything live on the wall clock.
    fn clock(&self) -> EventClock {
        match self.experiment.sources.iter().all(Source::is_file) {
            true => EventClock::Data,
            false => EventClock::Wall,
        }
    }
}

fn batch_bounds(experiment: &Experiment) -> record::BatchBounds {
    let record = &experiment.record;
    record::BatchBounds { batches: record.batches_max, batch_bytes: record.batch_bytes }
}

fn joined<T>(thread: JoinHandle<T>, name: &str) -> Result<T, Failure> {
    thread.join().map_err(|_| {
        Failure::failed(format_args!(
            "the {name}'s thread ended by a defect of the program; the run is readable after \
             `fluxline recover`."
        ))
    })
}
