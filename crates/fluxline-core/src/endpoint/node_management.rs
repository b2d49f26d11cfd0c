//! Connections with programs of rdma_cm: connection management on top of a node.

use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use super::config::{StaticPeer, StaticPeerError, StaticRegion, StaticRemote};
use super::frames::SETUP_PAIR;
use super::managed::{CallAnswer, PendingCall};
use super::management::mad::{self, MAD_BYTES, Queue, RejectReason, Rep, Req, gid_of};
use super::management::manager::{Asked, Call, Event};
use super::node::Node;
use super::node_core::Core;
use super::wire::{Ends, IcrcCheck, Wire};
use crate::Moment;
use crate::fabric::{Completion, ConnectError, EndpointId, PostError, Reliability, Status};
use crate::port::{Incoming, Port};
use crate::roce::{HEADER_BYTES_MAX, ICRC_BYTES, Psn, UDP_PORT};

/// The name of such a peer in completions.
const NAME: &str = "rdma_cm";
/// Reads and atomics under way, at most: they are a byte of the request.
const READS_MAX: u8 = 16;
/// Path MTUs by their codes \[byte\]; code 0 does not exist.
const PATH_MTUS: [usize; 6] = [0, 256, 512, 1024, 2048, 4096];

/// A request of an rdma_cm program for a connection.
#[derive(Clone, Debug)]
pub struct ConnectRequest {
    /// The identifier of this end.
    own_id: u32,
    /// The peer's address.
    pub peer: IpAddr,
    /// The port that it is for.
    pub port: u16,
    /// The promise of the connection.
    pub reliability: Reliability,
    /// The longest payload \[byte\].
    pub path_mtu: usize,
    /// The program's data, 56 bytes with zeros at the end.
    pub private_data: Vec<u8>,
    queue: Queue,
}

/// The parts of a connection that the program gives.
#[derive(Clone, Debug, Default)]
pub struct ManagedTerms {
    /// The own regions that the peer may use.
    pub regions: Vec<StaticRegion>,
    /// Data for the peer's program: at most 56 bytes in a request, 196 in an answer.
    pub private_data: Vec<u8>,
}

impl<P: Port> Node<P> {
    /// Lets programs of rdma_cm connect to this port, which is one of connection management and not
    /// of UDP. [`Node::next_request`] returns their requests.
    pub fn listen(&mut self, port: u16) {
        let code = self.core.mtu_code_max();
        self.core.managed.manager.listen(port, code);
    }

    /// Returns the next request for a connection. It waits 10 s for [`Node::accept`] or
    /// [`Node::reject`].
    pub fn next_request(&mut self) -> Option<ConnectRequest> {
        let Asked { own_id, peer, req, reliability } = self.core.managed.manager.next_asked()?;
        let Req { port, queue, mtu_code, private_data, .. } = req;
        let path_mtu = PATH_MTUS.get(usize::from(mtu_code)).copied().unwrap_or_default();
        Some(ConnectRequest { own_id, peer, port, reliability, path_mtu, private_data, queue })
    }

    /// Accepts a request; [`Completion::Connected`] follows, and [`Completion::Broken`] when the
    /// peer disconnects or never confirms.
    ///
    /// Errors: [`StaticPeerError`]; the request is refused then.
    pub fn accept(
        &mut self,
        request: &ConnectRequest,
        terms: &ManagedTerms,
        now: Moment,
    ) -> Result<EndpointId, StaticPeerError> {
        let opened = self.open_managed(request, terms, now);
        if opened.is_err() {
            self.core.managed.manager.reject(now, request.own_id, RejectReason::NO_RESOURCES);
        }
        opened
    }

    fn open_managed(
        &mut self,
        request: &ConnectRequest,
        terms: &ManagedTerms,
        now: Moment,
    ) -> Result<EndpointId, StaticPeerError> {
        let ConnectRequest { queue, path_mtu, reliability, .. } = *request;
        let mut peer = self.core.managed_peer(request.peer, path_mtu, reliability, terms);
        (peer.peer_pair, peer.own_first) = (queue.pair, queue.first);
        let ends = self.check_static(&peer)?;
        let endpoint = self.core.reserve(&mut peer)?;
        let own = Queue {
            pair: peer.own_pair,
            first: peer.peer_first.unwrap_or_default(),
            answered: queue.asked.min(READS_MAX),
            asked: queue.answered.min(READS_MAX),
        };
        let rep = Rep { queue: own, private_data: terms.private_data.clone() };
        self.core.open_static(endpoint, &peer, ends, now);
        self.core.limit_reads(endpoint, own.asked);
        if self.core.managed.manager.accept(now, request.own_id, endpoint, rep).is_none() {
            self.core.end(endpoint, Status::PeerGone); // it gave up meanwhile
        }
        Ok(endpoint)
    }

