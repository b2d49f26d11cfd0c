//! Event builder: packets of many sources become events, each packet in exactly one place.
//!
//! A packet joins an event by its key, by its window of time, or is an event of its own. A key's
//! event closes when no source can add to it any more: each has its whole fragment in it or has
//! passed it (`frontier.rs`), is silent while others send, or has ended (`members.rs`, `judge.rs`).
//! Later packets are recorded as late fragments (`late.rs`), never dropped. Keys that count anew
//! begin a generation (`generations.rs`, `line.rs`). Memory is bounded and used again: when it runs
//! out, the oldest event closes; packets are refused only at the limit of bytes. The names of the
//! tests beside this file list the failures that must not happen; docs/events.md explains the rule.

mod arrival;
mod batch;
mod closed;
mod closing;
mod config;
mod copies;
mod coverage;
mod elsewhere;
mod event_id;
mod evidence;
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
mod marks;
mod members;
mod near;
mod position;
mod refused;
mod reports;
mod saved;
mod slab;
mod store;
mod summary;
#[cfg(test)]
mod tests;
mod timeline;
mod watch;

use fluxline_core::{Datagram, Moment, Span};
use fluxline_packet::{Parsed, Part};
use serde::{Deserialize, Serialize};

use crate::counters::{BuilderCounters, SourceCounters};
use crate::event::EventBatch;
use crate::readout::{Accepted, Counted};
use crate::times::Times;
use arrival::Arrival;
use batch::Gathering;
pub use config::{BuilderConfig, Expectation, Late, Mode, Placement, Scope, WindowClock};
use event_id::{EventId, SCOPE_ALL};
use generations::{Generations, Now};
pub use growth::with_growth;
use inputs::Inputs;
use judge::Blocker;
use keys::{KeyState, Keys};
pub(crate) use lacking::{LOST, SENT_NOTHING};
use lanes::Lanes;
use line::{Context, Has, Keyed, Located};
use members::Members;
pub use position::Position;
use position::{Anchor, RawKey};
use refused::Refused;
use reports::Reports;
pub use reports::{Report, Said};
pub use saved::Unfit;
use slab::Slab;
pub use summary::{Amendment, EventKey, ExpectedBy, SourceState, SourceSummary};

/// The event builder. Time is an argument and should not go back; if it does, the latest counts.
///
/// Memory: [`BuilderConfig::memory_bytes_max`], and about 8 KiB per source, and 16 KiB
/// more if it has no packet counter. Cost: at most one
/// look-up and two copies per packet; nothing is allocated once the vectors have grown to the size
/// of the events.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Builder {
    config: BuilderConfig,
    time: RunTime,
    anchor: Anchor,
    members: Members,
    inputs: Inputs,
    generations: Generations,
    keys: Keys,
    open: OpenEvents,
    gathering: Gathering,
    counters: BuilderCounters,
    per_source: Vec<SourceCounters>,
    watch: Watch,
    scratch: Scratch,
}

/// The time of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RunTime {
    /// The latest time that was given.
    now: Moment,
    /// The time of the first packet with a key.
    begun: Option<Moment>,
    /// Until this time, events wait for sources that may join.
    settled: Moment,
    /// The time at which the last packet of any source was taken.
    activity: Moment,
    /// Time by which packets may come out of order.
    lateness: Span,
    /// The time that events have as their end, where it is not `now`.
    end: Moment,
    /// Packets that were on their way will not come.
    is_cut: bool,
}

impl RunTime {
    /// Returns the time at which an event ends now.
    fn end(&self) -> Moment {
        self.now.max(self.end)
    }
}

/// The events under construction, and what decides when they close.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct OpenEvents {
    slab: Slab,
    lanes: Lanes,
    bytes: u64,
    /// The event of the packet before: most packets are of the same one.
    last: Option<(EventId, u32)>,
    /// The source that the lowest event waits for.
    blocker: Option<Blocker>,
    /// The position below which no event is open.
    horizon: Position,
    /// The number and the bytes of open events from which on the oldest is closed.
    pressed: judge::Pressed,
    /// Packets of events not closed yet that found no room.
    refused: Refused,
}

/// Changes that are reported to the user, and the measurements for them.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Watch {
    reports: Reports,
    /// The newest generation whose beginning was reported.
    generation_said: u32,
    rate: watch::Rate,
}

/// Memory of lists that are used again.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Scratch {
    /// Sources of an event.
    sources: Vec<u32>,
    /// The missing parts of an event.
    lacking: Vec<closing::Lacking>,
}

/// A window of time as a fixed generation: its start is the key.
const WINDOWS: RawKey = RawKey { ordinal: 0, bits: 64 };

