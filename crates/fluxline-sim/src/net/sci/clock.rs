//! A global clock on a ringlet: nodes set their time by the strobes of a master.
//!
//! The problem: each node stamps its data by its own clock, which has an arbitrary start and
//! drifts. The idea: once per period, a master sends a [strobe](super::Command::Strobe) round the
//! ringlet. Each node notes its own clock when the strobe arrives, and adds the strobe's travel
//! time. On an idle ringlet this is its share of a round, which the master measures when the strobe
//! returns. Waits at the master and in bypass FIFOs come with the strobe.
//!
//! SCI has clock strobes; their route and content are reconstructed (docs/simulation/clock.md).

use super::{Config, NodeIndex, Passage};
use crate::{Clock, Duration, Instant};

/// A moment in a node's own time and in the global time \[ps\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fix {
    local_ps: i128,
    global_ps: i128,
}

/// The estimates of the global time on one ringlet. The global time is the simulation's.
#[derive(Clone, Debug)]
pub struct GlobalClock {
    master: u32,
    period: Duration,
    symbols: Clock,
    /// The shortest round of a strobe so far, less its waits \[symbols\].
    round: Option<u64>,
    /// The last two strobes of each node.
    fixes: Vec<[Option<Fix>; 2]>,
}

impl GlobalClock {
    /// Makes a clock. The master sends strobe number n, which is the offset of its packet, n
    /// periods after the start.
    #[must_use]
    pub fn new(network: &Config, master: NodeIndex, period: Duration) -> GlobalClock {
        let fixes = vec![[None; 2]; network.addresses.len()];
        GlobalClock { master: master.0, period, symbols: network.clock, round: None, fixes }
    }

    /// Handles a strobe that passed a node, whose own clock showed `local_ps` when it arrived.
    /// Until the first strobe is back, nodes learn nothing.
    pub fn passed(&mut self, node: NodeIndex, passage: &Passage, local_ps: i128) {
        let sent = Instant::START + self.period.times(passage.number);
        // The first symbol after the strobe was handed over, and its waits.
        let start = self.symbols.tick_from(Instant::from_ps(sent.as_ps() + 1));
        let left = start + passage.delayed + passage.waited;
        if node.0 == self.master {
            let round = passage.arrived.saturating_sub(left);
            self.round = Some(self.round.map_or(round, |shortest| shortest.min(round)));
            return;
        }
        let Some(round) = self.round else { return };
        let count = self.fixes.len() as u64;
        let hops = (u64::from(node.0) + count - u64::from(self.master)) % count;
        let global = self.symbols.at(left + round * hops / count);
        let fix = Fix { local_ps, global_ps: global.as_ps().into() };
        let [last, before] = &mut self.fixes[node.0 as usize];
        if last.is_none_or(|last| last.local_ps < local_ps) {
            (*before, *last) = (*last, Some(fix));
        }
    }

    /// Estimates the global time \[ps\] at which a node's own clock shows `local_ps`: from its last
    /// strobe, at the rate between the last two. `None` before the first one.
    #[must_use]
    pub fn time_ps(&self, node: NodeIndex, local_ps: i128) -> Option<i128> {
        let [last, before] = self.fixes[node.0 as usize];
        let last = last?;
        let counted_ps = local_ps - last.local_ps;
        let passed_ps = before.map_or(counted_ps, |before| {
            let (counts_ps, is_ps) =
                (last.local_ps - before.local_ps, last.global_ps - before.global_ps);
            (counted_ps * is_ps).div_euclid(counts_ps)
        });
        Some(last.global_ps + passed_ps)
    }
}

#[cfg(test)]
mod tests {
    use super::GlobalClock;
    use crate::net::sci::{
        Command, Config, Entry, Network, NodeIndex, Packet, Passage, Report, Status,
    };
    use crate::{Agenda, Duration, Instant};

    const NODES: u32 = 8;
    const PERIOD: Duration = Duration::from_us(100);

    enum Due {
        Net(Entry),
        Strobe(u64),
        Move(u32),
        Sample,
    }

    impl From<Entry> for Due {
        fn from(entry: Entry) -> Due {
            Due::Net(entry)
        }
    }

