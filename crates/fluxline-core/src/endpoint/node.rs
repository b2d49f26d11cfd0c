//! A node: its port, its connections, and what frames and time do to them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use super::EndpointConfig;
use super::connection::Connection;
use super::counters::{ConnectionCounters, NodeCounters};
use super::frames::{Kind, SETUP_PAIR, Selective, Setup, destination_of, kind_of};
use super::numbered::{Numbered, SLOTS_MAX};
use super::regions::Regions;
use super::requester::CompletionQueue;
use super::responder::is_request;
use super::secrets::Secrets;
use super::setup::{Calling, Leaving, Over, Reply};
use crate::fabric::{AccessError, Capabilities, EndpointId, RegionId, RemoteId, Rights, Status};
use crate::guesses::Guesses;
use crate::port::{Incoming, Port};
use crate::roce::header::BTH_BYTES;
use crate::roce::{ICRC_BYTES, Packet, QueuePair};
use crate::{Moment, Span};

/// Low bits of a queue pair's number that find its connection.
const PLACE_BITS: u32 = 10;
const PLACES: usize = 1 << PLACE_BITS;
/// A few places fewer, so that each endpoint finds a queue pair: 0 and 1 are not given away.
const ENDPOINTS_MAX: u32 = PLACES as u32 - 2;
/// Own regions, and imports, at most.
const REGIONS_MAX: u32 = SLOTS_MAX as u32;
/// Completions that wait for the program; with more, nothing is received.
const COMPLETIONS_MAX: usize = 4096;
/// Batches received, and rounds of sending, in one poll.
const BATCHES: usize = 8;
const ROUNDS: usize = 16;
/// Work that waits in an endpoint.
pub(super) const QUEUE_MAX: usize = 1024;
/// A part of the receive buffer is left for what is not counted: set-up, acknowledgements.
const CREDIT_NUMERATOR: u64 = 3;
const CREDIT_DENOMINATOR: u64 = 4;
/// A connection may always have so many frames in flight.
const CREDIT_FRAMES_MIN: u64 = 8;
/// Trains are no longer than this, so that a socket that is not connected sends them.
const IDENTIFICATION_MAX: u16 = 128;

/// Where an endpoint is in its life.
pub(super) enum EndpointState {
    Calling(Box<Calling>),
    Open(Box<Connection>),
    Leaving(Box<Leaving>),
    /// Between two of these.
    Between,
}

/// How far an import has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImportState {
    /// The peer has not answered yet.
    Asked,
    Open,
    Withdrawn,
}

/// A region of a peer's, as this node may use it.
pub(super) struct Import {
    pub endpoint: EndpointId,
    pub key: u32,
    pub base: u64,
    pub bytes: u64,
    pub rights: Rights,
    pub state: ImportState,
}

impl Import {
    /// One that the peer has not answered yet.
    pub fn asked(endpoint: EndpointId) -> Import {
        let (state, rights) = (ImportState::Asked, Rights::default());
        Import { endpoint, key: 0, base: 0, bytes: 0, rights, state }
    }
}

/// A node on the link that `P` is a port of.
pub struct Node<P> {
    pub(super) port: P,
    pub(super) core: Core,
}

/// All of a node but its port.
pub(super) struct Core {
    pub config: EndpointConfig,
    pub secrets: Secrets,
    pub capabilities: Capabilities,
    pub frame_bytes: usize,
    pub frame_cost: usize,
    pub receive_buffer_bytes: usize,
    pub regions: Regions,
    pub endpoints: Numbered<EndpointState>,
    pub imports: Numbered<Import>,
    pub completions: CompletionQueue,
    pub replies: Vec<Reply>,
    pub over: Over,
    pub guesses: Guesses,
    pub counters: NodeCounters,
    /// Endpoint by the low bits of its queue pair.
    pub pairs: Vec<Option<(QueuePair, EndpointId)>>,
    /// Endpoints that are not over.
    pub living: Vec<EndpointId>,
    turn: usize,
    /// Acknowledgements wait for the program's next look: what it posts then goes with them.
    pub acknowledgements_wait: bool,
    pub requests: u32,
    /// The time of the last poll.
    pub now: Moment,
}

