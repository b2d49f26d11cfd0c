//! Event builder: packets of many sources become events, each packet in exactly one place.
//!
//! A packet joins an event by its key, by its window of time, or is an event of its own. A key's
//! event closes when no source can add to it any more: each has its whole fragment in it or has
//! passed it (`frontier.rs`), is silent while others send, or has ended (`members.rs`, `judge.rs`).
//! What comes later is recorded as a late fragment (`late.rs`), never dropped. Keys that count anew
//! begin a generation (`generations.rs`, `line.rs`). Memory is bounded and used again: when it runs
//! out, the oldest event closes; packets are refused only at the limit of bytes. What must not
//! happen is said by the names of the tests beside this file; docs/events.md explains the rule.

mod arrival;
mod batch;
mod closed;
mod closing;
mod config;
mod coverage;
mod frontier;
mod generations;
mod growth;
mod inputs;
mod judge;
mod jump;
mod keys;
mod lacking;
mod lanes;
mod late;
mod line;
mod members;
mod near;
mod position;
mod reports;
mod slab;
mod store;
mod summary;
#[cfg(test)]
mod tests;
mod timeline;
mod watch;

use fluxline_core::{Datagram, Moment, Span};
use fluxline_packet::{Parsed, Part};

use crate::event::EventBatch;
use crate::ledger::{BuilderCounters, SourceCounters};
use crate::merge::Times;
use crate::readout::Accepted;
use arrival::Arrival;
use batch::Gathering;
pub use config::{BuilderConfig, Expectation, Late, Mode, Placement, Scope, WindowClock};
use generations::{Generations, Now};
pub use growth::with_growth;
use inputs::Inputs;
use judge::Blocker;
use keys::{EventId, KeyState, Keys, SCOPE_ALL};
use lanes::Lanes;
use line::{Context, Has, Keyed, Located};
use members::Members;
pub use position::Position;
use position::{Anchor, RawKey};
use reports::Reports;
pub use reports::{Report, Said};
use slab::Slab;
pub use summary::{Amendment, EventKey, ExpectedBy, SourceState, SourceSummary};

/// The event builder. Time is an argument; it should not go back (if it does, the latest counts).
///
/// Memory: [`BuilderConfig::memory_bytes_max`], and about 8 KiB per source. Cost: one look-up, at
/// most, and two copies per packet; nothing is allocated once the vectors have grown to the size
/// of the events.
#[derive(Clone, Debug)]
pub struct Builder {
    config: BuilderConfig,
    clock: Moment,
    /// When the first keyed packet came.
    begun: Option<Moment>,
    /// Until then, events wait for sources that may join.
    settled: Moment,
    /// When the last packet of any source was taken.
    activity: Moment,
    lateness: Span,
    anchor: Anchor,
    members: Members,
    inputs: Inputs,
    generations: Generations,
    keys: Keys,
    slab: Slab,
    lanes: Lanes,
    gathering: Gathering,
    /// The event of the packet before: most packets are of the same one.
    last: Option<(EventId, u32)>,
    /// The source that the lowest event waits for.
    blocker: Option<Blocker>,
    /// No event is open below.
    horizon: Position,
    bytes_open: u64,
    /// From so many open events and their bytes on, the oldest is closed.
    pressed: judge::Pressed,
    counters: BuilderCounters,
    per_source: Vec<SourceCounters>,
    reports: Reports,
    amendments: Vec<Amendment>,
    /// The newest generation that was said to begin.
    generation_said: u32,
    rate: watch::Rate,
    /// Memory for lists of sources.
    scratch: Vec<u32>,
    /// Memory for what an event lacks.
    lacking: Vec<closing::Lacking>,
}

/// A window of time as a fixed generation: its start is the key.
const WINDOWS: RawKey = RawKey { ordinal: 0, bits: 64 };

impl Builder {
    /// A builder without events. Allocates the table of keys.
    #[must_use]
    pub fn new(config: BuilderConfig) -> Builder {
        let keyed = config.mode != Mode::Packet;
        Builder {
            clock: Moment::default(),
            begun: None,
            settled: Moment::default(),
            activity: Moment::default(),
            lateness: config.lateness,
            anchor: Anchor::default(),
            members: Members::new(config.expectation.clone()),
            inputs: Inputs::default(),
            generations: Generations::default(),
            keys: Keys::new(if keyed { config.closed_keys_max as usize } else { 1 }),
            slab: Slab::new(with_growth(config.bytes_open_max)),
            lanes: Lanes::default(),
            gathering: Gathering::default(),
            last: None,
            blocker: None,
            horizon: Position::default(),
            bytes_open: 0,
            pressed: judge::Pressed::of(&config),
            counters: BuilderCounters::default(),
            per_source: Vec::new(),
            reports: Reports::new(),
            amendments: Vec::new(),
            generation_said: 0,
            rate: watch::Rate::default(),
            scratch: Vec::new(),
            lacking: Vec::new(),
            config,
        }
    }