impl Builder {
    /// Makes a builder without events. Allocates the table of keys.
    #[must_use]
    pub fn new(config: BuilderConfig) -> Builder {
        let keyed = config.mode != Mode::Packet;
        Builder {
            time: RunTime {
                now: Moment::default(),
                begun: None,
                settled: Moment::default(),
                activity: Moment::default(),
                lateness: config.lateness,
                end: Moment::default(),
                is_cut: false,
            },
            anchor: Anchor::default(),
            members: Members::new(config.expectation.clone()),
            inputs: Inputs::default(),
            generations: Generations::default(),
            keys: Keys::new(keys::closed_keys_max(&config, keyed)),
            open: OpenEvents {
                slab: Slab::new(with_growth(config.bytes_open_max)),
                lanes: Lanes::default(),
                bytes: 0,
                last: None,
                blocker: None,
                horizon: Position::default(),
                pressed: judge::Pressed::of(&config),
                refused: Refused::default(),
            },
            gathering: Gathering::default(),
            counters: BuilderCounters::default(),
            per_source: Vec::new(),
            watch: Watch {
                reports: Reports::new(),
                generation_said: 0,
                rate: watch::Rate::default(),
            },
            scratch: Scratch::default(),
            config,
        }
    }

    /// Gives source `number` its label, which makes it a required one where
    /// [`Expectation::Sources`] names it. Call it before the source's first packet.
    pub fn name_source(&mut self, number: u32, label: &str) {
        self.members.name(number, label);
    }

    /// Takes a packet and copies it. Returns the place into which it was put, which is counted too.
    pub fn push(
        &mut self,
        now: Moment,
        accepted: &Accepted,
        datagram: &Datagram<'_>,
        parsed: &Parsed,
    ) -> Placement {
        self.time.now = self.time.now.max(now);
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

    /// Returns the number of the newest packet of a source's counter; `None`: none has come since
    /// the counter began anew.
    #[must_use]
    pub fn newest_count(&self, source: u32, counted: &Counted) -> Option<u64> {
        let lines = &self.members.get(source)?.lines;
        let line = lines.iter().find(|line| line.class == Some(counted.class))?;
        let is_its = line.restarts() == counted.restarts && line.newest().is_some();
        is_its.then(|| line.newest_count())
    }

    /// Sets the time that events which close from now on have as their end: where packets wait on
    /// their way, it is later than the time up to which they were taken.
    pub fn end_events_at(&mut self, time: Moment) {
        self.time.end = time;
    }

    /// Records that packets on their way will not come, so that nobody knows whether the events
    /// which close from now on have all of theirs: they end as [`EventStatus::Stopped`], unless a
    /// loss is known. Whole events of one source alone stay complete.
    ///
    /// [`EventStatus::Stopped`]: crate::event::EventStatus::Stopped
    pub fn cut(&mut self) {
        self.time.is_cut = true;
    }

    /// Closes the events whose time is over at `now`. Everything that arrived before must have been
    /// taken, except from inputs with unread packets ([`Self::note_backlog`]).
    pub fn poll(&mut self, now: Moment) {
        self.time.now = self.time.now.max(now);
        self.inputs.pass(self.time.now);
        self.settle_by_time();
        self.watch_rate();
    }

    /// Records whether packets of input `input` wait to be taken. While some wait, its sources are
    /// not silent, however long nothing of them is pushed.
    pub fn note_backlog(&mut self, input: u16, has_unread: bool) {
        self.inputs.note_backlog(input, has_unread);
    }

    /// Returns the next time at which [`Self::poll`] has work without a new packet: a time-out or a
    /// batch's age.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        let due = self.gathering.begun().map(|begun| begun + self.config.batch_age);
        let oldest = self.open.slab.oldest().map(|slot| {
            let event = self.open.slab.event(slot);
            match self.config.mode {
                Mode::Window { .. } => event.deadline,
                Mode::Packet | Mode::Key(_) => event.opened + self.time.lateness,
            }
        });
        oldest.into_iter().chain(due).min()
    }

    /// Ends the run: closes all events. Take the last batch then.
    pub fn finish(&mut self, now: Moment) {
        self.poll(now);
        self.close_all();
    }

    /// Returns true when the batch is large or old enough to be taken.
    #[must_use]
    pub fn batch_is_due(&self, now: Moment) -> bool {
        self.gathering.is_large(self.config.batch_bytes)
            || self.gathering.begun().is_some_and(|begun| begun + self.config.batch_age <= now)
    }

    /// Returns the closed events that are not taken yet.
    #[must_use]
    pub fn closed(&self) -> &EventBatch {
        self.gathering.batch()
    }

    /// Returns the closed events so far, possibly none, and uses the memory of `spare` for the next
    /// ones.
    #[must_use]
    pub fn take_batch(&mut self, spare: EventBatch) -> EventBatch {
        self.gathering.take(spare)
    }

    /// Returns its configuration.
    #[must_use]
    pub fn config(&self) -> &BuilderConfig {
        &self.config
    }

    /// Returns the builder's counters.
    #[must_use]
    pub fn counters(&self) -> BuilderCounters {
        self.counters.clone()
    }

    /// Returns the builder's share of each source's counters, by source number.
    #[must_use]
    pub fn source_counters(&self) -> &[SourceCounters] {
        &self.per_source
    }

    /// Returns the number of open events.
    #[must_use]
    pub fn events_open(&self) -> u32 {
        self.open.slab.open_count()
    }

    /// Returns the number of packets in open events. Cost: one step for each open event.
    #[must_use]
    pub fn packets_open(&self) -> u64 {
        self.open.slab.packets()
    }

