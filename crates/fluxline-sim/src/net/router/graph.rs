//! Any connected graph of routers, and routes on it that cannot deadlock.
//!
//! Routes are up*/down*: a packet first takes links towards the root, and then links away from it,
//! so that buffers never wait for each other in a circle, whatever the number of channels. A router
//! sends down as soon as a way down exists. Source: M. Schroeder et al., "Autonet: a high-speed,
//! self-configuring local area network using point-to-point links", IEEE J. Sel. Areas Comm. 9
//! (1991).

use std::sync::Arc;

use crate::routes::{self, UpDown};

/// Most routers of a graph: its table of routes then has 16 MB.
const ROUTERS_MAX: u32 = 4096;
/// Most links of a router: with the port to its node, one channel each still fits into 64 inputs.
const LINKS_MAX: usize = 63;

/// A port at one end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The router at the other end.
    pub router: u32,
    /// The port there.
    pub port: u32,
}

/// A connected graph of routers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    links: Arc<Vec<Vec<End>>>,
    /// The port towards each router: router times routers plus target.
    ports: Arc<Vec<u8>>,
}

/// Two routers with a link between them, both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// One end.
    pub one: u32,
    /// The other end.
    pub other: u32,
}

impl Graph {
    /// Makes a graph; its routers are numbered from 0 without gaps.
    ///
    /// # Errors
    /// The problem, in one sentence: too many routers or links, a link from a router to itself, a
    /// link that is there twice, or a router that cannot be reached.
    pub fn new(edges: &[Edge]) -> Result<Graph, String> {
        let last = edges.iter().map(|edge| edge.one.max(edge.other)).max();
        let Some(last) = last else {
            return Err("the graph has no link; write one a line.".into());
        };
        if last >= ROUTERS_MAX {
            return Err(format!("node {last} is too high; number the nodes from 0 to 4095."));
        }
        let mut links: Vec<Vec<End>> = vec![Vec::new(); last as usize + 1];
        for &edge in edges {
            join(&mut links, edge)?;
        }
        let graph = graph_of(&links);
        let root = root(&links, &graph)?;
        let order = UpDown::new(&graph, root);
        let ports = (0..=last).map(|to| order.table_to(to)).collect::<Vec<_>>();
        let count = links.len();
        let ports = (0..count * count).map(|at| ports[at % count][at / count]).collect();
        Ok(Graph { links: Arc::new(links), ports: Arc::new(ports) })
    }

    /// Reads a graph: a link a line, as two numbers of nodes. Text behind `#` is ignored.
    ///
    /// # Errors
    /// The line and the problem, in one sentence.
    pub fn parse(text: &str) -> Result<Graph, String> {
        let mut edges = Vec::new();
        let mut links: Vec<Vec<End>> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let content = line.split('#').next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            let edge = parse_edge(content).and_then(|edge| {
                let most = edge.one.max(edge.other).min(ROUTERS_MAX - 1) as usize;
                links.resize(links.len().max(most + 1), Vec::new());
                join(&mut links, edge).map(|()| edge)
            });
            edges.push(edge.map_err(|problem| format!("{number}: {problem}"))?);
        }
        Graph::new(&edges).map_err(|problem| format!(" {problem}"))
    }

    /// Returns the number of nodes: each router has one.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.links.len() as u32
    }

    /// Returns the largest number of links at a router.
    #[must_use]
    pub(super) fn degree(&self) -> u32 {
        self.links.iter().map(Vec::len).max().unwrap_or(0) as u32
    }

    /// Returns the other end of a link; `None`: the port has no link.
    pub(super) fn end(&self, router: u32, port: u32) -> Option<End> {
        self.links[router as usize].get(port as usize).copied()
    }

    /// Returns the port towards another router.
    #[inline]
    pub(super) fn port(&self, router: u32, to: u32) -> u8 {
        self.ports[router as usize * self.links.len() + to as usize]
    }
}

fn parse_edge(content: &str) -> Result<Edge, String> {
    let numbers: Option<Vec<u32>> = content
        .split([' ', '\t', ','])
        .filter(|of| !of.is_empty())
        .map(|of| of.parse().ok())
        .collect();
    match numbers.as_deref() {
        Some(&[one, other]) => Ok(Edge { one, other }),
        _ => Err(format!("{content:?} is not a link; write two numbers of nodes, such as `0 1`.")),
    }
}

/// Adds a link in both directions.
fn join(links: &mut [Vec<End>], Edge { one, other }: Edge) -> Result<(), String> {
    if one == other {
        return Err(format!("a link from node {one} to itself; name two nodes."));
    }
    let (Some(from), Some(to)) = (links.get(one as usize), links.get(other as usize)) else {
        return Err(format!(
            "node {} is too high; number the nodes from 0 to 4095.",
            one.max(other)
        ));
    };
    if from.iter().any(|end| end.router == other) {
        return Err(format!("the link between {one} and {other} is there twice; keep one."));
    }
    let (port_one, port_other) = (from.len(), to.len());
    if port_one.max(port_other) >= LINKS_MAX {
        let node = if port_one >= LINKS_MAX { one } else { other };
        return Err(format!("node {node} has more than {LINKS_MAX} links."));
    }
    links[one as usize].push(End { router: other, port: port_other as u32 });
    links[other as usize].push(End { router: one, port: port_one as u32 });
    Ok(())
}

