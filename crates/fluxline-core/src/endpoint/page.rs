//! The page of the programming model, as the endpoint has it.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::net::{IpAddr, SocketAddr};

use super::connection::{Connection, PendingImport, Start, transport_of};
use super::endpoints::EndpointState;
use super::imports::{Import, ImportState};
use super::node::Node;
use super::node_core::{Core, QUEUE_MAX};
use super::posted::{PayloadSource, Posted, Report, Request, Shape, Terms};
use super::regions::{Granted, check};
use super::wire::Ends;
use super::{StaticPeer, StaticPeerError};
use crate::Moment;
use crate::fabric::{
    AccessError, Capabilities, Completion, ConnectError, EndpointId, ExportError, Fabric, Grant,
    ImportError, Key, Level, Local, Memory, Name, Operation, PostError, RegionId, RegisterError,
    Reliability, RemoteId, Rights, Slice, Status, Target, Work,
};
use crate::port::Port;
use crate::roce::{HEADER_BYTES_MAX, ICRC_BYTES, UDP_PORT};

/// Path MTUs of the standard \[byte\].
const PATH_MTUS: [usize; 5] = [256, 512, 1024, 2048, 4096];
/// Completions not yet polled. When this many wait, the node takes no more work.
const POST_COMPLETIONS_MAX: usize = 2048;

/// Work that was checked and can be queued.
struct Prepared {
    request: Request,
    /// Bytes that it moves.
    bytes: u64,
    /// The import it uses.
    remote: Option<RemoteId>,
    complete_at: Option<Level>,
}

impl<P: Port> Fabric for Node<P> {
    fn capabilities(&self) -> &Capabilities {
        &self.core.limits.capabilities
    }

    fn register(&mut self, bytes: u64) -> Result<RegionId, RegisterError> {
        let core = &mut self.core;
        core.room_for_region(bytes)?;
        let memory = (core.config.allocate)(bytes)
            .map_err(|reason| RegisterError::Memory { bytes, reason })?;
        Ok(core.add_region(memory))
    }

    fn export(&mut self, region: RegionId, name: Name, grant: Grant) -> Result<(), ExportError> {
        self.core.regions.export(region, name, grant)
    }

    fn withdraw(&mut self, region: RegionId) -> Result<(), AccessError> {
        self.core.regions.withdraw(region)
    }

    fn memory(&self, region: RegionId) -> Result<Arc<dyn Memory>, AccessError> {
        self.core.regions.get(region).map(|own| Arc::clone(&own.memory))
    }

    fn connect(
        &mut self,
        peer: &str,
        reliability: Reliability,
    ) -> Result<EndpointId, ConnectError> {
        let expected = "write an address and, where it is not 4791, a port: 10.0.0.7:4791";
        let wrong = || ConnectError::Name { peer: peer.to_string(), expected };
        let address = address_of(peer).ok_or_else(wrong)?;
        let max = self.core.limits.capabilities.endpoints_max;
        if self.core.endpoints.living().len() >= max as usize {
            return Err(ConnectError::TooMany { max });
        }
        let host = |reason: &str| ConnectError::Host {
            peer: peer.to_string(),
            reason: String::from(reason),
        };
        let local = self.port.local(address.ip()).ok_or_else(|| host("there is no way to it"))?;
        let begun = self.core.begin_call((local, address), reliability);
        begun.ok_or_else(|| host("its address is of another family than this node's"))
    }

    fn disconnect(&mut self, endpoint: EndpointId) -> Result<(), PostError> {
        self.core.open(endpoint).ok_or(PostError::NotConnected)?;
        self.acknowledge(self.core.now);
        self.core.end(endpoint, Status::Done);
        Ok(())
    }

    fn import(
        &mut self,
        endpoint: EndpointId,
        name: Name,
        key: Key,
    ) -> Result<RemoteId, ImportError> {
        let core = &mut self.core;
        let max = core.limits.capabilities.regions_max;
        core.open(endpoint).ok_or(ImportError::NotConnected)?;
        if core.imports.len() >= max as usize {
            return Err(ImportError::TooMany { max });
        }
        let remote = core.imports.add(Import::asked(endpoint));
        let request = core.imports.next_request();
        let open = core.open(endpoint).ok_or(ImportError::NotConnected)?;
        if open.selective {
            open.asked.push_back(PendingImport { request, remote, name, key, sent: None });
        }
        core.import_static(endpoint, remote, key);
        Ok(remote)
    }

