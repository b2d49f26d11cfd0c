//! Both sides of a benchmark on real links, in two threads: what is measured, and how it ends when
//! something is wrong.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fluxline_bench::control::{Channel, Greeting, Message};
use fluxline_bench::environment::{Environment, Plan, Service};
use fluxline_bench::real::{Link, Until};
use fluxline_bench::role::{Role, Site, Step, TrialKind};
use fluxline_bench::{Error, Stop, run};
use fluxline_core::Moment;
use fluxline_core::fabric::Fabric;
use serde_json::{Value, json};

use crate::support::{self, Far, KEY, LIMIT, alone, connect, connect_and_tell};

/// Few and small: these are tests of what happens, not measurements.
fn plan() -> Plan {
    Plan { rounds: 1, sizes: [1, 64], ..Plan::quick() }
}

fn measured(url: &str, only: &[&str]) -> fluxline_bench::result::Report {
    support::measured(url, only, &plan())
}

const OF_FABRICS: &[&str] = &["pingpong", "messages", "stream", "bidirectional", "integrity"];

#[test]
fn shared_memory_is_measured_in_every_mode_and_nothing_is_left() {
    measured("shm://", OF_FABRICS);
    let ours = format!("bench-{}-", std::process::id());
    let bases = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let left =
        bases.flat_map(|base| std::fs::read_dir(base.path()).into_iter().flatten().flatten());
    let left: Vec<_> =
        left.filter(|entry| entry.file_name().to_string_lossy().starts_with(&ours)).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn udp_is_measured_in_every_mode() {
    measured("udp://127.0.0.1", OF_FABRICS);
}

#[test]
fn tcp_is_measured_as_netpipe_does_it_and_printed_in_its_format() {
    let mut report = measured("tcp://127.0.0.1", &["pingpong", "stream", "bidirectional"]);
    assert_eq!(fluxline_bench::pingpong::netpipe::text(&report), None, "one file has one run");
    report.experiments.retain(|one| one.name == "pingpong");
    let text = fluxline_bench::pingpong::netpipe::text(&report).expect("on its schedule");
    let first: Vec<f64> = text
        .lines()
        .next()
        .expect("a line")
        .split_whitespace()
        .map(|word| word.parse().expect("a number"))
        .collect();
    assert_eq!(first[0], 1.0);
    assert!((first[1] * first[2] * 1_048_576.0 - 8.0).abs() < 0.1, "{first:?}");
}

#[test]
fn a_load_is_answered_over_shared_memory() {
    let report = measured("shm://", &["load"]);
    let p50 = &report.experiments[0].series[0];
    assert!(p50.points.len() >= 2, "{p50:?}");
}

#[test]
fn nobody_there_a_wrong_key_and_another_version_are_a_sentence_each() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let nobody = connect("shm://", address, KEY).err().expect("nobody").to_string();
    assert!(nobody.contains("--serve"), "{nobody}");

    let far = Far::start(Until::FirstEnds);
    let wrong = connect("shm://", far.address, "guess").err().expect("refused").to_string();
    assert!(wrong.contains("the key is wrong"), "{wrong}");

    let mut theirs =
        Channel::new(TcpStream::connect(far.address).expect("it still serves")).expect("a socket");
    let greeting = Greeting { protocol: 99, ..Greeting::ours() };
    let link = "shm://".to_owned();
    theirs.send(&Message::Hello { greeting, key: KEY.to_owned(), link }).expect("sent");
    let answer = theirs.wait(LIMIT, &Stop::default()).expect("an answer");
    let Some(Message::Refused { why }) = answer else { panic!("{answer:?}") };
    assert!(why.contains("control 99") && why.contains("same release"), "{why}");
}

#[test]
fn a_peer_that_is_not_a_benchmark_is_recognized() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("connected");
        let mut bytes = [0; 16];
        let _ = stream.read(&mut bytes);
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").expect("sent");
        // Until the other end has closed.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let error = connect("shm://", address, KEY).err().expect("no peer").to_string();
    assert!(error.contains("may not be `fluxline bench --serve`"), "{error}");
    thread.join().expect("it ends");
}

#[test]
fn a_far_side_that_stops_in_the_middle_is_noticed_and_what_was_measured_is_kept() {
    let _alone = alone();
    let far = Far::start(Until::FirstEnds);
    let stop = Arc::clone(&far.stop);
    let stops_there = Box::new(move |_, _, what: &str| {
        if what == "half round trip, 16 B" {
            stop.store(true, Ordering::Relaxed);
        }
    });
    let near = connect_and_tell("shm://", far.address, KEY, stops_there);
    let mut near = near.expect("it serves");
    let names = ["integrity", "pingpong", "stream"].map(str::to_owned);
    let entries = run::choose(&names, &Link::Shm).expect("experiments");
    let plan = Plan { rounds: 1000, ..plan() };
    let mut report = run::begin("shm://", &plan, json!({}));
    let error = run::run(&mut near, &plan, &entries, &mut report).expect_err("it stopped");
    let [integrity, pingpong, stream] = report.experiments.as_slice() else { panic!("three") };
    assert_eq!(integrity.incomplete, "", "{error}");
    assert!(!pingpong.incomplete.is_empty() && !pingpong.is_empty(), "{error}");
    assert!(stream.incomplete.starts_with("not run"), "{}", stream.incomplete);
}

/// An end that has nothing to do.
struct Done;

impl Role for Done {
    fn step(&mut self, _: &Site, _: &mut dyn Fabric, _: Moment) -> Result<Step, Error> {
        Ok(Step::Done)
    }

    fn outcome(&mut self) -> Value {
        Value::Null
    }
}

#[test]
fn orders_that_make_no_sense_do_not_end_the_session() {
    let _alone = alone();
    let far = Far::start(Until::FirstEnds);
    let mut near = connect("shm://", far.address, KEY).expect("it serves");
    let unknown =
        TrialKind { name: "no-such-trial", make: |_, _| Err(Error::Input("never made".into())) };
    let refused = near.trial(&unknown, &json!({})).expect_err("neither end makes it");
    assert!(refused.to_string().contains("never made"), "{refused}");
    let unknown = TrialKind { make: |_, _| Ok(Box::new(Done)), ..unknown };
    let nothing = near.trial(&unknown, &json!({})).expect_err("there is none");
    assert!(nothing.to_string().contains("unknown trial"), "{nothing}");
    let unknown = Service { name: "no-such-service", run: |_, _| Ok(json!(null)) };
    let error = near.call(&unknown, &json!({}), &mut |_| Ok(json!(null)));
    let error = error.expect_err("there is none");
    assert!(error.to_string().contains("unknown service"), "{error}");
    assert!(!error.ends_session());
    assert!(near.capabilities().expect("it opens").is_some());
}