    /// Source `number` is called `label`: makes it a required one where
    /// [`Expectation::Sources`] names it. To be called before its first packet.
    pub fn name_source(&mut self, number: u32, label: &str) {
        self.members.name(number, label);
    }

    /// A packet came. It is copied; says where it was put, which is counted too.
    pub fn push(
        &mut self,
        now: Moment,
        accepted: &Accepted,
        datagram: &Datagram<'_>,
        parsed: &Parsed,
    ) -> Placement {
        self.clock = self.clock.max(now);
        let stream = matches!(self.config.mode, Mode::Window { .. });
        let arrival = Arrival { accepted, datagram, parsed, stream };
        let placement = match (self.config.mode, parsed.event) {
            (Mode::Packet, _) => self.push_alone(&arrival),
            (Mode::Key(scope), Some(key)) => self.push_keyed(&arrival, scope, key),
            (Mode::Key(_), None) => self.push_keyless(&arrival),
            (Mode::Window { width, lateness, clock }, _) => {
                self.push_windowed(&arrival, width, lateness, clock)
            }
        };
        let counters = source_counters(&mut self.per_source, accepted.source);
        match placement {
            Placement::Stored => {}
            Placement::Late => counters.in_late += 1,
            Placement::LateDropped => counters.late_dropped += 1,
            Placement::EventDuplicate => counters.event_duplicate += 1,
            Placement::Inconsistent => counters.inconsistent += 1,
            Placement::BuilderFull => counters.builder_full += 1,
        }
        if self.config.mode != Mode::Packet {
            self.settle(accepted.source);
        }
        placement
    }

    /// Closes the events whose time is over at `now`: nothing that arrived before is still to be
    /// taken, but of inputs with unread packets ([`Self::note_backlog`]).
    pub fn poll(&mut self, now: Moment) {
        self.clock = self.clock.max(now);
        self.inputs.pass(self.clock);
        self.settle_by_time();
        self.watch_rate();
    }

    /// Says whether packets of input `input` wait to be taken. While they do, its sources are not
    /// silent, however long nothing of them is pushed.
    pub fn note_backlog(&mut self, input: u16, has_unread: bool) {
        self.inputs.note_backlog(input, has_unread);
    }

    /// Input `input` has ended: no event waits for its sources from now on.
    pub fn end_input(&mut self, input: u16) {
        self.inputs.end(input);
        for number in 0..self.members.count() {
            let seen = self
                .members
                .get(number)
                .is_some_and(|its| its.input == input && its.state != SourceState::Unseen);
            if seen {
                self.members.set_state(number, SourceState::Ended);
            }
        }
        self.blocker = None;
        self.settle_by_time();
    }

