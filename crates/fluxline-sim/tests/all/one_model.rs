//! Programs on Myrinet and ATOLL see the network of the published figures.
//!
//! The figures come from models of two hosts and their cards alone (`net::myrinet::measure`,
//! `net::atoll::adapter::host`). A program goes through a driver and the courier, and must end up
//! with the same times. Three things differ and may: frames are longer, so that 4096 bytes are two
//! packets of Myrinet; a stream is answered, once for 16 puts or 128 KiB; and a stream ends with
//! its last answer.

use fluxline_core::Moment;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Level, Local, Name, PostError, Reliability,
    RemoteId, Rights, Status, Target, Work,
};
use fluxline_sim::net::atoll::adapter::host::{Hosts, Mode, Times, Transfer, one_way};
use fluxline_sim::net::atoll::{Config, Grid, Wiring};
use fluxline_sim::net::myrinet::config::Card;
use fluxline_sim::net::myrinet::measure::{self, Streams, Ways};
use fluxline_sim::net::myrinet::other::{self, Rate};
use fluxline_sim::net::myrinet::{self, cluster};
use fluxline_sim::world::{Cluster, Node};
use fluxline_sim::{Agenda, Clock, Duration, Instant, Model};

const SIZES: [u32; 5] = [8, 64, 1024, 4096, 65_536];
/// The part by which a latency may differ: a frame carries 41 bytes besides its data, header and
/// notification, which the figures' messages do not have.
const LATENCY: f64 = 0.10;
/// The same for QsNet, where they are 10.2 % of the 1.23 us of 8 bytes.
const LATENCY_QSNET: f64 = 0.11;
/// Rounds of a ping-pong.
const ROUNDS: u32 = 20;

/// Two nodes that each have a region of the other.
struct Two {
    cluster: Cluster,
    nodes: [Node; 2],
    ends: [EndpointId; 2],
    remotes: [RemoteId; 2],
    now: Moment,
}

impl Two {
    fn open(url: &str) -> Two {
        let cluster = Cluster::open(url).expect("a right URL");
        let mut two = Two {
            nodes: [cluster.node(0), cluster.node(1)],
            ends: [EndpointId(0); 2],
            remotes: [RemoteId(0); 2],
            now: cluster.now(),
            cluster,
        };
        two.ends[0] = two.nodes[0].connect("1", Reliability::Reliable).expect("it is there");
        let connected = |what: &Completion| match *what {
            Completion::Connected { endpoint, .. } => Some(endpoint),
            _ => None,
        };
        two.ends[1] = two.wait(1, connected);
        two.wait(0, connected);
        let name = || Name::parse("samples").expect("a name");
        for owner in 0..2 {
            let region = two.nodes[owner].register(1 << 16).expect("memory");
            let grant = Grant { rights: Rights::ALL, key: Key(1) };
            two.nodes[owner].export(region, name(), grant).expect("a free name");
        }
        for user in 0..2 {
            let asked = two.nodes[user].import(two.ends[user], name(), Key(1)).expect("connected");
            two.remotes[user] = two.wait(user, |what| match *what {
                Completion::Imported { remote, status: Status::Done, .. } => Some(remote),
                _ => None,
            });
            assert_eq!(two.remotes[user], asked);
        }
        two
    }

    /// Lets time go on until a node has a completion that is wanted.
    fn wait<T>(&mut self, node: usize, wanted: impl Fn(&Completion) -> Option<T>) -> T {
        loop {
            while let Some(what) = self.nodes[node].poll(self.now) {
                if let Some(found) = wanted(&what) {
                    return found;
                }
            }
            while self.nodes[1 - node].poll(self.now).is_some() {}
            let due = self.nodes.iter().filter_map(Fabric::deadline).min().expect("it goes on");
            self.now = self.now.max(due);
        }
    }

    /// Posts a put; `Err`: the queue is full.
    fn put(&mut self, node: usize, bytes: &[u8], put: Put) -> Result<(), PostError> {
        let to = Target { remote: self.remotes[node], offset: 0 };
        let Put { tag, notify, complete_at } = put;
        let work = Work::Put { from: Local::Bytes(bytes), to, notify, complete_at };
        self.nodes[node].post(self.ends[node], tag, work)
    }

    /// Returns half the time of a round of puts with a notification [us].
    fn latency(&mut self, bytes: u32) -> f64 {
        let data = vec![7; bytes as usize];
        let began = self.now;
        for round in 0..2 * ROUNDS {
            let from = (round % 2) as usize;
            let put = Put { tag: 1, notify: Some(round), complete_at: None };
            self.put(from, &data, put).expect("room");
            let value = self.wait(1 - from, |what| match *what {
                Completion::Notified { value, .. } => Some(value),
                _ => None,
            });
            assert_eq!(value, round);
        }
        self.now.since(began).as_ns() as f64 / 1000.0 / f64::from(2 * ROUNDS)
    }

    /// Returns the rate of a stream of puts, as many as the queue takes at once [MB/s].
    fn rate(&mut self, bytes: u32) -> f64 {
        let began = self.now;
        self.stream(bytes, count(bytes));
        let us = self.now.since(began).as_ns() as f64 / 1000.0;
        f64::from(bytes) * f64::from(count(bytes)) / us
    }

