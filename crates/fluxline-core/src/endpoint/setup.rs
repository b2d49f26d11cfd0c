//! The handshake that begins and ends connections.
//!
//! It survives loss and duplication. It keeps no state for a caller until the caller has proved
//! that it receives frames at its address.
//!
//! ```text
//!   Hello, padded to the frame size that it tries   ──▶
//!                                                   ◀──  Retry with a cookie (nothing is kept)
//!   Hello with the cookie                           ──▶
//!                                                   ◀──  Accept, as long as the Hello
//! ```
//!
//! Source of the cookie: RFC 9000, 8.1.2 (QUIC's Retry) and D. J. Bernstein's SYN cookies.

use alloc::boxed::Box;
use core::mem;
use core::net::{IpAddr, SocketAddr};

use super::connection::{Connection, Start, transport_of};
use super::endpoints::EndpointState;
use super::frames::{
    Accept, FRAME_BYTES_MIN, Hello, Imported, Offer, QueueStart, SETUP_PAIR, Setup, VERSION,
};
use super::handshake::{Calling, EPOCH_NS, Reply};
use super::imports::{Import, ImportState};
use super::node_core::Core;
use super::peer::{Peer, PeerKind};
use super::peer_regions::PendingImport;
use super::posted::{Shape, Terms};
use super::regions::{Export, Granted};
use super::wire::{Ends, IcrcCheck, Route, Wire};
use crate::fabric::{Completion, EndpointId, Key, NAME_BYTES_MAX, Reliability, Rights, Status};
use crate::port::{Incoming, Port};
use crate::roce::Psn;
use crate::text::printable;
use crate::{Moment, Span};

/// A connection on which two Fluxline ends have agreed.
struct Agreement<'a> {
    id: EndpointId,
    ends: Ends,
    own: QueueStart,
    nonce: u64,
    /// The peer called this node, and not the other way round.
    is_peer_caller: bool,
    offer: Offer<'a>,
    frame_bytes: usize,
}

/// The longest time for which a peer is called that does not answer; a program calls again.
const CALL_PATIENCE: Span = Span::from_ms(3_000);

impl Core {
    /// Begins a connection between two addresses. `None`: no queue pair is free.
    pub fn begin_call(&mut self, ends: Ends, reliability: Reliability) -> Option<EndpointId> {
        let endpoint = self.endpoints.add();
        let Some(own) = self.new_queue(endpoint) else {
            self.endpoints.remove(endpoint);
            return None;
        };
        let nonce = self.new_nonce();
        let calling = Calling::new(ends, reliability, own, nonce, self.limits.frame_bytes);
        self.endpoints.set(endpoint, EndpointState::Calling(Box::new(calling)));
        Some(endpoint)
    }

    /// Returns a queue pair for the endpoint, if one is free, with a random first PSN.
    fn new_queue(&mut self, endpoint: EndpointId) -> Option<QueueStart> {
        let pair = self.new_pair(endpoint)?;
        Some(QueueStart { pair, psn: Psn::new(self.handshake.secrets.number() as u32) })
    }

