//! Routes for a map, and the proof that they cannot deadlock.

use std::collections::{BTreeMap, VecDeque};

use super::super::routes::{HOPS_MAX, Path};
use super::letter::{Row, Table};
use super::map::{Map, MapEnd, NodeState};
use super::settings::Algorithm;
use crate::routes::{self, Dependencies, End, Graph, Root, Routes, Shape};

/// A set of routes between the nodes of a map, by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The name of the algorithm.
    pub algorithm: &'static str,
    /// The cycle of channels in which messages can wait for each other; `None`: there is none.
    pub cycle: Option<String>,
    graph: Graph,
    routes: Routes,
    links: Vec<[MapEnd; 2]>,
}

impl Plan {
    /// Computes routes. `root` is the node at the top of up*/down* routes, if it is still there.
    ///
    /// # Errors
    /// A map that is not a graph: a defect.
    pub fn of(map: &Map, algorithm: Algorithm, root: Option<u32>) -> Result<Plan, String> {
        let links: Vec<[MapEnd; 2]> = map.links().collect();
        let graph = graph_of(map.nodes().len() as u32, &links)?;
        let root = root.filter(|&id| {
            let node = map.nodes().get(id as usize);
            node.is_some_and(|node| node.state == NodeState::Present)
        });
        let updown = || routes::updown(&graph, root.map_or(Root::Central, Root::Node));
        let mesh = if algorithm == Algorithm::Safe { Mesh::of(map) } else { None };
        let (name, found) = match (algorithm, mesh) {
            (_, Some(mesh)) => ("dimension order", mesh.routes(&graph)),
            (Algorithm::Safe | Algorithm::UpDown, None) => ("up*/down*", updown()),
            (Algorithm::Nue, None) => ("Nue", routes::nue(&graph, 1)),
            (Algorithm::Shortest, None) => ("shortest path", routes::shortest(&graph)),
        };
        let cycle = Dependencies::of(&graph, &found)?.cycle();
        let cycle = cycle.map(|cycle| cycle.to_string());
        Ok(Plan { algorithm: name, cycle, graph, routes: found, links })
    }

    /// Returns true if these routes and all others can be in use at the same time without a cycle.
    #[must_use]
    pub fn agrees_with<'a>(&self, others: impl IntoIterator<Item = &'a Plan>) -> bool {
        let others: Vec<&Plan> = others.into_iter().collect();
        if self.cycle.is_some() {
            return false;
        }
        let mut links = self.links.clone();
        links.extend(others.iter().flat_map(|plan| &plan.links));
        links.sort_unstable();
        links.dedup();
        // Two links at one port: a cable was moved.
        let Ok(graph) = graph_of(self.graph.nodes(), &links) else { return false };
        let Ok(mut all) = Dependencies::of(&graph, &self.routes) else { return false };
        others.iter().all(|plan| all.add(&plan.routes).is_ok()) && all.cycle().is_none()
    }

    /// Returns the path from one node to another, by ids.
    #[must_use]
    pub fn path(&self, source: u32, target: u32) -> Option<Path> {
        let ports = self.routes.route(&self.graph, source, target)?.ports;
        if ports.len() > HOPS_MAX as usize {
            return None;
        }
        let mut path = Path::default();
        ports.into_iter().for_each(|port| path.push(port.into()));
        Some(path)
    }

    /// Returns the table of a node.
    #[must_use]
    pub fn table(&self, map: &Map, id: u32, epoch: u32) -> Table {
        let targets = map.present().filter(|&target| target != id);
        let rows = targets.filter_map(|target| {
            let row = Row { id: target, path: self.path(id, target)? };
            Some((map.nodes()[target as usize].serial, row))
        });
        Table { epoch, is_safe: self.cycle.is_none(), id, rows: rows.collect() }
    }
}

