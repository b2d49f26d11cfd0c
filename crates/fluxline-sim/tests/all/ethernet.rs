//! Endpoints on a simulated Ethernet: the code of real links, in virtual time.

use std::process::Command;
use std::sync::Arc;

use fluxline_conformance::conformance;
use fluxline_conformance::{Joined, Pair, Side};
use fluxline_core::endpoint::{EndpointConfig, Node as Endpoint};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Level, Local, Name, Reliability, RemoteId, Rights,
    Status, Target, Work,
};
use fluxline_core::port::lossy::{Faults as PortFaults, Lossy};
use fluxline_core::port::network::Network;
use fluxline_core::{Moment, Span};
use fluxline_sim::world::{Cluster, Node, Program, Step};

/// Two nodes of a cluster, and a clock of `step_ns` a look. The right one can start again.
fn pair_of(cluster: &Arc<Cluster>, step_ns: u64) -> Pair {
    let mut now = Moment::default();
    let again = Arc::clone(cluster);
    Pair {
        left: Box::new(cluster.node(0)),
        right: Box::new(cluster.node(1)),
        right_name: "1".into(),
        right_again: Some(Box::new(move || Box::new(again.restart(1).expect("it was dropped")))),
        now: Box::new(move || {
            now = now + Span::from_ns(step_ns);
            now
        }),
    }
}

fn open(keys: &str) -> Arc<Cluster> {
    Arc::new(Cluster::open(&format!("sim:ethernet?{keys}")).expect("a right URL"))
}

fn pair(keys: &str) -> Pair {
    pair_of(&open(keys), 20_000)
}

/// Returns the seed of the run.
fn seed() -> u64 {
    fluxline_core::random::test_seed!(1)
}

conformance!(at_ten_gigabits, pair("nodes=2"));
conformance!(with_jumbo_frames_cut_through, pair("nodes=3&rate=100G&mtu=9000&forwarding=cut"));
conformance!(with_five_percent_loss, pair(&format!("nodes=2&fault=loss:0.05&seed={}", seed())));
conformance!(with_pause_and_a_short_queue, pair("nodes=2&queue=20000&pause=on"));
conformance!(with_processors, pair("nodes=2&cpu-frame=800&cpu-byte=0.2"));

conformance!(with_hosts, pair("nodes=2&host=pci-e"));
conformance!(
    with_hosts_that_lose,
    pair(&format!("nodes=2&host=pci-x&backlog=40&fault=loss:0.02&seed={}", seed()))
);

fn put(bytes: &[u8], to: Target) -> Work<'_> {
    let complete_at = Some(Level::Placed);
    Work::Put { from: Local::Bytes(bytes), to, notify: None, complete_at }
}

/// Puts `count` blocks of `bytes` from node 0 to node 1, 8 at a time; returns the rate \[byte/s\].
fn goodput(keys: &str, count: u64, bytes: usize) -> f64 {
    let cluster = open(keys);
    let mut joined = Joined::new(pair_of(&cluster, 1_000));
    let (region, remote) = joined.shared("samples", bytes as u64);
    let block: Vec<u8> = (0..bytes).map(|index| (index * 7 % 251) as u8).collect();
    let to = Target { remote, offset: 0 };
    let began = cluster.now();
    for tag in 0..count {
        joined.pair.left.post(joined.left, tag, put(&block, to)).expect("room");
        if tag >= 8 {
            assert_eq!(joined.done(tag - 8).1, Status::Done);
        }
    }
    (count - 8..count).for_each(|tag| assert_eq!(joined.done(tag).1, Status::Done));
    assert!(joined.bytes(region, 0, bytes) == block);
    cluster.check_conservation().expect("every frame is somewhere");
    (count * bytes as u64) as f64 / (cluster.now().since(began).as_ns() as f64 / 1e9)
}