    fn window(&self, remote: RemoteId) -> Result<Option<Arc<dyn Memory>>, AccessError> {
        let found = self.core.imports.get(remote);
        let found = found.filter(|import| import.state != ImportState::Asked);
        found.map(|_| None).ok_or(AccessError::UnknownRegion)
    }

    fn post(&mut self, endpoint: EndpointId, tag: u64, work: Work<'_>) -> Result<(), PostError> {
        self.core.post(endpoint, tag, work)
    }

    fn post_receive(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        into: Slice,
    ) -> Result<(), PostError> {
        let core = &mut self.core;
        core.open(endpoint).ok_or(PostError::NotConnected)?;
        core.regions.slice(into).map_err(PostError::Local)?;
        let open = core.open(endpoint).ok_or(PostError::NotConnected)?;
        if open.responder.executor.buffers() >= QUEUE_MAX {
            return Err(PostError::Full);
        }
        open.responder.give_buffer(tag, into);
        Ok(())
    }

    fn poll(&mut self, now: Moment) -> Option<Completion> {
        if self.core.completions.is_empty() {
            self.drive(now);
        }
        self.core.completions.pop_front()
    }

    fn deadline(&self) -> Option<Moment> {
        // Acknowledgements that wait for what the program posts do not wait longer than that.
        let waits = self.core.acknowledgements_wait.then_some(self.core.now);
        let times = [waits, self.core.deadline(self.core.now), self.port.deadline()];
        times.into_iter().flatten().min()
    }
}

fn address_of(peer: &str) -> Option<SocketAddr> {
    let whole = peer.parse::<SocketAddr>().ok();
    whole.or_else(|| peer.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, UDP_PORT)))
}

impl Core {
    fn room_for_region(&self, bytes: u64) -> Result<(), RegisterError> {
        let max = self.limits.capabilities.region_bytes_max;
        if bytes == 0 || bytes > max {
            return Err(RegisterError::Size { bytes, max });
        }
        let max = self.limits.capabilities.regions_max;
        if self.regions.living() >= max {
            return Err(RegisterError::TooMany { max });
        }
        Ok(())
    }

    fn add_region(&mut self, memory: Arc<dyn Memory>) -> RegionId {
        // Zero stands for no key.
        let key = (self.handshake.secrets.number() as u32).max(1);
        self.regions.add(memory, key)
    }

    fn post(&mut self, endpoint: EndpointId, tag: u64, work: Work<'_>) -> Result<(), PostError> {
        let completions = self.completions.len();
        let open = self.open(endpoint).ok_or(PostError::NotConnected)?;
        if open.requester.queued() >= QUEUE_MAX || completions >= POST_COMPLETIONS_MAX {
            return Err(PostError::Full);
        }
        if !open.requester.allows(work.operation()) {
            return Err(PostError::Unreliable);
        }
        let operation = work.operation();
        let Prepared { request, bytes, remote, complete_at } = self.prepare(endpoint, &work)?;
        let done = |status| Completion::Done { endpoint, tag, operation, status, value: 0 };
        if remote.is_some_and(|remote| self.is_withdrawn(remote)) {
            self.completions.push_back(done(Status::Withdrawn));
            return Ok(());
        }
        let of_bytes = matches!(
            work,
            Work::Put { from: Local::Bytes(_), .. } | Work::Send { from: Local::Bytes(_), .. }
        );
        let report = match complete_at {
            None => Report::Failure,
            // The bytes are this side's now, and it answers for them.
            Some(Level::Copied) if of_bytes => {
                self.completions.push_back(done(Status::Done));
                Report::Already
            }
            Some(_) => Report::End,
        };
        let report = match request {
            Request::Fence => {
                self.completions.push_back(done(Status::Done));
                Report::Already
            }
            _ => report,
        };
        let (cut, framed, frames_left, value) = (0, false, 0, 0);
        let status = Status::Done;
        let posted =
            Posted { tag, request, report, remote, bytes, cut, framed, frames_left, status, value };
        let Core { endpoints, completions, .. } = self;
        if let Some(open) = endpoints.open_mut(endpoint) {
            open.requester.post(posted, completions);
        }
        Ok(())
    }

