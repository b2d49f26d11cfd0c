//! What is shown while a run goes on: one line of numbers, and notes above it.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fluxline_daq::record::RecorderCounts;
use indicatif::{HumanBytes, HumanCount, ProgressBar};

use crate::progress;

/// How often the line is drawn anew.
const PERIOD: Duration = Duration::from_millis(200);

/// Numbers that the readout publishes a few times a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers {
    /// Packets that fit their description.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Datagrams that did not.
    pub rejected: u64,
    /// Packets that are missing by the sources' counters.
    pub lost: u64,
    /// Events built, incomplete ones among them.
    pub events: u64,
    /// Events that lack something.
    pub incomplete: u64,
    /// Fullest push ring \[%\].
    pub ring_percent: u64,
    /// Sources seen.
    pub sources: u64,
}

/// Shared by the threads of a run; cheap to clone.
#[derive(Clone)]
pub struct Live {
    state: Arc<Mutex<State>>,
    bar: ProgressBar,
    began: Instant,
}

#[derive(Default)]
struct State {
    numbers: Numbers,
    before: (f64, u64),
    recorded: RecorderCounts,
    notes: Vec<String>,
    faults: Vec<String>,
}

impl Live {
    /// A line on standard error where that is a terminal and `quiet` is off; else silent.
    pub fn new(quiet: bool) -> Live {
        Live { state: Arc::default(), bar: progress::line(quiet), began: Instant::now() }
    }

    /// Keeps a problem for the report and shows it now; `None` is no problem.
    pub fn note(&self, problem: Option<impl Display>) {
        let Some(problem) = problem else { return };
        let text = problem.to_string();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.notes.len() < 100 && !state.notes.contains(&text) {
            self.bar.suspend(|| eprintln!("note: {text}"));
            state.notes.push(text);
        }
    }

    /// A problem that ended an input before the run was over: noted, and part of the verdict.
    pub fn fault(&self, problem: impl Display) {
        let text = problem.to_string();
        self.note(Some(&text));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.faults.len() < 100 && !state.faults.contains(&text) {
            state.faults.push(text);
        }
    }

    /// The recorder's numbers.
    pub fn recorded(&self, counts: RecorderCounts) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).recorded = counts;
    }

    /// The readout's numbers.
    pub fn numbers(&self, numbers: Numbers) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).numbers = numbers;
    }

    /// Draws the line anew.
    pub fn draw(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.began.elapsed().as_secs_f64();
        let Numbers { packets, bytes, rejected, lost, events, incomplete, ring_percent, sources } =
            state.numbers;
        let (then, bytes_then) = state.before;
        let rate = (bytes - bytes_then.min(bytes)) as f64 * 8e-9 / (now - then).max(1e-3);
        state.before = (now, bytes);
        let recorded = HumanBytes(state.recorded.written.bytes);
        self.bar.set_message(format!(
            "{} packets of {sources} sources, {rate:.2} Gb/s | lost {lost}, rejected {rejected} | \
             {} events, {incomplete} incomplete | {recorded} on disk | ring {ring_percent} %",
            HumanCount(packets),
            HumanCount(events),
        ));
        self.bar.tick();
    }

    /// Draws until `over` says so.
    pub fn draw_until(&self, mut over: impl FnMut() -> bool) {
        let mut drawn = Instant::now();
        while !over() {
            std::thread::sleep(Duration::from_millis(10));
            if drawn.elapsed() >= PERIOD {
                self.draw();
                drawn = Instant::now();
            }
        }
        self.bar.finish_and_clear();
    }

    /// The problems that ended an input early.
    pub fn faults(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).faults.clone()
    }

    /// The problems that were noted.
    pub fn notes(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).notes.clone()
    }
}
