//! ATOLL as a link of programs: the suite of all links, URLs, faults, traffic and hosts.

use crate::support::pairs::{pair_between, pair_of, put, put_during_a_fault};
use fluxline_conformance::conformance;
use fluxline_conformance::{Joined, Pair};
use fluxline_core::Moment;
use fluxline_core::fabric::{Status, Target};
use fluxline_sim::core::fault::Fault;
use fluxline_sim::load::sweep::{Limits, Outcome, measure};
use fluxline_sim::load::traffic::{Arrivals, Pattern, Plan, Size, Traffic};
use fluxline_sim::load::{Loaded, Settings};
use fluxline_sim::net::atoll::adapter::host::{Hosts, Mode, Times, Transfer, one_way};
use fluxline_sim::net::atoll::{Config, Grid, Network, Wiring, Worms};
use fluxline_sim::world::Cluster;
use fluxline_sim::{Agenda, Clock, Duration, Instant, Model};

fn open(url: &str) -> Cluster {
    Cluster::open(url).expect("a right URL")
}

/// Two processes of a network.
fn pair_at(keys: &str, [left, right]: [usize; 2]) -> Pair {
    pair_between(&open(&format!("sim:atoll?{keys}")), left, right)
}

conformance!(on_atoll, pair_of(&open("sim:atoll?grid=2x2")));
conformance!(on_atoll_processes_of_two_nodes, pair_at("grid=2x2&processes=4", [1, 6]));
conformance!(on_atoll_processes_of_one_node, pair_at("ring=2&processes=2", [2, 3]));
conformance!(on_atoll_with_bit_errors, pair_of(&open("sim:atoll?grid=3x1&fault=bits:1e-5")));

#[test]
fn puts_wait_for_a_repair_and_a_longer_silence_is_the_peer_s_end() {
    for (repair, expected) in [("0@20ms", Status::Done), ("0@900ms", Status::Flushed)] {
        let cluster = open(&format!("sim:atoll?grid=3x1&fault=cable:0@5ms,repair:{repair}"));
        put_during_a_fault(&cluster, expected);
        assert!(expected != Status::Done || cluster.counts(0).requester.repeated > 0);
    }
}

/// Returns the virtual time until four puts of 1 MiB between disjoint pairs are placed \[ns\].
fn four_puts(keys: &str, pairs: [[usize; 2]; 4]) -> u64 {
    let cluster = open(&format!("sim:atoll?{keys}"));
    let mut all = pairs.map(|[left, right]| Joined::new(pair_between(&cluster, left, right)));
    let regions = all.each_mut().map(|joined| joined.shared("samples", 1 << 20));
    let data = [1_u8, 2, 3, 4].map(|value| vec![value; 1 << 20]);
    for ((joined, (_, remote)), data) in all.iter_mut().zip(regions).zip(&data) {
        let to = Target { remote, offset: 0 };
        joined.pair.left.post(joined.left, 1, put(data, to)).expect("room");
    }
    let start = cluster.now();
    for ((joined, (region, _)), data) in all.iter_mut().zip(regions).zip(&data) {
        assert_eq!(joined.done(1).1, Status::Done);
        assert_eq!(&joined.bytes(region, 0, 1 << 20), data, "its own data");
    }
    cluster.check_conservation().expect("each packet is somewhere");
    cluster.now().since(start).as_ns()
}

#[test]
fn four_processes_of_a_node_use_it_at_once_and_share_its_bus() {
    // A bus of 800 MB/s carries 4 MiB in more than 5 ms.
    let to_other_node = [[0, 4], [1, 5], [2, 6], [3, 7]];
    let of_one_node = four_puts("grid=2x1&processes=4", to_other_node);
    // To other host ports than their own, and within a node.
    let crossed = four_puts("grid=2x1&processes=4", [[0, 5], [1, 4], [2, 3], [6, 7]]);
    let apart = four_puts("ring=8", [[0, 1], [2, 3], [4, 5], [6, 7]]);
    assert!(of_one_node > 2 * apart && crossed > apart, "{of_one_node} {crossed} {apart}");
}

#[test]
fn all_processes_of_a_node_end_with_its_power() {
    let cluster = open("sim:atoll?grid=2x1&processes=2&fault=power:1@5ms");
    let mut all =
        [[0, 2], [1, 3]].map(|[left, right]| Joined::new(pair_between(&cluster, left, right)));
    let remotes = all.each_mut().map(|joined| joined.shared("samples", 4096).1);
    while cluster.now() < Moment::from_ns(6_000_000) {
        all.iter_mut().for_each(|joined| _ = joined.turn());
    }
    for (joined, remote) in all.iter_mut().zip(remotes) {
        let to = Target { remote, offset: 0 };
        joined.pair.left.post(joined.left, 1, put(&[7; 64], to)).expect("room");
        assert_eq!(joined.done(1).1, Status::Flushed);
    }
}