impl<P: Port> Node<P> {
    /// A node on `port`. Cost: no memory worth mentioning until regions and connections come.
    #[must_use]
    pub fn new(port: P, config: EndpointConfig) -> Node<P> {
        let limits = *port.limits();
        let frame_bytes = limits.frame_bytes_max.min(config.frame_bytes_max);
        let capabilities = Capabilities {
            link: limits.port,
            operation_bytes_max: 1 << 30,
            region_bytes_max: 1 << 40,
            regions_max: REGIONS_MAX,
            endpoints_max: config.endpoints_max.clamp(1, ENDPOINTS_MAX),
            queue_max: QUEUE_MAX as u32,
            windows: false,
            atomics: false,
            ordered: true,
            crossover_bytes: 0,
            death_noticed_within: Span::from_ns(config.death.as_ns() / 4 * 5),
        };
        let core = Core {
            secrets: Secrets::new(config.secret),
            config,
            capabilities,
            frame_bytes,
            frame_cost: limits.frame_cost,
            receive_buffer_bytes: limits.receive_buffer_bytes,
            regions: Regions::default(),
            endpoints: Numbered::default(),
            imports: Numbered::default(),
            completions: CompletionQueue::new(),
            replies: Vec::new(),
            over: Over::default(),
            guesses: Guesses::default(),
            counters: NodeCounters::default(),
            pairs: alloc::vec![None; PLACES],
            living: Vec::new(),
            turn: 0,
            acknowledgements_wait: false,
            requests: 0,
            now: Moment::default(),
        };
        Node { port, core }
    }

    /// The port.
    pub fn port(&mut self) -> &mut P {
        &mut self.port
    }

    /// Completions that wait; only when there are none does a poll look at the port.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.core.completions.len()
    }

    /// What was dropped before it reached a connection.
    #[must_use]
    pub fn counters(&self) -> &NodeCounters {
        &self.core.counters
    }

    /// What a connection has seen; `None`: it is not open.
    #[must_use]
    pub fn connection_counters(&self, endpoint: EndpointId) -> Option<&ConnectionCounters> {
        match self.core.endpoints.get(endpoint.0) {
            Some(EndpointState::Open(open)) => Some(&open.counters),
            _ => None,
        }
    }

    /// Lets the next connection that shows an exported region's key import it, and nobody after
    /// it, until this is called again. Others are told [`Status::NoRoom`].
    ///
    /// Errors: [`AccessError::UnknownRegion`].
    pub fn admit_one(&mut self, region: RegionId) -> Result<(), AccessError> {
        self.core.regions.admit_one(region)
    }

    /// The connection that was admitted to a region by [`Node::admit_one`]: it has shown the key.
    /// It may be over already.
    #[must_use]
    pub fn importer(&self, region: RegionId) -> Option<EndpointId> {
        self.core.regions.importer(region)
    }

    /// The address of an open connection's peer.
    #[must_use]
    pub fn peer_address(&self, endpoint: EndpointId) -> Option<SocketAddr> {
        match self.core.endpoints.get(endpoint.0) {
            Some(EndpointState::Open(open)) => Some(open.ends.peer),
            _ => None,
        }
    }

    /// Request frames of a connection that were sent and not acknowledged.
    #[must_use]
    pub fn in_flight(&self, endpoint: EndpointId) -> usize {
        match self.core.endpoints.get(endpoint.0) {
            Some(EndpointState::Open(open)) => open.requester.in_flight(),
            _ => 0,
        }
    }

    /// Does what waits for another frame of an unreliable peer that is configured: a frame that may
    /// be the first after a restart. To be called when nothing more will be received; completions
    /// may follow.
    pub fn settle(&mut self, now: Moment) {
        let Core { endpoints, regions, completions, .. } = &mut self.core;
        for slot in endpoints.values_mut() {
            if let EndpointState::Open(open) = slot {
                open.settle(now, regions, completions);
            }
        }
    }

    /// Ends all connections and says so to their peers once, without waiting for an answer: for a
    /// program that ends.
    pub fn leave(&mut self, now: Moment) {
        for endpoint in self.core.living.clone() {
            self.core.end(endpoint, Status::Done);
        }
        self.core.send(now, &mut self.port);
        self.port.flush(now);
    }

    /// Does all that is due: takes what arrived, looks at the time, sends.
    pub(super) fn drive(&mut self, now: Moment) {
        let Node { port, core } = self;
        core.now = now;
        for _ in 0..BATCHES {
            let room = core.completions.len() < COMPLETIONS_MAX;
            if !room || port.receive(now, &mut |frame| core.take(now, &frame)) == 0 {
                break;
            }
        }
        core.on_time(now);
        core.reply(now, port);
        core.acknowledgements_wait = !core.acknowledgements_wait && !core.completions.is_empty();
        for _ in 0..ROUNDS {
            if core.send(now, port) == 0 {
                break;
            }
            port.flush(now);
        }
        port.flush(now);
    }
}

