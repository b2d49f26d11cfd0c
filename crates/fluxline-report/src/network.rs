//! A drawing of a network as data: nodes, links, and the states that they take.

/// Nodes and links whose colours show a number in several states, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// The heading.
    pub title: String,
    /// The unit of the numbers.
    pub unit: String,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The links, each in one direction.
    pub links: Vec<Link>,
    /// The links of a path that is marked, in its order; empty: none is.
    pub path: Vec<usize>,
    /// The states, in the order of time; the last one is shown first.
    pub states: Vec<State>,
}

/// A point of the drawing; neighbours are about 1 apart. y grows downwards.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// To the right.
    pub x: f64,
    /// Down the page.
    pub y: f64,
}

/// A node or a switch.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The name.
    pub label: String,
    /// The position.
    pub at: Point,
    /// True if it is a switch, which is drawn as a square.
    pub is_switch: bool,
}

/// A link from one node to another.
#[derive(Clone, Debug, Default)]
pub struct Link {
    /// The name.
    pub label: String,
    /// The index of the node at its start.
    pub from: usize,
    /// The index of the node at its end.
    pub to: usize,
    /// The distance to the right of the straight line, in lanes; 0: on it.
    pub lane: f64,
    /// The direction in which a link leaves the drawing, which it enters again at the other side.
    pub wraps: Option<Point>,
}

/// The network in one state.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The name, such as a time.
    pub label: String,
    /// Sentences about this state.
    pub note: String,
    /// The number of each link; one that is not finite has no colour.
    pub values: Vec<f64>,
    /// Links that are dead.
    pub dead_links: Vec<usize>,
    /// Nodes that are dead.
    pub dead_nodes: Vec<usize>,
    /// Links that wait for each other in a circle.
    pub circle: Vec<usize>,
}
