//! How connections begin and end: a handshake that keeps nothing for whoever has not shown that it
//! receives what is sent to its address, and survives loss and duplication.
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
use super::frames::{FRAME_BYTES_MIN, Offer, SETUP_PAIR, Setup, VERSION};
use super::handshake::{Calling, EPOCH_NS, Reply};
use super::imports::{Import, ImportState};
use super::node_core::Core;
use super::posted::{Shape, Terms};
use super::wire::{Ends, Wire};
use crate::Moment;
use crate::fabric::{Completion, EndpointId, Key, NAME_BYTES_MAX, Reliability, Rights, Status};
use crate::port::{Incoming, Port};
use crate::roce::{Psn, QueuePair};
use crate::text::printable;

/// Tries of a frame size before a smaller one is tried.
const TRIES_EACH: u8 = 3;
/// Frame sizes that are tried when a larger one does not arrive \[byte\]: those of MTU 9000, 4096
/// (RoCE's), 1500 and IPv6's least, 1280, each less IPv6 and UDP.
const FRAME_BYTES: [usize; 4] = [8952, 4140, 1452, 1232];

impl Core {
    /// Begins a connection to `peer`, from `local`. `None`: no queue pair is free.
    pub fn begin_call(
        &mut self,
        (local, peer): (SocketAddr, SocketAddr),
        reliability: Reliability,
    ) -> Option<EndpointId> {
        let ends = Ends::new(local, peer)?;
        let endpoint = self.endpoints.add();
        let Some(pair) = self.new_pair(endpoint) else {
            self.endpoints.remove(endpoint);
            return None;
        };
        let calling = Calling {
            ends,
            reliability,
            pair,
            first: Psn::new(self.handshake.secrets.number() as u32),
            nonce: self.handshake.secrets.number(),
            cookie: 0,
            frame_bytes: self.limits.frame_bytes,
            tries_of_size: 0,
            attempt: 0,
            sent: None,
            since: None,
        };
        self.endpoints.set(endpoint, EndpointState::Calling(Box::new(calling)));
        Some(endpoint)
    }

