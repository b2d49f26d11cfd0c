//! Demonstrates: nodes as tasks of tokio, which sleeps until a frame arrives or a deadline comes.
//!
//! ```sh
//! run() { cargo run --release -p fluxline --example tokio_node -- "$@"; }
//! run udp://127.0.0.1:4801 udp://127.0.0.1:4802
//! ```
//!
//! The first node takes puts of the second and prints their count. Links without a descriptor
//! (`shm://`, `xdp://`, `sim:`) need a thread of their own and `Fabric::wait`.

use std::error::Error;
use std::os::fd::RawFd;
use std::time::Duration;

use fluxline::fabric::{
    Completion, Fabric, Grant, Key, Level, Local, Name, Reliability, Rights, Target, Work,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

type Failure = Box<dyn Error + Send + Sync>;

const PUTS: u32 = 10_000;
const KEY: Key = Key(0x5EED);

/// A node in tokio's event loop. The descriptor is the node's, so it is dropped first.
struct Node {
    arrival: AsyncFd<RawFd>,
    fabric: Box<dyn Fabric>,
}

impl Node {
    /// Opens the node of a URL. Errors: those of `open`, or the link has no descriptor.
    fn open(url: &str) -> Result<Node, Failure> {
        let mut fabric = fluxline::open(url)?;
        let none = "this link has no descriptor; write udp://ADDRESS:PORT";
        let descriptor = fabric.descriptor().ok_or(none)?;
        // SAFETY: the node keeps the descriptor open until it is dropped, and `Node` drops
        // `arrival` before its fabric. Nothing else reads or closes it.
        let arrival = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
        Ok(Node { arrival: arrival.map_err(std::io::Error::from)?, fabric })
    }

    /// Returns the next completion.
    async fn next(&mut self) -> Result<Completion, Failure> {
        loop {
            let now = self.fabric.now();
            if let Some(completion) = self.fabric.poll(now) {
                return Ok(completion);
            }
            let deadline = self.fabric.deadline().map(|at| at.since(now).as_ns());
            let left = deadline.map_or(Duration::from_secs(1), Duration::from_nanos);
            if let Ok(arrived) = timeout(left, self.arrival.readable()).await {
                arrived?.clear_ready(); // the next polls take all that has arrived
            }
        }
    }
}

fn name() -> Result<Name, Failure> {
    Ok(Name::parse("samples")?)
}

/// Counts the puts of a peer until it disconnects.
async fn count(mut node: Node) -> Result<u32, Failure> {
    let region = node.fabric.register(4096)?;
    node.fabric.export(region, name()?, Grant { rights: Rights::PUT, key: KEY })?;
    let mut puts = 0;
    loop {
        match node.next().await? {
            Completion::Notified { .. } => puts += 1,
            Completion::Broken { .. } => return Ok(puts),
            _ => {}
        }
    }
}

/// Puts into the memory of `peer`, one after the other.
async fn write(mut node: Node, peer: String) -> Result<(), Failure> {
    let endpoint = node.fabric.connect(&peer, Reliability::Reliable)?;
    let mut remote = None;
    let mut value = 0;
    while value < PUTS {
        match node.next().await? {
            Completion::Connected { .. } => {
                node.fabric.import(endpoint, name()?, KEY)?;
            }
            Completion::Imported { status, .. } if !status.is_done() => return Err(status.into()),
            Completion::Imported { remote: imported, .. } => remote = Some(imported),
            Completion::Done { status, .. } if !status.is_done() => return Err(status.into()),
            Completion::Done { .. } => value += 1,
            Completion::Broken { status, .. } => return Err(status.into()),
            _ => {}
        }
        if let Some(remote) = remote.filter(|_| value < PUTS) {
            let (from, to) = (Local::Bytes(b"sample"), Target { remote, offset: 0 });
            let (notify, complete_at) = (Some(value), Some(Level::Placed));
            node.fabric.post(endpoint, 0, Work::Put { from, to, notify, complete_at })?;
        }
    }
    node.fabric.disconnect(endpoint)?;
    Ok(())
}

fn main() -> Result<(), Failure> {
    let urls: Vec<String> = std::env::args().skip(1).collect();
    let [counter, writer] = urls.as_slice() else {
        return Err("write two URLs: udp://127.0.0.1:4801 udp://127.0.0.1:4802".into());
    };
    let peer = counter.trim_start_matches("udp://").to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let puts = runtime.block_on(async {
        let counting = tokio::spawn(count(Node::open(counter)?));
        let writing = tokio::spawn(write(Node::open(writer)?, peer));
        writing.await??;
        counting.await?
    })?;
    println!("{puts} puts of {PUTS} arrived");
    if puts == PUTS { Ok(()) } else { Err("puts were lost".into()) }
}
