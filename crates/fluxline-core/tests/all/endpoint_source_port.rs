//! Peers of the standard send from a UDP port of their choice and receive at 4791. The port is
//! given, or learned from the first frame that can only be the peer's.

use std::net::SocketAddr;

use crate::support::frames::packets;
use crate::support::{Raw, World, config, put, tags};
use fluxline_core::endpoint::{Node, StaticPeer, StaticRegion, StaticRemote};
use fluxline_core::fabric::{EndpointId, Fabric, Key, RegionId, Reliability, Rights, Status};
use fluxline_core::port::network::{Network, NetworkPort};
use fluxline_core::roce::{
    Aeth, Body, CreditCode, Headers, Msn, Psn, QueuePair, Reth, Syndrome, Transport, UDP_PORT,
    WritePart,
};

const BASE: u64 = 0x7F00_0000_1000;
const KEY: u32 = 0xABCD_0123;
const OWN_PAIR: u32 = 0x0011_0005;
const PEER_PAIR: u32 = 0x0022_0006;
/// Ports that a peer chooses to send from.
const CHOSEN: u16 = 50_000;
const OTHER: u16 = 50_001;

/// The addresses of peer and node, in both families.
const FAMILIES: [[&str; 2]; 2] = [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]];

/// A node, and a peer that the test plays: it receives at 4791 and sends from anywhere.
struct Scene {
    network: Network,
    world: World<NetworkPort>,
    region: RegionId,
    endpoint: EndpointId,
    peer: std::net::IpAddr,
    /// The peer's port 4791.
    inbox: Raw,
}

fn peer_of(address: SocketAddr, own_pair: u32, region: RegionId) -> StaticPeer {
    StaticPeer {
        name: "card".into(),
        address,
        source_port: None,
        own_pair: QueuePair::new(own_pair),
        peer_pair: QueuePair::new(PEER_PAIR),
        reliability: Reliability::Reliable,
        peer_first: Some(Psn::new(7)),
        own_first: Psn::new(100),
        path_mtu: 1024,
        regions: vec![StaticRegion { region, key: KEY, base: BASE, rights: Rights::ALL }],
        remotes: vec![StaticRemote {
            name: "x".into(),
            key: KEY,
            base: BASE,
            bytes: 4096,
            rights: Rights::ALL,
        }],
    }
}

fn scene(family: [&str; 2], change: impl FnOnce(&mut StaticPeer)) -> Scene {
    let [peer, own] = family.map(|ip| ip.parse().expect("an address"));
    let network = Network::new();
    let (own, receiving) = (SocketAddr::new(own, UDP_PORT), SocketAddr::new(peer, UDP_PORT));
    let mut node = Node::new(network.port(own, 1472), config(2, |_| {}));
    let inbox = Raw::new(&network, receiving, own);
    let region = node.register(4096).expect("memory");
    let mut static_peer = peer_of(receiving, OWN_PAIR, region);
    change(&mut static_peer);
    let mut world = World::new(vec![node]);
    let endpoint = world.nodes[0].add_static(&static_peer, world.now).expect("legal");
    world.turn();
    world.completions[0].clear();
    Scene { network, world, region, endpoint, peer, inbox }
}

impl Scene {
    /// The peer sending from this port.
    fn from(&self, port: u16) -> Raw {
        Raw::new(&self.network, SocketAddr::new(self.peer, port), self.inbox.peer)
    }

    fn wrong_senders(&self) -> u64 {
        self.world.nodes[0].counters().wrong_sender
    }

    fn bytes(&self) -> Vec<u8> {
        self.world.bytes(0, self.region, 0, 4)
    }

    /// The PSNs of the acknowledgements at port 4791 of the peer.
    fn acknowledged(&mut self) -> Vec<u32> {
        self.world.run(1);
        let frames = packets(&self.inbox.received());
        let is_ack = |headers: &Headers| {
            matches!(headers.body, Body::Acknowledge(Aeth { syndrome: Syndrome::Ack(_), .. }))
        };
        let acks = frames.iter().filter(|(headers, _)| is_ack(headers));
        acks.map(|(headers, _)| headers.psn.get()).collect()
    }
}

fn write(pair: u32, psn: u32, key: u32, transport: Transport) -> Headers {
    let reth = Reth { address: BASE, key, bytes: 4 };
    let body = Body::Write(transport, WritePart::Only(reth, None));
    Headers::new(QueuePair::new(pair), Psn::new(psn), body)
}

fn reliable(psn: u32) -> Headers {
    write(OWN_PAIR, psn, KEY, Transport::Reliable)
}

#[test]
fn a_peer_that_sends_from_another_port_is_served_and_acknowledged_at_4791() {
    for family in FAMILIES {
        let mut scene = scene(family, |_| {});
        let mut sender = scene.from(CHOSEN);
        sender.packet(reliable(7), &[1; 4]);
        assert_eq!(scene.acknowledged(), [7]);
        assert_eq!(scene.bytes(), [1; 4]);
        assert!(sender.received().is_empty(), "nothing goes to the source port");
        assert_eq!(scene.wrong_senders(), 0);
    }
}

#[test]
fn frames_from_a_third_port_are_rejected_once_the_port_is_known() {
    for family in FAMILIES {
        let mut scene = scene(family, |_| {});
        scene.from(CHOSEN).packet(reliable(7), &[1; 4]);
        assert_eq!(scene.acknowledged(), [7]);
        scene.from(OTHER).packet(reliable(8), &[2; 4]);
        scene.from(UDP_PORT + 1).packet(reliable(8), &[3; 4]);
        assert!(scene.acknowledged().is_empty());
        assert_eq!((scene.bytes(), scene.wrong_senders()), (vec![1; 4], 2));
        scene.from(CHOSEN).packet(reliable(8), &[4; 4]);
        assert_eq!(scene.acknowledged(), [8]);
        assert_eq!(scene.bytes(), [4; 4]);
    }
}

