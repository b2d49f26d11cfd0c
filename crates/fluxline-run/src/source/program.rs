//! Packets that the program pushes which started the run: [`Feeder`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fluxline::ring::{Producer, PushError, RingCounters, SlotMeta, Waited};
use fluxline_daq::experiment::{OnRingFull, Program, Source};
use fluxline_daq::ledger::InputCounters;

use super::{Feed, InputEnd, OpenInput, new_ring};
use crate::error::Error;
use crate::monitor::Monitor;
use crate::ring::InputRing;
use crate::stop::Stop;

/// Longest wait before the end of the run is noticed.
const LOOK: Duration = Duration::from_millis(5);

/// Pushes packets into a run, as one of its sources. When it is dropped, the source has ended.
///
/// Several threads may push through one feeder, in turns.
#[derive(Debug)]
pub struct Feeder(FeedHandle);

/// The state that feeder, run and thread share.
#[derive(Clone)]
pub(crate) struct FeedHandle(Arc<Shared>);

struct Shared {
    name: String,
    state: Mutex<State>,
    /// The run or the feeder has ended: pushes stop waiting.
    is_over: AtomicBool,
    on_full: OnRingFull,
}

struct State {
    /// `None` once the source has ended.
    ring: Option<Producer>,
    counters: InputCounters,
    ring_counters: RingCounters,
    taken: bool,
}

impl std::fmt::Debug for FeedHandle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("FeedHandle").field("name", &self.0.name).finish_non_exhaustive()
    }
}

/// The reason why a packet was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// The ring is full, and the experiment says `on-ring-full = "drop"`: the packet is counted.
    #[error("source `{0}`: the ring is full; the packet is dropped and counted")]
    Dropped(String),
    /// The packet is longer than the source allows; it is not counted.
    #[error(
        "source `{name}`: a packet of {bytes} bytes is longer than datagram-bytes-max = {max}; \
         raise it, or push smaller packets"
    )]
    TooLong {
        /// The source.
        name: String,
        /// The packet \[byte\].
        bytes: usize,
        /// The limit \[byte\].
        max: usize,
    },
    /// The run or the source has ended.
    #[error("source `{0}` has ended: the run was stopped, or the feeder was closed")]
    Ended(String),
}

impl Feeder {
    /// Pushes one packet; with `on-ring-full = "wait"`, the default, it waits for room.
    ///
    /// # Errors
    /// [`FeedError`]; the packet is then not in the run.
    pub fn push(&self, packet: &[u8]) -> Result<(), FeedError> {
        let shared = &*self.0.0;
        loop {
            if shared.is_over.load(Ordering::Relaxed) {
                return Err(FeedError::Ended(shared.name.clone()));
            }
            let mut state = shared.state();
            match state.push(packet) {
                Pushed::Done => return Ok(()),
                Pushed::Ended => return Err(FeedError::Ended(shared.name.clone())),
                Pushed::TooLong(max) => {
                    let (name, bytes) = (shared.name.clone(), packet.len());
                    return Err(FeedError::TooLong { name, bytes, max });
                }
                Pushed::Full if shared.on_full == OnRingFull::Drop => {
                    state.counters.datagrams += 1;
                    state.counters.bytes += packet.len() as u64;
                    state.counters.ring_full += 1;
                    return Err(FeedError::Dropped(shared.name.clone()));
                }
                Pushed::Full => state.wait(),
            }
        }
    }

    /// Returns the source's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.0.name
    }

    /// Ends the source; later pushes fail. Packets pushed before are still recorded.
    pub fn close(&self) {
        self.0.0.end();
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        self.close();
    }
}

impl FeedHandle {
    /// Returns the name of its source.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the feeder; `None`: it was taken before.
    pub fn take(&self) -> Option<Feeder> {
        let was_taken = std::mem::replace(&mut self.0.state().taken, true);
        (!was_taken).then(|| Feeder(self.clone()))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the ring: the readout reads what is in it, and then sees its end.
    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.state().end();
    }
}

enum Pushed {
    Done,
    Full,
    TooLong(usize),
    Ended,
}

impl State {
    fn push(&mut self, packet: &[u8]) -> Pushed {
        let Some(ring) = &mut self.ring else { return Pushed::Ended };
        let meta = SlotMeta { time: fluxline::clock::now(), ..SlotMeta::EMPTY };
        match ring.push(packet, meta) {
            Ok(()) => {
                self.counters.datagrams += 1;
                self.counters.bytes += packet.len() as u64;
                Pushed::Done
            }
            Err(PushError::Full) => Pushed::Full,
            Err(PushError::TooLong { slot_bytes, .. }) => Pushed::TooLong(slot_bytes),
            Err(PushError::ConsumerGone) => Pushed::Ended,
        }
    }

    fn wait(&mut self) {
        if let Some(ring) = &mut self.ring
            && ring.wait_for_space(LOOK) == Waited::Closed
        {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some(ring) = self.ring.take() {
            self.ring_counters = ring.counters().clone();
        }
    }
}

/// Waits for the end of the source or of the run.
struct ProgramFeed(FeedHandle);

impl Feed for ProgramFeed {
    fn run(self: Box<Self>, stop: &Stop, monitor: &Monitor) -> InputEnd {
        let shared = &*self.0.0;
        while !stop.is_over() && !shared.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
            monitor.publish_input(|| shared.state().counters.clone().into());
        }
        shared.end();
        let state = shared.state();
        monitor.publish_input_end(state.counters.clone().into());
        let (counters, ring) = (state.counters.clone(), state.ring_counters.clone());
        InputEnd { counters, ring, ..InputEnd::default() }
    }
}

/// Opens a source that the program fills.
pub(super) fn open(source: &Source, program: &Program) -> Result<OpenInput, Error> {
    let (config, ring, consumer) = new_ring(source, program.datagram_bytes_max)?;
    let shared = FeedHandle(Arc::new(Shared {
        name: source.name.clone(),
        state: Mutex::new(State {
            ring: Some(ring),
            counters: InputCounters::default(),
            ring_counters: RingCounters::default(),
            taken: false,
        }),
        is_over: AtomicBool::new(false),
        on_full: program.on_ring_full,
    }));
    let feed = ProgramFeed(shared.clone());
    let ring = InputRing::Slots(consumer);
    let input = OpenInput::new(source, ring, config.memory_bytes(), feed);
    Ok(OpenInput { feeder: Some(shared), ..input })
}