impl Core {
    pub fn open(&mut self, endpoint: EndpointId) -> Option<&mut Connection> {
        match self.endpoints.get_mut(endpoint.0) {
            Some(EndpointState::Open(open)) => Some(open),
            _ => None,
        }
    }

    /// What a peer may have in flight to this node \[byte\].
    pub fn credit_bytes(&self) -> u64 {
        let share = self.receive_buffer_bytes as u64 / CREDIT_DENOMINATOR * CREDIT_NUMERATOR;
        let least = (self.frame_bytes + self.frame_cost) as u64 * CREDIT_FRAMES_MIN;
        (share / self.living.len().max(1) as u64).max(least)
    }

    /// An import was answered; `None`: it was refused.
    pub fn decide(&mut self, remote: RemoteId, import: Option<Import>) {
        match (import, self.imports.get_mut(remote.0)) {
            (Some(import), Some(place)) => *place = import,
            _ => {
                self.imports.remove(remote.0);
            }
        }
    }

    /// A free number that cannot be guessed.
    pub fn new_pair(&mut self, endpoint: EndpointId) -> Option<QueuePair> {
        let random = self.secrets.number() as u32;
        let start = random as usize % PLACES;
        let place = (start..PLACES)
            .chain(0..start)
            .find(|&place| place > SETUP_PAIR.get() as usize && self.pairs[place].is_none())?;
        let pair = QueuePair::new((random & !(PLACES as u32 - 1)) | place as u32);
        self.pairs[place] = Some((pair, endpoint));
        Some(pair)
    }

    /// Takes this number; `false`: its place is taken.
    pub fn take_pair(&mut self, pair: QueuePair, endpoint: EndpointId) -> bool {
        let place = &mut self.pairs[pair.get() as usize % PLACES];
        let free = place.is_none() && pair != SETUP_PAIR && pair.get() != 0;
        if free {
            *place = Some((pair, endpoint));
        }
        free
    }

    pub fn find(&self, pair: QueuePair) -> Option<EndpointId> {
        let (of, endpoint) = self.pairs[pair.get() as usize % PLACES]?;
        (of == pair).then_some(endpoint)
    }

    /// A new endpoint, to be [`Core::set`].
    pub fn add_endpoint(&mut self) -> EndpointId {
        let endpoint = EndpointId(self.endpoints.add(EndpointState::Between));
        self.living.push(endpoint);
        endpoint
    }

    /// Moves an endpoint on in its life.
    pub fn set(&mut self, endpoint: EndpointId, slot: EndpointState) {
        if let Some(place) = self.endpoints.get_mut(endpoint.0) {
            *place = slot;
        }
    }

    /// An endpoint is over; its number is not used again, its queue pair may be.
    pub fn forget(&mut self, endpoint: EndpointId) {
        self.endpoints.remove(endpoint.0);
        self.living.retain(|&of| of != endpoint);
        for place in &mut self.pairs {
            if place.is_some_and(|(_, of)| of == endpoint) {
                *place = None;
            }
        }
    }

    fn is_allowed(&self, address: IpAddr) -> bool {
        let allowed = &self.config.allowed;
        allowed.is_empty() || allowed.iter().any(|&(of, bits)| is_within(address, of, bits))
    }

    // ---- what arrives ----

    fn take(&mut self, now: Moment, frame: &Incoming<'_>) {
        let long_enough = frame.bytes.len() >= BTH_BYTES + ICRC_BYTES;
        let Some(pair) = destination_of(frame.bytes).filter(|_| long_enough) else {
            self.counters.too_short += 1;
            return;
        };
        let kind = kind_of(frame.bytes);
        if pair == SETUP_PAIR {
            if !self.is_allowed(frame.from.ip()) {
                self.counters.not_allowed += 1;
            } else if kind == Some(Kind::Setup) {
                self.take_setup(now, frame);
            } else {
                self.counters.unknown_kind += 1;
            }
            return;
        }
        let Some(endpoint) = self.find(pair) else {
            self.counters.unknown_pair += 1;
            if kind == Some(Kind::Setup) && self.is_allowed(frame.from.ip()) {
                self.take_stray(frame);
            }
            return;
        };
        match self.endpoints.get(endpoint.0) {
            Some(EndpointState::Open(_)) => self.take_open(now, endpoint, kind, frame),
            Some(EndpointState::Leaving(_)) if kind == Some(Kind::Setup) => {
                self.take_leaving(endpoint, frame);
            }
            _ => {}
        }
    }

