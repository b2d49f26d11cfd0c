//! The programming model (`Fabric`) on shared memory.

use std::sync::Arc;

use fluxline_core::Moment;
use fluxline_core::fabric::push::RingLink;
use fluxline_core::fabric::{
    AccessError, BatchError, Capabilities, Completion, ConnectError, EndpointId, ExportError,
    Fabric, Grant, ImportError, Key, Memory, Name, Post, PostError, RegionId, RegisterError,
    Reliability, RemoteId, Slice, Status, Work, WorkCounters, post_each,
};

use super::directory::Directory;
use super::endpoint::{Endpoint, Peer};
use super::node::End;
use super::region::{Imported, OwnRegion};
use super::{CAPABILITIES, Import, LIFE_PERIOD, QUEUE_MAX, Shm, reason};
use crate::clock;
use crate::sys::shared::Pages;

impl Fabric for Shm {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn register(&mut self, bytes: u64) -> Result<RegionId, RegisterError> {
        let max = CAPABILITIES.region_bytes_max;
        if bytes == 0 || bytes > max {
            return Err(RegisterError::Size { bytes, max });
        }
        let too_many = RegisterError::TooMany { max: CAPABILITIES.regions_max };
        let id = self.regions.next_id().ok_or(too_many.clone())?;
        let pages = if self.config.huge_pages { Pages::Huge } else { Pages::Small };
        let region = OwnRegion::new(&self.directory, id, bytes, pages)
            .map_err(|error| RegisterError::Memory { bytes, reason: reason(&error) })?;
        self.regions.insert(region).map(RegionId).ok_or(too_many)
    }

    fn export(&mut self, region: RegionId, name: Name, grant: Grant) -> Result<(), ExportError> {
        let own = self.own(region).map_err(|_| ExportError::UnknownRegion)?;
        if let Some((name, _)) = self.exported.iter().find(|of| of.1 == region) {
            return Err(ExportError::Exported { name: name.clone() });
        }
        if self.exported.iter().any(|of| of.0 == name) {
            return Err(ExportError::NameTaken { name });
        }
        own.grant(grant);
        match own.publish(&self.directory, &Directory::region(&self.name, &name)) {
            Ok(()) => {
                self.exported.push((name, region));
                Ok(())
            }
            Err(error) => Err(ExportError::Host { name, reason: reason(&error) }),
        }
    }

    fn withdraw(&mut self, region: RegionId) -> Result<(), AccessError> {
        self.regions.remove(region.0).ok_or(AccessError::UnknownRegion)?.withdraw();
        if let Some(place) = self.exported.iter().position(|of| of.1 == region) {
            let (name, _) = self.exported.swap_remove(place);
            // The region is withdrawn even if its file cannot be removed.
            let _ = self.directory.remove_file(&Directory::region(&self.name, &name));
        }
        Ok(())
    }

    fn memory(&self, region: RegionId) -> Result<Arc<dyn Memory>, AccessError> {
        Ok(Arc::new(self.own(region)?.view()))
    }

    fn view(
        &mut self,
        region: RegionId,
        visit: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), AccessError> {
        let own = self.regions.get_mut(region.0).ok_or(AccessError::UnknownRegion)?;
        if own.is_ring {
            return Err(AccessError::PushRing);
        }
        own.view_bytes(visit)
    }

    fn connect(
        &mut self,
        peer: &str,
        reliability: Reliability,
    ) -> Result<EndpointId, ConnectError> {
        let wrong = |expected| ConnectError::Name { peer: peer.to_owned(), expected };
        let name = Name::parse(peer).map_err(|_| wrong("write the name of a node of the group"))?;
        if name == self.name {
            return Err(wrong("a node cannot connect to itself"));
        }
        let too_many = ConnectError::TooMany { max: CAPABILITIES.endpoints_max };
        self.endpoints.next_id().ok_or(too_many.clone())?;
        let host = |reason: String| ConnectError::Host { peer: peer.to_owned(), reason };
        let node = self.peer(&name).map_err(|error| host(error.to_string()))?;
        if !node.is_alive() {
            return Err(host("its process has died; start it again".to_owned()));
        }
        let slot = node.claim(&self.as_claimer(reliability)).map_err(host)?;
        let peer = Peer { name: name.to_string(), node };
        let made = |id| Endpoint::new(id, peer, reliability, slot, End::Claimer);
        self.add_endpoint(made).ok_or(too_many)
    }

