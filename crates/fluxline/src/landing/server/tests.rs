//! Producers and strangers in virtual time: each may be without the key, silent, doubled, gone mad
//! or dead after any step. Whatever they do, a producer with the key is served in time, each record
//! that it published is read once and whole, and no peer learns the ring's key.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fluxline_core::endpoint::EndpointConfig;
use fluxline_core::fabric::push::PushRefused;
use fluxline_core::fabric::push::puts::{
    CREDIT_BYTES, GREETING_OFFSET, HEADER_BYTES, Producer, ProducerPlaces, credit_name,
};
use fluxline_core::port::network::{Network, NetworkPort};
use fluxline_core::port::{Incoming, Outgoing, PortCounters, PortLimits};
use fluxline_core::random::{Draw, test_count, test_seed};

use super::*;
use crate::landing::{RingRecords, landing_ring};

const RING_BYTES: u64 = 4096;
const KEY: Key = Key(0x0123_4567_89AB_CDEF);
const STEP: Span = Span::from_ms(1);
/// Time until a producer is served after the last one has died: its death is noticed after 3 s, and
/// strangers are ended after 5 s.
const SERVED_WITHIN_MS: u64 = 9000;

/// A port that looks for the ring's key in what arrives.
struct Sniffing {
    inner: NetworkPort,
    saw_key: bool,
}

impl Port for Sniffing {
    fn limits(&self) -> &PortLimits {
        self.inner.limits()
    }

    fn local(&self, peer: std::net::IpAddr) -> Option<SocketAddr> {
        self.inner.local(peer)
    }

    fn frame(&mut self, to: SocketAddr, bytes: usize) -> Option<Outgoing<'_>> {
        self.inner.frame(to, bytes)
    }

    fn flush(&mut self, now: Moment) {
        self.inner.flush(now);
    }

    fn receive(&mut self, now: Moment, take: &mut dyn FnMut(Incoming<'_>)) -> usize {
        let Sniffing { inner, saw_key } = self;
        inner.receive(now, &mut |frame| {
            let key = KEY.0.to_le_bytes();
            *saw_key |= frame.bytes.windows(key.len()).any(|bytes| bytes == key);
            take(frame);
        })
    }

    fn deadline(&self) -> Option<Moment> {
        self.inner.deadline()
    }

    fn counters(&self) -> PortCounters {
        self.inner.counters()
    }
}

/// The behaviour of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Honest,
    /// Shows another key.
    WrongKey,
    Unreliable,
    /// Exports nothing that the ring's owner could import.
    NoCredit,
    /// Tells another key than that of its region.
    WrongCredit,
    /// Publishes a tail that cannot be.
    WrongTail,
    /// Publishes a length that cannot be.
    WrongLength,
}

/// The progress of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Connecting,
    Connected,
    Importing,
    Imported,
    Introduced,
    /// Half a record is in the ring, without a tail.
    MidRecord,
    Pushing,
    Flushing,
    Done,
}

const PHASES: [Phase; 9] = [
    Phase::Connecting,
    Phase::Connected,
    Phase::Importing,
    Phase::Imported,
    Phase::Introduced,
    Phase::MidRecord,
    Phase::Pushing,
    Phase::Flushing,
    Phase::Done,
];

struct Peer {
    id: u64,
    address: SocketAddr,
    kind: Kind,
    node: Node<Sniffing>,
    endpoint: Option<EndpointId>,
    ring: Option<RemoteId>,
    producer: Option<Producer>,
    credit_key: Key,
    phase: Phase,
    /// It goes no further than this, and only polls then.
    stops_at: Phase,
    to_push: u64,
    pushed: u64,
    /// The reason why it was refused.
    refused: Option<Status>,
}

const SERVER: &str = "10.0.0.2:4791";

impl Peer {
    fn new(network: &Network, address: SocketAddr, id: u64, kind: Kind) -> Peer {
        let port = Sniffing { inner: network.port(address, 1472), saw_key: false };
        let mut secret = [7; 16];
        secret[..8].copy_from_slice(&id.to_le_bytes());
        let mut node = Node::new(port, EndpointConfig::new("board", secret));
        let credit_key = Key(id << 32 | 0x5EED);
        if kind != Kind::NoCredit {
            let credit = node.register(CREDIT_BYTES).expect("memory");
            let grant = Grant { rights: Rights::PUT, key: credit_key };
            node.export(credit, credit_name(credit_key), grant).expect("free");
        }
        Peer {
            id,
            address,
            kind,
            node,
            endpoint: None,
            ring: None,
            producer: None,
            credit_key,
            phase: Phase::Connecting,
            stops_at: Phase::Done,
            to_push: 20 + id % 50,
            pushed: 0,
            refused: None,
        }
    }

