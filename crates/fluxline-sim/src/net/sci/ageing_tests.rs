//! Generations at a receiver that is too slow for its senders.

use std::collections::BTreeMap;

use super::config::{Config, Retry};
use super::link::{Entry, NodeIndex, Report};
use super::random::Random;
use super::{Command, Network, NodeId, Packet, Status};
use crate::Agenda;
use fluxline_core::random::{test_count, test_seed};

enum Due {
    Net(Entry),
    Take,
}

impl From<Entry> for Due {
    fn from(entry: Entry) -> Due {
        Due::Net(entry)
    }
}

/// All nodes send to node 0 and keep their queues full; node 0 needs `service` symbols per packet.
struct Hot {
    network: Network,
    agenda: Agenda<Due>,
    service: u64,
    free_at: u64,
    served: Vec<u64>,
}

impl Hot {
    fn new(config: &Config, service: u64) -> Hot {
        let network = Network::new(config).expect("a ring");
        let served = vec![0; config.addresses.len()];
        Hot { network, agenda: Agenda::default(), service, free_at: 0, served }
    }

    fn offer(&mut self, node: u32) {
        let packet = || Packet {
            target: NodeId(0),
            source: NodeId(node as u16),
            command: Command::Move64,
            transaction: 0,
            offset: 0,
            status: Status::Normal,
            data: Vec::new(),
        };
        while self.network.send(NodeIndex(node), packet(), &mut self.agenda).is_ok() {}
    }

    fn run(&mut self, ticks: u64) {
        let clock = self.network.config().clock;
        (1..self.served.len() as u32).for_each(|node| self.offer(node));
        while let Some(due) = self.agenda.take(clock.at(ticks)) {
            match due {
                Due::Net(entry) => self.network.handle(entry, &mut self.agenda),
                Due::Take => {
                    let packet = self.network.take_request(NodeIndex(0), &mut self.agenda);
                    self.served[usize::from(packet.expect("one came").source.0)] += 1;
                }
            }
            while let Some(report) = self.network.next_report() {
                match report {
                    Report::Received { .. } => {
                        let now = clock.tick_from(self.agenda.now());
                        self.free_at = self.free_at.max(now) + self.service;
                        self.agenda.schedule(clock.at(self.free_at), Due::Take);
                    }
                    Report::Done { node, .. } | Report::Space { node, .. } => self.offer(node.0),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

/// Finds generations at node 0 in a trace. Returns the number of sends served after a refusal, and
/// the number of sends that were overtaken by a send first refused in a later generation.
///
/// New sends get the label of the gathering generation: when the label of new sends changes, the
/// next generation begins to gather. (The sends accepted at that time do not show it: the next
/// generation can gather before any send of the current one is accepted.)
fn passed_by(trace: &[(u64, u32, char, u64)]) -> (u64, u64) {
    // Generation by send, from the first refusal on; even numbers are generation A.
    let mut waiting: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut gathering, mut serving, mut served, mut passed) = (0_u64, 0, 0, 0);
    for &(_, at, what, id) in trace {
        if at != 0 {
            continue;
        }
        if (what == 'A' || what == 'B') && !waiting.contains_key(&id) {
            gathering += u64::from((gathering % 2 == 1) != (what == 'B'));
            waiting.insert(id, gathering);
        }
        if what == 'a' {
            let generation = waiting.remove(&id);
            served += u64::from(generation.is_some());
            let Some(generation) = generation else { continue };
            if generation > serving {
                passed += waiting.values().filter(|&&other| other < generation).count() as u64;
                serving = generation;
            }
        }
    }
    (served, passed)
}

/// Returns the number of sends served after a refusal, and the number of sends that were overtaken.
fn order(config: &Config, service: u64) -> (u64, u64) {
    let mut hot = Hot::new(config, service);
    hot.run(100_000);
    let mut trace = hot.network.rings.trace.clone();
    trace.sort_unstable();
    passed_by(&trace)
}

#[test]
fn a_later_generation_waits_for_an_earlier_one() {
    for (nodes, unacknowledged, service) in [(8, 1, 60), (8, 2, 200), (8, 4, 60), (3, 1, 200)] {
        let config = Config { request_queue: 2, unacknowledged, ..Config::ring(nodes) };
        let (served, passed) = order(&config, service);
        println!("{nodes} nodes, {unacknowledged} at once, {service}: {served}, {passed} passed");
        assert!(served > 300 && passed == 0, "{nodes} {unacknowledged} {service}: {passed}");
    }
}

/// Draws a ring with a receiver that is too slow; also returns its time per packet.
fn random_ring(seed: u64, unacknowledged: u32) -> (Config, u64) {
    let mut random = Random(seed);
    let mut below = |limit: u64| random.next() % limit;
    let mut config = Config { unacknowledged, ..Config::ring(3 + below(8) as u32) };
    config.pass_symbols = [1, 2, 4, 12, 60][below(5) as usize];
    config.request_queue = 1 + below(3) as u32;
    (config, 1 + below(400))
}

/// Returns the seeds of random rings on which a send was overtaken by one of a later generation,
/// and the number of served sends on all rings.
fn rings_with_passed(seeds: std::ops::Range<u64>) -> (Vec<u64>, u64) {
    let (mut rings, mut all_served) = (Vec::new(), 0);
    for seed in seeds {
        let (config, service) = random_ring(seed, 1 + seed as u32 % 4);
        let (served, passed) = order(&config, service);
        all_served += served;
        if passed > 0 {
            println!("seed {seed}: {passed} of {served} passed, {service} each, {config:?}");
            rings.push(seed);
        }
    }
    (rings, all_served)
}

#[test]
fn on_no_ring_is_a_send_passed_by_one_of_a_later_generation() {
    let (first, count) = (test_seed!(0), test_count!(120));
    let (rings, served) = rings_with_passed(first..first + count);
    assert!(rings.is_empty() && served > 100 * count, "{served} served, passed on {rings:?}");
}

#[test]
fn without_flow_control_a_receiver_that_ages_goes_on_serving() {
    let config =
        Config { request_queue: 2, unacknowledged: 2, flow_control: false, ..Config::ring(8) };
    assert_eq!(config.retry, Retry::Aged);
    let mut hot = Hot::new(&config, 200);
    hot.run(50_000);
    let before: u64 = hot.served.iter().sum();
    hot.run(100_000);
    let after: u64 = hot.served.iter().sum();
    assert!(after - before > 200, "{:?}", hot.served);
}
