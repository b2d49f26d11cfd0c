//! The shared-memory link under the suite of all links.

use std::sync::atomic::{AtomicU64, Ordering};

use fluxline_conformance::Pair;
use fluxline_conformance::conformance;
use fluxline_core::fabric::Name;

use super::{Shm, ShmConfig};
use crate::clock;

/// Two nodes of this process, in a group of their own.
fn pair() -> Pair {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let group = Name::parse(&format!("test-{}-{number}", std::process::id())).expect("legal");
    let open = move |node: &str| {
        let node = Name::parse(node).expect("legal");
        Shm::open(&group, &node, ShmConfig::default()).expect("opens")
    };
    Pair {
        left: Box::new(open("left")),
        right: Box::new(open("right")),
        right_name: "right".into(),
        right_again: Some(Box::new(move || Box::new(open("right")))),
        now: Box::new(clock::monotonic),
    }
}

conformance!(shm, pair());

#[cfg(not(loom))]
#[test]
fn what_a_node_looks_at_grows_with_its_connections_and_not_with_all_there_ever_were() {
    use fluxline_core::fabric::{Completion, Fabric, Grant, Key, Reliability, Rights};
    let group = Name::parse(&format!("test-tables-{}", std::process::id())).expect("legal");
    let open = |node: &str| {
        let node = Name::parse(node).expect("legal");
        Shm::open(&group, &node, ShmConfig::default()).expect("opens")
    };
    let (mut owner, mut peer) = (open("owner"), open("peer"));
    let kept = owner.register(64).expect("room");
    let name = Name::parse("kept").expect("legal");
    owner.export(kept, name.clone(), Grant { rights: Rights::ALL, key: Key(1) }).expect("free");
    for _ in 0..500 {
        let endpoint = peer.connect("owner", Reliability::Reliable).expect("room");
        assert!(matches!(owner.poll(clock::now()), Some(Completion::Connected { .. })));
        assert!(matches!(peer.poll(clock::now()), Some(Completion::Connected { .. })));
        peer.import(endpoint, name.clone(), Key(1)).expect("connected");
        peer.import(endpoint, name.clone(), Key(2)).expect("connected");
        let gone = owner.register(64).expect("room");
        owner.withdraw(gone).expect("own");
        peer.disconnect(endpoint).expect("open");
        while peer.poll(clock::now()).is_some() || owner.poll(clock::now()).is_some() {}
    }
    assert_eq!((owner.endpoints.slots(), peer.endpoints.slots()), (1, 1));
    assert_eq!((owner.regions.slots(), peer.imports.slots()), (2, 2));
}

#[cfg(not(loom))]
mod bell;
#[cfg(not(loom))]
mod channel;
#[cfg(loom)]
mod model;
