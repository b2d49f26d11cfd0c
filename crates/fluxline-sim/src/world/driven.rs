//! A node of a world of adapters, while a program calls it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fluxline_core::Moment;
use fluxline_core::fabric::memory::{View, zeroed};
use fluxline_core::fabric::{
    AccessError, Capabilities, Completion, ConnectError, EndpointId, ExportError, Fabric, Grant,
    ImportError, Key, Memory, Name, PostError, RegionId, RegisterError, Reliability, RemoteId,
    Slice, Work, WorkCounters, view_copy,
};

use super::moments::moment;
use super::nodes::Drivers;
use crate::Duration;
use crate::fabric::adapter::Hands;
use crate::fabric::driver::{Driver, ENDPOINTS_MAX, REGIONS_MAX};

/// The largest region \[byte\]: more would only wait for the machine that simulates. A choice.
pub(super) const REGION_BYTES_MAX: u64 = 1 << 40;
/// Processor time of a store through a window \[ps/byte\]. DERIVED: 80 MB/s, at which the bus of
/// the measured machines takes stores.
const WINDOW_PS_PER_BYTE: u64 = 12_500;

/// A node with its world.
pub struct Driven<'a> {
    /// The world.
    pub world: &'a mut dyn Drivers,
    /// The number of the node.
    pub node: usize,
}

impl Driven<'_> {
    /// Lets the driver do something, and settles what follows.
    fn act<T>(&mut self, work: impl FnOnce(&mut Driver, &mut dyn Hands) -> T) -> T {
        let stored = self.world.through_windows(self.node).swap(0, Ordering::Relaxed);
        let (mut work, mut result) = (Some(work), None);
        self.world.act(self.node, &mut |driver, hands| {
            if stored > 0 {
                hands.compute(Duration::from_ps(WINDOW_PS_PER_BYTE).times(stored));
            }
            result = work.take().map(|work| work(driver, hands));
        });
        result.expect("a world lets the driver act once")
    }
}

impl Fabric for Driven<'_> {
    fn capabilities(&self) -> &Capabilities {
        self.world.capabilities()
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

    fn view(
        &mut self,
        region: RegionId,
        visit: &mut dyn FnMut(&mut [u8]),
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
        view_copy(&*memory, visit)
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
        self.world.region_words(self.node, region)
    }

    fn connect(
        &mut self,
        peer: &str,
        reliability: Reliability,
    ) -> Result<EndpointId, ConnectError> {
        let nodes = self.world.nodes();
        let found = peer.parse::<usize>().ok().filter(|&index| index < nodes);
        let Some(index) = found.filter(|&index| index != self.node) else {
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
        let import = self.world.driver(self.node).imported(remote);
        let (peer, offset, rights) = import.ok_or(AccessError::UnknownRegion)?;
        let words = self.world.words_at(peer, offset).ok_or(AccessError::UnknownRegion)?;
        let view = View { words, rights };
        let stored = Arc::clone(self.world.through_windows(self.node));
        Ok(Some(Arc::new(super::window::Window { view, stored })))
    }

    fn post(&mut self, endpoint: EndpointId, tag: u64, work: Work<'_>) -> Result<(), PostError> {
        self.act(|driver, hands| driver.post(hands, endpoint, tag, &work))
    }

    fn post_receive(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        into: Slice,
    ) -> Result<(), PostError> {
        self.act(|driver, hands| driver.post_receive(hands, endpoint, tag, into))
    }

    /// The node's handle counts; these stay zero.
    fn counters(&self) -> &WorkCounters {
        self.world.uncounted()
    }

    fn now(&self) -> Moment {
        moment(self.world.now())
    }

    fn poll(&mut self, _: Moment) -> Option<Completion> {
        self.world.next_completion(self.node)
    }

    fn deadline(&self) -> Option<Moment> {
        let due = self.world.look(self.node).next_completion_at;
        due.into_iter().chain(self.world.next_at()).min().map(moment)
    }
}
