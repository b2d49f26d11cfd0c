//! A node that does nothing. Putting it in the place of another node drops that one.

use alloc::sync::Arc;

use fluxline_core::Moment;
use fluxline_core::fabric::*;

/// Refuses every call.
#[derive(Default)]
pub(super) struct Nobody(WorkCounters);

const CAPABILITIES: Capabilities = Capabilities::new("none");

impl Fabric for Nobody {
    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn register(&mut self, _: u64) -> Result<RegionId, RegisterError> {
        Err(RegisterError::TooMany { max: 0 })
    }

    fn export(&mut self, _: RegionId, _: Name, _: Grant) -> Result<(), ExportError> {
        Err(ExportError::UnknownRegion)
    }

    fn withdraw(&mut self, _: RegionId) -> Result<(), AccessError> {
        Err(AccessError::UnknownRegion)
    }

    fn memory(&self, _: RegionId) -> Result<Arc<dyn Memory>, AccessError> {
        Err(AccessError::UnknownRegion)
    }

    fn view(&mut self, _: RegionId, _: &mut dyn FnMut(&mut [u8])) -> Result<(), AccessError> {
        Err(AccessError::UnknownRegion)
    }

    fn connect(&mut self, _: &str, _: Reliability) -> Result<EndpointId, ConnectError> {
        Err(ConnectError::TooMany { max: 0 })
    }

    fn disconnect(&mut self, _: EndpointId) -> Result<(), PostError> {
        Err(PostError::NotConnected)
    }

    fn import(&mut self, _: EndpointId, _: Name, _: Key) -> Result<RemoteId, ImportError> {
        Err(ImportError::NotConnected)
    }

    fn window(&self, _: RemoteId) -> Result<Option<Arc<dyn Memory>>, AccessError> {
        Ok(None)
    }

    fn post(&mut self, _: EndpointId, _: u64, _: Work<'_>) -> Result<(), PostError> {
        Err(PostError::NotConnected)
    }

    fn post_receive(&mut self, _: EndpointId, _: u64, _: Slice) -> Result<(), PostError> {
        Err(PostError::NotConnected)
    }

    fn counters(&self) -> &WorkCounters {
        &self.0
    }

    fn now(&self) -> Moment {
        Moment::default()
    }

    fn poll(&mut self, _: Moment) -> Option<Completion> {
        None
    }

    fn deadline(&self) -> Option<Moment> {
        None
    }
}
