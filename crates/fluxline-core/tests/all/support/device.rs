//! A device that is configured on both sides and only sends writes.

use fluxline_core::endpoint::{StaticPeer, StaticRegion};
use fluxline_core::fabric::{EndpointId, Fabric, RegionId, Reliability, Rights};
use fluxline_core::port::lossy::{Faults, Lossy};
use fluxline_core::port::network::{Network, NetworkPort};
use fluxline_core::roce::{Body, Headers, Psn, QueuePair, Reth, Transport, WritePart};

use super::{Raw, World, address, lossy_node};

pub const BASE: u64 = 0x10_0000;
pub const KEY: u32 = 0x0BAD_CAFE;
pub const PAIR: u32 = 0x00AB_C123;
pub const BYTES: u64 = 8192;

pub struct Device {
    pub raw: Raw,
    pub network: Network,
    pub world: World<Lossy<NetworkPort>>,
    pub endpoint: EndpointId,
    pub region: RegionId,
}

pub fn device(peer_first: Option<Psn>) -> Device {
    let network = Network::new();
    let mut node = lossy_node(&network, 2, (1472, Faults::default(), 1), |_| {});
    let raw = Raw::new(&network, address(1), address(2));
    // A region before and one after it show that no byte is written outside.
    node.register(BYTES).expect("memory");
    let region = node.register(BYTES).expect("memory");
    node.register(BYTES).expect("memory");
    let peer = StaticPeer {
        name: "fpga".into(),
        address: address(1),
        source_port: Some(4791),
        own_pair: QueuePair::new(PAIR),
        peer_pair: QueuePair::new(0),
        reliability: Reliability::Unreliable,
        peer_first,
        own_first: Psn::new(0),
        path_mtu: 1024,
        regions: vec![StaticRegion { region, key: KEY, base: BASE, rights: Rights::PUT }],
        remotes: vec![],
    };
    let mut world = World::new(vec![node]);
    let now = world.now;
    let endpoint = world.nodes[0].add_static(&peer, now).expect("legal");
    world.turn();
    world.completions[0].clear();
    Device { raw, network, world, endpoint, region }
}

pub fn write(psn: u32, (key, address, bytes): (u32, u64, u32), value: u32) -> Headers {
    let reth = Reth { address, key, bytes };
    let body = Body::Write(Transport::Unreliable, WritePart::Only(reth, Some(value)));
    Headers::new(QueuePair::new(PAIR), Psn::new(psn), body)
}
