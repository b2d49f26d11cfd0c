//! The same rules without agenda and wake-ups: every clock processes everything. Delivery times of
//! all messages must be equal on random wirings, parameters and traffic.

use std::collections::VecDeque;

use super::*;
use crate::net::atoll::wiring::LINKS;
use crate::routes::Dependencies;

#[derive(Clone, Copy, Debug)]
struct Piece {
    message: usize,
    bytes: i64,
    is_head: bool,
    is_tail: bool,
}

#[derive(Clone, Debug)]
struct Sent {
    tick: u64,
    source: u32,
    parcel: Parcel,
}

/// A change of a buffer or of a sender's permission at a clock.
enum Change {
    Arrive { input: usize, piece: Piece },
    Leave { input: usize, bytes: i64 },
    Signal { input: usize, is_stop: bool },
}

struct Obvious<'a> {
    config: &'a Config,
    sent: &'a [Sent],
    paths: Vec<Vec<usize>>,
    tick: u64,
    /// Pieces of each network port that the crossbar has not seen, and when it may.
    sources: Vec<VecDeque<Piece>>,
    source_at: Vec<u64>,
    queues: Vec<VecDeque<Piece>>,
    fill: Vec<i64>,
    is_stopping: Vec<bool>,
    is_stopped: Vec<bool>,
    input_busy: Vec<u64>,
    /// The output that the message of each input holds, and the reverse.
    held: Vec<Option<usize>>,
    holder: Vec<Option<usize>>,
    output_busy: Vec<u64>,
    turn: Vec<usize>,
    unacknowledged: Vec<Vec<u64>>,
    hops: Vec<usize>,
    changes: Vec<(u64, Change)>,
    arrived: Vec<(u64, usize)>,
}

const P: usize = 2 * LINKS as usize;

