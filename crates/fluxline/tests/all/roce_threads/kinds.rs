//! Peers that speak only the standard, at an end with two threads.

use std::net::SocketAddr;

use fluxline::clock;
use fluxline::roce::RoceNode;
use fluxline_core::endpoint::{ManagedTerms, StaticPeer, StaticRegion, StaticRemote};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Key, Local, RegionId, Reliability, Rights, Target, Work,
};
use fluxline_core::roce::{Psn, QueuePair, UDP_PORT};

use super::ends::{address, any_port, open, own_loopback, until};

const BASE: u64 = 0x7F00_0000_0000;
const R_KEY: u32 = 0xABCD_0123;

/// The configuration of one end of a connection.
fn peer(at: SocketAddr, own: u32, theirs: u32, region: Option<RegionId>) -> StaticPeer {
    let rights = Rights::ALL;
    let own_region = region.map(|region| StaticRegion { region, key: R_KEY, base: BASE, rights });
    StaticPeer {
        name: "card".into(),
        address: at,
        source_port: None,
        own_pair: QueuePair::new(own),
        peer_pair: QueuePair::new(theirs),
        reliability: Reliability::Reliable,
        peer_first: Some(Psn::new(100)),
        own_first: Psn::new(100),
        path_mtu: 1024,
        regions: own_region.into_iter().collect(),
        remotes: vec![StaticRemote {
            name: "x".into(),
            key: R_KEY,
            base: BASE,
            bytes: 1 << 16,
            rights,
        }],
    }
}

/// Writes into the region and checks what came.
fn write(from: &mut RoceNode, endpoint: EndpointId, to: &mut RoceNode, region: RegionId) {
    let name = fluxline_core::fabric::Name::parse("x").expect("legal");
    let remote = from.import(endpoint, name, Key(R_KEY.into())).expect("connected");
    let bytes: Vec<u8> = (0..30_000_u32).map(|index| (index * 7 + endpoint.0) as u8).collect();
    let to_region = Target { remote, offset: 64 };
    let put =
        Work::Put { from: Local::Bytes(&bytes), to: to_region, notify: Some(5), complete_at: None };
    from.post(endpoint, 1, put).expect("room");
    until(&mut [from, to], |of, completion| match completion {
        Completion::Notified { value: 5, .. } if of == 1 => Some(()),
        Completion::Broken { status, .. } => panic!("{status}"),
        _ => None,
    });
    let mut found = vec![0; bytes.len()];
    to.memory(region).expect("own").read(64, &mut found).expect("inside");
    assert!(found == bytes, "other bytes");
}

#[test]
fn a_static_peer_comes_to_the_thread_of_its_queue_pair() {
    let mut servers = open(any_port(), 2);
    let at = address(&mut servers[0]);
    for (own, index) in [(0x11, 1), (0x12, 0), (0x00FF_FF01, 1), (2, 0)] {
        let mut card = open(any_port(), 1).remove(0);
        let card_at = address(&mut card);
        let region = servers[index].register(1 << 16).expect("memory");
        let now = clock::monotonic();
        let config = peer(card_at, own, 0x700 + own, Some(region));
        let other = servers[1 - index]
            .node()
            .add_static(&StaticPeer { regions: Vec::new(), ..config.clone() }, now);
        let error = other.expect_err("it belongs to the other thread").to_string();
        let says = format!("queue pair {own} belongs to thread {index} of 2");
        assert!(error.contains(&says), "{error}");
        servers[index].node().add_static(&config, now).expect("its thread");
        let near = peer(at, 0x700 + own, own, None);
        let endpoint = card.node().add_static(&near, now).expect("legal");
        write(&mut card, endpoint, &mut servers[index], region);
    }
    for server in &mut servers {
        assert_eq!(server.node().counters().unknown_pair, 0);
    }
}

#[test]
fn rdma_cm_reaches_both_threads_from_both_sides() {
    let ends = [1, 2].map(|last| SocketAddr::new(own_loopback(last), UDP_PORT));
    let mut servers = open(ends[0], 2);
    let mut clients = open(ends[1], 2);
    for server in &mut servers {
        server.node().listen(7174);
    }
    let mut reached = [0; 2];
    for round in 0..12 {
        let client = &mut clients[round % 2];
        let now = clock::monotonic();
        let terms = ManagedTerms::default();
        let called = client.node().call(ends[0].ip(), 7174, &terms, now).expect("reachable");
        let index = answered(client, &mut servers, called);
        reached[index] += 1;
    }
    // The identifiers of a thread have its remainder, so the threads with one index meet.
    assert_eq!(reached, [6, 6]);
    for node in servers.iter_mut().chain(&mut clients) {
        assert_eq!(node.node().counters().unknown_pair, 0);
        assert_eq!(node.node().counters().management_stray, 0);
    }
}

/// Lets the thread that gets the call accept it, and writes to it; returns its index.
fn answered(client: &mut RoceNode, servers: &mut [RoceNode], called: EndpointId) -> usize {
    let began = std::time::Instant::now();
    loop {
        assert!(began.elapsed().as_secs() < 20, "nobody got the call");
        while client.next_completion().is_some() {}
        for (index, server) in servers.iter_mut().enumerate() {
            while server.next_completion().is_some() {}
            let Some(request) = server.node().next_request() else { continue };
            let region = server.register(1 << 16).expect("memory");
            let own = StaticRegion { region, key: R_KEY, base: BASE, rights: Rights::ALL };
            let terms = ManagedTerms { regions: vec![own], private_data: Vec::new() };
            server.node().accept(&request, &terms, clock::monotonic()).expect("room");
            until(&mut [client, server], |of, completion| match completion {
                Completion::Connected { endpoint, .. } if of == 0 && *endpoint == called => {
                    Some(())
                }
                _ => None,
            });
            let rights = Rights::ALL;
            let remote =
                StaticRemote { name: "x".into(), key: R_KEY, base: BASE, bytes: 1 << 16, rights };
            client.node().add_remote(called, remote).expect("connected");
            write(client, called, server, region);
            return index;
        }
    }
}