    /// Starts over after a refusal, as a patient producer does.
    fn again(&mut self) {
        self.phase = Phase::Connecting;
        (self.endpoint, self.ring, self.producer) = (None, None, None);
        self.pushed = 0;
    }

    fn hear(&mut self, what: Completion) {
        match what {
            Completion::Connected { endpoint, .. } if Some(endpoint) == self.endpoint => {
                self.phase = Phase::Connected;
            }
            Completion::Imported { status: Status::Done, .. } => self.phase = Phase::Imported,
            Completion::Imported { status: Status::NoRoom, .. } if self.kind == Kind::Honest => {
                self.phase = Phase::Connected;
            }
            Completion::Imported { status, .. } => self.refused = Some(status),
            Completion::Broken { endpoint, status } if Some(endpoint) == self.endpoint => {
                self.refused = Some(status);
                if self.kind == Kind::Honest && self.phase < Phase::Pushing {
                    self.again();
                }
            }
            Completion::Done { tag: 7, status: Status::Done, .. } => self.phase = Phase::Done,
            _ => {}
        }
    }

    fn step(&mut self, now: Moment) {
        while let Some(what) = self.node.poll(now) {
            self.hear(what);
        }
        if self.phase >= self.stops_at {
            return;
        }
        let Peer { node, .. } = self;
        match (self.phase, self.endpoint) {
            (Phase::Connecting, None) => {
                let reliability = match self.kind {
                    Kind::Unreliable => Reliability::Unreliable,
                    _ => Reliability::Reliable,
                };
                self.endpoint = node.connect(SERVER, reliability).ok();
            }
            (Phase::Connected, Some(endpoint)) => {
                let key = if self.kind == Kind::WrongKey { Key(KEY.0 ^ 1) } else { KEY };
                self.ring = node.import(endpoint, Name::parse("ring").expect("legal"), key).ok();
                self.phase = Phase::Importing;
            }
            (Phase::Imported, Some(endpoint)) => self.introduce(endpoint),
            (Phase::Introduced, Some(endpoint)) => self.half_a_record(endpoint),
            (Phase::MidRecord, Some(_)) => self.phase = Phase::Pushing,
            (Phase::Pushing, Some(endpoint)) => self.push(endpoint),
            _ => {}
        }
    }

    fn introduce(&mut self, endpoint: EndpointId) {
        let credit = match self.node.memory(RegionId(0)) {
            Ok(memory) => memory,
            Err(_) => fluxline_core::fabric::memory::zeroed(CREDIT_BYTES).expect("memory"),
        };
        let ring = self.ring.expect("imported");
        let places = ProducerPlaces { endpoint, ring, size: RING_BYTES, credit };
        let producer = Producer::new(&self.node, places).expect("sound");
        let reported = match self.kind {
            Kind::NoCredit => Ok(()),
            Kind::WrongCredit => producer.greet(&mut self.node, Key(1)),
            _ => producer.greet(&mut self.node, self.credit_key),
        };
        if reported.is_ok() {
            self.producer = Some(producer);
            self.phase = Phase::Introduced;
        }
    }

    fn put(&mut self, endpoint: EndpointId, offset: u64, bytes: &[u8]) -> bool {
        let Some(remote) = self.ring else { return false };
        let (from, to) = (Local::Bytes(bytes), Target { remote, offset });
        let put = Work::Put { from, to, notify: None, complete_at: None };
        self.node.post(endpoint, 0, put).is_ok()
    }

    fn half_a_record(&mut self, endpoint: EndpointId) {
        let done = match self.kind {
            Kind::WrongTail => self.put(endpoint, 0, &[0xFF; 8]),
            Kind::WrongLength => {
                self.put(endpoint, HEADER_BYTES, &[0xFF; 8])
                    && self.put(endpoint, 0, &[64, 0, 0, 0, 0, 0, 0, 0])
            }
            // Written over by the first record.
            _ => self.put(endpoint, HEADER_BYTES, &[40, 0, 0, 0, 0, 0, 0, 0, 0xEE, 0xEE]),
        };
        if done {
            self.phase = Phase::MidRecord;
        }
    }

    fn push(&mut self, endpoint: EndpointId) {
        let Peer { node, producer, .. } = self;
        let Some(producer) = producer else { return };
        while self.pushed < self.to_push {
            let mut record = vec![self.id as u8; 24 + (self.pushed as usize * 7) % 300];
            record[..8].copy_from_slice(&self.id.to_le_bytes());
            record[8..16].copy_from_slice(&self.pushed.to_le_bytes());
            match producer.push(node, None, &record) {
                Ok(()) => self.pushed += 1,
                Err(PushRefused::Full) => return,
                Err(error) => panic!("{error}"),
            }
        }
        if producer.publish(node) == Ok(true) && node.post(endpoint, 7, Work::Flush).is_ok() {
            self.phase = Phase::Flushing;
        }
    }
}

