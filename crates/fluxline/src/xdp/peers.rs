//! The route to each peer: source address, next hop, its Ethernet address. Queried from the kernel,
//! cached, and refreshed in the background.
//!
//! The kernel resolves neighbours (ARP, neighbour discovery) when a program reports that one is in
//! use. These reports also keep an entry alive, because the kernel does not see our frames.

use std::collections::HashMap;
use std::net::IpAddr;

use fluxline_core::{Moment, Span};

use super::frame::{Ends, Head, Mac, Marking};
use super::netlink::{Netlink, Route};

/// Most remembered peers; a further peer replaces another.
const PEERS_MAX: usize = 4096;
/// Time between two checks of a neighbour that is not resolved yet: an ARP reply takes about 100
/// us.
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
    /// The source address of our frames to it, if there is a route.
    source: Option<IpAddr>,
    /// The headers of frames to it, if it can be reached.
    head: Option<Head>,
    /// True if a frame was sent to it since the last check.
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
    /// The last requested peer, which often is also the next.
    last: usize,
    /// The peer that [`Peers::tend`] checks next, and the time of the last check.
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

    /// Returns the headers of frames to `to`; `None` without a route or while the neighbour is
    /// unresolved.
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

    /// Returns the source address of frames to `to`. Cost: for a new peer, some system calls.
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

    /// Looks up a peer, requests its neighbour if necessary, and remembers it.
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

    /// Queries the route from the kernel; `in_use` reports that the neighbour is in use.
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

    /// Checks one peer, if a check is due: it may have been resolved, or have moved.
    ///
    /// Cost: mostly none; some system calls of 5 us each, up to a thousand times a second while a
    /// peer is not resolved, otherwise once a second.
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

/// Returns true if `every` has passed since `last`, or if the clock was set back.
fn is_due(last: Moment, now: Moment, every: Span) -> bool {
    now < last || now.since(last) >= every
}
