//! The endpoint obeys every law of the programming model, on ports that lose, repeat, reorder and
//! damage frames.

use std::net::SocketAddr;

use fluxline_conformance::Pair;
use fluxline_conformance::conformance;
use fluxline_conformance::script::random_scripts;
use fluxline_core::endpoint::{EndpointConfig, Node};
use fluxline_core::port::lossy::{Faults, Lossy};
use fluxline_core::port::network::Network;
use fluxline_core::random::{test_count, test_seed};
use fluxline_core::{Moment, Span};

fn address(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number], 4791))
}

/// Two nodes on ports with these faults in both directions, and a clock that advances 20 us a poll.
fn pair_with(frame_bytes: usize, faults: Faults) -> Pair {
    pair_from(test_seed!(1), frame_bytes, faults)
}

fn pair_from(seed: u64, frame_bytes: usize, faults: Faults) -> Pair {
    let network = Network::new();
    let node = move |number: u8, secret: u8| {
        let port = network.port(address(number), frame_bytes);
        let port = Lossy::new(port, faults, seed.wrapping_add(u64::from(number)));
        Node::new(port, EndpointConfig::new(&format!("node-{number}"), [secret; 16]))
    };
    let mut now = Moment::default();
    Pair {
        left: Box::new(node(1, 1)),
        right: Box::new(node(2, 2)),
        right_again: Some(Box::new(move || Box::new(node(2, 3)))),
        right_name: address(2).to_string(),
        now: Box::new(move || {
            now = now + Span::from_ns(20_000);
            now
        }),
    }
}

const BAD: Faults = Faults {
    drop: 0.1,
    duplicate: 0.1,
    reorder: 0.1,
    corrupt: 0.05,
    delay: Span::from_ns(30_000),
    reorder_delay: Span::from_ns(300_000),
    rate: 0,
    queue_bytes: 0,
    mark_bytes: 0,
    cut: None,
};

const WORST: Faults = Faults { drop: 0.3, duplicate: 0.3, reorder: 0.3, corrupt: 0.1, ..BAD };

conformance!(on_a_good_link, pair_with(1472, Faults::default()));
conformance!(with_small_frames, pair_with(256, Faults::default()));
conformance!(on_a_bad_link, pair_with(1472, BAD));
conformance!(on_the_worst_link, pair_with(300, WORST));

/// `SEED` in the environment repeats one script, `COUNT` sets how many are run.
#[test]
fn scripts_on_bad_links_from_many_seeds_do_what_plain_memory_does() {
    let count = test_count!(10);
    let first = test_seed!(1);
    for seed in first..first + count {
        println!("SEED={seed} COUNT=1");
        let faults = [BAD, WORST][(seed % 2) as usize];
        let frame_bytes = [256, 300, 1472, 8972][(seed / 2 % 4) as usize];
        random_scripts(seed, || pair_from(seed, frame_bytes, faults));
    }
}
