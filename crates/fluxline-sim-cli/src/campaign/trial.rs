//! One run of a case: the experiment with the sizes and faults of the case, in a temporary folder,
//! by the code of `fluxline run`.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use fluxline_core::Span;
use fluxline_daq::capture::replay::Speed;
use fluxline_daq::emulator::Faults;
use fluxline_daq::experiment::{
    Builders, Experiment, FileList, Nodes, Pcap, RING_BYTES_MIN, Readouts, Source,
};
use fluxline_daq::record::SyncPolicy;
use fluxline_run::{Options, Report};
use tempfile::TempDir;

use super::case::Case;
use super::disk::{DiskFault, FaultyDisk, OnDisk};
use super::truth;

/// The time after which a run that has not ended counts as hanging: a run takes a part of a second.
const PATIENCE: Duration = Duration::from_secs(120);
/// The law that a run breaks which has not ended by then. Its smaller cases are not looked for:
/// each could take as long.
pub const ENDS_IN_TIME: &str = "a run ends in time";

/// A law that a run broke, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The law, in words that are the same for each run that breaks it.
    pub law: &'static str,
    /// The place, and the numbers.
    pub how: String,
}

/// A run that has ended.
pub struct Trial {
    /// The experiment as it ran.
    pub experiment: Experiment,
    pub report: Report,
    pub folder: PathBuf,
    pub on_disk: OnDisk,
    /// It removes the files.
    pub _at: TempDir,
}

/// Runs a case.
///
/// # Errors
/// The run did not end, or panicked: a broken law. An inner error is a case that cannot run.
pub fn run(case: &Case, base: &Experiment) -> Result<Result<Trial, Broken>, String> {
    let at = tempfile::tempdir().map_err(|error| format!("a temporary folder: {error}"))?;
    let experiment = experiment(case, base, at.path())?;
    let (folder, on_disk) = (at.path().join("run"), OnDisk::default());
    let disk = FaultyDisk::new(DiskFault::parse(&case.disk)?, on_disk.clone());
    let options = Options {
        folder: Some(folder.clone()),
        link: Some(case.link()),
        storage: Some(Box::new(disk)),
        ..Options::default()
    };
    let (to, from) = channel();
    let started = fluxline_run::start_with(experiment.clone(), options);
    let acquisition = started.map_err(|error| error.to_string())?;
    // A run that hangs keeps its thread, and cannot keep the campaign.
    std::thread::spawn(move || {
        let _ = to.send(acquisition.wait()); // nobody waits any more for a run that hung
    });
    let broken = |how: String| Ok(Err(Broken { law: "a run ends", how }));
    match from.recv_timeout(PATIENCE) {
        Ok(Ok(report)) => Ok(Ok(Trial { experiment, report, folder, on_disk, _at: at })),
        Ok(Err(error)) => broken(error.to_string()),
        Err(RecvTimeoutError::Timeout) => {
            let how = format!("it did not end within {} s", PATIENCE.as_secs());
            Ok(Err(Broken { law: ENDS_IN_TIME, how }))
        }
        Err(RecvTimeoutError::Disconnected) => broken("its thread panicked".to_owned()),
    }
}

/// Returns the experiment of a case; captures that it needs are written to `at`.
fn experiment(case: &Case, base: &Experiment, at: &Path) -> Result<Experiment, String> {
    let mut experiment = base.clone();
    let (of_case, of_file) = (case.sources as usize, experiment.sources.len());
    if of_case > of_file {
        return Err(format!("the case has {of_case} sources, and the experiment {of_file}"));
    }
    if case.readouts > case.sources {
        let (readouts, sources) = (case.readouts, case.sources);
        return Err(format!("the case has {readouts} readouts for {sources} sources"));
    }
    experiment.sources.truncate(of_case);
    for (number, source) in experiment.sources.iter_mut().enumerate() {
        emulate(case, number as u64, source);
    }
    if case.late_ms > 0 {
        // A capture has times, and all captures share one clock.
        for (number, source) in experiment.sources.iter_mut().enumerate() {
            let is_late = number + 1 == of_case && of_case > 1;
            let late = Span::from_ms(if is_late { case.late_ms } else { 0 });
            into_capture(source, late, &at.join(format!("{number}.pcapng")))?;
        }
    }
    let record_ms = case.record_us as f64 / 1_000.0;
    let readout = Readouts {
        count: case.readouts,
        record_ms,
        packet_ns: case.readout_ns,
        keep_bytes: case.keep_bytes,
        ..Readouts::default()
    };
    let builder = Builders { count: case.builders, packet_ns: case.builder_ns };
    experiment.graph = Some(Nodes { readout, builder, ..Nodes::default() });
    experiment.link.get_or_insert_default().ring_bytes = RING_BYTES_MIN;
    if case.bytes_max > 0 {
        experiment.events.bytes_max = case.bytes_max;
    }
    experiment.record.enabled = true;
    experiment.record.batch_bytes = case.batch_bytes;
    experiment.record.batch_ms = 20;
    experiment.record.file_bytes = 200_000;
    experiment.record.sync = match case.disk.is_empty() {
        true => SyncPolicy::None,
        false => SyncPolicy::Batch,
    };
    Ok(experiment)
}

/// Sets the boards of an emulated source; a capture stays unchanged.
fn emulate(case: &Case, number: u64, source: &mut Source) {
    let Some(emulator) = &mut source.emulator else { return };
    emulator.sources = case.boards;
    emulator.packets = case.packets;
    emulator.payload_bytes = (case.payload > 0).then_some(case.payload).or(emulator.payload_bytes);
    emulator.rate = case.rate as f64;
    emulator.jitter = 0.5;
    emulator.seed = Some(case.seed.wrapping_mul(64).wrapping_add(number + 1));
    emulator.faults = Faults {
        drop: case.drop,
        duplicate: case.duplicate,
        reorder: case.reorder,
        corrupt: case.corrupt,
        stall: case.stall,
        stall_ms: case.stall_ms,
        restart: case.restart,
        ..Faults::default()
    };
}

/// Replaces the emulator of a source by a capture of its packets, later by `late`.
fn into_capture(source: &mut Source, late: Span, path: &Path) -> Result<(), String> {
    if source.emulator.is_none() {
        return Ok(());
    }
    truth::write_capture(source, late, path)?;
    let file = FileList::one(path);
    let pcap = Pcap { file, ports: Vec::new(), check_sums: true, speed: Speed::Recorded };
    source.pcap = Some(pcap);
    source.emulator = None;
    Ok(())
}
