//! The push ring over puts, a program that knows nothing of simulations, on a noisy SCI ring.

use std::sync::Arc;

use fluxline_core::fabric::push::{
    CREDIT_BYTES, FabricConsumer, FabricProducer, FabricPushError, HEADER_BYTES,
};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Memory, Name, PostError, Reliability, RemoteId,
    Rights,
};
use fluxline_core::{Moment, Span};
use fluxline_sim::cluster::{Cluster, Node};

const RING_BYTES: u64 = 4096;
const RECORDS: u64 = 400;

fn name(text: &str) -> Name {
    Name::parse(text).expect("a legal name")
}

fn export(node: &mut Node, called: &str, bytes: u64) -> Arc<dyn Memory> {
    let region = node.register(bytes).expect("memory");
    node.export(region, name(called), Grant { rights: Rights::ALL, key: Key(1) }).expect("free");
    node.memory(region).expect("own")
}

/// Polls the node until it has a completion.
fn next(node: &mut Node) -> Completion {
    let mut now = node.now();
    loop {
        if let Some(what) = node.poll(now) {
            return what;
        }
        now = now + Span::from_ns(100);
    }
}

fn import(node: &mut Node, peer: &str, called: &str) -> (EndpointId, RemoteId) {
    let endpoint = node.connect(peer, Reliability::Reliable).expect("reachable");
    while !matches!(next(node), Completion::Connected { endpoint: of, .. } if of == endpoint) {}
    let remote = node.import(endpoint, name(called), Key(1)).expect("connected");
    while !matches!(next(node), Completion::Imported { remote: of, .. } if of == remote) {}
    (endpoint, remote)
}

fn record(number: u64) -> Vec<u8> {
    vec![number as u8; 1 + (number * 37 % 500) as usize]
}

#[test]
fn records_of_a_push_ring_come_whole_and_in_order_however_noisy_the_ring_is() {
    for rate in ["0", "1e-5", "2e-4", "1e-3"] {
        let url = format!("sim:sci?nodes=3&model=lc2&seed=11&fault=bits:{rate}");
        let cluster = Cluster::open(&url).expect("a right URL");
        let (mut left, mut right) = (cluster.node(0), cluster.node(2));
        let memory = export(&mut right, "ring", HEADER_BYTES + RING_BYTES);
        let credit = export(&mut left, "credit", CREDIT_BYTES);
        let (there, ring) = import(&mut left, "2", "ring");
        let (back, head) = import(&mut right, "0", "credit");
        let mut producer = FabricProducer::new(there, ring, RING_BYTES, credit).expect("sound");
        let mut consumer = FabricConsumer::new(memory, back, head).expect("sound");
        let (mut pushed, mut read, mut found) = (0, 0, Vec::new());
        let mut now: Moment = cluster.now();
        while read < RECORDS {
            now = now + Span::from_ns(2_000);
            while let Some(what) = left.poll(now).or_else(|| right.poll(now)) {
                assert!(!matches!(what, Completion::Broken { .. }), "{rate}: {what:?}");
            }
            if pushed < RECORDS {
                match producer.push(&mut left, &record(pushed)) {
                    Ok(()) => pushed += 1,
                    Err(FabricPushError::Full | FabricPushError::Post(PostError::Full)) => {}
                    Err(other) => panic!("{rate}: {other}"),
                }
            }
            match producer.publish(&mut left) {
                Ok(()) | Err(FabricPushError::Post(PostError::Full)) => {}
                Err(other) => panic!("{rate}: {other}"),
            }
            while consumer.next(&mut right, &mut found).expect("sound records") {
                assert!(found == record(read), "{rate}: record {read} came otherwise");
                read += 1;
            }
            assert!(now < Moment::from_ns(10_000_000_000), "{rate}: {read} of {RECORDS} came");
        }
        let repeated = cluster.counts(0).requester.repeated;
        assert_eq!(repeated > 0, rate != "0", "{rate}: {repeated} packets were sent again");
    }
}