    /// Puts, as many at once as the queue takes, and waits until all are placed.
    fn stream(&mut self, bytes: u32, count: u32) {
        let data = vec![7; bytes as usize];
        let (mut posted, mut done) = (0, 0);
        while done < count {
            let put = Put { tag: 2, notify: None, complete_at: Some(Level::Placed) };
            while posted < count && self.put(0, &data, put).is_ok() {
                posted += 1;
            }
            done += self.wait(0, |what| match *what {
                Completion::Done { tag: 2, status, .. } => {
                    assert_eq!(status, Status::Done);
                    Some(1)
                }
                _ => None,
            });
        }
    }
}

/// The reports of a put.
#[derive(Clone, Copy)]
struct Put {
    tag: u64,
    notify: Option<u32>,
    complete_at: Option<Level>,
}

/// Returns the number of messages of a stream: the time of the last answer does not count in it.
fn count(bytes: u32) -> u32 {
    (1_u32 << 23).div_ceil(bytes).clamp(200, 2_000)
}

/// A size with its latency [us] and its rate [MB/s], twice.
#[derive(Debug)]
struct Row {
    bytes: u32,
    figure: [f64; 2],
    program: [f64; 2],
}

/// Prints the rows, and returns those whose latency is further off than allowed, or whose rate is
/// off by 15 %.
fn far_rows(url: &str, allowed: f64, figure: impl Fn(u32) -> [f64; 2]) -> Vec<Row> {
    let mut two = Two::open(url);
    let mut row = |bytes| Row {
        bytes,
        figure: figure(bytes),
        program: [two.latency(bytes), two.rate(bytes)],
    };
    let rows: Vec<Row> = SIZES.into_iter().map(&mut row).collect();
    for Row { bytes, figure, program } in &rows {
        let off = |what: usize| 100.0 * (program[what] / figure[what] - 1.0);
        println!(
            "{url} | {bytes} | {:.2} | {:.2} | {:+.1} % | {:.1} | {:.1} | {:+.1} % |",
            figure[0],
            program[0],
            off(0),
            figure[1],
            program[1],
            off(1)
        );
    }
    let is_near = |row: &Row, what: usize, most: f64| {
        (row.program[what] / row.figure[what] - 1.0).abs() < most
    };
    rows.into_iter().filter(|row| !is_near(row, 0, allowed) || !is_near(row, 1, 0.15)).collect()
}

fn card_figure(config: &myrinet::Config, call: Duration, bytes: u32) -> [f64; 2] {
    let latency = measure::one_way(config, call, bytes).expect("a network").as_us();
    let (count, ways) = (count(bytes), Ways::One);
    let streams = Streams { bytes, count, outstanding: 16, call, ways };
    [latency, streams.rate(config).expect("a network")]
}

fn atoll_figure(bytes: u32) -> [f64; 2] {
    let wiring = Wiring::grid(Grid { columns: 2, rows: 1, is_torus: false }).expect("two nodes");
    let config = Config { clock: Clock::from_hertz(243_000_000), ..Config::new(wiring) };
    let latency = one_way(&config, Times::pc(), bytes, Mode::Dma).expect("a network").as_us();
    let mut hosts = Hosts::new(config, Times::pc()).expect("a network");
    let mut agenda = Agenda::default();
    for _ in 0..count(bytes) {
        let transfer = Transfer { from: 0, to: 1, port: 0, bytes, mode: Mode::Dma };
        hosts.begin(transfer, &mut agenda).expect("right");
    }
    while let Some(entry) = agenda.take(Instant::NEVER) {
        hosts.handle(entry, &mut agenda);
    }
    let last = std::iter::from_fn(|| hosts.next_finished()).map(|end| end.at).max();
    let us = last.expect("some").since(Instant::START).as_us();
    [latency, f64::from(bytes) * f64::from(count(bytes)) / us]
}

#[test]
fn a_program_sees_another_myrinet_than_the_figures() {
    for (name, card) in [("D", Card::d()), ("E", Card::e())] {
        let config = myrinet::Config { card, ..myrinet::Config::new(2) };
        let url = format!("sim:myrinet?nodes=2&card={name}");
        let far = far_rows(&url, LATENCY, |bytes| card_figure(&config, cluster::CALL_GM, bytes));
        assert!(far.is_empty(), "{url}: {far:?}");
    }
}

#[test]
fn a_program_sees_another_infiniband_or_qsnet_than_the_figures() {
    let bus = || myrinet::Config::bus_named("gc-le").expect("a measured host");
    let infiniband = other::infiniband(2, Rate::Sdr, bus());
    let figure = |bytes| card_figure(&infiniband, other::CALL_INFINIBAND, bytes);
    let far = far_rows("sim:infiniband?nodes=2", LATENCY, figure);
    assert!(far.is_empty(), "{far:?}");
    let qsnet = other::qsnet2(2, bus());
    let far = far_rows("sim:qsnet?nodes=2", LATENCY_QSNET, |bytes| {
        card_figure(&qsnet, other::CALL_QSNET, bytes)
    });
    assert!(far.is_empty(), "{far:?}");
}

#[test]
fn a_program_sees_another_atoll_than_the_figures() {
    let far = far_rows("sim:atoll?grid=2x1&clock=243", LATENCY, atoll_figure);
    assert!(far.is_empty(), "{far:?}");
}

#[test]
fn the_end_of_a_burst_of_puts_waits_for_a_time_out() {
    for url in ["sim:atoll?grid=2x1", "sim:myrinet?nodes=2", "sim:qsnet?nodes=2"] {
        let mut two = Two::open(url);
        for count in 1..=150 {
            two.stream(8, count);
            let inquiries = two.cluster.counts(0).requester.inquiries;
            assert_eq!(inquiries, 0, "{url}: {count} puts");
        }
    }
}
