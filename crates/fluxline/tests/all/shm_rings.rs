//! Push rings between processes: either side killed at any step and at random moments, two
//! producers at once, strangers without the key.
//!
//! A test that needs a second process runs this test program again, as `child`, with its role in
//! the environment. Random moments come from a seed that is printed; `SEED=7` repeats one.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::shm::{KEY, PATIENCE, base, connected, name, open, start, wait};
use fluxline::clock;
use fluxline::push::{
    ConsumerWait, NextError, PushConsumer, PushOpenError, PushProducer, PushRefused, Record,
};
use fluxline::shm::Shm;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Reliability, RemoteId, Rights, Status,
};
use fluxline_core::random::{Draw, test_seed};

/// Of the ring in these tests \[byte\].
const RING_BYTES: u64 = 1 << 14;

/// The steps at which a producer dies.
const STEPS: [&str; 6] = ["connect", "import", "claim", "push", "publish", "wrong-key"];

/// An owner whose ring is exported as `ring`.
fn owner(base: &Path) -> (Shm, PushConsumer) {
    let mut node = open(base, "owner").expect("opens");
    let ring = node.push_consumer(RING_BYTES, ConsumerWait::Sleeps).expect("room");
    let grant = Grant { rights: Rights::PUT, key: KEY };
    node.export(ring.region(), name("ring"), grant).expect("a free name");
    (node, ring)
}

