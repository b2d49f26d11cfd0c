//! The way to each peer: source address, next hop, its Ethernet address; asked of the kernel, kept
//! for a while, refreshed in the background.
//!
//! The kernel resolves neighbours (ARP, neighbour discovery) when a program reports that one is in
//! use. It also learns from this that an entry is still needed: it does not see frames that pass it
//! by.

use std::collections::HashMap;
use std::net::IpAddr;

use fluxline_core::{Moment, Span};

use super::frame::{Ends, Head, Mac, Marking};
use super::netlink::{Netlink, Route};

/// Peers that are remembered; beyond that, the place of another is taken.
const PEERS_MAX: usize = 4096;
/// Time between two checks of a neighbour that is not resolved yet: an ARP reply takes some 100 us.
const RESOLVE_EVERY: Span = Span::from_ms(1);
/// Time between two requests to resolve one that does not answer, and two checks of one that did.
const REFRESH_EVERY: Span = Span::from_ms(1_000);

/// The common headers of the frames to all peers.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub(super) interface: u32,
    pub(super) mac: Mac,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) port: u16,
    pub(super) marking: Marking,
}

#[derive(Debug)]
struct Peer {
    address: IpAddr,
    /// The address that it sees us at, when there is a way to it.
    source: Option<IpAddr>,
    /// Its headers, when it can be reached.
    head: Option<Head>,
    /// A frame was sent to it since the last check.
    used: bool,
    /// The last time that the kernel was notified of its use.
    asked: Moment,
}

/// The peers that frames were sent to.
#[derive(Debug)]
pub(super) struct Peers {
    netlink: Netlink,
    own: Own,
    places: HashMap<IpAddr, usize>,
    peers: Vec<Peer>,
    /// The one asked for last: often the next as well.
    last: usize,
    /// The one that [`Peers::tend`] checks next, and the time of its last check.
    turn: usize,
    tended: Moment,
    unresolved: usize,
}

impl Peers {
    pub(super) fn new(netlink: Netlink, own: Own) -> Peers {
        let tended = Moment::default();
        let (places, peers) = (HashMap::new(), Vec::new());
        Peers { netlink, own, places, peers, last: 0, turn: 0, tended, unresolved: 0 }
    }

    /// The headers of frames to `to`; `None` while there is no way or no neighbour.
    pub(super) fn head(&mut self, to: IpAddr, now: Moment) -> Option<&Head> {
        if self.peers.get(self.last).is_none_or(|peer| peer.address != to) {
            self.last = match self.places.get(&to) {
                Some(&place) => place,
                None => self.add(to, now),
            };
        }
        let peer = &mut self.peers[self.last];
        peer.used = true;
        peer.head.as_ref()
    }

    /// The address from which frames to `to` are sent. Cost: for a peer that nothing was sent to
    /// yet, some system calls.
    pub(super) fn source(&self, to: IpAddr) -> Option<IpAddr> {
        match self.places.get(&to) {
            Some(&place) => self.peers[place].source,
            None => self.route(to).map(|route| route.source),
        }
    }

    fn route(&self, to: IpAddr) -> Option<Route> {
        let route = self.netlink.route(self.own.interface, to)?;
        self.own.addresses.contains(&route.source).then_some(route)
    }

    /// Looks the peer up, asks for its neighbour where need be, and remembers it.
    fn add(&mut self, to: IpAddr, now: Moment) -> usize {
        let (source, head) = self.look(to, true);
        self.unresolved += usize::from(head.is_none());
        let peer = Peer { address: to, source, head, used: true, asked: now };
        let place = if self.peers.len() < PEERS_MAX {
            self.peers.push(peer);
            self.peers.len() - 1
        } else {
            self.turn = (self.turn + 1) % PEERS_MAX;
            let old = std::mem::replace(&mut self.peers[self.turn], peer);
            self.unresolved -= usize::from(old.head.is_none());
            self.places.remove(&old.address);
            self.turn
        };
        self.places.insert(to, place);
        place
    }

    /// Asks the kernel for the way; `in_use` reports that the neighbour is in use.
    fn look(&self, to: IpAddr, in_use: bool) -> (Option<IpAddr>, Option<Head>) {
        let Some(route) = self.route(to) else { return (None, None) };
        let target_mac = self.netlink.neighbour(self.own.interface, route.next_hop);
        if in_use {
            self.netlink.use_neighbour(self.own.interface, route.next_hop);
        }
        let head = target_mac.and_then(|target_mac| {
            let ends = Ends {
                source_mac: self.own.mac,
                target_mac,
                source: route.source,
                target: to,
                source_port: self.own.port,
            };
            Head::new(&ends, self.own.marking)
        });
        (Some(route.source), head)
    }

    /// Checks one peer, when it is time: whether it is resolved by now, whether it has moved.
    ///
    /// Cost: nothing mostly; some system calls of 5 us each up to a thousand times a second while a
    /// peer is not resolved, else once a second.
    pub(super) fn tend(&mut self, now: Moment) {
        let count = self.peers.len();
        if count == 0 {
            return;
        }
        let is_any = self.unresolved > 0;
        let refresh = Span::from_ns(REFRESH_EVERY.as_ns() / count as u64);
        if !is_due(self.tended, now, if is_any { RESOLVE_EVERY } else { refresh }) {
            return;
        }
        self.tended = now;
        let is_wanted = |place: &usize| {
            let peer = &self.peers[*place];
            peer.used && (peer.head.is_none() || is_due(peer.asked, now, REFRESH_EVERY))
        };
        let next = (1..=count).map(|step| (self.turn + step) % count).find(is_wanted);
        let Some(place) = next else { return };
        self.turn = place;
        let is_late = is_due(self.peers[place].asked, now, REFRESH_EVERY);
        let (source, head) = self.look(self.peers[place].address, is_late);
        let peer = &mut self.peers[place];
        self.unresolved -= usize::from(peer.head.is_none());
        self.unresolved += usize::from(head.is_none());
        (peer.source, peer.head) = (source, head);
        if is_late {
            (peer.asked, peer.used) = (now, false);
        }
    }
}

/// Returns true when `every` has passed since `last`; a clock that was set back must not stop
/// anything.
fn is_due(last: Moment, now: Moment, every: Span) -> bool {
    now < last || now.since(last) >= every
}
