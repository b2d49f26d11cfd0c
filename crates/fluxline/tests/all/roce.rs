//! The endpoint on UDP sockets obeys every law of the programming model, with and without loss.

use std::net::SocketAddr;

use fluxline::clock;
use fluxline::roce::{RoceNode, endpoint_config};
use fluxline::udp::{UdpPort, UdpPortConfig};
use fluxline_conformance::Pair;
use fluxline_conformance::conformance;
use fluxline_core::Span;
use fluxline_core::endpoint::{EndpointConfig, Node};
use fluxline_core::fabric::Fabric;
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
