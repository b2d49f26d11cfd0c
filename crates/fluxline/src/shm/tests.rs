//! The shared-memory link under the suite of all links.

use std::sync::atomic::{AtomicU64, Ordering};

use fluxline_proto::conformance;
use fluxline_proto::fabric::Name;
use fluxline_proto::fabric::conformance::Pair;

use super::{Shm, ShmConfig};
use crate::clock;

/// Two nodes of this process, in a group of their own.
fn pair() -> Pair {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let group = Name::parse(&format!("test-{}-{number}", std::process::id())).expect("legal");
    let open = |node: &str| {
        let node = Name::parse(node).expect("legal");
        Shm::open(&group, &node, ShmConfig::default()).expect("opens")
    };
    Pair {
        left: Box::new(open("left")),
        right: Box::new(open("right")),
        right_name: "right".into(),
        now: Box::new(clock::now),
    }
}

conformance!(shm, pair());

#[cfg(not(loom))]
mod channel;
#[cfg(loom)]
mod model;