#[test]
fn a_put_to_a_node_without_power_ends_as_flushed() {
    put_during_a_fault(&open("sim:atoll?grid=3x1&fault=power:1@5ms"), Status::Flushed);
}

#[test]
fn a_wrong_url_is_answered_with_one_sentence_that_says_what_to_write() {
    for (url, says) in [
        ("sim:atollo", "write sim:sci, sim:atoll, sim:myrinet"),
        ("sim:atoll?grid=2x2&", "its keys are grid, torus"),
        ("sim:atoll?nodes=4", "its keys are grid, torus"),
        ("sim:atoll?grid=2x2&grid=2x2", "grid is given twice"),
        ("sim:atoll?grid=2x2&ring=4", "give grid or ring, not both"),
        ("sim:atoll?grid=4", "COLUMNSxROWS"),
        ("sim:atoll?grid=1x1", "give 2 to 16384"),
        ("sim:atoll?torus=99999x99999", "give 2 to 16384"),
        ("sim:atoll?full=6", "more than 4 cables"),
        ("sim:atoll?ring=-1", "a number of nodes"),
        ("sim:atoll?clock=0", "1 to 10000 MHz"),
        ("sim:atoll?clock=NaN", "1 to 10000 MHz"),
        ("sim:atoll?cable=1e9", "0 to 1000 m"),
        ("sim:atoll?clock=10000&cable=1000", "1 to 4096 clocks"),
        ("sim:atoll?routing=luck", "dimension, shortest, updown or nue"),
        ("sim:atoll?bus=isa", "pci64-66, pcix-100 or pcix-133"),
        ("sim:atoll?seed=x", "a whole number"),
        ("sim:atoll?processes=5", "1 to 4"),
        ("sim:atoll?processes=0", "1 to 4"),
        ("sim:atoll?fault=bits:1", "bits:1e-6"),
        ("sim:atoll?fault=host:3@1", "host:3@1ms"),
        ("sim:atoll?fault=host:99@1ms", "nodes are 0 to 15"),
        ("sim:atoll?fault=restart:3@1ms", "cannot start again"),
        ("sim:atoll?fault=cut:3-4@1ms", "two nodes with a cable"),
    ] {
        let error = Cluster::open(url).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(says) && !error.contains('\n'), "{url}: {error}");
    }
    for url in ["sim:atoll", "sim:atoll?torus=8x8&clock=243.5&bus=pcix-133", "sim:atoll?cable=300"]
    {
        let cluster = Cluster::open(url).expect("a right URL");
        assert!(cluster.nodes() >= 16);
    }
}

#[test]
fn programs_on_threads_of_their_own_open_its_nodes() {
    std::thread::scope(|scope| {
        for name in ["a", "b"] {
            scope.spawn(move || {
                let url = format!("sim:atoll/chips/{name}?grid=2x1");
                let mut node = fluxline_sim::threads::open(&url).expect("both come");
                assert_eq!(node.capabilities().link, "sim:atoll");
                node.wait(Moment::from_ns(50_000));
                assert!(node.now() >= Moment::from_ns(50_000));
            });
        }
    });
}

#[test]
fn a_run_repeats_with_its_seed() {
    let run = |seed| {
        let cluster = open(&format!("sim:atoll?grid=2x1&seed={seed}&fault=bits:1e-5"));
        let mut joined = Joined::new(pair_of(&cluster));
        let (_, remote) = joined.shared("samples", 1 << 16);
        let to = Target { remote, offset: 0 };
        joined.pair.left.post(joined.left, 1, put(&[7; 1 << 16], to)).expect("room");
        assert_eq!(joined.done(1).1, Status::Done);
        cluster.fingerprint()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4), "other errors");
}

