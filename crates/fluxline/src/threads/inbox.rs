//! Frames that other threads received for this one.

use std::mem;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fluxline_core::port::{Identification, IncomingTrain};

/// The most bytes that wait: more are dropped, as a full receive buffer does.
const INBOX_BYTES_MAX: usize = 16 << 20;

/// A train that arrived at another port.
#[derive(Debug)]
pub(super) struct HandedTrain {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Box<[u8]>,
    frame_bytes: usize,
    identification: Identification,
    congestion: bool,
}

impl HandedTrain {
    pub(super) fn of(train: &IncomingTrain<'_>) -> HandedTrain {
        let IncomingTrain { from, to, bytes, frame_bytes, identification, congestion } = *train;
        HandedTrain { from, to, bytes: bytes.into(), frame_bytes, identification, congestion }
    }

    pub(super) fn train(&self) -> IncomingTrain<'_> {
        let HandedTrain { from, to, ref bytes, frame_bytes, identification, congestion } = *self;
        IncomingTrain { from, to, bytes, frame_bytes, identification, congestion }
    }
}

/// The outcome of handing a train over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandedOver {
    /// It is the first that waits: its thread may sleep.
    First,
    /// Others wait already.
    Behind,
    /// The inbox is full.
    Dropped,
}

#[derive(Debug, Default)]
struct Waiting {
    trains: Vec<HandedTrain>,
    bytes: usize,
}

/// The inbox of one node.
#[derive(Debug)]
#[repr(align(128))] // Polled by one thread: on cache lines of its own.
pub(super) struct Inbox {
    /// A train waits. It is looked at without the lock.
    is_filled: AtomicBool,
    is_open: AtomicBool,
    waiting: Mutex<Waiting>,
}

impl Inbox {
    pub(super) fn new() -> Inbox {
        Inbox {
            is_filled: AtomicBool::new(false),
            is_open: AtomicBool::new(true),
            waiting: Mutex::default(),
        }
    }

    /// Returns true while the node lives.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Returns true when a train waits.
    #[inline]
    pub(super) fn is_filled(&self) -> bool {
        self.is_filled.load(Ordering::Relaxed)
    }

    /// Locks the trains; the data stays sound where a thread has panicked.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, train: &IncomingTrain<'_>) -> HandedOver {
        let mut waiting = self.lock();
        let bytes = waiting.bytes + train.bytes.len();
        if bytes > INBOX_BYTES_MAX || !self.is_open() {
            return HandedOver::Dropped;
        }
        waiting.bytes = bytes;
        waiting.trains.push(HandedTrain::of(train));
        self.is_filled.store(true, Ordering::Relaxed);
        match waiting.trains.len() {
            1 => HandedOver::First,
            _ => HandedOver::Behind,
        }
    }

    /// Moves all trains into `into`, which is empty.
    pub(super) fn take(&self, into: &mut Vec<HandedTrain>) {
        let mut waiting = self.lock();
        mem::swap(&mut waiting.trains, into);
        waiting.bytes = 0;
        self.is_filled.store(false, Ordering::Relaxed);
    }

    /// Drops all trains, now and later: the node is gone.
    pub(super) fn close(&self) {
        let mut waiting = self.lock();
        self.is_open.store(false, Ordering::Relaxed);
        *waiting = Waiting::default();
        self.is_filled.store(false, Ordering::Relaxed);
    }
}