    /// A frame of an open connection.
    fn take_open(
        &mut self,
        now: Moment,
        endpoint: EndpointId,
        kind: Option<Kind>,
        frame: &Incoming<'_>,
    ) {
        let Core { endpoints, regions, completions, counters, .. } = self;
        let Some(EndpointState::Open(open)) = endpoints.get_mut(endpoint.0) else { return };
        if frame.from != open.ends.peer {
            counters.wrong_sender += 1;
            return;
        }
        let checked = open.checked || kind == Some(Kind::Setup);
        let identification_max = if open.selective { IDENTIFICATION_MAX } else { u16::MAX };
        let Some(bytes) = open.ends.opened(frame, (checked, identification_max)) else {
            counters.wrong_check += 1;
            return;
        };
        let over = match kind {
            // A static peer speaks the standard only.
            Some(_) if !open.selective => {
                open.counters.frames_foreign += 1;
                return;
            }
            None => {
                let Ok(packet) = Packet::parse(bytes) else {
                    counters.unknown_kind += 1;
                    return;
                };
                // A request must not find completions without bound; its sender repeats it.
                if completions.len() >= COMPLETIONS_MAX && is_request(&packet.headers().body) {
                    return;
                }
                open.take(now, &packet, (bytes, frame.congestion), regions, completions)
            }
            Some(Kind::Selective) => {
                open.hear(now);
                if let Some(ack) = Selective::parse(bytes).filter(|_| open.selective) {
                    open.counters.acknowledgements_received += 1;
                    open.responder.ask(ack.question);
                    open.requester.selective(now, &ack, completions);
                }
                Ok(())
            }
            Some(Kind::Setup) => {
                open.hear(now);
                match Setup::parse(bytes) {
                    Some(setup) => self.take_control(endpoint, &setup),
                    None => self.counters.unknown_kind += 1,
                }
                return;
            }
        };
        if let Err(status) = over {
            self.end(endpoint, status);
        } else {
            self.note_withdrawn(endpoint);
        }
    }

    /// Imports that a peer has withdrawn take no more work.
    fn note_withdrawn(&mut self, endpoint: EndpointId) {
        let Core { endpoints, imports, .. } = self;
        let Some(EndpointState::Open(open)) = endpoints.get_mut(endpoint.0) else { return };
        for remote in open.requester.withdrawn.drain(..) {
            if let Some(import) = imports.get_mut(remote) {
                import.state = ImportState::Withdrawn;
            }
        }
    }

    // ---- what time brings ----

    fn on_time(&mut self, now: Moment) {
        for place in (0..self.living.len()).rev() {
            let Some(&endpoint) = self.living.get(place) else { continue };
            let death = self.config.death;
            let Core { endpoints, regions, completions, .. } = self;
            match endpoints.get_mut(endpoint.0) {
                Some(EndpointState::Open(open)) => {
                    if let Err(status) = open.on_time(now, death, regions, completions) {
                        self.end(endpoint, status);
                    }
                }
                Some(EndpointState::Calling(_)) => self.calling_on_time(now, endpoint),
                Some(EndpointState::Leaving(leaving)) => {
                    if leaving.is_over(now) {
                        self.forget(endpoint);
                    }
                }
                Some(EndpointState::Between) | None => {}
            }
        }
    }

    /// Gives each connection its turn; says how many frames were sent.
    fn send<P: Port>(&mut self, now: Moment, port: &mut P) -> usize {
        let credit = self.credit_bytes();
        let (count, death) = (self.living.len(), self.config.death);
        let wait = self.acknowledgements_wait;
        let mut sent = 0;
        self.turn = self.turn.wrapping_add(1);
        for step in 0..count {
            let endpoint = self.living[(self.turn.wrapping_add(step)) % count];
            let Core { endpoints, completions, .. } = self;
            sent += match endpoints.get_mut(endpoint.0) {
                Some(EndpointState::Open(open)) => {
                    open.send(now, (credit, death, wait), port, completions)
                }
                Some(EndpointState::Calling(_)) => self.call(now, endpoint, port),
                Some(EndpointState::Leaving(leaving)) => leaving.send(now, port),
                Some(EndpointState::Between) | None => 0,
            };
        }
        sent
    }

