//! Real links of Fluxline: the push ring, UDP in batches, what the kernel dropped on the way.
//!
//! Everything here is Linux. System calls and the ring's memory live in `sys`, the only place
//! with unsafe code; what this crate exports is safe.
//!
//! ```
//! use std::time::Duration;
//!
//! use fluxline::ring::{RingConfig, SLOT_BYTES_ANY, ring};
//! use fluxline::udp::{ReceiverConfig, SenderConfig, UdpReceiver, UdpSender};
//!
//! let mut receiver = UdpReceiver::bind(ReceiverConfig::new("127.0.0.1:0".parse()?))?;
//! let address = receiver.local_addresses().next().ok_or("one socket was asked for")?;
//! let mut sender = UdpSender::open(SenderConfig::new(address))?;
//! assert_eq!(sender.send(&[b"one".as_slice(), b"two", b"3"])?.accepted, 3);
//!
//! let (mut producer, mut consumer) = ring(&RingConfig { slots: 8, slot_bytes: SLOT_BYTES_ANY })?;
//! receiver.receive_into(&mut producer, Duration::from_secs(1))?;
//! let filled = consumer.peek(); // read in place
//! let slots = filled.len();
//! let datagrams: Vec<&[u8]> =
//!     filled.flat_map(|slot| slot.datagrams()).map(|datagram| datagram.bytes).collect();
//! assert_eq!(datagrams, [b"one".as_slice(), b"two", b"3"]);
//! consumer.release(slots);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

pub mod clock;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(not(loom))]
pub mod host;
pub mod kernel;
#[cfg(not(loom))] // Its memory is no part of the models; nor is that of `roce`.
pub mod landing;
pub mod measured;
#[cfg(not(loom))]
mod open;
pub mod pin;
pub mod push;
pub mod ring;
#[cfg(not(loom))]
pub mod roce;
pub mod shm;
mod sys;
pub mod udp;
#[cfg(not(loom))]
pub mod xdp;

#[cfg(not(loom))]
pub use open::{OpenError, open, shm_names, udp_address, xdp_interface};