    fn disconnect(&mut self, endpoint: EndpointId) -> Result<(), PostError> {
        // Also for an endpoint that is not answered yet.
        self.endpoints.get(endpoint.0).ok_or(PostError::NotConnected)?;
        self.end(endpoint.0, Status::Done);
        Ok(())
    }

    fn import(
        &mut self,
        endpoint: EndpointId,
        name: Name,
        key: Key,
    ) -> Result<RemoteId, ImportError> {
        let of = self.endpoint(endpoint).map_err(|_| ImportError::NotConnected)?;
        let peer = Name::parse(&of.peer.name).map_err(|_| ImportError::NotConnected)?;
        let max = CAPABILITIES.regions_max;
        let full = self.imports.next_id().is_none() || self.completions.len() >= max as usize;
        let file = Directory::region(&peer, &name);
        let region = if full { None } else { Some(Imported::open(&self.directory, &file, key)) };
        let (id, status, bytes) = match region.ok_or(ImportError::TooMany { max })? {
            Ok(region) => {
                let bytes = region.view.bytes;
                (self.imports.insert(Import { endpoint, region }), Status::Done, bytes)
            }
            Err(status) => (self.imports.spend(), status, 0),
        };
        let remote = RemoteId(id.ok_or(ImportError::TooMany { max })?);
        self.completions.push_back(Completion::Imported { remote, status, bytes });
        Ok(remote)
    }

    fn window(&self, remote: RemoteId) -> Result<Option<Arc<dyn Memory>>, AccessError> {
        match self.imports.get(remote.0) {
            Some(import) if !import.region.is_withdrawn() => {
                Ok(Some(Arc::new(import.region.view.clone())))
            }
            _ => Err(AccessError::UnknownRegion),
        }
    }

    fn post(&mut self, endpoint: EndpointId, tag: u64, work: Work<'_>) -> Result<(), PostError> {
        let outcome = self.post_work(endpoint, tag, &work);
        self.counters.posted(&work, &outcome);
        outcome
    }

    fn post_all(&mut self, endpoint: EndpointId, posts: &[Post<'_>]) -> Result<(), BatchError> {
        if let Ok(of) = self.endpoint_mut(endpoint) {
            of.hold_bell();
        }
        let outcome = post_each(posts, |post| self.post(endpoint, post.tag, post.work));
        if let Ok(of) = self.endpoint_mut(endpoint) {
            of.release_bell();
        }
        outcome
    }

    fn post_receive(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        into: Slice,
    ) -> Result<(), PostError> {
        self.endpoint(endpoint)?;
        self.own_room(into)?;
        let of = self.endpoint_mut(endpoint)?;
        if of.receives.len() >= QUEUE_MAX {
            return Err(PostError::Full);
        }
        of.receives.push_back((tag, into));
        Ok(())
    }

    fn counters(&self) -> &WorkCounters {
        &self.counters
    }

    fn now(&self) -> Moment {
        clock::monotonic()
    }

    fn poll(&mut self, now: Moment) -> Option<Completion> {
        if self.completions.is_empty() {
            self.accept();
            self.turns(now);
            self.look_at_lives(now);
        }
        self.counters.polled(self.completions.front());
        self.completions.pop_front()
    }

    fn deadline(&self) -> Option<Moment> {
        self.lives_seen.map(|since| since + LIFE_PERIOD)
    }

    fn wait(&mut self, until: Moment) {
        Shm::wait(self, clock::left(until));
    }

    fn rings(&mut self) -> Option<&mut dyn RingLink> {
        Some(self)
    }
}
