//! Every fragment arrives once, whatever the order, the delays and the losses of a network.

use std::collections::BTreeMap;

use fluxline_core::random::Draw;

use super::{BuildOrder, Building, Events};
use crate::load::traffic::{Arrivals, Message, Pattern, Plan, Size, Workload};
use crate::{Duration, Instant};

const ORDERS: [BuildOrder; 4] =
    [BuildOrder::Together, BuildOrder::Shifted, BuildOrder::Credits(1), BuildOrder::Credits(3)];

fn plan(nodes: u32, arrivals: Arrivals) -> Plan {
    Plan { nodes, pattern: Pattern::Uniform, arrivals, size: Size::Fixed(100), seed: 7 }
}

fn building(builders: u32, order: BuildOrder, memory: u64) -> Building {
    Building { builders, order, memory, patience: Duration::from_us(50) }
}

/// A network that delivers each message after a random time, and loses some.
struct Network {
    draw: Draw,
    lost: f64,
    now: Instant,
    under_way: BTreeMap<(Instant, u64), Message>,
    sent: u64,
    /// Fragments that arrived, by event and source.
    arrived: BTreeMap<(u64, u32), u32>,
}

impl Network {
    fn new(seed: u64, lost: f64) -> Network {
        Network {
            draw: Draw::new(seed),
            lost,
            now: Instant::START,
            under_way: BTreeMap::new(),
            sent: 0,
            arrived: BTreeMap::new(),
        }
    }

    fn take(&mut self, events: &mut Events, node: u32) {
        while let Some(message) = events.next(node, self.now) {
            assert!(message.source == node && message.at <= self.now);
            self.sent += 1;
            if !self.draw.chance(self.lost) {
                let after = Duration::from_ns(50 + self.draw.below(500));
                self.under_way.insert((self.now + after, self.sent), message);
            }
        }
    }

    fn run(&mut self, events: &mut Events, until: Instant) {
        (0..events.nodes()).for_each(|node| self.take(events, node));
        loop {
            while let Some(node) = events.ready() {
                self.take(events, node);
            }
            let arrival = self.under_way.first_key_value().map(|((at, _), _)| *at);
            let Some(at) = arrival.into_iter().chain(events.next_moment()).min() else { return };
            if at > until {
                return;
            }
            self.now = at;
            events.moment(at);
            if arrival == Some(at)
                && let Some((_, message)) = self.under_way.pop_first()
            {
                if events.is_payload(&message) {
                    *self.arrived.entry((message.event, message.source)).or_default() += 1;
                }
                events.arrived(&message, at);
            }
        }
    }
}

#[test]
fn every_fragment_of_every_event_arrives_once_in_every_order() {
    for order in ORDERS {
        for (sources, builders) in [(2, 1), (2, 2), (7, 3), (3, 7)] {
            let arrivals = Arrivals::Window { messages: 8 };
            // Memory for two events in each builder.
            let memory = 2 * 100 * u64::from(sources);
            let building = building(builders, order, memory);
            let mut events =
                Events::new(plan(sources + builders, arrivals), building, &[]).expect("a plan");
            let mut network = Network::new(3, 0.0);
            network.run(&mut events, Instant::from_ps(20_000_000));
            let counts = events.events().expect("counts");
            let name = format!("{order:?}, {sources} x {builders}");
            assert!(counts.built > 10, "{name}: {} events", counts.built);
            assert_eq!((counts.incomplete, counts.late, counts.vetoed), (0, 0, 0), "{name}");
            assert!(network.arrived.values().all(|&times| times == 1), "{name}");
            let complete = |event: &u64| {
                (0..sources).all(|source| network.arrived.contains_key(&(*event, source)))
            };
            let seen = network.arrived.keys().map(|(event, _)| event).max().expect("arrivals");
            let built = (0..=*seen).filter(complete).count() as u64;
            assert_eq!((built, counts.latency.count()), (counts.built, counts.built), "{name}");
            assert_eq!(counts.bytes, built * u64::from(sources) * 100, "{name}");
            // The last fragment ends an event, so its memory is never full of one.
            let most = counts.memory.iter().map(super::Level::most).max();
            assert!(most.is_some_and(|most| most <= memory), "{name}: {most:?} bytes");
        }
    }
}