    /// Returns the number of packets in closed events that no batch was taken with yet.
    #[must_use]
    pub fn packets_closed(&self) -> u64 {
        self.gathering.packets()
    }

    /// Returns the memory of open events and the batch \[byte\], which
    /// [`BuilderConfig::bytes_open_max`] limits.
    #[must_use]
    pub fn bytes_open(&self) -> u64 {
        self.open.bytes + self.gathering.cost()
    }

    /// Returns true when there is memory for a packet of `bytes`.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        let most = bytes as u64 + arrival::TABLES_BYTES_MAX;
        self.bytes_open() + most <= self.config.bytes_open_max
    }

    /// Returns the progress of input `input`: the lower position of its two newest packets.
    #[must_use]
    pub fn position(&self, input: u16) -> Option<Position> {
        self.inputs.position(input)
    }

    /// Returns true when all inputs share an order of events: by event keys or by sensors' times.
    #[must_use]
    pub fn has_common_order(&self) -> bool {
        matches!(
            self.config.mode,
            Mode::Key(Scope::Global) | Mode::Window { clock: WindowClock::Sensor, .. }
        )
    }

    /// Makes events wait until input `input`, read on demand like all others, has passed them.
    pub fn read_on_demand(&mut self, input: u16, times: Times) {
        self.inputs.read_on_demand(input, times);
    }

    fn push_alone(&mut self, arrival: &Arrival<'_>) -> Placement {
        if self.bytes_open() + arrival.cost() > self.config.bytes_open_max {
            return Placement::BuilderFull;
        }
        let packet = arrival.alone(self.time.end());
        self.gathering.add_packet(packet);
        source_counters(&mut self.per_source, arrival.accepted.source).in_complete += 1;
        self.counters.events_complete += 1;
        Placement::Stored
    }

    /// Takes a packet without a key, among others with keys: its number still counts.
    fn push_keyless(&mut self, arrival: &Arrival<'_>) -> Placement {
        self.pass_keyless(arrival);
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
        if arrival.accepted.counted.is_none() && self.is_copy(arrival, key) {
            return Placement::EventDuplicate;
        }
        let located = self.locate(arrival, scope, Keyed { raw, spill });
        let id = EventId { scope, position: located.position };
        self.join(arrival, id, located, Moment::default())
    }

    /// Returns true when a packet without a counter is a copy of one that came just before.
    fn is_copy(&mut self, arrival: &Arrival<'_>, key: u64) -> bool {
        let Accepted { source, input, .. } = *arrival.accepted;
        let clock = self.inputs.take(input, arrival.datagram.time);
        self.members.know(source).copies.came(arrival, key, clock)
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
            // The sensor's clock may be wrong, but it runs at the same rate as the computer's.
            WindowClock::Sensor => self.time.now + width + lateness,
        };
        if deadline <= self.time.now && !matches!(self.keys.look_up(id), Some(KeyState::Open(_))) {
            let state = self.keys.look_up(id).unwrap_or(KeyState::Forgotten);
            return self.push_late(arrival, id, state, located);
        }
        self.join(arrival, id, located, deadline)
    }

    /// Returns the position of the packet by its key; its source joins or returns if necessary.
    #[inline]
    fn locate(&mut self, arrival: &Arrival<'_>, scope: u32, keyed: Keyed) -> Located {
        let Accepted { source, input, counted, .. } = *arrival.accepted;
        self.time.activity = self.time.now;
        let Builder { members, inputs, generations, keys, open, config, time, .. } = self;
        let input_clock = inputs.take(input, arrival.datagram.time);
        let member = members.know(source);
        member.meet(input, arrival.datagram.time, time.now);
        let line = member.line(counted.map(|counted| counted.class));
        let generations = match scope {
            SCOPE_ALL => generations,
            _ => &mut **member.own.get_or_insert_default(),
        };
        let has = |position| {
            let id = EventId { scope, position };
            match keys.look_up(id) {
                Some(KeyState::Open(slot)) => open.slab.event(slot).has(source),
                Some(KeyState::Closed(number)) if keys.closed().has(number, id.bit_of(source)) => {
                    Has::Whole
                }
                _ => Has::Nothing,
            }
        };
        // The readout may have kept the packet aside: its key is compared with those of its time.
        let kept_aside = input_clock.since(arrival.datagram.time);
        let now = Now { time: time.now - kept_aside, time_out: config.time_out };
        let (clock, lateness) = (input_clock, time.lateness);
        let unproven = member.unproven;
        let mut context = Context { generations, now, clock, lateness, unproven, has: &has };
        let line = &mut member.lines[line];
        let located = line.locate(keyed, counted, &mut context);
        inputs.reach(input, located.position);
        if !member.is_usual_packet(located) {
            self.arrive(arrival, located);
        }
        located
    }
}

/// Returns the counters of source `number`; its source is known, so the list is bounded as the
/// table is.
fn source_counters(list: &mut Vec<SourceCounters>, number: u32) -> &mut SourceCounters {
    let place = number as usize;
    if list.len() <= place {
        list.resize_with(place + 1, SourceCounters::default);
    }
    &mut list[place]
}
