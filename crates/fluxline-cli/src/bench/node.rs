//! What both processes of the benchmark do with their nodes.

use std::time::Duration;

use fluxline::clock;
use fluxline::push::{Broken, NextError, PushConsumer, Record};
use fluxline::shm::{Shm, ShmConfig};
use fluxline_proto::fabric::{
    Completion, ConnectError, EndpointId, Fabric, Grant, Key, Name, Reliability, RemoteId, Rights,
    Status,
};

use super::BenchError;

/// Of all regions of the benchmark: their directory is this user's alone.
const KEY: Key = Key(0x5EED);
/// The grant of all regions.
pub const GRANT: Grant = Grant { rights: Rights::PUT, key: KEY };
/// Half a level-2 cache: a small window used again and again is the fastest.
pub const RING_BYTES: u64 = 512 << 10;
/// For records of 1 MiB, which must fit four times.
pub const LARGE_RING_BYTES: u64 = 8 << 20;
/// How long a node looks before it sleeps where it is to be adaptive: as `fluxline::open`.
pub const SPIN: Duration = Duration::from_micros(50);
/// The process that measures.
pub const HERE: &str = "here";
/// The process that it starts.
pub const THERE: &str = "there";
/// The started process's node that looks for [`SPIN`] before it sleeps.
pub const ADAPTIVE: &str = "adaptive";

/// Opens a node of the benchmark.
pub fn open(group: &str, node: &str, spin: Duration) -> Result<Shm, BenchError> {
    let config = ShmConfig { spin, ..ShmConfig::default() };
    Ok(Shm::open(&Name::parse(group)?, &Name::parse(node)?, config)?)
}

/// Removes what a node left whose process was killed: who takes its name, and goes, does.
pub fn clean_after(group: &str, nodes: &[&str]) {
    for node in nodes {
        // A node that lives is not taken, and cleans after itself.
        drop(open(group, node, Duration::ZERO));
    }
}

/// Makes a push ring that the other process may attach to.
pub fn export(
    node: &mut Shm,
    called: &str,
    bytes: u64,
    sleeps: bool,
) -> Result<PushConsumer, BenchError> {
    let ring = node.push_consumer(bytes, sleeps)?;
    node.export(ring.region(), Name::parse(called)?, GRANT)?;
    Ok(ring)
}

/// The next record; whether its producer lives is asked elsewhere.
#[inline(always)]
pub fn next(ring: &mut PushConsumer) -> Result<Option<Record<'_>>, Broken> {
    match ring.next() {
        Ok(record) => Ok(record),
        Err(NextError::Gone) => Ok(None),
        Err(NextError::Broken(broken)) => Err(broken),
    }
}

/// The connection to a node, where it is there already.
pub fn connect(node: &mut Shm, peer: &str) -> Result<Option<EndpointId>, BenchError> {
    match node.connect(peer, Reliability::Reliable) {
        Ok(endpoint) => Ok(Some(endpoint)),
        Err(ConnectError::Host { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a connection has come about.
pub fn connected(node: &mut Shm) -> Result<Option<()>, BenchError> {
    Ok(node
        .poll(clock::now())
        .and_then(|what| matches!(what, Completion::Connected { .. }).then_some(())))
}

/// A region of the other process.
pub fn import(node: &mut Shm, endpoint: EndpointId, called: &str) -> Result<RemoteId, BenchError> {
    let remote = node.import(endpoint, Name::parse(called)?, KEY)?;
    loop {
        match node.poll(clock::now()) {
            Some(Completion::Imported { status: Status::Done, .. }) => return Ok(remote),
            Some(Completion::Imported { status, .. }) => {
                return Err(BenchError::Refused(format!("region {called}: {status}")));
            }
            _ => {}
        }
    }
}
