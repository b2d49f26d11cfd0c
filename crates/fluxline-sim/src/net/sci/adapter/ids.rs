//! The addresses of a cluster's nodes, by their numbers and back.

use crate::net::sci::NodeId;

/// The addresses of all nodes, in the order of their numbers.
#[derive(Debug)]
pub struct Ids {
    list: Vec<NodeId>,
    /// The numbers by address.
    numbers: Vec<Option<u32>>,
}

impl Ids {
    /// Takes the addresses of the nodes 0, 1, and so on.
    #[must_use]
    pub fn new(list: Vec<NodeId>) -> Ids {
        let last = list.iter().map(|id| usize::from(id.0)).max();
        let mut numbers = vec![None; last.map_or(0, |last| last + 1)];
        for (number, id) in (0..).zip(&list) {
            numbers[usize::from(id.0)] = Some(number);
        }
        Ids { list, numbers }
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns true if the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the address of a node.
    ///
    /// # Panics
    /// When the number is not below the number of nodes.
    #[must_use]
    pub fn id(&self, number: u32) -> NodeId {
        self.list[number as usize]
    }

    /// Returns the number of an address, if it is a node's.
    #[must_use]
    pub fn number(&self, id: NodeId) -> Option<u32> {
        self.numbers.get(usize::from(id.0)).copied().flatten()
    }
}
