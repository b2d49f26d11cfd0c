//! A push ring between two nodes: one thread pushes numbered records, another one reads them.
//!
//! demonstrates: one set-up for every link; the URLs alone name it.
//!
//!     cargo run --release -p fluxline --example push_ring -- shm://lab/reader shm://lab/writer
//!     cargo run --release -p fluxline --example push_ring -- \
//!         udp://127.0.0.1:4791 udp://127.0.0.1:4792
//!
//! Prints records, their rate, and the path that they took.

use std::time::Instant;

use fluxline::fabric::{Key, Name};
use fluxline::push::{NextError, PushRefused, Receiver, RingAddress, RingPlan, Sender};
use fluxline_core::{Moment, Span};

const RECORDS: u64 = 1_000_000;
const RECORD_BYTES: usize = 200;
/// Records that are published together.
const BATCH: u64 = 64;
const KEY: Key = Key(0x0005_A11E);
/// The longest sleep of a reader that has nothing to read.
const NAP: Span = Span::from_ms(10);

type Problem = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Problem> {
    let urls: Vec<String> = std::env::args().skip(1).collect();
    let [reader, writer] = urls.as_slice() else {
        return Err("usage: push_ring URL_OF_THE_READER URL_OF_THE_WRITER".into());
    };
    let peer = node_name(reader)?;
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| read(reader));
        write(writer, peer)?;
        reading.join().map_err(|_| "the reader has failed")?
    })
}

/// The name by which a peer finds the node of this URL.
fn node_name(url: &str) -> Result<&str, Problem> {
    let (link, rest) = url.split_once("://").ok_or("a URL begins with shm:// or udp://")?;
    let mut parts = rest.split('/');
    let first = parts.next().unwrap_or_default();
    Ok(if link == "shm" { parts.next().unwrap_or_default() } else { first })
}

fn read(url: &str) -> Result<(), Problem> {
    let mut fabric = fluxline::open(url)?;
    let plan = RingPlan::new(Name::parse("samples")?, KEY, 4096, RECORD_BYTES as u32);
    let mut ring = Receiver::open(&mut *fabric, &plan)?;
    let (mut began, mut bytes, mut count) = (Instant::now(), Vec::new(), 0_u64);
    loop {
        match ring.next_stamped(&mut *fabric) {
            Ok(Some((at, record))) => {
                record.copy_to(&mut bytes);
                if (at.as_ns(), bytes.len()) != (count, RECORD_BYTES) {
                    return Err(format!("record {} came as number {count}", at.as_ns()).into());
                }
                if count == 0 {
                    began = Instant::now();
                }
                count += 1;
                continue;
            }
            Ok(None) => {}
            Err(NextError::Gone) => break,
            Err(broken) => return Err(broken.into()),
        }
        let now = fabric.now();
        if ring.poll(&mut *fabric, now).is_none() {
            ring.wait(&mut *fabric, now + NAP);
        }
    }
    let path = if ring.is_native() { "the link's own ring" } else { "puts" };
    let rate = count as f64 / began.elapsed().as_secs_f64() / 1e6;
    println!("{count} records of {RECORD_BYTES} B by {path}: {rate:.2} M/s");
    Ok(())
}

fn write(url: &str, peer: &str) -> Result<(), Problem> {
    let mut fabric = fluxline::open(url)?;
    let to = RingAddress { peer: peer.to_owned(), name: Name::parse("samples")?, key: KEY };
    let now = fabric.now();
    let mut ring = Sender::open(&mut *fabric, to, now)?;
    let record = [7_u8; RECORD_BYTES];
    let mut number = 0;
    while number < RECORDS {
        match ring.push_stamped(&mut *fabric, Moment::from_ns(number), &record) {
            Ok(()) => number += 1,
            Err(PushRefused::Full | PushRefused::NotOpen(_)) => {
                let now = fabric.now();
                ring.poll(&mut *fabric, now);
            }
            Err(why) => return Err(why.into()),
        }
        if number % BATCH == 0 && ring.is_open() {
            ring.publish(&mut *fabric)?;
            let now = fabric.now();
            ring.poll(&mut *fabric, now);
        }
    }
    while !ring.finish(&mut *fabric)? {
        let now = fabric.now();
        ring.poll(&mut *fabric, now);
    }
    Ok(())
}
