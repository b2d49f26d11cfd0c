//! Events as they come: closed batches for programs that watch a run, never at its expense.
//!
//! A subscriber gets whole batches, after the filter and after recording. When it is slow, batches
//! are dropped for it alone and counted. The last subscriber gets the memory of the batch itself
//! and gives it back; the others get copies.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fluxline_daq::event::EventBatch;
use fluxline_daq::ledger::BatchFate;

use crate::filter::RunSource;

/// A batch of closed events, with its fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedBatch {
    /// The events that the filter kept.
    pub batch: EventBatch,
    /// Written, failed, or counted only.
    pub fate: BatchFate,
}

/// Receives the batches of a running acquisition.
#[derive(Debug)]
pub struct Subscription {
    batches: Receiver<ClosedBatch>,
    give_back: Sender<EventBatch>,
    shared: Arc<Shared>,
    run: Subscribers,
}

/// The counts that both ends share.
#[derive(Debug, Default)]
struct Shared {
    dropped_batches: AtomicU64,
    dropped_events: AtomicU64,
}

/// The result of a wait for a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A batch.
    Batch(ClosedBatch),
    /// The time is over.
    TimedOut,
    /// The run has ended, and all its batches were received or dropped.
    Ended,
}

impl Subscription {
    /// Waits for the next batch, at most `timeout`.
    #[must_use]
    pub fn receive(&self, timeout: Duration) -> Received {
        match self.batches.recv_timeout(timeout) {
            Ok(batch) => Received::Batch(batch),
            Err(RecvTimeoutError::Timeout) => Received::TimedOut,
            Err(RecvTimeoutError::Disconnected) => Received::Ended,
        }
    }

    /// Returns the sources that have appeared in the run, by number.
    #[must_use]
    pub fn sources(&self) -> Vec<RunSource> {
        self.run.sources()
    }

    /// Returns the memory of a batch, so that the run does not allocate it anew. Optional.
    pub fn give_back(&self, mut batch: EventBatch) {
        batch.clear();
        let _ = self.give_back.send(batch);
    }

    /// Returns the number of events that were dropped for this subscriber because it was slow.
    #[must_use]
    pub fn dropped_events(&self) -> u64 {
        self.shared.dropped_events.load(Ordering::Relaxed)
    }

    /// Returns the number of batches that were dropped for this subscriber.
    #[must_use]
    pub fn dropped_batches(&self) -> u64 {
        self.shared.dropped_batches.load(Ordering::Relaxed)
    }
}

/// The run's end of a subscription.
#[derive(Debug)]
struct Subscriber {
    batches: SyncSender<ClosedBatch>,
    empty: Receiver<EventBatch>,
    shared: Arc<Shared>,
}

/// The subscribers of a run; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscribers(Arc<List>);

#[derive(Debug, Default)]
struct List {
    /// True once a program has subscribed; until then a batch costs one load.
    any: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    subscribers: Vec<Subscriber>,
    /// The sources of the packets in events, by number.
    sources: Vec<RunSource>,
    ended: bool,
    dropped_events: u64,
}

impl Subscribers {
    /// Adds a subscriber for which at most `batches` wait.
    pub fn add(&self, batches: usize) -> Subscription {
        let (sender, receiver) = sync_channel(batches.max(1));
        let (give_back, empty) = channel();
        let shared = Arc::new(Shared::default());
        let subscriber = Subscriber { batches: sender, empty, shared: shared.clone() };
        let mut state = self.state();
        if !state.ended {
            state.subscribers.push(subscriber);
            self.0.any.store(true, Ordering::Relaxed);
        }
        Subscription { batches: receiver, give_back, shared, run: self.clone() }
    }

    /// Returns true when a program has subscribed.
    pub fn any(&self) -> bool {
        self.0.any.load(Ordering::Relaxed)
    }

    /// Takes note of a source.
    pub fn add_source(&self, source: &RunSource) {
        self.state().sources.push(source.clone());
    }

    /// Returns the sources so far, by number.
    pub fn sources(&self) -> Vec<RunSource> {
        self.state().sources.clone()
    }

