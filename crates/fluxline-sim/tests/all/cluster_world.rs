//! A simulated cluster besides the laws of the model: time, faults, repetition of runs,
//! and how programs are driven.

use fluxline_conformance::script::random_scripts;
use fluxline_conformance::{Joined, Pair, Side};
use fluxline_core::fabric::{
    Completion, Fabric, Grant, Key, Level, Local, Name, Operation, Reliability, Rights, Status,
    Target, Work,
};
use fluxline_core::random::{test_count, test_seed};
use fluxline_core::{Moment, Span};
use fluxline_sim::Fingerprint;
use fluxline_sim::world::{Cluster, Program, Step};

/// The first two nodes, and a clock of `step_ns` a look.
fn pair_of(cluster: &Cluster, step_ns: u64) -> Pair {
    let mut now = Moment::default();
    Pair {
        left: Box::new(cluster.node(0)),
        right: Box::new(cluster.node(1)),
        right_name: "1".into(),
        right_again: None, // a dead machine stays dead
        now: Box::new(move || {
            now = now + Span::from_ns(step_ns);
            now
        }),
    }
}

fn put(bytes: &[u8], to: Target) -> Work<'_> {
    let complete_at = Some(Level::Placed);
    Work::Put { from: Local::Bytes(bytes), to, notify: None, complete_at }
}

/// A script of puts, adds and gets; what the run was like.
fn run(url: &str) -> (Fingerprint, Moment, u64) {
    let cluster = Cluster::open(url).expect("a right URL");
    let mut joined = Joined::new(pair_of(&cluster, 500));
    let (_, remote) = joined.shared("samples", 1 << 16);
    for tag in 0..40 {
        let to = Target { remote, offset: tag * 1000 };
        let data = vec![tag as u8; 8 + tag as usize * 50];
        joined.pair.left.post(joined.left, tag, put(&data, to)).expect("room");
        let at = Target { remote, offset: 0 };
        joined.pair.left.post(joined.left, 100 + tag, Work::FetchAdd { at, add: 1 }).expect("room");
        assert_eq!(joined.done(tag).1, Status::Done);
        assert_eq!(joined.done(100 + tag).1, Status::Done);
    }
    cluster.check_conservation().expect("each packet is somewhere");
    (cluster.fingerprint(), cluster.now(), cluster.counts(0).requester.repeated)
}

#[test]
fn a_run_repeats_with_its_seed_and_differs_with_another() {
    let url = |seed: u64| format!("sim:sci?nodes=4&model=lc2&fault=bits:2e-5&seed={seed}");
    let first = run(&url(3));
    assert_eq!(run(&url(3)), first);
    assert_ne!(run(&url(4)).0, first.0);
}

#[test]
fn wrong_bits_cost_repetitions_and_time_and_no_bytes() {
    let good = run("sim:sci?nodes=4&model=lc2");
    let bad = run("sim:sci?nodes=4&model=lc2&fault=bits:1e-4&seed=5");
    assert_eq!(good.2, 0, "nothing is lost on a good ring");
    assert!(bad.2 > 10, "{} repetitions", bad.2);
    assert!(bad.1 > good.1, "{:?} against {:?}", bad.1, good.1);
}

#[test]
fn scripts_on_noisy_rings_from_many_seeds_do_what_plain_memory_does() {
    let count = test_count!(4);
    let first = test_seed!(1);
    for seed in first..first + count {
        println!("SEED={seed} COUNT=1");
        let rate = ["1e-3", "1e-6", "1e-5", "1e-4"][(seed % 4) as usize];
        let shape = ["nodes=2", "nodes=5", "topology=torus:2x3", "topology=switch:2x2"];
        let shape = shape[(seed / 4 % 4) as usize];
        let url = format!("sim:sci?{shape}&model=lc3&fault=bits:{rate}&seed={seed}");
        random_scripts(seed, || pair_of(&Cluster::open(&url).expect("a right URL"), 20_000));
    }
}

