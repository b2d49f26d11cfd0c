//! Traffic for any network, and its measurement.

mod host;
pub mod loaded;
pub mod observer;
pub mod statistics;
pub mod sweep;
mod tickets;
pub mod traffic;

pub use loaded::{Answer, Arrived, Carrier, Loaded, Settings};
pub use tickets::Ticket;
