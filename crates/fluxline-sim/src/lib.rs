//! Virtual time: hosts, buses, links and switches as models that carry real bytes.
//!
//! A model is a state that handles [`Agenda`] entries. The agenda returns entries in order of time;
//! entries of equal times keep the order in which they were scheduled. Nothing here reads a clock,
//! and all randomness comes from a seed: a run repeats to the byte, as its [`fingerprint`] shows.

#![forbid(unsafe_code)]

pub mod agenda;
pub mod ahead;
pub mod clock;
pub mod cluster;
pub mod dump;
pub mod fingerprint;
pub mod host;
pub mod model;
pub mod network;
pub mod open;
pub mod report;
pub mod reproduce;
pub mod scenario;
pub mod sci;
pub mod statistics;
pub mod sweep;
pub mod threads;
pub mod time;
pub mod trace;
pub mod traffic;

pub use agenda::Agenda;
pub use fingerprint::Fingerprint;
pub use model::{Entry, Model};
pub use time::{Clock, Duration, Instant};
