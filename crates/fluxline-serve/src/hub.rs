//! One snapshot a tick for all browsers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fluxline_run::Watcher;
use serde_json::Value;
use tokio::sync::watch;

use crate::contained::contain;
use crate::runs::{NotThere, Run};
use crate::signal::{Choice, Signals};
use crate::snapshot::Snapshots;

/// Time between two snapshots.
const TICK: Duration = Duration::from_millis(100);
/// Streams of snapshots at a time.
pub const STREAMS_MAX: usize = 64;

/// Takes and shares snapshots.
pub struct Hub {
    watcher: Watcher,
    snapshots: Mutex<Snapshots>,
    signals: Mutex<Signals>,
    /// The run folder, for traces; opened by the first question.
    recorded: Mutex<Option<Arc<Run>>>,
    /// The newest snapshot as JSON; empty before the first.
    newest: watch::Sender<Arc<str>>,
    streams: AtomicUsize,
}

/// A browser that follows the snapshots; counted until it is dropped.
pub struct Stream {
    hub: Arc<Hub>,
    newest: watch::Receiver<Arc<str>>,
}

impl Hub {
    pub fn new(watcher: Watcher) -> Hub {
        let newest = watch::Sender::new(Arc::from(""));
        Hub {
            watcher,
            snapshots: Mutex::default(),
            signals: Mutex::default(),
            recorded: Mutex::default(),
            newest,
            streams: AtomicUsize::new(0),
        }
    }

    pub fn watcher(&self) -> &Watcher {
        &self.watcher
    }

    /// Takes a snapshot each tick, for as long as the server runs: the history needs them without a
    /// browser, too.
    pub async fn run(self: Arc<Hub>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            contain(|| self.tick());
        }
    }

    fn tick(&self) {
        let live = self.watcher.live();
        lock(&self.signals).tick(&live, self.watcher.inputs());
        let snapshot = self.snapshots().tick(&self.watcher, &live);
        self.share(&snapshot);
    }

    /// Returns the state of now.
    pub fn look(&self) -> Value {
        self.snapshots().look(&self.watcher)
    }

    /// Shows all browsers the state of now, after a change of it.
    pub fn refresh(&self) {
        let snapshot = self.look();
        self.share(&snapshot);
    }

    /// Begins a stream; `None`: there are too many.
    pub fn stream(self: &Arc<Hub>) -> Option<Stream> {
        let before = self.streams.fetch_add(1, Ordering::Relaxed);
        let stream = Stream { hub: self.clone(), newest: self.newest.subscribe() };
        (before < STREAMS_MAX).then_some(stream)
    }

    /// Returns a part of the history of the rates; the number of ticks so far where it begins
    /// behind them.
    pub fn history(&self, from: u64, to: u64, points: usize) -> Result<Value, u64> {
        self.snapshots().history(from, to, points)
    }

    /// Returns a signal, and gathers it from now on.
    pub fn signal(&self, choice: &Choice) -> Value {
        lock(&self.signals).ask(choice, &self.watcher.live(), self.watcher.inputs())
    }

    /// Returns the run folder; an error is a sentence.
    pub fn recorded(&self) -> Result<Arc<Run>, NotThere> {
        let mut recorded = lock(&self.recorded);
        if let Some(run) = &*recorded {
            return Ok(run.clone());
        }
        let folder = self.watcher.plan().folder.as_deref();
        let folder = folder.ok_or_else(|| NotThere("this run is not recorded.".into()))?;
        let run = Arc::new(Run::open(folder, &self.watcher.plan().name)?);
        *recorded = Some(run.clone());
        Ok(run)
    }

    fn share(&self, snapshot: &Value) {
        self.newest.send_replace(snapshot.to_string().into());
    }

    fn snapshots(&self) -> MutexGuard<'_, Snapshots> {
        lock(&self.snapshots)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream {
    /// Waits for the next snapshot; `None` when the server ends.
    pub async fn next(&mut self) -> Option<Arc<str>> {
        self.newest.changed().await.ok()?;
        Some(self.newest.borrow_and_update().clone())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.hub.streams.fetch_sub(1, Ordering::Relaxed);
    }
}
