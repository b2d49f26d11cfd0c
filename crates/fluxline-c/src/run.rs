//! An acquisition within a program: an experiment file runs on threads of this process.

use std::ffi::{CString, c_char, c_void};

use fluxline::compiled::{CompiledEvent, CompiledFilter, CompiledPacket};
use fluxline_daq::experiment::Experiment;
use fluxline_run::filter::CompiledEvents;
use fluxline_run::{Acquisition, Options, Report};

use crate::FluxlineCode;
use crate::border::{self, Out, Refused, guard, handle, make, text};

/// A run: an acquisition that goes on, or its report.
pub struct FluxlineRun {
    acquisition: Option<Acquisition>,
    ended: Option<EndedRun>,
}

/// The results of a run, in the types of C.
struct EndedRun {
    status: u32,
    headline: CString,
    folder: Option<CString>,
}

/// Counters of a run. All but ring_percent and sources grow until the run ends.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FluxlineRunStats {
    /// Packets received.
    pub packets: u64,
    /// Their payload, in bytes.
    pub bytes: u64,
    /// Packets that no description accepts.
    pub rejected: u64,
    /// Packets that the counters of their sources miss.
    pub lost: u64,
    /// Events built.
    pub events: u64,
    /// Events of which a required source is missing.
    pub incomplete: u64,
    /// Filled part of the fullest ring, in percent.
    pub ring_percent: u64,
    /// Sources that have sent something.
    pub sources: u64,
    /// Bytes in files.
    pub recorded_bytes: u64,
}

/// Starts the run of an experiment file and writes it to *run. FLUXLINE_CODE_ARGUMENT: the file is
/// wrong; fluxline_error() has the line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_run_start(
    experiment_path: *const c_char,
    run: *mut *mut FluxlineRun,
) -> FluxlineCode {
    guard(|| {
        let run = Out::new(run)?;
        let experiment = fluxline_run::load(text(experiment_path)?.as_ref());
        start(experiment.map_err(Refused::argument)?, Options::default(), run)
    })
}

/// Decides on one event: above 0 keeps it, 0 rejects it, below 0 says that the filter failed; such
/// an event is kept and marked. The arrays have the lengths that the event names.
pub type FluxlineFilter = Option<
    unsafe extern "C" fn(
        event: *const CompiledEvent,
        packets: *const CompiledPacket,
        bytes: *const u8,
        context: *mut c_void,
    ) -> i32,
>;

/// Starts the run of an experiment file as fluxline_run_start does, with a filter beside the
/// experiment's. The filter is called by a thread of the run, one call at a time, until
/// fluxline_run_wait or fluxline_run_close returns; context is passed to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_run_start_filtered(
    experiment_path: *const c_char,
    filter: FluxlineFilter,
    context: *mut c_void,
    run: *mut *mut FluxlineRun,
) -> FluxlineCode {
    guard(|| {
        let run = Out::new(run)?;
        let address = filter.map_or(0, |filter| (filter as *const ()).expose_provenance());
        // SAFETY: the caller's promise in the header.
        let filter = unsafe { CompiledFilter::from_address(address, context.expose_provenance()) };
        let filter = filter.ok_or_else(|| Refused::argument("the filter is NULL"))?;
        let experiment = fluxline_run::load(text(experiment_path)?.as_ref());
        let filter = Some(Box::new(CompiledEvents::new(filter)) as _);
        let options = Options { filter, ..Options::default() };
        start(experiment.map_err(Refused::argument)?, options, run)
    })
}

/// Starts the run of an experiment that is given as TOML text. Paths in it are relative to the
/// working directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_run_start_text(
    name: *const c_char,
    experiment: *const c_char,
    run: *mut *mut FluxlineRun,
) -> FluxlineCode {
    guard(|| {
        let run = Out::new(run)?;
        let experiment = Experiment::parse(text(name)?, text(experiment)?);
        start(experiment.map_err(Refused::argument)?, Options::default(), run)
    })
}

