//! Groups of nodes of every simulated network obey the laws of groups.

use fluxline_conformance::group_conformance;
use fluxline_conformance::groups::Nodes;
use fluxline_core::fabric::Fabric;
use fluxline_core::{Moment, Span};
use fluxline_sim::world::Cluster;

/// All nodes of a cluster, and a clock of 20 us a look.
fn nodes(url: &str) -> Nodes {
    let cluster = Cluster::open(url).expect("a right URL");
    let count = cluster.nodes();
    let mut now = Moment::default();
    Nodes {
        fabrics: (0..count).map(|rank| Box::new(cluster.node(rank)) as Box<dyn Fabric>).collect(),
        names: (0..count).map(|rank| rank.to_string()).collect(),
        now: Box::new(move || {
            now = now + Span::from_ns(20_000);
            now
        }),
    }
}

group_conformance!(on_sci, nodes("sim:sci?nodes=3&model=lc2"));
group_conformance!(on_a_noisy_ring, nodes("sim:sci?nodes=4&model=lc2&fault=bits:1e-5&seed=1"));
group_conformance!(on_atoll, nodes("sim:atoll?grid=2x2"));
group_conformance!(on_ethernet, nodes("sim:ethernet?nodes=3"));
group_conformance!(on_lossy_ethernet, nodes("sim:ethernet?nodes=3&fault=loss:0.02&seed=1"));