#[test]
fn one_stream_of_the_endpoint_fills_the_link_but_for_its_headers() {
    for (mtu, least) in [(1500, 0.90), (9000, 0.95)] {
        let rate = goodput(&format!("nodes=2&mtu={mtu}"), 64, 1 << 18) * 8.0;
        let share = rate / 10e9;
        println!("mtu {mtu}: {:.3} Gb/s", rate / 1e9);
        assert!((least..1.0).contains(&share), "mtu {mtu}: {share} of the line");
    }
}

#[test]
fn every_put_of_an_incast_is_right_with_losses_and_with_pause_frames() {
    for (pause, expects_loss) in [("off", true), ("on", false)] {
        let senders = 6;
        // 40 frames in a queue, and 6 windows that want it.
        let queue = if expects_loss { 60_000 } else { 120_000 };
        let cluster = open(&format!("nodes={}&queue={queue}&pause={pause}", senders + 1));
        incast(&cluster, senders);
        let lost: u64 = cluster.losses().iter().map(|loss| loss.frames).sum();
        assert_eq!(lost > 0, expects_loss, "pause={pause}: {:?}", cluster.losses());
        cluster.check_conservation().expect("every frame is somewhere");
    }
}

const BLOCK: usize = 100_000;
const KEY: Key = Key(0x5EED);

fn block(node: usize) -> Vec<u8> {
    (0..BLOCK).map(|at| (at * 31 + node * 17) as u8).collect()
}

/// One sender's program: it connects to node 0, imports its region, and puts 10 blocks.
struct Sender {
    node: usize,
    endpoint: Option<EndpointId>,
    remote: Option<RemoteId>,
    done: u64,
    broken: Vec<Status>,
}

impl Sender {
    fn new(node: usize) -> Sender {
        Sender { node, endpoint: None, remote: None, done: 0, broken: Vec::new() }
    }

    fn post(&mut self, fabric: &mut dyn Fabric) {
        let (Some(endpoint), Some(remote)) = (self.endpoint, self.remote) else { return };
        let to = Target { remote, offset: (self.node * BLOCK) as u64 };
        fabric.post(endpoint, self.done, put(&block(self.node), to)).expect("room");
    }

    fn step(&mut self, fabric: &mut dyn Fabric, now: Moment, puts: u64) -> Step {
        if self.endpoint.is_none() {
            let made = fabric.connect("0", Reliability::Reliable).expect("reachable");
            self.endpoint = Some(made);
        }
        while let Some(completion) = fabric.poll(now) {
            match completion {
                Completion::Connected { endpoint, .. } => {
                    let name = Name::parse("blocks").expect("a name");
                    fabric.import(endpoint, name, KEY).expect("room");
                }
                Completion::Imported { remote, status: Status::Done, .. } => {
                    self.remote = Some(remote);
                    self.post(fabric);
                }
                Completion::Done { status: Status::Done, .. } => {
                    self.done += 1;
                    if self.done < puts {
                        self.post(fabric);
                    }
                }
                Completion::Broken { status, .. } => {
                    self.broken.push(status);
                    (self.endpoint, self.remote) = (None, None);
                    return Step::Until(now + Span::from_ms(1));
                }
                Completion::Imported { status: Status::NoSuchRegion, .. } => {
                    // The owner has started, and has not exported it yet.
                    let Some(endpoint) = self.endpoint else { continue };
                    let name = Name::parse("blocks").expect("a name");
                    fabric.import(endpoint, name, KEY).expect("room");
                }
                Completion::Imported { status: Status::Flushed, .. }
                | Completion::Done { status: Status::Flushed, .. } => {}
                other => panic!("node {}: {other:?}", self.node),
            }
        }
        if self.done == puts { Step::Done } else { Step::Wait }
    }
}

fn export(fabric: &mut dyn Fabric, nodes: usize) {
    let region = fabric.register((nodes * BLOCK) as u64).expect("memory");
    let grant = Grant { rights: Rights::ALL, key: KEY };
    fabric.export(region, Name::parse("blocks").expect("a name"), grant).expect("free");
}