struct World {
    network: Network,
    node: Node<NetworkPort>,
    server: RingServer,
    records: RingRecords,
    peers: Vec<Peer>,
    now: Moment,
    ids: u64,
    /// Records that were read, by producer.
    read: BTreeMap<u64, u64>,
    /// Producers that showed the key, and what they had pushed when they ended.
    with_key: BTreeMap<u64, u64>,
    done: Vec<u64>,
}

fn world() -> World {
    let network = Network::new();
    let config = EndpointConfig {
        endpoints_max: 32,
        endpoints_per_address_max: 8,
        ..EndpointConfig::new("run", [9; 16])
    };
    let mut node = Node::new(network.port(SERVER.parse().expect("an address"), 1472), config);
    let (keeper, records) = landing_ring(RING_BYTES).expect("memory");
    let name = Name::parse("ring").expect("legal");
    let export = RingExport { name, key: KEY, size: RING_BYTES };
    let server = RingServer::new(&mut node, keeper, export).expect("free");
    World {
        network,
        node,
        server,
        records,
        peers: Vec::new(),
        now: Moment::from_ns(1),
        ids: 0,
        read: BTreeMap::new(),
        with_key: BTreeMap::new(),
        done: Vec::new(),
    }
}

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 1, host], port))
}

impl World {
    fn peer(&mut self, at: SocketAddr, kind: Kind) -> &mut Peer {
        self.ids += 1;
        let peer = Peer::new(&self.network, at, self.ids, kind);
        self.peers.push(peer);
        self.peers.last_mut().expect("pushed")
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now = self.now + STEP;
            self.server.turn(&mut self.node, self.now);
            while let Some(record) = self.records.next() {
                let word =
                    |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("8 bytes"));
                let (id, number) = (word(0), word(8));
                let next = self.read.entry(id).or_insert(0);
                assert_eq!(number, *next, "record of producer {id}");
                assert!(record[16..].iter().all(|byte| *byte == id as u8), "torn: {record:?}");
                *next += 1;
            }
            for peer in &mut self.peers {
                peer.step(self.now);
                assert!(!peer.node.port().saw_key, "{:?} got the ring's key", peer.kind);
                if peer.kind != Kind::WrongKey && peer.phase >= Phase::Imported {
                    self.with_key.insert(peer.id, peer.pushed);
                }
                if peer.phase == Phase::Done {
                    self.done.push(peer.id);
                }
            }
        }
    }

    /// Runs until the peer with this number is done.
    #[track_caller]
    fn served(&mut self, id: u64, within_ms: u64) {
        let began = self.now;
        while !self.done.contains(&id) {
            self.run(1);
            let waited = self.now.since(began).as_ns() / 1_000_000;
            let peer = self.peers.iter().find(|peer| peer.id == id).expect("there");
            assert!(waited < within_ms, "{:?} after {waited} ms: {:?}", peer.phase, peer.refused);
        }
        self.run(10);
    }

    /// Kills a peer: nothing is said.
    fn kill(&mut self, place: usize) {
        drop(self.peers.swap_remove(place));
    }

    fn check(&mut self) {
        for (id, read) in &self.read {
            let pushed = self.with_key.get(id);
            assert!(pushed.is_some_and(|pushed| read <= pushed), "{read} records of {id} are read");
        }
        for id in &self.done {
            assert_eq!(self.read.get(id), self.with_key.get(id), "all of {id} is read");
        }
    }
}

#[test]
fn a_stranger_gets_no_key_and_does_not_become_the_producer() {
    for kind in [Kind::WrongKey, Kind::Honest] {
        let mut world = world();
        world.peer(address(66, 4791), kind).stops_at = match kind {
            Kind::Honest => Phase::Connected,
            _ => Phase::Done,
        };
        world.run(50);
        let honest = world.peer(address(7, 4791), Kind::Honest).id;
        world.served(honest, 200);
        world.check();
        // The stranger is still connected, and is ended in time.
        world.run(6000);
        assert_eq!(world.server.counters().strangers, 1, "{kind:?}");
        assert!(world.peers[0].refused.is_some());
    }
}

#[test]
fn the_second_of_two_producers_waits_until_the_first_has_left() {
    let mut world = world();
    let first = world.peer(address(7, 4791), Kind::Honest).id;
    world.served(first, 200);
    let second = world.peer(address(8, 4791), Kind::Honest).id;
    world.run(2000);
    assert!(!world.done.contains(&second), "the first one is still connected");
    let endpoint = world.peers[0].endpoint.expect("connected");
    world.peers[0].node.disconnect(endpoint).expect("open");
    world.served(second, SERVED_WITHIN_MS);
    world.check();
}

