//! Every message of a finite workload is delivered, or lost, exactly once: nothing is in flight
//! when the network is at rest, whatever was damaged, cut or killed. `SEED=n` replaces the seeds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fluxline_core::random::{Draw, test_seed};
use fluxline_sim::Instant;
use fluxline_sim::load::traffic::{Message, Workload};
use fluxline_sim::scenario::{Measured, Scenario};

/// Messages of each node.
const MESSAGES: u64 = 200;

/// A finite number of messages of random sizes to random nodes.
struct Finite {
    draws: Vec<Draw>,
    made: Vec<u64>,
    last: Vec<Instant>,
    /// The largest message \[byte\].
    bytes_max: u64,
    count: Arc<AtomicU64>,
}

impl Finite {
    fn new(nodes: u32, bytes_max: u64, seed: u64) -> (Box<Finite>, Arc<AtomicU64>) {
        let count = Arc::new(AtomicU64::new(0));
        let draws = (0..nodes).map(|node| Draw::new(seed * 1000 + u64::from(node))).collect();
        let (made, last) = (vec![0; nodes as usize], vec![Instant::START; nodes as usize]);
        (Box::new(Finite { draws, made, last, bytes_max, count: Arc::clone(&count) }), count)
    }
}

impl Workload for Finite {
    fn nodes(&self) -> u32 {
        self.made.len() as u32
    }

    fn next(&mut self, source: u32, _: Instant) -> Option<Message> {
        let node = source as usize;
        if self.made[node] == MESSAGES {
            return None;
        }
        self.made[node] += 1;
        self.count.fetch_add(1, Ordering::Relaxed);
        let (nodes, draw) = (self.made.len() as u64, &mut self.draws[node]);
        let other = draw.below(nodes - 1) as u32;
        self.last[node] = Instant::from_ps(self.last[node].as_ps() + draw.below(20_000_000));
        let (at, bytes) = (self.last[node], 1 + draw.below(self.bytes_max) as u32);
        Some(Message { at, source, to: other + u32::from(other >= source), bytes, event: 0 })
    }
}

const NETWORKS: [&str; 3] = [
    "[network]\nnodes = 4\n",
    "[network]\nkind = \"sci-torus\"\nside = 2\n",
    "[network]\nkind = \"sci-switch\"\nports = 2\nnodes = 2\n",
];

const FAULTS: [&str; 4] = [
    "",
    "bit-error-rate = 1e-4",
    "at = [\"cable:1@300us\", \"repair:1@1500us\"]",
    "at = [\"host:2@500us\"]",
];

fn run(network: &str, command: &str, faults: &str, bytes_max: u64, seed: u64) -> (Measured, u64) {
    let text = format!(
        "seed = {seed}\n{network}[traffic]\ncommand = \"{command}\"\n[faults]\n{faults}\n\
         [run]\nwarm-up-us = 0.001\nwarm-up-max-us = 0.001\nduration-us = 30000.0\n"
    );
    let scenario = Scenario::parse("losses", &text).expect("a scenario");
    let (workload, count) = Finite::new(4, bytes_max, seed);
    let measured = scenario.measure_workload(workload).expect("it runs");
    (measured, count.load(Ordering::Relaxed))
}

#[test]
fn every_message_is_delivered_or_lost_once() {
    let seed = test_seed!(5);
    println!("seed {seed}");
    let mut lost = 0;
    for network in NETWORKS {
        for command in ["move", "write"] {
            for faults in FAULTS {
                let (measured, made) = run(network, command, faults, 64, seed);
                let (delivered, name) = (measured.outcome.messages, (network, command, faults));
                assert_eq!(measured.in_flight, 0, "{name:?}");
                // A node that crashed makes no more messages than it has offered.
                let ended = delivered + measured.outcome.lost;
                let is_all = if faults.contains("host") { ended <= made } else { ended == made };
                assert!(is_all, "{name:?}: {delivered} + {} of {made}", measured.outcome.lost);
                assert!(!faults.is_empty() || measured.outcome.lost == 0, "{name:?}");
                lost += measured.outcome.lost;
            }
        }
    }
    assert!(lost > 0, "some faults lose messages");
}

#[test]
fn a_message_of_several_packets_is_lost_at_most_once() {
    let seed = test_seed!(6);
    println!("seed {seed}");
    for command in ["move", "write"] {
        for faults in FAULTS {
            let (measured, made) = run(NETWORKS[0], command, faults, 1000, seed);
            let ended = measured.outcome.messages + measured.outcome.lost + measured.in_flight;
            let name = (command, faults);
            assert!(ended <= made && (ended == made || faults.contains("host")), "{name:?}");
            assert!(measured.in_flight == 0 || faults.contains("host"), "{name:?}");
        }
    }
}

#[test]
fn a_workload_with_a_mistake_ends_the_measurement_with_a_sentence() {
    struct Wrong(Message);
    impl Workload for Wrong {
        fn nodes(&self) -> u32 {
            8
        }
        fn next(&mut self, source: u32, now: Instant) -> Option<Message> {
            let message = if now > Instant::START { self.0 } else { GOOD };
            Some(message).filter(|_| source == 0)
        }
    }
    const GOOD: Message =
        Message { at: Instant::from_ps(1_000_000), source: 0, to: 7, bytes: 64, event: 0 };
    let late = Instant::from_ps(2_000_000);
    let scenario = Scenario::default();
    for (message, says) in [
        (Message { at: late, to: 8, ..GOOD }, "to node 8"),
        (Message { at: late, to: 0, ..GOOD }, "to node 0"),
        (Message { at: late, bytes: 0, ..GOOD }, "without bytes"),
        (Message { at: Instant::START, ..GOOD }, "which is before now"),
        (Message { at: late, source: 9, ..GOOD }, "of node 9"),
    ] {
        let error = scenario.measure_workload(Box::new(Wrong(message))).expect_err("a mistake");
        assert!(error.to_string().contains(says), "{error}");
    }
    let few = Finite::new(3, 64, 1).0;
    let error = scenario.measure_workload(few).expect_err("too few nodes").to_string();
    assert!(error.contains("for 3 nodes, but the network has 8"), "{error}");
}
