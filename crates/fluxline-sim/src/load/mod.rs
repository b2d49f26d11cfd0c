//! Traffic for any network, and its measurement.

mod carrier;
mod host;
pub mod loaded;
pub mod observer;
pub mod statistics;
pub mod sweep;
mod tickets;
pub mod traffic;

pub use carrier::{Answer, Arrived, Carrier};
pub use loaded::{Loaded, Settings};
pub use tickets::Ticket;
