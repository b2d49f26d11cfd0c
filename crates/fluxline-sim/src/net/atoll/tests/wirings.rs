//! Topologies and paths, compared with what is published and with brute force.

use super::*;
use crate::net::atoll::wiring::LINKS;
use crate::routes::Dependencies;

/// Returns the least number of cables between two halves, over all halves of 16 nodes.
fn bisection(wiring: &Wiring) -> u32 {
    let halves = (0_u32..1 << 16).filter(|half| half.count_ones() == 8);
    halves.map(|half| wiring.cut(|node| half >> node & 1 == 1)).min().unwrap_or(0)
}

fn longest(wiring: &Wiring, routing: Routing) -> u32 {
    let routes = Routes::of(wiring, routing);
    let nodes = wiring.nodes();
    let all = (0..nodes).flat_map(|from| (0..nodes).map(move |to| [from, to]));
    all.map(|[from, to]| routes.path(from, to).expect("a path").links()).max().unwrap_or(0)
}

#[test]
fn sixteen_nodes_have_eight_links_of_bisection_and_paths_of_four_hops() {
    // Published for 16 nodes; only with joined ends.
    assert_eq!((bisection(&torus(4, 4)), longest(&torus(4, 4), Routing::DimensionOrder)), (8, 4));
    let grid = Wiring::grid(Grid { columns: 4, rows: 4, is_torus: false }).expect("a grid");
    assert_eq!((bisection(&grid), longest(&grid, Routing::DimensionOrder)), (4, 6));
    assert_eq!(longest(&Wiring::ring(9).expect("a ring"), Routing::Shortest), 4);
    assert_eq!(longest(&Wiring::full(5).expect("five nodes"), Routing::Shortest), 1);
}

/// Returns the number of links between all nodes, by relaxing until nothing changes.
fn distances(wiring: &Wiring) -> Vec<Vec<u32>> {
    let nodes = wiring.nodes();
    let alone = |node| (0..nodes).map(move |other| if other == node { 0 } else { 1000 }).collect();
    let mut far: Vec<Vec<u32>> = (0..nodes).map(alone).collect();
    loop {
        let before = far.clone();
        for node in 0..nodes {
            let ends = (0..LINKS).map(|port| wiring.end_of(node, port)).filter(|&end| end != NONE);
            for next in ends.map(|end| (end / LINKS) as usize) {
                let beyond = before[next].iter();
                let row = far[node as usize].iter_mut();
                row.zip(beyond).for_each(|(links, &more)| *links = (*links).min(more + 1));
            }
        }
        if far == before {
            return far;
        }
    }
}

#[test]
fn every_path_follows_cables_to_its_target_and_is_a_shortest_one() {
    let mut draw = Draw::new(test_seed!(2));
    for _ in 0..60 {
        let wiring = random_wiring(&mut draw);
        let far = distances(&wiring);
        for routing in [Routing::DimensionOrder, Routing::Shortest] {
            let routes = Routes::of(&wiring, routing);
            for (from, row) in far.iter().enumerate() {
                for (to, &links) in row.iter().enumerate() {
                    let path = routes.path(from as u32, to as u32).expect("a path");
                    assert_eq!(path.links(), links, "{from} to {to} on {wiring:?}");
                    let walk = |node: u32, hop| wiring.end_of(node, path.port(hop)) / LINKS;
                    assert_eq!((0..path.links()).fold(from as u32, walk), to as u32);
                }
            }
        }
    }
}

#[test]
fn paths_without_circles_join_all_nodes_and_a_small_torus_needs_no_longer_ones() {
    let mut draw = Draw::new(test_seed!(3));
    for _ in 0..60 {
        let wiring = random_wiring(&mut draw);
        for routing in [Routing::UpDown, Routing::Nue] {
            let graph = wiring.graph();
            let routes = Routes::of(&wiring, routing).listed(&graph);
            let joins = |from| (0..wiring.nodes()).all(|to| from == to || routes.has(from, to));
            assert!((0..wiring.nodes()).all(joins), "{routing:?} on {wiring:?}");
            let cycle = Dependencies::of(&graph, &routes).expect("paths that arrive").cycle();
            assert!(cycle.is_none(), "{routing:?} on {wiring:?}: {cycle:?}");
        }
    }
    // Published: 16 nodes, four hops. Of two equal ways round a ring of four, half of the sources
    // take one, so that no ring is closed; a ring of five is.
    for (side, is_free) in [(4, true), (5, false)] {
        let graph = torus(side, side).graph();
        let routes = Routes::of(&torus(side, side), Routing::DimensionOrder).listed(&graph);
        let cycle = Dependencies::of(&graph, &routes).expect("paths that arrive").cycle();
        assert_eq!(cycle.is_none(), is_free, "{cycle:?}");
    }
    assert_eq!(longest(&torus(4, 4), Routing::Nue), 4);
    assert_eq!(longest(&torus(4, 4), Routing::UpDown), 4);
}

