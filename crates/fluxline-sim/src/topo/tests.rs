//! Maps of all kinds of networks: routes compared with the links that a message uses, proofs,
//! deadlocks, faults and layouts.

use super::*;
use crate::load::traffic::Replay;
use crate::scenario::PatternName;

const URLS: [&str; 11] = [
    "sim:atoll?grid=3x2",
    "sim:atoll?torus=4x2",
    "sim:atoll?ring=5",
    "sim:atoll?full=5",
    "sim:atoll?torus=3x3&routing=shortest",
    "sim:atoll?torus=3x3&routing=updown",
    "sim:sci?nodes=5",
    "sim:sci?topology=torus:3x4",
    "sim:sci?topology=switch:3x2",
    "sim:sci?topology=switch:4x3",
    "sim:ethernet?nodes=4",
];

const FILES: [&str; 5] = [
    "kind = \"ring\"\nnodes = 6",
    "kind = \"mesh\"\nsides = [3, 4]",
    "kind = \"torus\"\nsides = [4, 2]",
    "kind = \"torus\"\nsides = [3, 3, 3]",
    "kind = \"sci-switch\"\nringlets = [3, 1, 2]",
];

/// Returns scenarios of all kinds.
fn all() -> Vec<Scenario> {
    let urls = URLS.iter().map(|url| Scenario::of_url(url).expect(url));
    let files = FILES.iter().map(|text| of_file(text));
    urls.chain(files).chain([graph()]).collect()
}

fn of_file(text: &str) -> Scenario {
    Scenario::parse("x.toml", &format!("[network]\n{text}")).expect(text)
}

/// Returns routers on a graph with a loop and a tail.
fn graph() -> Scenario {
    let mut scenario = Scenario::default();
    scenario.network.kind = crate::scenario::Kind::Graph;
    let text = "0 1\n1 2\n2 3\n3 0\n3 4\n4 5";
    scenario.network.graph = Some(crate::net::router::Graph::parse(text).expect("a graph"));
    scenario
}

fn options(scenario: &Scenario) -> Options {
    Options { us: 40.0, steps: 4, load: 0.05, ..Options::of(scenario) }
}

/// Returns pairs of nodes: all of them in small networks, and some in large ones.
fn pairs(nodes: u32) -> impl Iterator<Item = Pair> {
    let all = (0..nodes).flat_map(move |from| (0..nodes).map(move |to| Pair { from, to }));
    let step = if nodes > 8 { 7 } else { 1 };
    all.filter(|pair| pair.from != pair.to).step_by(step)
}

#[test]
fn a_message_uses_the_links_of_its_route() {
    for mut scenario in all() {
        let nodes = scenario.network.node_count() as u32;
        let kind = scenario.network.kind;
        for pair in pairs(nodes) {
            let text = format!("0 {} {} 64\n", pair.from, pair.to);
            scenario.traffic.pattern = PatternName::Trace;
            scenario.traffic.replay = Some(Replay::parse(nodes, &text).expect("a trace"));
            let options = Options { route: Some(pair), steps: 1, ..options(&scenario) };
            let survey = survey(&scenario, &options).expect("it runs");
            let route = survey.route.as_ref().expect("a route");
            let ends: Vec<[u32; 2]> = route
                .links
                .iter()
                .map(|&at| [survey.links[at].from, survey.links[at].to])
                .collect();
            let text = format!("{kind:?} {pair:?}: {ends:?}");
            assert_eq!(ends.first().map(|of| of[0]), Some(pair.from), "{text}");
            assert_eq!(ends.last().map(|of| of[1]), Some(pair.to), "{text}");
            assert!(ends.windows(2).all(|two| two[0][1] == two[1][0]), "{text}");
            let mut route = route.links.clone();
            route.sort_unstable();
            let used: Vec<usize> =
                (0..survey.links.len()).filter(|&at| survey.links[at].busy > 0.0).collect();
            if kind.is_sci() {
                // The echo goes on around each ringlet.
                assert!(route.iter().all(|at| used.contains(at)), "{text} {used:?}");
            } else {
                assert_eq!(route, used, "{text}");
            }
            assert_eq!(survey.intervals[0].messages, 1, "{text}");
        }
    }
}

