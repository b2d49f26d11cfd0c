//! The nodes, rings and regions of both ends.

use std::time::Duration;

use fluxline::clock;
use fluxline::push::{Broken, ConsumerWait, NextError, PushConsumer, Record};
use fluxline::shm::{Shm, ShmConfig};
use fluxline_core::fabric::{
    Completion, ConnectError, EndpointId, Fabric, Grant, Key, Name, Reliability, RemoteId, Rights,
    Status,
};

use crate::Error;

/// The key of all regions: their directory belongs to this user alone.
const KEY: Key = Key(0x5EED);
/// The grant of all regions.
const GRANT: Grant = Grant { rights: Rights::PUT, key: KEY };
/// The size of a ring \[byte\]. Half a level-2 cache: a small window used again and again is the
/// fastest.
pub const RING_BYTES: u64 = 512 << 10;
/// The size of the large ring \[byte\]: records of 1 MiB must fit four times.
pub const LARGE_RING_BYTES: u64 = 8 << 20;
/// The size of the region that is put into \[byte\].
pub const REGION_BYTES: u64 = 1 << 20;
/// The name of that region.
pub const REGION: &str = "region";
/// The time that an adaptive node polls before it sleeps, as in [`fluxline::open`].
pub const SPIN: Duration = Duration::from_micros(50);
/// The node of the near end.
pub const NEAR: &str = "near";
/// The node of the far end that sleeps at once.
pub const FAR: &str = "far";
/// The node of the far end that polls for [`SPIN`] before it sleeps.
pub const ADAPTIVE: &str = "adaptive";

/// Opens a node.
pub fn open(group: &str, node: &str, spin: Duration) -> Result<Shm, Error> {
    let config = ShmConfig { spin, ..ShmConfig::default() };
    Ok(Shm::open(&Name::parse(group)?, &Name::parse(node)?, config)?)
}

/// Removes the files of nodes whose process was killed. Returns true if none of them lives.
///
/// A node that takes the name of a dead one, and closes, removes its files. A living node keeps
/// its name.
pub fn clean_after(group: &str, nodes: &[&str]) -> bool {
    // All of them: the first that lives does not save the others.
    let living = nodes.iter().filter(|node| open(group, node, Duration::ZERO).is_err()).count();
    living == 0
}

/// The way the consumer of a ring waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// It polls.
    Polls,
    /// It may sleep: the ring has a bell.
    Sleeps,
}

/// A ring to be exported.
pub struct RingPlan {
    /// Its name.
    pub name: &'static str,
    /// Its size \[byte\].
    pub bytes: u64,
    /// The way its consumer waits.
    pub waiting: Waiting,
}

/// Makes a push ring that the other end may attach to.
pub fn export_ring(node: &mut Shm, plan: &RingPlan) -> Result<PushConsumer, Error> {
    let wait = match plan.waiting {
        Waiting::Sleeps => ConsumerWait::Sleeps,
        Waiting::Polls => ConsumerWait::Polls,
    };
    let ring = node.push_consumer(plan.bytes, wait)?;
    node.export(ring.region(), Name::parse(plan.name)?, GRANT)?;
    Ok(ring)
}

/// Makes the region that the other end puts into.
pub fn export_region(node: &mut Shm) -> Result<(), Error> {
    let region = node.register(REGION_BYTES)?;
    Ok(node.export(region, Name::parse(REGION)?, GRANT)?)
}

/// Takes the next record, without a check that its producer lives.
#[inline(always)]
pub fn next(ring: &mut PushConsumer) -> Result<Option<Record<'_>>, Broken> {
    match ring.next() {
        Ok(record) => Ok(record),
        Err(NextError::Gone) => Ok(None),
        Err(NextError::Broken(broken)) => Err(broken),
    }
}

/// Connects to a node. `None`: the node is not there yet.
pub fn connect(node: &mut Shm, peer: &str) -> Result<Option<EndpointId>, Error> {
    match node.connect(peer, Reliability::Reliable) {
        Ok(endpoint) => Ok(Some(endpoint)),
        Err(ConnectError::Host { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Polls once. `Some`: a connection has come about.
pub fn connected(node: &mut Shm) -> Option<()> {
    let completion = node.poll(clock::now());
    matches!(completion, Some(Completion::Connected { .. })).then_some(())
}

/// Imports a region of the other end.
pub fn import(node: &mut Shm, endpoint: EndpointId, name: &str) -> Result<RemoteId, Error> {
    let remote = node.import(endpoint, Name::parse(name)?, KEY)?;
    loop {
        match node.poll(clock::now()) {
            Some(Completion::Imported { status: Status::Done, .. }) => return Ok(remote),
            Some(Completion::Imported { status, .. }) => {
                return Err(Error::Refused(format!("region {name}: {status}")));
            }
            Some(Completion::Broken { status, .. }) => {
                return Err(Error::PeerGone { how: format!("region {name}: {status}") });
            }
            _ => {}
        }
    }
}