    /// A connection is over: its work is flushed, its imports are gone.
    pub fn end(&mut self, endpoint: EndpointId, status: Status) {
        let leaving = {
            let Core { endpoints, completions, over, now, .. } = self;
            let Some(EndpointState::Open(open)) = endpoints.get_mut(endpoint.0) else { return };
            open.end(status, completions);
            let peer_knows = matches!(status, Status::Disconnected | Status::PeerGone);
            let slot = endpoints.get_mut(endpoint.0);
            match slot.map(|slot| core::mem::replace(slot, EndpointState::Between)) {
                Some(EndpointState::Open(open)) if open.selective => {
                    over.note(*now, open.ends.peer, open.nonce);
                    if peer_knows { None } else { Leaving::of(*open) }
                }
                _ => None,
            }
        };
        self.imports.retain(|import| import.endpoint != endpoint);
        match leaving {
            Some(leaving) => self.set(endpoint, EndpointState::Leaving(Box::new(leaving))),
            None => self.forget(endpoint),
        }
    }

    /// When there is something to do although nothing arrives.
    pub fn deadline(&self, now: Moment) -> Option<Moment> {
        let death = self.config.death;
        let times = self.living.iter().filter_map(|&of| match self.endpoints.get(of.0)? {
            EndpointState::Open(open) => open.deadline(now, death),
            EndpointState::Calling(calling) => Some(calling.deadline()),
            EndpointState::Leaving(leaving) => Some(leaving.deadline()),
            EndpointState::Between => None,
        });
        times.min()
    }
}

/// Whether the first `bits` of two addresses are equal.
fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let differs = match (address.to_canonical(), network.to_canonical()) {
        (IpAddr::V4(one), IpAddr::V4(other)) => u128::from(one.to_bits() ^ other.to_bits()) << 96,
        (IpAddr::V6(one), IpAddr::V6(other)) => one.to_bits() ^ other.to_bits(),
        _ => return false,
    };
    differs.leading_zeros() >= u32::from(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{Completion, Fabric, Grant, Key, Name, Reliability};
    use crate::port::network::{Network, NetworkPort};

    /// Polls both nodes for so long; what they were told.
    fn run(nodes: &mut [Node<NetworkPort>; 2], now: &mut Moment, turns: u32) -> Vec<Completion> {
        let mut completions = Vec::new();
        for _ in 0..turns {
            *now = *now + Span::from_ns(20_000);
            for node in nodes.iter_mut() {
                completions.extend(core::iter::from_fn(|| node.poll(*now)));
            }
        }
        completions
    }

    #[test]
    fn what_is_kept_does_not_grow_with_the_connections_that_ever_were() {
        let network = Network::new();
        let mut nodes = [1, 2].map(|last| {
            let at = SocketAddr::from(([10, 0, 0, last], 4791));
            Node::new(network.port(at, 300), EndpointConfig::new("node", [last; 16]))
        });
        let mut now = Moment::from_ns(1);
        for round in 0..5000 {
            let region = nodes[0].register(64).expect("memory");
            let name = Name::parse("x").expect("legal");
            let grant = Grant { rights: Rights::ALL, key: Key(5) };
            nodes[0].export(region, name.clone(), grant).expect("free");
            let endpoint = nodes[1].connect("10.0.0.1", Reliability::Reliable).expect("reachable");
            let completions = run(&mut nodes, &mut now, 4);
            let connected =
                completions.iter().filter(|of| matches!(of, Completion::Connected { .. }));
            assert_eq!(connected.count(), 2, "round {round}: {completions:?}");
            nodes[1].import(endpoint, name, Key(5)).expect("open");
            let completions = run(&mut nodes, &mut now, 2);
            let done = |of: &Completion| matches!(of, Completion::Imported { bytes: 64, .. });
            assert!(completions.iter().any(done), "round {round}: {completions:?}");
            nodes[1].disconnect(endpoint).expect("open");
            nodes[0].withdraw(region).expect("own");
            run(&mut nodes, &mut now, 3);
        }
        for node in &nodes {
            let Core { endpoints, imports, regions, living, .. } = &node.core;
            let kept = endpoints.slots() + imports.slots() + regions.slots();
            assert!(kept <= 3 * 64, "{kept} places after 5000 connections");
            assert_eq!(living.len(), 0);
        }
    }

    #[test]
    fn a_prefix_takes_its_own_addresses_and_no_others() {
        let within = |address: &str, network: &str, bits| {
            is_within(address.parse().expect("address"), network.parse().expect("address"), bits)
        };
        assert!(within("10.0.0.7", "10.0.0.0", 24) && !within("10.0.1.7", "10.0.0.0", 24));
        assert!(within("10.0.0.7", "10.0.0.7", 32) && !within("10.0.0.6", "10.0.0.7", 32));
        assert!(within("1.2.3.4", "0.0.0.0", 0) && !within("1.2.3.4", "::", 0));
        assert!(within("fe80::1", "fe80::", 64) && !within("fe81::1", "fe80::", 64));
    }
}
