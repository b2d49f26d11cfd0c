//! The protocol in time: caches, memories and real lines over an interconnect.
//!
//! It runs the state machines that the checker visits, on the agenda. The user chooses the
//! [`Interconnect`]: fixed delays, or the formula of an idle ring.

use fluxline_core::random::Draw;

use crate::core::model;
use crate::net::sci::packet::HEADER_SYMBOLS;
use crate::{Agenda, Clock, Duration, Entry, Fingerprint, Instant, Model};

use super::cache::Progress;
use super::line::{CacheState, Line, Operation};
use super::memory::MemoryLine;
use super::message::{Answer, CacheId, Request};
use super::respond::Mistake;

/// Bytes of a line.
pub const LINE_BYTES: usize = 64;

/// Step of the pause before a refused request is repeated: up to 2^n steps after n refusals in a
/// row; assumed.
const PAUSE_STEP: Duration = Duration::from_ns(20);
/// The largest n.
const PAUSE_DOUBLINGS: u8 = 6;

/// The bytes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineData(pub [u8; LINE_BYTES]);

impl Default for LineData {
    fn default() -> LineData {
        LineData([0; LINE_BYTES])
    }
}

/// A destination of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Station {
    /// A cache, at the node of its number.
    Cache(CacheId),
    /// The memory of a line, at the node that has it.
    Memory {
        /// The line.
        line: u32,
    },
}

/// The time that packets take.
pub trait Interconnect {
    /// Returns the travel time of a packet of `symbols` symbols.
    fn delay(&mut self, from: Station, to: Station, symbols: u32) -> Duration;
}

/// The same delay for each packet.
#[derive(Clone, Copy, Debug)]
pub struct FixedDelay(pub Duration);

impl Interconnect for FixedDelay {
    fn delay(&mut self, _from: Station, _to: Station, _symbols: u32) -> Duration {
        self.0
    }
}

/// A ring without other traffic: a packet takes d * h + L symbols. Source: DERIVED in the facts on
/// SCI, zero-load latency. Line l's memory is at node l mod `nodes`.
#[derive(Clone, Copy, Debug)]
pub struct IdleRing {
    /// Nodes on the ring.
    pub nodes: u16,
    /// Pass-through delay of a node \[symbol\].
    pub hop_symbols: u32,
    /// Symbols a second.
    pub clock: Clock,
}

impl Interconnect for IdleRing {
    fn delay(&mut self, from: Station, to: Station, symbols: u32) -> Duration {
        let nodes = u32::from(self.nodes);
        let node = |place| match place {
            Station::Cache(cache) => u32::from(cache) % nodes,
            Station::Memory { line } => line % nodes,
        };
        let links = (node(to) + nodes - node(from)) % nodes;
        self.clock.span(u64::from(links * self.hop_symbols + symbols))
    }
}

/// A finished operation, with its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The cache.
    pub cache: CacheId,
    /// The line.
    pub line: u32,
    /// The operation.
    pub operation: Operation<LineData>,
    /// The data of the line afterwards, if the cache has it.
    pub value: Option<LineData>,
    /// The time at which it began.
    pub began: Instant,
    /// The time at which it was done.
    pub ended: Instant,
}

/// The number of packets there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Operations that needed no packet.
    pub hits: u64,
    /// Operations that needed packets.
    pub misses: u64,
    /// Requests to memory.
    pub memory_requests: u64,
    /// Requests to caches.
    pub cache_requests: u64,
    /// Requests to invalidate a copy, among these.
    pub invalidations: u64,
    /// Requests that were refused and repeated.
    pub nullified: u64,
}

/// The reason why an operation did not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BeginError {
    /// No such cache or line.
    #[error("cache {cache} or line {line} does not exist")]
    Nowhere {
        /// The cache.
        cache: CacheId,
        /// The line.
        line: u32,
    },
    /// The cache has one operation at a time for a line.
    #[error("cache {cache} is still busy with line {line}; wait for its end")]
    Busy {
        /// The cache.
        cache: CacheId,
        /// The line.
        line: u32,
    },
}