    /// When [`Self::poll`] has something to do next, if nothing comes: a time-out or a batch's age.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        let due = self.gathering.begun().map(|begun| begun + self.config.batch_age);
        let oldest = self.slab.oldest().map(|slot| {
            let event = self.slab.event(slot);
            match self.config.mode {
                Mode::Window { .. } => event.deadline,
                Mode::Packet | Mode::Key(_) => event.opened + self.lateness,
            }
        });
        oldest.into_iter().chain(due).min()
    }

    /// The end of the run: closes all events. The last batch is then to be taken.
    pub fn finish(&mut self, now: Moment) {
        self.poll(now);
        self.close_all();
    }

    /// Whether the batch is large or old enough to be taken.
    #[must_use]
    pub fn batch_is_due(&self, now: Moment) -> bool {
        self.gathering.is_large(self.config.batch_bytes)
            || self.gathering.begun().is_some_and(|begun| begun + self.config.batch_age <= now)
    }

    /// Hands out the closed events gathered so far (possibly none); goes on with the memory of
    /// `spare`.
    #[must_use]
    pub fn take_batch(&mut self, spare: EventBatch) -> EventBatch {
        self.gathering.take(spare)
    }

    /// What the builder counted.
    #[must_use]
    pub fn counters(&self) -> BuilderCounters {
        self.counters.clone()
    }

    /// The builder's share of each source's counters, by source number.
    #[must_use]
    pub fn source_counters(&self) -> &[SourceCounters] {
        &self.per_source
    }

    /// How many events are open.
    #[must_use]
    pub fn events_open(&self) -> u32 {
        self.slab.open_count()
    }

    /// What open events and the batch take \[byte\], as bounded by
    /// [`BuilderConfig::bytes_open_max`].
    #[must_use]
    pub fn bytes_open(&self) -> u64 {
        self.bytes_open + self.gathering.cost()
    }

    /// Whether a packet of `bytes` would still be stored.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        let most = bytes as u64 + arrival::TABLES_BYTES_MAX;
        self.bytes_open() + most <= self.config.bytes_open_max
    }

    /// Returns how far input `input` has come: the lower position of its two newest packets.
    #[must_use]
    pub(crate) fn position(&self, input: u16) -> Option<Position> {
        self.inputs.position(input)
    }

    /// Input `input` is read on demand, as all others are: no event closes before it has passed it.
    pub(crate) fn read_on_demand(&mut self, input: u16, times: Times) {
        self.inputs.read_on_demand(input, times);
    }

    fn push_alone(&mut self, arrival: &Arrival<'_>) -> Placement {
        if self.bytes_open() + arrival.cost(false) > self.config.bytes_open_max {
            return Placement::BuilderFull;
        }
        let packet = arrival.alone(self.clock);
        self.gathering.add_packet(packet);
        source_counters(&mut self.per_source, arrival.accepted.source).in_complete += 1;
        self.counters.events_complete += 1;
        Placement::Stored
    }

    /// A packet without a key, among others with keys: its number counts all the same.
    fn push_keyless(&mut self, arrival: &Arrival<'_>) -> Placement {
        let Accepted { source, input, counted, .. } = *arrival.accepted;
        let clock = self.inputs.take(input, arrival.datagram.time);
        self.activity = self.clock;
        let member = self.members.know(source);
        member.meet(input, arrival.datagram.time, self.clock);
        let line = member.line(counted.map(|counted| counted.class));
        member.lines[line].pass(counted, clock);
        self.push_alone(arrival)
    }

    fn push_keyed(&mut self, arrival: &Arrival<'_>, scope: Scope, key: u64) -> Placement {
        let raw = RawKey { ordinal: self.anchor.ordinal(key), bits: arrival.accepted.event_bits };
        let spill = arrival
            .parsed
            .spill
            .map(|spill| RawKey { ordinal: spill, bits: arrival.accepted.spill_bits });
        let scope = match scope {
            Scope::Global => SCOPE_ALL,
            Scope::PerSource => arrival.accepted.source,
        };
        let located = self.locate(arrival, scope, Keyed { raw, spill });
        let id = EventId { scope, position: located.position };
        self.join(arrival, id, located, Moment::default())
    }

    fn push_windowed(
        &mut self,
        arrival: &Arrival<'_>,
        width: Span,
        lateness: Span,
        clock: WindowClock,
    ) -> Placement {
        let time_ns = match clock {
            WindowClock::Arrival => Some(arrival.datagram.time.as_ns()),
            WindowClock::Sensor => arrival.parsed.sensor_time_ns,
        };
        let Some(time_ns) = time_ns else { return self.push_keyless(arrival) };
        let width_ns = width.as_ns().max(1);
        let start_ns = time_ns - time_ns % width_ns;
        let raw = RawKey { ordinal: self.anchor.ordinal(start_ns), bits: 64 };
        let located = self.locate(arrival, SCOPE_ALL, Keyed { raw, spill: Some(WINDOWS) });
        let id = EventId { scope: SCOPE_ALL, position: located.position };
        let deadline = match clock {
            WindowClock::Arrival => Moment::from_ns(start_ns) + width + lateness,
            // The sensor's clock may be set wrong, but it runs as fast as ours.
            WindowClock::Sensor => self.clock + width + lateness,
        };
        if deadline <= self.clock && !matches!(self.keys.look_up(id), Some(KeyState::Open(_))) {
            let state = self.keys.look_up(id).unwrap_or(KeyState::Forgotten);
            return self.push_late(arrival, id, state, located);
        }
        self.join(arrival, id, located, deadline)
    }

    /// Where the packet belongs by its key; its source joins or returns, if it was not there.
    #[inline]
    fn locate(&mut self, arrival: &Arrival<'_>, scope: u32, keyed: Keyed) -> Located {
        let Accepted { source, input, counted, .. } = *arrival.accepted;
        self.activity = self.clock;
        let Builder { members, inputs, generations, keys, slab, config, clock, lateness, .. } =
            self;
        let input_clock = inputs.take(input, arrival.datagram.time);
        let member = members.know(source);
        member.meet(input, arrival.datagram.time, *clock);
        let line = member.line(counted.map(|counted| counted.class));
        let generations = match scope {
            SCOPE_ALL => generations,
            _ => &mut **member.own.get_or_insert_default(),
        };
        let has = |position| {
            let id = EventId { scope, position };
            match keys.look_up(id) {
                Some(KeyState::Open(slot)) => slab.event(slot).has(source),
                Some(KeyState::Closed(number)) if keys.closed().has(number, id.bit_of(source)) => {
                    Has::Whole
                }
                _ => Has::Nothing,
            }
        };
        let now = Now { time: *clock, time_out: config.time_out };
        let clock = input_clock;
        let mut context = Context { generations, now, clock, lateness: *lateness, has: &has };
        let line = &mut member.lines[line];
        let located = line.locate(keyed, counted, &mut context);
        if counted.is_some_and(|counted| counted.missing > 0) {
            line.forget_before(self.horizon);
        }
        inputs.reach(input, located.position);
        if !member.is_usual_packet(located) {
            self.arrive(arrival, located);
        }
        located
    }
}

/// The counters of source `number`; its source is known, so the list is bounded as the table is.
fn source_counters(list: &mut Vec<SourceCounters>, number: u32) -> &mut SourceCounters {
    let place = number as usize;
    if list.len() <= place {
        list.resize_with(place + 1, SourceCounters::default);
    }
    &mut list[place]
}
