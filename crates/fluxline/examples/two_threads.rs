//! Receives on two threads at one address: each has its own connections, and both fill one region.
//!
//! demonstrates: open_threads -> register_own at each node -> a thread for each node.
//!
//!     cargo run --release -p fluxline --example two_threads
//!
//! Two writers, threads of this program too, stand for other hosts. Each writes its part.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use fluxline::memory::OwnMemory;
use fluxline_core::Span;
use fluxline_core::fabric::{
    Completion, Fabric, Grant, Key, Level, Local, Memory, Name, Reliability, Rights, Target, Work,
};

const URL: &str = "udp://127.0.0.1:47910/builder";
const BUILDER: &str = "127.0.0.1:47910";
/// The address of the writers, of which each is a thread, too.
const WRITERS: &str = "udp://127.0.0.1:47911/board";
const KEY: Key = Key(0x5EED);
/// The part of each writer \[byte\].
const PART_BYTES: u64 = 1 << 20;

fn name() -> Name {
    Name::parse("samples").expect("a legal name")
}

/// Serves the region until all parts have arrived, at this thread or at the other.
fn serve(mut node: Box<dyn Fabric>, memory: Arc<OwnMemory>, missing: &AtomicUsize) {
    let region = node.register_own(memory).expect("udp:// takes memory of the program");
    node.export(region, name(), Grant { rights: Rights::PUT, key: KEY }).expect("a free name");
    while missing.load(Ordering::Relaxed) > 0 {
        match node.poll(node.now()) {
            Some(Completion::Notified { value, .. }) => {
                println!("part {value} arrived at {}", thread::current().name().unwrap_or("?"));
                missing.fetch_sub(1, Ordering::Relaxed);
            }
            Some(_) => {}
            None => node.wait(node.now() + Span::from_ms(10)),
        }
    }
}

/// Waits for a completion that `wanted` accepts.
fn until<T>(node: &mut dyn Fabric, wanted: impl Fn(Completion) -> Option<T>) -> T {
    loop {
        match node.poll(node.now()) {
            Some(Completion::Broken { status, .. }) => panic!("no connection: {status}"),
            Some(completion) => {
                if let Some(found) = wanted(completion) {
                    return found;
                }
            }
            None => node.wait(node.now() + Span::from_ms(10)),
        }
    }
}

/// Writes one part and waits until it is placed.
fn write(mut node: Box<dyn Fabric>, part: u32) {
    let endpoint = node.connect(BUILDER, Reliability::Reliable).expect("an address");
    until(&mut *node, |of| matches!(of, Completion::Connected { .. }).then_some(()));
    let remote = node.import(endpoint, name(), KEY).expect("connected");
    until(&mut *node, |of| matches!(of, Completion::Imported { .. }).then_some(()));
    let bytes = vec![part as u8 + 1; PART_BYTES as usize];
    let to = Target { remote, offset: u64::from(part) * PART_BYTES };
    let (from, notify, complete_at) = (Local::Bytes(&bytes), Some(part), Some(Level::Placed));
    node.post(endpoint, 1, Work::Put { from, to, notify, complete_at }).expect("room");
    until(&mut *node, |of| matches!(of, Completion::Done { .. }).then_some(()));
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let memory = Arc::new(OwnMemory::zeroed(2 * PART_BYTES)?);
    let missing = AtomicUsize::new(2);
    let nodes = fluxline::open_threads(URL, 2)?;
    let writers = fluxline::open_threads(WRITERS, 2)?;
    thread::scope(|scope| -> std::io::Result<()> {
        for (node, name) in nodes.into_iter().zip(["first thread", "second thread"]) {
            let (memory, missing) = (Arc::clone(&memory), &missing);
            let thread = thread::Builder::new().name(name.into());
            thread.spawn_scoped(scope, move || serve(node, memory, missing))?;
        }
        for (node, part) in writers.into_iter().zip(0..) {
            scope.spawn(move || write(node, part));
        }
        Ok(())
    })?;
    for part in 0..2 {
        let mut last = [0];
        memory.read((part + 1) * PART_BYTES - 1, &mut last)?;
        assert_eq!(u64::from(last[0]), part + 1, "the last byte of each part");
    }
    println!("both parts are in one region");
    Ok(())
}