impl<'a> Obvious<'a> {
    fn new(config: &'a Config, sent: &'a [Sent]) -> Obvious<'a> {
        let ports = config.wiring.nodes() as usize * P;
        let routes = Routes::of(&config.wiring, config.routing);
        let path = |of: &Sent| {
            let path = routes.path(of.source, of.parcel.target).expect("a path");
            let mut ports: Vec<usize> =
                (0..path.links()).map(|hop| path.port(hop) as usize).collect();
            ports.push(4 + usize::from(of.parcel.port));
            ports
        };
        Obvious {
            paths: sent.iter().map(path).collect(),
            tick: 0,
            sources: vec![VecDeque::new(); ports],
            source_at: vec![0; ports],
            queues: vec![VecDeque::new(); ports],
            fill: vec![0; ports],
            is_stopping: vec![false; ports],
            is_stopped: vec![false; ports],
            input_busy: vec![0; ports],
            held: vec![None; ports],
            holder: vec![None; ports],
            output_busy: vec![0; ports],
            turn: vec![0; ports],
            unacknowledged: vec![Vec::new(); ports],
            hops: vec![0; sent.len()],
            changes: Vec::new(),
            arrived: Vec::new(),
            config,
            sent,
        }
    }

    fn end_of(&self, port: usize) -> Option<usize> {
        if port % P >= 4 {
            return None;
        }
        let end = self.config.wiring.end_of((port / P) as u32, (port % P) as u32);
        (end != NONE).then(|| end as usize / 4 * P + end as usize % 4)
    }

    /// Cuts the messages of this clock into pieces.
    fn hand_over(&mut self) {
        for (number, sent) in self.sent.iter().enumerate() {
            if sent.tick != self.tick {
                continue;
            }
            let port = sent.source as usize * P + 4 + usize::from(sent.parcel.port);
            let mut rest = i64::from(sent.parcel.bytes + self.config.header_bytes);
            let mut is_head = true;
            let is_idle = self.sources[port].is_empty() && self.queues[port].is_empty();
            if is_idle {
                let ready = self.tick + u64::from(self.config.hop_clocks);
                self.source_at[port] = ready;
            }
            while rest > 0 {
                let bytes = rest.min(i64::from(self.config.packet_bytes));
                rest -= bytes;
                let piece = Piece { message: number, bytes, is_head, is_tail: rest == 0 };
                self.sources[port].push_back(piece);
                is_head = false;
            }
        }
    }

    fn step(&mut self) {
        let now = self.tick;
        let (due, later): (Vec<(u64, Change)>, _) =
            std::mem::take(&mut self.changes).into_iter().partition(|(tick, _)| *tick == now);
        self.changes = later;
        let control = self.config.cable_clocks() + u64::from(self.config.stop_clocks);
        for (_, change) in &due {
            if let Change::Leave { input, bytes } = *change {
                self.fill[input] -= bytes;
                if self.is_stopping[input] && self.fill[input] <= i64::from(self.config.go_bytes) {
                    self.is_stopping[input] = false;
                    let signal = Change::Signal { input, is_stop: false };
                    self.changes.push((now + control, signal));
                }
            }
        }
        for (_, change) in &due {
            match *change {
                Change::Arrive { input, piece } => {
                    self.queues[input].push_back(piece);
                    self.fill[input] += piece.bytes;
                    if self.fill[input] > i64::from(self.config.stop_bytes())
                        && !self.is_stopping[input]
                    {
                        self.is_stopping[input] = true;
                        let signal = Change::Signal { input, is_stop: true };
                        self.changes.push((now + control, signal));
                    }
                }
                Change::Signal { input, is_stop } => self.is_stopped[input] = is_stop,
                Change::Leave { .. } => {}
            }
        }
        for port in (0..self.queues.len()).filter(|port| port % P >= 4) {
            if self.queues[port].is_empty() && self.source_at[port] <= now {
                self.queues[port].extend(self.sources[port].pop_front());
            }
        }
        (0..self.queues.len()).for_each(|output| self.choose(output));
        self.hand_over();
        self.tick += 1;
    }

    fn wants(&self, input: usize) -> Option<usize> {
        let piece = self.queues[input].front()?;
        if self.input_busy[input] > self.tick {
            return None;
        }
        let chip = input / P * P;
        match piece.is_head {
            true => Some(chip + self.paths[piece.message][self.hops[piece.message]]),
            false => self.held[input],
        }
    }

    fn choose(&mut self, output: usize) {
        let (now, chip, end) = (self.tick, output / P * P, self.end_of(output));
        self.unacknowledged[output].retain(|&tick| tick > now);
        let is_full = self.unacknowledged[output].len() == self.config.window as usize;
        let is_stopped = end.is_some_and(|to| self.is_stopped[to]);
        if self.output_busy[output] > now || (end.is_some() && is_full) || is_stopped {
            return;
        }
        let asks = |input: usize| self.wants(input) == Some(output);
        let input = match self.holder[output] {
            Some(input) => Some(input).filter(|&input| asks(input)),
            None => (0..P).map(|of| chip + (self.turn[output] + of) % P).find(|&of| asks(of)),
        };
        let Some(input) = input else { return };
        let Some(piece) = self.queues[input].pop_front() else { return };
        if piece.is_head {
            self.hops[piece.message] += 1;
            self.turn[output] = (input % P + 1) % P;
        }
        (self.held[input], self.holder[output]) = match piece.is_tail {
            true => (None, None),
            false => (Some(output), Some(input)),
        };
        let route = self.paths[piece.message].len() - self.hops[piece.message];
        let route = if piece.is_head { route as u64 } else { 0 };
        let symbols = piece.bytes as u64 + u64::from(self.config.overhead_symbols) + route;
        (self.input_busy[input], self.output_busy[output]) = (now + symbols, now + symbols);
        self.source_at[input] = now + symbols;
        if input % P < 4 {
            self.changes.push((now + symbols, Change::Leave { input, bytes: piece.bytes }));
        }
        if let Some(to) = end {
            let cable = self.config.cable_clocks();
            let ack = now + symbols + 2 * cable + u64::from(self.config.ack_clocks);
            self.unacknowledged[output].push(ack);
            let tick = now + cable + u64::from(self.config.hop_clocks);
            self.changes.push((tick, Change::Arrive { input: to, piece }));
        } else if piece.is_tail {
            self.arrived.push((now + symbols, piece.message));
        }
    }
}

