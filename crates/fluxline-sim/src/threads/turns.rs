//! The turns of the programs of a world: one thread runs at a time, in an order of its own.
//!
//! A program ends its turn when it waits, or when several polls in a row brought nothing. It can go
//! on when its node has a completion or when its time has come; a program that polls looks at its
//! memory, too, and goes on when another node has changed it. While a program can go on, time
//! stands still: the next is drawn from the seed. When none can, time moves to the next event.
//!
//! Nothing of this depends on the scheduler of the operating system: the program that ends its turn
//! chooses the next program, while all other threads sleep.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use fluxline_core::random::Draw;
use fluxline_core::{Moment, Span};

use super::watch::{self, Watch};
use crate::world::{Cluster, Look};

/// The longest virtual time of one wait: `wait` may return early, and a program that waits for ever
/// is noticed.
const WAIT_MAX: Span = Span::from_ms(1000);

/// The state of a node's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It can run at once.
    Run,
    /// It waits for a completion, or until this moment.
    Wait(Moment),
    /// It polls: it also runs when its memory has changed since it counted these changes.
    Poll {
        /// The moment of the next look.
        until: Moment,
        /// The changes that it has seen.
        changes: u64,
    },
    /// Its node is being dropped, and is looked at again at this moment.
    Linger(Moment),
    /// Its node was dropped.
    Gone,
}

/// A world: its cluster, and who runs.
pub struct Turns {
    name: String,
    names: Vec<String>,
    cluster: Cluster,
    state: Mutex<State>,
    /// A bell for each thread.
    bells: Vec<Condvar>,
}

struct State {
    wishes: Vec<Wish>,
    /// The node whose program runs; `None`: all are gone.
    runs: Option<usize>,
    draw: Draw,
    watch: Watch,
}

impl Turns {
    /// Makes a world of these nodes, and draws the first turn.
    pub fn new(name: &str, names: Vec<String>, cluster: Cluster, seed: u64) -> Turns {
        let bells = names.iter().map(|_| Condvar::new()).collect();
        let wishes = vec![Wish::Run; names.len()];
        let state = State { wishes, runs: None, draw: Draw::new(seed), watch: Watch::default() };
        let turns =
            Turns { name: name.to_owned(), names, cluster, state: Mutex::new(state), bells };
        turns.choose(&mut turns.lock());
        turns
    }

    /// The name of the world.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of the nodes, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns when it is the turn of this node.
    pub fn begin(&self, node: usize) {
        let state = self.lock();
        self.sleep(state, node);
    }

    /// Ends the turn of a node, and returns when its next one begins.
    pub fn hand_over(&self, node: usize, wish: Wish) {
        let mut state = self.lock();
        state.wishes[node] = match wish {
            Wish::Wait(until) => Wish::Wait(until.min(self.cluster.now() + WAIT_MAX)),
            other => other,
        };
        self.choose(&mut state);
        if state.runs != Some(node) {
            // A thread that wakes needs this lock: it would sleep once more.
            let runs = state.runs;
            drop(state);
            self.wake(runs);
            state = self.lock();
        }
        self.sleep(state, node);
    }

    /// Ends the turns of a node whose program has dropped it; returns true for the last one.
    pub fn leave(&self, node: usize) -> bool {
        let mut state = self.lock();
        state.wishes[node] = Wish::Gone;
        self.choose(&mut state);
        let runs = state.runs;
        drop(state);
        self.wake(runs);
        runs.is_none()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until it is the turn of `node`.
    fn sleep(&self, mut state: MutexGuard<'_, State>, node: usize) {
        while state.runs != Some(node) {
            let bell = &self.bells[node];
            let (guard, waking) =
                bell.wait_timeout(state, watch::STEP).unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if let Some(runs) = state.runs
                && waking.timed_out()
                && state.watch.is_stuck(node)
            {
                eprintln!("fluxline: {}", watch::stuck(&self.name, &self.names[runs]));
            }
        }
        state.wishes[node] = Wish::Run;
    }

    /// Wakes the thread of a program.
    fn wake(&self, runs: Option<usize>) {
        if let Some(runs) = runs {
            self.bells[runs].notify_one();
        }
    }

    /// Chooses the program that runs next.
    fn choose(&self, state: &mut State) {
        state.runs = loop {
            let can_run: Vec<usize> = self.cluster.look_at(|now, look| {
                let nodes = 0..self.names.len();
                nodes.filter(|&node| can_run(state.wishes[node], now, || look(node))).collect()
            });
            if !can_run.is_empty() {
                break Some(can_run[state.draw.below(can_run.len() as u64) as usize]);
            }
            let Some(limit) = state.wishes.iter().filter_map(Wish::until).min() else { break None };
            self.cluster.advance(limit);
            self.watch_progress(state);
        };
        state.watch.turn_begins();
    }

    /// Reports programs that have waited for long and get nothing.
    fn watch_progress(&self, state: &mut State) {
        let now = self.cluster.now();
        if state.watch.is_quiet(now, self.cluster.progress()) {
            let waiting = state.wishes.iter().zip(&self.names);
            let waiting = waiting.filter(|of| *of.0 != Wish::Gone).map(|of| of.1.as_str());
            eprintln!("fluxline: {}", watch::quiet(&self.name, now, &waiting.collect::<Vec<_>>()));
        }
    }
}

/// Returns true when a program with this wish can run at `now`.
fn can_run(wish: Wish, now: Moment, look: impl Fn() -> Look) -> bool {
    match wish {
        Wish::Run => true,
        Wish::Gone => false,
        Wish::Linger(until) => until <= now,
        Wish::Wait(until) => until <= now || look().has_completion,
        Wish::Poll { until, changes } => {
            let look = look();
            until <= now || look.has_completion || look.changes != changes
        }
    }
}

impl Wish {
    fn until(&self) -> Option<Moment> {
        match *self {
            Wish::Wait(until) | Wish::Poll { until, .. } | Wish::Linger(until) => Some(until),
            Wish::Run | Wish::Gone => None,
        }
    }
}
