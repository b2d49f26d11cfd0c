//! Shared parts of the tests.

#![allow(dead_code, reason = "each test uses a part")]

#[cfg(feature = "client")]
pub mod broker;
pub mod built;
pub mod cluster_world;
pub mod ess;
#[cfg(feature = "client")]
pub mod runs;
pub mod worked;
pub mod world;
pub mod wrapped_log;
