//! Shared parts of the endpoint's tests: nodes in virtual time, a hand-made peer, and faulty ports.

pub mod device;
pub mod frames;
pub mod ports;
pub mod script;

use std::net::SocketAddr;

use fluxline_core::endpoint::{EndpointConfig, Node};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Level, Local, Name, Operation, RegionId,
    Reliability, RemoteId, Rights, Status, Target, Work,
};
use fluxline_core::port::lossy::{Faults, Lossy};
use fluxline_core::port::network::{Network, NetworkPort};
use fluxline_core::port::{Incoming, Port};
use fluxline_core::roce::{Headers, ICRC_BYTES, IcrcContext, Packet};
use fluxline_core::{Moment, Span};

pub const KEY: Key = Key(0x1234_5678_9ABC_DEF0);
pub const MS: u64 = 1_000_000;
/// The usual virtual time between polls.
pub const STEP: Span = Span::from_ns(20_000);

pub fn address(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number], 4791))
}

pub fn name(text: &str) -> Name {
    Name::parse(text).expect("a legal name")
}

/// Returns the faults of a very bad link that a connection survives.
pub fn bad(level: u64) -> Faults {
    let delay = Span::from_ns(30_000);
    let reorder_delay = Span::from_ns(300_000);
    let usual = Faults { delay, reorder_delay, ..Faults::default() };
    match level % 3 {
        0 => usual,
        1 => Faults { drop: 0.05, duplicate: 0.05, reorder: 0.05, corrupt: 0.02, ..usual },
        _ => Faults { drop: 0.2, duplicate: 0.2, reorder: 0.3, corrupt: 0.1, ..usual },
    }
}

pub type LossyNode = Node<Lossy<NetworkPort>>;

pub fn lossy_node(
    network: &Network,
    number: u8,
    (frame_bytes, faults, seed): (usize, Faults, u64),
    change: impl FnOnce(&mut EndpointConfig),
) -> LossyNode {
    let port = Lossy::new(
        network.port(address(number), frame_bytes),
        faults,
        seed.wrapping_add(u64::from(number)),
    );
    Node::new(port, config(number, change))
}

pub fn config(number: u8, change: impl FnOnce(&mut EndpointConfig)) -> EndpointConfig {
    let mut config = EndpointConfig::new(&format!("node-{number}"), [number; 16]);
    change(&mut config);
    config
}

/// Nodes and their virtual time. All nodes are polled in turn, except those asleep.
pub struct World<P> {
    pub nodes: Vec<Node<P>>,
    pub completions: Vec<Vec<Completion>>,
    pub now: Moment,
    pub step: Span,
    pub asleep: Vec<bool>,
}

impl<P: Port> World<P> {
    pub fn new(nodes: Vec<Node<P>>) -> World<P> {
        let (completions, asleep) = (vec![Vec::new(); nodes.len()], vec![false; nodes.len()]);
        World { nodes, completions, now: Moment::from_ns(1), step: STEP, asleep }
    }

    pub fn turn(&mut self) {
        self.now = self.now + self.step;
        for (place, node) in self.nodes.iter_mut().enumerate() {
            while !self.asleep[place] {
                let Some(what) = node.poll(self.now) else { break };
                self.completions[place].push(what);
            }
        }
    }

    pub fn run(&mut self, ms: u64) {
        let until = self.now + Span::from_ms(ms);
        while self.now < until {
            self.turn();
        }
    }

    /// Polls until `done`, for at most `ms` milliseconds.
    #[track_caller]
    pub fn until(&mut self, ms: u64, done: impl Fn(&World<P>) -> bool) {
        let limit = self.now + Span::from_ms(ms);
        while !done(self) {
            assert!(self.now < limit, "not in {ms} ms; completions {:?}", self.tails());
            self.turn();
        }
    }

    fn tails(&self) -> Vec<&[Completion]> {
        self.completions
            .iter()
            .map(|completions| &completions[completions.len().saturating_sub(4)..])
            .collect()
    }

    /// Waits for a completion of `node` that `wanted` accepts, and takes it out.
    #[track_caller]
    pub fn wait<T>(
        &mut self,
        node: usize,
        ms: u64,
        wanted: impl Fn(&Completion) -> Option<T>,
    ) -> T {
        self.until(ms, |world| world.completions[node].iter().any(|what| wanted(what).is_some()));
        let place = self.completions[node].iter().position(|what| wanted(what).is_some());
        wanted(&self.completions[node].remove(place.expect("found"))).expect("accepted")
    }

    /// Connects `from` to `to`; returns both ends.
    #[track_caller]
    pub fn connect(
        &mut self,
        (from, to): (usize, usize),
        peer: SocketAddr,
        reliability: Reliability,
    ) -> (EndpointId, EndpointId) {
        let asked = self.nodes[from].connect(&peer.to_string(), reliability).expect("reachable");
        let ours = self.wait(from, 5000, connected);
        assert_eq!(ours, asked);
        (ours, self.wait(to, 5000, connected))
    }

