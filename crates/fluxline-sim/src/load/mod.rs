//! Traffic for any network, and its measurement.

pub mod observer;
pub mod statistics;
pub mod sweep;
pub mod traffic;
