//! Nodes with a `Fabric` on a managed network.

use fluxline_conformance::conformance;
use fluxline_conformance::{Joined, Pair};
use fluxline_core::fabric::{Level, Local, Status, Target, Work};
use fluxline_core::{Moment, Span};
use fluxline_sim::world::Cluster;

fn open(url: &str) -> Cluster {
    Cluster::open(url).expect("a right URL")
}

fn pair_of(cluster: &Cluster) -> Pair {
    pair_with(cluster, 1)
}

/// The first node, and another one.
fn pair_with(cluster: &Cluster, right: usize) -> Pair {
    let mut now = Moment::default();
    Pair {
        left: Box::new(cluster.node(0)),
        right: Box::new(cluster.node(right)),
        right_name: right.to_string(),
        right_again: None,
        now: Box::new(move || {
            now = now + Span::from_ns(20_000);
            now
        }),
    }
}

conformance!(on_managed_atoll, pair_of(&open("sim:atoll?grid=2x2&manager=on")));
conformance!(
    on_managed_atoll_with_bit_errors,
    pair_of(&open("sim:atoll?torus=3x2&manager=3&routing=shortest&fault=bits:1e-5"))
);

conformance!(
    between_processes_of_managed_nodes,
    pair_with(&open("sim:atoll?grid=2x1&processes=4&manager=on"), 6)
);

/// Puts 4 KiB at 6 ms; returns the end, and the time that it took.
fn put_at_6_ms(url: &str) -> (Status, Span, Cluster) {
    let cluster = open(url);
    let mut joined = Joined::new(pair_of(&cluster));
    let (region, remote) = joined.shared("samples", 4096);
    while cluster.now() < Moment::from_ns(6_000_000) {
        joined.turn();
    }
    let complete_at = Some(Level::Placed);
    let to = Target { remote, offset: 0 };
    let work = Work::Put { from: Local::Bytes(&[7; 4096]), to, notify: None, complete_at };
    let began = cluster.now();
    joined.pair.left.post(joined.left, 1, work).expect("room");
    let status = joined.done(1).1;
    if status == Status::Done {
        assert_eq!(joined.bytes(region, 0, 4096), [7; 4096]);
    }
    cluster.check_conservation().expect("laws hold");
    let took = cluster.now().since(began);
    (status, took, cluster)
}

#[test]
fn puts_go_round_a_cut_cable_within_milliseconds_and_no_request_is_repeated() {
    // The cable at port 0 of node 0 leads to node 1.
    let (status, took, cluster) = put_at_6_ms("sim:atoll?grid=2x2&manager=on&fault=cable:0@5995us");
    assert_eq!(status, Status::Done);
    println!("{} us", took.as_ns() / 1000);
    assert!(took < Span::from_ns(4_000_000), "{} ns", took.as_ns());
    assert_eq!(cluster.counts(0).requester.repeated, 0, "the driver repeats");
    let counters = cluster.network_counters();
    let of = |name: &str| counters.iter().find(|of| of.name == name).expect("a counter").value;
    assert!(of("probes") >= 4 && of("tables") >= 8, "{counters:?}");
    // Without a manager, the same put finds no way.
    let (status, ..) = put_at_6_ms("sim:atoll?grid=2x2&fault=cable:0@5995us");
    assert_eq!(status, Status::Flushed);
}

#[test]
fn a_peer_without_a_path_is_gone() {
    for fault in ["power:1@5ms", "host:1@5ms", "cable:0@5ms"] {
        let url = format!("sim:atoll?grid=2x1&manager=on&fault={fault}");
        assert_eq!(put_at_6_ms(&url).0, Status::Flushed, "{fault}");
    }
}

#[test]
fn a_wrong_manager_is_answered_with_one_sentence() {
    for (url, says) in [
        ("sim:atoll?manager=yes", "on, off or a node"),
        ("sim:atoll?manager=16", "give 0 to 15"),
        ("sim:atoll?grid=64x64&manager=on", "at most 1024"),
    ] {
        let error = Cluster::open(url).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(says) && !error.contains('\n'), "{url}: {error}");
    }
    assert_eq!(Cluster::open("sim:atoll?manager=off").expect("right").network_counters(), []);
}
