//! A thread that goes through a run, and follows it while it is being written.
//!
//! It starts with the first question, reads to the present end of the files, and follows a run that
//! is being written while somebody asks. The next question starts it again, behind the last batch
//! that it read. It also ends when its reading is dropped.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use fluxline_daq::event::EventBatch;
use fluxline_daq::record::{
    BatchMark, Integrity, ReadError, ReadReport, RecordedBatch, RunEnd, RunFolder, RunReader,
};

use crate::contained::contain;

/// Time without a question after which the thread no longer follows a run.
const ASKED: Duration = Duration::from_secs(30);
/// Pause at the end of a run that is being written.
const PAUSE: Duration = Duration::from_millis(300);

/// Sees every batch of a run once, in order.
pub trait Visitor: Send + 'static {
    /// Takes a batch.
    fn visit(&mut self, batch: &VisitedBatch<'_>);
}

/// A batch that is visited.
pub struct VisitedBatch<'a> {
    /// The folder of the run.
    pub folder: &'a RunFolder,
    /// The mark by which it is read again.
    pub mark: BatchMark,
    /// Its rows.
    pub rows: &'a EventBatch,
}

/// A run that is read; its memory is the visitor's.
pub struct Reading<V> {
    path: PathBuf,
    state: Arc<Mutex<State<V>>>,
}

/// The state of a reading, for the thread and for those who ask.
pub struct State<V> {
    /// The visitor.
    pub visitor: V,
    /// The findings so far.
    pub report: ReadReport,
    /// The faults of the files; known when all is read.
    pub faults: Vec<String>,
    /// The end of the run, as far as it is known.
    pub end: RunEnd,
    /// True when everything that the files have now is read.
    pub is_complete: bool,
    last: Option<BatchMark>,
    asked: Instant,
    has_thread: bool,
}

impl<V: Visitor> Reading<V> {
    /// Makes a reading; the thread starts with the first question.
    pub fn new(path: &Path, visitor: V) -> Reading<V> {
        let state = State {
            visitor,
            report: ReadReport::default(),
            faults: Vec::new(),
            end: RunEnd::Unknown,
            is_complete: false,
            last: None,
            asked: Instant::now(),
            has_thread: false,
        };
        Reading { path: path.to_path_buf(), state: Arc::new(Mutex::new(state)) }
    }

    /// Returns the state, and keeps the thread working.
    pub fn ask(&self) -> MutexGuard<'_, State<V>> {
        let mut state = lock(&self.state);
        state.asked = Instant::now();
        let is_over = state.is_complete && state.end != RunEnd::Running;
        if !state.has_thread && !is_over {
            let (path, shared) = (self.path.clone(), Arc::downgrade(&self.state));
            let thread = std::thread::Builder::new().name("read run".into());
            state.has_thread = thread.spawn(move || work(&path, &shared)).is_ok();
        }
        state
    }
}

/// Reads until the run is over and complete, or nobody asks any more.
fn work<V: Visitor>(path: &Path, shared: &Weak<Mutex<State<V>>>) {
    loop {
        let goes_on = match contain(|| pass(path, shared)) {
            Some(Ok(goes_on)) => goes_on,
            Some(Err(error)) => fail(shared, &error.to_string()),
            None => fail(shared, "reading failed by a fault of the program"),
        };
        if !goes_on {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    if let Some(state) = shared.upgrade() {
        lock(&state).has_thread = false;
    }
}

/// Reads to the present end of the files; returns true when there will be more.
fn pass<V: Visitor>(path: &Path, shared: &Weak<Mutex<State<V>>>) -> Result<bool, ReadError> {
    let Some(last) = shared.upgrade().map(|state| lock(&state).last) else { return Ok(false) };
    // The lock of the recorder is looked at first: what it wrote before it ended is then read.
    let was_running = end_of(path)? == RunEnd::Running;
    let mut reader = match last {
        Some(mark) => RunReader::open_after(path, mark)?,
        None => RunReader::open(path)?,
    };
    let mut rows = EventBatch::default();
    while let Some(batch) = reader.next_batch()? {
        let Some(state) = shared.upgrade() else { return Ok(false) };
        let mut state = lock(&state);
        take(&mut state, reader.folder(), &batch, &mut rows)?;
    }
    let Some(state) = shared.upgrade() else { return Ok(false) };
    let mut state = lock(&state);
    state.end_pass(reader.folder(), reader.report());
    if was_running {
        state.end = RunEnd::Running;
    }
    Ok(was_running && state.asked.elapsed() <= ASKED)
}

fn take<V: Visitor>(
    state: &mut State<V>,
    folder: &RunFolder,
    batch: &RecordedBatch,
    rows: &mut EventBatch,
) -> Result<(), ReadError> {
    rows.clear();
    batch.append_to(rows)?;
    let mark = batch.mark();
    state.visitor.visit(&VisitedBatch { folder, mark, rows });
    state.last = Some(mark);
    state.report.batches += 1;
    state.report.events += rows.events.len() as u64;
    state.report.packets += rows.packets.len() as u64;
    state.report.bytes += rows.bytes.len() as u64;
    Ok(())
}

impl<V> State<V> {
    /// Keeps the findings of a reader that is at the end of the files. Those about the ends of
    /// files are only of the last reader: it reads the file that was being written before.
    fn end_pass(&mut self, folder: &RunFolder, found: &ReadReport) {
        self.report.batches_missing += found.batches_missing;
        self.report.damages.extend(found.damages.iter().cloned());
        self.report.tails.clone_from(&found.tails);
        self.report.unreadable.clone_from(&found.unreadable);
        self.report.unfinished_files.clone_from(&found.unfinished_files);
        let integrity = Integrity::of(folder, &self.report);
        self.end = integrity.end;
        self.faults = integrity.faults;
        self.is_complete = true;
    }
}

/// Keeps an error as a fault; there is nothing more to read.
fn fail<V>(shared: &Weak<Mutex<State<V>>>, fault: &str) -> bool {
    if let Some(state) = shared.upgrade() {
        let mut state = lock(&state);
        state.faults = vec![fault.to_owned()];
        state.is_complete = true;
    }
    false
}

/// Returns the end of a run by its lock and run.json.
pub fn end_of(path: &Path) -> Result<RunEnd, ReadError> {
    let folder = RunFolder::open(path)?;
    Ok(Integrity::of(&folder, &ReadReport::default()).end)
}

fn lock<V>(state: &Mutex<State<V>>) -> MutexGuard<'_, State<V>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