#[test]
fn the_proof_says_which_routes_can_deadlock_and_names_a_real_circle() {
    for (scenario, is_free) in [
        (Scenario::of_url("sim:atoll?grid=4x4").expect("right"), true),
        (Scenario::of_url("sim:atoll?torus=5x5").expect("right"), false),
        (Scenario::of_url("sim:atoll?torus=5x5&routing=updown").expect("right"), true),
        (Scenario::of_url("sim:atoll?torus=5x5&routing=nue").expect("right"), true),
        (Scenario::of_url("sim:atoll?torus=2x2").expect("right"), true),
        (Scenario::of_url("sim:atoll?ring=5").expect("right"), false),
        (Scenario::of_url("sim:atoll?full=5").expect("right"), true),
        // Virtual channels change at the end of a ring.
        (of_file("kind = \"torus\"\nsides = [4, 5]"), true),
        (of_file("kind = \"mesh\"\nsides = [4, 5]"), true),
        (graph(), true),
        (of_file("kind = \"sci-torus\"\nside = 3"), true),
    ] {
        let survey = survey(&scenario, &options(&scenario)).expect("it runs");
        let proof = &survey.proof;
        assert_eq!(proof.is_free, Some(is_free), "{:?}: {}", scenario.network.kind, proof.text);
        assert_eq!(proof.cycle.is_empty(), is_free);
        let ends = |at: &usize| [survey.links[*at].from, survey.links[*at].to];
        let ends: Vec<[u32; 2]> = proof.cycle.iter().map(ends).collect();
        for (at, link) in ends.iter().enumerate() {
            assert_eq!(link[1], ends[(at + 1) % ends.len()][0], "{ends:?}");
        }
    }
}

#[test]
fn a_large_network_is_drawn_but_not_checked() {
    let scenario = Scenario::of_url("sim:atoll?grid=40x40").expect("right");
    let survey = survey(&scenario, &Options { us: 2.0, ..options(&scenario) }).expect("it runs");
    assert_eq!(survey.proof.is_free, None);
    assert_eq!(survey.nodes.len(), 1600);
}

#[test]
fn a_deadlock_is_shown_as_a_circle_and_not_as_an_error() {
    let mut scenario = Scenario::of_url("sim:atoll?ring=8").expect("right");
    scenario.traffic.bytes = 2000;
    let options = Options { load: 1.0, us: 2000.0, steps: 10, route: None };
    let survey = survey(&scenario, &options).expect("a deadlock is a result");
    let last = survey.intervals.last().expect("intervals");
    assert!(last.deadlock.starts_with("deadlock: "), "{:?}", last.deadlock);
    let ends = |at: &usize| [survey.links[*at].from, survey.links[*at].to];
    let ends: Vec<[u32; 2]> = last.circle.iter().map(ends).collect();
    assert!(ends.len() >= 3, "{ends:?}");
    for (at, link) in ends.iter().enumerate() {
        let next = ends[(at + 1) % ends.len()];
        assert!(link[1] == next[0] || link[0] == next[1], "{ends:?}");
    }
    let page = page("ring", &survey);
    assert!(page.warnings[0].contains("wait for ever"), "{:?}", page.warnings);
    assert!(drawing(&survey).svg(None).contains("a deadlock"));
}

