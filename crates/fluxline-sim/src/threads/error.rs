//! The reasons why a node of a world cannot be opened.

use fluxline_core::fabric::NameError;

use crate::scenario::url;

/// A reason why a node of a simulated world cannot be opened, in one sentence.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OpenError {
    /// The URL has no world or no node.
    #[error(
        "{url:?} names no node of a simulated world; write sim:sci/WORLD/NODE?nodes=N, for example \
         sim:sci/lab/builder?nodes=2 or sim:ethernet/lab/builder?nodes=2"
    )]
    Shape {
        /// The given URL.
        url: String,
    },
    /// The name of the world or of the node is not legal.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The network or its keys are wrong, or the network cannot be built.
    #[error(transparent)]
    Network(#[from] url::OpenError),
    /// The keys differ from those of the nodes that came first.
    #[error(
        "world {world:?} has other settings: {first:?} came first, and now {url:?}; give all its \
         nodes the same keys"
    )]
    Settings {
        /// The world.
        world: String,
        /// The URL that came first.
        first: String,
        /// The given URL.
        url: String,
    },
    /// The node is open already.
    #[error("node {node:?} of world {world:?} is open already; give each node its own name")]
    Taken {
        /// The world.
        world: String,
        /// The node.
        node: String,
    },
    /// The world has all its nodes.
    #[error(
        "world {world:?} has all of its {nodes} nodes; write a larger nodes=, or another world's \
         name"
    )]
    Full {
        /// The world.
        world: String,
        /// The number of its nodes.
        nodes: usize,
    },
    /// The other nodes did not come.
    #[error(
        "world {world:?} has {} of {nodes} nodes after {seconds} s ({}); open the others in this \
         process, each on a thread of its own, or write nodes={}", present.len(),
         present.join(", "), present.len()
    )]
    Missing {
        /// The world.
        world: String,
        /// The number of its nodes.
        nodes: usize,
        /// The names of the nodes that came.
        present: Vec<String>,
        /// The time of waiting \[s\].
        seconds: u64,
    },
}
