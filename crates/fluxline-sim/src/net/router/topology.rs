//! Rings, meshes, tori and graphs: the neighbours of routers and the routes of packets.

use super::error::NetworkError;
use super::graph::Graph;

/// No router: the edge of a mesh.
pub const NONE: u32 = u32::MAX;
/// Most dimensions: the largest machines built as tori have 6.
pub const DIMENSIONS_MAX: usize = 6;
/// Most routers. Assumed: numbers of links and channels stay below 2^32.
const ROUTERS_MAX: u64 = 1 << 20;

/// The link from the last router of a dimension to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrap {
    /// Joined: a ring, a torus.
    Ring,
    /// Not joined: a mesh.
    Line,
}

/// Links of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// Up and down.
    Both,
    /// Up only, as in SCI's rings.
    Up,
}

/// One dimension of the grid of routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Routers along it, 2 to 65535.
    pub routers: u32,
    /// The link from the last router to the first.
    pub wrap: Wrap,
    /// The links.
    pub ways: Ways,
}

/// The rule for packets that cross the end of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dateline {
    /// They change to other channels, which takes two channels and prevents deadlock.
    Kept,
    /// They keep their channels: rings can deadlock, and a run reports it.
    Ignored,
}

/// An output of a router, and the channels that a packet may use on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The port: 2d up and 2d+1 down in dimension d; the last port leads to the node.
    pub port: u8,
    /// The channels of the link.
    pub class: Class,
}

/// Channels that a packet may use on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// All channels.
    Any,
    /// The lower half: it will still cross the dateline of this ring.
    Before,
    /// The upper half: it will not.
    After,
}

/// Routers in a grid, numbered with the first dimension fastest.
#[derive(Clone, Debug)]
pub struct Topology {
    dimensions: Vec<Dimension>,
    dateline: Dateline,
    /// Coordinates of each router, dimension by dimension.
    coordinates: Vec<u16>,
    routers: u32,
    /// The links and routes if the routers are not in a grid.
    graph: Option<Graph>,
}

impl Topology {
    /// # Errors
    /// When there is no dimension, one is too small, or a line has one way only.
    pub fn new(dimensions: &[Dimension], dateline: Dateline) -> Result<Topology, NetworkError> {
        let fail = |text: String| Err(NetworkError(text));
        if dimensions.is_empty() || dimensions.len() > DIMENSIONS_MAX {
            return fail(format!("{} dimensions: give 1 to {DIMENSIONS_MAX}", dimensions.len()));
        }
        for dimension in dimensions {
            if dimension.routers < 2 || dimension.routers > u32::from(u16::MAX) {
                return fail(format!(
                    "a dimension of {} routers: give 2 to 65535",
                    dimension.routers
                ));
            }
            if dimension.wrap == Wrap::Line && dimension.ways == Ways::Up {
                return fail("a line with one way: its end could not reach its start".into());
            }
        }
        let routers = dimensions.iter().try_fold(1_u64, |product, dimension| {
            product.checked_mul(u64::from(dimension.routers)).filter(|&all| all <= ROUTERS_MAX)
        });
        let Some(routers) = routers else {
            return fail(format!("more than {ROUTERS_MAX} routers"));
        };
        let mut coordinates = Vec::with_capacity(routers as usize * dimensions.len());
        for router in 0..routers {
            let mut rest = router;
            for dimension in dimensions {
                coordinates.push((rest % u64::from(dimension.routers)) as u16);
                rest /= u64::from(dimension.routers);
            }
        }
        let dimensions = dimensions.to_vec();
        Ok(Topology { dimensions, dateline, coordinates, routers: routers as u32, graph: None })
    }

    /// Makes the topology of a graph.
    #[must_use]
    pub fn of_graph(graph: Graph) -> Topology {
        Topology {
            dimensions: Vec::new(),
            dateline: Dateline::Ignored,
            coordinates: Vec::new(),
            routers: graph.nodes(),
            graph: Some(graph),
        }
    }

    /// Returns the number of routers, each with one node.
    #[must_use]
    pub fn routers(&self) -> u32 {
        self.routers
    }

    /// Returns the number of ports of a router: two for each dimension, or as many as a router of a
    /// graph has links, and one for the node.
    #[must_use]
    pub fn ports(&self) -> u32 {
        self.local_port() + 1
    }

    /// Returns the number of the port to the node.
    #[must_use]
    pub fn local_port(&self) -> u32 {
        self.graph.as_ref().map_or(2 * self.dimensions.len() as u32, Graph::degree)
    }

    /// Returns the router behind a port, or [`NONE`] at an edge.
    #[must_use]
    pub fn neighbour(&self, router: u32, port: u32) -> u32 {
        if let Some(graph) = &self.graph {
            return graph.end(router, port).map_or(NONE, |end| end.router);
        }
        let Some(dimension) = self.dimensions.get(port as usize / 2) else { return NONE };
        let stride: u32 = self.dimensions[..port as usize / 2].iter().map(|d| d.routers).product();
        let at = router / stride % dimension.routers;
        let is_up = port.is_multiple_of(2);
        let edge = if is_up { dimension.routers - 1 } else { 0 };
        match (is_up, at == edge) {
            (false, _) if dimension.ways == Ways::Up => NONE,
            (_, true) if dimension.wrap == Wrap::Line => NONE,
            (true, true) => router - (dimension.routers - 1) * stride,
            (false, true) => router + (dimension.routers - 1) * stride,
            (true, false) => router + stride,
            (false, false) => router - stride,
        }
    }

    /// Returns true if the routers are those of a graph, not of a grid.
    #[must_use]
    pub fn is_graph(&self) -> bool {
        self.graph.is_some()
    }

