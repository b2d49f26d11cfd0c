//! Demonstrates: the time of a barrier by messages and by a counter, against the number of ranks.
//!
//! ```sh
//! cargo run --release -p fluxline-sim --example barriers
//! cargo run --release -p fluxline-sim --example barriers -- 'sim:atoll?grid=8x4'
//! ```

use fluxline_core::fabric::group::{BarrierPath, Group, GroupConfig};
use fluxline_core::fabric::{Fabric, Key, Name};
use fluxline_core::{Moment, Span};
use fluxline_sim::world::{Cluster, Node, Program, Step};

/// Barriers that are timed.
const ROUNDS: u32 = 20;
/// While a rank joins, it looks again after this time.
const JOIN_EVERY: Span = Span::from_ms(1);

const URLS: &[&str] = &[
    "sim:sci?nodes=2&model=lc2",
    "sim:sci?nodes=8&model=lc2",
    "sim:sci?nodes=16&model=lc2",
    "sim:atoll?grid=2x1",
    "sim:atoll?grid=4x2",
    "sim:atoll?grid=4x4",
    "sim:ethernet?nodes=2",
    "sim:ethernet?nodes=8",
    "sim:ethernet?nodes=16",
];

/// One rank that joins and passes barriers.
struct Rank {
    group: Group,
    passed: u32,
    is_begun: bool,
    /// The end of the first barrier, which is not timed, and of the last one.
    ends: [Moment; 2],
}

impl Rank {
    fn new(node: &mut Node, rank: usize, size: usize, barrier: BarrierPath) -> Rank {
        let name = Name::parse("barriers").expect("a legal name");
        let members = (0..size).map(|rank| rank.to_string()).collect();
        let config = GroupConfig { barrier, ..GroupConfig::new(name, Key(1), rank, members) };
        let group = Group::new(node, config).expect("a right configuration");
        Rank { group, passed: 0, is_begun: false, ends: [Moment::default(); 2] }
    }

    fn step(&mut self, fabric: &mut dyn Fabric, now: Moment) -> Step {
        while self.group.poll(fabric, now).is_some() {}
        if !self.group.has_joined().expect("all join") {
            return Step::Until(now + JOIN_EVERY);
        }
        loop {
            if !self.is_begun {
                if self.passed > ROUNDS {
                    return Step::Done;
                }
                self.group.start_barrier(fabric).expect("begins");
                self.is_begun = true;
            }
            let Some(ended) = self.group.collected() else { return Step::Wait };
            ended.expect("all pass");
            self.ends[usize::from(self.passed > 0)] = fabric.now();
            (self.passed, self.is_begun) = (self.passed + 1, false);
        }
    }
}

/// Returns the time of a barrier \[us\].
fn barrier_us(url: &str, barrier: BarrierPath) -> Result<f64, Box<dyn std::error::Error>> {
    let cluster = Cluster::open(url)?;
    let size = cluster.nodes();
    let mut nodes: Vec<Node> = (0..size).map(|rank| cluster.node(rank)).collect();
    let ranks = nodes.iter_mut().enumerate();
    let mut ranks: Vec<Rank> =
        ranks.map(|(rank, node)| Rank::new(node, rank, size, barrier)).collect();
    let mut steps: Vec<_> = ranks
        .iter_mut()
        .map(|rank| move |fabric: &mut dyn Fabric, now: Moment| rank.step(fabric, now))
        .collect();
    let programs = nodes.iter_mut().zip(&mut steps);
    let mut programs: Vec<Program<'_>> =
        programs.map(|(fabric, step)| Program { fabric, step }).collect();
    cluster.drive(&mut programs)?;
    drop(programs);
    drop(steps);
    let [first, last] = ranks[0].ends;
    Ok(last.since(first).as_ns() as f64 / 1e3 / f64::from(ROUNDS))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let urls: Vec<&str> = match given.is_empty() {
        true => URLS.to_vec(),
        false => given.iter().map(String::as_str).collect(),
    };
    println!("{:<28} {:>14} {:>14}", "network", "messages [us]", "counter [us]");
    for url in urls {
        let [messages, counter] = [BarrierPath::Messages, BarrierPath::Counter];
        let (messages, counter) = (barrier_us(url, messages)?, barrier_us(url, counter)?);
        println!("{url:<28} {messages:>14.2} {counter:>14.2}");
    }
    Ok(())
}
