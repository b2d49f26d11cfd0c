//! Event builder: packets of many sources become events, each packet in exactly one place.
//!
//! A packet joins an event by its key, by its window of time, or is an event of its own. An event
//! knows which parts of which source's fragment came (`coverage.rs`), closes when everything
//! required is there, when its time is over or when the run ends, and says what it lacks
//! (`lacking.rs`). Closed keys are remembered (`keys.rs`), so that late packets neither begin an
//! event anew nor close another one. Memory is bounded and used again; what does not fit is
//! refused at the door, so that overload costs the newest packets and never an event that is half
//! built. What must not happen is said by the names of the tests beside this file.

mod arrival;
mod batch;
mod closed;
mod closing;
mod config;
mod coverage;
mod keys;
mod lacking;
mod room;
mod slab;
mod sources;
#[cfg(test)]
mod tests;

use fluxline_proto::description::{Parsed, Part};
use fluxline_proto::{Datagram, Moment, Span};

use crate::event::{EventBatch, EventStatus};
use crate::ledger::{BuilderCounters, SourceCounters};
use crate::readout::Accepted;
use arrival::{Arrival, Compared};
use batch::Gathering;
pub use config::{BuilderConfig, Expectation, Late, Mode, Placement, Scope, WindowClock};
use coverage::{Coverage, Meets};
use keys::{EventId, KeyState, Keys, SCOPE_ALL};
use slab::{Fragment, Slab, Waiting};
use sources::Sources;

/// The event builder. Time is an argument; it should not go back (if it does, the latest counts).
///
/// Memory: [`BuilderConfig::bytes_open_max`] (up to twice that, and once again in free slots) and
/// about 60 bytes per remembered key. Cost: one look-up, at most, and two copies per packet;
/// nothing is allocated once the vectors have grown to the size of the events.
#[derive(Clone, Debug)]
pub struct Builder {
    config: BuilderConfig,
    clock: Moment,
    sources: Sources,
    keys: Keys,
    slab: Slab,
    gathering: Gathering,
    /// The event of the packet before: most packets are of the same one.
    last: Option<(EventId, u32)>,
    bytes_open: u64,
    counters: BuilderCounters,
    per_source: Vec<SourceCounters>,
    /// Memory for lists of slots.
    scratch: Vec<u32>,
    /// Memory for a set of sources.
    whole: Vec<u64>,
}

impl Builder {
    /// A builder without events. Allocates the table of keys.
    #[must_use]
    pub fn new(config: BuilderConfig) -> Builder {
        let keyed = config.mode != Mode::Packet;
        let (open, closed) = (config.events_open_max as usize, config.closed_keys_max as usize);
        Builder {
            clock: Moment::default(),
            sources: Sources::new(config.expectation.clone()),
            keys: if keyed { Keys::new(open, closed) } else { Keys::new(0, 1) },
            slab: Slab::new(config.bytes_open_max),
            gathering: Gathering::default(),
            last: None,
            bytes_open: 0,
            counters: BuilderCounters::default(),
            per_source: Vec::new(),
            scratch: Vec::new(),
            whole: Vec::new(),
            config,
        }
    }

