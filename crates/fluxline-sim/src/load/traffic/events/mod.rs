//! Event building: each trigger gives every source one fragment, and one builder gets them all.
//!
//! ```text
//!  trigger e -> source 0 ─ fragment ─┐
//!            -> source 1 ─ fragment ─┼─ network ─> builder e mod B, complete after the last
//!            -> source 2 ─ fragment ─┘
//! ```
//!
//! Triggers are common to all sources, periodic or random; or each waits until fewer than a window
//! of events are open. A builder has memory for some events, and admits them in the order of their
//! triggers; fragments of others wait at their sources. What a source sends next is the
//! [`BuildOrder`].

mod counts;

use std::collections::{BTreeMap, VecDeque};

use fluxline_core::random::Draw;

pub use counts::{EventCounts, Level};

use super::{Arrivals, Message, Plan, PlanError, Workload, exponential};
use crate::{Duration, Instant};

/// Most events that wait or are built at a time; later triggers are vetoed. Assumed: as many as
/// messages wait at a node in other patterns.
const EVENTS_OPEN_MAX: usize = 1024;
/// Bytes of a credit: the number of the event, as a 64-bit word.
const CREDIT_BYTES: u32 = 8;
/// Marks the number of an event in a credit.
const CREDIT: u64 = 1 << 63;

/// The order in which fragments are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildOrder {
    /// All at once: sources send the fragments of event 0, then of event 1, so all of them send to
    /// one builder at a time.
    Together,
    /// Barrel shifter: a round has one event per builder, and source s begins with event s, so
    /// every builder receives from a different source at any time. A source waits for the trigger
    /// of its next event.
    Shifted,
    /// Push with credits: a builder sends credits, messages of 8 bytes, for this many fragments at
    /// a time; a source sends a fragment when it has the credit.
    Credits(u32),
}

/// The parts of event building beside a traffic plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Building {
    /// The number of builders, which are the last nodes.
    pub builders: u32,
    /// The order of fragments.
    pub order: BuildOrder,
    /// Memory of a builder \[bytes\]. It admits as many events as fit with fragments of the
    /// greatest size.
    pub memory: u64,
    /// The time from admission after which a builder gives up an event.
    pub patience: Duration,
}

/// An event that was triggered, and neither built nor given up.
#[derive(Debug)]
struct Event {
    trigger: Instant,
    /// The fragment of each source \[bytes\]; 0: it has arrived, or the source is silent.
    fragments: Vec<u32>,
    missing: u32,
    arrived_bytes: u64,
    /// Sources without a credit yet, first in first out.
    unasked: VecDeque<u32>,
    /// Credits under way, and fragments under way for them.
    asked: u32,
    /// The time at which the builder gives up; `None`: it has not admitted the event.
    deadline: Option<Instant>,
}

#[derive(Debug, Default)]
struct Builder {
    /// Events that wait for memory.
    waiting: VecDeque<u64>,
    /// Events in memory, oldest first.
    admitted: VecDeque<u64>,
    /// Credits to send: event and source.
    credits: VecDeque<(u64, u32)>,
}

#[derive(Debug, Default)]
struct Source {
    /// Share of the fragment sizes of the plan; 0: the node is not a source.
    weight: f64,
    /// Fragments sent or skipped, for orders without credits.
    position: u64,
    /// Events with a credit.
    credits: VecDeque<u64>,
}

/// The traffic of event building.
#[derive(Debug)]
pub struct Events {
    plan: Plan,
    building: Building,
    draw: Draw,
    /// The time of the next trigger of an open loop \[ps\].
    due_ps: f64,
    /// The number of the next event.
    next: u64,
    open: BTreeMap<u64, Event>,
    builders: Vec<Builder>,
    sources: Vec<Source>,
    /// Events that a builder's memory holds.
    places: usize,
    /// Nodes that may have something new to send.
    ready: VecDeque<u32>,
    counts: EventCounts,
}

