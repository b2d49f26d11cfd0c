//! One push ring on each path: the own ring of shared memory, puts on shared memory, puts on UDP.
//!
//! A thread of one core pushes numbered records of 200 B in batches of 64; a thread of another core
//! ends each time with bytes of its own, and checks the number. Rounds are interleaved; medians.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use fluxline::clock;
use fluxline::fabric::{Key, Name};
use fluxline::pin::{allowed_cores, pin_current_thread};
use fluxline::push::{NextError, PushRefused, Receiver, RingAddress, RingPath, RingPlan, Sender};

use crate::median::median;

const RECORD_BYTES: usize = 200;
const BATCH: u64 = 64;
const ROUNDS: u32 = 7;
const KEY: Key = Key(0xBE_0C);
/// Slots: 1 MiB, which stays in the cache between two cores.
const SLOTS: u32 = 4096;

/// A way of the records, and their number in one round.
#[derive(Clone, Copy)]
struct Way {
    label: &'static str,
    link: &'static str,
    path: RingPath,
    records: u64,
}

const WAYS: [Way; 3] = [
    Way { label: "native, shm", link: "shm", path: RingPath::Best, records: 8_000_000 },
    Way { label: "puts, shm", link: "shm", path: RingPath::Puts, records: 4_000_000 },
    Way { label: "puts, udp", link: "udp", path: RingPath::Best, records: 1_000_000 },
];

/// Measures and prints.
pub fn measure() {
    let cores = allowed_cores();
    let mut rates = WAYS.map(|_| Vec::new());
    for round in 0..ROUNDS {
        for (way, rates) in WAYS.iter().zip(&mut rates) {
            rates.push(records_per_second(*way, round, &cores) / 1e6);
        }
    }
    let [native, ..] = rates.each_ref().map(|rates| median(rates.clone()));
    println!("push ring, {RECORD_BYTES} B    M records/s   of native   rounds");
    for (way, rates) in WAYS.iter().zip(rates) {
        let middle = median(rates.clone());
        let all: Vec<String> = rates.iter().map(|rate| format!("{rate:.2}")).collect();
        let (label, all) = (way.label, all.join(" "));
        println!("{label:<20} {middle:>12.2} {:>11.2}   {all}", middle / native);
    }
}

/// The nodes of one round: two URLs, and the name of the reader for the writer.
struct Nodes {
    reader: String,
    writer: String,
    peer: String,
}

fn nodes(way: Way, round: u32) -> Nodes {
    let group = format!("bench-push-{}-{round}", std::process::id());
    match way.link {
        "shm" => Nodes {
            reader: format!("shm://{group}/reader"),
            writer: format!("shm://{group}/writer"),
            peer: "reader".into(),
        },
        _ => Nodes {
            reader: "udp://127.0.0.1:47919".into(),
            writer: "udp://127.0.0.1:47918".into(),
            peer: "127.0.0.1:47919".into(),
        },
    }
}

fn records_per_second(way: Way, round: u32, cores: &[usize]) -> f64 {
    let nodes = nodes(way, round);
    let core = |index: usize| cores.get(index).or(cores.first()).copied();
    let ready = Barrier::new(2);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            core(0).map(pin_current_thread);
            read(way, &nodes.reader, &ready)
        });
        // Not this thread: those of the next round would be allowed its core alone.
        scope.spawn(|| {
            core(1).map(pin_current_thread);
            write(way, &nodes, &ready);
        });
        reading.join().expect("it reads")
    })
}

/// Reads all; returns the rate.
fn read(way: Way, url: &str, ready: &Barrier) -> f64 {
    let mut fabric = fluxline::open(url).expect("opens");
    let name = Name::parse("samples").expect("legal");
    let plan = RingPlan { path: way.path, ..RingPlan::new(name, KEY, SLOTS, RECORD_BYTES as u32) };
    let mut ring = Receiver::open(&mut *fabric, &plan).expect("room");
    ready.wait();
    let (mut began, mut count, mut own) = (Instant::now(), 0, Vec::new());
    loop {
        match ring.next(&mut *fabric) {
            Ok(Some(record)) => {
                if record.as_slice().is_none() {
                    record.copy_to(&mut own);
                }
                let bytes = black_box(record.as_slice().unwrap_or(&own));
                assert_eq!(bytes[..8], u64::to_le_bytes(count), "out of order");
                if count == 0 {
                    began = Instant::now();
                }
                count += 1;
            }
            Ok(None) => while ring.poll(&mut *fabric, clock::monotonic()).is_some() {},
            Err(NextError::Gone) => break,
            Err(broken) => panic!("{broken}"),
        }
    }
    assert_eq!(count, way.records);
    count as f64 / began.elapsed().as_secs_f64()
}

fn write(way: Way, nodes: &Nodes, ready: &Barrier) {
    let mut fabric = fluxline::open(&nodes.writer).expect("opens");
    ready.wait();
    let name = Name::parse("samples").expect("legal");
    let to = RingAddress { peer: nodes.peer.clone(), name, key: KEY };
    let mut ring = Sender::open(&mut *fabric, to, clock::monotonic()).expect("reachable");
    let mut record = [7_u8; RECORD_BYTES];
    let mut number = 0_u64;
    while number < way.records {
        record[..8].copy_from_slice(&number.to_le_bytes());
        match ring.push(&mut *fabric, black_box(&record)) {
            Ok(()) => number += 1,
            Err(PushRefused::Full | PushRefused::NotOpen(_)) => {
                ring.poll(&mut *fabric, clock::monotonic());
                continue;
            }
            Err(why) => panic!("{why}"),
        }
        if number.is_multiple_of(BATCH) {
            ring.publish(&mut *fabric).expect("the reader is there");
            if !ring.is_native() {
                ring.poll(&mut *fabric, clock::monotonic());
            }
        }
    }
    while !ring.finish(&mut *fabric).expect("the reader is there") {
        ring.poll(&mut *fabric, clock::monotonic());
    }
}
