//! Dimension order on grids and tori of any number of dimensions.

/// The ends of each row of a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Nodes along each dimension; node numbers count along the first one fastest.
    pub sides: Vec<u32>,
    /// True if the ends of every row are joined.
    pub is_torus: bool,
}

impl Shape {
    /// Returns the first port of the way from one node to another, dimension by dimension, the
    /// shorter way round; `None`: it is the same node. Of two equal ways round, nodes at even
    /// coordinates go up. On a grid, these routes cannot deadlock; on a torus they can.
    #[must_use]
    pub fn port(&self, node: u32, target: u32) -> Option<u32> {
        let (mut here, mut there) = (node, target);
        for (dimension, &side) in (0..).zip(&self.sides) {
            let (at, to) = (here % side, there % side);
            if at != to {
                let up = (to + side - at) % side;
                let is_half = 2 * up == side && at.is_multiple_of(2);
                let goes_up = if self.is_torus { 2 * up < side || is_half } else { to > at };
                return Some(2 * dimension + u32::from(!goes_up));
            }
            (here, there) = (here / side, there / side);
        }
        None
    }
}
