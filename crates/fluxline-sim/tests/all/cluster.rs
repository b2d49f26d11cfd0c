//! A simulated SCI cluster obeys every law of the programming model.

use fluxline_conformance::Pair;
use fluxline_conformance::conformance;
use fluxline_core::random::test_seed;
use fluxline_core::{Moment, Span};
use fluxline_sim::world::Cluster;

/// Two nodes of the cluster that a URL describes, and a clock of 20 us a look.
fn pair(url: &str) -> Pair {
    let cluster = Cluster::open(url).expect("a right URL");
    let mut now = Moment::default();
    Pair {
        left: Box::new(cluster.node(0)),
        right: Box::new(cluster.node(1)),
        right_name: "1".into(),
        right_again: None, // a dead machine stays dead
        now: Box::new(move || {
            now = now + Span::from_ns(20_000);
            now
        }),
    }
}

fn lossy() -> Pair {
    pair(&format!("sim:sci?nodes=2&model=plain&fault=loss:0.1&seed={}", test_seed!(1)))
}

/// A ring of four with as many wrong bits.
fn noisy(rate: &str) -> Pair {
    pair(&format!("sim:sci?nodes=4&model=lc2&fault=bits:{rate}&seed={}", test_seed!(1)))
}

conformance!(on_a_plain_link, pair("sim:sci?nodes=2&model=plain"));
conformance!(on_a_lossy_link, lossy());
conformance!(on_two_nodes, pair("sim:sci?nodes=2&model=lc2"));
conformance!(on_a_ring, pair("sim:sci?nodes=8&model=lc3"));
conformance!(on_a_torus, pair("sim:sci?model=lc3&topology=torus:3x2"));
conformance!(on_a_switch, pair("sim:sci?model=lc2&topology=switch:4x1"));
conformance!(by_stores_alone, pair("sim:sci?nodes=2&model=standard&crossover=16777216"));
conformance!(by_engine_alone, pair("sim:sci?nodes=2&model=standard&crossover=0&host=stand-b"));
conformance!(on_a_noisy_ring, noisy("1e-5"));
conformance!(on_a_very_noisy_ring, noisy("2e-4"));
conformance!(on_the_noisiest_ring, noisy("1e-3"));