#[test]
fn a_given_port_is_the_only_one() {
    let mut scene = scene(FAMILIES[0], |peer| peer.source_port = Some(CHOSEN));
    scene.from(OTHER).packet(reliable(7), &[2; 4]);
    assert!(scene.acknowledged().is_empty());
    assert_eq!(scene.wrong_senders(), 1);
    scene.from(CHOSEN).packet(reliable(7), &[1; 4]);
    assert_eq!(scene.acknowledged(), [7]);
}

#[test]
fn a_frame_with_a_number_far_off_does_not_decide_the_port() {
    let mut scene = scene(FAMILIES[0], |_| {});
    for psn in [0x0080_0000, 100_000, 0x00FF_0000] {
        scene.from(OTHER).packet(reliable(psn), &[2; 4]);
    }
    // An acknowledgement of a request that was not sent.
    let aeth = Aeth { syndrome: Syndrome::Ack(CreditCode::UNLIMITED), msn: Msn::new(1) };
    let ack = Headers::new(QueuePair::new(OWN_PAIR), Psn::new(100), Body::Acknowledge(aeth));
    scene.from(OTHER).packet(ack, &[]);
    assert!(scene.acknowledged().is_empty());
    assert_eq!(scene.wrong_senders(), 4);
    scene.from(CHOSEN).packet(reliable(7), &[1; 4]);
    assert_eq!(scene.acknowledged(), [7]);
}

#[test]
fn a_frame_with_a_wrong_icrc_does_not_decide_the_port() {
    let mut scene = scene(FAMILIES[0], |_| {});
    let mut other = scene.from(OTHER);
    let mut bytes = crate::support::bytes_of(reliable(7), &[2; 4]);
    bytes.extend([1, 2, 3, 4]);
    other.exactly(&bytes);
    // Sealed for the port that it does not come from.
    let own = scene.inbox.peer;
    let sealed = crate::support::seal(&bytes[..bytes.len() - 4], scene.inbox.own, own);
    other.exactly(&sealed);
    assert!(scene.acknowledged().is_empty());
    assert_eq!(scene.world.nodes[0].counters().wrong_check, 2);
    scene.from(CHOSEN).packet(reliable(7), &[1; 4]);
    assert_eq!(scene.acknowledged(), [7]);
}

#[test]
fn an_unreliable_frame_with_a_wrong_key_does_not_decide_the_port() {
    let mut scene = scene(FAMILIES[0], |peer| {
        (peer.reliability, peer.peer_first) = (Reliability::Unreliable, None);
    });
    let unreliable = |psn, key| write(OWN_PAIR, psn, key, Transport::Unreliable);
    scene.from(OTHER).packet(unreliable(5, KEY ^ 1), &[2; 4]);
    scene.world.run(1);
    assert_eq!((scene.bytes(), scene.wrong_senders()), (vec![0; 4], 1));
    scene.from(CHOSEN).packet(unreliable(5, KEY), &[1; 4]);
    scene.from(OTHER).packet(unreliable(6, KEY), &[3; 4]);
    scene.world.run(1);
    assert_eq!((scene.bytes(), scene.wrong_senders()), (vec![1; 4], 2));
}

#[test]
fn an_acknowledgement_of_a_request_in_flight_decides_the_port() {
    for family in FAMILIES {
        let mut scene = scene(family, |_| {});
        let remote = scene.world.import(0, scene.endpoint, "x", Key(u64::from(KEY)));
        scene.world.post(0, scene.endpoint, 1, put(&[9; 8], remote, 0, None));
        scene.world.run(1);
        let sent = packets(&scene.inbox.received());
        assert_eq!(sent.first().expect("the put").0.psn.get(), 100);
        let aeth = Aeth { syndrome: Syndrome::Ack(CreditCode::UNLIMITED), msn: Msn::new(1) };
        let ack = Headers::new(QueuePair::new(OWN_PAIR), Psn::new(100), Body::Acknowledge(aeth));
        scene.world.completions[0].clear();
        scene.from(CHOSEN).packet(ack, &[]);
        scene.world.run(1);
        assert_eq!(tags(&scene.world.completions[0]), [(1, Status::Done)]);
        scene.from(OTHER).packet(reliable(7), &[2; 4]);
        assert!(scene.acknowledged().is_empty());
        assert_eq!(scene.wrong_senders(), 1);
    }
}

#[test]
fn two_queue_pairs_of_one_peer_have_a_source_port_each() {
    let mut scene = scene(FAMILIES[0], |_| {});
    let second = OWN_PAIR + 1;
    let other_region = scene.world.nodes[0].register(4096).expect("memory");
    let config = peer_of(scene.inbox.own, second, other_region);
    let now = scene.world.now;
    scene.world.nodes[0].add_static(&config, now).expect("legal");
    scene.from(CHOSEN).packet(reliable(7), &[1; 4]);
    scene.from(OTHER).packet(write(second, 7, KEY, Transport::Reliable), &[2; 4]);
    assert_eq!(scene.acknowledged(), [7, 7]);
    assert_eq!(scene.bytes(), [1; 4]);
    assert_eq!(scene.world.bytes(0, other_region, 0, 4), [2; 4]);
    // Each port is good for its own queue pair only.
    scene.from(OTHER).packet(reliable(8), &[3; 4]);
    scene.from(CHOSEN).packet(write(second, 8, KEY, Transport::Reliable), &[3; 4]);
    assert!(scene.acknowledged().is_empty());
    assert_eq!(scene.wrong_senders(), 2);
}
