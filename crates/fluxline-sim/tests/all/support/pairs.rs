//! Pairs of simulated nodes, and a put during a fault, which ends alike on every network.

use fluxline_conformance::{Joined, Pair};
use fluxline_core::fabric::{Level, Local, Status, Target, Work};
use fluxline_core::{Moment, Span};
use fluxline_sim::world::Cluster;

/// The time of the put: a millisecond after the faults.
const PUT_AT: Moment = Moment::from_ns(6_000_000);

/// Two nodes of a cluster, and a clock of 20 us a look.
pub fn pair_between(cluster: &Cluster, left: usize, right: usize) -> Pair {
    let mut now = Moment::default();
    Pair {
        left: Box::new(cluster.node(left)),
        right: Box::new(cluster.node(right)),
        right_name: right.to_string(),
        right_again: None,
        now: Box::new(move || {
            now = now + Span::from_ns(20_000);
            now
        }),
    }
}

/// The first two nodes of a cluster.
pub fn pair_of(cluster: &Cluster) -> Pair {
    pair_between(cluster, 0, 1)
}

/// A put that is complete when its bytes are in the peer's memory.
pub fn put(bytes: &[u8], to: Target) -> Work<'_> {
    let complete_at = Some(Level::Placed);
    Work::Put { from: Local::Bytes(bytes), to, notify: None, complete_at }
}

/// Puts 4 KiB 6 ms after the start, and checks its end and the place of every frame.
pub fn put_during_a_fault(cluster: &Cluster, expected: Status) {
    let mut joined = Joined::new(pair_of(cluster));
    let (region, remote) = joined.shared("samples", 4096);
    while cluster.now() < PUT_AT {
        joined.turn();
    }
    let to = Target { remote, offset: 0 };
    joined.pair.left.post(joined.left, 1, put(&[7; 4096], to)).expect("room");
    assert_eq!(joined.done(1).1, expected);
    if expected == Status::Done {
        assert_eq!(joined.bytes(region, 0, 4096), [7; 4096]);
    }
    cluster.check_conservation().expect("each frame is somewhere");
}
