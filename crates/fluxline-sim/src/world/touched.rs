//! Nodes for which something may follow from what has just happened.

/// A set of nodes, taken by the smallest number first. It has one or two nodes nearly always.
#[derive(Debug, Default)]
pub struct Touched {
    /// The largest first.
    nodes: Vec<u32>,
}

impl Touched {
    /// Adds a node.
    pub fn insert(&mut self, node: u32) {
        if let Err(place) = self.nodes.binary_search_by(|other| node.cmp(other)) {
            self.nodes.insert(place, node);
        }
    }

    /// Removes the node with the smallest number.
    pub fn pop_first(&mut self) -> Option<u32> {
        self.nodes.pop()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fluxline_core::random::Draw;

    use super::Touched;

    #[test]
    fn touched_nodes_come_as_from_a_tree() {
        println!("seed 1");
        let mut draw = Draw::new(1);
        let (mut touched, mut tree) = (Touched::default(), BTreeSet::new());
        for _ in 0..20_000 {
            for _ in 0..draw.below(4) {
                let node = draw.below(50) as u32;
                touched.insert(node);
                tree.insert(node);
            }
            for _ in 0..draw.below(4) {
                assert_eq!(touched.pop_first(), tree.pop_first());
            }
        }
    }
}