#[test]
fn links_are_dead_from_their_fault_to_their_repair() {
    for (url, from, to) in [
        ("sim:atoll?grid=3x3&fault=cut:1-4@10us,mend:4-1@30us", 1, 4),
        ("sim:atoll?torus=2x2&fault=cable:0@10us,repair:0@30us", 0, 1),
        ("sim:sci?nodes=4&fault=cable:2@10us,repair:2@30us", 2, 3),
        ("sim:ethernet?nodes=3&fault=cable:1@10us,repair:1@30us", 1, 3),
    ] {
        let scenario = Scenario::of_url(url).expect(url);
        let options = Options { us: 40.0, steps: 4, ..options(&scenario) };
        let survey = survey(&scenario, &options).expect(url);
        let dead: Vec<bool> = survey.intervals.iter().map(|of| !of.dead_links.is_empty()).collect();
        assert_eq!(dead, [true, true, false, false], "{url}");
        let links = &survey.intervals[1].dead_links;
        assert!(links.iter().any(|&at| [survey.links[at].from, survey.links[at].to] == [from, to]));
        let others = links.iter().filter(|&&at| {
            let ends = [survey.links[at].from, survey.links[at].to];
            ends != [from, to] && ends != [to, from]
        });
        assert_eq!(others.count(), 0, "{url}");
        assert_eq!(links.len(), if url.contains("sci") { 1 } else { 2 }, "{url}");
        assert_eq!(survey.intervals[0].faults.len(), 1);
    }
    let scenario = Scenario::of_url("sim:atoll?grid=3x3&fault=power:4@1us").expect("right");
    let survey = survey(&scenario, &options(&scenario)).expect("it runs");
    assert_eq!(survey.intervals[0].dead_nodes, [4]);
    assert_eq!(survey.intervals[0].dead_links.len(), 8);
    assert!(survey.intervals.iter().any(|of| of.lost > 0));
}

#[test]
fn nodes_are_apart_and_neighbours_are_near() {
    for scenario in all() {
        let survey = survey(&scenario, &options(&scenario)).expect("it runs");
        let place = |at: usize| [survey.nodes[at].x, survey.nodes[at].y];
        for one in 0..survey.nodes.len() {
            for other in 0..one {
                let ([x, y], [a, b]) = (place(one), place(other));
                let far = (x - a).hypot(y - b);
                assert!(far > 0.5, "{:?}: {one} and {other}: {far}", scenario.network.kind);
            }
        }
        for link in survey.links.iter().filter(|link| link.wraps.is_none()) {
            let ([x, y], [a, b]) = (place(link.from as usize), place(link.to as usize));
            assert!((x - a).hypot(y - b) < 4.0, "{:?}: {link:?}", scenario.network.kind);
        }
    }
}

#[test]
fn equal_surveys_have_equal_pages_and_every_link_is_drawn() {
    let scenario = Scenario::of_url("sim:atoll?torus=4x3&seed=3").expect("right");
    let options = Options { route: Some(Pair { from: 0, to: 6 }), ..options(&scenario) };
    let survey = || super::survey(&scenario, &options).expect("it runs");
    let (one, two) = (survey(), survey());
    assert_eq!(page("a", &one).html(), page("a", &two).html());
    let svg = drawing(&one).svg(Some(0));
    assert_eq!(svg.matches("<g class=\"link").count(), one.links.len());
    assert_eq!(svg.matches("<g class=\"node").count(), 12);
    assert_eq!(svg.matches("<g class=\"node end").count(), 2);
    assert!(svg.contains("the route") && !svg.contains("NaN"));
    // A torus has two links around the border for each row and column.
    let wraps = one.links.iter().filter(|link| link.wraps.is_some()).count();
    assert_eq!(wraps, 2 * (4 + 3));
}

#[test]
fn options_out_of_range_are_refused_in_one_sentence() {
    let scenario = Scenario::of_url("sim:atoll?grid=2x2").expect("right");
    let usual = Options::of(&scenario);
    let route = |from, to| Options { route: Some(Pair { from, to }), ..usual };
    for (options, says) in [
        (Options { load: 0.0, ..usual }, "the load is 0"),
        (Options { load: f64::NAN, ..usual }, "the load is NaN"),
        (Options { us: 1e9, ..usual }, "at most 1000000"),
        (Options { us: f64::INFINITY, ..usual }, "at most 1000000"),
        (Options { steps: 0, ..usual }, "write 1 to 1000"),
        (route(0, 4), "nodes from 0 to 3"),
        (route(1, 1), "two different nodes"),
    ] {
        let refused = survey(&scenario, &options).expect_err(says).to_string();
        assert!(refused.contains(says) && refused.ends_with('.'), "{refused}");
    }
}
