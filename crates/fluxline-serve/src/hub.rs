//! One snapshot a tick for all browsers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fluxline_run::Watcher;
use serde_json::Value;
use tokio::sync::watch;

use crate::snapshot::Snapshots;

/// Time between two snapshots.
const TICK: Duration = Duration::from_millis(100);
/// Streams of snapshots at a time.
pub const STREAMS_MAX: usize = 64;

/// Takes and shares snapshots.
pub struct Hub {
    watcher: Watcher,
    snapshots: Mutex<Snapshots>,
    newest: watch::Sender<Arc<Newest>>,
    streams: AtomicUsize,
}

/// The newest snapshot.
#[derive(Debug, Default)]
pub struct Newest {
    /// The snapshot as JSON; empty before the first.
    pub text: String,
    taken: Option<Instant>,
}

/// A browser that follows the snapshots; counted until it is dropped.
pub struct Stream {
    hub: Arc<Hub>,
    newest: watch::Receiver<Arc<Newest>>,
}

impl Hub {
    pub fn new(watcher: Watcher) -> Hub {
        let newest = watch::Sender::new(Arc::default());
        Hub { watcher, snapshots: Mutex::default(), newest, streams: AtomicUsize::new(0) }
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
            self.take();
        }
    }

    /// Returns the newest snapshot; takes one if there is none of this tick.
    pub fn newest(&self) -> Arc<Newest> {
        let newest = self.newest.borrow().clone();
        let is_fresh = newest.taken.is_some_and(|taken| taken.elapsed() < TICK * 2);
        if is_fresh { newest } else { self.take() }
    }

    /// Begins a stream; `None`: there are too many.
    pub fn stream(self: &Arc<Hub>) -> Option<Stream> {
        let before = self.streams.fetch_add(1, Ordering::Relaxed);
        let stream = Stream { hub: self.clone(), newest: self.newest.subscribe() };
        (before < STREAMS_MAX).then_some(stream)
    }

    /// Returns a part of the history of the rates.
    pub fn history(&self, from: u64, to: u64, points: usize) -> Value {
        self.snapshots().history(from, to, points)
    }

    fn take(&self) -> Arc<Newest> {
        let text = self.snapshots().take(&self.watcher).to_string();
        let newest = Arc::new(Newest { text, taken: Some(Instant::now()) });
        self.newest.send_replace(newest.clone());
        newest
    }

    fn snapshots(&self) -> MutexGuard<'_, Snapshots> {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream {
    /// Waits for the next snapshot; `None` when the server ends.
    pub async fn next(&mut self) -> Option<Arc<Newest>> {
        self.newest.changed().await.ok()?;
        Some(self.newest.borrow_and_update().clone())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.hub.streams.fetch_sub(1, Ordering::Relaxed);
    }
}
