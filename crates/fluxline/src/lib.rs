//! Real links of Fluxline: the push ring, UDP sockets in batches, what the kernel dropped on the way.
//!
//! Everything here is Linux. System calls and the ring's memory live in `sys`, the only place
//! with unsafe code; what this crate exports is safe.
#![deny(unsafe_code)]

pub mod clock;
pub mod doctor;
pub mod kernel;
pub mod pin;
pub mod ring;
mod sys;
pub mod udp;
