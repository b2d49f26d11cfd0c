//! One node of a cluster, as a program sees it.

use std::sync::Arc;

use fluxline_core::fabric::{
    AccessError, Capabilities, Completion, ConnectError, EndpointId, ExportError, Fabric, Grant,
    ImportError, Key, Memory, Name, PostError, RegionId, RegisterError, Reliability, RemoteId,
    Slice, Work, WorkCounters,
};
use fluxline_core::lock::Lock;
use fluxline_core::{Moment, Span};

use super::driven::REGION_BYTES_MAX;
use super::moments::{instant, moment};
use super::nodes::Nodes;
use crate::fabric::driver::{ENDPOINTS_MAX, REGIONS_MAX};
use crate::fabric::{OPERATION_BYTES_MAX, PIECES_MAX, QUEUE_MAX};

/// The longest time until the death of a peer is known: the interval of probes, and the time of an
/// unanswered probe (`Times::give_up`), with room for other requests before it.
const DEATH_NOTICED_WITHIN: Span = Span::from_ms(100);

/// A node of a simulated cluster. Its name is its index: `0`, `1`, and so on.
pub struct Node {
    world: Arc<Lock<Box<dyn Nodes>>>,
    index: usize,
    capabilities: Capabilities,
    counters: WorkCounters,
}

/// Returns the capabilities of nodes on the link of this name, whose adapters use their DMA engine
/// for puts and gets of more than `crossover_bytes`.
pub(super) fn capabilities(link: &'static str, crossover_bytes: u64) -> Capabilities {
    let mut of = Capabilities::new(link);
    of.operation_bytes_max = OPERATION_BYTES_MAX;
    of.message_bytes_max = OPERATION_BYTES_MAX;
    of.region_bytes_max = REGION_BYTES_MAX;
    of.regions_max = REGIONS_MAX;
    of.endpoints_max = ENDPOINTS_MAX;
    of.queue_max = QUEUE_MAX;
    of.pieces_max = PIECES_MAX;
    of.own_memory = true;
    of.windows = true;
    of.atomics = true;
    of.ordered = true;
    of.crossover_bytes = crossover_bytes;
    of.death_noticed_within = DEATH_NOTICED_WITHIN;
    of
}

impl Node {
    pub(super) fn new(
        world: Arc<Lock<Box<dyn Nodes>>>,
        index: usize,
        capabilities: Capabilities,
    ) -> Node {
        Node { world, index, capabilities, counters: WorkCounters::default() }
    }

    /// Returns the place of the node in its world.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Calls the node in its world.
    fn call<T>(&self, work: impl FnOnce(&mut dyn Fabric) -> T) -> T {
        let (mut work, mut result) = (Some(work), None);
        self.world.lock().call(self.index, &mut |fabric| {
            result = work.take().map(|work| work(fabric));
        });
        result.expect("a world calls the node once")
    }
}

impl Drop for Node {
    /// Dropping a node switches it off: its peers notice the silence, or get a goodbye.
    fn drop(&mut self) {
        self.world.lock().switch_off(self.index);
    }
}

impl Fabric for Node {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn register(&mut self, bytes: u64) -> Result<RegionId, RegisterError> {
        self.call(|fabric| fabric.register(bytes))
    }

    fn register_own(&mut self, memory: Arc<dyn Memory>) -> Result<RegionId, RegisterError> {
        self.call(|fabric| fabric.register_own(memory))
    }

    /// Views a copy: other nodes of the world go on meanwhile.
    fn view(
        &mut self,
        region: RegionId,
        visit: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), AccessError> {
        let (mut copy, mut lacks) = (Vec::new(), None);
        self.call(|fabric| {
            fabric.view(region, &mut |bytes| match copy.try_reserve_exact(bytes.len()) {
                Ok(()) => copy.extend_from_slice(bytes),
                Err(_) => lacks = Some(bytes.len() as u64),
            })
        })?;
        if let Some(bytes) = lacks {
            return Err(AccessError::Memory { bytes });
        }
        visit(&mut copy);
        self.call(|fabric| fabric.memory(region))?.write(0, &copy)
    }

    fn export(&mut self, region: RegionId, name: Name, grant: Grant) -> Result<(), ExportError> {
        self.call(|fabric| fabric.export(region, name, grant))
    }

    fn withdraw(&mut self, region: RegionId) -> Result<(), AccessError> {
        self.call(|fabric| fabric.withdraw(region))
    }

    fn memory(&self, region: RegionId) -> Result<Arc<dyn Memory>, AccessError> {
        self.call(|fabric| fabric.memory(region))
    }

    fn connect(
        &mut self,
        peer: &str,
        reliability: Reliability,
    ) -> Result<EndpointId, ConnectError> {
        self.call(|fabric| fabric.connect(peer, reliability))
    }

    fn disconnect(&mut self, endpoint: EndpointId) -> Result<(), PostError> {
        self.call(|fabric| fabric.disconnect(endpoint))
    }

    fn import(
        &mut self,
        endpoint: EndpointId,
        name: Name,
        key: Key,
    ) -> Result<RemoteId, ImportError> {
        self.call(|fabric| fabric.import(endpoint, name, key))
    }

    fn window(&self, remote: RemoteId) -> Result<Option<Arc<dyn Memory>>, AccessError> {
        self.call(|fabric| fabric.window(remote))
    }

    fn post(&mut self, endpoint: EndpointId, tag: u64, work: Work<'_>) -> Result<(), PostError> {
        let outcome = self.call(|fabric| fabric.post(endpoint, tag, work));
        self.counters.posted(&work, &outcome);
        outcome
    }

    fn post_receive(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        into: Slice,
    ) -> Result<(), PostError> {
        self.call(|fabric| fabric.post_receive(endpoint, tag, into))
    }

    fn counters(&self) -> &WorkCounters {
        &self.counters
    }

    fn now(&self) -> Moment {
        moment(self.world.lock().now())
    }

    fn poll(&mut self, now: Moment) -> Option<Completion> {
        self.world.lock().run_until(instant(now));
        let next = self.call(|fabric| fabric.poll(now));
        self.counters.polled(next.as_ref());
        next
    }

    fn deadline(&self) -> Option<Moment> {
        self.call(|fabric| fabric.deadline())
    }
}