/// An arrival.
#[derive(Clone, Debug)]
pub enum Arrival {
    /// Arrival of a request.
    Request {
        /// The requester.
        from: CacheId,
        /// About which line.
        line: u32,
        /// The request.
        request: Request<LineData>,
    },
    /// Arrival of an answer.
    Answer {
        /// The requester.
        to: CacheId,
        /// About which line.
        line: u32,
        /// The answer.
        answer: Answer<LineData>,
    },
}

impl Entry for Arrival {
    fn component(&self) -> u32 {
        match self {
            Arrival::Request { from: cache, line, .. }
            | Arrival::Answer { to: cache, line, .. } => u32::from(*cache) | (line << 8),
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Arrival::Request { .. } => 0,
            Arrival::Answer { .. } => 1,
        }
    }
}

/// Caches and memories that share lines.
pub struct System<I> {
    interconnect: I,
    /// The time that a cache or memory takes to answer.
    service: Duration,
    caches: usize,
    memory: Vec<MemoryLine<LineData>>,
    /// The lines, by line, then by cache.
    lines: Vec<Line<LineData>>,
    began: Vec<Instant>,
    /// Number of refusals in a row, for the pause before the next try.
    refused: Vec<u8>,
    draw: Draw,
    finished: Vec<Finished>,
    defects: Vec<String>,
    counters: Counters,
}

impl<I: Interconnect> System<I> {
    /// Makes a system of `caches` empty caches and `lines` lines of zeros.
    pub fn new(caches: CacheId, lines: u32, service: Duration, interconnect: I) -> System<I> {
        let all = usize::from(caches) * lines as usize;
        System {
            interconnect,
            service,
            caches: usize::from(caches),
            memory: vec![MemoryLine::default(); lines as usize],
            lines: vec![Line::default(); all],
            began: vec![Instant::START; all],
            refused: vec![0; all],
            draw: Draw::new(0),
            finished: Vec::new(),
            defects: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Begins an operation now.
    pub fn begin(
        &mut self,
        cache: CacheId,
        line: u32,
        operation: Operation<LineData>,
        agenda: &mut Agenda<Arrival>,
    ) -> Result<(), BeginError> {
        if usize::from(cache) >= self.caches || line as usize >= self.memory.len() {
            return Err(BeginError::Nowhere { cache, line });
        }
        let place = self.place(cache, line);
        if self.lines[place].doing.is_some() {
            return Err(BeginError::Busy { cache, line });
        }
        self.began[place] = agenda.now();
        let progress = self.lines[place].begin(cache, operation);
        match progress {
            Progress::Done { .. } => self.counters.hits += 1,
            _ => self.counters.misses += 1,
        }
        self.apply(cache, line, progress, agenda);
        Ok(())
    }

    /// Runs until nothing is under way; returns the operations that finished since the last call.
    ///
    /// Errors: a state that the protocol excludes, in words; the checker found no such state.
    pub fn settle(
        &mut self,
        agenda: &mut Agenda<Arrival>,
        fingerprint: &mut Fingerprint,
    ) -> Result<Vec<Finished>, String> {
        model::run(self, agenda, fingerprint, Instant::NEVER);
        match self.defects.first() {
            Some(defect) => Err(defect.clone()),
            None => Ok(std::mem::take(&mut self.finished)),
        }
    }

    /// Returns a cache's state of a line.
    #[must_use]
    pub fn state(&self, cache: CacheId, line: u32) -> CacheState {
        self.lines[self.place(cache, line)].state
    }

    /// Returns the sharing list of a line, head first, as far as it can be followed now.
    #[must_use]
    pub fn list(&self, line: u32) -> Vec<CacheId> {
        let mut list: Vec<CacheId> = Vec::new();
        let mut at = self.memory[line as usize].head;
        while let Some(cache) = at {
            if list.contains(&cache) {
                break;
            }
            list.push(cache);
            at = self.lines[self.place(cache, line)].forward;
        }
        list
    }

    /// Returns the counts of packets.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn place(&self, cache: CacheId, line: u32) -> usize {
        line as usize * self.caches + usize::from(cache)
    }

    fn apply(
        &mut self,
        cache: CacheId,
        line: u32,
        progress: Progress<LineData>,
        agenda: &mut Agenda<Arrival>,
    ) {
        match progress {
            Progress::Waits => {}
            Progress::Defect(what) => {
                self.defects.push(format!("cache {cache}, line {line}: {what}"))
            }
            Progress::Sends(request) => self.send(cache, line, request, agenda),
            Progress::Done { operation, value } => {
                let place = self.place(cache, line);
                self.refused[place] = 0;
                let (began, ended) = (self.began[self.place(cache, line)], agenda.now());
                self.finished.push(Finished { cache, line, operation, value, began, ended });
            }
        }
    }

    fn send(
        &mut self,
        from: CacheId,
        line: u32,
        request: Request<LineData>,
        agenda: &mut Agenda<Arrival>,
    ) {
        let (to, symbols) = match &request {
            Request::Memory { data, .. } => {
                self.counters.memory_requests += 1;
                (Station::Memory { line }, symbols(data.is_some(), false))
            }
            Request::Cache { to, command } => {
                self.counters.cache_requests += 1;
                let purges = matches!(command, super::message::CacheCommand::Invalidate { .. });
                self.counters.invalidations += u64::from(purges);
                (Station::Cache(*to), symbols(false, true))
            }
        };
        let delay = self.interconnect.delay(Station::Cache(from), to, symbols) + self.service;
        let delay = delay + self.pause(from, line);
        agenda.schedule_after(delay, Arrival::Request { from, line, request });
    }

    /// Returns the wait before a refused request is sent again. If all delays are equal, caches
    /// that try again at once can refuse each other for ever: the checker shows that a quiet state
    /// can be reached, not that every schedule reaches it.
    fn pause(&mut self, cache: CacheId, line: u32) -> Duration {
        let refused = self.refused[self.place(cache, line)].min(PAUSE_DOUBLINGS);
        if refused == 0 {
            return Duration::ZERO;
        }
        PAUSE_STEP.times(self.draw.below(1 << refused))
    }

    fn asked(
        &mut self,
        from: CacheId,
        line: u32,
        request: Request<LineData>,
        agenda: &mut Agenda<Arrival>,
    ) {
        let (at, answer) = match request {
            Request::Memory { command, next, data } => {
                let answer = self.memory[line as usize].ask(from, command, next, data);
                (Station::Memory { line }, answer)
            }
            Request::Cache { to, command } => {
                let place = self.place(to, line);
                let answer = self.lines[place].respond(from, command, Mistake::None);
                let progress = self.lines[place].resume(to);
                self.apply(to, line, progress, agenda);
                (Station::Cache(to), answer)
            }
        };
        self.counters.nullified += u64::from(answer.nullified);
        let symbols = symbols(answer.data.is_some(), false);
        let delay = self.interconnect.delay(at, Station::Cache(from), symbols);
        agenda.schedule_after(delay, Arrival::Answer { to: from, line, answer });
    }
}

impl<I: Interconnect> Model for System<I> {
    type Entry = Arrival;