fn incast(cluster: &Cluster, senders: usize) {
    let mut nodes: Vec<Node> = (0..=senders).map(|index| cluster.node(index)).collect();
    let (owner, others) = nodes.split_first_mut().expect("nodes");
    let region = owner.register(((senders + 1) * BLOCK) as u64).expect("memory");
    let grant = Grant { rights: Rights::ALL, key: KEY };
    owner.export(region, Name::parse("blocks").expect("a name"), grant).expect("free");
    let mut programs: Vec<Sender> = (1..=senders).map(Sender::new).collect();
    let steps = programs
        .iter_mut()
        .map(|sender| move |fabric: &mut dyn Fabric, now: Moment| sender.step(fabric, now, 10));
    let mut steps: Vec<_> = steps.collect();
    // The owner is done at once: its node answers none the less.
    let mut idle = |_: &mut dyn Fabric, _: Moment| Step::Done;
    let mut driven: Vec<Program<'_>> = vec![Program { fabric: owner, step: &mut idle }];
    for (fabric, step) in others.iter_mut().zip(&mut steps) {
        driven.push(Program { fabric, step });
    }
    cluster.drive(&mut driven).expect("all end");
    drop(driven);
    let memory = nodes[0].memory(region).expect("own");
    for node in 1..=senders {
        let mut found = vec![0; BLOCK];
        memory.read((node * BLOCK) as u64, &mut found).expect("inside");
        assert!(found == block(node), "the block of node {node}");
    }
}

#[test]
fn a_node_that_crashes_and_starts_again_is_met_as_a_new_one() {
    for (fault, seed) in [("host", 1), ("power", 2), ("host", 3)] {
        let keys = format!("nodes=2&seed={seed}&fault={fault}:0@2ms,restart:0@50ms,loss:0.01");
        let cluster = open(&keys);
        let (mut owner, mut other) = (cluster.node(0), cluster.node(1));
        let mut lives = Vec::new();
        let mut owns = |fabric: &mut dyn Fabric, now: Moment| {
            if !lives.contains(&cluster.starts(0)) {
                lives.push(cluster.starts(0));
                export(fabric, 2);
            }
            while fabric.poll(now).is_some() {}
            if lives.len() == 2 && now > Moment::from_ns(6_000_000_000) {
                return Step::Done;
            }
            Step::Until(now + Span::from_ms(500))
        };
        let mut sender = Sender::new(1);
        let mut puts = |fabric: &mut dyn Fabric, now: Moment| sender.step(fabric, now, 500);
        let end = cluster.drive(&mut [
            Program { fabric: &mut owner, step: &mut owns },
            Program { fabric: &mut other, step: &mut puts },
        ]);
        assert!(end.is_ok(), "{end:?}, {:?} of {}", sender.broken, sender.done);
        assert_eq!(lives, [1, 2], "{fault}: the program starts anew");
        assert_eq!(sender.done, 500);
        assert!(!sender.broken.is_empty(), "{fault}");
        let gone = |status: &Status| matches!(status, Status::PeerGone | Status::Disconnected);
        assert!(sender.broken.iter().all(gone), "{:?}", sender.broken);
        cluster.check_conservation().expect("every frame is somewhere");
    }
}

#[test]
fn a_peer_that_crashes_for_ever_is_noticed_in_time_and_its_work_is_flushed() {
    for fault in ["host:1@5ms", "power:1@5ms", "cable:0@5ms", "cable:1@5ms"] {
        let cluster = open(&format!("nodes=3&fault={fault}"));
        let mut joined = Joined::new(pair_of(&cluster, 50_000));
        let (_, remote) = joined.shared("samples", 1 << 20);
        let limit = joined.pair.left.capabilities().death_noticed_within;
        while cluster.now() < Moment::from_ns(6_000_000) {
            joined.turn();
        }
        let data = vec![7; 1 << 20];
        joined
            .pair
            .left
            .post(joined.left, 1, put(&data, Target { remote, offset: 0 }))
            .expect("room");
        let status = joined.wait(Side::Left, |what| match *what {
            Completion::Broken { status, .. } => Some(status),
            _ => None,
        });
        assert_eq!(status, Status::PeerGone, "{fault}");
        let took = cluster.now().since(Moment::from_ns(5_000_000));
        assert!(took <= limit, "{fault}: noticed after {took}, promised {limit}");
        assert_eq!(joined.done(1).1, Status::Flushed);
        cluster.check_conservation().expect("every frame is somewhere");
    }
}

