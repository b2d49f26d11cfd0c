//! The endpoint on UDP sockets obeys every law of the programming model, with and without loss.

use std::net::SocketAddr;

use fluxline::clock;
use fluxline::roce::{RoceNode, endpoint_config};
use fluxline::udp::{UdpPort, UdpPortConfig};
use fluxline_conformance::Pair;
use fluxline_conformance::conformance;
use fluxline_core::Span;
use fluxline_core::endpoint::{EndpointConfig, Node};
use fluxline_core::fabric::{
    Completion, Fabric, Grant, Key, Level, Local, Name, Reliability, Rights, Status, Target, Work,
};
use fluxline_core::port::Port;
use fluxline_core::port::lossy::{Faults, Lossy};

/// Deaths are noticed soon, so that the laws about them do not take long.
fn config(name: &str) -> EndpointConfig {
    let config = endpoint_config(name).expect("random numbers");
    EndpointConfig { death: Span::from_ms(400), ..config }
}

fn port(ip: &str) -> UdpPort {
    let local = SocketAddr::new(ip.parse().expect("an address"), 0);
    UdpPort::bind(UdpPortConfig::new(local)).expect("a free port")
}

fn pair(ip: &str) -> Pair {
    let (left, right) = (port(ip), port(ip));
    let right_name = right.local(ip.parse().expect("an address")).expect("bound").to_string();
    Pair {
        left: Box::new(RoceNode::on(left, config("left"))),
        right: Box::new(RoceNode::on(right, config("right"))),
        right_name: right_name.clone(),
        right_again: Some(Box::new(move || Box::new(again(&right_name)))),
        now: Box::new(clock::monotonic),
    }
}

/// Opens a node at the address of one that is gone.
fn again(at: &str) -> RoceNode {
    let port = UdpPort::bind(UdpPortConfig::new(at.parse().expect("an address")));
    RoceNode::on(port.expect("a free port"), config("right"))
}

fn lossy_pair() -> Pair {
    let (left, right) = (port("127.0.0.1"), port("127.0.0.1"));
    let ip = "127.0.0.1".parse().expect("an address");
    let right_name = right.local(ip).expect("bound").to_string();
    let faults = Faults {
        drop: 0.05,
        duplicate: 0.05,
        reorder: 0.05,
        corrupt: 0.02,
        reorder_delay: Span::from_ns(200_000),
        ..Faults::default()
    };
    let seed = clock::now().as_ns();
    println!("seed {seed}");
    let node = move |port, name: &str, seed| -> Box<dyn Fabric> {
        Box::new(Node::new(Lossy::new(port, faults, seed), config(name)))
    };
    Pair {
        left: node(left, "left", seed),
        right: node(right, "right", seed + 1),
        right_name: right_name.clone(),
        right_again: Some(Box::new(move || {
            let port = UdpPort::bind(UdpPortConfig::new(right_name.parse().expect("an address")));
            node(port.expect("a free port"), "right", seed + 2)
        })),
        now: Box::new(clock::monotonic),
    }
}

conformance!(on_loopback, pair("127.0.0.1"));
conformance!(on_ipv6, pair("::1"));
conformance!(with_loss, lossy_pair());

/// Polls both nodes until `done` says so of a completion of the first.
fn until(nodes: &mut [&mut dyn Fabric], done: impl Fn(&Completion) -> bool) -> Completion {
    let began = std::time::Instant::now();
    loop {
        for (number, node) in nodes.iter_mut().enumerate() {
            let now = node.now();
            while let Some(completion) = node.poll(now) {
                if number == 0 && done(&completion) {
                    return completion;
                }
            }
        }
        assert!(began.elapsed().as_secs() < 300, "it never comes");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn is_connected(completion: &Completion) -> bool {
    matches!(completion, Completion::Connected { .. })
}

#[test]
fn a_process_that_ended_without_a_word_is_gone_long_before_a_silent_one_would_be() {
    for ip in ["127.0.0.1", "::1"] {
        let here = || endpoint_config("node").expect("random numbers");
        let death = Span::from_ms(3_600_000);
        let mut left = RoceNode::on(port(ip), EndpointConfig { death, ..here() });
        let other = port(ip);
        let name = other.local(ip.parse().expect("an address")).expect("bound").to_string();
        // Not a RoceNode, which says goodbye when it is dropped.
        let mut right = Node::new(other, here());
        left.connect(&name, Reliability::Reliable).expect("reachable");
        until(&mut [&mut left, &mut right], is_connected);
        drop(right);
        let broken = until(&mut [&mut left], |one| matches!(one, Completion::Broken { .. }));
        assert!(
            matches!(broken, Completion::Broken { status: Status::PeerGone, .. }),
            "{ip}: {broken:?}"
        );
    }
}

#[test]
fn a_process_that_computes_for_five_seconds_is_not_dead() {
    let mut left = fluxline::open("udp://127.0.0.1:0/left").expect("opens");
    let other = port("127.0.0.1");
    let name = other.local("127.0.0.1".parse().expect("an address")).expect("bound").to_string();
    let mut right = Node::new(other, endpoint_config("right").expect("random numbers"));
    let endpoint = left.connect(&name, Reliability::Reliable).expect("reachable");
    until(&mut [&mut *left, &mut right], is_connected);
    let (region, key) = (right.register(64).expect("memory"), Key(7));
    let word = Name::parse("word").expect("legal");
    right.export(region, word.clone(), Grant { rights: Rights::PUT, key }).expect("free");
    let remote = left.import(endpoint, word, key).expect("connected");
    until(&mut [&mut *left, &mut right], |one| matches!(one, Completion::Imported { .. }));
    let (from, to) = (Local::Bytes(b"are you there?"), Target { remote, offset: 0 });
    let put = Work::Put { from, to, notify: None, complete_at: Some(Level::Placed) };
    left.post(endpoint, 7, put).expect("room");
    let computes = std::time::Instant::now();
    while computes.elapsed().as_secs() < 5 {
        let now = left.now();
        let completion = left.poll(now);
        assert!(completion.is_none(), "{completion:?}");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let done = until(&mut [&mut *left, &mut right], |one| matches!(one, Completion::Done { .. }));
    assert!(matches!(done, Completion::Done { tag: 7, status: Status::Done, .. }), "{done:?}");
}