impl Events {
    /// Makes the traffic of event building. The pattern of the plan is not used; `weights` gives
    /// the fragments of each source as multiples of the plan's sizes, and 0 leaves a node out;
    /// empty: all are equal. The load of the plan is that of a source with weight 1.
    ///
    /// # Errors
    /// When there is no builder or no source, an event does not fit into the memory of a builder,
    /// credits or the window are empty, or a barrel shifter's window has fewer events than a round.
    pub fn new(plan: Plan, building: Building, weights: &[f64]) -> Result<Events, PlanError> {
        plan.size.check()?;
        plan.check_arrivals()?;
        let fail = |text: String| Err(PlanError(text));
        let Building { builders, order, memory, .. } = building;
        if builders == 0 || builders >= plan.nodes {
            let most = plan.nodes.saturating_sub(1);
            return fail(format!(
                "{builders} builders among {} nodes: give 1 to {most}",
                plan.nodes
            ));
        }
        if order == BuildOrder::Credits(0) {
            return fail("0 credits: give 1 or more".into());
        }
        let weight = |node: u32| weights.get(node as usize).copied().unwrap_or(1.0);
        let sources: Vec<Source> = (0..plan.nodes - builders)
            .map(|node| Source { weight: weight(node), ..Source::default() })
            .collect();
        let largest = |source: &Source| u64::from(scaled(plan.size.max(), source.weight));
        let event_bytes: u64 = sources.iter().map(largest).sum();
        if event_bytes == 0 {
            return fail("no node is a source: give one a load above 0".into());
        }
        let places = memory / event_bytes;
        if places == 0 {
            return fail(format!(
                "an event of {event_bytes} bytes does not fit into a builder with {memory} bytes"
            ));
        }
        if let (Arrivals::Window { messages }, BuildOrder::Shifted) = (plan.arrivals, order)
            && messages < builders
        {
            return fail(format!(
                "a window of {messages} events is less than a round of {builders}"
            ));
        }
        let mut events = Events {
            draw: Draw::new(plan.seed),
            due_ps: 0.0,
            next: 0,
            open: BTreeMap::new(),
            builders: (0..builders).map(|_| Builder::default()).collect(),
            sources,
            places: usize::try_from(places).unwrap_or(usize::MAX),
            ready: VecDeque::new(),
            counts: EventCounts {
                memory: vec![Level::default(); builders as usize],
                ..EventCounts::default()
            },
            plan,
            building,
        };
        events.plan_trigger();
        events.fill_window(Instant::START);
        Ok(events)
    }

    /// Draws the time of the next trigger of an open loop.
    fn plan_trigger(&mut self) {
        let interval = self.plan.interval_ps(1.0);
        self.due_ps += match self.plan.arrivals {
            Arrivals::Poisson { .. } => exponential(&mut self.draw) * interval,
            Arrivals::Periodic { .. } => interval,
            Arrivals::Window { .. } | Arrivals::Silent => f64::INFINITY,
        };
    }

    /// Triggers events while fewer than the window are open.
    fn fill_window(&mut self, now: Instant) {
        if let Arrivals::Window { messages } = self.plan.arrivals {
            while self.open.len() < messages as usize {
                self.trigger(now);
            }
        }
    }

    /// Gives every source a fragment.
    fn trigger(&mut self, now: Instant) {
        if self.open.len() >= EVENTS_OPEN_MAX {
            self.counts.vetoed += 1;
            return;
        }
        let (size, draw) = (&self.plan.size, &mut self.draw);
        let fragments: Vec<u32> =
            self.sources.iter().map(|source| scaled(size.draw(draw), source.weight)).collect();
        let with_fragment = (0..).zip(&fragments).filter(|(_, bytes)| **bytes > 0);
        let mut unasked: VecDeque<u32> = with_fragment.map(|(source, _)| source).collect();
        let (missing, number) = (unasked.len() as u32, self.next);
        // Builders begin with different sources, as in a barrel shifter.
        unasked.rotate_left(number as usize % unasked.len());
        let event = Event {
            trigger: now,
            fragments,
            missing,
            arrived_bytes: 0,
            unasked,
            asked: 0,
            deadline: None,
        };
        self.next += 1;
        self.open.insert(number, event);
        self.counts.waiting.change(i64::from(missing), now);
        let builder = self.builder_of(number);
        self.builders[builder].waiting.push_back(number);
        self.admit(builder, now);
    }

    fn builder_of(&self, event: u64) -> usize {
        (event % self.builders.len() as u64) as usize
    }

    /// Lets waiting events into the memory of a builder, and sends its credits.
    fn admit(&mut self, builder: usize, now: Instant) {
        let at = &mut self.builders[builder];
        while at.admitted.len() < self.places
            && let Some(number) = at.waiting.pop_front()
        {
            at.admitted.push_back(number);
            let event = self.open.get_mut(&number).expect("a waiting event is open");
            event.deadline = Some(now + self.building.patience);
            if !matches!(self.building.order, BuildOrder::Credits(_)) {
                self.ready.extend(0..self.sources.len() as u32);
            }
        }
        self.ask(builder);
    }

    /// Makes credits for the oldest events of a builder, as many as may be under way.
    fn ask(&mut self, builder: usize) {
        let BuildOrder::Credits(most) = self.building.order else { return };
        let at = &mut self.builders[builder];
        let mut asked: u32 = at.admitted.iter().map(|number| self.open[number].asked).sum();
        for number in &at.admitted {
            let event = self.open.get_mut(number).expect("an admitted event is open");
            while asked < most
                && let Some(source) = event.unasked.pop_front()
            {
                at.credits.push_back((*number, source));
                event.asked += 1;
                asked += 1;
            }
        }
        self.ready.push_back(self.plan.nodes - self.building.builders + builder as u32);
    }

    /// Returns the event of a source's fragment at a position of its order.
    fn event_at(&self, source: u32, position: u64) -> u64 {
        let builders = u64::from(self.building.builders);
        match self.building.order {
            BuildOrder::Shifted => {
                position / builders * builders + (position + u64::from(source)) % builders
            }
            _ => position,
        }
    }

