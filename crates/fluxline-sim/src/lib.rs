//! Virtual time: hosts, buses, links and switches as models that carry real bytes.
//!
//! A model is a state that handles [`Agenda`] entries; the agenda hands them out in order of time,
//! equal times in the order in which they were scheduled. Nothing here reads a clock, and all that
//! is random comes from a seed: a run repeats to the byte, which its [`fingerprint`] shows.

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