    /// Refuses a request.
    pub fn reject(&mut self, request: &ConnectRequest, now: Moment) {
        self.core.managed.manager.reject(now, request.own_id, RejectReason::PROGRAM);
    }

    /// Asks a program of rdma_cm for a connection; [`Completion::Connected`] or
    /// [`Completion::Broken`] follows, and [`Node::take_answer`] has its data or reason.
    ///
    /// Errors: as those of [`Fabric::connect`](crate::fabric::Fabric::connect).
    pub fn call(
        &mut self,
        address: IpAddr,
        port: u16,
        terms: &ManagedTerms,
        now: Moment,
    ) -> Result<EndpointId, ConnectError> {
        let name = alloc::format!("{address}");
        let host = |error: StaticPeerError| ConnectError::Host {
            peer: name.clone(),
            reason: alloc::format!("{error}"),
        };
        let code = self.core.mtu_code_max();
        let path_mtu = PATH_MTUS.get(usize::from(code)).copied().unwrap_or_default();
        let mut peer = self.core.managed_peer(address, path_mtu, Reliability::Reliable, terms);
        let ends = self.check_static(&peer).map_err(host)?;
        let endpoint = self.core.reserve(&mut peer).map_err(host)?;
        let first = peer.peer_first.unwrap_or_default();
        let queue = Queue { pair: peer.own_pair, first, answered: READS_MAX, asked: READS_MAX };
        let req = Req {
            port,
            queue,
            reliability: Some(Reliability::Reliable),
            mtu_code: code,
            from: gid_of(ends.local.ip()),
            to: gid_of(address),
            private_data: terms.private_data.clone(),
        };
        let own_id = self.core.new_id();
        self.core.managed.calls.push(PendingCall { endpoint, peer, ends });
        self.core.managed.manager.call(now, Call { endpoint, own_id, peer: address, req });
        Ok(endpoint)
    }

    /// Takes the answer to [`Node::call`], once there is one.
    pub fn take_answer(&mut self, endpoint: EndpointId) -> Option<CallAnswer> {
        let answers = &mut self.core.managed.answers;
        let index = answers.iter().position(|of| of.endpoint == endpoint)?;
        Some(answers.remove(index).answer)
    }

    /// Adds a region of a configured peer, as its program named it; it can be imported then.
    ///
    /// Errors: the endpoint is not connected.
    pub fn add_remote(
        &mut self,
        endpoint: EndpointId,
        remote: StaticRemote,
    ) -> Result<(), PostError> {
        let open = self.core.open(endpoint).ok_or(PostError::NotConnected)?;
        open.peer_regions.configure(remote);
        Ok(())
    }
}

impl Core {
    /// Returns the code of the largest path MTU that fits the port; 0: none.
    fn mtu_code_max(&self) -> u8 {
        let payload_bytes = self.limits.frame_bytes.saturating_sub(HEADER_BYTES_MAX + ICRC_BYTES);
        let code = PATH_MTUS.iter().rposition(|bytes| *bytes <= payload_bytes);
        code.unwrap_or_default() as u8
    }

    /// Returns a peer whose queue pairs are not known yet.
    fn managed_peer(
        &mut self,
        address: IpAddr,
        path_mtu: usize,
        reliability: Reliability,
        terms: &ManagedTerms,
    ) -> StaticPeer {
        StaticPeer {
            name: NAME.into(),
            address: SocketAddr::new(address, UDP_PORT),
            source_port: None,
            own_pair: SETUP_PAIR,
            peer_pair: SETUP_PAIR,
            reliability,
            // An end tells its peer the PSN to begin with; the peer tells ours.
            peer_first: Some(Psn::new(self.handshake.secrets.number() as u32)),
            own_first: Psn::new(0),
            path_mtu,
            regions: terms.regions.clone(),
            remotes: Vec::new(),
        }
    }

