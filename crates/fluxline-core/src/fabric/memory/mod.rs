//! Nodes of one process joined by plain memory: the brute-force implementation of [`Fabric`].
//!
//! It passes the same suite as every other link (`conformance`), and programs are tested on it.
//! Work waits in its endpoint's queue until its node polls. Each poll does one piece, so that
//! programs see completions in the order of real links. Nodes of a lab share one lock.
//! The lab's time is the latest moment of a poll; `wait` moves it.
//!
//! ```
//! use fluxline_core::fabric::memory::Lab;
//! use fluxline_core::fabric::*;
//! use fluxline_core::Moment;
//!
//! let lab = Lab::new();
//! let (mut builder, mut board) = (lab.node("builder")?, lab.node("board")?);
//! let region = builder.register(4096)?;
//! let samples = Name::parse("samples")?;
//! builder.export(region, samples.clone(), Grant { rights: Rights::PUT, key: Key(7) })?;
//!
//! let endpoint = board.connect("builder", Reliability::Reliable)?;
//! let now = Moment::default();
//! while board.poll(now).is_some() {}
//! let remote = board.import(endpoint, samples, Key(7))?;
//! while board.poll(now).is_some() {}
//! board.post(endpoint, 1, Work::Put {
//!     from: Local::Bytes(b"sample"),
//!     to: Target { remote, offset: 0 },
//!     notify: Some(42),
//!     complete_at: Some(Level::Placed),
//! })?;
//! while board.poll(now).is_some() {}
//!
//! let notified = std::iter::from_fn(|| builder.poll(now))
//!     .any(|completion| matches!(completion, Completion::Notified { value: 42, bytes: 6, .. }));
//! assert!(notified);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod execute;
mod lab;
mod limits;
mod queued;
mod words;

use alloc::string::{String, ToString};
use alloc::sync::Arc;

use super::error::{AccessError, ConnectError, ExportError, ImportError, PostError, RegisterError};
use super::region::{Grant, Key, Name, RegionId, RemoteId, Slice};
use super::work::{Completion, EndpointId, Operation, Reliability, Status, Work};
use super::{Capabilities, Fabric, Memory, WorkCounters, view_copy};
use crate::Moment;
use crate::lock::Lock;
use lab::{Ending, Phase, Shared};
use limits::{CAPABILITIES, NO_BUFFER_WAIT, WAIT};
pub use words::{View, Words};

/// Allocates `bytes` zero bytes in safe code: slow, and enough for tests. `None`: the allocation
/// failed.
#[must_use]
pub fn zeroed(bytes: u64) -> Option<Arc<dyn Memory>> {
    Some(Arc::new(Words::zeroed(bytes)?))
}

/// The lab that joins the nodes.
#[derive(Clone, Default)]
pub struct Lab {
    shared: Arc<Lock<Shared>>,
}

impl Lab {
    /// Returns an empty lab.
    #[must_use]
    pub fn new() -> Lab {
        Lab::default()
    }

    /// Adds a node. Errors: the name is not legal, or a living node has it.
    pub fn node(&self, name: &str) -> Result<MemoryFabric, ConnectError> {
        let refused = |expected| ConnectError::Name { peer: name.to_string(), expected };
        let legal = Name::parse(name).map_err(|_| refused("1 to 64 letters, digits, - _ ."))?;
        let node = self.shared.lock().add_node(legal.as_str());
        let node = node.ok_or_else(|| refused("a name that no living node has"))?;
        let shared = Arc::clone(&self.shared);
        Ok(MemoryFabric { shared, node, counters: WorkCounters::default() })
    }
}

/// One node of a lab. When it is dropped, its peers' connections break.
pub struct MemoryFabric {
    shared: Arc<Lock<Shared>>,
    node: usize,
    counters: WorkCounters,
}

impl MemoryFabric {
    fn post_work(&self, endpoint: EndpointId, tag: u64, work: &Work<'_>) -> Result<(), PostError> {
        let mut shared = self.shared.lock();
        if shared.phase(self.node, endpoint) != Some(Phase::Open) {
            return Err(PostError::NotConnected);
        }
        if matches!(work, Work::Fence) {
            // A queue is in order, so a fence has nothing to wait for.
            let (operation, status) = (Operation::Fence, Status::Done);
            let done = Completion::Done { endpoint, tag, operation, status, value: 0 };
            shared.nodes[self.node].inbox.push_back(done);
            return Ok(());
        }
        let queued = shared.check(self.node, endpoint, tag, work)?;
        let queue = &mut shared.nodes[self.node].endpoints[endpoint.0 as usize].queue;
        if queue.len() >= CAPABILITIES.queue_max as usize {
            return Err(PostError::Full);
        }
        queue.push_back(queued);
        Ok(())
    }
}

impl Drop for MemoryFabric {
    fn drop(&mut self) {
        self.shared.lock().kill(self.node);
    }
}

impl Fabric for MemoryFabric {
    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn register(&mut self, bytes: u64) -> Result<RegionId, RegisterError> {
        let max = CAPABILITIES.region_bytes_max;
        if bytes == 0 || bytes > max {
            return Err(RegisterError::Size { bytes, max });
        }
        let reason = || String::from("there is not enough memory");
        let memory =
            zeroed(bytes).ok_or_else(|| RegisterError::Memory { bytes, reason: reason() })?;
        self.register_own(memory)
    }