#[test]
fn four_thousand_nodes_have_paths_up_to_their_diameter() {
    let far = |wiring: &Wiring, to| {
        let routes = Routes::of(wiring, Routing::DimensionOrder);
        routes.path(0, to).expect("a path").links()
    };
    assert_eq!(far(&torus(64, 64), 32 * 64 + 32), 64);
    let grid = Wiring::grid(Grid { columns: 64, rows: 64, is_torus: false }).expect("a grid");
    let mut bench = Bench::new(Config::new(grid));
    bench.send(0, parcel(4095, 100, 7));
    bench.run(Instant::NEVER);
    assert_eq!(bench.arrived[0].at, Instant::START + bench.network.zero_load(126, 100));
}

#[test]
fn wrong_wirings_and_parameters_are_rejected_with_what_to_write() {
    let wiring =
        |nodes, cables: &[Cable]| Wiring::of(nodes, cables).expect_err("wrong").to_string();
    let cable = |from, to| Cable { from, to };
    assert!(wiring(1, &[]).contains("give 2 to 16384"));
    assert!(wiring(3, &[cable(0, 3)]).contains("join two of 3"));
    assert!(wiring(3, &[cable(1, 1)]).contains("from node 1 to node 1"));
    assert!(wiring(2, &[cable(0, 1); 5]).contains("more than 4 cables"));
    assert!(Wiring::full(6).is_err() && Wiring::ring(1).is_err());
    let huge = Grid { columns: u32::MAX, rows: 2, is_torus: true };
    assert!(Wiring::grid(huge).is_err());
    let good = || Config::new(line(2));
    let wrong = [
        (Config { window: 9, ..good() }, "give 1 to 8"),
        (Config { packet_bytes: 0, ..good() }, "give 1 to 4096"),
        (Config { fifo_bytes: 100, ..good() }, "a buffer of 100 bytes: give "),
        (Config { go_bytes: u32::MAX, ..good() }, "a buffer of 256 bytes: give "),
        (Config { queue_messages: 0, ..good() }, "must hold a message"),
        (Config { wiring: line(1000), ..good() }, "paths of 999 links"),
        (Config { wiring: torus(65, 64), routing: Routing::Shortest, ..good() }, "at most 4096"),
        (Config { go_bytes: 1, ..good() }, "give a packet or more"),
        (Config { bit_error_rate: f64::NAN, ..good() }, "give 0 to 0.01"),
        (Config { cable: Duration::from_us(100), ..good() }, "1 to 4096 clocks"),
        (Config { clock: crate::Clock::from_hertz(1), ..good() }, "give 1 to 10000 MHz"),
    ];
    for (config, says) in wrong {
        let error = config.check().expect_err("wrong").to_string();
        assert!(error.contains(says), "{error}");
    }
    // The smallest buffer that the message names is accepted.
    let error = Config { fifo_bytes: 100, ..good() }.check().expect_err("wrong").to_string();
    let least = error.split("give ").nth(1).and_then(|rest| rest.split(' ').next());
    let fifo_bytes = least.and_then(|text| text.parse().ok()).expect("a number");
    Config { fifo_bytes, ..good() }.check().expect("right");
    assert!(Config { fifo_bytes: fifo_bytes - 1, ..good() }.check().is_err());
}

#[test]
fn nodes_that_no_cable_joins_cannot_send_to_each_other() {
    let apart = [Cable { from: 0, to: 1 }, Cable { from: 2, to: 3 }];
    let mut bench = Bench::new(Config::new(Wiring::of(4, &apart).expect("two pairs")));
    let refused = bench.network.send(0, parcel(3, 1, 1), &mut bench.agenda).expect_err("apart");
    assert_eq!(refused.why, crate::core::interconnect::Refusal::Never);
    bench.send(2, parcel(3, 1, 1));
    bench.send(2, parcel(2, 1, 2));
    bench.run(Instant::NEVER);
    assert_eq!(bench.arrived.len(), 2, "a node also sends to itself, by its crossbar");
}