#[test]
fn a_cable_that_is_repaired_costs_time_and_no_bytes() {
    let cluster = open("nodes=2&fault=cable:1@1ms,repair:1@40ms,cable:0@60ms,repair:0@61ms");
    let mut joined = Joined::new(pair_of(&cluster, 5_000));
    let (region, remote) = joined.shared("samples", 400 * 100);
    for tag in 0..400 {
        let to = Target { remote, offset: tag * 100 };
        joined.pair.left.post(joined.left, tag, put(&[tag as u8; 100], to)).expect("room");
        assert_eq!(joined.done(tag).1, Status::Done, "put {tag}");
        while cluster.now() < Moment::from_ns(tag * 200_000) {
            joined.turn();
        }
    }
    for tag in 0..400 {
        assert_eq!(joined.bytes(region, tag * 100, 100), [tag as u8; 100]);
    }
    assert!(cluster.losses().iter().any(|loss| loss.place.starts_with("cut cable")));
}

#[test]
fn five_percent_loss_costs_as_much_goodput_as_on_a_lossy_port() {
    // The endpoint behind a port that loses as many frames, with the rate and delay of the link.
    let ratio = goodput("nodes=2&fault=loss:0.05", 64, 1 << 18) / goodput("nodes=2", 64, 1 << 18);
    let expected = on_a_lossy_port(0.05) / on_a_lossy_port(0.0);
    println!("goodput with 5 % loss: {ratio:.3} here, {expected:.3} on the port");
    assert!((0.02..0.95).contains(&ratio), "{ratio}");
    assert!((ratio / expected - 1.0).abs() < 0.25, "{ratio}, {expected}");
}

/// The goodput of the endpoint on a port in memory with the link's rate \[byte/s\].
fn on_a_lossy_port(drop: f64) -> f64 {
    let network = Network::new();
    let wire = Span::from_ns(1_000 + 2 * 1_226);
    let faults = PortFaults { drop, delay: wire, rate: 1_200_000_000, ..PortFaults::default() };
    let node = |last: u8| {
        let at = std::net::SocketAddr::from(([10, 0, 0, last], 4791));
        let port = Lossy::new(network.port(at, 1472), faults, u64::from(last));
        Endpoint::new(port, EndpointConfig::new("node", [last; 16]))
    };
    let mut now = Moment::default();
    let mut joined = Joined::new(Pair {
        left: Box::new(node(1)),
        right: Box::new(node(2)),
        right_name: "10.0.0.2".into(),
        right_again: None,
        now: Box::new(move || {
            now = now + Span::from_ns(1_000);
            now
        }),
    });
    let (_, remote) = joined.shared("samples", 1 << 18);
    let block = vec![5; 1 << 18];
    let began = joined.turn();
    for tag in 0..64 {
        let to = Target { remote, offset: 0 };
        joined.pair.left.post(joined.left, tag, put(&block, to)).expect("room");
        if tag >= 8 {
            assert_eq!(joined.done(tag - 8).1, Status::Done);
        }
    }
    (56..64).for_each(|tag| assert_eq!(joined.done(tag).1, Status::Done));
    (64 << 18) as f64 / (joined.turn().since(began).as_ns() as f64 / 1e9)
}

#[test]
fn a_run_repeats_with_its_seed_and_differs_with_another() {
    let run = |seed: u64| {
        let cluster = open(&format!("nodes=2&fault=loss:0.02&seed={seed}"));
        let mut joined = Joined::new(pair_of(&cluster, 700));
        let (_, remote) = joined.shared("samples", 1 << 16);
        for tag in 0..60 {
            let to = Target { remote, offset: 0 };
            joined.pair.left.post(joined.left, tag, put(&[1; 5000], to)).expect("room");
            assert_eq!(joined.done(tag).1, Status::Done);
        }
        (cluster.fingerprint(), cluster.now(), cluster.losses())
    };
    let first = run(3);
    assert_eq!(run(3), first);
    assert_ne!(run(4).0, first.0);
}

