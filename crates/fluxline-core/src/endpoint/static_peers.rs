//! Connections with static peers, which are configured on both sides.

use alloc::boxed::Box;

use super::config::{StaticPeer, StaticPeerError};
use super::connection::{Connection, Start, transport_of};
use super::endpoints::EndpointState;
use super::imports::{Import, ImportState};
use super::node::Node;
use super::node_core::Core;
use super::peer::{Peer, PeerKind};
use super::peer_regions::PeerRegions;
use super::posted::{Shape, Terms};
use super::regions::Granted;
use super::wire::{Ends, Route};
use crate::Moment;
use crate::fabric::{Completion, EndpointId, Key, Reliability, RemoteId, Status};
use crate::port::Port;
use crate::roce::{HEADER_BYTES_MAX, ICRC_BYTES};

/// Path MTUs of the standard \[byte\].
const PATH_MTUS: [usize; 5] = [256, 512, 1024, 2048, 4096];

impl<P: Port> Node<P> {
    /// Opens a connection that is configured on both sides; [`Completion::Connected`] follows.
    ///
    /// The peer's regions are imported by name, with their R_Key as the key. The silence of an
    /// unreliable peer is not noticed, that of a reliable one only while work is unanswered.
    ///
    /// Errors: [`StaticPeerError`].
    pub fn add_static(
        &mut self,
        peer: &StaticPeer,
        now: Moment,
    ) -> Result<EndpointId, StaticPeerError> {
        let (member, pair) = (self.core.limits.member, peer.own_pair.get());
        if !member.owns(pair) {
            let (index, count) = (member.index(), member.count());
            return Err(StaticPeerError::OtherMember { pair, index, count });
        }
        let ends = self.check_static(peer)?;
        let id = self.core.endpoints.add();
        if !self.core.endpoints.take_pair(peer.own_pair, id) {
            self.core.endpoints.remove(id);
            return Err(StaticPeerError::PairTaken { pair: peer.own_pair.get() });
        }
        self.core.open_static(id, peer, ends, now);
        Ok(id)
    }

    /// Checks a peer; returns the addresses of the connection.
    pub(super) fn check_static(&self, peer: &StaticPeer) -> Result<Ends, StaticPeerError> {
        let bytes = peer.path_mtu;
        if !PATH_MTUS.contains(&bytes) {
            return Err(StaticPeerError::PathMtu { bytes });
        }
        let frame_bytes = frame_bytes_of(peer);
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
        let sum = self.core.config.packet_sum;
        Ok(ends.with_sum(sum).with_source_port(peer.source_port))
    }
}

/// Returns the longest frame of a peer \[byte\].
fn frame_bytes_of(peer: &StaticPeer) -> usize {
    peer.path_mtu + HEADER_BYTES_MAX + ICRC_BYTES
}

impl Core {
    /// Opens the connection of an endpoint that has the queue pair of this end.
    pub fn open_static(&mut self, id: EndpointId, peer: &StaticPeer, ends: Ends, now: Moment) {
        let (frame_bytes, bytes) = (frame_bytes_of(peer), peer.path_mtu);
        let transport = transport_of(peer.reliability);
        let terms = Terms {
            shape: Shape { frame_bytes, payload_bytes: bytes, transport, in_trains: false },
            first: peer.own_first,
            credit_bytes: u64::MAX / 2,
            frame_cost: 0,
            bytes_per_s: self.config.bytes_per_s,
        };
        let mut open = Connection::new(Start {
            id,
            peer: Peer {
                name: peer.name.clone(),
                kind: PeerKind::Standard,
                nonce: 0,
                is_caller: false,
            },
            reliability: peer.reliability,
            route: Route {
                ends,
                own_pair: peer.own_pair,
                peer_pair: peer.peer_pair,
                checked: true,
            },
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
        open.peer_regions = PeerRegions::configured(&peer.remotes);
        self.completions.push_back(open.connected());
        self.endpoints.set(id, EndpointState::Open(Box::new(open)));
    }

    /// Imports a region of a static peer, whose regions are configured.
    pub fn import_static(&mut self, endpoint: EndpointId, remote: RemoteId, key: Key) {
        let Some(open) = self.open(endpoint) else { return };
        let found = open.peer_regions.find_configured(key).cloned();
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
