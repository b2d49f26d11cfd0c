//! Routes between nodes on any graph, and the exact proof that they cannot deadlock.
//!
//! This module knows graphs alone: no time, no packets, no model of a network. It serves the models
//! and the network manager alike.
//!
//! ```
//! use fluxline_sim::routes::{self, Dependencies, End, Graph, Root};
//!
//! // A ring of five switches: port 0 goes to the next one, port 1 to the one before.
//! let mut graph = Graph::new(5, 2)?;
//! for node in 0..5 {
//!     graph.join(End { node, port: 0 }, End { node: (node + 1) % 5, port: 1 })?;
//! }
//! // Shortest paths on a ring wait for each other in a circle.
//! let shortest = routes::shortest(&graph);
//! let cycle = Dependencies::of(&graph, &shortest)?.cycle().expect("a cycle");
//! assert_eq!(cycle.channels.len(), 5);
//! // Other routes do not, not even together with each other.
//! let updown = routes::updown(&graph, Root::Central);
//! assert!(Dependencies::of(&graph, &updown)?.cycle().is_none());
//! assert_eq!(updown.route(&graph, 4, 0).expect("a path").ports, [0]);
//! // After a fault: remove the link, and compute again.
//! graph.remove_link(End { node: 1, port: 0 });
//! let nue = routes::nue(&graph, 1);
//! assert_eq!(nue.route(&graph, 1, 2).expect("a path").ports, [1, 1, 1, 1]);
//! # Ok::<(), String>(())
//! ```
//!
//! * [`Graph`] has the nodes, their ports and the links. Links are removed from it.
//! * [`Routes`] has a path for each pair of nodes, and its virtual layer. A pair in different parts
//!   of the graph has none.
//! * [`shortest`], [`updown`] and [`nue`] compute routes; [`Shape`] has dimension order.
//! * [`Dependencies`] is the channel dependency graph of one set of routes, or of several that are
//!   in use at the same time. [`Dependencies::cycle`] returns a cycle, if there is one. Without
//!   cycles, packets that follow these routes never wait for each other in a circle.
//!
//! Paths of [`updown`] and [`nue`] depend on their source, as source routing allows. A table that
//! forwards by target alone needs [`UpDown::table_to`].

mod acyclic;
mod dependencies;
mod graph;
mod nue;
mod search;
mod set;
mod shape;
mod shortest;
mod updown;

pub use dependencies::{Channel, Cycle, Dependencies};
pub use graph::{End, Graph, NONE};
pub use nue::nue;
pub use set::{Route, Routes, Walk};
pub use shape::Shape;
pub use shortest::shortest;
pub use updown::{Root, UpDown, updown};

#[cfg(test)]
mod tests;
