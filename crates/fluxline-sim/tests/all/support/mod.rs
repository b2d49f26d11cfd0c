//! Pairs of nodes, and loads of SCI networks, for the tests of several modules.

pub mod flows;
pub mod pairs;
pub mod sci_load;
