//! The state that the nodes of a lab share: regions, endpoints and queues.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::super::Memory;
use super::super::error::AccessError;
use super::super::region::{Grant, Key, Name, RegionId, RemoteId, Rights, Slice};
use super::super::work::{Completion, EndpointId, Operation, Reliability, Status};
use super::limits::CAPABILITIES;
use super::queued::Queued;
use super::words::Words;
use crate::Moment;

/// All nodes of a lab.
#[derive(Default)]
pub(super) struct Shared {
    pub nodes: Vec<Node>,
    /// The lab's time.
    pub now: Moment,
}

/// One node: its regions, endpoints and completions.
#[derive(Default)]
pub(super) struct Node {
    pub name: String,
    pub dead: bool,
    pub regions: Vec<Region>,
    pub endpoints: Vec<Endpoint>,
    pub imports: Vec<Option<Import>>,
    pub inbox: VecDeque<Completion>,
    /// The endpoint whose work is due next.
    pub turn: usize,
}

/// A region of a node.
pub(super) struct Region {
    pub words: Arc<dyn Memory>,
    pub exported: Option<(Name, Grant)>,
    pub withdrawn: bool,
}

impl Region {
    /// Ends the region; its memory is its other holders'.
    pub fn withdraw(&mut self) {
        (self.withdrawn, self.exported) = (true, None);
        self.words = Arc::new(Words::default());
    }
}

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    Over,
}

/// One end of a connection.
pub(super) struct Endpoint {
    pub phase: Phase,
    pub peer: usize,
    /// The peer's end.
    pub other: EndpointId,
    pub queue: VecDeque<Queued>,
    pub receives: VecDeque<(u64, Slice)>,
    /// The first work in the queue has waited since then for a buffer of the peer.
    pub waits_since: Option<Moment>,
}

/// A peer's region that a node has imported.
#[derive(Clone, Copy)]
pub(super) struct Import {
    pub endpoint: EndpointId,
    pub peer: usize,
    pub region: usize,
    pub rights: Rights,
}

/// The end of a connection, as each end's program gets it.
#[derive(Clone, Copy)]
pub(super) struct Ending {
    pub own: Status,
    pub peer: Status,
}

impl Node {
    pub fn region(&self, region: RegionId) -> Result<&Region, AccessError> {
        let found = self.regions.get(region.0 as usize).filter(|region| !region.withdrawn);
        found.ok_or(AccessError::UnknownRegion)
    }

    pub fn region_mut(&mut self, region: RegionId) -> Result<&mut Region, AccessError> {
        let found = self.regions.get_mut(region.0 as usize).filter(|region| !region.withdrawn);
        found.ok_or(AccessError::UnknownRegion)
    }

    pub fn check_slice(&self, slice: Slice) -> Result<(), AccessError> {
        self.region(slice.region)?.words.check(slice.offset, slice.bytes)
    }

    /// Returns the memory of a region that nobody else writes now.
    pub fn alone(&self, region: RegionId) -> Result<Arc<dyn Memory>, AccessError> {
        let own = self.region(region)?;
        if own.exported.as_ref().is_some_and(|(_, grant)| grant.rights.changes()) {
            return Err(AccessError::Exported);
        }
        let written = |of: &Endpoint| {
            of.queue.iter().any(|queued| queued.fills() == Some(region))
                || of.receives.iter().any(|(_, into)| into.region == region)
        };
        if Arc::strong_count(&own.words) > 1 || self.endpoints.iter().any(written) {
            return Err(AccessError::InUse);
        }
        Ok(Arc::clone(&own.words))
    }

    /// Returns the number of the region exported under a name.
    pub fn exported(&self, name: &Name) -> Option<usize> {
        let named = |region: &Region| region.exported.as_ref().is_some_and(|of| of.0 == *name);
        self.regions.iter().position(named)
    }

    pub fn endpoints_open(&self) -> usize {
        self.endpoints.iter().filter(|endpoint| endpoint.phase == Phase::Open).count()
    }

    fn add_endpoint(&mut self, peer: usize, other: EndpointId, phase: Phase) -> EndpointId {
        let (queue, receives) = (VecDeque::new(), VecDeque::new());
        let waits_since = None;
        self.endpoints.push(Endpoint { phase, peer, other, queue, receives, waits_since });
        EndpointId(self.endpoints.len() as u32 - 1)
    }
}

impl Shared {
    pub fn add_node(&mut self, name: &str) -> Option<usize> {
        if self.nodes.iter().any(|node| node.name == name && !node.dead) {
            return None;
        }
        self.nodes.push(Node { name: name.to_string(), ..Node::default() });
        Some(self.nodes.len() - 1)
    }

