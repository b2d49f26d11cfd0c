//! One node of a cluster, as a program sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fluxline_core::fabric::memory::{View, zeroed};
use fluxline_core::fabric::{
    AccessError, Capabilities, Completion, ConnectError, EndpointId, ExportError, Fabric, Grant,
    ImportError, Key, Memory, Name, PostError, RegionId, RegisterError, Reliability, RemoteId,
    Slice, Work, WorkCounters, view_copy,
};
use fluxline_core::lock::Lock;
use fluxline_core::{Moment, Span};

use super::moments::{instant, moment};
use super::nodes::Nodes;
use crate::Duration;
use crate::fabric::adapter::Hands;
use crate::fabric::driver::{Driver, ENDPOINTS_MAX, REGIONS_MAX};
use crate::fabric::{OPERATION_BYTES_MAX, PIECES_MAX, QUEUE_MAX};

/// The largest region \[byte\]: more would only wait for the machine that simulates. A choice.
const REGION_BYTES_MAX: u64 = 1 << 40;
/// The longest time until the death of a peer is known: the interval of probes, and the time of an
/// unanswered probe (`Times::give_up`), with room for other requests before it.
const DEATH_NOTICED_WITHIN: Span = Span::from_ms(100);
/// Processor time of a store through a window \[ps/byte\]. DERIVED: 80 MB/s, at which the bus of
/// the measured machines takes stores.
const WINDOW_PS_PER_BYTE: u64 = 12_500;

/// A node of a simulated cluster. Its name is its index: `0`, `1`, and so on.
pub struct Node {
    world: Arc<Lock<Box<dyn Nodes>>>,
    index: usize,
    capabilities: Capabilities,
    /// Bytes stored through windows since they were charged.
    through_windows: Arc<AtomicU64>,
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
        let (through_windows, counters) = (Arc::default(), WorkCounters::default());
        Node { world, index, capabilities, through_windows, counters }
    }

    /// Returns the place of the node in its world.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Lets the driver do something, and settles what follows.
    fn act<T>(&mut self, work: impl FnOnce(&mut Driver, &mut dyn Hands) -> T) -> T {
        let stored = self.through_windows.swap(0, Ordering::Relaxed);
        let (mut work, mut result) = (Some(work), None);
        self.world.lock().act(self.index, &mut |driver, hands| {
            if stored > 0 {
                hands.compute(Duration::from_ps(WINDOW_PS_PER_BYTE).times(stored));
            }
            result = work.take().map(|work| work(driver, hands));
        });
        result.expect("a world lets the driver act once")
    }
}

impl Drop for Node {
    /// Dropping a node switches it off: its peers notice the silence.
    fn drop(&mut self) {
        self.world.lock().switch_off(self.index);
    }
}

impl Fabric for Node {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn register(&mut self, bytes: u64) -> Result<RegionId, RegisterError> {
        let max = REGION_BYTES_MAX;
        if bytes == 0 || bytes > max {
            return Err(RegisterError::Size { bytes, max });
        }
        let reason = || "there is not enough memory".to_owned();
        let memory =
            zeroed(bytes).ok_or_else(|| RegisterError::Memory { bytes, reason: reason() })?;
        self.register_own(memory)
    }

    fn register_own(&mut self, memory: Arc<dyn Memory>) -> Result<RegionId, RegisterError> {
        let (bytes, max) = (memory.bytes(), REGION_BYTES_MAX);
        if bytes == 0 || bytes > max {
            return Err(RegisterError::Size { bytes, max });
        }
        self.act(|_, hands| {
            if hands.memory().regions() >= REGIONS_MAX as usize {
                return Err(RegisterError::TooMany { max: REGIONS_MAX });
            }
            hands.memory().register(memory).ok_or_else(|| RegisterError::Memory {
                bytes,
                reason: "the addresses of the simulated node are used up".into(),
            })
        })
    }