/// Draws parameters, with small buffers and windows.
fn random_config(draw: &mut Draw) -> Config {
    let mut config = Config::new(random_wiring(draw));
    config.packet_bytes = 16 + draw.below(64) as u32;
    config.overhead_symbols = 1 + draw.below(12) as u32;
    config.header_bytes = 1 + draw.below(20) as u32;
    config.hop_clocks = 1 + draw.below(40) as u32;
    config.cable = Duration::from_ns(draw.below(200));
    config.window = 1 + draw.below(8) as u32;
    config.go_bytes = config.packet_bytes + draw.below(100) as u32;
    config.fifo_bytes = config.go_bytes + config.slack_bytes() + draw.below(60) as u32;
    let all = [Routing::DimensionOrder, Routing::Shortest, Routing::UpDown, Routing::Nue];
    config.routing = all[draw.below(4) as usize];
    config
}

fn random_traffic(draw: &mut Draw, nodes: u32, count: u64) -> Vec<Sent> {
    let mut tick = 0;
    let mut all = Vec::new();
    for number in 0..count {
        tick += draw.below(60);
        let bytes = if draw.chance(0.7) { draw.below(100) } else { draw.below(1500) };
        let parcel = Parcel {
            target: draw.below(nodes.into()) as u32,
            port: draw.below(4) as u8,
            bytes: bytes as u32,
            number,
        };
        all.push(Sent { tick, source: draw.below(nodes.into()) as u32, parcel });
    }
    all
}

/// Returns true if the channel dependency graph has a cycle.
fn can_deadlock(config: &Config) -> bool {
    let graph = config.wiring.graph();
    let routes = Routes::of(&config.wiring, config.routing).listed(&graph);
    let cycle = Dependencies::of(&graph, &routes).expect("paths that arrive").cycle();
    let is_free = matches!(config.routing, Routing::UpDown | Routing::Nue);
    assert!(!is_free || cycle.is_none(), "{cycle:?}");
    cycle.is_some()
}

#[test]
fn all_times_are_those_of_a_model_that_processes_everything_at_every_clock() {
    let seed = test_seed!(100);
    let (mut deadlocks, mut stops) = (0, 0);
    for seed in seed..seed + test_count!(60) {
        println!("seed {seed}");
        let mut draw = Draw::new(seed);
        let config = random_config(&mut draw);
        let sent = random_traffic(&mut draw, config.wiring.nodes(), 150);
        let last = 60_000;
        let mut obvious = Obvious::new(&config, &sent);
        while obvious.tick < last && obvious.arrived.len() < sent.len() {
            obvious.step();
        }
        let mut bench = Bench::new(config.clone());
        for of in &sent {
            bench.run(Instant::from_ps(config.clock.at(of.tick).as_ps()));
            bench.send(of.source, of.parcel.clone());
        }
        bench.run(config.clock.at(last));
        bench.check();
        let at = |tick| config.clock.at(tick);
        let by_number = |arrival: &(u64, usize)| (arrival.1 as u64, at(arrival.0));
        let mut expected: Vec<(u64, Instant)> = obvious.arrived.iter().map(by_number).collect();
        let mut found: Vec<(u64, Instant)> =
            bench.arrived.iter().map(|arrival| (arrival.number, arrival.at)).collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "{config:?}");
        let is_stuck = found.len() < sent.len();
        assert_eq!(bench.network.deadlock().is_some(), is_stuck, "nothing else stops a worm");
        assert!(!is_stuck || can_deadlock(&config), "the proof was wrong: {config:?}");
        deadlocks += u32::from(is_stuck);
        stops += bench.network.counts().stops;
    }
    println!("{deadlocks} deadlocks, {stops} stops");
    assert!(stops > 100, "stop and go were used");
}