    /// Offers a batch, which may be exchanged for an empty one. Cost: a copy for each subscriber
    /// but the last.
    pub fn offer(&self, batch: &mut EventBatch, fate: BatchFate) {
        if batch.is_empty() || !self.0.any.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state();
        let mut dropped = 0;
        let last = state.subscribers.len().saturating_sub(1);
        let mut number = 0;
        state.subscribers.retain(|subscriber| {
            let mut offered = subscriber.empty.try_recv().unwrap_or_default();
            match number == last {
                true => std::mem::swap(batch, &mut offered),
                false => offered.clone_from(batch),
            }
            number += 1;
            match subscriber.batches.try_send(ClosedBatch { batch: offered, fate }) {
                Ok(()) => true,
                Err(TrySendError::Disconnected(_)) => false,
                Err(TrySendError::Full(refused)) => {
                    let events = refused.batch.events.len() as u64;
                    subscriber.shared.dropped_batches.fetch_add(1, Ordering::Relaxed);
                    subscriber.shared.dropped_events.fetch_add(events, Ordering::Relaxed);
                    dropped += events;
                    if number > last {
                        *batch = refused.batch;
                    }
                    true
                }
            }
        });
        state.dropped_events += dropped;
    }

    /// Ends all subscriptions; returns the number of events that were dropped for them.
    pub fn end(&self) -> u64 {
        let mut state = self.state();
        state.ended = true;
        state.subscribers.clear();
        std::mem::take(&mut state.dropped_events)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the subscriptions when the recorder's thread ends, by a panic too.
pub(crate) struct EndSubscriptions(pub Subscribers);

impl Drop for EndSubscriptions {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use fluxline_daq::event::EventRow;

    use super::*;

    fn batch(key: u64) -> EventBatch {
        let row = EventRow { key: Some(key), ..EventRow::default() };
        EventBatch { events: vec![row], ..EventBatch::default() }
    }

    fn keys(subscription: &Subscription) -> Vec<u64> {
        let mut keys = Vec::new();
        while let Received::Batch(closed) = subscription.receive(Duration::ZERO) {
            keys.extend(closed.batch.events.iter().filter_map(|row| row.key));
            subscription.give_back(closed.batch);
        }
        keys
    }

    #[test]
    fn a_slow_subscriber_loses_and_counts_while_others_get_everything() {
        let subscribers = Subscribers::default();
        let (slow, fast) = (subscribers.add(2), subscribers.add(2));
        let mut seen = Vec::new();
        for key in 0..5 {
            subscribers.offer(&mut batch(key), BatchFate::Recorded);
            seen.extend(keys(&fast));
        }
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        assert_eq!((slow.dropped_events(), slow.dropped_batches()), (3, 3));
        assert_eq!((fast.dropped_events(), keys(&slow)), (0, vec![0, 1]));
        assert_eq!(slow.receive(Duration::ZERO), Received::TimedOut);
        drop(fast);
        subscribers.offer(&mut batch(5), BatchFate::Recorded);
        subscribers.offer(&mut batch(6), BatchFate::Recorded);
        assert_eq!(subscribers.end(), 3);
        assert_eq!(keys(&slow), [5, 6], "what was sent before the end is received");
        assert_eq!(slow.receive(Duration::ZERO), Received::Ended);
        assert_eq!(subscribers.add(1).receive(Duration::ZERO), Received::Ended);
    }

    #[test]
    fn a_batch_that_nobody_takes_stays_with_the_run() {
        let subscribers = Subscribers::default();
        let mut own = batch(1);
        subscribers.offer(&mut own, BatchFate::Recorded);
        assert_eq!(own, batch(1));
        let full = subscribers.add(1);
        subscribers.offer(&mut own, BatchFate::Recorded);
        let mut second = batch(2);
        subscribers.offer(&mut second, BatchFate::NotRecorded);
        assert_eq!(second, batch(2), "the refused batch comes back");
        assert_eq!(keys(&full), [1]);
    }
}
