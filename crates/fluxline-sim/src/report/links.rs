//! Links in the layout of the network, for heat maps.

use std::collections::BTreeMap;

use super::results::LinkGrid;
use crate::load::sweep::LinkUtilisation;
use crate::scenario::{Kind, Scenario};

/// Returns the links of a network as grids, one per direction. A link is shown at the node that it
/// leaves.
pub fn grids(scenario: &Scenario, links: &[LinkUtilisation]) -> Vec<LinkGrid> {
    let part = &scenario.network;
    let sides = match part.kind {
        kind if kind.is_grid() => part.sides(),
        Kind::SciSwitch | Kind::Graph | Kind::AtollFull | Kind::AtollGraph => {
            return vec![by_node(links)];
        }
        _ => vec![part.nodes],
    };
    let mut directions: BTreeMap<(u32, bool), BTreeMap<u32, f64>> = BTreeMap::new();
    for link in links {
        let Some((dimension, is_up)) = direction(link.from, link.to, &sides) else {
            return vec![by_node(links)];
        };
        // Where two nodes are each other's neighbours on both sides, the second link goes down.
        let taken = directions.get(&(dimension, is_up)).is_some_and(|d| d.contains_key(&link.from));
        let of = directions.entry((dimension, is_up && !taken)).or_default();
        of.insert(link.from, link.utilisation);
    }
    directions
        .into_iter()
        .rev()
        .map(|((dimension, is_up), links)| {
            let way = if is_up { "up" } else { "down" };
            let title = match sides.len() {
                1 => format!("Links {way}"),
                _ => format!("Links {way} dimension {dimension}"),
            };
            LinkGrid { title, rows: rows(&sides, &links) }
        })
        .collect()
}

/// Returns the dimension of a link, and true if it leads up. A ring's end leads up to its start.
fn direction(from: u32, to: u32, sides: &[u32]) -> Option<(u32, bool)> {
    let (mut from, mut to, mut found) = (from, to, None);
    for (dimension, &side) in (0..).zip(sides) {
        let (here, there) = (from % side, to % side);
        if here != there {
            let is_up = (here + 1) % side == there;
            let is_down = (there + 1) % side == here;
            if found.is_some() || !(is_up || is_down) {
                return None;
            }
            found = Some((dimension, is_up));
        }
        (from, to) = (from / side, to / side);
    }
    found
}

/// Returns the nodes in rows of the first dimension; a row's name has the other coordinates.
fn rows(sides: &[u32], links: &BTreeMap<u32, f64>) -> Vec<(String, Vec<f64>)> {
    let Some((&side, others)) = sides.split_first() else { return Vec::new() };
    let count = others.iter().product::<u32>();
    let share = |node: u32| links.get(&node).copied().unwrap_or(f64::NAN);
    (0..count)
        .map(|row| {
            let mut rest = row;
            let coordinates = others.iter().map(|size| {
                let coordinate = rest % size;
                rest /= size;
                coordinate.to_string()
            });
            let name: Vec<String> = coordinates.collect();
            (name.join(","), (0..side).map(|column| share(row * side + column)).collect())
        })
        .collect()
}

/// Returns links that fit no grid, by the node that they leave.
#[must_use]
pub fn by_node(links: &[LinkUtilisation]) -> LinkGrid {
    let mut from: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for link in links {
        from.entry(link.from).or_default().push(link.utilisation);
    }
    let rows = from.into_iter().map(|(node, shares)| (node.to_string(), shares)).collect();
    LinkGrid { title: "Links out of each node".to_string(), rows }
}

#[cfg(test)]
mod tests {
    use super::grids;
    use crate::load::sweep::LinkUtilisation;
    use crate::scenario::{Kind, Scenario};

    fn scenario(kind: Kind, side: u32) -> Scenario {
        let mut scenario = Scenario::default();
        scenario.network.kind = kind;
        (scenario.network.side, scenario.network.nodes) = (side, side);
        scenario
    }

    fn link(from: u32, to: u32) -> LinkUtilisation {
        LinkUtilisation { from, to, utilisation: f64::from(from) }
    }

    #[test]
    fn every_link_is_at_the_node_that_it_leaves() {
        let torus: Vec<_> = (0..9)
            .flat_map(|node| {
                let (x, y) = (node % 3, node / 3);
                let right = link(node, (x + 1) % 3 + 3 * y);
                let left = link(node, (x + 2) % 3 + 3 * y);
                [right, left, link(node, x + 3 * ((y + 1) % 3)), link(node, x + 3 * ((y + 2) % 3))]
            })
            .collect();
        let grids = grids(&scenario(Kind::Torus, 3), &torus);
        assert_eq!(grids.len(), 4);
        for grid in grids {
            let numbers: Vec<f64> = grid.rows.iter().flat_map(|(_, row)| row.clone()).collect();
            let expected: Vec<f64> = (0..9).map(f64::from).collect();
            assert_eq!(numbers, expected, "{}", grid.title);
        }
    }

    #[test]
    fn a_mesh_has_gaps_at_its_edge() {
        let mesh = [link(0, 1), link(1, 0), link(2, 3), link(3, 2), link(0, 2), link(2, 0)];
        let grids = grids(&scenario(Kind::Mesh, 2), &mesh);
        let all = grids.iter().flat_map(|grid| &grid.rows).flat_map(|(_, row)| row);
        assert_eq!(all.filter(|share| share.is_finite()).count(), mesh.len());
    }

    #[test]
    fn two_links_between_two_nodes_do_not_hide_each_other() {
        let ring = [link(0, 1), link(0, 1), link(1, 0), link(1, 0)];
        let grids = grids(&scenario(Kind::Ring, 2), &ring);
        let all = grids.iter().flat_map(|grid| &grid.rows).flat_map(|(_, row)| row);
        assert_eq!(all.filter(|share| share.is_finite()).count(), 4);
    }
}
