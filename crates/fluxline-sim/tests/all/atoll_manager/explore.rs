//! Maps of managers, compared with the true wiring.

use super::*;

const LINKS: u32 = 4;
const NONE: u32 = u32::MAX;

/// Compares the map of a node's manager with the living part of the wiring.
pub fn compare(trial: &Trial, node: u32) {
    let groups = trial.groups();
    let map = trial.network.manager_of(node).expect("a manager").map();
    let chips = trial.network.network();
    let node_of = |id: u32| {
        let serial = map.nodes()[id as usize].serial;
        trial.network.node_of(serial).expect("a chip of this network")
    };
    let mut found = 0;
    for (id, of) in (0..).zip(map.nodes()) {
        let at = node_of(id);
        let is_near = groups[at as usize] == groups[node as usize];
        assert_eq!(of.state == NodeState::Present, is_near, "node {at}: {:?}", of.state);
        if !is_near {
            continue;
        }
        found += 1;
        for port in 0..LINKS {
            let end = chips.config().wiring.end_of(at, port);
            let is_up = end != NONE
                && chips.is_link_up(at, port)
                && groups[(end / LINKS) as usize] == groups[node as usize];
            let known = of.ends[port as usize];
            let known = known.map(|end| node_of(end.node) * LINKS + u32::from(end.port));
            assert_eq!(known, is_up.then_some(end), "node {at} port {port}");
        }
    }
    let near = groups.iter().filter(|&&group| group == groups[node as usize]).count();
    assert_eq!(found, near, "all nodes that can be reached are on the map");
}

#[test]
fn a_manager_finds_the_true_wiring_by_probes_alone() {
    let mut draw = Draw::new(test_seed!(21));
    for round in 0..test_count!(25) {
        let nodes = 2 + draw.below(63) as u32;
        let wiring = random_wiring(&mut draw, nodes);
        let manager = draw.below(nodes.into()) as u32;
        let mut trial = trial(wiring, Settings { manager, ..Settings::default() });
        // Dead cables and nodes from the start.
        for _ in 0..draw.below(4) {
            let (node, port) = (draw.below(nodes.into()) as u32, draw.below(4) as u32);
            trial.strike(Blow::Cut { node, port });
        }
        for _ in 0..draw.below(3) {
            let node = draw.below(nodes.into()) as u32;
            if node != manager {
                trial.strike(if draw.chance(0.5) { Blow::Power(node) } else { Blow::Host(node) });
            }
        }
        println!("round {round}: {nodes} nodes, manager at {manager}");
        trial.run_for(us(60_000));
        assert!(trial.network.is_settled(), "{:?}", trial.network.log().last());
        compare(&trial, manager);
        trial.network.conserve().expect("laws hold");
    }
}

#[test]
fn each_link_costs_about_a_probe_and_a_map_takes_microseconds() {
    for (wiring, nodes, links) in [(torus(4, 4), 16, 32), (grid(8, 8), 64, 112)] {
        let mut trial = trial(wiring, Settings::default());
        assert!(trial.settle(us(20_000)));
        compare(&trial, 0);
        let explored = trial.network.log().find_map(|record| match record.event {
            Event::Explored { nodes, links, probes } => Some(([nodes, links, probes], record.at)),
            _ => None,
        });
        let (found, at) = explored.expect("explored");
        println!("{found:?}, explored at {at}, routes at {}", trial.now());
        assert_eq!(found[..2], [nodes, links]);
        // Two ends of a link may be probed at the same time.
        assert!(found[2] >= links && found[2] <= 2 * links, "{found:?}");
        assert!(at < Instant::START + us(20 * u64::from(links)), "{at}");
        let counts = trial.network.management();
        assert_eq!(counts.probes, u64::from(found[2]), "none was lost");
        // An answer for each, questions and replies, each over several links.
        assert!(counts.letters > 4 * counts.probes && counts.letter_bytes > 10 * counts.letters);
    }
}

#[test]
fn a_grid_has_dimension_order_and_other_wirings_up_and_down() {
    let algorithm = |wiring, settings| {
        let mut trial = trial(wiring, settings);
        assert!(trial.settle(us(60_000)));
        let plan = trial.network.manager_of(0).and_then(|of| of.plan()).expect("routes").clone();
        (plan.algorithm, plan.cycle)
    };
    let of = |algorithm| Settings { algorithm, ..Settings::default() };
    assert_eq!(algorithm(grid(5, 3), of(Algorithm::Safe)), ("dimension order", None));
    assert_eq!(algorithm(grid(5, 3), of(Algorithm::UpDown)), ("up*/down*", None));
    assert_eq!(algorithm(torus(4, 4), of(Algorithm::Safe)), ("up*/down*", None));
    assert_eq!(algorithm(torus(4, 4), of(Algorithm::Nue)), ("Nue", None));
    let (name, cycle) = algorithm(torus(5, 1), of(Algorithm::Shortest));
    assert_eq!(name, "shortest path");
    let cycle = cycle.expect("a ring has a cycle");
    assert!(cycle.contains("a cycle of 5 channels"), "{cycle}");
}

#[test]
fn wrong_settings_are_refused_with_their_limits() {
    let usual = Settings::default();
    let zero = Duration::ZERO;
    for (settings, says) in [
        (Settings { manager: 4, ..usual }, "give 0 to 3"),
        (Settings { hello_every: zero, ..usual }, "at least 1 ns"),
        (Settings { misses: 99, ..usual }, "manager_misses must be above misses"),
        (Settings { tries: 0, ..usual }, "above 0"),
    ] {
        let traffic = Traffic { bytes: 1, every: us(1), seed: 1 };
        let error = Trial::new(Config::new(grid(2, 2)), settings, traffic).err();
        let error = error.expect("wrong").to_string();
        assert!(error.contains(says), "{error}");
    }
}