/// Runs until `left` gets the report of its broken connection; returns its time and reason.
fn broken(joined: &mut Joined, cluster: &Cluster) -> (Moment, Status) {
    let status = joined.wait(Side::Left, |what| match *what {
        Completion::Broken { status, .. } => Some(status),
        _ => None,
    });
    (cluster.now(), status)
}

#[test]
fn each_misfortune_is_noticed_within_what_is_promised_without_any_traffic() {
    for fault in ["host:1", "power:1", "power:2", "cable:0", "cable:1", "cable:3"] {
        let url = format!("sim:sci?nodes=4&model=lc2&fault={fault}@5ms");
        let cluster = Cluster::open(&url).expect("a right URL");
        let mut joined = Joined::new(pair_of(&cluster, 100_000));
        let limit = joined.pair.left.capabilities().death_noticed_within;
        let (when, status) = broken(&mut joined, &cluster);
        assert_eq!(status, Status::PeerGone, "{fault}");
        cluster.check_conservation().expect("each packet is somewhere");
        let took = when.since(Moment::from_ns(5_000_000));
        assert!(took <= limit, "{fault}: noticed after {took}, promised {limit}");
    }
}

#[test]
fn work_under_way_is_flushed_when_a_cable_is_pulled() {
    let url = "sim:sci?nodes=4&model=lc2&fault=cable:2@2ms";
    let cluster = Cluster::open(url).expect("a right URL");
    let mut joined = Joined::new(pair_of(&cluster, 20_000));
    let (_, remote) = joined.shared("samples", 1 << 20);
    let data = vec![7; 1 << 20];
    for tag in 0..8 {
        let to = Target { remote, offset: 0 };
        joined.pair.left.post(joined.left, tag, put(&data, to)).expect("room");
    }
    broken(&mut joined, &cluster);
    for tag in 0..8 {
        let (operation, status, _) = joined.done(tag);
        assert!(status == Status::Flushed && operation == Operation::Put, "{tag}: {status}");
    }
    assert_eq!(joined.rest(Side::Left), [], "each is told once");
}

#[test]
fn a_node_beside_a_dead_one_goes_on() {
    let cluster = Cluster::open("sim:sci?nodes=4&model=lc2&fault=host:2@1ms").expect("right");
    let mut third = cluster.node(2);
    let mut joined = Joined::new(pair_of(&cluster, 20_000));
    let dead = joined.pair.left.connect("2", Reliability::Reliable).expect("reachable");
    let (region, remote) = joined.shared("samples", 64);
    assert!(third.poll(cluster.now()).is_some(), "it gets the connection before it dies");
    let status = joined.wait(Side::Left, |what| match *what {
        Completion::Broken { endpoint, status } if endpoint == dead => Some(status),
        _ => None,
    });
    assert_eq!(status, Status::PeerGone);
    let to = Target { remote, offset: 0 };
    joined.pair.left.post(joined.left, 1, put(&[9; 64], to)).expect("room");
    assert_eq!(joined.done(1).1, Status::Done);
    assert_eq!(joined.bytes(region, 0, 64), [9; 64]);
    assert_eq!(third.poll(cluster.now()), None, "a dead node's program gets nothing");
}

#[test]
fn no_transaction_is_open_when_all_is_done() {
    let cluster = Cluster::open("sim:sci?nodes=3&model=lc2&fault=bits:1e-5").expect("right");
    let mut joined = Joined::new(pair_of(&cluster, 3_000));
    let (_, remote) = joined.shared("samples", 1 << 16);
    let data = vec![7; 50_000];
    joined.pair.left.post(joined.left, 1, put(&data, Target { remote, offset: 3 })).expect("room");
    assert_eq!(joined.done(1).1, Status::Done);
    for _ in 0..300 {
        joined.turn();
    }
    assert_eq!(cluster.transactions_open(), 0);
    cluster.check_conservation().expect("each packet is somewhere");
    for node in 0..3 {
        let of = cluster.counts(node).requester;
        assert_eq!(of.begun, of.answered + of.given_up, "node {node}: {of:?}");
        assert_eq!(of.given_up, 0);
    }
}

