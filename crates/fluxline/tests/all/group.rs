//! Groups of nodes on shared memory and over UDP obey the laws of groups.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};

use fluxline::clock;
use fluxline_conformance::group_conformance;
use fluxline_conformance::groups::Nodes;

/// Three nodes of this process, in a group of shared memory of their own.
fn on_memory() -> Nodes {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let names: Vec<String> = (0..3).map(|rank| format!("rank-{rank}")).collect();
    let group = format!("group-{}-{number}", std::process::id());
    let open = |name: &String| fluxline::open(&format!("shm://{group}/{name}")).expect("opens");
    Nodes { fabrics: names.iter().map(open).collect(), names, now: Box::new(clock::monotonic) }
}

/// Three nodes on free ports of loopback.
fn on_udp() -> Nodes {
    // All are bound at the same time, so that no port is given twice.
    let bound = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a free port"));
    let names = bound.each_ref().map(|of| of.local_addr().expect("bound").to_string());
    drop(bound);
    let open = |name: &String| fluxline::open(&format!("udp://{name}")).expect("opens");
    Nodes {
        fabrics: names.iter().map(open).collect(),
        names: names.to_vec(),
        now: Box::new(clock::monotonic),
    }
}

group_conformance!(shm, on_memory());
group_conformance!(udp, on_udp());

#[test]
fn a_survivor_names_the_rank_that_ended_because_of_another_ones_death() {
    fluxline_conformance::groups::survivors_name_the_rank_that_died_first(on_memory());
}