    fn register_own(&mut self, memory: Arc<dyn Memory>) -> Result<RegionId, RegisterError> {
        let (bytes, max) = (memory.bytes(), CAPABILITIES.region_bytes_max);
        if bytes == 0 || bytes > max {
            return Err(RegisterError::Size { bytes, max });
        }
        let mut shared = self.shared.lock();
        let node = &mut shared.nodes[self.node];
        let living = node.regions.iter().filter(|region| !region.withdrawn).count();
        if living >= CAPABILITIES.regions_max as usize {
            return Err(RegisterError::TooMany { max: CAPABILITIES.regions_max });
        }
        node.regions.push(lab::Region { words: memory, exported: None, withdrawn: false });
        Ok(RegionId(node.regions.len() as u32 - 1))
    }

    fn export(&mut self, region: RegionId, name: Name, grant: Grant) -> Result<(), ExportError> {
        let mut shared = self.shared.lock();
        let node = &mut shared.nodes[self.node];
        if node.exported(&name).is_some() {
            return Err(ExportError::NameTaken { name });
        }
        let region = node.region_mut(region).map_err(|_| ExportError::UnknownRegion)?;
        if let Some((name, _)) = &region.exported {
            return Err(ExportError::Exported { name: name.clone() });
        }
        region.exported = Some((name, grant));
        Ok(())
    }

    fn withdraw(&mut self, region: RegionId) -> Result<(), AccessError> {
        let mut shared = self.shared.lock();
        shared.nodes[self.node].region_mut(region)?.withdraw();
        Ok(())
    }

    fn memory(&self, region: RegionId) -> Result<Arc<dyn Memory>, AccessError> {
        let shared = self.shared.lock();
        Ok(Arc::clone(&shared.nodes[self.node].region(region)?.words))
    }

    /// Views a copy: other nodes of the lab go on meanwhile.
    fn view(
        &mut self,
        region: RegionId,
        visit: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), AccessError> {
        let memory = self.shared.lock().nodes[self.node].alone(region)?;
        view_copy(&*memory, visit)
    }

    fn connect(
        &mut self,
        peer: &str,
        reliability: Reliability,
    ) -> Result<EndpointId, ConnectError> {
        let mut shared = self.shared.lock();
        let max = CAPABILITIES.endpoints_max;
        if shared.nodes[self.node].endpoints_open() >= max as usize {
            return Err(ConnectError::TooMany { max });
        }
        if peer == shared.nodes[self.node].name || Name::parse(peer).is_err() {
            let expected = "another node's name";
            return Err(ConnectError::Name { peer: peer.to_string(), expected });
        }
        Ok(shared.connect(self.node, peer, reliability))
    }

    fn disconnect(&mut self, endpoint: EndpointId) -> Result<(), PostError> {
        let mut shared = self.shared.lock();
        if shared.phase(self.node, endpoint) != Some(Phase::Open) {
            return Err(PostError::NotConnected);
        }
        let ending = Ending { own: Status::Done, peer: Status::Disconnected };
        shared.break_up(self.node, endpoint, ending);
        Ok(())
    }

    fn import(
        &mut self,
        endpoint: EndpointId,
        name: Name,
        key: Key,
    ) -> Result<RemoteId, ImportError> {
        let mut shared = self.shared.lock();
        if shared.phase(self.node, endpoint) != Some(Phase::Open) {
            return Err(ImportError::NotConnected);
        }
        Ok(shared.import(self.node, endpoint, &name, key))
    }

    fn window(&self, remote: RemoteId) -> Result<Option<Arc<dyn Memory>>, AccessError> {
        let shared = self.shared.lock();
        let import = shared.import_of(self.node, remote).ok_or(AccessError::UnknownRegion)?;
        let region = &shared.nodes[import.peer].regions[import.region];
        if region.withdrawn {
            return Err(AccessError::UnknownRegion);
        }
        Ok(Some(Arc::new(View { words: Arc::clone(&region.words), rights: import.rights })))
    }

    fn post(&mut self, endpoint: EndpointId, tag: u64, work: Work<'_>) -> Result<(), PostError> {
        let outcome = self.post_work(endpoint, tag, &work);
        self.counters.posted(&work, &outcome);
        outcome
    }

    fn post_receive(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        into: Slice,
    ) -> Result<(), PostError> {
        let mut shared = self.shared.lock();
        if shared.phase(self.node, endpoint) != Some(Phase::Open) {
            return Err(PostError::NotConnected);
        }
        let node = &mut shared.nodes[self.node];
        node.check_slice(into).map_err(PostError::Local)?;
        let receives = &mut node.endpoints[endpoint.0 as usize].receives;
        if receives.len() >= CAPABILITIES.queue_max as usize {
            return Err(PostError::Full);
        }
        receives.push_back((tag, into));
        Ok(())
    }

    fn counters(&self) -> &WorkCounters {
        &self.counters
    }

    fn now(&self) -> Moment {
        self.shared.lock().now
    }

    fn poll(&mut self, now: Moment) -> Option<Completion> {
        let mut shared = self.shared.lock();
        shared.now = shared.now.max(now);
        // Work without a completion must not look like the end of all work.
        while shared.nodes[self.node].inbox.is_empty() && shared.work(self.node, now) {}
        let inbox = &mut shared.nodes[self.node].inbox;
        self.counters.polled(inbox.front());
        inbox.pop_front()
    }

    fn deadline(&self) -> Option<Moment> {
        let shared = self.shared.lock();
        let waiting = shared.nodes[self.node].endpoints.iter().filter_map(|of| of.waits_since);
        waiting.min().map(|since| since + NO_BUFFER_WAIT)
    }

    /// Moves the lab's time towards `until`.
    fn wait(&mut self, until: Moment) {
        let mut shared = self.shared.lock();
        shared.now = until.min(shared.now + WAIT).max(shared.now);
    }
}