    fn offer<'a>(
        &self,
        (queue_pair, psn): (QueuePair, Psn),
        (frame_bytes, reliability): (usize, Reliability),
        name: &'a str,
    ) -> Offer<'a> {
        Offer {
            queue_pair,
            psn,
            frame_bytes: frame_bytes as u32,
            credit_bytes: self.credit_bytes(),
            frame_cost: self.limits.frame_cost as u32,
            reliable: reliability == Reliability::Reliable,
            checked: self.config.checked,
            name,
        }
    }

    /// Sends the Hello when it is due.
    pub fn call<P: Port>(&mut self, now: Moment, endpoint: EndpointId, port: &mut P) -> usize {
        let Some(EndpointState::Calling(calling)) = self.endpoints.state(endpoint) else {
            return 0;
        };
        if now < calling.deadline() {
            return 0;
        }
        let ours = (calling.pair, calling.first);
        let name = own_name(&self.config.name);
        let offer = self.offer(ours, (calling.frame_bytes, calling.reliability), name);
        let (nonce, cookie, attempt) = (calling.nonce, calling.cookie, calling.attempt + 1);
        let hello = Setup::Hello { version: VERSION, nonce, cookie, attempt, offer };
        let mut wire = Wire { port, ends: &calling.ends, checked: true, to: SETUP_PAIR };
        // Without a cookie nothing is tried: the answer is short.
        let padded = if cookie == 0 { 0 } else { calling.frame_bytes };
        if !wire.setup(&hello, padded) {
            return 0;
        }
        let Some(EndpointState::Calling(calling)) = self.endpoints.state_mut(endpoint) else {
            return 0;
        };
        calling.attempt = attempt.min(u8::MAX - 1);
        calling.sent = Some(now);
        calling.since.get_or_insert(now);
        calling.tries_of_size += u8::from(cookie != 0);
        1
    }

    /// Tries a smaller frame, or gives up.
    pub fn calling_on_time(&mut self, now: Moment, endpoint: EndpointId) {
        let death = self.config.death;
        let Some(EndpointState::Calling(calling)) = self.endpoints.state_mut(endpoint) else {
            return;
        };
        if calling.since.is_some_and(|since| now.since(since) > death) {
            self.fail_call(endpoint, Status::PeerGone);
            return;
        }
        if calling.tries_of_size >= TRIES_EACH && calling.deadline() <= now {
            calling.tries_of_size = 0;
            let smaller = FRAME_BYTES.into_iter().find(|&bytes| bytes < calling.frame_bytes);
            // Below the least, it is loss and not length: the largest has its turn again.
            calling.frame_bytes = smaller.unwrap_or(self.limits.frame_bytes);
        }
    }

    fn fail_call(&mut self, endpoint: EndpointId, status: Status) {
        self.endpoints.remove(endpoint);
        self.completions.push_back(Completion::Broken { endpoint, status });
    }

    // ---- frames to the set-up queue pair ----

    pub fn take_setup(&mut self, now: Moment, frame: &Incoming<'_>) {
        let Some(ends) = Ends::new(frame.to, frame.from) else { return };
        let Some(bytes) = ends.opened(frame, (true, u16::MAX)) else {
            self.counters.wrong_check += 1;
            return;
        };
        match Setup::parse(bytes) {
            Some(Setup::Hello { version, nonce, cookie, attempt, offer }) => {
                if version != VERSION {
                    self.counters.refused += 1;
                    self.handshake.push_reply(Reply::Refuse {
                        ends,
                        nonce,
                        status: Status::Version,
                    });
                    return;
                }
                self.take_hello((now, frame.bytes.len()), ends, (nonce, cookie, attempt), &offer);
            }
            Some(Setup::Retry { nonce, cookie }) => {
                let calling = self.calling(nonce, frame.from).map(|(_, of)| of);
                // The same once more is a duplicate, and no reason to hurry.
                if let Some(calling) = calling.filter(|of| of.cookie != cookie) {
                    (calling.cookie, calling.sent) = (cookie, None);
                }
            }
            Some(Setup::Refuse { nonce, status }) => {
                if let Some((endpoint, _)) = self.calling(nonce, frame.from) {
                    self.fail_call(endpoint, status);
                }
            }
            Some(Setup::Accept { nonce, attempt, offer }) => {
                self.take_accept(now, (nonce, attempt, frame.from), &offer);
            }
            _ => self.counters.unknown_kind += 1,
        }
    }

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

    fn take_hello(
        &mut self,
        (now, frame_bytes): (Moment, usize),
        ends: Ends,
        (nonce, cookie, attempt): (u64, u64, u8),
        offer: &Offer<'_>,
    ) {
        let epoch = now.as_ns() / EPOCH_NS;
        let expected = [epoch, epoch.saturating_sub(1)];
        let good = expected.map(|epoch| self.handshake.secrets.cookie(ends.peer, nonce, epoch));
        if !good.contains(&cookie) {
            self.counters.cookies_sent += 1;
            self.handshake.push_reply(Reply::Retry { ends, nonce, cookie: good[0] });
            return;
        }
        // As long as what has just come, which the sender padded to what it wants.
        let frame_bytes =
            frame_bytes.min(self.limits.frame_bytes).min(offer.frame_bytes as usize) & !3;
        if frame_bytes < FRAME_BYTES_MIN {
            self.counters.unknown_kind += 1;
            return;
        }
        let known =
            self.endpoints.living().iter().copied().find(|&of| match self.endpoints.state(of) {
                Some(EndpointState::Open(open)) => {
                    open.nonce == nonce && open.ends.peer == ends.peer
                }
                _ => false,
            });
        if known.is_none() && self.handshake.ended.has(now, ends.peer, nonce) {
            self.handshake.push_reply(Reply::Refuse { ends, nonce, status: Status::Disconnected });
            return;
        }
        if known.is_none() && !self.has_room_for(ends.peer.ip()) {
            self.counters.refused += 1;
            self.handshake.push_reply(Reply::Refuse { ends, nonce, status: Status::NoRoom });
            return;
        }
        let accepted = known.or_else(|| self.accept(now, ends, nonce, offer, frame_bytes));
        let Some(endpoint) = accepted else { return };
        if let Some(open) = self.open(endpoint) {
            open.shorten(frame_bytes);
        }
        self.handshake.push_reply(Reply::Accept { endpoint, attempt, frame_bytes });
    }

    /// Returns true when a peer at this address may make one more connection.
    fn has_room_for(&self, address: IpAddr) -> bool {
        let of_address = self
            .endpoints
            .connections()
            .filter(|open| open.is_accepted && open.ends.peer.ip() == address);
        self.endpoints.living().len() < self.limits.capabilities.endpoints_max as usize
            && of_address.count() < self.config.endpoints_per_address_max as usize
    }

    fn accept(
        &mut self,
        now: Moment,
        ends: Ends,
        nonce: u64,
        offer: &Offer<'_>,
        frame_bytes: usize,
    ) -> Option<EndpointId> {
        let id = self.endpoints.add();
        let Some(pair) = self.new_pair(id) else {
            self.endpoints.remove(id);
            return None;
        };
        let ours = (pair, Psn::new(self.handshake.secrets.number() as u32));
        self.open_between(now, (id, ends, nonce), ours, offer, frame_bytes);
        if let Some(open) = self.open(id) {
            open.is_accepted = true;
        }
        Some(id)
    }

    fn take_accept(
        &mut self,
        now: Moment,
        (nonce, attempt, from): (u64, u8, SocketAddr),
        offer: &Offer<'_>,
    ) {
        if (offer.frame_bytes as usize) < FRAME_BYTES_MIN {
            self.counters.unknown_kind += 1;
            return;
        }
        let Some((id, _)) = self.calling(nonce, from) else { return };
        let Some(EndpointState::Calling(calling)) = self.endpoints.take(id) else { return };
        let frame_bytes = calling.frame_bytes.min(offer.frame_bytes as usize);
        let ours = (calling.pair, calling.first);
        let took = calling.sent.filter(|_| attempt == calling.attempt).map(|at| now.since(at));
        self.open_between(now, (id, calling.ends, nonce), ours, offer, frame_bytes);
        if let (Some(took), Some(open)) = (took, self.open(id)) {
            open.requester.sample_round_trip(took);
        }
    }

    /// A connection between two Fluxline ends stands.
    fn open_between(
        &mut self,
        now: Moment,
        (id, ends, nonce): (EndpointId, Ends, u64),
        (pair, first): (QueuePair, Psn),
        offer: &Offer<'_>,
        frame_bytes: usize,
    ) {
        let reliability = match offer.reliable {
            true => Reliability::Reliable,
            false => Reliability::Unreliable,
        };
        let transport = transport_of(reliability);
        let payload_bytes = usize::MAX;
        let terms = Terms {
            shape: Shape { frame_bytes: frame_bytes & !3, payload_bytes, transport },
            selective: true,
            first,
            credit_bytes: offer.credit_bytes,
            frame_cost: u64::from(offer.frame_cost),
            bytes_per_s: self.config.bytes_per_s,
        };
        let connection = Connection::new(Start {
            id,
            peer_name: printable(offer.name, NAME_BYTES_MAX),
            reliability,
            pairs: (pair, offer.queue_pair),
            ends,
            checked: self.config.checked || offer.checked,
            nonce,
            terms,
            peer_first: Some(offer.psn),
            now,
        });
        self.completions.push_back(connection.connected());
        // Each of the others has less of the receive buffer now; an acknowledgement reports it.
        for open in self.endpoints.connections_mut() {
            open.responder.acknowledge |= open.selective;
        }
        self.endpoints.set(id, EndpointState::Open(Box::new(connection)));
    }

    // ---- frames to a queue pair ----

    /// Set-up frames of an open connection.
    pub fn take_control(&mut self, endpoint: EndpointId, setup: &Setup<'_>) {
        match *setup {
            Setup::Import { request, key, name } => self.take_import(endpoint, request, name, key),
            Setup::Imported { request, status, key, bytes, rights } => {
                self.take_imported(endpoint, request, (status, key, bytes, rights));
            }
            Setup::Goodbye { from } => {
                let Some(open) = self.open(endpoint) else { return };
                if let Some(ends) = Ends::new(open.ends.local, open.ends.peer) {
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
        let Some(address) = self.open(endpoint).map(|open| open.ends.peer.ip()) else { return };
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
            Ok((granted.key, export.bytes, granted.rights))
        });
        self.handshake.push_reply(Reply::Imported { endpoint, request, found });
    }

    fn take_imported(
        &mut self,
        endpoint: EndpointId,
        request: u32,
        (status, key, bytes, rights): (Status, u32, u64, Rights),
    ) {
        let Some(open) = self.open(endpoint) else { return };
        let Some(place) = open.asked.iter().position(|of| of.request == request) else { return };
        let Some(asked) = open.asked.remove(place) else { return };
        let remote = asked.remote;
        let state = ImportState::Open;
        let import = Import { endpoint, key, base: 0, bytes, rights, state };
        self.imports.decide(remote, (status == Status::Done).then_some(import));
        self.completions.push_back(Completion::Imported { remote, status, bytes });
    }

    /// Set-up frames for a queue pair that is not there: a goodbye is answered all the same.
    pub fn take_stray(&mut self, frame: &Incoming<'_>) {
        let Some(ends) = Ends::new(frame.to, frame.from) else { return };
        let bytes = ends.opened(frame, (true, u16::MAX));
        if let Some(Setup::Goodbye { from }) = bytes.and_then(Setup::parse) {
            self.handshake.push_reply(Reply::Farewell { ends, pair: from });
        }
    }

    /// Set-up frames for an end that says goodbye.
    pub fn take_leaving(&mut self, endpoint: EndpointId, frame: &Incoming<'_>) {
        let Some(EndpointState::Leaving(leaving)) = self.endpoints.state(endpoint) else { return };
        if frame.from != leaving.ends.peer {
            return;
        }
        match leaving.ends.opened(frame, (true, u16::MAX)).and_then(Setup::parse) {
            Some(Setup::Farewell) => self.endpoints.remove(endpoint),
            Some(Setup::Goodbye { from }) => {
                if let Some(ends) = Ends::new(frame.to, frame.from) {
                    self.handshake.push_reply(Reply::Farewell { ends, pair: from });
                }
            }
            _ => {}
        }
    }

    /// Sends all replies; what finds no room is as if lost, and asked for again.
    pub fn reply<P: Port>(&mut self, now: Moment, port: &mut P) {
        let mut replies = mem::take(&mut self.handshake.replies);
        for reply in replies.drain(..) {
            self.send_reply(now, port, reply);
        }
        self.handshake.replies = replies;
    }

    fn send_reply<P: Port>(&mut self, _now: Moment, port: &mut P, reply: Reply) {
        let checked = true;
        match reply {
            Reply::Retry { ends, nonce, cookie } => {
                let mut wire = Wire { port, ends: &ends, checked, to: SETUP_PAIR };
                wire.setup(&Setup::Retry { nonce, cookie }, 0);
            }
            Reply::Refuse { ends, nonce, status } => {
                let mut wire = Wire { port, ends: &ends, checked, to: SETUP_PAIR };
                wire.setup(&Setup::Refuse { nonce, status }, 0);
            }
            Reply::Farewell { ends, pair } => {
                let mut wire = Wire { port, ends: &ends, checked, to: pair };
                wire.setup(&Setup::Farewell, 0);
            }
            Reply::Accept { endpoint, attempt, frame_bytes } => {
                let Some(EndpointState::Open(open)) = self.endpoints.state(endpoint) else {
                    return;
                };
                let ours = (open.pairs.0, open.requester.begin());
                let agreed = frame_bytes.min(self.limits.frame_bytes);
                let name = own_name(&self.config.name);
                let offer = self.offer(ours, (agreed, open.reliability), name);
                let mut wire = Wire { port, ends: &open.ends, checked, to: SETUP_PAIR };
                let accept = Setup::Accept { nonce: open.nonce, attempt, offer };
                wire.setup(&accept, agreed);
            }
            Reply::Imported { endpoint, request, found } => {
                let Some(EndpointState::Open(open)) = self.endpoints.state(endpoint) else {
                    return;
                };
                let mut wire = Wire { port, ends: &open.ends, checked, to: open.pairs.1 };
                let (status, (key, bytes, rights)) = match found {
                    Ok(found) => (Status::Done, found),
                    Err(status) => (status, (0, 0, Rights::default())),
                };
                wire.setup(&Setup::Imported { request, status, key, bytes, rights }, 0);
            }
        }
    }
}

/// A node's name as it goes over the wire: cut to what peers take.
fn own_name(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}
