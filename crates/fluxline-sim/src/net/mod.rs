//! The networks. Each has a folder of its own.

pub mod router;
pub mod sci;