    /// Source `number` is called `label`: makes it a required one where
    /// [`Expectation::Sources`] names it. To be called before its first packet.
    pub fn name_source(&mut self, number: u32, label: &str) {
        self.sources.name(number, label);
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
        let source = self.sources.know(accepted.source);
        if source.epoch != accepted.epoch {
            source.epoch = accepted.epoch;
            self.keys.expect_restart(SCOPE_ALL);
        }
        let stream = matches!(self.config.mode, Mode::Window { .. });
        let arrival = Arrival { accepted, datagram, parsed, stream };
        let placement = match self.config.mode {
            Mode::Packet => self.push_alone(&arrival),
            Mode::Key(scope) => match parsed.event {
                Some(key) => self.push_keyed(&arrival, scope, key),
                None => self.push_alone(&arrival),
            },
            Mode::Window { width, lateness, clock } => {
                let time_ns = match clock {
                    WindowClock::Arrival => Some(datagram.time.as_ns()),
                    WindowClock::Sensor => parsed.sensor_time_ns,
                };
                match time_ns {
                    Some(time_ns) => self.push_windowed(&arrival, time_ns, width, lateness, clock),
                    None => self.push_alone(&arrival),
                }
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
        placement
    }

    /// Closes the events whose time is over at `now`.
    pub fn poll(&mut self, now: Moment) {
        self.clock = self.clock.max(now);
        while let Some((slot, deadline)) = self.slab.head(Waiting::Optional)
            && deadline <= self.clock
        {
            self.close(slot, EventStatus::Complete);
        }
        while let Some((slot, deadline)) = self.slab.head(Waiting::Required)
            && deadline <= self.clock
        {
            let status = match self.config.mode {
                _ if self.has_required(slot) => EventStatus::Complete,
                _ => EventStatus::Incomplete,
            };
            self.close(slot, status);
        }
    }

    /// When [`Self::poll`] has something to do next, if nothing comes: a time-out or a batch's age.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        let due = self.gathering.begun().map(|begun| begun + self.config.batch_age);
        let heads = [Waiting::Optional, Waiting::Required].map(|list| self.slab.head(list));
        heads.into_iter().flatten().map(|head| head.1).chain(due).min()
    }

    /// The end of the run: closes all events. The last batch is then to be taken.
    pub fn finish(&mut self, now: Moment) {
        self.poll(now);
        self.close_all(EventStatus::Stopped, |_| true);
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
        BuilderCounters { key_restarts: self.keys.restarts(), ..self.counters.clone() }
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

    fn push_alone(&mut self, arrival: &Arrival<'_>) -> Placement {
        if self.bytes_open() + arrival.cost(false) > self.config.bytes_open_max {
            return Placement::BuilderFull;
        }
        let row = arrival.row();
        self.gathering.add_packet(row, arrival.datagram.bytes, self.clock);
        source_counters(&mut self.per_source, row.source).in_complete += 1;
        self.counters.events_complete += 1;
        Placement::Stored
    }

    fn push_keyed(&mut self, arrival: &Arrival<'_>, scope: Scope, key: u64) -> Placement {
        let scope = match scope {
            Scope::Global => SCOPE_ALL,
            Scope::PerSource => self.source_scope(arrival.accepted),
        };
        let id = self.keys.event_id(scope, key, arrival.accepted.event_bits);
        let deadline = self.clock + self.config.time_out;
        self.join(arrival, id, deadline)
    }

    fn push_windowed(
        &mut self,
        arrival: &Arrival<'_>,
        time_ns: u64,
        width: Span,
        lateness: Span,
        clock: WindowClock,
    ) -> Placement {
        let width_ns = width.as_ns().max(1);
        let start_ns = time_ns - time_ns % width_ns;
        let id = self.keys.event_id(SCOPE_ALL, start_ns, 64);
        let deadline = match clock {
            WindowClock::Arrival => Moment::from_ns(start_ns) + width + lateness,
            // The sensor's clock may be set wrong, but it runs as fast as ours.
            WindowClock::Sensor => self.clock + width + lateness,
        };
        if deadline <= self.clock {
            let state = self.keys.look_up(id).unwrap_or(KeyState::Forgotten);
            return self.push_late(arrival, id, state);
        }
        self.join(arrival, id, deadline)
    }

    /// The scope of a source's own keys; a restart of the source closes its open events.
    fn source_scope(&mut self, accepted: &Accepted) -> u32 {
        let scope = accepted.source;
        if self.keys.epoch(scope) != accepted.epoch {
            self.close_all(EventStatus::Incomplete, |event| event.id.scope == scope);
            self.keys.begin_epoch(scope, accepted.epoch);
        }
        scope
    }

    /// Puts the packet into the event `id`, which begins with it if it is unknown.
    fn join(&mut self, arrival: &Arrival<'_>, id: EventId, deadline: Moment) -> Placement {
        if !Coverage::is_sound(arrival.parsed.part, arrival.parsed.payload_bytes) {
            return Placement::Inconsistent;
        }
        let slot = match self.last {
            Some((last, slot)) if last == id => slot,
            _ => match self.keys.look_up(id) {
                Some(KeyState::Open(slot)) => slot,
                Some(state) => return self.push_late(arrival, id, state),
                None if self.slab.open_count() >= self.config.events_open_max
                    || self.has_no_room(arrival, 0, arrival.cost(true)) =>
                {
                    return Placement::BuilderFull;
                }
                None => {
                    let slot = self.begin(id, arrival.datagram.time, deadline);
                    self.last = Some((id, slot));
                    self.store(arrival, slot, None);
                    return Placement::Stored;
                }
            },
        };
        self.last = Some((id, slot));
        self.join_open(arrival, slot)
    }

    /// Records a packet of a closed event as late, if it did not come before.
    fn push_late(&mut self, arrival: &Arrival<'_>, id: EventId, state: KeyState) -> Placement {
        let source = arrival.accepted.source;
        let bit = if id.scope == SCOPE_ALL { source } else { 0 };
        let number = if let KeyState::Closed(number) = state { number } else { u64::MAX };
        if !arrival.stream && self.keys.closed().has(number, bit) {
            return Placement::EventDuplicate;
        }
        if self.config.late == Late::Drop {
            return Placement::LateDropped;
        }
        if self.bytes_open() + arrival.cost(false) > self.config.bytes_open_max {
            return Placement::BuilderFull;
        }
        if arrival.parsed.part == Part::Whole {
            self.keys.closed().add(number, bit);
        }
        self.gathering.add_late(id, arrival.row(), arrival.datagram.bytes, self.clock);
        Placement::Late
    }

    /// Puts the packet into the open event in `slot`, if it fits what came before.
    fn join_open(&mut self, arrival: &Arrival<'_>, slot: u32) -> Placement {
        let hint = self.sources.know(arrival.accepted.source).hint;
        let event = self.slab.event(slot);
        let place = event.fragment_of(arrival.accepted.source, hint);
        if let Some(place) = place {
            let coverage = &event.fragments[place].coverage;
            match coverage.meet(arrival.parsed.part, arrival.parsed.payload_bytes) {
                Meets::New => {}
                Meets::Contradiction => return Placement::Inconsistent,
                Meets::Overlap { adds } => match arrival.compare(event) {
                    Compared::Different => return Placement::Inconsistent,
                    Compared::Repeated => return Placement::EventDuplicate,
                    Compared::Agrees if !adds => return Placement::EventDuplicate,
                    Compared::Agrees => {}
                },
            }
        }
        if self.has_no_room(arrival, event.packets.len(), arrival.cost(place.is_none())) {
            return Placement::BuilderFull;
        }
        self.store(arrival, slot, place);
        Placement::Stored
    }

    /// Whether there is no room for a packet of that cost in an event of so many packets.
    fn has_no_room(&self, arrival: &Arrival<'_>, packets: usize, cost: u64) -> bool {
        let packets_max = self.config.packets_per_event_max;
        let announced = match arrival.parsed.part {
            Part::Index { count, .. } if !arrival.stream => count,
            _ => 0,
        };
        packets >= packets_max as usize
            || announced > packets_max
            || self.bytes_open() + cost > self.config.bytes_open_max
    }

    fn begin(&mut self, id: EventId, first: Moment, deadline: Moment) -> u32 {
        let slot = self.slab.take(id, first, deadline);
        self.keys.open(id, slot);
        self.slab.event_mut(slot).required_left =
            if id.scope == SCOPE_ALL { self.sources.required() } else { 1 };
        self.counters.events_open_most =
            self.counters.events_open_most.max(u64::from(self.slab.open_count()));
        slot
    }

    /// Stores the packet in the open event in `slot`; `place` is where its fragment is, if begun.
    fn store(&mut self, arrival: &Arrival<'_>, slot: u32, place: Option<usize>) {
        let (source, part) = (arrival.accepted.source, arrival.parsed.part);
        let cost = arrival.cost(place.is_none());
        let event = self.slab.event_mut(slot);
        let place = place.unwrap_or_else(|| {
            let place = event.add_fragment(source);
            match arrival.stream {
                true => event.fragments[place].coverage.begin_stream(),
                false => event.fragments[place].coverage.begin(part),
            }
            place
        });
        event.packets.push(arrival.row());
        event.bytes.extend_from_slice(arrival.datagram.bytes);
        event.first = event.first.min(arrival.datagram.time);
        event.last = event.last.max(arrival.datagram.time);
        event.cost += cost;
        let Fragment { coverage, complete } = &mut event.fragments[place];
        coverage.add(part, arrival.parsed.payload_bytes);
        let completes = !*complete && coverage.is_complete();
        *complete |= completes;
        self.bytes_open += cost;
        let bytes_open = self.bytes_open();
        self.counters.bytes_open_most = self.counters.bytes_open_most.max(bytes_open);
        self.sources.know(source).hint = place;
        if completes {
            self.fragment_completed(slot, source);
        }
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