#[test]
fn a_lost_fragment_or_credit_ends_its_event_after_the_patience() {
    for order in ORDERS {
        let arrivals = Arrivals::Periodic { bytes_per_s: 1e8 };
        let building = building(2, order, 4_000);
        let mut events = Events::new(plan(6, arrivals), building, &[]).expect("a plan");
        let mut network = Network::new(9, 0.02);
        network.run(&mut events, Instant::from_ps(2_000_000_000));
        let counts = events.events().expect("counts");
        // 2,000 triggers, each with four fragments, and four credits in their order.
        let (built, incomplete) = (counts.built, counts.incomplete);
        assert!(incomplete > 100, "{order:?}: {incomplete} incomplete");
        // A credit that is lost is missing until then; the others lose their own events alone.
        let least = if let BuildOrder::Credits(_) = order { 500 } else { 1_700 };
        assert!(built > least, "{order:?}: {built} built");
        assert_eq!(built + incomplete + events.open.len() as u64, 2_000, "{order:?}");
        assert!(network.arrived.values().all(|&times| times == 1), "{order:?}");
    }
}

#[test]
fn triggers_beyond_the_network_are_vetoed_and_counted() {
    let arrivals = Arrivals::Poisson { bytes_per_s: 1e12 };
    let building = building(1, BuildOrder::Together, 1_000);
    let mut events = Events::new(plan(3, arrivals), building, &[]).expect("a plan");
    let mut network = Network::new(1, 0.0);
    network.run(&mut events, Instant::from_ps(1_000_000));
    assert_eq!(events.open.len(), super::EVENTS_OPEN_MAX);
    assert!(events.events().expect("counts").vetoed > 5_000);
}

#[test]
fn shifted_sources_never_meet_at_a_builder_while_there_are_enough_builders() {
    let arrivals = Arrivals::Window { messages: 18 };
    let building = building(6, BuildOrder::Shifted, 10_000);
    let mut events = Events::new(plan(12, arrivals), building, &[]).expect("a plan");
    for _ in 0..18 {
        let targets: Vec<u32> = (0..6)
            .map(|source| events.next(source, Instant::START).expect("a fragment").to)
            .collect();
        assert!((6..12).all(|builder| targets.contains(&builder)), "{targets:?}");
    }
}

#[test]
fn weights_scale_the_fragments_and_leave_nodes_out() {
    let arrivals = Arrivals::Window { messages: 1 };
    let building = building(1, BuildOrder::Together, 1_000);
    let mut events = Events::new(plan(4, arrivals), building, &[2.5, 0.0, 0.001]).expect("a plan");
    let mut next = |node| events.next(node, Instant::START).map(|message| message.bytes);
    assert_eq!((next(0), next(1), next(2), next(3)), (Some(250), None, Some(1), None));
}

#[test]
fn plans_that_cannot_be_built_are_refused_with_a_sentence() {
    let window = Arrivals::Window { messages: 4 };
    let cases = [
        (building(0, BuildOrder::Together, 1_000), vec![], "give 1 to 7"),
        (building(8, BuildOrder::Together, 1_000), vec![], "give 1 to 7"),
        (building(2, BuildOrder::Credits(0), 1_000), vec![], "1 or more"),
        (building(2, BuildOrder::Together, 599), vec![], "an event of 600 bytes does not fit"),
        (building(5, BuildOrder::Shifted, 1_000), vec![], "less than a round of 5"),
        (building(2, BuildOrder::Together, 599), vec![0.0; 8], "no node is a source"),
    ];
    for (building, weights, part) in cases {
        let error = Events::new(plan(8, window), building, &weights).expect_err("refused");
        assert!(error.to_string().contains(part), "{error}");
    }
}
