//! The decider of a builder on a real link: a thread beside the builder, which it never holds back.
//!
//! ```text
//!   builder ──ask──▶ the newest events that wait ──▶ function ──▶ write
//!                        └ more than `waiting-max`: the oldest is skipped
//! ```

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline_cluster::edges::{Offered, Outlets};
use fluxline_core::Span;

use super::decider::{Asked, Decider, Outcome};
use super::inline::say_gone;
use super::part::{DeciderPart, LeftBehind};
use crate::filter::RunSource;

/// The longest sleep without an event.
const REST: Duration = Duration::from_millis(1);
/// The longest sleep while the actuator has no room.
const NAP: Span = Span::from_ns(100_000);
/// Time after the end of the run in which the actuator may still make room.
const END_WRITES: Duration = Duration::from_secs(10);
/// Time without progress after which the function is left behind at the end of a run, beyond the
/// time that an answer may take.
const END_ANSWER: Duration = Duration::from_secs(10);

/// The builder's side of a decider.
pub(crate) struct WorkerHandle {
    shared: Arc<Shared>,
    over: Receiver<()>,
    builder: usize,
    answer: Duration,
    monitor: crate::monitor::Monitor,
    left_behind: LeftBehind,
}

/// The thread's side.
pub(crate) struct Worker<O> {
    decider: Decider,
    outlets: O,
    shared: Arc<Shared>,
    is_gone: bool,
    _over: Sender<()>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    waiting_max: usize,
}

#[derive(Default)]
struct State {
    sources: Vec<RunSource>,
    waiting: VecDeque<Asked>,
    is_asking: bool,
    /// The time at which the last event had come.
    closed: Option<Instant>,
    /// The run has ended without it: counts do not change.
    is_left: bool,
    part: DeciderPart,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: Outlets> Worker<O> {
    /// Makes both sides; `answer_ms` is the time that an answer may take.
    pub fn new(
        decider: Decider,
        outlets: O,
        waiting_max: usize,
        answer_ms: u64,
        left_behind: LeftBehind,
    ) -> (Worker<O>, WorkerHandle) {
        let (state, changed) = (Mutex::new(State::default()), Condvar::new());
        let shared = Arc::new(Shared { state, changed, waiting_max });
        let (to, over) = channel();
        let (builder, monitor) = (decider.builder(), decider.monitor().clone());
        let answer = Duration::from_millis(answer_ms) + END_ANSWER;
        let handle = WorkerHandle {
            shared: Arc::clone(&shared),
            over,
            builder,
            answer,
            monitor,
            left_behind,
        };
        (Worker { decider, outlets, shared, is_gone: false, _over: to }, handle)
    }

    /// Decides until the builder has ended.
    pub fn run(mut self) {
        let hello = self.decider.hello();
        self.write(&hello, false);
        while let Some(asked) = self.next() {
            let outcome = self.decider.ask(&asked);
            let decided = clock::now();
            let record = match &outcome {
                Outcome::Decided(decision) => Some(self.decider.record(&asked, decision, decided)),
                Outcome::Declined | Outcome::Undecided => None,
            };
            self.count(|part| match outcome {
                Outcome::Decided(_) => part.decided += 1,
                Outcome::Declined => part.declined += 1,
                Outcome::Undecided => part.undecided += 1,
            });
            if let Some(record) = record {
                self.write(&record, true);
            }
        }
        let end = self.decider.end();
        self.write(&end, false);
        let began = Instant::now();
        while !self.outlets.finish() && began.elapsed() < END_WRITES {
            self.outlets.rest(NAP);
        }
    }

    /// Counts the outcome of the event in hand.
    fn count(&self, add: impl FnOnce(&mut DeciderPart)) {
        let mut state = self.shared.state();
        state.is_asking = false;
        if !state.is_left {
            add(&mut state.part);
        }
    }

    /// Waits for the next event; `None`: there is none any more.
    fn next(&mut self) -> Option<Asked> {
        loop {
            self.outlets.progress();
            let mut state = self.shared.state();
            if state.waiting.is_empty() && state.closed.is_none() {
                let woken = self.shared.changed.wait_timeout(state, REST);
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
            let sources = std::mem::take(&mut state.sources);
            sources.iter().for_each(|source| self.decider.add_source(source));
            match state.waiting.pop_front() {
                Some(asked) => {
                    state.is_asking = true;
                    return Some(asked);
                }
                None if state.closed.is_some() => return None,
                None => {}
            }
        }
    }

    /// Writes a record to the actuator, waiting for room.
    fn write(&mut self, record: &[u8], is_decision: bool) {
        loop {
            let why = match self.outlets.offer(0, record) {
                Offered::Taken => return self.outlets.progress(),
                Offered::Full => {
                    let closed = self.shared.state().closed;
                    match closed.is_some_and(|closed| closed.elapsed() > END_WRITES) {
                        true => "it took nothing for 10 s after the end of the run".to_owned(),
                        false => {
                            self.outlets.progress();
                            self.outlets.rest(NAP);
                            continue;
                        }
                    }
                }
                Offered::Gone(why) => why,
            };
            say_gone(&mut self.is_gone, &self.decider, &why);
            return self.count(|part| part.not_written += u64::from(is_decision));
        }
    }
}

impl WorkerHandle {
    pub fn add_source(&self, source: RunSource) {
        self.shared.state().sources.push(source);
    }

    /// Takes a closed event; never waits.
    pub fn ask(&self, asked: Asked) {
        let mut state = self.shared.state();
        if state.waiting.len() >= self.shared.waiting_max {
            state.waiting.pop_front();
            state.part.skipped += 1;
        }
        state.waiting.push_back(asked);
        drop(state);
        self.shared.changed.notify_one();
    }

    pub fn part(&self) -> DeciderPart {
        self.shared.state().part
    }

    /// Waits until the function has decided on what waits; leaves one behind that does not return.
    pub fn finish(&self) {
        self.shared.state().closed = Some(Instant::now());
        self.shared.changed.notify_one();
        let (mut before, mut since) = (0, Instant::now());
        while self.over.recv_timeout(REST) == Err(RecvTimeoutError::Timeout) {
            let mut state = self.shared.state();
            let progress = state.waiting.len() * 2 + usize::from(state.is_asking);
            if progress != before {
                (before, since) = (progress, Instant::now());
            }
            if since.elapsed() > self.answer + END_WRITES {
                let left = state.waiting.len() as u64 + u64::from(state.is_asking);
                state.part.undecided += left;
                state.is_left = true;
                state.waiting.clear();
                drop(state);
                self.left_behind.add(self.builder);
                self.monitor.fault(format_args!(
                    "the function of [loop] at builder-{} does not return: the run ends without \
                     it, and {left} events are undecided",
                    self.builder
                ));
                return;
            }
        }
    }
}