    /// The clock of a node: an arbitrary start, and a drift of a multiple of 100 ppm.
    fn local_ps(node: NodeIndex, global_ps: u64) -> i128 {
        let (node, global_ps) = (i128::from(node.0), i128::from(global_ps));
        node * 777_777 + global_ps + (global_ps * (node - 4)).div_euclid(10_000)
    }

    fn packet(network: &Network, from: u32, command: Command, offset: u64) -> Packet {
        Packet {
            target: network.address(NodeIndex((from + 3) % NODES)),
            source: network.address(NodeIndex(from)),
            command,
            transaction: 0,
            offset,
            status: Status::Normal,
            data: Vec::new(),
        }
    }

    /// Returns the largest error of any node \[ps\], while each sends moves at these intervals.
    fn largest_error_ps(every: Option<Duration>) -> u128 {
        let config = Config::ring(NODES);
        let mut network = Network::new(&config).expect("a ring");
        let mut clock = GlobalClock::new(&config, NodeIndex(0), PERIOD);
        let mut agenda = Agenda::<Due>::default();
        agenda.schedule(Instant::START, Due::Strobe(0));
        agenda.schedule(Instant::START + PERIOD.times(4), Due::Sample);
        // Traffic begins when the first strobe is back.
        let nodes = (0..NODES).filter(|_| every.is_some());
        nodes.for_each(|node| agenda.schedule(Instant::START + PERIOD, Due::Move(node)));
        let mut largest = 0;
        while let Some(due) = agenda.take(Instant::START + PERIOD.times(60)) {
            match due {
                Due::Net(entry) => network.handle(entry, &mut agenda),
                Due::Strobe(number) => {
                    let strobe = packet(&network, 0, Command::Strobe, number);
                    network.send(NodeIndex(0), strobe, &mut agenda).expect("room");
                    let next = Instant::START + PERIOD.times(number + 1);
                    agenda.schedule(next, Due::Strobe(number + 1));
                }
                Due::Move(node) => {
                    let one = packet(&network, node, Command::Move64, 0);
                    let _ = network.send(NodeIndex(node), one, &mut agenda);
                    let every = every.expect("traffic");
                    // Not the same phase at each node.
                    let wait = every + Duration::from_ps(u64::from(node) * 2_000);
                    agenda.schedule_after(wait, Due::Move(node));
                }
                Due::Sample => {
                    let now_ps = agenda.now().as_ps();
                    for node in (1..NODES).map(NodeIndex) {
                        let time = clock.time_ps(node, local_ps(node, now_ps)).expect("strobes");
                        largest = largest.max((time - i128::from(now_ps)).unsigned_abs());
                    }
                    agenda.schedule_after(Duration::from_ps(7_777_777), Due::Sample);
                }
            }
            while let Some(report) = network.next_report() {
                match report {
                    Report::Strobe { node, passage } => {
                        let came = config.clock.at(passage.arrived).as_ps();
                        clock.passed(node, &passage, local_ps(node, came));
                    }
                    Report::Received { node, .. } => {
                        drop(network.take_request(node, &mut agenda));
                    }
                    _ => {}
                }
            }
        }
        largest
    }

    #[test]
    fn every_node_has_the_master_s_time_despite_drift_and_load() {
        for every in [None, Some(2_000), Some(500)] {
            let largest = largest_error_ps(every.map(Duration::from_ns));
            // A reading of the clock and its rate are rounded down to a picosecond.
            assert!(largest <= 4, "{every:?}: {largest} ps");
        }
    }

    #[test]
    fn nobody_knows_the_time_before_the_first_strobe_is_back() {
        let config = Config::ring(NODES);
        let mut clock = GlobalClock::new(&config, NodeIndex(0), PERIOD);
        let source = Network::new(&config).expect("a ring").address(NodeIndex(0));
        let passage = Passage { source, number: 0, arrived: 9, delayed: 0, waited: 0 };
        clock.passed(NodeIndex(1), &passage, 5);
        assert_eq!(clock.time_ps(NodeIndex(1), 6), None);
    }
}
