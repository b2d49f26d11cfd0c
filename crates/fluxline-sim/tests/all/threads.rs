//! Programs on threads of their own, in virtual time: one at a time, in an order of the seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use fluxline_core::fabric::{
    Completion, Fabric, Grant, Key, Local, Name, Reliability, Rights, Status, Target, Work,
};
use fluxline_core::random::Draw;
use fluxline_core::{Moment, Span};
use fluxline_sim::threads;

/// A program; it has its node to the end.
type Program<'a> = &'a (dyn Fn(Box<dyn Fabric>) + Sync);

/// Runs programs on threads; each gets the node of its name. The threads start in any order.
fn run(world: &str, keys: &str, programs: &[(&str, Program<'_>)]) {
    std::thread::scope(|scope| {
        for (name, program) in programs {
            let url = format!("sim:sci/{world}/{name}?nodes={}{keys}", programs.len());
            scope.spawn(move || program(threads::open(&url).expect("all nodes come")));
        }
    });
}

/// Returns the first completion that `wanted` accepts; `None`: none came within 10 s.
fn next<T>(
    node: &mut dyn Fabric,
    wanted: impl Fn(&Completion) -> Option<T>,
) -> Option<(T, Moment)> {
    let limit = node.now() + Span::from_ms(10_000);
    while node.now() < limit {
        while let Some(what) = node.poll(node.now()) {
            if let Some(found) = wanted(&what) {
                return Some((found, node.now()));
            }
        }
        node.wait(limit);
    }
    None
}

fn name() -> Name {
    Name::parse("words").expect("a name")
}

/// Makes and exports a region of 64 bytes.
fn export(node: &mut dyn Fabric) -> fluxline_core::fabric::RegionId {
    let region = node.register(64).expect("memory");
    let grant = Grant { rights: Rights::ALL, key: Key(1) };
    node.export(region, name(), grant).expect("a free name");
    region
}

/// Connects to a peer and imports its region.
fn join(
    node: &mut dyn Fabric,
    peer: &str,
) -> (fluxline_core::fabric::EndpointId, fluxline_core::fabric::RemoteId) {
    let endpoint = node.connect(peer, Reliability::Reliable).expect("a peer");
    let connected = |what: &Completion| match what {
        Completion::Connected { endpoint: of, peer: name, .. } if *of == endpoint => {
            Some(name.clone())
        }
        _ => None,
    };
    assert_eq!(next(node, connected).expect("connected").0, peer);
    loop {
        let remote = node.import(endpoint, name(), Key(1)).expect("connected");
        let imported = |what: &Completion| match *what {
            Completion::Imported { remote: of, status, .. } if of == remote => Some(status),
            _ => None,
        };
        match next(node, imported).expect("imported").0 {
            Status::Done => return (endpoint, remote),
            // The peer had no turn yet.
            Status::NoSuchRegion => node.wait(node.now() + Span::from_ms(1)),
            other => panic!("{other:?}"),
        }
    }
}

fn put(to: Target, value: u32) -> Work<'static> {
    let from = Local::Bytes(b"ballball");
    Work::Put { from, to, notify: Some(value), complete_at: None }
}

/// Three nodes send a counter round; returns every moment at which it came. The threads sleep in
/// real time, which must change nothing.
fn moments(world: &str, seed: u64, disturbance: u64) -> Vec<(String, u32, u64)> {
    let log = Mutex::new(Vec::new());
    let program = |own: &'static str, peer: &'static str, is_first: bool| {
        let log = &log;
        move |mut node: Box<dyn Fabric>| {
            let mut draw = Draw::new(disturbance + own.len() as u64);
            let node = &mut *node;
            export(node);
            let (endpoint, remote) = join(node, peer);
            let to = Target { remote, offset: 0 };
            if is_first {
                // The others have joined by then.
                let begin = Moment::from_ns(20_000_000);
                while node.now() < begin {
                    assert!(!matches!(node.poll(node.now()), Some(Completion::Notified { .. })));
                    node.wait(begin);
                }
                node.post(endpoint, 0, put(to, 1)).expect("room");
            }
            let notified = |what: &Completion| match *what {
                Completion::Notified { value, .. } => Some(value),
                _ => None,
            };
            while let Some((value, at)) = next(node, notified) {
                log.lock().expect("no panic").push((own.to_owned(), value, at.as_ns()));
                if disturbance > 0 {
                    std::thread::sleep(Duration::from_micros(draw.below(300)));
                }
                if value < 60 {
                    node.post(endpoint, 0, put(to, value + 1)).expect("room");
                }
                if value > 57 {
                    // The last time that the ball comes here. What was posted still leaves.
                    return;
                }
            }
            panic!("the ball was lost");
        }
    };
    let programs: [(&str, Program<'_>); 3] = [
        ("left", &program("left", "middle", true)),
        ("middle", &program("middle", "right", false)),
        ("right", &program("right", "left", false)),
    ];
    run(world, &format!("&model=lc3&seed={seed}"), &programs);
    log.into_inner().expect("no panic")
}

#[test]
fn the_same_seed_gives_the_same_moments_whatever_the_scheduler_does() {
    let calm = moments("calm", 7, 0);
    assert_eq!(calm.len(), 60);
    assert!(calm.is_sorted_by_key(|of| of.2), "one program at a time: time never goes back");
    for disturbance in [1, 2, 3] {
        assert_eq!(moments(&format!("disturbed-{disturbance}"), 7, disturbance), calm);
    }
}

#[test]
fn the_seed_and_the_names_decide_who_runs_first() {
    let order = |world: &str, seed: u64, names: [&'static str; 3]| {
        let log = Mutex::new(String::new());
        let program = |own: &'static str| {
            let log = &log;
            move |mut node: Box<dyn Fabric>| {
                for turn in 1..=10 {
                    log.lock().expect("no panic").push_str(own);
                    node.wait(Moment::from_ns(turn * 1000));
                }
            }
        };
        let [one, two, three] = names;
        let programs: [(&str, Program<'_>); 3] =
            [(one, &program(one)), (two, &program(two)), (three, &program(three))];
        run(world, &format!("&seed={seed}"), &programs);
        log.into_inner().expect("no panic")
    };
    let orders: Vec<String> = (1..=5).map(|seed| order("order", seed, ["a", "b", "c"])).collect();
    for (seed, found) in (1..=5).zip(&orders) {
        assert_eq!(order("order", seed, ["c", "a", "b"]), *found, "seed {seed}");
        // All that can run do so before time goes on.
        for turn in found.as_bytes().chunks(3) {
            let mut turn = turn.to_vec();
            turn.sort_unstable();
            assert_eq!(turn, b"abc", "{found}");
        }
    }
    assert!(orders.iter().any(|of| *of != orders[0]), "{orders:?}");
}

#[test]
fn a_program_that_only_polls_sees_a_silent_put_soon() {
    let seen = Mutex::new((Moment::default(), Moment::default()));
    let owner = |mut node: Box<dyn Fabric>| {
        let region = export(&mut *node);
        let memory = node.memory(region).expect("own");
        while memory.load(0).expect("inside") == 0 {
            let _ = node.poll(node.now());
        }
        seen.lock().expect("no panic").1 = node.now();
    };
    let writer = |mut node: Box<dyn Fabric>| {
        let (endpoint, remote) = join(&mut *node, "owner");
        // The owner has polled in vain for long, and looks seldom.
        node.wait(node.now() + Span::from_ms(1));
        seen.lock().expect("no panic").0 = node.now();
        let (from, to) = (Local::Bytes(&[1; 8]), Target { remote, offset: 0 });
        let silent = Work::Put { from, to, notify: None, complete_at: None };
        node.post(endpoint, 0, silent).expect("room");
        node.post(endpoint, 1, Work::Flush).expect("room");
        let done = |what: &Completion| matches!(what, Completion::Done { .. }).then_some(());
        next(&mut *node, done).expect("flushed");
    };
    run("silent", "", &[("owner", &owner), ("writer", &writer)]);
    let (posted, seen) = *seen.lock().expect("no panic");
    let took = seen.since(posted).as_ns();
    // In memory after about 2 us (docs/simulation/fabric.md).
    assert!((1_500..4_000).contains(&took), "{took} ns");
}

#[test]
fn time_passes_for_programs_that_only_look_at_it_and_for_waits_in_the_past() {
    let until = Moment::from_ns(200_000);
    let looks = |node: Box<dyn Fabric>| while node.now() < until {};
    let waits = |mut node: Box<dyn Fabric>| {
        while node.now() < until {
            node.wait(Moment::default());
        }
    };
    let polls = |mut node: Box<dyn Fabric>| {
        let mut calls = 0;
        while node.now() < until {
            assert_eq!(node.poll(Moment::from_ns(u64::MAX)), None, "the world has the time");
            calls += 1;
        }
        assert!((100..10_000).contains(&calls), "{calls}");
    };
    run("looks", "", &[("looks", &looks), ("waits", &waits), ("polls", &polls)]);
}

#[test]
fn a_wait_ends_at_its_moment_to_the_nanosecond() {
    let waits = |mut node: Box<dyn Fabric>| {
        for step in [1, 999, 123_456, 70_000_001] {
            let until = node.now() + Span::from_ns(step);
            while node.now() < until {
                node.wait(until);
            }
            assert_eq!(node.now(), until);
        }
    };
    run("exact", "", &[("0", &waits), ("1", &waits)]);
}

/// A program that waits for a peer's connection, and then for its end; returns its status.
fn end_of_peer(node: &mut dyn Fabric) -> Status {
    let ended = |what: &Completion| match *what {
        Completion::Broken { status, .. } => Some(status),
        _ => None,
    };
    next(node, ended).expect("the end is reported").0
}

#[test]
fn a_program_that_panics_or_ends_hangs_nobody_and_its_peers_are_told() {
    for (world, panics) in [("ends", false), ("panics", true)] {
        let ended = Mutex::new(Vec::new());
        let dies = |mut node: Box<dyn Fabric>| {
            // The node is dropped while the stack unwinds, as in a thread that panics.
            let _ = catch_unwind(AssertUnwindSafe(move || {
                export(&mut *node);
                let limit = node.now() + Span::from_ms(1);
                while node.now() < limit {
                    let _ = node.poll(node.now());
                    node.wait(limit);
                }
                if panics {
                    std::panic::resume_unwind(Box::new("a defect of the program"));
                }
            }));
        };
        let lives = |mut node: Box<dyn Fabric>| {
            join(&mut *node, "dies");
            let status = end_of_peer(&mut *node);
            ended.lock().expect("no panic").push(status);
        };
        // The name of a world is free again when its nodes are dropped.
        for _ in 0..2 {
            run(world, "", &[("dies", &dies), ("one", &lives), ("two", &lives)]);
        }
        assert_eq!(*ended.lock().expect("no panic"), [Status::PeerGone; 4]);
    }
}

#[test]
fn peers_are_called_by_their_names_and_others_are_refused() {
    let program = |mut node: Box<dyn Fabric>| {
        for wrong in ["c", "0", "", "a"] {
            let refused = node.connect(wrong, Reliability::Reliable);
            let sentence = refused.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(sentence.contains("another node of this world"), "{wrong}: {sentence}");
        }
    };
    let waits = |mut node: Box<dyn Fabric>| node.wait(node.now() + Span::from_ms(1));
    run("names", "", &[("a", &program), ("b", &waits)]);
}

#[test]
fn a_world_that_has_begun_takes_no_more_nodes() {
    let program = |mut node: Box<dyn Fabric>| {
        node.wait(node.now() + Span::from_ms(1));
        for (late, says) in [("c", "has all of its 2 nodes"), ("a", "is open already")] {
            let refused = threads::open(&format!("sim:sci/full/{late}?nodes=2"));
            let sentence = refused.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(sentence.contains(says), "{sentence}");
        }
    };
    run("full", "", &[("a", &program), ("b", &program)]);
}

#[test]
fn a_fault_strikes_the_node_of_its_place_in_the_order_of_names() {
    let ends = Mutex::new(Vec::new());
    let lives = |mut node: Box<dyn Fabric>| {
        join(&mut *node, "b");
        let status = end_of_peer(&mut *node);
        ends.lock().expect("no panic").push((status, node.now().as_ns() / 1_000_000));
    };
    let struck = |mut node: Box<dyn Fabric>| {
        export(&mut *node);
        node.wait(node.now() + Span::from_ms(400));
        let limit = Moment::from_ns(400_000_000);
        while node.now() < limit {
            let _ = node.poll(node.now());
            node.wait(limit);
        }
    };
    run("struck", "&fault=host:1@20ms", &[("a", &lives), ("b", &struck)]);
    let ends = ends.into_inner().expect("no panic");
    assert!(matches!(ends[..], [(Status::PeerGone, 21..=120)]), "{ends:?}");
}
