//! An acquisition on the terminal: its plan, a line of counters while it runs, the final table.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fluxline_daq::experiment::Experiment;
use fluxline_run::{Acquisition, Monitor, Options, Plan, Report, RunState, Stats, Stop};
use indicatif::{HumanBytes, HumanCount, ProgressBar};

use crate::failure::Failure;
use crate::kafka;
use crate::output::escaped_line;
use crate::page_arguments::ServeArguments;
use crate::served::{self, Served};
use crate::{inform, log, progress};

/// The period of drawing the line.
const DRAW_PERIOD: Duration = Duration::from_millis(200);
/// The period of the checks for notes and for the end.
const POLL_PERIOD: Duration = Duration::from_millis(10);

/// The way in which an experiment is run.
pub struct How {
    /// The run's folder; `None`: the next number in the experiment's `runs`.
    pub folder: Option<PathBuf>,
    /// The link between the nodes of the run; `None`: that of the experiment.
    pub link: Option<String>,
    /// The only node of this process; `None`: all nodes.
    pub node: Option<String>,
    /// The live page.
    pub serve: ServeArguments,
    /// Shows notes only.
    pub quiet: bool,
}

/// Runs an experiment to its end.
pub fn run(experiment: Experiment, how: How) -> Result<Report, Failure> {
    let How { folder, link, node, serve, quiet } = how;
    let state = if serve.armed { RunState::Armed } else { RunState::Running };
    let options = Options {
        folder,
        stop: Stop::on_signal(crate::output::ended_at_once),
        state,
        link,
        node,
        open_sink: kafka::OPEN_SINK,
        ..Options::default()
    };
    let listening = serve.config(&experiment).as_ref().map(served::listen).transpose()?;
    let acquisition = fluxline_run::start_with(experiment, options)?;
    let _served = listening.map(|on| Served::start(on, &acquisition)).transpose()?;
    watch(acquisition, Shown { quiet, lead: String::new() }, |_| {})
}

/// The output of an acquisition that is watched.
pub struct Shown {
    /// Shows notes only.
    pub quiet: bool,
    /// The beginning of the line of counters.
    pub lead: String,
}

/// Waits for the end of an acquisition, with its line of counters; `each` sees it all the time.
pub fn watch(
    acquisition: Acquisition,
    shown: Shown,
    mut each: impl FnMut(&Acquisition),
) -> Result<Report, Failure> {
    let Shown { quiet, lead } = shown;
    if !quiet {
        announce(acquisition.plan());
    }
    let line = if quiet || log::is_on() { Line::notes_only() } else { Line::of_counters() };
    let mut line = Line { lead, ..line };
    while !acquisition.is_finished() {
        std::thread::sleep(POLL_PERIOD);
        each(&acquisition);
        line.note(&acquisition.notes(line.noted));
        line.draw(&acquisition);
    }
    line.bar.finish_and_clear();
    let report = acquisition.wait()?;
    line.note(&report.notes[line.noted..]);
    Ok(report)
}

/// Prints the notes of `monitor` while `work` runs in a thread; `None`: it panicked.
pub fn with_notes<T: Send>(monitor: &Monitor, work: impl FnOnce() -> T + Send) -> Option<T> {
    let mut line = Line::notes_only();
    std::thread::scope(|scope| {
        let thread = scope.spawn(work);
        while !thread.is_finished() {
            std::thread::sleep(POLL_PERIOD);
            line.note(&monitor.notes(line.noted));
        }
        line.note(&monitor.notes(line.noted));
        thread.join().ok()
    })
}

/// The line of counters on standard error, and the notes above it.
struct Line {
    bar: ProgressBar,
    began: Instant,
    drawn: Instant,
    /// Time [s] and bytes at the last drawing.
    before: (f64, u64),
    /// Notes printed.
    noted: usize,
    /// Its beginning.
    lead: String,
}

impl Line {
    fn of_counters() -> Line {
        Line::on(progress::line())
    }

    fn notes_only() -> Line {
        Line::on(ProgressBar::hidden())
    }

    fn on(bar: ProgressBar) -> Line {
        let began = Instant::now();
        Line { bar, began, drawn: began, before: (0.0, 0), noted: 0, lead: String::new() }
    }

    fn note(&mut self, notes: &[String]) {
        // A log has them already.
        for note in notes.iter().filter(|_| !log::is_on()) {
            self.bar.suspend(|| inform!("note: {}", escaped_line(note)));
        }
        self.noted += notes.len();
    }

    fn draw(&mut self, acquisition: &Acquisition) {
        if self.drawn.elapsed() < DRAW_PERIOD {
            return;
        }
        self.drawn = Instant::now();
        let now = self.began.elapsed().as_secs_f64();
        let Stats {
            packets, bytes, rejected, lost, events, incomplete, ring_percent, sources, ..
        } = acquisition.stats();
        let (then, bytes_then) = self.before;
        let rate = (bytes - bytes_then.min(bytes)) as f64 * 8e-9 / (now - then).max(1e-3);
        self.before = (now, bytes);
        let recorded = HumanBytes(acquisition.stats().recorded_bytes);
        self.bar.set_message(format!(
            "{}{} packets of {sources} sources, {rate:.2} Gb/s | lost {lost}, rejected {rejected} | \
             {} events, {incomplete} incomplete | {recorded} on disk | ring {ring_percent} %",
            self.lead,
            HumanCount(packets),
            HumanCount(events),
        ));
        self.bar.tick();
    }
}

/// Prints addresses, folder and bounds of memory.
fn announce(plan: &Plan) {
    inform!("run      {}", plan.name);
    for input in &plan.inputs {
        let on = if input.listens.is_empty() { "" } else { " on " };
        inform!("source   {}{on}{}", input.name, input.listens.join(", "));
        if let Some(key) = input.drawn_key {
            inform!("key      {key}, drawn for this run: give it to the producer");
        }
    }
    match &plan.folder {
        Some(folder) => inform!("folder   {}", folder.display()),
        None => inform!("folder   none: events are counted, not recorded"),
    }
    let memory = &plan.memory;
    inform!(
        "memory   at most {}: rings {}, events {}, batches {}, the rest {}",
        HumanBytes(memory.total()),
        HumanBytes(memory.rings),
        HumanBytes(memory.events),
        HumanBytes(memory.batches),
        HumanBytes(memory.rest)
    );
}

/// Returns the report as a table for people.
pub fn table(report: &Report) -> String {
    let mut out = format!("{}\n", report.ledger.headline());
    for source in &report.silent_sources {
        let _ = writeln!(out, "{}, while others went on", source.words());
    }
    let _ = write!(out, "\n{}{}", report.ledger.table(), report.ledger.closing());
    if let Some(line) = report.delays.and_then(|delays| delays.line()) {
        let _ = writeln!(out, "{line}");
    }
    for line in fluxline_run::feedback::lines(&report.document["loop"]) {
        let _ = writeln!(out, "{line}");
    }
    for checked in &report.requirements {
        let _ = writeln!(out, "{}", checked.line());
    }
    for alarm in &report.alarms {
        let _ = writeln!(out, "alarm: {alarm}");
    }
    for note in &report.notes {
        let _ = writeln!(out, "note: {note}");
    }
    if let Some(folder) = &report.folder {
        let _ = writeln!(out, "Next: fluxline inspect {}", folder.display());
    }
    out
}
