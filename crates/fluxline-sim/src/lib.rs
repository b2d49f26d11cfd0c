//! Virtual time: hosts, buses, links and switches as models that carry real bytes.
//!
//! A model is a state that handles [`Agenda`] entries. The agenda returns entries in order of time;
//! entries of equal times keep the order in which they were scheduled. Nothing here reads a clock,
//! and all randomness comes from a seed: a run repeats to the byte, as its [`Fingerprint`] shows.

#![forbid(unsafe_code)]

pub mod core;
pub mod fabric;
pub mod host;
pub mod load;
pub mod net;
mod register;
pub mod report;
pub mod reproduce;
pub mod routes;
pub mod scenario;
pub mod threads;
pub mod topo;
pub mod world;

pub use self::core::agenda::Agenda;
pub use self::core::fingerprint::Fingerprint;
pub use self::core::model::{Entry, Model};
pub use self::core::time::{Clock, Duration, Instant};
pub use self::register::register;