fn graph_of(nodes: u32, links: &[[MapEnd; 2]]) -> Result<Graph, String> {
    let mut graph = Graph::new(nodes, 4)?;
    let end = |end: MapEnd| End { node: end.node, port: end.port.into() };
    links.iter().try_for_each(|&[near, far]| graph.join(end(near), end(far)))?;
    Ok(graph)
}

/// The position of a node in a grid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Spot {
    row: i32,
    column: i32,
}

/// A map that is a complete grid: ports 0 to 3 go right, left, up and down.
struct Mesh {
    shape: Shape,
    /// The index in the shape of each node, by id.
    index: BTreeMap<u32, u32>,
    /// The id of each index.
    ids: Vec<u32>,
}

impl Mesh {
    /// Recognises a grid by its ports; `None`: the present nodes are not one.
    fn of(map: &Map) -> Option<Mesh> {
        let spots = spots(map)?;
        let least = |of: fn(&Spot) -> i32| spots.values().map(of).min().unwrap_or(0);
        let (row, column) = (least(|spot| spot.row), least(|spot| spot.column));
        let rows = spots.values().map(|spot| spot.row - row).max()? as u32 + 1;
        let columns = spots.values().map(|spot| spot.column - column).max()? as u32 + 1;
        let nodes = rows * columns;
        let links = (rows - 1) * columns + (columns - 1) * rows;
        // Links between nodes that cannot be reached are on the map, too.
        let found = map.links().filter(|[near, _]| spots.contains_key(&near.node)).count();
        if spots.len() as u32 != nodes || found as u32 != links {
            return None;
        }
        let mut ids = vec![u32::MAX; nodes as usize];
        let place = |spot: &Spot| (spot.row - row) as u32 * columns + (spot.column - column) as u32;
        let index: BTreeMap<u32, u32> = spots.iter().map(|(&id, spot)| (id, place(spot))).collect();
        index.iter().for_each(|(&id, &place)| ids[place as usize] = id);
        if ids.contains(&u32::MAX) {
            return None;
        }
        Some(Mesh { shape: Shape { sides: vec![columns, rows], is_torus: false }, index, ids })
    }

    fn routes(&self, graph: &Graph) -> Routes {
        Routes::from_lists(graph, |source, target| {
            let (mut at, end) = (*self.index.get(&source)?, *self.index.get(&target)?);
            let mut ports = Vec::new();
            while let Some(port) = self.shape.port(at, end) {
                ports.push(port as u8);
                let channel = graph.channel(End { node: self.ids[at as usize], port })?;
                at = *self.index.get(&graph.end(channel)?.node)?;
            }
            Some(ports)
        })
    }
}

/// Gives each present node a position by the ports of its links; `None`: they contradict each
/// other, or the nodes are not joined.
fn spots(map: &Map) -> Option<BTreeMap<u32, Spot>> {
    let first = map.present().next()?;
    let mut spots = BTreeMap::from([(first, Spot { row: 0, column: 0 })]);
    let mut queue = VecDeque::from([first]);
    while let Some(id) = queue.pop_front() {
        let Spot { row, column } = *spots.get(&id)?;
        for (port, end) in (0_u8..).zip(map.nodes()[id as usize].ends) {
            let Some(end) = end else { continue };
            let there = match port {
                0 => Spot { row, column: column + 1 },
                1 => Spot { row, column: column - 1 },
                2 => Spot { row: row + 1, column },
                _ => Spot { row: row - 1, column },
            };
            if end.port != port ^ 1 || *spots.entry(end.node).or_insert(there) != there {
                return None;
            }
            if !queue.contains(&end.node) && !is_done(&spots, map, end.node) {
                queue.push_back(end.node);
            }
        }
    }
    (spots.len() == map.present().count()).then_some(spots)
}

/// Returns true if all neighbours of a node have a position.
fn is_done(spots: &BTreeMap<u32, Spot>, map: &Map, id: u32) -> bool {
    let mut ends = map.nodes()[id as usize].ends.into_iter().flatten();
    ends.all(|end| spots.contains_key(&end.node))
}
