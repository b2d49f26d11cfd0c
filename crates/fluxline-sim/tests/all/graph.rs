//! Routers on any graph: they never wait for each other in a circle, and a line of routers is the
//! same network as a mesh of one dimension. `SEED=n` replaces the seed.

use fluxline_core::random::{Draw, test_seed};
use fluxline_sim::load::Settings;
use fluxline_sim::load::sweep::{Limits, Outcome, measure};
use fluxline_sim::load::traffic::{Arrivals, Pattern, Plan, Size};
use fluxline_sim::net::router::graph::Edge;
use fluxline_sim::net::router::{Dimension, Graph, Network, NetworkConfig, Ways, Wrap, loaded};
use fluxline_sim::{Agenda, Duration};

fn limits() -> Limits {
    let us = Duration::from_us;
    Limits { warm_up_first: us(1), warm_up_max: us(2), measured: us(10) }
}

fn run(config: &NetworkConfig, arrivals: Arrivals, seed: u64) -> Outcome {
    let nodes = config.check().expect("a network").routers();
    let plan = Plan { nodes, pattern: Pattern::Uniform, arrivals, size: Size::Fixed(64), seed };
    let mut agenda = Agenda::default();
    let model = loaded(config.clone(), plan, &Settings::default(), &mut agenda);
    let mut model = model.expect("a network");
    // Checks conservation and deadlocks.
    measure(&mut model, &mut agenda, &limits()).expect("no deadlock")
}

fn graph(edges: &[Edge], channels: u8) -> NetworkConfig {
    let graph = Graph::new(edges).expect("a connected graph");
    NetworkConfig {
        graph: Some(graph),
        channels,
        dimensions: Vec::new(),
        ..NetworkConfig::torus(&[2])
    }
}

/// Returns a random connected graph, in which no router has more than six links.
fn random(nodes: u32, draw: &mut Draw) -> Vec<Edge> {
    let mut degree = vec![0; nodes as usize];
    let mut edges: Vec<Edge> = Vec::new();
    let mut add = |one: u32, other: u32, most: u32| {
        let is_new = !edges.iter().any(|edge| {
            (edge.one, edge.other) == (one, other) || (edge.one, edge.other) == (other, one)
        });
        if one != other && is_new && degree[one as usize].max(degree[other as usize]) < most {
            degree[one as usize] += 1;
            degree[other as usize] += 1;
            edges.push(Edge { one, other });
        }
    };
    (1..nodes).for_each(|one| add(one, one - 1 - draw.below(u64::from(one).min(3)) as u32, 62));
    for _ in 0..nodes {
        add(draw.below(nodes.into()) as u32, draw.below(nodes.into()) as u32, 6);
    }
    edges
}

#[test]
fn random_graphs_under_full_load_neither_deadlock_nor_starve_a_node() {
    let seed = test_seed!(4);
    println!("seed {seed}");
    let mut draw = Draw::new(seed);
    for round in 0..12 {
        let edges = random(3 + draw.below(20) as u32, &mut draw);
        // One channel, and no more space than a packet: a circle would stop at once.
        let config = NetworkConfig { buffer_bytes: 64, ..graph(&edges, 1) };
        let outcome = run(&config, Arrivals::Window { messages: 16 }, seed);
        let is_served = outcome.targets.iter().all(|target| target.delivered > 0.0);
        assert!(is_served, "round {round}: a node gets nothing; {edges:?}");
    }
}

#[test]
fn a_line_of_routers_is_a_mesh_of_one_dimension() {
    let edges: Vec<Edge> = (1..6).map(|node| Edge { one: node - 1, other: node }).collect();
    let line = graph(&edges, 2);
    let dimension = Dimension { routers: 6, wrap: Wrap::Line, ways: Ways::Both };
    let mesh = NetworkConfig { dimensions: vec![dimension], ..NetworkConfig::torus(&[2]) };
    let of = |config: &NetworkConfig| Network::new(config.clone()).expect("a network");
    for (from, to) in (0..6).flat_map(|from| (0..6).map(move |to| (from, to))) {
        assert_eq!(of(&line).zero_load(from, to, 64), of(&mesh).zero_load(from, to, 64));
    }
    let arrivals = Arrivals::Poisson { bytes_per_s: 0.2 * mesh.link_bytes_per_s() };
    let (line, mesh) = (run(&line, arrivals, 1), run(&mesh, arrivals, 1));
    assert_eq!(line.messages, mesh.messages);
    let ratio = line.latency_ns.mean / mesh.latency_ns.mean;
    assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
}
