//! The network of the example: it obeys every law of the programming model, and has what every
//! network has.

#[path = "../../examples/token_bus.rs"]
mod example;

use crate::support::pairs::{pair_of, put, put_during_a_fault};
use example::{cluster, point};
use fluxline_conformance::conformance;
use fluxline_conformance::{Joined, Side};
use fluxline_core::fabric::{Completion, Status, Target};
use fluxline_sim::core::fault::Fault;

conformance!(on_a_token_bus, pair_of(&cluster(3, &[])));

fn faults(texts: &[&str]) -> Vec<Fault> {
    texts.iter().map(|text| Fault::parse(text).expect("a fault")).collect()
}

#[test]
fn puts_wait_for_a_repair_and_a_longer_silence_is_the_peer_s_end() {
    for (repair, expected) in [("repair:1@20ms", Status::Done), ("repair:1@900ms", Status::Flushed)]
    {
        let cluster = cluster(3, &faults(&["cable:1@5ms", repair]));
        put_during_a_fault(&cluster, expected);
        assert!(expected != Status::Done || cluster.counts(0).requester.repeated > 0);
    }
}

#[test]
fn a_sweep_counts_by_source_and_by_target_and_repeats() {
    let light = point(8, 0.1, &[]).expect("it runs");
    let heavy = point(8, 0.9, &[]).expect("it runs");
    let latency = |point: &fluxline_sim::report::Point| point.latency_us.expect("delivered").mean;
    assert!(latency(&heavy) > 2.0 * latency(&light));
    for jain in [heavy.source_jain, heavy.target_jain] {
        assert!(jain.expect("delivered") > 0.98, "a token is fair");
    }
    assert!((heavy.accepted_mb_s * 8.0 / 90.0 - 1.0).abs() < 0.05, "{}", heavy.accepted_mb_s);
    let busy = light.busiest();
    assert!((0.095..0.115).contains(&busy), "1,056 bytes for each 1,024: {busy}");
    assert_eq!(point(8, 0.9, &[]).expect("it runs").fingerprint, heavy.fingerprint);
}

#[test]
fn messages_to_a_node_that_the_bus_does_not_reach_are_lost_and_counted() {
    let cut = point(8, 0.3, &faults(&["cable:2@6ms"])).expect("it runs");
    assert!(cut.lost > 0);
    let repaired = point(8, 0.3, &faults(&["cable:2@6ms", "repair:2@8ms"])).expect("it runs");
    assert!(repaired.lost > 0 && repaired.lost < cut.lost / 3, "{} of {}", repaired.lost, cut.lost);
    let all: Vec<String> = (0..8).map(|node| format!("cable:{node}@0ns")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let nothing = point(8, 0.3, &faults(&all)).expect("it runs");
    assert_eq!((nothing.messages, nothing.source_jain), (0, None), "nothing is not fair");
}

#[test]
fn a_node_starts_again_with_empty_memory_and_its_peers_connect_anew() {
    for texts in [["host:1@5ms", "restart:1@6ms"], ["power:1@5ms", "restart:1@200ms"]] {
        let cluster = cluster(3, &faults(&texts));
        let mut joined = Joined::new(pair_of(&cluster));
        let (_, old) = joined.shared("samples", 4096);
        joined
            .pair
            .left
            .post(joined.left, 1, put(&[7; 4096], Target { remote: old, offset: 0 }))
            .expect("room");
        assert_eq!(joined.done(1).1, Status::Done);
        let broken = joined.wait(Side::Left, |what| match *what {
            Completion::Broken { status, .. } => Some(status),
            _ => None,
        });
        assert_eq!(broken, Status::PeerGone, "{texts:?}");
        while cluster.starts(1) < 2 {
            joined.turn();
        }
        joined.connect_again();
        // The name is free: nothing of the former life is left.
        let (region, remote) = joined.shared("samples", 4096);
        assert_eq!(joined.bytes(region, 0, 4096), [0; 4096]);
        let to = Target { remote, offset: 0 };
        joined.pair.left.post(joined.left, 2, put(&[9; 4096], to)).expect("room");
        assert_eq!(joined.done(2).1, Status::Done);
        assert_eq!(joined.bytes(region, 0, 4096), [9; 4096]);
        cluster.check_conservation().expect("each frame is somewhere");
    }
}