fn start(
    experiment: Experiment,
    options: Options,
    run: Out<*mut FluxlineRun>,
) -> Result<(), Refused> {
    let acquisition = fluxline_run::start_with(experiment, options).map_err(Refused::host)?;
    make(run, FluxlineRun { acquisition: Some(acquisition), ended: None });
    Ok(())
}

/// Writes the counters of a run that fluxline_run_wait has not ended to *stats.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_run_stats(
    run: *mut FluxlineRun,
    stats: *mut FluxlineRunStats,
) -> FluxlineCode {
    guard(|| {
        let (place, run) = (Out::new(stats)?, handle(run)?);
        let stats = run.acquisition()?.stats();
        place.put(FluxlineRunStats {
            packets: stats.packets,
            bytes: stats.bytes,
            rejected: stats.rejected,
            lost: stats.lost,
            events: stats.events,
            incomplete: stats.incomplete,
            ring_percent: stats.ring_percent,
            sources: stats.sources,
            recorded_bytes: stats.recorded_bytes,
        });
        Ok(())
    })
}

/// Asks a run to end: what has been received is still built and recorded. fluxline_run_wait waits
/// for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_run_stop(run: *mut FluxlineRun) -> FluxlineCode {
    guard(|| {
        handle(run)?.acquisition()?.stop();
        Ok(())
    })
}

/// Returns at once: FLUXLINE_CODE_DONE if the run has ended by itself or after a stop,
/// FLUXLINE_CODE_NOTHING while it goes on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_run_finished(run: *mut FluxlineRun) -> FluxlineCode {
    guard(|| {
        let is_finished = handle(run)?.acquisition.as_ref().is_none_or(Acquisition::is_finished);
        if is_finished { Ok(()) } else { Err(Refused::nothing()) }
    })
}

/// Waits until the run ends, and closes its ledger. The exit status that `fluxline run` would have
/// is written to *status: 0 only if everything received is in the files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_run_wait(
    run: *mut FluxlineRun,
    status: *mut u32,
) -> FluxlineCode {
    guard(|| {
        let (place, run) = (Out::new(status)?, handle(run)?);
        if let Some(acquisition) = run.acquisition.take() {
            run.ended = Some(EndedRun::of(&acquisition.wait().map_err(Refused::host)?));
        }
        let failed = || Refused::host("the run has failed; start another one");
        place.put(run.ended.as_ref().ok_or_else(failed)?.status);
        Ok(())
    })
}

/// Returns the first sentence of the summary of a run that fluxline_run_wait has ended; NULL: it
/// has not. Valid until fluxline_run_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_run_headline(run: *mut FluxlineRun) -> *const c_char {
    let ended = handle(run).ok().and_then(|run| run.ended.as_ref());
    ended.map_or(std::ptr::null(), |ended| ended.headline.as_ptr())
}

/// Returns the run folder of a run that fluxline_run_wait has ended; NULL: nothing was recorded, or
/// it has not ended. Valid until fluxline_run_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_run_folder(run: *mut FluxlineRun) -> *const c_char {
    let ended = handle(run).ok().and_then(|run| run.ended.as_ref());
    let folder = ended.and_then(|ended| ended.folder.as_ref());
    folder.map_or(std::ptr::null(), |folder| folder.as_ptr())
}

/// Ends a run and its handle: one that goes on is stopped, drained and recorded first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_run_close(run: *mut FluxlineRun) {
    border::end(run);
}

impl FluxlineRun {
    fn acquisition(&self) -> Result<&Acquisition, Refused> {
        let ended = || Refused::argument("the run has ended; read its headline and folder");
        self.acquisition.as_ref().ok_or_else(ended)
    }
}

impl Drop for FluxlineRun {
    fn drop(&mut self) {
        if let Some(acquisition) = self.acquisition.take() {
            acquisition.stop();
            let _ = acquisition.wait(); // nobody asks for its report
        }
    }
}

impl EndedRun {
    fn of(report: &Report) -> EndedRun {
        let of_c = |text: String| CString::new(text).unwrap_or_default();
        let folder = report.folder.as_ref().map(|folder| folder.display().to_string());
        EndedRun {
            status: report.verdict.status().into(),
            headline: of_c(report.ledger.headline()),
            folder: folder.map(of_c),
        }
    }
}
