//! Shared memory as a source: another process pushes packets into a ring of this one.

use std::time::Duration;

use fluxline::push::ConsumerWait;
use fluxline::shm::{Shm, ShmConfig};
use fluxline::shm_url;
use fluxline_core::fabric::{Completion, Fabric, Grant, Key, Name, Rights, Status};
use fluxline_daq::experiment::{SharedMemory, Source};
use fluxline_daq::ledger::RemoteWriteCounters;

use super::{Feed, InputEnd, OpenInput};
use crate::error::Error;
use crate::monitor::Monitor;
use crate::ring::{InputRing, Records, RingFate, SharedRing};
use crate::stop::Stop;

/// Time between two checks of the connections.
const LOOK: Duration = Duration::from_millis(20);

/// A node whose ring is exported.
struct SharedFeed {
    name: String,
    node: Shm,
    fate: RingFate,
    /// Ends the reading of the ring.
    end: Stop,
}

/// Opens the node and exports its ring.
pub(super) fn open(source: &Source, from: &SharedMemory) -> Result<OpenInput, Error> {
    let name = source.name.clone();
    let wrong =
        |error: &dyn std::fmt::Display| Error::link(format_args!("source `{name}`: {error}."));
    let (group, node, users) = shm_url(&from.url).map_err(|error| wrong(&error))?;
    let region = Name::parse(&from.region).map_err(|error| wrong(&error))?;
    let config = ShmConfig { users, ..ShmConfig::default() };
    let mut node = Shm::open(&group, &node, config).map_err(|error| wrong(&error))?;
    let consumer =
        node.push_consumer(from.ring_bytes, ConsumerWait::Sleeps).map_err(|error| wrong(&error))?;
    let grant = Grant { rights: Rights::PUT, key: Key(from.key) };
    node.export(consumer.region(), region, grant).map_err(|error| wrong(&error))?;
    let end = Stop::default();
    let (ring, fate) = SharedRing::new(consumer);
    let records = Records::new(ring, end.clone(), from.ring_bytes);
    let ring = InputRing::Shared(Box::new(records));
    let feed = SharedFeed { name, node, fate, end };
    let listens = vec![from.url.clone()];
    Ok(OpenInput { listens, ..OpenInput::new(source, ring, from.ring_bytes, feed) })
}

impl Feed for SharedFeed {
    /// Accepts connections and notes how they end, until the run is over.
    fn run(mut self: Box<Self>, stop: &Stop, monitor: &Monitor) -> InputEnd {
        let mut remote = RemoteWriteCounters::default();
        while !stop.is_over() {
            remote.producers_gone += self.look_for_the_dead(monitor);
            self.node.wait(LOOK);
        }
        remote.producers_gone += self.look_for_the_dead(monitor);
        self.end.now();
        InputEnd { fate: self.fate, remote, ..InputEnd::default() }
    }
}

impl SharedFeed {
    /// Returns the number of producers that vanished since the last call.
    fn look_for_the_dead(&mut self, monitor: &Monitor) -> u64 {
        let mut gone = 0;
        while let Some(what) = self.node.poll(self.node.now()) {
            if let Completion::Broken { status, .. } = what
                && status != Status::Disconnected
            {
                monitor.note(Some(format!("source `{}`: a producer: {status}", self.name)));
                gone += 1;
            }
        }
        gone
    }
}