/// Measures uniform traffic; the load is a part of a link's rate.
fn point(wiring: Wiring, bytes: u32, load: f64, faults: &[Fault]) -> Outcome {
    let plan = Plan {
        nodes: wiring.nodes(),
        pattern: Pattern::Uniform,
        arrivals: Arrivals::Poisson { bytes_per_s: load * 250e6 },
        size: Size::Fixed(bytes),
        seed: 1,
    };
    let network = <Network<_>>::new(Config::new(wiring)).expect("a network");
    let (mut agenda, settings) = (Agenda::default(), Settings { faults, ..Settings::default() });
    let traffic = Traffic::new(plan).expect("a plan");
    let mut model = Loaded::new(network, Worms, traffic, &settings, &mut agenda);
    let us = Duration::from_us;
    let limits = Limits { warm_up_first: us(20), warm_up_max: us(200), measured: us(300) };
    measure(&mut model, &mut agenda, &limits).expect("its laws hold")
}

#[test]
fn traffic_on_a_grid_is_delivered_up_to_saturation_and_no_further() {
    let grid = || Wiring::grid(Grid { columns: 4, rows: 4, is_torus: false }).expect("a grid");
    let light = point(grid(), 256, 0.05, &[]);
    let heavy = point(grid(), 256, 1.0, &[]);
    let share = light.accepted_bytes_per_s / light.offered_bytes_per_s;
    assert!((0.97..1.03).contains(&share), "{share}");
    // 16 senders share a cut of 4 links each way; half of the messages cross it.
    let bound = 250e6 * 256.0 / (256.0 + 8.0 + 5.0 * 8.0) * 4.0 / 8.0 * 2.0 * (15.0 / 16.0);
    let reached = heavy.accepted_bytes_per_s / bound;
    assert!((0.4..1.0).contains(&reached), "{reached} of the bisection");
    assert!(heavy.latency_ns.mean > 5.0 * light.latency_ns.mean);
    // A message waits for no other at light load: within the waits of 5 % of load.
    let chips = 2.67 * 27.0 + 27.0 + 2.67 * 7.0;
    let alone = (chips + 264.0 + 40.0 + 2.67) * 4.0;
    assert!((0.95..1.3).contains(&(light.latency_ns.mean / alone)), "{}", light.latency_ns.mean);
}

fn pair(megahertz: u64) -> Config {
    let wiring = Wiring::grid(Grid { columns: 2, rows: 1, is_torus: false }).expect("two nodes");
    Config { clock: Clock::from_hertz(megahertz * 1_000_000), ..Config::new(wiring) }
}

#[test]
fn a_faster_chip_shortens_the_link_and_not_the_host() {
    let time = |megahertz, bytes| {
        one_way(&pair(megahertz), Times::pc(), bytes, Mode::Dma).expect("it arrives").as_us()
    };
    let (slow, fast) = (time(125, 8), time(250, 8));
    // Two chips, 8 bytes, header and overhead: 79 clocks; a cable is rounded up to clocks.
    assert!((slow - fast - 79.0 * 0.004).abs() < 0.02, "{slow} and {fast}");
    let ratio = time(125, 1 << 20) / time(250, 1 << 20);
    assert!((1.97..2.0).contains(&ratio), "{ratio}");
    let pio = one_way(&pair(250), Times::pc(), 8, Mode::Pio).expect("it arrives").as_us();
    assert!((3.0..4.2).contains(&pio), "{pio}: about 4 us by the makers' simulations");
}

#[test]
fn four_processes_send_at_once_until_the_bus_is_full() {
    let mut agenda = Agenda::default();
    let five = Config::new(Wiring::full(5).expect("five nodes"));
    let mut hosts = Hosts::new(five, Times::pc()).expect("a network");
    for _ in 0..20 {
        for port in 0..4 {
            let (to, mode) = (u32::from(port) + 1, Mode::Dma);
            let transfer = Transfer { from: 0, to, port, bytes: 1 << 16, mode };
            hosts.begin(transfer, &mut agenda).expect("right");
        }
    }
    let wrong = Transfer { from: 0, to: 5, port: 0, bytes: 1, mode: Mode::Pio };
    assert!(hosts.begin(wrong, &mut agenda).expect_err("5").to_string().contains("0 to 4"));
    while let Some(entry) = agenda.take(Instant::NEVER) {
        hosts.handle(entry, &mut agenda);
    }
    let ends: Vec<_> = std::iter::from_fn(|| hosts.next_finished()).collect();
    assert_eq!((ends.len(), hosts.lost()), (80, 0));
    let last = ends.iter().map(|end| end.at).max().expect("some").as_ps() as f64;
    let rate = 80.0 * 65_536.0 / (last / 1e6);
    // The bus reads 4096 bytes in 572 clocks of 10 ns.
    assert!((650.0..716.0).contains(&rate), "{rate} MB/s");
}