    fn handle(&mut self, entry: Arrival, agenda: &mut Agenda<Arrival>) {
        match entry {
            Arrival::Request { from, line, request } => self.asked(from, line, request, agenda),
            Arrival::Answer { to, line, answer } => {
                let place = self.place(to, line);
                let again = self.refused[place].saturating_add(1);
                self.refused[place] = if answer.nullified { again } else { 0 };
                let progress = self.lines[place].answered(to, answer);
                self.apply(to, line, progress, agenda);
            }
        }
    }
}

/// Symbols of a packet. Requests to caches carry the extended header of 16 bytes (memId, newId).
/// Source: `CacheReadSrc` of U. Stern's Murphi model.
const fn symbols(with_line: bool, extended: bool) -> u32 {
    let data = if with_line { LINE_BYTES as u32 / 2 } else { 0 };
    HEADER_SYMBOLS + data + if extended { 8 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::{BeginError, Clock, FixedDelay, IdleRing, LineData, System};
    use crate::net::sci::coherence::{CacheState, Operation};
    use crate::{Agenda, Duration, Fingerprint};
    use fluxline_core::random::Draw;

    fn filled(with: u64) -> LineData {
        LineData(std::array::from_fn(|place| with.to_le_bytes()[place % 8] ^ place as u8))
    }

    fn ring(caches: u8) -> System<IdleRing> {
        let clock = Clock::from_hertz(500_000_000);
        let ring = IdleRing { nodes: u16::from(caches), hop_symbols: 4, clock };
        System::new(caches, 4, Duration::from_ns(50), ring)
    }

    /// Runs random operations; each load must read the data of the last completed store.
    fn run(seed: u64, rounds: u64) -> (Fingerprint, super::Counters) {
        let (mut draw, caches) = (Draw::new(seed), 8);
        let (mut system, mut agenda) = (ring(caches), Agenda::default());
        let mut print = Fingerprint::default();
        let mut current = [LineData::default(); 4];
        for round in 0..rounds {
            let mut begun = 0;
            for _ in 0..1 + draw.below(12) {
                let (cache, line) = (draw.below(8) as u8, draw.below(4) as u32);
                let operation = match draw.below(8) {
                    0..4 => Operation::Load,
                    4..6 => Operation::Store(filled(draw.bits())),
                    6 => Operation::Delete,
                    _ => Operation::FLUSH,
                };
                begun += u32::from(system.begin(cache, line, operation, &mut agenda).is_ok());
            }
            let finished = system.settle(&mut agenda, &mut print).expect("no excluded state");
            assert_eq!(finished.len() as u32, begun, "seed {seed}, round {round}: each one ends");
            for done in finished {
                let line = done.line as usize;
                match done.operation {
                    Operation::Store(data) => current[line] = data,
                    Operation::Load => {
                        assert_eq!(done.value, Some(current[line]), "seed {seed}, round {round}");
                    }
                    Operation::Delete | Operation::Flush { .. } => {}
                }
            }
        }
        (print, system.counters())
    }

    #[test]
    fn no_load_reads_anything_but_the_last_store_whatever_happens_at_the_same_time() {
        for seed in 0..40 {
            let (_, counters) = run(seed, 200);
            assert!(counters.nullified > 0 && counters.invalidations > 0, "{counters:?}");
        }
    }

    #[test]
    fn a_seed_repeats_to_the_entry() {
        assert_eq!(run(3, 100), run(3, 100));
        assert_ne!(run(3, 100).0, run(4, 100).0);
    }

    #[test]
    fn the_time_of_a_store_grows_by_one_round_trip_with_each_sharer() {
        let delay = Duration::from_ns(100);
        let store = |sharers: u8| {
            let mut agenda = Agenda::default();
            let mut print = Fingerprint::default();
            let mut system = System::new(64, 1, Duration::ZERO, FixedDelay(delay));
            for cache in 0..=sharers {
                system.begin(cache, 0, Operation::Load, &mut agenda).expect("idle");
                system.settle(&mut agenda, &mut print).expect("no excluded state");
            }
            assert_eq!(system.list(0).len(), usize::from(sharers) + 1);
            let data = filled(u64::from(sharers));
            system.begin(sharers, 0, Operation::Store(data), &mut agenda).expect("idle");
            let done = system.settle(&mut agenda, &mut print).expect("no excluded state");
            assert_eq!(system.counters().invalidations, u64::from(sharers));
            assert_eq!(system.state(sharers, 0), CacheState::OnlyDirty);
            done[0].ended.since(done[0].began)
        };
        for sharers in [0, 1, 2, 8, 32, 63] {
            // One round trip to memory (its copy becomes stale), and one per sharer.
            assert_eq!(store(sharers), delay.times(2 * (1 + u64::from(sharers))), "{sharers}");
        }
    }

    #[test]
    fn a_second_operation_on_a_busy_line_and_a_line_that_is_not_there_are_refused() {
        let (mut system, mut agenda) = (ring(2), Agenda::default());
        system.begin(0, 0, Operation::Load, &mut agenda).expect("idle");
        let again = system.begin(0, 0, Operation::Delete, &mut agenda);
        assert_eq!(again, Err(BeginError::Busy { cache: 0, line: 0 }));
        let nowhere = system.begin(0, 4, Operation::Load, &mut agenda);
        assert_eq!(nowhere, Err(BeginError::Nowhere { cache: 0, line: 4 }));
    }
}