    fn offer(&self, own: QueueStart, frame_bytes: usize, reliability: Reliability) -> Offer<'_> {
        Offer {
            queue: own,
            frame_bytes: frame_bytes as u32,
            credit_bytes: self.credit_bytes(),
            frame_cost: self.limits.frame_cost as u32,
            reliable: reliability == Reliability::Reliable,
            checked: self.config.checked,
            name: name_to_send(&self.config.name),
        }
    }

    /// Sends the hello when it is due; returns how many frames.
    pub fn call<P: Port>(&mut self, now: Moment, endpoint: EndpointId, port: &mut P) -> usize {
        let Some(EndpointState::Calling(calling)) = self.endpoints.state(endpoint) else {
            return 0;
        };
        if now < calling.deadline() {
            return 0;
        }
        let frame_bytes = calling.frame_bytes();
        let offer = self.offer(calling.own, frame_bytes, calling.reliability);
        let (nonce, cookie, attempt) = (calling.nonce, calling.cookie, calling.next_attempt());
        let hello = Setup::Hello(Hello { version: VERSION, nonce, cookie, attempt, offer });
        let mut wire = Wire::setup_to(SETUP_PAIR, &calling.ends, port);
        // A hello without a cookie tries no size: its answer is short.
        let padded = if cookie == 0 { 0 } else { frame_bytes };
        if !wire.setup(&hello, padded) {
            return 0;
        }
        let Some(EndpointState::Calling(calling)) = self.endpoints.state_mut(endpoint) else {
            return 0;
        };
        calling.hello_sent(attempt, now);
        1
    }

    /// Tries a smaller frame, or gives up.
    pub fn calling_on_time(&mut self, now: Moment, endpoint: EndpointId) {
        let patience = self.config.death.min(CALL_PATIENCE);
        let Some(EndpointState::Calling(calling)) = self.endpoints.state_mut(endpoint) else {
            return;
        };
        if calling.is_dead(now, patience) {
            self.fail_call(endpoint, Status::PeerGone);
            return;
        }
        calling.try_next_size(now, self.limits.frame_bytes);
    }

    /// Ends a call that is not answered yet. Returns false when there is none.
    pub fn hang_up(&mut self, endpoint: EndpointId) -> bool {
        let calls = matches!(self.endpoints.state(endpoint), Some(EndpointState::Calling(_)));
        if calls {
            self.fail_call(endpoint, Status::Done);
        }
        calls
    }

    fn fail_call(&mut self, endpoint: EndpointId, status: Status) {
        self.endpoints.remove(endpoint);
        self.completions.push_back(Completion::Broken { endpoint, status });
    }

    // ---- frames to the set-up queue pair ----

    /// Takes a frame to the set-up queue pair.
    pub fn take_setup(&mut self, now: Moment, frame: &Incoming<'_>) {
        let Some(ends) = Ends::new(frame.to, frame.from) else { return };
        let ends = ends.with_sum(self.config.packet_sum);
        let Some(bytes) = ends.opened(frame, IcrcCheck::SETUP) else {
            self.counters.wrong_check += 1;
            return;
        };
        match Setup::parse(bytes) {
            Some(Setup::Hello(hello)) => self.take_hello(now, ends, &hello, frame.bytes.len()),
            Some(Setup::Retry { nonce, cookie }) => {
                if let Some((_, calling)) = self.calling(nonce, frame.from) {
                    calling.take_cookie(cookie);
                }
            }
            Some(Setup::Refuse { nonce, status }) => {
                if let Some((endpoint, _)) = self.calling(nonce, frame.from) {
                    self.fail_call(endpoint, status);
                }
            }
            Some(Setup::Accept(accept)) => self.take_accept(now, frame.from, &accept),
            _ => self.counters.unknown_kind += 1,
        }
    }

    /// Returns the end that called this address with this nonce.
    fn calling(&mut self, nonce: u64, from: SocketAddr) -> Option<(EndpointId, &mut Calling)> {
        let found =
            self.endpoints.living().iter().copied().find(|&of| match self.endpoints.state(of) {
                Some(EndpointState::Calling(calling)) => {
                    calling.nonce == nonce && calling.ends.peer == from
                }
                _ => false,
            })?;
        match self.endpoints.state_mut(found) {
            Some(EndpointState::Calling(calling)) => Some((found, calling)),
            _ => None,
        }
    }

    /// Takes a request for a connection, which came in a frame of `hello_bytes`.
    fn take_hello(&mut self, now: Moment, ends: Ends, hello: &Hello<'_>, hello_bytes: usize) {
        let Hello { version, nonce, cookie, attempt, offer } = *hello;
        if version != VERSION {
            self.refuse(ends, nonce, Status::Version);
            return;
        }
        let epoch = now.as_ns() / EPOCH_NS;
        let expected = [epoch, epoch.saturating_sub(1)];
        let good = expected.map(|epoch| self.handshake.secrets.cookie(ends.peer, nonce, epoch));
        if !good.contains(&cookie) {
            self.counters.cookies_sent += 1;
            self.handshake.push_reply(Reply::Retry { ends, nonce, cookie: good[0] });
            return;
        }
        // As long as the hello, which the caller padded to the size that it wants.
        let frame_bytes =
            hello_bytes.min(self.limits.frame_bytes).min(offer.frame_bytes as usize) & !3;
        if frame_bytes < FRAME_BYTES_MIN {
            self.counters.unknown_kind += 1;
            return;
        }
        let known =
            self.endpoints.living().iter().copied().find(|&of| match self.endpoints.state(of) {
                Some(EndpointState::Open(open)) => {
                    open.peer.nonce == nonce && open.peer_address() == ends.peer
                }
                _ => false,
            });
        if known.is_none() && self.handshake.ended.has(now, ends.peer, nonce) {
            self.handshake.push_reply(Reply::Refuse { ends, nonce, status: Status::Disconnected });
            return;
        }
        if known.is_none() && !self.has_room_for(ends.peer.ip()) {
            self.refuse(ends, nonce, Status::NoRoom);
            return;
        }
        let accepted = known.or_else(|| self.accept(now, ends, nonce, offer, frame_bytes));
        let Some(endpoint) = accepted else { return }; // no queue pair is free: the peer asks again
        if let Some(open) = self.open(endpoint) {
            open.shorten(frame_bytes);
        }
        self.handshake.push_reply(Reply::Accept { endpoint, attempt, frame_bytes });
    }

    /// Refuses a connection.
    fn refuse(&mut self, ends: Ends, nonce: u64, status: Status) {
        self.counters.refused += 1;
        self.handshake.push_reply(Reply::Refuse { ends, nonce, status });
    }

    /// Returns true when a peer at this address may make one more connection.
    fn has_room_for(&self, address: IpAddr) -> bool {
        let of_address = self
            .endpoints
            .connections()
            .filter(|open| open.peer.is_caller && open.peer_address().ip() == address);
        self.endpoints.living().len() < self.limits.capabilities.endpoints_max as usize
            && of_address.count() < self.config.endpoints_per_address_max as usize
    }

    /// Opens the connection that a peer asked for. `None`: no queue pair is free.
    fn accept(
        &mut self,
        now: Moment,
        ends: Ends,
        nonce: u64,
        offer: Offer<'_>,
        frame_bytes: usize,
    ) -> Option<EndpointId> {
        let id = self.endpoints.add();
        let Some(own) = self.new_queue(id) else {
            self.endpoints.remove(id);
            return None;
        };
        let is_peer_caller = true;
        let agreement = Agreement { id, ends, own, nonce, is_peer_caller, offer, frame_bytes };
        self.open_agreed(now, agreement);
        Some(id)
    }

    fn take_accept(&mut self, now: Moment, from: SocketAddr, accept: &Accept<'_>) {
        let Accept { nonce, attempt, offer } = *accept;
        if (offer.frame_bytes as usize) < FRAME_BYTES_MIN {
            self.counters.unknown_kind += 1;
            return;
        }
        let Some((id, _)) = self.calling(nonce, from) else { return };
        let Some(EndpointState::Calling(calling)) = self.endpoints.take(id) else {
            unreachable!("`calling` returns endpoints that call");
        };
        let took = calling.round_trip(attempt, now);
        let frame_bytes = calling.frame_bytes().min(offer.frame_bytes as usize);
        let Calling { ends, own, .. } = *calling;
        let is_peer_caller = false;
        let agreement = Agreement { id, ends, own, nonce, is_peer_caller, offer, frame_bytes };
        self.open_agreed(now, agreement);
        if let (Some(took), Some(open)) = (took, self.open(id)) {
            open.requester.sample_round_trip(took);
        }
    }

    /// Opens the connection on which two Fluxline ends have agreed.
    fn open_agreed(&mut self, now: Moment, agreement: Agreement<'_>) {
        let Agreement { id, ends, own, nonce, is_peer_caller, offer, frame_bytes } = agreement;
        let reliability = match offer.reliable {
            true => Reliability::Reliable,
            false => Reliability::Unreliable,
        };
        let transport = transport_of(reliability);
        let payload_bytes = usize::MAX;
        let (frame_bytes, in_trains) = (frame_bytes & !3, self.limits.in_trains);
        let terms = Terms {
            shape: Shape { frame_bytes, payload_bytes, transport, in_trains },
            first: own.psn,
            credit_bytes: offer.credit_bytes,
            frame_cost: u64::from(offer.frame_cost),
            bytes_per_s: self.config.bytes_per_s,
        };
        let peer = Peer {
            name: printable(offer.name, NAME_BYTES_MAX),
            kind: PeerKind::Fluxline,
            nonce,
            is_caller: is_peer_caller,
        };
        let route = Route {
            ends,
            own_pair: own.pair,
            peer_pair: offer.queue.pair,
            checked: self.config.checked || offer.checked,
        };
        let peer_first = Some(offer.queue.psn);
        let start = Start { id, peer, reliability, route, terms, peer_first, now };
        let connection = Connection::new(start);
        self.completions.push_back(connection.connected());
        // Each other peer has less of the receive buffer now; an acknowledgement reports it.
        for open in self.endpoints.connections_mut() {
            open.responder.acknowledgement.is_due |= open.peer.kind.is_fluxline();
        }
        self.endpoints.set(id, EndpointState::Open(Box::new(connection)));
    }

    // ---- frames to a queue pair ----

    /// Takes a set-up frame of an open connection.
    pub fn take_control(&mut self, endpoint: EndpointId, setup: &Setup<'_>) {
        match *setup {
            Setup::Import { request, key, name } => self.take_import(endpoint, request, name, key),
            Setup::Imported(imported) => self.take_imported(endpoint, &imported),
            Setup::Goodbye { from } => {
                let Some(open) = self.open(endpoint) else { return };
                let Ends { local, peer, .. } = open.route.ends;
                if let Some(ends) = Ends::new(local, peer) {
                    self.handshake.push_reply(Reply::Farewell { ends, pair: from });
                }
                self.end(endpoint, Status::Disconnected);
            }
            _ => self.counters.unknown_kind += 1,
        }
    }

    fn take_import(&mut self, endpoint: EndpointId, request: u32, name: &str, key: Key) {
        let max = self.limits.capabilities.regions_max as usize;
        let now = self.now;
        let address = self.open(endpoint).map(|open| open.peer_address().ip());
        let Some(address) = address else { return };
        if self.handshake.guesses.must_wait(address, now) {
            self.counters.keys_put_off += 1;
            return;
        }
        let found = self.regions.import(endpoint, name, key);
        match found {
            Ok(_) => self.handshake.guesses.note_right(address),
            Err(Status::WrongKey) => {
                self.handshake.guesses.note_wrong(address, now);
                self.counters.keys_wrong += 1;
            }
            Err(_) => {}
        }
        let Some(open) = self.open(endpoint) else { return };
        let found = found.and_then(|export| {
            let granted = export.granted;
            if !open.granted.iter().any(|of| of.key == granted.key) {
                if open.granted.len() >= max {
                    return Err(Status::NoRoom);
                }
                open.granted.push(granted);
            }
            Ok(export)
        });
        let imported = match found {
            Ok(Export { granted: Granted { key, rights, .. }, bytes }) => {
                Imported { request, status: Status::Done, key, bytes, rights }
            }
            Err(status) => {
                Imported { request, status, key: 0, bytes: 0, rights: Rights::default() }
            }
        };
        self.handshake.push_reply(Reply::Imported { endpoint, imported });
    }

    fn take_imported(&mut self, endpoint: EndpointId, imported: &Imported) {
        let Imported { request, status, key, bytes, rights } = *imported;
        let Some(open) = self.open(endpoint) else { return };
        // A repeated answer finds nothing that waits.
        let Some(PendingImport { remote, .. }) = open.peer_regions.take(request) else { return };
        let state = ImportState::Open;
        let import = Import { endpoint, key, base: 0, bytes, rights, state };
        self.imports.decide(remote, (status == Status::Done).then_some(import));
        self.completions.push_back(Completion::Imported { remote, status, bytes });
    }

    /// Answers a goodbye to a queue pair that does not exist any more.
    pub fn take_stray(&mut self, frame: &Incoming<'_>) {
        let Some(ends) = Ends::new(frame.to, frame.from) else { return };
        let bytes = ends.opened(frame, IcrcCheck::SETUP);
        if let Some(Setup::Goodbye { from }) = bytes.and_then(Setup::parse) {
            self.handshake.push_reply(Reply::Farewell { ends, pair: from });
        }
    }

    /// Takes a set-up frame for an end that says goodbye.
    pub fn take_leaving(&mut self, endpoint: EndpointId, frame: &Incoming<'_>) {
        let Some(EndpointState::Leaving(leaving)) = self.endpoints.state(endpoint) else { return };
        let ends = &leaving.route.ends;
        if frame.from != ends.peer {
            return;
        }
        match ends.opened(frame, IcrcCheck::SETUP).and_then(Setup::parse) {
            Some(Setup::Farewell) => self.endpoints.remove(endpoint),
            Some(Setup::Goodbye { from }) => {
                if let Some(ends) = Ends::new(frame.to, frame.from) {
                    self.handshake.push_reply(Reply::Farewell { ends, pair: from });
                }
            }
            _ => {}
        }
    }

    /// Sends all replies. One without room in the port counts as lost, and the peer asks again.
    pub fn reply<P: Port>(&mut self, port: &mut P) {
        let mut replies = mem::take(&mut self.handshake.replies);
        for reply in replies.drain(..) {
            self.send_reply(port, reply);
        }
        self.handshake.replies = replies;
    }

    fn send_reply<P: Port>(&mut self, port: &mut P, reply: Reply) {
        match reply {
            Reply::Retry { ends, nonce, cookie } => {
                let mut wire = Wire::setup_to(SETUP_PAIR, &ends, port);
                wire.setup(&Setup::Retry { nonce, cookie }, 0);
            }
            Reply::Refuse { ends, nonce, status } => {
                let mut wire = Wire::setup_to(SETUP_PAIR, &ends, port);
                wire.setup(&Setup::Refuse { nonce, status }, 0);
            }
            Reply::Farewell { ends, pair } => {
                let mut wire = Wire::setup_to(pair, &ends, port);
                wire.setup(&Setup::Farewell, 0);
            }
            Reply::Accept { endpoint, attempt, frame_bytes } => {
                let Some(open) = self.endpoints.open(endpoint) else { return };
                let own = QueueStart { pair: open.route.own_pair, psn: open.requester.begin() };
                let agreed = frame_bytes.min(self.limits.frame_bytes);
                let offer = self.offer(own, agreed, open.reliability);
                let accept = Accept { nonce: open.peer.nonce, attempt, offer };
                let mut wire = Wire::setup_to(SETUP_PAIR, &open.route.ends, port);
                wire.setup(&Setup::Accept(accept), agreed);
            }
            Reply::Imported { endpoint, imported } => {
                let Some(open) = self.endpoints.open(endpoint) else { return };
                let Route { ends, peer_pair, .. } = &open.route;
                let mut wire = Wire::setup_to(*peer_pair, ends, port);
                wire.setup(&Setup::Imported(imported), 0);
            }
        }
    }
}

/// Returns a node's name, cut to the length that peers accept.
fn name_to_send(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}