    /// Views a copy: other nodes of the world go on meanwhile.
    fn view(
        &mut self,
        region: RegionId,
        see: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), AccessError> {
        let memory = self.act(|driver, hands| {
            let own = hands.memory().region(region)?;
            if own.exported.as_ref().is_some_and(|(_, grant)| grant.rights.changes()) {
                return Err(AccessError::Exported);
            }
            if Arc::strong_count(&own.words) > 1 || driver.fills(region) {
                return Err(AccessError::InUse);
            }
            Ok(Arc::clone(&own.words))
        })?;
        view_copy(&*memory, see)
    }

    fn export(&mut self, region: RegionId, name: Name, grant: Grant) -> Result<(), ExportError> {
        self.act(|_, hands| {
            if hands.memory().exported(name.as_str()).is_some() {
                return Err(ExportError::NameTaken { name });
            }
            let found =
                hands.memory().region_mut(region).map_err(|_| ExportError::UnknownRegion)?;
            if let Some((name, _)) = &found.exported {
                return Err(ExportError::Exported { name: name.clone() });
            }
            found.exported = Some((name, grant));
            Ok(())
        })
    }

    fn withdraw(&mut self, region: RegionId) -> Result<(), AccessError> {
        self.act(|_, hands| {
            hands.memory().region_mut(region)?.withdraw();
            Ok(())
        })
    }

    fn memory(&self, region: RegionId) -> Result<Arc<dyn Memory>, AccessError> {
        let world = self.world.lock();
        world.region_words(self.index, region)
    }

    fn connect(
        &mut self,
        peer: &str,
        reliability: Reliability,
    ) -> Result<EndpointId, ConnectError> {
        let nodes = self.world.lock().nodes();
        let found = peer.parse::<usize>().ok().filter(|&index| index < nodes);
        let Some(index) = found.filter(|&index| index != self.index) else {
            let expected = "write another node's number, counted from 0";
            return Err(ConnectError::Name { peer: peer.to_owned(), expected });
        };
        self.act(|driver, hands| {
            if driver.endpoints_open() >= ENDPOINTS_MAX as usize {
                return Err(ConnectError::TooMany { max: ENDPOINTS_MAX });
            }
            Ok(driver.connect(hands, index as u32, reliability))
        })
    }

    fn disconnect(&mut self, endpoint: EndpointId) -> Result<(), PostError> {
        self.act(|driver, hands| driver.disconnect(hands, endpoint))
    }

    fn import(
        &mut self,
        endpoint: EndpointId,
        name: Name,
        key: Key,
    ) -> Result<RemoteId, ImportError> {
        self.act(|driver, hands| driver.import(hands, endpoint, &name, key))
    }

    fn window(&self, remote: RemoteId) -> Result<Option<Arc<dyn Memory>>, AccessError> {
        let world = self.world.lock();
        let import = world.driver(self.index).imported(remote);
        let (peer, offset, rights) = import.ok_or(AccessError::UnknownRegion)?;
        let words = world.words_at(peer, offset).ok_or(AccessError::UnknownRegion)?;
        let view = View { words, rights };
        let stored = Arc::clone(&self.through_windows);
        Ok(Some(Arc::new(super::window::Window { view, stored })))
    }

    fn post(&mut self, endpoint: EndpointId, tag: u64, work: Work<'_>) -> Result<(), PostError> {
        let outcome = self.act(|driver, hands| driver.post(hands, endpoint, tag, &work));
        self.counters.posted(&work, &outcome);
        outcome
    }

    fn post_receive(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        into: Slice,
    ) -> Result<(), PostError> {
        self.act(|driver, hands| driver.post_receive(hands, endpoint, tag, into))
    }

    fn counters(&self) -> &WorkCounters {
        &self.counters
    }

    fn now(&self) -> Moment {
        moment(self.world.lock().now())
    }

    fn poll(&mut self, now: Moment) -> Option<Completion> {
        let mut world = self.world.lock();
        world.run_until(instant(now));
        let next = world.next_completion(self.index);
        self.counters.polled(next.as_ref());
        next
    }

    fn deadline(&self) -> Option<Moment> {
        let world = self.world.lock();
        let due = world.look(self.index).next_completion_at;
        due.into_iter().chain(world.next_at()).min().map(moment)
    }
}