/// Connects to the owner and imports its ring, trying for as long as no owner answers.
fn reach(node: &mut Shm, key: Key) -> Result<RemoteId, Status> {
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < PATIENCE, "the owner cannot be reached");
        if let Some(endpoint) = connect(node) {
            let remote = node.import(endpoint, name("ring"), key).expect("connected");
            let status = wait(node, |what| match what {
                Completion::Imported { remote: of, status, .. } => {
                    (*of == remote).then_some(*status)
                }
                _ => None,
            });
            match status {
                Status::Done => return Ok(remote),
                // A new owner may not have exported it yet.
                Status::NoSuchRegion => node.disconnect(endpoint).expect("connected"),
                other => return Err(other),
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A connection to the owner; `None`: it did not come about.
fn connect(node: &mut Shm) -> Option<EndpointId> {
    let asked = node.connect("owner", Reliability::Reliable).ok()?;
    let open = wait(node, |what| match what {
        Completion::Connected { endpoint, .. } if *endpoint == asked => Some(true),
        Completion::Broken { endpoint, .. } if *endpoint == asked => Some(false),
        _ => None,
    });
    open.then_some(asked)
}

/// Becomes the producer of the owner's ring, however long others have it.
fn attach(node: &mut Shm) -> PushProducer {
    let began = Instant::now();
    let mut remote = reach(node, KEY).expect("the right key");
    loop {
        while node.poll(clock::now()).is_some() {}
        match node.push_producer(remote) {
            Ok(producer) => return producer,
            Err(PushOpenError::Claimed { .. }) => std::thread::sleep(Duration::from_millis(1)),
            // That owner has gone.
            Err(_) => remote = reach(node, KEY).expect("the right key"),
        }
        assert!(began.elapsed() < 2 * PATIENCE, "the ring never gets free");
    }
}

/// Record `number` of a session: its words say both, and how many there are.
fn record(session: u64, number: u64) -> Vec<u8> {
    let words = 3 + number % 40;
    let word = |at: u64| if at == 0 { session } else { number };
    (0..words).flat_map(|at| word(at).to_le_bytes()).collect()
}

/// Session and number of a record, which must be whole.
fn check(record: Record<'_>) -> (u64, u64) {
    let words: Vec<u64> = record.words().collect();
    let (session, number) = (words[0], words[1]);
    assert_eq!(words.len() as u64, 3 + number % 40, "session {session}, record {number}");
    assert!(words[1..].iter().all(|word| *word == number), "a record is whole: {words:?}");
    (session, number)
}

fn die() -> ! {
    let _ = Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
    unreachable!("a killed process does nothing more");
}

#[test]
#[ignore = "the tests below start this as their second process"]
fn child() {
    let (Ok(role), Ok(base)) = (std::env::var("ROLE"), std::env::var("BASE")) else { return };
    let base = PathBuf::from(base);
    if role == "consumer" {
        return consume(&base);
    }
    let mut node = open(&base, &format!("producer-{}", std::process::id())).expect("opens");
    if role == "wrong-key" {
        assert_eq!(reach(&mut node, Key(8)).err(), Some(Status::WrongKey));
        die();
    }
    if role == "connect" {
        node.connect("owner", Reliability::Reliable).expect("a place");
        die();
    }
    if role == "import" {
        reach(&mut node, KEY).expect("the right key");
        die();
    }
    let mut ring = attach(&mut node);
    if role == "claim" {
        die();
    }
    let session = std::process::id().into();
    for number in 0.. {
        let refused = loop {
            match ring.push(&record(session, number)) {
                Err(PushRefused::Full) if role == "push" => die(),
                Err(PushRefused::Full) => std::thread::yield_now(),
                pushed => break pushed.err(),
            }
        };
        match refused {
            Some(PushRefused::ConsumerGone) => return,
            Some(other) => panic!("{other}"),
            None => {}
        }
        if number % 7 == 0 {
            ring.publish();
        }
        if role == "publish" && number == 20 {
            die(); // six records are written and not published
        }
    }
}

/// The file that a consumer makes when it has read a record.
fn has_read(base: &Path) -> PathBuf {
    base.join("a-record-was-read")
}

/// A consumer that reads for ever, until it is killed.
fn consume(base: &Path) {
    let (mut node, mut ring) = owner(base);
    let (began, mut is_first) = (Instant::now(), true);
    while began.elapsed() < 3 * PATIENCE {
        while node.poll(clock::now()).is_some() {}
        while let Ok(Some(record)) = ring.next() {
            check(record);
            if std::mem::take(&mut is_first) {
                std::fs::write(has_read(base), "").expect("written");
            }
        }
        ring.wait(Duration::from_millis(1));
    }
}

/// Reads until the producer of `session` is gone; how many records of it came, the first of which
/// is number `count`, one after the other.
fn read_to_the_end(ring: &mut PushConsumer, session: u64, mut count: u64) -> u64 {
    let began = Instant::now();
    loop {
        match ring.next() {
            Ok(Some(record)) => {
                assert_eq!(check(record), (session, count), "in order, none left out");
                count += 1;
            }
            Ok(None) => ring.wait(Duration::from_millis(5)),
            Err(NextError::Gone) => return count,
            Err(broken) => panic!("{broken}"),
        }
        assert!(began.elapsed() < PATIENCE, "the end of the producer is not reported");
    }
}

fn ended(child: &mut Child) -> bool {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status.success();
        }
        assert!(began.elapsed() < PATIENCE, "it hangs");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_producer_that_dies_at_any_step_leaves_the_ring_to_the_next() {
    let base = base();
    let (mut node, mut ring) = owner(base.path());
    for step in STEPS.iter().chain(&STEPS) {
        let mut child = start("shm_rings", step, base.path());
        let session = child.id().into();
        let began = Instant::now();
        while child.try_wait().expect("a child").is_none() {
            assert!(began.elapsed() < PATIENCE, "{step}: it hangs");
            while node.poll(clock::now()).is_some() {}
            std::thread::sleep(Duration::from_micros(200));
        }
        let mut count = || read_to_the_end(&mut ring, session, 0);
        match *step {
            "claim" => assert_eq!(count(), 0),
            "publish" => assert_eq!(count(), 15, "what was published, and no more"),
            "push" => assert!(count() > 10, "a full ring was published"),
            _ => assert!(!matches!(ring.next(), Ok(Some(_))), "{step}"),
        }
    }
    assert_eq!((ring.counters().died, ring.counters().broken), (6, 0));
}

#[test]
fn a_producer_killed_at_a_random_moment_is_noticed_and_all_it_published_is_read() {
    let mut draw = Draw::new(test_seed!(1));
    let base = base();
    let (mut node, mut ring) = owner(base.path());
    for _ in 0..20 {
        let mut child = start("shm_rings", "producer", base.path());
        let session = u64::from(child.id());
        let (began, mut count) = (Instant::now(), 0);
        let alive = Duration::from_micros(draw.below(20_000));
        let mut first = None;
        while first.is_none_or(|at: Instant| at.elapsed() < alive) {
            assert!(began.elapsed() < PATIENCE, "no record came");
            while node.poll(clock::now()).is_some() {}
            if let Ok(Some(record)) = ring.next() {
                assert_eq!(check(record), (session, count), "in order, none left out");
                count += 1;
                first.get_or_insert_with(Instant::now);
            }
        }
        child.kill().expect("killed"); // SIGKILL
        child.wait().expect("waited");
        read_to_the_end(&mut ring, session, count);
    }
    assert_eq!(ring.counters().died, 20);
}

#[test]
fn a_consumer_killed_at_a_random_moment_ends_a_producer_that_tries_again_and_again() {
    let mut draw = Draw::new(test_seed!(1));
    let base = base();
    for _ in 0..8 {
        let mut consumer = start("shm_rings", "consumer", base.path());
        let mut producers = [
            start("shm_rings", "producer", base.path()),
            start("shm_rings", "producer", base.path()),
        ];
        let mut node = open(base.path(), "here").expect("opens");
        reach(&mut node, KEY).expect("the right key");
        let began = Instant::now();
        while std::fs::remove_file(has_read(base.path())).is_err() {
            assert!(began.elapsed() < PATIENCE, "no producer pushes");
            std::thread::sleep(Duration::from_micros(100));
        }
        std::thread::sleep(Duration::from_micros(draw.below(50_000)));
        consumer.kill().expect("killed"); // SIGKILL
        consumer.wait().expect("waited");
        let next = start("shm_rings", "consumer", base.path());
        // Who had the ring ends by itself; who waited for it gets the next owner's, and is killed.
        let began = Instant::now();
        let over = |child: &mut Child| child.try_wait().expect("a child");
        let first = loop {
            assert!(began.elapsed() < PATIENCE, "both hang");
            let found = producers.iter_mut().find_map(over);
            match found {
                Some(status) => break status,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        assert!(first.success(), "it ended by ConsumerGone");
        let [one, two] = &mut producers;
        for child in [one, two, &mut { next }] {
            let _ = child.kill();
            child.wait().expect("waited");
        }
        // The other producer may have pushed to the next consumer.
        let _ = std::fs::remove_file(has_read(base.path()));
    }
}

#[test]
fn of_two_producers_the_second_learns_who_is_there_and_nothing_is_lost() {
    let base = base();
    let (mut node, mut ring) = owner(base.path());
    let mut child = start("shm_rings", "producer", base.path());
    let mut other = None;
    let session = u64::from(child.id());
    let (began, mut count, mut refused) = (Instant::now(), 0, 0);
    while refused < 100 {
        assert!(began.elapsed() < PATIENCE, "{count} records came, {refused} were refused");
        while node.poll(clock::now()).is_some() {}
        if let Ok(Some(record)) = ring.next() {
            assert_eq!(check(record), (session, count), "one session's records, in order");
            count += 1;
        }
        if count < 1000 {
            continue;
        }
        let (second, remote) = other.get_or_insert_with(|| {
            let mut second = open(base.path(), "second").expect("opens");
            let asked = second.connect("owner", Reliability::Reliable).expect("a place");
            while node.poll(clock::now()).is_none() {}
            assert_eq!(wait(&mut second, connected), asked);
            let remote = second.import(asked, name("ring"), KEY).expect("connected");
            (second, remote)
        });
        let error = second.push_producer(*remote).expect_err("there is one already");
        assert_eq!(error, PushOpenError::Claimed { process: session });
        assert!(error.to_string().contains(&format!("process {session}")), "{error}");
        refused += 1;
    }
    child.kill().expect("killed");
    child.wait().expect("waited");
    read_to_the_end(&mut ring, session, count);
    let (mut second, remote) = other.expect("it tried");
    let mut producer = second.push_producer(remote).expect("free now");
    producer.push(&record(1, 0)).expect("room");
    drop(producer);
    assert_eq!(read_to_the_end(&mut ring, 1, 0), 1);
}

#[test]
fn a_producer_whose_consumer_restarts_notices_it_and_finds_the_new_one() {
    let base = base();
    let mut producer = open(base.path(), "producer").expect("opens");
    for _ in 0..5 {
        let mut consumer = start("shm_rings", "consumer", base.path());
        let mut ring = attach(&mut producer);
        let killed_at = 500;
        let began = Instant::now();
        for number in 0.. {
            assert!(began.elapsed() < PATIENCE, "it hangs");
            if number == killed_at {
                consumer.kill().expect("killed");
            }
            match ring.push(&record(9, number)) {
                Ok(()) => ring.publish(),
                Err(PushRefused::Full) => std::thread::yield_now(),
                Err(PushRefused::ConsumerGone) => break,
                Err(refused) => panic!("{refused}"),
            }
        }
        consumer.wait().expect("waited");
    }
}

/// Returns true if no source of the program is newer than the program.
fn is_fresh(program: &Path) -> bool {
    let changed = |path: &Path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let sources = std::fs::read_to_string(program.with_extension("d"));
    let (Ok(sources), Some(built)) = (sources, changed(program)) else { return false };
    let is_older =
        |source: &str| changed(Path::new(source)).is_some_and(|changed| changed <= built);
    sources.split_whitespace().skip(1).all(is_older)
}

/// Returns the example. `cargo test` builds it beside this program, and `cargo test --test` does
/// not. To build it here takes minutes: without the other crates, dependencies have other features.
fn push_packets() -> PathBuf {
    let program = std::env::current_exe().expect("a path");
    let profile = program.ancestors().nth(2).expect("target/PROFILE/deps/PROGRAM");
    let example = profile.join("examples/push_packets");
    if !is_fresh(&example) {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "-p", "fluxline", "--example", "push_packets"])
            .arg("--target-dir")
            .arg(profile.parent().expect("target"))
            .status();
        assert!(built.is_ok_and(|status| status.success()));
    }
    example
}

#[test]
#[ignore = "all: builds an example where `--test` has not"]
fn the_example_ends_when_the_run_that_it_pushes_to_is_killed() {
    let example = push_packets();
    // The example takes the user's own base.
    let group = format!("test-example-{}", std::process::id());
    let open_here = |node: &str| {
        Shm::open(&name(&group), &name(node), fluxline::shm::ShmConfig::default()).expect("opens")
    };
    let mut node = open_here("builder");
    let ring = node.push_consumer(RING_BYTES, ConsumerWait::Sleeps).expect("room");
    let grant = Grant { rights: Rights::PUT, key: KEY };
    node.export(ring.region(), name("ring"), grant).expect("a free name");
    let mut child = Command::new(example)
        .args([&format!("shm://{group}/board"), "builder", "7", "1000000000"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let began = Instant::now();
    let mut ring = ring;
    while !matches!(ring.next(), Ok(Some(_))) {
        assert!(began.elapsed() < PATIENCE, "it pushes nothing");
        while node.poll(clock::now()).is_some() {}
    }
    drop(ring); // what a run leaves when it ends; its death is tested above
    drop(node);
    assert!(!ended(&mut child), "it says that it was refused");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("piped"), &mut said)
        .expect("text");
    assert!(said.contains("ConsumerGone") || said.contains("consumer has gone"), "{said}");
}
