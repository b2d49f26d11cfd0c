//! Real links of Fluxline: shared memory, Ethernet, and UDP in batches, behind one programming
//! model.
//!
//! [`open`] opens a node on a link; its URL is the only part of a program that names the link:
//!
//! | URL | link |
//! | --- | --- |
//! | `shm://GROUP/NODE[?group=HOSTGROUP]` | shared memory of this host |
//! | `udp://ADDRESS[:PORT][/NAME]` | RoCEv2 over a UDP socket |
//! | `xdp://INTERFACE[:PORT][/NAME]` | RoCEv2 past the kernel (AF_XDP) |
//! | `sim:ethernet/WORLD/NODE?nodes=N` | the same endpoint as `udp://`, on a simulated switch |
//! | `sim:sci/WORLD/NODE?nodes=N` | a simulated network in virtual time; a thread for each node |
//!
//! Simulated links are those of a program that called `fluxline_sim::register()`.
//! [`open_threads`] opens several nodes at one address, each for a thread of its own.
//!
//! [`fabric`] is the programming model: regions, puts, messages, notifications, completions.
//! [`node`] opens a [`Node`], whose calls wait; [`open`] opens the poll interface below it.
//!
//! ```
//! use fluxline::Span;
//! use fluxline::fabric::*;
//!
//! let patience = Span::from_s(10);
//! let mut builder = fluxline::node("shm://front-page/builder")?;
//! let grant = Grant { rights: Rights::PUT, key: Key(0x5EED) };
//! let region = builder.export("samples", grant, 4096)?;
//!
//! let mut board = fluxline::node("shm://front-page/board")?; // in life, another process
//! # let board = std::thread::spawn(move || {
//! let endpoint = board.connect("builder", Reliability::Reliable, patience)?;
//! let remote = board.import(endpoint, "samples", Key(0x5EED), patience)?.remote;
//! let (from, to) = (Local::Bytes(b"sample"), Target { remote, offset: 0 });
//! let put = Work::Put { from, to, notify: Some(42), complete_at: Some(Level::Placed) };
//! board.post(endpoint, 1, put, patience)?;
//! board.wait_for(endpoint, 1, patience)?; // the bytes are in the builder's memory
//! # Ok::<(), fluxline::NodeError>(())
//! # });
//!
//! assert_eq!(builder.wait_notified(region, patience)?.value, 42); // after the bytes are in place
//! # while !board.is_finished() {
//! #     let _ = builder.next_completion(Span::from_ms(1)); // answers it
//! # }
//! # board.join().expect("it does not panic")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Sensors that send plain UDP need no fabric: [`udp`] receives datagrams in batches, straight into
//! the slots of a [`ring`](mod@ring).
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
//!
//! Everything here is Linux. System calls and shared memory live in `sys`, the only folder with
//! unsafe code; all that this crate exports is safe, except the address of a compiled filter
//! ([`compiled`]).
#![deny(unsafe_code)]

pub mod clock;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(not(loom))]
pub mod host;
pub mod hosts;
pub mod kernel;
#[cfg(not(loom))] // The models do not include its memory, nor that of `roce`.
pub mod landing;
pub mod measured;
#[cfg(not(loom))]
pub mod memory;
#[cfg(not(loom))]
mod open;
pub mod pin;
pub mod push;
pub mod ring;
#[cfg(not(loom))]
pub mod roce;
pub mod shm;
mod sys;
mod threads;
pub mod udp;
#[cfg(not(loom))]
pub mod xdp;

pub use fluxline_core::fabric::node::{Node, NodeError};
pub use fluxline_core::{Moment, Span, fabric};
#[cfg(not(loom))]
pub use open::{
    OpenError, node, open, open_threads, shm_names, shm_url, udp_address, xdp_interface,
};
pub use sys::compiled;