    /// Returns the next event whose fragment a source sends now.
    fn next_of(&mut self, source: u32) -> Option<u64> {
        if let BuildOrder::Credits(_) = self.building.order {
            let credits = &mut self.sources[source as usize].credits;
            return std::iter::from_fn(|| credits.pop_front())
                .find(|at| self.open.contains_key(at));
        }
        loop {
            let number = self.event_at(source, self.sources[source as usize].position);
            if number >= self.next {
                return None;
            }
            let event = self.open.get(&number);
            if event.is_some_and(|event| event.deadline.is_none()) {
                return None;
            }
            self.sources[source as usize].position += 1;
            // A source that was slow skips an event that was given up.
            if event.is_some_and(|event| event.fragments[source as usize] > 0) {
                return Some(number);
            }
        }
    }

    /// Takes a fragment into the memory of its builder.
    fn fragment(&mut self, message: &Message, now: Instant) {
        let builder = self.builder_of(message.event);
        let Some(event) = self.open.get_mut(&message.event) else {
            self.counts.late += 1;
            return;
        };
        let bytes = std::mem::take(&mut event.fragments[message.source as usize]);
        assert_eq!(bytes, message.bytes, "every fragment arrives once, with all its bytes");
        event.missing -= 1;
        event.asked = event.asked.saturating_sub(1);
        event.arrived_bytes += u64::from(bytes);
        self.counts.waiting.change(-1, now);
        self.counts.memory[builder].change(i64::from(bytes), now);
        if event.missing == 0 {
            let event = self.close(message.event, now);
            self.counts.built += 1;
            self.counts.bytes += event.arrived_bytes;
            self.counts.latency.add(now.since(event.trigger));
        } else {
            self.ask(builder);
        }
    }

    /// Ends an event: its memory is free for the next one.
    fn close(&mut self, number: u64, now: Instant) -> Event {
        let builder = self.builder_of(number);
        let event = self.open.remove(&number).expect("an event ends once");
        self.builders[builder].admitted.retain(|&other| other != number);
        self.builders[builder].credits.retain(|&(other, _)| other != number);
        self.counts.waiting.change(-i64::from(event.missing), now);
        self.counts.memory[builder].change(-(event.arrived_bytes as i64), now);
        self.admit(builder, now);
        self.fill_window(now);
        event
    }

    /// Returns the event that is given up next, and when: the oldest ones of the builders.
    fn next_given_up(&self) -> Option<(Instant, u64)> {
        let oldest = self.builders.iter().filter_map(|builder| builder.admitted.front());
        oldest.filter_map(|number| Some((self.open[number].deadline?, *number))).min()
    }
}

impl Workload for Events {
    fn nodes(&self) -> u32 {
        self.plan.nodes
    }

    fn next(&mut self, source: u32, now: Instant) -> Option<Message> {
        let first_builder = self.sources.len() as u32;
        if let Some(builder) = source.checked_sub(first_builder) {
            let (event, to) = self.builders[builder as usize].credits.pop_front()?;
            return Some(Message {
                at: now,
                source,
                to,
                bytes: CREDIT_BYTES,
                event: event | CREDIT,
            });
        }
        let number = self.next_of(source)?;
        let to = first_builder + self.builder_of(number) as u32;
        let event = &self.open[&number];
        let bytes = event.fragments[source as usize];
        Some(Message { at: event.trigger, source, to, bytes, event: number })
    }

    fn arrived(&mut self, message: &Message, now: Instant) {
        if !self.is_payload(message) {
            let event = message.event & !CREDIT;
            if self.open.contains_key(&event) {
                self.sources[message.to as usize].credits.push_back(event);
                self.ready.push_back(message.to);
            }
            return;
        }
        self.fragment(message, now);
    }

    fn ready(&mut self) -> Option<u32> {
        self.ready.pop_front()
    }

    fn next_moment(&self) -> Option<Instant> {
        let trigger = self.due_ps.is_finite().then(|| Instant::from_ps(self.due_ps as u64));
        let given_up = self.next_given_up().map(|(at, _)| at);
        [trigger, given_up].into_iter().flatten().min()
    }

    fn moment(&mut self, now: Instant) {
        while Instant::from_ps(self.due_ps as u64) <= now {
            self.trigger(now);
            self.plan_trigger();
        }
        while let Some((at, number)) = self.next_given_up()
            && at <= now
        {
            self.close(number, now);
            self.counts.incomplete += 1;
        }
    }

    fn is_payload(&self, message: &Message) -> bool {
        message.event & CREDIT == 0
    }

    fn events(&self) -> Option<&EventCounts> {
        Some(&self.counts)
    }

    fn begin(&mut self, now: Instant) {
        self.counts.reset(now);
    }

    fn is_closed_loop(&self) -> bool {
        true
    }
}

/// Returns the bytes of a fragment of a source; at least 1, unless the source is silent.
fn scaled(bytes: u32, weight: f64) -> u32 {
    if weight > 0.0 { ((f64::from(bytes) * weight).round() as u32).max(1) } else { 0 }
}

#[cfg(test)]
mod tests;