    pub fn phase(&self, node: usize, endpoint: EndpointId) -> Option<Phase> {
        self.nodes[node].endpoints.get(endpoint.0 as usize).map(|endpoint| endpoint.phase)
    }

    pub fn connect(&mut self, node: usize, peer: &str, reliability: Reliability) -> EndpointId {
        let found = self.nodes.iter().position(|other| other.name == peer && !other.dead);
        let Some(peer_node) = found else {
            let endpoint = self.nodes[node].add_endpoint(node, EndpointId(0), Phase::Over);
            let status = Status::PeerGone;
            self.nodes[node].inbox.push_back(Completion::Broken { endpoint, status });
            return endpoint;
        };
        if self.nodes[peer_node].endpoints_open() >= CAPABILITIES.endpoints_max as usize {
            let endpoint = self.nodes[node].add_endpoint(node, EndpointId(0), Phase::Over);
            self.nodes[node]
                .inbox
                .push_back(Completion::Broken { endpoint, status: Status::NoRoom });
            return endpoint;
        }
        let other = EndpointId(self.nodes[peer_node].endpoints.len() as u32);
        let endpoint = self.nodes[node].add_endpoint(peer_node, other, Phase::Open);
        self.nodes[peer_node].add_endpoint(node, endpoint, Phase::Open);
        let connected = |endpoint, peer| Completion::Connected { endpoint, peer, reliability };
        let (here, there) = (self.nodes[node].name.clone(), peer.to_string());
        self.nodes[node].inbox.push_back(connected(endpoint, there));
        self.nodes[peer_node].inbox.push_back(connected(other, here));
        endpoint
    }

    pub fn import(&mut self, node: usize, endpoint: EndpointId, name: &Name, key: Key) -> RemoteId {
        let peer = self.nodes[node].endpoints[endpoint.0 as usize].peer;
        let remote = RemoteId(self.nodes[node].imports.len() as u32);
        let found = self.nodes[peer].exported(name).ok_or(Status::NoSuchRegion);
        let found = found.and_then(|number| {
            let region = &self.nodes[peer].regions[number];
            let grant = region.exported.as_ref().map(|(_, grant)| *grant);
            let grant = grant.filter(|grant| grant.key == key).ok_or(Status::WrongKey)?;
            Ok((number, grant.rights, region.words.bytes()))
        });
        let (import, completion) = match found {
            Ok((region, rights, bytes)) => {
                let import = Import { endpoint, peer, region, rights };
                (Some(import), Completion::Imported { remote, status: Status::Done, bytes })
            }
            Err(status) => (None, Completion::Imported { remote, status, bytes: 0 }),
        };
        self.nodes[node].imports.push(import);
        self.nodes[node].inbox.push_back(completion);
        remote
    }

    /// Returns a node's import, while its connection is open.
    pub fn import_of(&self, node: usize, remote: RemoteId) -> Option<Import> {
        let import = (*self.nodes[node].imports.get(remote.0 as usize)?)?;
        (self.phase(node, import.endpoint) == Some(Phase::Open)).then_some(import)
    }

    /// Ends both ends of a connection.
    pub fn break_up(&mut self, node: usize, endpoint: EndpointId, ending: Ending) {
        let Endpoint { peer, other, .. } = self.nodes[node].endpoints[endpoint.0 as usize];
        self.close(node, endpoint, ending.own);
        self.close(peer, other, ending.peer);
    }

    fn close(&mut self, node: usize, endpoint: EndpointId, status: Status) {
        let Node { endpoints, inbox, .. } = &mut self.nodes[node];
        let of = &mut endpoints[endpoint.0 as usize];
        if of.phase == Phase::Over {
            return;
        }
        of.phase = Phase::Over;
        of.waits_since = None;
        let flushed = of.queue.drain(..).map(|queued| (queued.tag, queued.operation()));
        let unused = of.receives.drain(..).map(|(tag, _)| (tag, Operation::Receive));
        for (tag, operation) in flushed.chain(unused) {
            let status = Status::Flushed;
            inbox.push_back(Completion::Done { endpoint, tag, operation, status, value: 0 });
        }
        inbox.push_back(Completion::Broken { endpoint, status });
    }

    /// Breaks the connections of a node that is gone, and withdraws its regions.
    pub fn kill(&mut self, node: usize) {
        for number in 0..self.nodes[node].endpoints.len() {
            let endpoint = EndpointId(number as u32);
            if self.phase(node, endpoint) == Some(Phase::Open) {
                let ending = Ending { own: Status::Done, peer: Status::PeerGone };
                self.break_up(node, endpoint, ending);
            }
        }
        let node = &mut self.nodes[node];
        node.dead = true;
        node.regions.iter_mut().for_each(Region::withdraw);
    }
}