    /// Checks work and turns it into a request.
    fn prepare(&mut self, endpoint: EndpointId, work: &Work<'_>) -> Result<Prepared, PostError> {
        let complete_at = Some(Level::Placed);
        let without_bytes = |request, remote| Prepared { request, bytes: 0, remote, complete_at };
        Ok(match *work {
            Work::Put { from, to, notify, complete_at } => {
                let bytes = length(&from);
                let (key, address) =
                    self.remote(endpoint, to, bytes, |rights: Rights| rights.put)?;
                let from = self.source(endpoint, &from)?;
                let request = Request::Put { from, key, address, notify };
                Prepared { request, bytes, remote: Some(to.remote), complete_at }
            }
            Work::Send { from, complete_at } => {
                let bytes = length(&from);
                let from = self.source(endpoint, &from)?;
                Prepared { request: Request::Send { from }, bytes, remote: None, complete_at }
            }
            Work::Get { from, into } => {
                let memory = self.regions.slice(into).map_err(PostError::Local)?;
                let (key, address) =
                    self.remote(endpoint, from, into.bytes, |rights: Rights| rights.get)?;
                self.fits(into.bytes)?;
                let request = Request::Get { into: (memory, into.offset), key, address };
                Prepared { request, bytes: into.bytes, remote: Some(from.remote), complete_at }
            }
            Work::FetchAdd { at, add } => {
                let (key, address) = self.word(endpoint, at)?;
                without_bytes(Request::FetchAdd { key, address, add }, Some(at.remote))
            }
            Work::CompareSwap { at, expected, desired } => {
                let (key, address) = self.word(endpoint, at)?;
                let request = Request::CompareSwap { key, address, expected, desired };
                without_bytes(request, Some(at.remote))
            }
            Work::Fence => without_bytes(Request::Fence, None),
            Work::Flush => without_bytes(Request::Flush, None),
        })
    }

    fn fits(&self, bytes: u64) -> Result<(), PostError> {
        let max = self.limits.capabilities.operation_bytes_max;
        if bytes <= max { Ok(()) } else { Err(PostError::TooLong { bytes, max }) }
    }

    fn is_withdrawn(&self, remote: RemoteId) -> bool {
        self.imports.get(remote).is_some_and(|import| import.state == ImportState::Withdrawn)
    }

    /// Key and address of a place in a peer's region, as far as it can be checked here.
    fn remote(
        &self,
        endpoint: EndpointId,
        to: Target,
        bytes: u64,
        right: fn(Rights) -> bool,
    ) -> Result<(u32, u64), PostError> {
        let import = self.imports.get(to.remote);
        let import = import.filter(|import| import.endpoint == endpoint);
        let import = import.filter(|import| import.state != ImportState::Asked);
        let import = import.ok_or(PostError::NotImported)?;
        check(import.bytes, to.offset, bytes).map_err(PostError::Remote)?;
        if !right(import.rights) {
            return Err(PostError::Remote(AccessError::Rights));
        }
        Ok((import.key, import.base + to.offset))
    }

    fn word(&self, endpoint: EndpointId, at: Target) -> Result<(u32, u64), PostError> {
        let found = self.remote(endpoint, at, 8, |rights: Rights| rights.atomic)?;
        if !at.offset.is_multiple_of(8) {
            return Err(PostError::Remote(AccessError::Unaligned { offset: at.offset }));
        }
        Ok(found)
    }

    fn source(
        &mut self,
        endpoint: EndpointId,
        from: &Local<'_>,
    ) -> Result<PayloadSource, PostError> {
        self.fits(length(from))?;
        match *from {
            Local::Region(slice) => {
                let memory = self.regions.slice(slice).map_err(PostError::Local)?;
                Ok(PayloadSource::Memory(memory, slice.offset))
            }
            Local::Bytes(bytes) => {
                let open = self.open(endpoint).ok_or(PostError::NotConnected)?;
                let mut buffer = open.requester.buffer();
                buffer.extend_from_slice(bytes);
                Ok(PayloadSource::Bytes(buffer))
            }
        }
    }

