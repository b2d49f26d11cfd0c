//! The push ring and the barrier over any fabric, here the in-memory one, against plain queues.

use std::collections::VecDeque;

use fluxline_core::fabric::barrier::{Barrier, Counter};
use fluxline_core::fabric::memory::{Lab, MemoryFabric};
use fluxline_core::fabric::push::puts::{
    CREDIT_BYTES, Consumer, Credit, HEADER_BYTES, Producer, ProducerPlaces,
};
use fluxline_core::fabric::push::{Broken, PushRefused};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Memory, Name, Reliability, RemoteId, Rights, Target,
};
use fluxline_core::random::Draw;
use fluxline_core::{Moment, Span};

fn name(text: &str) -> Name {
    Name::parse(text).expect("a legal name")
}

fn export(node: &mut MemoryFabric, called: &str, bytes: u64) -> std::sync::Arc<dyn Memory> {
    let region = node.register(bytes).expect("memory");
    node.export(region, name(called), Grant { rights: Rights::ALL, key: Key(1) }).expect("free");
    node.memory(region).expect("own")
}

fn poll(node: &mut MemoryFabric) -> Vec<Completion> {
    std::iter::from_fn(|| node.poll(Moment::default() + Span::from_ms(1))).collect()
}

fn import(node: &mut MemoryFabric, endpoint: EndpointId, called: &str) -> RemoteId {
    let remote = node.import(endpoint, name(called), Key(1)).expect("connected");
    poll(node);
    remote
}

fn connect(node: &mut MemoryFabric, peer: &str) -> EndpointId {
    let endpoint = node.connect(peer, Reliability::Reliable).expect("there");
    poll(node);
    endpoint
}

struct Ring {
    left: MemoryFabric,
    right: MemoryFabric,
    producer: Producer,
    consumer: Consumer,
    memory: std::sync::Arc<dyn Memory>,
}

fn ring(size: u64) -> Ring {
    let lab = Lab::new();
    let (mut left, mut right) = (lab.node("left").expect("new"), lab.node("right").expect("new"));
    let memory = export(&mut right, "ring", HEADER_BYTES + size);
    let credit = export(&mut left, "credit", CREDIT_BYTES);
    let there = connect(&mut left, "right");
    let back = connect(&mut right, "left");
    let remote = import(&mut left, there, "ring");
    let places = ProducerPlaces { endpoint: there, ring: remote, size, credit };
    let producer = Producer::new(&left, places).expect("sound");
    let remote = import(&mut right, back, "credit");
    let mut consumer = Consumer::new(memory.clone()).expect("sound");
    consumer.admit(Credit { endpoint: back, remote, is_counted: false });
    Ring { left, right, producer, consumer, memory }
}

fn is_of_the_ring(what: &Completion) -> bool {
    matches!(what, Completion::Notified { .. })
}

#[test]
fn any_order_of_calls_equals_a_queue() {
    for seed in 1..60_u64 {
        let mut draw = Draw::new(seed * 0x9E37_79B9);
        let size = 256 << draw.below(3);
        let Ring { mut left, mut right, mut producer, mut consumer, .. } = ring(size);
        let mut expected = VecDeque::new();
        for step in 0..800_u64 {
            match draw.below(6) {
                0 | 1 => {
                    let bytes = vec![step as u8; draw.below(size / 4 - 7) as usize];
                    match producer.push(&mut left, None, &bytes) {
                        Ok(()) => expected.push_back(bytes),
                        Err(PushRefused::Full) => {}
                        Err(other) => panic!("seed {seed}: {other}"),
                    }
                }
                2 => {
                    let _ = producer.publish(&mut left);
                }
                3 => assert!(poll(&mut left).iter().all(is_of_the_ring)),
                4 => assert!(poll(&mut right).iter().all(is_of_the_ring)),
                _ => {
                    if let Some(record) = consumer.next().expect("sound") {
                        let expected = expected.pop_front();
                        assert_eq!(Some(record), expected.as_deref(), "seed {seed}, step {step}");
                    }
                    let _ = consumer.give_back(&mut right);
                }
            }
        }
        while !expected.is_empty() {
            let _ = producer.publish(&mut left);
            poll(&mut left);
            poll(&mut right);
            while let Some(record) = consumer.next().expect("sound") {
                assert_eq!(Some(record), expected.pop_front().as_deref(), "seed {seed}");
            }
            let _ = consumer.give_back(&mut right);
        }
        assert_eq!(consumer.counters().records, producer.counters().records);
        assert_eq!(consumer.counters().bytes, producer.counters().bytes);
    }
}

#[test]
fn nonsense_of_the_other_side_is_an_error_and_not_a_panic() {
    for tail in [1, 7, 300, u64::MAX, 1 << 63] {
        let Ring { mut consumer, memory, .. } = ring(256);
        memory.store(0, tail).expect("inside");
        let found = consumer.next();
        assert_eq!(found, Err(Broken), "tail {tail}");
    }
    for length in [65, 1 << 40, u64::MAX] {
        let Ring { mut consumer, memory, .. } = ring(256);
        memory.store(HEADER_BYTES, length).expect("inside");
        memory.store(0, 64).expect("inside");
        let found = consumer.next();
        assert_eq!(found, Err(Broken), "length {length}");
    }
    let Ring { mut left, mut producer, .. } = ring(256);
    let refused = producer.push(&mut left, None, &[0; 57]);
    assert_eq!(refused, Err(PushRefused::TooLong { bytes: 57, max: 56 }));
}

#[test]
fn nobody_passes_a_barrier_before_the_last_has_come() {
    const PARTIES: usize = 5;
    for seed in 1..40_u64 {
        let mut draw = Draw::new(seed * 77);
        let lab = Lab::new();
        let mut owner = lab.node("owner").expect("new");
        export(&mut owner, "barrier", 8);
        let mut nodes: Vec<MemoryFabric> =
            (0..PARTIES).map(|n| lab.node(&format!("n{n}")).expect("new")).collect();
        let mut barriers: Vec<Barrier> = nodes
            .iter_mut()
            .map(|node| {
                let endpoint = connect(node, "owner");
                let remote = import(node, endpoint, "barrier");
                let counter = Counter { endpoint, at: Target { remote, offset: 0 } };
                Barrier::new(counter, PARTIES as u64, 9)
            })
            .collect();
        let (mut arrived, mut passed) = ([0_u32; PARTIES], [0_u32; PARTIES]);
        for _ in 0..4000 {
            let party = draw.below(PARTIES as u64) as usize;
            let (node, barrier) = (&mut nodes[party], &mut barriers[party]);
            match draw.below(3) {
                0 if arrived[party] == passed[party] => {
                    barrier.arrive(node).expect("room");
                    arrived[party] += 1;
                }
                1 => {
                    for completion in poll(node) {
                        assert_eq!(barrier.take(&completion), Some(Ok(())));
                    }
                }
                _ => {
                    if barrier.poll(node).expect("room") {
                        passed[party] += 1;
                        let least = arrived.iter().min().expect("parties");
                        assert!(passed[party] <= *least, "seed {seed}: {arrived:?} {passed:?}");
                    }
                }
            }
        }
        assert!(passed.iter().all(|&rounds| rounds > 10), "seed {seed}: {passed:?}");
    }
}
