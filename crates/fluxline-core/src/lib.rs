//! The core of Fluxline: time, datagrams, counters, the programming model, RoCEv2 on the wire and
//! the reliable endpoint.
//!
//! This crate owns no socket, no clock, no thread, no randomness and no unsafe code: time is an
//! argument, bytes are an argument. That is why the same code runs in real and in virtual time.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod counters;
pub mod datagram;
pub mod endpoint;
pub mod fabric;
pub mod guesses;
pub mod lock;
pub mod planted;
pub mod port;
pub mod random;
pub mod roce;
pub mod text;
pub mod time;

pub use datagram::{Datagram, SenderAddress};
pub use time::{Moment, Span};