    /// Makes a region of `owner` under this name and imports it at `user`'s `endpoint`.
    #[track_caller]
    pub fn share(
        &mut self,
        (owner, user): (usize, usize),
        endpoint: EndpointId,
        called: &str,
        bytes: u64,
    ) -> (RegionId, RemoteId) {
        let region = self.nodes[owner].register(bytes).expect("memory");
        let grant = Grant { rights: Rights::ALL, key: KEY };
        self.nodes[owner].export(region, name(called), grant).expect("a free name");
        (region, self.import(user, endpoint, called, KEY))
    }

    #[track_caller]
    pub fn import(&mut self, user: usize, of: EndpointId, called: &str, key: Key) -> RemoteId {
        let asked = self.nodes[user].import(of, name(called), key).expect("connected");
        let status = self.wait(user, 5000, |what| match *what {
            Completion::Imported { remote, status, .. } if remote == asked => Some(status),
            _ => None,
        });
        assert_eq!(status, Status::Done);
        asked
    }

    #[track_caller]
    pub fn done(&mut self, node: usize, wanted: u64) -> (Operation, Status, u64) {
        self.wait(node, 100_000, |what| match *what {
            Completion::Done { tag, operation, status, value, .. } if tag == wanted => {
                Some((operation, status, value))
            }
            _ => None,
        })
    }

    #[track_caller]
    pub fn broken(&mut self, node: usize, of: EndpointId, ms: u64) -> Status {
        self.wait(node, ms, |what| match *what {
            Completion::Broken { endpoint, status } if endpoint == of => Some(status),
            _ => None,
        })
    }

    #[track_caller]
    pub fn post(&mut self, node: usize, of: EndpointId, tag: u64, work: Work<'_>) {
        self.nodes[node].post(of, tag, work).expect("legal work is taken");
    }

    pub fn bytes(&self, node: usize, region: RegionId, offset: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let memory = self.nodes[node].memory(region).expect("an own region");
        memory.read(offset, &mut bytes).expect("inside");
        bytes
    }
}

pub fn connected(what: &Completion) -> Option<EndpointId> {
    match what {
        Completion::Connected { endpoint, .. } => Some(*endpoint),
        _ => None,
    }
}

pub fn put(bytes: &[u8], remote: RemoteId, offset: u64, notify: Option<u32>) -> Work<'_> {
    let to = Target { remote, offset };
    Work::Put { from: Local::Bytes(bytes), to, notify, complete_at: Some(Level::Placed) }
}

pub fn message(bytes: &[u8]) -> Work<'_> {
    Work::Send { from: Local::Bytes(bytes), complete_at: Some(Level::Placed) }
}

/// Returns the tags of all `Done`s.
pub fn tags(completions: &[Completion]) -> Vec<(u64, Status)> {
    let tag = |what: &Completion| match *what {
        Completion::Done { tag, status, .. } => Some((tag, status)),
        _ => None,
    };
    completions.iter().filter_map(tag).collect()
}

/// A hand-made peer, which sends what the test says.
pub struct Raw {
    pub port: NetworkPort,
    pub own: SocketAddr,
    pub peer: SocketAddr,
}

impl Raw {
    pub fn new(network: &Network, own: SocketAddr, peer: SocketAddr) -> Raw {
        Raw { port: network.port(own, 65_000), own, peer }
    }

    /// Sends bytes unchanged.
    pub fn exactly(&mut self, bytes: &[u8]) {
        let frame = self.port.frame(self.peer, bytes.len()).expect("room");
        frame.bytes.copy_from_slice(bytes);
        self.port.flush(Moment::default());
    }

    /// Sends a packet with its ICRC.
    pub fn sealed(&mut self, bytes: &[u8]) {
        self.exactly(&seal(bytes, self.own, self.peer));
    }

    pub fn packet(&mut self, headers: Headers, payload: &[u8]) {
        self.sealed(&bytes_of(headers, payload));
    }

    /// Returns the received frames without their ICRCs, which must be right.
    pub fn received(&mut self) -> Vec<Vec<u8>> {
        let context = IcrcContext::new(self.peer, self.own).expect("one family");
        let mut all = Vec::new();
        let mut take = |frame: Incoming<'_>| {
            let (bytes, icrc) = frame.bytes.split_at(frame.bytes.len() - ICRC_BYTES);
            assert_eq!(context.icrc(0, bytes).to_le_bytes(), icrc, "the ICRC is right");
            all.push(bytes.to_vec());
        };
        while self.port.receive(Moment::default(), &mut take) > 0 {}
        all
    }
}

pub fn bytes_of(headers: Headers, payload: &[u8]) -> Vec<u8> {
    let packet = Packet::new(headers, payload).expect("a payload where one may be");
    let mut bytes = vec![0; packet.bytes()];
    packet.emit(&mut bytes);
    bytes
}

pub fn seal(bytes: &[u8], from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let context = IcrcContext::new(from, to).expect("one family");
    let mut sealed = bytes.to_vec();
    sealed.extend(context.icrc(0, bytes).to_le_bytes());
    sealed
}
