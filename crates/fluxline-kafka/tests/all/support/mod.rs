//! Shared parts of the tests.

#[cfg(feature = "client")]
pub mod broker;
pub mod cluster;
pub mod ess;
#[cfg(feature = "client")]
pub mod runs;
pub mod world;
