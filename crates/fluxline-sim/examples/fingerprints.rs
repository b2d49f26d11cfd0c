//! Prints the fingerprints of small scenarios and clusters of every kind.
//!
//! Two versions of the simulator that print the same lines do the same, entry for entry. Run:
//! `cargo run -p fluxline-sim --example fingerprints`.

use fluxline_conformance::{Joined, Pair};
use fluxline_core::fabric::{Level, Local, Target, Work};
use fluxline_core::{Moment, Span};
use fluxline_sim::reproduce;
use fluxline_sim::scenario::Scenario;
use fluxline_sim::world::Cluster;

const NETWORKS: [&str; 6] = [
    "[network]\nkind = \"sci-ring\"\nnodes = 5",
    "[network]\nkind = \"sci-torus\"\nside = 3",
    "[network]\nkind = \"sci-switch\"\nnodes = 2\nports = 3",
    "[network]\nkind = \"ring\"\nnodes = 6",
    "[network]\nkind = \"mesh\"\nside = 4",
    "[network]\nkind = \"torus\"\nside = 4",
];
const TRAFFIC: [&str; 5] = [
    "",
    "pattern = \"hot-receiver\"\nshare = 0.5",
    "window = 4",
    "window = 3\ncommand = \"write\"",
    "arrivals = \"periodic\"\npattern = \"event-building\"\nbuilders = 2",
];
const WRITE: &str = "\ncommand = \"write\"";
const CLUSTERS: [&str; 8] = [
    "nodes=2&model=plain",
    "nodes=2&model=plain&fault=loss:0.1",
    "nodes=4&model=lc2",
    "nodes=4&model=lc2&crossover=0&host=stand-b",
    "nodes=4&model=lc2&fault=bits:1e-4",
    "topology=torus:3x2&model=lc3",
    "topology=switch:2x2&model=lc2&fault=bits:1e-5",
    "nodes=4&model=lc2&fault=host:3@300us,cable:1@900us",
];

fn scenarios() {
    for network in NETWORKS {
        for traffic in TRAFFIC {
            for load in [0.05, 0.4] {
                let is_sci = network.contains("sci");
                // Routers have no commands.
                let traffic = if is_sci { traffic } else { traffic.trim_end_matches(WRITE) };
                let text = format!("{network}\n[traffic]\n{traffic}");
                let mut scenario = Scenario::parse("x.toml", &text).expect("a scenario");
                scenario.run.duration_us = 30.0;
                scenario.confidence.longest = 1.0;
                (scenario.run.warm_up_us, scenario.run.warm_up_max_us) = (5.0, 10.0);
                let found = scenario.measure(load).expect("it runs");
                let (print, messages) = (found.outcome.fingerprint, found.outcome.messages);
                let latency = found.outcome.latency_ns.mean;
                let text = text.replace('\n', " ");
                println!("{print} {messages} {latency:.3} {} {load} {text}", found.outcome.lost);
            }
        }
    }
}

fn clusters() {
    for keys in CLUSTERS {
        let cluster = Cluster::open(&format!("sim:sci?{keys}")).expect("a URL");
        let mut now = Moment::default();
        let clock = Box::new(move || {
            now = now + Span::from_ns(700);
            now
        });
        let (left, right) = (Box::new(cluster.node(0)), Box::new(cluster.node(1)));
        let mut joined = Joined::new(Pair {
            left,
            right,
            right_name: "1".into(),
            right_again: None,
            now: clock,
        });
        let (_, remote) = joined.shared("samples", 1 << 16);
        for tag in 0..30 {
            let to = Target { remote, offset: tag * 1000 };
            let data = vec![tag as u8; 3 + tag as usize * 60];
            let from = Local::Bytes(&data);
            let (notify, complete_at) = (Some(tag as u32), Some(Level::Placed));
            let put = Work::Put { from, to, notify, complete_at };
            // A broken connection takes no more work: the run goes on.
            let _ = joined.pair.left.post(joined.left, tag, put);
            let at = Target { remote, offset: 0 };
            let _ = joined.pair.left.post(joined.left, 100 + tag, Work::FetchAdd { at, add: 1 });
            (0..100).for_each(|_| _ = joined.turn());
        }
        (0..100_000).for_each(|_| _ = joined.turn());
        let (print, at) = (cluster.fingerprint(), cluster.now());
        println!("{print} {at:?} {:?} {keys}", cluster.counts(0).requester);
    }
}

fn main() {
    scenarios();
    clusters();
    for set in reproduce::SETS {
        println!("{:?}", set.compare().expect("the presets"));
    }
}
