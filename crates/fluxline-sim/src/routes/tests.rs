//! Routes on random graphs, compared with brute force.

use fluxline_core::random::{Draw, test_count, test_seed};

use super::{Dependencies, End, Graph, NONE, Root, Routes, Shape, UpDown};

/// Returns a graph of up to 10 nodes, often in several parts, with links side by side.
fn random(draw: &mut Draw) -> Graph {
    let (nodes, ports) = (2 + draw.below(9) as u32, 1 + draw.below(5) as u32);
    let mut graph = Graph::new(nodes, ports).expect("a small graph");
    for _ in 0..draw.below(u64::from(nodes * ports) + 1) {
        let mut end = || End {
            node: draw.below(u64::from(nodes)) as u32,
            port: draw.below(u64::from(ports)) as u32,
        };
        let (one, other) = (end(), end());
        // Ports that are in use keep their links.
        let _ = graph.join(one, other);
    }
    graph
}

/// Returns the length of the shortest path, over all paths that meet no node twice.
fn shortest_of_all(graph: &Graph, path: &mut Vec<u32>, ends: [u32; 2], legal: &Legal) -> u32 {
    let [node, target] = ends;
    if node == target {
        return 0;
    }
    let mut best = NONE;
    for channel in graph.leaving(node) {
        let next = graph.to(channel);
        let is_new = path.iter().all(|&of| graph.from(of) != next);
        if is_new && legal(path.last().copied(), channel) {
            path.push(channel);
            let rest = shortest_of_all(graph, path, [next, target], legal);
            best = best.min(rest.saturating_add(1));
            path.pop();
        }
    }
    best
}

/// Decides whether a channel may follow another one, if there is one.
type Legal<'a> = dyn Fn(Option<u32>, u32) -> bool + 'a;

/// Checks that each pair has the path that it should have, by its length.
fn check_lengths(graph: &Graph, routes: &Routes, right: impl Fn(u32, [u32; 2]) -> bool) {
    for source in 0..graph.nodes() {
        for target in 0..graph.nodes() {
            let route = routes.route(graph, source, target);
            let links = route.as_ref().map_or(NONE, |route| route.ports.len() as u32);
            assert!(right(links, [source, target]), "{source} to {target}: {route:?} on {graph:?}");
            let mut node = source;
            let mut nodes = vec![node];
            for &port in route.iter().flat_map(|route| &route.ports) {
                let channel = graph.channel(End { node, port: port.into() }).expect("a port");
                node = graph.end(channel).expect("a link").node;
                assert!(!nodes.contains(&node), "{source} to {target} meets {node} twice");
                nodes.push(node);
            }
        }
    }
}

fn has_cycle(graph: &Graph, routes: &Routes) -> bool {
    let dependencies = Dependencies::of(graph, routes).expect("paths that arrive");
    let cycle = dependencies.cycle();
    let expected = depends_on_itself(graph, &[routes]);
    assert_eq!(cycle.is_some(), expected, "{cycle:?} of {routes:?} on {graph:?}");
    cycle.is_some()
}

/// Follows all dependencies to the end: does a channel depend on itself?
fn depends_on_itself(graph: &Graph, sets: &[&Routes]) -> bool {
    let all = graph.channels() as usize;
    let mut reaches = vec![vec![false; all * 4]; all * 4];
    for routes in sets {
        for [from, to] in turns(graph, routes) {
            reaches[from][to] = true;
        }
    }
    for middle in 0..all * 4 {
        for from in 0..all * 4 {
            if reaches[from][middle] {
                let beyond = reaches[middle].clone();
                reaches[from].iter_mut().zip(beyond).for_each(|(of, more)| *of |= more);
            }
        }
    }
    (0..all * 4).any(|channel| reaches[channel][channel])
}

/// Returns the pairs of channels that follow each other on a path, by layer.
fn turns(graph: &Graph, routes: &Routes) -> Vec<[usize; 2]> {
    let pairs = (0..graph.nodes()).flat_map(|from| (0..graph.nodes()).map(move |to| [from, to]));
    let mut turns = Vec::new();
    for [source, target] in pairs {
        let Some(route) = routes.route(graph, source, target) else { continue };
        let mut node = source;
        let mut channels = Vec::new();
        for port in route.ports {
            let channel = graph.channel(End { node, port: port.into() }).expect("a port");
            channels.push((channel + u32::from(route.layer) * graph.channels()) as usize);
            node = graph.end(channel).expect("a link").node;
        }
        turns.extend(channels.windows(2).map(|pair| [pair[0], pair[1]]));
    }
    turns
}