    /// Adds an endpoint with a queue pair for the peer.
    fn reserve(&mut self, peer: &mut StaticPeer) -> Result<EndpointId, StaticPeerError> {
        let max = self.limits.capabilities.endpoints_max;
        if self.endpoints.living().len() >= max as usize {
            return Err(StaticPeerError::TooMany { max });
        }
        let endpoint = self.endpoints.add();
        let Some(pair) = self.new_pair(endpoint) else {
            self.endpoints.remove(endpoint);
            return Err(StaticPeerError::TooMany { max });
        };
        peer.own_pair = pair;
        Ok(endpoint)
    }

    fn limit_reads(&mut self, endpoint: EndpointId, reads: u8) {
        if let Some(open) = self.open(endpoint) {
            open.requester.reads_max = usize::from(reads.max(1));
        }
    }

    /// Takes a frame to queue pair 1 that may be a management datagram.
    pub fn take_management(&mut self, now: Moment, frame: &Incoming<'_>) {
        let Some(ends) = Ends::new(frame.to, frame.from) else { return };
        let ends = ends.with_sum(self.config.packet_sum);
        let Some(bytes) = ends.opened(frame, IcrcCheck::SETUP) else {
            self.counters.wrong_check += 1;
            return;
        };
        let Some(mad) = mad::of_frame(bytes) else {
            self.counters.unknown_kind += 1;
            return;
        };
        let random = self.new_id();
        self.managed.manager.take(now, frame.from.ip().to_canonical(), mad, random);
        self.counters.management_stray = self.managed.manager.stray;
        self.counters.management_refused = self.managed.manager.refused;
    }

    /// Does what is due in connection management, and what follows for the endpoints.
    pub fn manage(&mut self, now: Moment) {
        self.managed.manager.on_time(now);
        while let Some(event) = self.managed.manager.next_event() {
            match event {
                Event::Accepted { endpoint, theirs, private_data } => {
                    self.accepted(now, endpoint, theirs);
                    self.managed.keep(endpoint, CallAnswer::Accepted(private_data));
                }
                Event::Refused { endpoint, reason } => {
                    self.managed.calls.retain(|call| call.endpoint != endpoint);
                    self.managed.keep(endpoint, CallAnswer::Refused(reason));
                    self.fail_managed(endpoint, status_of(reason));
                }
                Event::Left { endpoint } => self.end(endpoint, Status::Disconnected),
            }
        }
    }

    /// Opens the connection that a peer has accepted.
    fn accepted(&mut self, now: Moment, endpoint: EndpointId, theirs: Queue) {
        let calls = &mut self.managed.calls;
        let Some(index) = calls.iter().position(|call| call.endpoint == endpoint) else { return };
        let PendingCall { mut peer, ends, .. } = calls.remove(index);
        (peer.peer_pair, peer.own_first) = (theirs.pair, theirs.first);
        self.open_static(endpoint, &peer, ends, now);
        self.limit_reads(endpoint, theirs.answered);
    }

    fn fail_managed(&mut self, endpoint: EndpointId, status: Status) {
        self.endpoints.remove(endpoint);
        self.completions.push_back(Completion::Broken { endpoint, status });
    }

    /// Tells the peer of a connection that is over.
    pub fn leave_managed(&mut self, endpoint: EndpointId) {
        self.managed.manager.leave(self.now, endpoint);
    }

    /// Sends all management datagrams. One without room in the port counts as lost.
    pub fn send_management<P: Port>(&mut self, port: &mut P) {
        while let Some(outgoing) = self.managed.manager.next_outgoing() {
            let Some(local) = port.local(outgoing.to) else { continue };
            let to = SocketAddr::new(outgoing.to, UDP_PORT);
            let Some(ends) = Ends::new(local, to) else { continue };
            let ends = ends.with_sum(self.config.packet_sum);
            let psn = Psn::new(self.managed.psn);
            self.managed.psn = self.managed.psn.wrapping_add(1);
            let bytes: &[u8; MAD_BYTES] = &outgoing.mad;
            Wire::setup_to(SETUP_PAIR, &ends, port).management(bytes, psn);
        }
    }
}

fn status_of(reason: RejectReason) -> Status {
    match reason {
        RejectReason::TIMEOUT => Status::PeerGone,
        RejectReason::NO_RESOURCES => Status::NoRoom,
        _ => Status::Disconnected,
    }
}