#[test]
fn stores_through_a_window_take_processor_time_before_the_next_call() {
    let took = |stored: usize| {
        let cluster = Cluster::open("sim:sci?nodes=2&model=lc2").expect("right");
        let mut joined = Joined::new(pair_of(&cluster, 100));
        let (_, remote) = joined.shared_with("samples", 8192, Rights::ALL);
        let window = joined.pair.left.window(remote).expect("imported").expect("mapped");
        window.write(0, &vec![1; stored]).expect("inside");
        let began = cluster.now();
        joined.pair.left.post(joined.left, 1, put(&[1; 8], Target { remote, offset: 0 })).unwrap();
        assert_eq!(joined.done(1).1, Status::Done);
        cluster.now().since(began).as_ns()
    };
    let (without, with) = (took(0), took(8000));
    let share = with - without;
    assert!((95_000..105_000).contains(&share), "8000 byte at 80 MB/s take 100 us, not {share} ns");
}

#[test]
fn programs_that_wait_for_what_nobody_does_are_named() {
    let cluster = Cluster::open("sim:sci?nodes=3").expect("right");
    let mut nodes: Vec<_> = (0..3).map(|place| cluster.node(place)).collect();
    let mut connected = 0;
    let mut waits = |fabric: &mut dyn Fabric, now: Moment| {
        while let Some(what) = fabric.poll(now) {
            connected += i32::from(matches!(what, Completion::Connected { .. }));
        }
        Step::Wait
    };
    let mut asked = false;
    let mut asks = |fabric: &mut dyn Fabric, now: Moment| {
        if !std::mem::replace(&mut asked, true) {
            fabric.connect("2", Reliability::Reliable).expect("reachable");
        }
        match std::iter::from_fn(|| fabric.poll(now)).count() {
            0 => Step::Wait,
            _ => Step::Done,
        }
    };
    let [_, second, third] = &mut nodes[..] else { panic!("three nodes") };
    let mut programs =
        [Program { fabric: second, step: &mut asks }, Program { fabric: third, step: &mut waits }];
    let stalled = cluster.drive(&mut programs).expect_err("one waits for ever");
    assert_eq!(stalled.waiting, [1]);
    assert!(stalled.at < Moment::from_ns(1_000_000_000), "{:?}", stalled.at);
    assert_eq!(connected, 1);
}

#[test]
fn a_program_is_looked_at_when_it_asked_for_it_and_when_it_was_told_something() {
    let cluster = Cluster::open("sim:sci?nodes=2&model=plain").expect("right");
    let (mut first, mut second) = (cluster.node(0), cluster.node(1));
    let mut looks = Vec::new();
    let mut sleeps = |_: &mut dyn Fabric, now: Moment| {
        looks.push(now.as_ns());
        match now.as_ns() {
            0..1_000_000 => Step::Until(Moment::from_ns(1_000_000)),
            _ => Step::Done,
        }
    };
    let mut idle = |_: &mut dyn Fabric, _: Moment| Step::Done;
    let mut programs = [
        Program { fabric: &mut first, step: &mut sleeps },
        Program { fabric: &mut second, step: &mut idle },
    ];
    let end = cluster.drive(&mut programs).expect("both end");
    assert_eq!(end, Moment::from_ns(1_000_000));
    assert_eq!(looks, [0, 1_000_000]);
}