    /// Returns the port of the neighbour behind a port that leads back.
    #[must_use]
    pub fn back(&self, router: u32, port: u32) -> u32 {
        match &self.graph {
            Some(_) => self.entrance(router, port),
            None => port ^ 1,
        }
    }

    /// Returns the port of the neighbour at which packets of `port` arrive. In a grid, packets that
    /// go up arrive at the port of the way up.
    #[must_use]
    pub(super) fn entrance(&self, router: u32, port: u32) -> u32 {
        let end = self.graph.as_ref().and_then(|graph| graph.end(router, port));
        end.map_or(port, |end| end.port)
    }

    fn at(&self, router: u32) -> &[u16] {
        let count = self.dimensions.len();
        &self.coordinates[router as usize * count..][..count]
    }

    /// Returns the first step of a route: dimension by dimension, the shorter way round. If both
    /// ways are equal, even coordinates go up. On a ring whose dateline is kept, packets that will
    /// cross it use channels of their own, so that no channel waits for itself. Source: W. Dally,
    /// C. Seitz, "Deadlock-free message routing in multiprocessor interconnection networks", IEEE
    /// Trans. Comp. C-36 (1987).
    #[must_use]
    #[inline]
    pub fn route(&self, router: u32, to: u32) -> Route {
        if let Some(graph) = &self.graph {
            let is_here = router == to;
            let port = if is_here { self.local_port() as u8 } else { graph.port(router, to) };
            return Route { port, class: Class::Any };
        }
        let pairs = self.at(router).iter().zip(self.at(to)).zip(&self.dimensions);
        for (index, ((&here, &there), dimension)) in pairs.enumerate() {
            if here == there {
                continue;
            }
            let is_up = goes_up(u32::from(here), u32::from(there), dimension);
            let port = 2 * index as u8 + u8::from(!is_up);
            let class = match (dimension.wrap, self.dateline) {
                (Wrap::Line, _) | (_, Dateline::Ignored) => Class::Any,
                _ if is_up == (here > there) => Class::Before,
                _ => Class::After,
            };
            return Route { port, class };
        }
        Route { port: self.local_port() as u8, class: Class::Any }
    }

    /// Returns the number of links on the route between two routers.
    #[must_use]
    pub fn hops(&self, from: u32, to: u32) -> u32 {
        if self.graph.is_some() {
            let (mut at, mut hops) = (from, 0);
            while at != to {
                at = self.neighbour(at, u32::from(self.route(at, to).port));
                hops += 1;
            }
            return hops;
        }
        let pairs = self.at(from).iter().zip(self.at(to)).zip(&self.dimensions);
        let of = |((&here, &there), dimension): ((&u16, &u16), &Dimension)| {
            let (here, there) = (u32::from(here), u32::from(there));
            let up = (there + dimension.routers - here) % dimension.routers;
            if goes_up(here, there, dimension) {
                if dimension.wrap == Wrap::Line { there.abs_diff(here) } else { up }
            } else if dimension.wrap == Wrap::Line {
                there.abs_diff(here)
            } else {
                (dimension.routers - up) % dimension.routers
            }
        };
        pairs.map(of).sum()
    }
}

fn goes_up(here: u32, there: u32, dimension: &Dimension) -> bool {
    if dimension.ways == Ways::Up {
        return true;
    }
    if dimension.wrap == Wrap::Line {
        return there > here;
    }
    let up = if there >= here { there - here } else { there + dimension.routers - here };
    2 * up < dimension.routers || (2 * up == dimension.routers && here.is_multiple_of(2))
}

#[cfg(test)]
mod tests {
    use super::{Dateline, Dimension, NONE, Topology, Ways, Wrap};

    fn walk(topology: &Topology, from: u32, to: u32) -> u32 {
        let (mut at, mut steps) = (from, 0);
        while at != to {
            at = topology.neighbour(at, u32::from(topology.route(at, to).port));
            assert_ne!(at, NONE);
            steps += 1;
            assert!(steps <= 64, "{from} to {to} goes round and round");
        }
        steps
    }

    #[test]
    fn every_pair_is_joined_by_as_many_links_as_stated_and_no_more_than_half_way_round() {
        for (wrap, ways) in
            [(Wrap::Ring, Ways::Both), (Wrap::Line, Ways::Both), (Wrap::Ring, Ways::Up)]
        {
            let of = |routers| Dimension { routers, wrap, ways };
            let topology =
                Topology::new(&[of(5), of(4), of(2)], Dateline::Kept).expect("a topology");
            for from in 0..40 {
                for to in 0..40 {
                    let steps = walk(&topology, from, to);
                    assert_eq!(steps, topology.hops(from, to));
                    assert!(ways == Ways::Up || wrap == Wrap::Line || steps <= 2 + 2 + 1);
                }
            }
        }
    }

    #[test]
    fn a_line_ends_and_a_ring_does_not() {
        let of = |wrap| Dimension { routers: 4, wrap, ways: Ways::Both };
        let line = Topology::new(&[of(Wrap::Line)], Dateline::Kept).expect("a line");
        assert_eq!((line.neighbour(3, 0), line.neighbour(0, 1)), (NONE, NONE));
        let ring = Topology::new(&[of(Wrap::Ring)], Dateline::Kept).expect("a ring");
        assert_eq!((ring.neighbour(3, 0), ring.neighbour(0, 1)), (0, 3));
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        let of = |routers, wrap, ways| Dimension { routers, wrap, ways };
        for (shape, part) in [
            (vec![], "0 dimensions"),
            (vec![of(1, Wrap::Ring, Ways::Both)], "1 routers"),
            (vec![of(4, Wrap::Line, Ways::Up)], "one way"),
            (vec![of(60_000, Wrap::Ring, Ways::Both); 4], "more than"),
        ] {
            let error = Topology::new(&shape, Dateline::Kept).expect_err("refused").to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
