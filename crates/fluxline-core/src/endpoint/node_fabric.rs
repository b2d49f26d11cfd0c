//! The programming model on top of the endpoint: [`Fabric`] for [`Node`].

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use super::imports::{Import, ImportState};
use super::node::Node;
use super::node_core::{Core, QUEUE_MAX};
use super::peer::PeerKind;
use super::peer_regions::PendingImport;
use super::posted::{PayloadSource, Piece, Posted, Report, Request};
use super::regions::check;
use super::wire::Ends;
use crate::Moment;
use crate::fabric::{
    AccessError, Capabilities, Completion, ConnectError, EndpointId, ExportError, Fabric, Grant,
    ImportError, Key, Level, Local, Memory, Name, Operation, PostError, RegionId, RegisterError,
    Reliability, RemoteId, Rights, Slice, Status, Target, Work, WorkCounters,
};
use crate::port::Port;
use crate::roce::UDP_PORT;

/// Completions not yet polled. When this many wait, the node takes no more work.
const POST_COMPLETIONS_MAX: usize = 2048;

/// Work that was checked and can be queued.
struct Prepared {
    request: Request,
    /// Bytes that it moves.
    bytes: u64,
    /// The import that it uses.
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

    fn register_own(&mut self, memory: Arc<dyn Memory>) -> Result<RegionId, RegisterError> {
        self.core.room_for_region(memory.bytes())?;
        Ok(self.core.add_region(memory))
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

    fn view(
        &mut self,
        region: RegionId,
        visit: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), AccessError> {
        self.core.regions.alone(region)?.view(visit)
    }

    fn connect(
        &mut self,
        peer: &str,
        reliability: Reliability,
    ) -> Result<EndpointId, ConnectError> {
        let expected = "write an address and, where it is not 4791, a port (10.0.0.7:4791), or \
                        a name that the own URL gives (peers=NAME@ADDRESS)";
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
        let local = self.port.local(address.ip()).ok_or_else(|| host("no route leads to it"))?;
        if local == address {
            let expected = "write another node's address: a node cannot connect to itself";
            return Err(ConnectError::Name { peer: peer.to_string(), expected });
        }
        let sum = self.core.config.packet_sum;
        let ends = Ends::new(local, address).map(|ends| ends.with_sum(sum));
        let begun = ends.and_then(|ends| self.core.begin_call(ends, reliability));
        begun.ok_or_else(|| host("its address is of another family than this node's"))
    }

    fn disconnect(&mut self, endpoint: EndpointId) -> Result<(), PostError> {
        if self.core.hang_up(endpoint) {
            return Ok(());
        }
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
        match open.peer.kind {
            PeerKind::Fluxline => {
                open.peer_regions.push(PendingImport { request, remote, name, key, sent: None });
            }
            PeerKind::Standard => core.import_static(endpoint, remote, key),
        }
        Ok(remote)
    }

    fn window(&self, remote: RemoteId) -> Result<Option<Arc<dyn Memory>>, AccessError> {
        let found = self.core.imports.get(remote);
        let found = found.filter(|import| import.state != ImportState::Asked);
        found.map(|_| None).ok_or(AccessError::UnknownRegion)
    }

    fn post(&mut self, endpoint: EndpointId, tag: u64, work: Work<'_>) -> Result<(), PostError> {
        let outcome = self.core.post(endpoint, tag, &work);
        self.work_counters.posted(&work, &outcome);
        outcome
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

    fn counters(&self) -> &WorkCounters {
        &self.work_counters
    }

    fn now(&self) -> Moment {
        self.core.now
    }

    fn poll(&mut self, now: Moment) -> Option<Completion> {
        if self.core.completions.is_empty() {
            self.drive(now);
        }
        self.work_counters.polled(self.core.completions.front());
        self.core.completions.pop_front()
    }

    fn deadline(&self) -> Option<Moment> {
        // Acknowledgements wait for posted work until the next poll at the latest.
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
        // Zero means no key.
        let key = (self.handshake.secrets.number() as u32).max(1);
        self.regions.add(memory, key)
    }

    fn post(&mut self, endpoint: EndpointId, tag: u64, work: &Work<'_>) -> Result<(), PostError> {
        let completions = self.completions.len();
        let open = self.open(endpoint).ok_or(PostError::NotConnected)?;
        if open.requester.queued() >= QUEUE_MAX || completions >= POST_COMPLETIONS_MAX {
            return Err(PostError::Full);
        }
        if !open.requester.allows(work.operation()) {
            return Err(PostError::Unreliable);
        }
        let operation = work.operation();
        let Prepared { request, bytes, remote, complete_at } = self.prepare(endpoint, work)?;
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
            // The bytes are copied, so the program may change its own.
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
        let posted = Posted {
            tag,
            request,
            report,
            remote,
            bytes,
            cut,
            even_frame_bytes: None,
            framed,
            frames_left,
            status,
            value,
        };
        let Core { endpoints, completions, .. } = self;
        if let Some(open) = endpoints.open_mut(endpoint) {
            open.requester.post(posted, completions);
            self.has_new_work = true;
        }
        Ok(())
    }

    /// Checks work and turns it into a request.
    fn prepare(&mut self, endpoint: EndpointId, work: &Work<'_>) -> Result<Prepared, PostError> {
        let complete_at = Some(Level::Placed);
        let without_bytes = |request, remote| Prepared { request, bytes: 0, remote, complete_at };
        Ok(match *work {
            Work::Put { from, to, notify, complete_at } => {
                let bytes = from.bytes();
                let (key, address) =
                    self.remote(endpoint, to, bytes, |rights: Rights| rights.put)?;
                let from = self.source(endpoint, &from)?;
                let request = Request::Put { from, key, address, notify };
                Prepared { request, bytes, remote: Some(to.remote), complete_at }
            }
            Work::Send { from, complete_at } => {
                let bytes = from.bytes();
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

    /// Returns key and address of bytes in a peer's region, checked as far as this side can.
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
        self.fits(from.bytes())?;
        match *from {
            Local::Region(slice) => {
                let memory = self.regions.slice(slice).map_err(PostError::Local)?;
                Ok(PayloadSource::Memory(memory, slice.offset))
            }
            Local::Gather(pieces) => self.pieces(pieces).map(PayloadSource::Gather),
            Local::Bytes(bytes) => {
                let open = self.open(endpoint).ok_or(PostError::NotConnected)?;
                let mut buffer = open.requester.buffer();
                buffer.extend_from_slice(bytes);
                Ok(PayloadSource::Bytes(buffer))
            }
        }
    }

    fn pieces(&self, pieces: &[Slice]) -> Result<Vec<Piece>, PostError> {
        let max = self.limits.capabilities.pieces_max;
        if pieces.len() > max as usize {
            return Err(PostError::Pieces { pieces: pieces.len(), max });
        }
        let piece = |slice: &Slice| {
            let memory = self.regions.slice(*slice).map_err(PostError::Local)?;
            Ok(Piece { memory, offset: slice.offset, bytes: slice.bytes })
        };
        pieces.iter().map(piece).collect()
    }
}

impl<P: Port> Node<P> {
    /// Returns true when an operation of this kind can be posted to the endpoint.
    #[must_use]
    pub fn allows(&self, endpoint: EndpointId, operation: Operation) -> bool {
        let open = self.core.endpoints.open(endpoint);
        open.is_some_and(|open| open.requester.allows(operation))
    }
}