#[test]
fn the_program_of_a_node_that_crashes_ends_and_the_others_finish() {
    let cluster = Cluster::open("sim:sci?nodes=3&fault=host:1@50us").expect("right");
    let mut nodes: Vec<_> = (0..3).map(|place| cluster.node(place)).collect();
    let end = Moment::from_ns(300_000);
    let mut sleeps = |_: &mut dyn Fabric, now: Moment| match now < end {
        true => Step::Until(end),
        false => Step::Done,
    };
    let mut looks = 0;
    let mut waits = |_: &mut dyn Fabric, _: Moment| {
        looks += 1;
        Step::Wait
    };
    let mut never = |_: &mut dyn Fabric, _: Moment| Step::Done;
    let [first, second, third] = &mut nodes[..] else { panic!("three nodes") };
    let mut programs = [
        Program { fabric: first, step: &mut sleeps },
        Program { fabric: second, step: &mut waits },
        Program { fabric: third, step: &mut never },
    ];
    assert_eq!(cluster.drive(&mut programs), Ok(end), "nobody waits for the crashed one");
    assert_eq!(looks, 1, "a crashed program is not called");
}

#[test]
fn a_program_without_work_is_not_called_while_others_work() {
    let cluster = Cluster::open("sim:sci?nodes=3").expect("right");
    let mut nodes: Vec<_> = (0..3).map(|place| cluster.node(place)).collect();
    let [first, second, third] = &mut nodes[..] else { panic!("three nodes") };
    let region = second.register(64).expect("memory");
    let (name, key) = (Name::parse("samples").expect("a name"), Key(1));
    second.export(region, name.clone(), Grant { rights: Rights::ALL, key }).expect("free");
    let mut endpoint = None;
    let (mut remote, mut puts, mut idle_calls) = (None, 0, 0);
    let mut writes = |fabric: &mut dyn Fabric, now: Moment| {
        let to = endpoint
            .get_or_insert_with(|| fabric.connect("1", Reliability::Reliable).expect("reachable"));
        let to = *to;
        while let Some(completion) = fabric.poll(now) {
            match completion {
                Completion::Connected { .. } => {
                    remote = Some(fabric.import(to, name.clone(), key).expect("room"));
                    continue;
                }
                Completion::Imported { .. } | Completion::Done { .. } => puts += 1,
                other => panic!("{other:?}"),
            }
            let to_place = Target { remote: remote.expect("imported"), offset: 0 };
            fabric.post(to, 1, put(&[7; 64], to_place)).expect("room");
        }
        if puts > 100 { Step::Done } else { Step::Wait }
    };
    let mut idles = |_: &mut dyn Fabric, now: Moment| {
        idle_calls += 1;
        match now < Moment::from_ns(100_000) {
            true => Step::Until(Moment::from_ns(100_000)),
            false => Step::Done,
        }
    };
    let mut programs =
        [Program { fabric: first, step: &mut writes }, Program { fabric: third, step: &mut idles }];
    let end = cluster.drive(&mut programs).expect("both end");
    assert!(end > Moment::from_ns(300_000), "{end:?}: the puts take longer");
    assert_eq!(idle_calls, 2, "at the start, and at its moment");
}

#[test]
fn a_cable_that_is_repaired_before_its_peers_give_up_costs_time_and_no_bytes() {
    for (cut, repaired) in [("1ms", "2ms"), ("1ms", "20ms"), ("300us", "301us")] {
        let url = format!("sim:sci?nodes=4&fault=cable:1@{cut},repair:1@{repaired}");
        let cluster = Cluster::open(&url).expect("a right URL");
        let mut joined = Joined::new(pair_of(&cluster, 5_000));
        let (region, remote) = joined.shared("samples", 1 << 16);
        for tag in 0..400 {
            let data = vec![tag as u8; 100];
            let to = Target { remote, offset: tag * 100 };
            joined.pair.left.post(joined.left, tag, put(&data, to)).expect("room");
            let done = joined.done(tag).1;
            assert_eq!(done, Status::Done, "{cut} to {repaired}, put {tag}");
        }
        for tag in 0..400 {
            assert_eq!(joined.bytes(region, tag * 100, 100), [tag as u8; 100]);
        }
        cluster.check_conservation().expect("each packet is somewhere");
    }
}
