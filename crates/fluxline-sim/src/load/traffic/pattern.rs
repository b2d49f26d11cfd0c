//! The receivers of a node's messages.

use fluxline_core::random::Draw;

use super::PlanError;

/// Targets of the nodes' messages. No node sends to itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Every other node, equally often.
    Uniform,
    /// The node `distance` further, around the end.
    Neighbour {
        /// The distance; not a multiple of the number of nodes.
        distance: u32,
    },
    /// One node gets a share of all messages of the others; the rest is uniform.
    HotReceiver {
        /// The node.
        node: u32,
        /// The share, 0 to 1.
        share: f64,
    },
    /// One node sends `factor` times as much as each of the others; targets are uniform.
    HotSender {
        /// The node.
        node: u32,
        /// The number of times the others' load; above 0.
        factor: f64,
    },
    /// Node i to node n-1-i, which for powers of two inverts every bit. A middle node is silent.
    BitComplement,
    /// Row and column exchanged; n is a square. The diagonal is silent.
    Transpose,
}

impl Pattern {
    pub(super) fn check(&self, nodes: u32) -> Result<(), PlanError> {
        let fail = |text: String| Err(PlanError(text));
        if nodes < 2 {
            return fail(format!("{nodes} nodes: there must be 2 or more"));
        }
        match *self {
            Pattern::Neighbour { distance } if distance % nodes == 0 => {
                fail(format!("neighbours {distance} apart among {nodes} nodes are the node itself"))
            }
            Pattern::HotReceiver { node, .. } | Pattern::HotSender { node, .. }
                if node >= nodes =>
            {
                fail(format!("hot node {node}: nodes go from 0 to {}", nodes - 1))
            }
            Pattern::HotReceiver { share, .. } if !(0.0..=1.0).contains(&share) => {
                fail(format!("a share of {share} for the hot receiver: give 0 to 1"))
            }
            Pattern::HotSender { factor, .. } if !(factor > 0.0 && factor.is_finite()) => {
                fail(format!("a factor of {factor} for the hot sender: give a positive number"))
            }
            Pattern::Transpose if nodes.isqrt().pow(2) != nodes => {
                fail(format!("transpose needs a square number of nodes, not {nodes}"))
            }
            _ => Ok(()),
        }
    }

    /// Returns a node's load as a multiple of the plan's load; 0 for a silent node.
    #[must_use]
    pub fn weight(&self, source: u32, nodes: u32) -> f64 {
        let is_silent = match *self {
            Pattern::HotSender { node, factor } => {
                return if node == source { factor } else { 1.0 };
            }
            Pattern::BitComplement => nodes - 1 - source == source,
            Pattern::Transpose => source / nodes.isqrt() == source % nodes.isqrt(),
            _ => false,
        };
        if is_silent { 0.0 } else { 1.0 }
    }

    /// Returns the receiver of a source's next message.
    pub(super) fn target(&self, source: u32, nodes: u32, draw: &mut Draw) -> u32 {
        match *self {
            Pattern::Neighbour { distance } => {
                ((u64::from(source) + u64::from(distance)) % u64::from(nodes)) as u32
            }
            Pattern::HotReceiver { node, share } if source != node && draw.chance(share) => node,
            Pattern::BitComplement => nodes - 1 - source,
            Pattern::Transpose => {
                let side = nodes.isqrt();
                source % side * side + source / side
            }
            Pattern::Uniform | Pattern::HotReceiver { .. } | Pattern::HotSender { .. } => {
                let other = draw.below(u64::from(nodes) - 1) as u32;
                other + u32::from(other >= source)
            }
        }
    }
}
