//! The networks. Each has a folder of its own.

pub mod atoll;
pub mod ethernet;
pub mod myrinet;
pub mod plain;
pub mod router;
pub mod sci;