#[test]
fn all_algorithms_reach_every_node_by_legal_paths_and_none_but_shortest_has_cycles() {
    let mut draw = Draw::new(test_seed!(1));
    let mut cycles = 0;
    for _ in 0..test_count!(150) {
        let graph = random(&mut draw);
        let far: Vec<Vec<u32>> = (0..graph.nodes()).map(|node| graph.distances(node)).collect();
        let links = |[source, target]: [u32; 2]| far[target as usize][source as usize];
        let free = |_: Option<u32>, _: u32| true;
        let shortest = super::shortest(&graph);
        check_lengths(&graph, &shortest, |length, ends| {
            length == shortest_of_all(&graph, &mut Vec::new(), ends, &free) && length == links(ends)
        });
        cycles += u32::from(has_cycle(&graph, &shortest));
        let root = draw.below(graph.nodes().into()) as u32;
        let order = UpDown::new(&graph, root);
        let legal = |before: Option<u32>, next| {
            before.is_none_or(|before| order.goes_up(before) || !order.goes_up(next))
        };
        let updown = super::updown(&graph, Root::Node(root));
        check_lengths(&graph, &updown, |length, ends| {
            length == shortest_of_all(&graph, &mut Vec::new(), ends, &legal)
        });
        assert!(!has_cycle(&graph, &updown));
        let tables: Vec<Vec<u8>> = (0..graph.nodes()).map(|of| order.table_to(of)).collect();
        let table = Routes::from_tables(&graph, |node, target| {
            Some(tables[target as usize][node as usize]).filter(|&port| port != u8::MAX)
        });
        let others = [table, super::updown(&graph, Root::Central)];
        let nue = (1..4).map(|count| super::nue(&graph, count));
        for routes in others.into_iter().chain(nue) {
            check_lengths(&graph, &routes, |length, ends| {
                length >= links(ends) && (length == NONE) == (links(ends) == NONE)
            });
            assert!(!has_cycle(&graph, &routes), "{graph:?}");
        }
    }
    assert!(cycles > 0, "some shortest paths have cycles");
}

#[test]
fn a_cycle_is_found_where_a_channel_depends_on_itself_and_only_there() {
    let mut draw = Draw::new(test_seed!(2));
    let mut found = 0;
    for _ in 0..test_count!(300) {
        let graph = random(&mut draw);
        let lists = random_lists(&graph, &mut draw);
        let of = |source: u32, target: u32| (target * graph.nodes() + source) as usize;
        let routes = Routes::from_lists(&graph, |source, target| lists[of(source, target)].clone());
        let routes = routes.in_layers(|source, target| ((source + target) % 3) as u8);
        let dependencies = Dependencies::of(&graph, &routes).expect("paths that arrive");
        let turns = turns(&graph, &routes);
        let cycle = dependencies.cycle();
        assert_eq!(cycle.is_some(), depends_on_itself(&graph, &[&routes]));
        let Some(cycle) = cycle else { continue };
        found += 1;
        let index = |at: usize| {
            let channel = cycle.channels[at % cycle.channels.len()];
            assert_eq!(graph.end(graph.channel(channel.from).expect("a port")), Some(channel.to));
            let layer = u32::from(channel.layer) * graph.channels();
            (graph.channel(channel.from).expect("a port") + layer) as usize
        };
        let pairs = (0..cycle.channels.len()).map(|at| [index(at), index(at + 1)]);
        assert!(pairs.into_iter().all(|pair| turns.contains(&pair)), "{cycle}");
    }
    assert!(found > 10, "{found} cycles");
}

/// Returns a random path for each pair that the random steps join.
fn random_lists(graph: &Graph, draw: &mut Draw) -> Vec<Option<Vec<u8>>> {
    let mut lists = Vec::new();
    for target in 0..graph.nodes() {
        for source in 0..graph.nodes() {
            let (mut node, mut ports, mut seen) = (source, Vec::new(), vec![source]);
            while node != target {
                let open: Vec<u32> =
                    graph.leaving(node).filter(|&of| !seen.contains(&graph.to(of))).collect();
                let Some(&channel) = open.get(draw.below(open.len() as u64) as usize) else {
                    break;
                };
                node = graph.to(channel);
                seen.push(node);
                ports.push(graph.start(channel).port as u8);
            }
            lists.push((node == target && source != target).then_some(ports));
        }
    }
    lists
}

/// Returns a grid or torus. Port 2d leads up in dimension d, and port 2d + 1 down.
fn graph_of(shape: &Shape) -> Graph {
    let nodes = shape.sides.iter().product();
    let mut graph = Graph::new(nodes, 2 * shape.sides.len() as u32).expect("a small graph");
    for node in 0..nodes {
        let mut stride = 1;
        for (port, &side) in (0..).step_by(2).zip(&shape.sides) {
            let at = node / stride % side;
            if at + 1 < side || shape.is_torus {
                let next = node - at * stride + (at + 1) % side * stride;
                let end = End { node: next, port: port + 1 };
                graph.join(End { node, port }, end).expect("a free port");
            }
            stride *= side;
        }
    }
    graph
}