/// Returns the links in the form of the algorithms.
fn graph_of(links: &[Vec<End>]) -> routes::Graph {
    let ports = links.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let opposite = |end: &End| end.router * ports as u32 + end.port;
    let of = |ends: &Vec<End>| {
        let mut row: Vec<u32> = ends.iter().map(opposite).collect();
        row.resize(ports, routes::NONE);
        row
    };
    routes::Graph::of_opposites(ports as u32, links.iter().flat_map(of).collect())
}

/// Returns the first router with the most links.
fn root(links: &[Vec<End>], graph: &routes::Graph) -> Result<u32, String> {
    let most = links.iter().map(Vec::len).max().unwrap_or(0);
    let root = links.iter().position(|of| of.len() == most).unwrap_or(0);
    let far = graph.distances(root as u32);
    match far.iter().position(|&links| links == routes::NONE) {
        None => Ok(root as u32),
        Some(node) if links[node].is_empty() => {
            Err(format!("node {node} has no link; number the nodes from 0 without gaps."))
        }
        Some(node) => Err(format!(
            "node {node} cannot be reached from node {root}; add a link between the parts."
        )),
    }
}

#[cfg(test)]
mod tests {
    use fluxline_core::random::Draw;

    use super::{Edge, Graph, UpDown};

    /// Returns a connected graph: a random tree with further links.
    fn random(nodes: u32, more: u32, draw: &mut Draw) -> Vec<Edge> {
        let mut edges: Vec<Edge> =
            (1..nodes).map(|one| Edge { one, other: draw.below(u64::from(one)) as u32 }).collect();
        for _ in 0..more {
            let (one, other) = (draw.below(nodes.into()) as u32, draw.below(nodes.into()) as u32);
            let has = |edge: &Edge| {
                (edge.one, edge.other) == (one, other) || (edge.one, edge.other) == (other, one)
            };
            if one != other && !edges.iter().any(has) {
                edges.push(Edge { one, other });
            }
        }
        edges
    }

    #[test]
    fn every_pair_is_joined_and_no_route_goes_up_again_after_it_went_down() {
        let seed = std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
        println!("seed {seed}");
        let mut draw = Draw::new(seed);
        for _ in 0..40 {
            let nodes = 2 + draw.below(30) as u32;
            let edges = random(nodes, draw.below(40) as u32, &mut draw);
            let graph = Graph::new(&edges).expect("connected");
            let plain = super::graph_of(&graph.links);
            let order = UpDown::new(&plain, super::root(&graph.links, &plain).expect("connected"));
            for from in 0..nodes {
                for to in (0..nodes).filter(|&to| to != from) {
                    let (mut at, mut steps, mut is_down) = (from, 0, false);
                    while at != to {
                        let port = u32::from(graph.port(at, to));
                        let next = graph.end(at, port).expect("a link");
                        let goes_down = !order.goes_up(at * plain.ports() + port);
                        assert!(goes_down || !is_down, "{from} to {to}: up after down at {at}");
                        (is_down, at, steps) = (goes_down, next.router, steps + 1);
                        assert!(steps < nodes, "{from} to {to} goes round");
                    }
                }
            }
        }
    }

    #[test]
    fn graphs_that_cannot_be_are_refused_with_their_line() {
        let chain: String = (0..70).map(|node| format!("70 {node}\n")).collect();
        for (text, part) in [
            ("", "the graph has no link"),
            ("# nothing\n\n", "the graph has no link"),
            ("0 1\n1 1\n", "2: a link from node 1 to itself"),
            ("0 1\n1 0\n", "2: the link between 1 and 0 is there twice"),
            ("0 1\n2 3\n", "node 2 cannot be reached from node 0"),
            ("0 1\n1 3\n", "node 2 has no link"),
            ("0 1 2\n", "1: \"0 1 2\" is not a link"),
            ("0 x\n", "is not a link"),
            ("0 -1\n", "is not a link"),
            ("0 4096\n", "1: node 4096 is too high"),
            ("0 99999999999\n", "is not a link"),
            (&chain, "node 70 has more than 63 links"),
        ] {
            let problem = Graph::parse(text).expect_err(text);
            assert!(problem.contains(part) && problem.ends_with('.'), "{text:?}: {problem}");
        }
        let graph = Graph::parse("0 1 # a comment\n1,2\n\n2\t0\n").expect("a triangle");
        assert_eq!((graph.nodes(), graph.degree()), (3, 2));
    }
}