    /// On a connection with a static peer, what can be imported is configured.
    fn import_static(&mut self, endpoint: EndpointId, remote: RemoteId, key: Key) {
        let Some(open) = self.open(endpoint).filter(|open| !open.selective) else { return };
        let found = open.remotes.iter().find(|of| u64::from(of.key) == key.0).cloned();
        let (status, bytes) = match &found {
            Some(found) => (Status::Done, found.bytes),
            None => (Status::NoSuchRegion, 0),
        };
        let import = found.map(|found| {
            let (key, base, bytes, rights) = (found.key, found.base, found.bytes, found.rights);
            Import { endpoint, key, base, bytes, rights, state: ImportState::Open }
        });
        self.imports.decide(remote, import);
        self.completions.push_back(Completion::Imported { remote, status, bytes });
    }
}

fn length(from: &Local<'_>) -> u64 {
    match from {
        Local::Bytes(bytes) => bytes.len() as u64,
        Local::Region(slice) => slice.bytes,
    }
}

impl<P: Port> Node<P> {
    /// Makes a region of memory that the caller has made, and that may refuse writes: such a frame
    /// counts as refused, and on a reliable connection its sender is told so.
    ///
    /// Errors: [`RegisterError`], but for those of memory.
    pub fn adopt(&mut self, memory: Arc<dyn Memory>) -> Result<RegionId, RegisterError> {
        self.core.room_for_region(memory.bytes())?;
        Ok(self.core.add_region(memory))
    }

    /// A connection that is configured on both sides; it stands at once, and
    /// [`Completion::Connected`] says so. Its peer's regions are imported by name, with their
    /// R_Key as the key.
    ///
    /// Errors: [`StaticPeerError`]. An unreliable peer that falls silent is not noticed; a reliable
    /// one when it leaves work unanswered.
    pub fn add_static(
        &mut self,
        peer: &StaticPeer,
        now: Moment,
    ) -> Result<EndpointId, StaticPeerError> {
        let bytes = peer.path_mtu;
        if !PATH_MTUS.contains(&bytes) {
            return Err(StaticPeerError::PathMtu { bytes });
        }
        let frame_bytes = bytes + HEADER_BYTES_MAX + ICRC_BYTES;
        let frame_bytes_max = self.core.limits.frame_bytes;
        if frame_bytes > frame_bytes_max {
            return Err(StaticPeerError::TooLong { bytes, frame_bytes_max });
        }
        if peer.reliability == Reliability::Reliable && peer.peer_first.is_none() {
            return Err(StaticPeerError::FirstPsn);
        }
        let unknown = peer.regions.iter().find(|of| self.core.regions.get(of.region).is_err());
        if let Some(unknown) = unknown {
            return Err(StaticPeerError::UnknownRegion(unknown.region.0));
        }
        let address = peer.address;
        let local = self.port.local(address.ip());
        let ends = local.and_then(|local| Ends::new(local, address));
        let ends = ends.ok_or(StaticPeerError::Address { address })?;
        let id = self.core.endpoints.add();
        if !self.core.endpoints.take_pair(peer.own_pair, id) {
            self.core.endpoints.remove(id);
            return Err(StaticPeerError::PairTaken { pair: peer.own_pair.get() });
        }
        let transport = transport_of(peer.reliability);
        let terms = Terms {
            shape: Shape { frame_bytes, payload_bytes: bytes, transport },
            selective: false,
            first: peer.own_first,
            credit_bytes: u64::MAX / 2,
            frame_cost: 0,
            bytes_per_s: self.core.config.bytes_per_s,
        };
        let mut open = Connection::new(Start {
            id,
            peer_name: peer.name.clone(),
            reliability: peer.reliability,
            pairs: (peer.own_pair, peer.peer_pair),
            ends,
            checked: true,
            nonce: 0,
            terms,
            peer_first: peer.peer_first,
            now,
        });
        open.granted.extend(peer.regions.iter().map(|of| Granted {
            key: of.key,
            region: of.region,
            base: of.base,
            rights: of.rights,
        }));
        open.remotes.clone_from(&peer.remotes);
        self.core.completions.push_back(open.connected());
        self.core.endpoints.set(id, EndpointState::Open(Box::new(open)));
        Ok(id)
    }

    /// Returns true when an operation of this kind can be posted to the endpoint.
    #[must_use]
    pub fn allows(&self, endpoint: EndpointId, operation: Operation) -> bool {
        let open = self.core.endpoints.open(endpoint);
        open.is_some_and(|open| open.requester.allows(operation))
    }
}