#[test]
fn the_processor_s_work_delays_a_frame_by_exactly_its_cost() {
    let latency = |keys: &str| {
        let cluster = open(&format!("nodes=2&{keys}"));
        let mut joined = Joined::new(pair_of(&cluster, 10));
        let (_, remote) = joined.shared("word", 8);
        // Nothing else is under way.
        (0..100_000).for_each(|_| _ = joined.turn());
        let began = cluster.now();
        let to = Target { remote, offset: 0 };
        joined.pair.left.post(joined.left, 1, put(&[1; 8], to)).expect("room");
        assert_eq!(joined.done(1).1, Status::Done);
        cluster.now().since(began).as_ns()
    };
    let wire = latency("cpu-frame=0");
    // A put and its acknowledgement: two frames, each sent and received.
    let with = latency("cpu-frame=5000");
    assert!((with - wire).abs_diff(20_000) <= 40, "{wire} ns, then {with} ns");
}

#[test]
fn programs_that_wait_for_nothing_stall_with_a_sentence() {
    let cluster = open("nodes=2");
    let (mut left, mut right) = (cluster.node(0), cluster.node(1));
    let mut waits = |fabric: &mut dyn Fabric, now: Moment| {
        while fabric.poll(now).is_some() {}
        Step::Wait
    };
    let mut asked = false;
    let mut asks = |fabric: &mut dyn Fabric, now: Moment| {
        if !std::mem::replace(&mut asked, true) {
            fabric.connect("1", Reliability::Reliable).expect("reachable");
        }
        while fabric.poll(now).is_some() {}
        Step::Wait
    };
    let mut programs = [
        Program { fabric: &mut left, step: &mut asks },
        Program { fabric: &mut right, step: &mut waits },
    ];
    let stalled = cluster.drive(&mut programs).expect_err("both wait for ever");
    assert_eq!(stalled.waiting, [0, 1]);
}

#[test]
fn a_dump_has_real_frames_that_readers_of_captures_understand() {
    let file = std::env::temp_dir().join(format!("ethernet-{}.pcapng", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let cluster = open(&format!("nodes=2&dump={}", file.display()));
    let mut joined = Joined::new(pair_of(&cluster, 1_000));
    let (_, remote) = joined.shared("samples", 1 << 16);
    joined
        .pair
        .left
        .post(joined.left, 1, put(&[1; 9000], Target { remote, offset: 0 }))
        .expect("room");
    assert_eq!(joined.done(1).1, Status::Done);
    let written = cluster.end_dump().expect("written").expect("begun");
    assert!(written.packets > 20 && written.left_out == 0, "{written:?}");
    let fields = ["frame.protocols", "ip.checksum.status", "infiniband.bth.opcode", "ip.src"];
    let mut command = Command::new("tshark");
    command.args(["-r", &file.display().to_string(), "-o", "ip.check_checksum:TRUE"]);
    command.args(["-T", "fields"]);
    fields.iter().for_each(|field| _ = command.args(["-e", field]));
    let output = command.output();
    std::fs::remove_file(&file).expect("it was there");
    let Ok(output) = output else {
        let required = std::env::var("FLUXLINE_REQUIRE_TOOLS").is_ok_and(|it| it == "1");
        assert!(!required, "FLUXLINE_REQUIRE_TOOLS=1, and tshark is missing");
        println!("skipped: tshark is missing");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().count() as u64, written.packets, "{text}");
    for line in text.lines() {
        let [protocols, checksum, opcode, source] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        assert!(protocols.starts_with("eth:ethertype:ip:udp:infiniband"), "{line}");
        assert!(checksum == "1" && !opcode.is_empty() && source.starts_with("10.0.0."), "{line}");
    }
}