#[test]
fn a_producer_that_dies_after_any_step_makes_room_for_itself_and_its_records_are_kept() {
    for phase in PHASES {
        let mut world = world();
        for life in 0..3 {
            let peer = world.peer(address(7, 4791), Kind::Honest);
            peer.stops_at = phase;
            let id = peer.id;
            world.run(100);
            assert!(world.peers[0].phase >= phase, "{phase:?}: {:?}", world.peers[0].refused);
            if phase == Phase::Done {
                assert_eq!(world.read.get(&id), Some(&world.peers[0].pushed));
            }
            world.kill(0);
            world.run(50 * life);
            // The same program again, from the same address and port.
            let again = world.peer(address(7, 4791), Kind::Honest).id;
            world.served(again, SERVED_WITHIN_MS);
            world.kill(0);
            world.run(3500);
        }
        world.check();
    }
}

#[test]
fn who_shows_the_key_and_goes_no_further_is_ended_in_time() {
    for kind in [Kind::NoCredit, Kind::WrongCredit, Kind::Unreliable] {
        let mut world = world();
        world.peer(address(7, 4791), kind).stops_at = Phase::Introduced;
        world.run(100);
        let honest = world.peer(address(8, 4791), Kind::Honest).id;
        world.served(honest, SERVED_WITHIN_MS);
        assert_eq!(world.server.counters().producers_gone, 1, "{kind:?}");
        world.check();
    }
}

#[test]
fn a_broken_ring_is_made_anew_and_what_was_published_before_is_kept() {
    for kind in [Kind::WrongTail, Kind::WrongLength] {
        let mut world = world();
        for round in 1..5 {
            let honest = world.peer(address(7, 4791), Kind::Honest).id;
            world.served(honest, SERVED_WITHIN_MS);
            let endpoint = world.peers[0].endpoint.expect("connected");
            world.peers[0].node.disconnect(endpoint).expect("open");
            world.run(100);
            world.peer(address(66, 4791), kind);
            world.run(500);
            assert_eq!(world.server.counters().rings_renewed, round, "{kind:?}");
            world.peers.clear();
        }
        let reported: Vec<RingEvent> = std::iter::from_fn(|| world.server.event()).collect();
        let nonsense = |of: &&RingEvent| matches!(of, RingEvent::Left { how: Leave::Nonsense, .. });
        assert_eq!(reported.iter().filter(nonsense).count(), 4, "{reported:?}");
        world.check();
    }
}

/// Words that must not be written: only a producer that has presented the key may use the ring's
/// header.
#[test]
fn a_producer_cannot_write_beside_its_words() {
    let mut world = world();
    world.peer(address(7, 4791), Kind::Honest).stops_at = Phase::Introduced;
    world.run(100);
    let endpoint = world.peers[0].endpoint.expect("connected");
    for offset in [1, 4, GREETING_OFFSET + 1, 16, 32, 56, HEADER_BYTES - 1] {
        assert!(world.peers[0].put(endpoint, offset, &[1; 8]), "posted");
    }
    world.run(100);
    assert_eq!(world.server.counters().producers, 1);
    world.peers[0].stops_at = Phase::Done;
    let id = world.peers[0].id;
    world.served(id, 1000);
    world.check();
}

/// `SEED` repeats one of them, `COUNT` makes it a campaign.
#[test]
fn whatever_peers_do_a_producer_with_the_key_is_served_in_time() {
    let first = test_seed!(1);
    for seed in first..first + test_count!(5) {
        println!("SEED={seed} COUNT=1");
        let mut draw = Draw::new(seed);
        let mut world = world();
        for _ in 0..20 {
            for _ in 0..1 + draw.below(6) {
                let kinds = [
                    Kind::Honest,
                    Kind::Honest,
                    Kind::Honest,
                    Kind::WrongKey,
                    Kind::WrongKey,
                    Kind::Unreliable,
                    Kind::NoCredit,
                    Kind::WrongCredit,
                    Kind::WrongTail,
                    Kind::WrongLength,
                ];
                let kind = kinds[draw.below(kinds.len() as u64) as usize];
                // Few addresses and ports, so that one is often another's successor.
                let at = address(60 + draw.below(4) as u8, 4791 + draw.below(3) as u16);
                let stops_at = PHASES[draw.below(PHASES.len() as u64) as usize];
                world.peers.retain(|peer| peer.address != at);
                world.peer(at, kind).stops_at = stops_at;
                world.run(draw.below(100));
                if draw.below(2) == 0 && !world.peers.is_empty() {
                    let place = draw.below(world.peers.len() as u64) as usize;
                    world.kill(place);
                }
            }
            world.peers.clear();
            let honest = world.peer(address(7, 4791), Kind::Honest).id;
            world.served(honest, SERVED_WITHIN_MS);
            let endpoint = world.peers[0].endpoint.expect("connected");
            world.peers[0].node.disconnect(endpoint).expect("open");
            world.run(20);
            world.peers.clear();
        }
        world.check();
    }
}
