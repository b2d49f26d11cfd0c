//! Traffic for any network, and its measurement.

pub mod loaded;
pub mod observer;
pub mod statistics;
pub mod sweep;
pub mod traffic;

pub use loaded::{Answer, Arrived, Carrier, Loaded, Settings};