#[test]
fn routes_of_two_times_can_have_a_cycle_together_that_neither_has() {
    let graph = graph_of(&Shape { sides: vec![6], is_torus: true });
    let by_root = |node| super::updown(&graph, Root::Node(node));
    let (old, new) = (by_root(0), by_root(3));
    let mut both = Dependencies::of(&graph, &old).expect("paths");
    assert!(both.cycle().is_none());
    both.add(&new).expect("paths");
    assert!(both.cycle().is_some() && depends_on_itself(&graph, &[&old, &new]));
}

#[test]
fn a_cycle_is_named_by_its_ports() {
    let graph = graph_of(&Shape { sides: vec![4], is_torus: true });
    let right = Routes::from_tables(&graph, |node, target| (node != target).then_some(0));
    let cycle = Dependencies::of(&graph, &right).expect("paths").cycle().expect("a cycle");
    let text = "a cycle of 4 channels in layer 0: node 0 port 0 to node 1, node 1 port 0 to node \
                2, node 2 port 0 to node 3, node 3 port 0 to node 0, and again";
    assert_eq!(cycle.to_string(), text);
}

#[test]
fn dimension_order_is_free_of_cycles_on_grids_alone() {
    for sides in [vec![4, 3], vec![2, 2, 2], vec![5], vec![4, 4], vec![3, 6]] {
        for is_torus in [false, true] {
            let shape = Shape { sides: sides.clone(), is_torus };
            let graph = graph_of(&shape);
            let next = |node, target| shape.port(node, target).map(|port| port as u8);
            let routes = Routes::from_tables(&graph, next);
            let far = |[source, target]: [u32; 2]| graph.distances(target)[source as usize];
            check_lengths(&graph, &routes, |length, ends| length == far(ends));
            // A ring of four has none: even nodes go half way round upwards, odd ones downwards.
            let has_ring = is_torus && sides.iter().any(|&side| side > 4);
            assert_eq!(has_cycle(&graph, &routes), has_ring, "{shape:?}");
        }
    }
}

#[test]
fn a_removed_node_is_without_paths_and_all_others_keep_theirs() {
    let mut graph = graph_of(&Shape { sides: vec![4, 4], is_torus: true });
    for port in 0..4 {
        assert!(graph.remove_link(End { node: 5, port }));
        assert!(!graph.remove_link(End { node: 5, port }));
    }
    for routes in [super::updown(&graph, Root::Node(5)), super::nue(&graph, 1)] {
        let pairs = (0..16).flat_map(|from| (0..16).map(move |to| [from, to]));
        let joined = pairs.filter(|&[from, to]| routes.has(from, to));
        assert_eq!(joined.count(), 15 * 14);
        assert!(!has_cycle(&graph, &routes));
    }
}

#[test]
fn wrong_graphs_and_routes_are_rejected_with_the_reason() {
    let end = |node, port| End { node, port };
    assert!(Graph::new(0, 4).expect_err("no node").contains("give at least a node"));
    assert!(Graph::new(2, 65).expect_err("65 ports").contains("1 to 64 ports"));
    assert!(Graph::new(u32::MAX, 64).is_err());
    let mut graph = Graph::new(3, 2).expect("a small graph");
    graph.join(end(0, 0), end(1, 1)).expect("free ports");
    for (one, other, part) in [
        (end(0, 0), end(2, 0), "already has a link"),
        (end(2, 0), end(2, 1), "two different nodes"),
        (end(0, 2), end(2, 0), "3 nodes of 2 ports"),
        (end(3, 0), end(2, 0), "3 nodes of 2 ports"),
    ] {
        let error = graph.join(one, other).expect_err("wrong");
        assert!(error.contains(part), "{error}");
    }
    // Paths that end early, that go on behind their target, and that go round.
    let early = Routes::from_lists(&graph, |source, _| (source == 0).then(|| vec![0]));
    assert!(Dependencies::of(&graph, &early).expect_err("wrong").contains("ends at node 1"));
    let far = Routes::from_lists(&graph, |from, to| (from == 0 && to == 1).then(|| vec![0, 0]));
    assert!(Dependencies::of(&graph, &far).expect_err("wrong").contains("from node 0 to node 1"));
    let round =
        Routes::from_tables(&graph, |node, target| (target == 2 && node < 2).then_some(node as u8));
    assert!(Dependencies::of(&graph, &round).expect_err("wrong").contains("to node 2"));
    assert!(round.route(&graph, 0, 2).is_none());
    let other = super::shortest(&Graph::new(4, 2).expect("a small graph"));
    assert!(Dependencies::of(&graph, &other).expect_err("wrong").contains("of 4 nodes"));
}
